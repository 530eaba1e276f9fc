"""Streams: whatever happens to segments on their way into a capture, the bytes stay what was sent."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import transforms as t
from transforms import CAPTURES, Packet, conversation

from dissector.capture import Chunk, End, Gap, Streams, open_capture_files

SHIPPED = sorted(p for p in CAPTURES.rglob("*.pcap*") if p.suffix in (".pcap", ".pcapng"))
SMALL = ["pg13-small.pcap", "pg15-proto3.pcap"]
"""One over IPv4 and one over IPv6, small enough to be changed in every way."""


class Result:
    """Everything that Streams hands on for one capture, checked for the promises of the package."""

    def __init__(self, paths: list[Path], **options: int) -> None:
        self.chunks: dict[tuple[int, int], list[Chunk]] = {}
        self.gaps: dict[tuple[int, int], list[Gap]] = {}
        self.ends: dict[tuple[int, int], list[End]] = {}
        self.found = []
        self.rows: list[tuple[int, int, int, int]] = []
        place: dict[tuple[int, int], int] = {}
        last_arrival: dict[tuple[int, int], int] = {}
        with open_capture_files(paths, **options) as files:
            self.streams = Streams(files)
            before = 0
            for batch in self.streams.batches():
                assert batch.first == before + 1
                before = batch.last
                self.found += batch.findings
                for event in batch.events:
                    key = event.connection, event.direction
                    assert batch.first <= event.arrival <= batch.last
                    if isinstance(event, End):
                        self.ends.setdefault(key, []).append(event)
                        continue
                    assert event.offset == place.get(key, 0), "events tile the stream"
                    place[key] = event.offset + event.length
                    if isinstance(event, Gap):
                        assert event.length > 0
                        self.gaps.setdefault(key, []).append(event)
                        continue
                    assert len(event.data) == event.length > 0
                    self.chunks.setdefault(key, []).append(event)
                    pieces = event.pieces
                    ends = pieces.offset + pieces.length
                    assert (pieces.offset[1:] == ends[:-1]).all()
                    assert pieces.offset[0] == event.offset
                    assert ends[-1] == event.offset + event.length
                    assert (pieces.arrival >= last_arrival.get(key, 0)).all()
                    assert (np.diff(pieces.arrival.astype(int)) >= 0).all()
                    assert (pieces.arrival >= pieces.frame).all()
                    assert pieces.arrival[-1] <= batch.last
                    last_arrival[key] = int(pieces.arrival[-1])
            self.findings = files.findings + self.streams.findings
            self.connections = self.streams.connections
            for key, chunks in self.chunks.items():
                self._maps_back(files, key, chunks)

    def _maps_back(self, files, key, chunks: list[Chunk]) -> None:
        """The tables find the same bytes again."""
        for chunk in chunks[:3]:
            stop = chunk.offset + chunk.length
            for low, high in ((chunk.offset, stop), (stop - 1, stop), (chunk.offset, stop - 1)):
                pieces = self.streams.pieces(*key, low, high)
                data = b"".join(
                    files.read(int(p), int(n))
                    for p, n in zip(pieces.position, pieces.length, strict=True)
                )
                assert data == chunk.data[low - chunk.offset : high - chunk.offset]

    def sent(self) -> dict[tuple[bytes, int, bytes, int], bytes]:
        """Flow -> bytes, for connections without gaps."""
        result = {}
        for (number, direction), chunks in self.chunks.items():
            ends = self.connections[number].endpoints
            flow: tuple = ()
            for end in (ends[direction], ends[1 - direction]):
                width = 4 if end.version == 4 else 16
                flow += ((end.high << 64 | end.low).to_bytes(width, "big"), end.port)
            result[flow] = result.get(flow, b"") + b"".join(c.data for c in chunks)
        return result


def run(tmp_path: Path, packets: list[Packet], link: str = "ethernet", **options: int) -> Result:
    path = tmp_path / "made.pcap"
    path.write_bytes(t.pcap(t.frames(packets, link), nano=True))
    return Result([path], **options)


def unharmed(result: Result, packets: list[Packet]) -> None:
    """Every byte is there and nothing was found."""
    assert result.sent() == t.streams(packets)
    assert not result.gaps
    assert not result.found
    assert not result.findings


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_captures_are_whole(path: Path) -> None:
    unharmed(Result([path]), t.packets(path))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [1, 7, 61, 536, 1448, "random"])
def test_segment_size_does_not_matter(tmp_path: Path, name: str, size: int | str) -> None:
    packets = t.packets(CAPTURES / name)
    source = random.Random(4)
    step = size if isinstance(size, int) else lambda: source.randrange(1, 900)
    changed = t.resegmented(t.joined(packets, 1448 if size != 1 else 300), step)
    if size == 1:
        changed = changed[:20000]
    unharmed(run(tmp_path, changed), changed)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("batch", [3, 50, 16384])
@pytest.mark.parametrize(
    "change",
    [
        lambda p: t.shuffled(p, 4, 1),
        lambda p: t.shuffled(p, 40, 2),
        lambda p: t.duplicated(p, 1.0, 3),
        lambda p: t.duplicated(p, 0.1, 4, later=30),
        lambda p: t.overlapped(p, 5),
        lambda p: t.shuffled(t.duplicated(t.overlapped(p, 6), 0.2, 7), 6, 8),
        t.wrapped,
        lambda p: t.wrapped(t.shuffled(p, 20, 9), 100),
        lambda p: t.interleaved(p, p, p),
    ],
    ids=[
        "shuffled",
        "shuffled far",
        "all twice",
        "retransmitted",
        "overlapped",
        "all of it",
        "wrapped",
        "wrapped and shuffled",
        "interleaved",
    ],
)
def test_changes_that_lose_nothing(tmp_path: Path, name: str, batch: int, change) -> None:
    changed = change(t.packets(CAPTURES / name))
    unharmed(run(tmp_path, changed, batch_frames=batch), changed)


def test_order_across_directions_is_that_of_arrival(tmp_path: Path) -> None:
    packets = conversation([(0, b"question"), (1, b"answer one"), (0, b"next"), (1, b"two")])
    result = run(tmp_path, packets)
    rows = sorted(
        (int(frame), direction, chunk.data)
        for (_, direction), chunks in result.chunks.items()
        for chunk in chunks
        for frame in chunk.pieces.arrival
    )
    assert [(frame, direction) for frame, direction, _ in rows] == [(4, 0), (6, 1), (8, 0), (10, 1)]
    client, server = result.chunks[0, 0], result.chunks[0, 1]
    assert b"".join(c.data for c in client) == b"questionnext"
    assert b"".join(c.data for c in server) == b"answer onetwo"
    assert [e.kind for e in result.ends[0, 0] + result.ends[0, 1]] == ["fin", "fin"]
    assert result.connections[0].client == 0


def test_bytes_wait_for_what_comes_before_them(tmp_path: Path) -> None:
    packets = conversation([(1, b"aaaa"), (1, b"bbbb"), (1, b"cccc")])
    packets[3], packets[7] = packets[7], packets[3]  # c comes where a was, a where c was
    result = run(tmp_path, packets)
    (chunk,) = result.chunks[0, 1]
    assert chunk.data == b"aaaabbbbcccc"
    assert chunk.pieces.frame.tolist() == [8, 6, 4]
    assert chunk.pieces.arrival.tolist() == [8, 8, 8]


def test_lost_segments_are_gaps_of_the_right_size(tmp_path: Path) -> None:
    packets = conversation([(1, bytes([65 + i]) * (100 + i)) for i in range(20)])
    lost = {3 + 2 * 4, 3 + 2 * 5, 3 + 2 * 11}
    result = run(tmp_path, t.without(packets, lambda i, _: i in lost))
    gaps = [(g.offset, g.length) for g in result.gaps[0, 1]]
    size = [100 + i for i in range(20)]
    assert gaps == [(sum(size[:4]), 104 + 105), (sum(size[:11]), 111)]
    data = b"".join(c.data for c in result.chunks[0, 1])
    assert data == b"".join(bytes([65 + i]) * (100 + i) for i in range(20) if i not in (4, 5, 11))


def test_loss_at_the_end_shows_by_acknowledgement_and_by_fin(tmp_path: Path) -> None:
    packets = conversation([(1, b"x" * 50), (1, b"y" * 60)], fin=False)
    result = run(tmp_path, t.without(packets, lambda i, _: i == 5))
    assert [(g.offset, g.length) for g in result.gaps[0, 1]] == [(50, 60)]
    packets = conversation([(1, b"x" * 50), (1, b"y" * 60)])
    result = run(tmp_path, t.without(packets, lambda i, _: i in (5, 6)))
    assert [(g.offset, g.length) for g in result.gaps[0, 1]] == [(50, 60)]
    assert result.ends[0, 1][0].kind == "fin"


def test_lost_fin_is_not_a_missing_byte(tmp_path: Path) -> None:
    packets = conversation([(1, b"x" * 50)])
    result = run(tmp_path, t.without(packets, lambda i, p: bool(p.flags & t.FIN)))
    assert not result.gaps
    assert {e.kind for ends in result.ends.values() for e in ends} == {"capture"}


@pytest.mark.parametrize("batch", [5, 100, 16384])
def test_random_losses_account_for_every_byte(tmp_path: Path, batch: int) -> None:
    packets = t.packets(CAPTURES / "pg13-small.pcap")
    whole = t.streams(packets)
    source = random.Random(11)
    some = t.without(packets, lambda i, p: not p.flags & t.SYN and source.random() < 0.2)
    result = run(tmp_path, some, batch_frames=batch)
    held: dict[tuple, set[int]] = {flow: set() for flow in whole}
    start = {p.flow: p.seq + 1 for p in packets if p.flags & t.SYN}
    for p in some:
        at = (p.seq - start[p.flow]) & t.MASK
        held[p.flow].update(range(at, at + len(p.payload)))
    client = packets[0].flow
    server = (client[2], client[3], client[0], client[1])
    for direction, flow in ((0, client), (1, server)):
        got: dict[int, int] = {}
        for chunk in result.chunks.get((0, direction), []):
            got.update(enumerate(chunk.data, chunk.offset))
        assert got == {i: whole[flow][i] for i in held[flow]}
        missing = sum(g.length for g in result.gaps.get((0, direction), []))
        assert missing == len(whole[flow]) - len(held[flow])


def test_acknowledged_loss_is_told_while_the_capture_goes_on(tmp_path: Path) -> None:
    packets = conversation([(1, b"z" * 10) for _ in range(2000)])
    result = run(tmp_path, t.without(packets, lambda i, _: i == 23), batch_frames=64)
    (gap,) = result.gaps[0, 1]
    assert (gap.offset, gap.length) == (100, 10)
    assert gap.arrival < 1000, "not only when the capture ends"


def test_unacknowledged_loss_is_told_when_the_window_is_full(tmp_path: Path) -> None:
    packets = [p for p in conversation([(1, b"z" * 1000) for _ in range(200)]) if p.sport == 5432]
    packets = t.without(
        [replace(p, ack=0, flags=p.flags & ~t.ACK) for p in packets], lambda i, p: i == 6
    )
    path = tmp_path / "made.pcap"
    path.write_bytes(t.pcap(t.frames([p for p in packets if not p.flags & t.FIN])))
    with open_capture_files([path], batch_frames=10) as files:
        batches = [b.events for b in Streams(files, window=50_000).batches()]
    told = [i for i, events in enumerate(batches) if any(isinstance(e, Gap) for e in events)]
    assert len(told) == 1
    assert told[0] == pytest.approx(5, abs=1)


def test_first_copy_wins_and_the_other_is_a_finding(tmp_path: Path) -> None:
    packets = conversation([(1, b"the first copy"), (1, b"more")])
    other = replace(packets[3], payload=b"the other copy")
    for place in (4, 6, 8):
        changed = t.retimed([*packets[:place], other, *packets[place:]])
        for batch in (2, 3, 100):
            result = run(tmp_path, changed, batch_frames=batch)
            assert b"".join(c.data for c in result.chunks[0, 1]) == b"the first copymore"
            (found,) = result.found
            assert found.finding.code == "retransmission-differs"
            assert (found.first_frame, found.frame) == (4, place + 1)
            assert (found.offset, found.first[:5], found.other[:5]) == (4, b"first", b"other")


def test_copy_that_brings_more_is_used_for_what_is_new(tmp_path: Path) -> None:
    packets = conversation([(1, b"abcdef"), (1, b"ghi")])
    longer = replace(packets[3], payload=b"abcdefghi")
    result = run(tmp_path, t.retimed([*packets[:4], longer, *packets[7:]]))
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"abcdefghi"
    assert not result.found
    assert not result.gaps


@pytest.mark.parametrize("probe", [b"", b"\0"])
def test_keepalive_probes_are_no_data(tmp_path: Path, probe: bytes) -> None:
    packets = conversation([(1, b"hello"), (1, b"world")])
    seq = (packets[3].seq + 4) & t.MASK
    probes = [replace(packets[3], seq=seq, payload=probe, flags=t.ACK)] * 3
    for batch in (3, 100):
        changed = t.retimed([*packets[:5], *probes, *packets[5:]])
        result = run(tmp_path, changed, batch_frames=batch)
        assert b"".join(c.data for c in result.chunks[0, 1]) == b"helloworld"
        assert not result.found
        assert not result.gaps


def test_syn_on_a_known_pair_begins_a_new_connection(tmp_path: Path) -> None:
    one = conversation([(0, b"first"), (1, b"one")])
    two = conversation([(0, b"second"), (1, b"two")], isn=(7_000_000, 8_000_000))
    for fin in (True, False):
        first = one if fin else one[:-3]
        for batch in (2, 5, 100):
            result = run(tmp_path, t.retimed(first + two), batch_frames=batch)
            assert len(result.connections) == 2
            got = {k: b"".join(c.data for c in v) for k, v in result.chunks.items()}
            assert got == {(0, 0): b"first", (0, 1): b"one", (1, 0): b"second", (1, 1): b"two"}
            assert {e.kind for e in result.ends[0, 0]} == {"fin" if fin else "new"}
            assert not result.gaps


def test_repeated_syn_is_the_same_connection(tmp_path: Path) -> None:
    packets = conversation([(0, b"first"), (1, b"one")])
    again = t.retimed([packets[0], *packets[:2], packets[1], *packets[2:]])
    result = run(tmp_path, again)
    unharmed(result, packets)
    assert len(result.connections) == 1


def test_reset_ends_both_directions(tmp_path: Path) -> None:
    packets = conversation([(0, b"first"), (1, b"one")], fin=False)
    reset = replace(packets[-1], flags=t.RST | t.ACK, payload=b"", time=packets[-1].time + 1)
    result = run(tmp_path, [*packets, reset])
    assert [(e.kind, e.frame) for e in result.ends[0, 0]] == [("rst", len(packets) + 1)]
    assert [(e.kind, e.offset) for e in result.ends[0, 1]] == [("rst", 3)]


def test_one_direction_only(tmp_path: Path) -> None:
    packets = conversation([(0, b"question"), (1, b"answer"), (1, b"more")])
    result = run(tmp_path, [p for p in packets if p.sport == 5432])
    assert b"".join(c.data for c in result.chunks[0, 0]) == b"answermore"
    assert result.connections[0].client == 1, "the SYN+ACK tells who is the server"
    # The server acknowledged the question, so it is known to be missing.
    assert [(g.offset, g.length) for g in result.gaps[0, 1]] == [(0, 8)]


def test_no_handshake(tmp_path: Path) -> None:
    packets = conversation([(0, b"question"), (1, b"answer"), (1, b"more")], handshake=False)
    result = run(tmp_path, packets)
    assert result.connections[0].client is None
    assert b"".join(c.data for c in result.chunks[0, 0]) == b"question"
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"answermore"
    assert not result.gaps
    assert not result.found


def test_mid_session_start_out_of_order(tmp_path: Path) -> None:
    packets = conversation([(1, b"aaa"), (1, b"bb"), (1, b"c")], handshake=False, fin=False)
    packets[0], packets[2] = packets[2], packets[0]
    result = run(tmp_path, t.retimed(packets))
    assert b"".join(c.data for c in result.chunks[0, 0]) == b"aaabbc"
    assert not result.gaps


def test_snap_length_leaves_gaps(tmp_path: Path) -> None:
    packets = conversation([(1, b"A" * 100), (1, b"B" * 20), (1, b"C" * 90)])
    result = run(tmp_path, t.snapped(packets, 40))
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"A" * 40 + b"B" * 20 + b"C" * 40
    assert [(g.offset, g.length) for g in result.gaps[0, 1]] == [(40, 60), (160, 50)]
    assert [f.code for f in result.findings] == ["snap-length"]
    assert result.findings[0].text.startswith("2 packets")


def test_headers_only(tmp_path: Path) -> None:
    packets = conversation([(1, b"A" * 100), (1, b"B" * 20)])
    result = run(tmp_path, t.snapped(packets, 0))
    assert not result.chunks
    assert [(g.offset, g.length) for g in result.gaps[0, 1]] == [(0, 120)]


def test_a_second_copy_fills_what_the_snap_length_cut(tmp_path: Path) -> None:
    packets = conversation([(1, b"A" * 50 + b"B" * 50)])
    cut = t.snapped(packets, 30)
    result = run(tmp_path, t.retimed([*cut[:4], packets[3], *cut[4:]]))
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"A" * 50 + b"B" * 50
    assert not result.gaps


def test_streams_longer_than_the_sequence_space(tmp_path: Path) -> None:
    """Offsets go past 2**32: only a few bytes of each large segment are in the capture."""
    step = 1 << 28
    ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
    packets = [Packet(0, *ends, 40000, 5432, 99, 0, t.SYN, b"")]
    for i in range(40):
        seq = (100 + i * step) & t.MASK
        packets.append(Packet(0, *ends, 40000, 5432, seq, 0, t.ACK, b"%02d" % i, 0))
        back = (100 + (i + 1) * step) & t.MASK
        packets.append(Packet(0, ends[1], ends[0], 5432, 40000, 1, back, t.ACK, b""))
    result = run(tmp_path, t.retimed(packets), batch_frames=4)
    offsets = [c.offset for c in result.chunks[0, 0]]
    assert offsets == [i * step for i in range(40)]
    assert offsets[-1] > 1 << 33
    assert sum(g.length for g in result.gaps[0, 0]) == 40 * step - 80


def test_data_without_a_place_is_reported(tmp_path: Path) -> None:
    packets = conversation([(1, b"hello"), (1, b"world")])
    stray = replace(packets[3], seq=(packets[3].seq - 500) & t.MASK, payload=b"old bytes")
    far = replace(packets[3], seq=(packets[3].seq + (3 << 29)) & t.MASK, payload=b"far bytes")
    result = run(tmp_path, t.retimed([*packets[:5], stray, far, *packets[5:]]))
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"helloworld"
    assert not result.gaps
    codes = [f.finding.code for f in result.found]
    assert codes == ["out-of-window", "out-of-window"]
    assert sorted(f.frame for f in result.found) == [6, 7]


def test_many_connections_are_numbered_by_their_first_packet(tmp_path: Path) -> None:
    lists = [
        conversation([(0, b"from %d" % i), (1, b"to %d" % i)], client=41000 + (i * 37) % 500)
        for i in range(60)
    ]
    packets = t.retimed([p for group in zip(*lists, strict=True) for p in group])
    for batch in (7, 1000):
        result = run(tmp_path, packets, batch_frames=batch)
        assert len(result.connections) == 60
        for i in range(60):
            assert result.chunks[i, 0][0].data == b"from %d" % i
            assert result.chunks[i, 1][0].data == b"to %d" % i
        assert result.streams.ports == {5432: 60}


@pytest.mark.parametrize("spread", [0, 1, 3])
def test_connections_stay_apart_when_their_hashes_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: int
) -> None:
    monkeypatch.setattr(
        "dissector.capture.connections._mix",
        lambda high, low, port: (port & spread).astype(np.uint64),
    )
    test_many_connections_are_numbered_by_their_first_packet(tmp_path)


def test_ignored_connections_are_not_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    packets = t.interleaved(*(conversation([(0, b"a"), (1, b"b")]) for _ in range(2)))
    path.write_bytes(t.pcap(t.frames(packets)))
    with open_capture_files([path]) as files:
        streams = Streams(files)
        streams.ignore(0)
        events = [e for b in streams.batches() for e in b.events if isinstance(e, Chunk)]
    assert {e.connection for e in events} == {1}


def test_random_segments_never_raise(tmp_path: Path) -> None:
    """Any header fields at all: the promises of Result hold."""
    source = random.Random(5)
    ends = [b"\x0a\0\0\1", b"\x0a\0\0\2"]
    near = [0, 1, 100, 105, 110, 1 << 20, (1 << 31) - 1, 1 << 31, t.MASK - 3, t.MASK]
    for seed in range(12):
        packets = []
        for i in range(150):
            side = source.randrange(2)
            packets.append(
                Packet(
                    i * 1000,
                    ends[side],
                    ends[1 - side],
                    *((1, 2) if side else (2, 1)),
                    (source.choice(near) + source.randrange(20)) & t.MASK,
                    source.choice(near),
                    source.choice([16, 16, 24, 24, 24, 2, 18, 17, 4, 0, 63]),
                    bytes(source.choices(b"ab", k=source.choice([0, 0, 1, 2, 10, 40]))),
                )
            )
        run(tmp_path, packets, batch_frames=source.choice([1, 5, 40, 1000]))
        assert seed >= 0


@pytest.mark.parametrize("seed", range(25))
def test_any_mixture_against_a_plain_model(tmp_path: Path, seed: int) -> None:
    """Random overlapping segments in random order, some lost, some cut: exactly the bytes that are in
    the capture come out, each at its place, and gaps are exactly the others."""
    source = random.Random(seed)
    ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
    size = source.choice([50, 700, 5000])
    data = source.randbytes(size)
    isn = source.choice([0, 77, t.MASK - 300, 1 << 31])
    first = Packet(0, *ends, 40000, 5432, isn, 0, t.SYN, b"")
    packets, held, reach = [], set(), 0
    for _ in range(source.randrange(1, 120)):
        low = source.randrange(size)
        high = min(size, low + source.choice([1, 2, 30, 400]))
        keep = source.choice([high - low] * 3 + [source.randrange(high - low + 1)])
        seq = (isn + 1 + low) & t.MASK
        part = data[low : low + keep]
        missing = high - low - keep
        packet = Packet(0, *ends, 40000, 5432, seq, 5, t.ACK, part, missing)
        packets += [packet] * source.choice([1, 1, 1, 2])
        held.update(range(low, low + keep))
        reach = max(reach, high)
    acked = source.choice([0, reach, size])
    back = Packet(0, ends[1], ends[0], 5432, 40000, 4, (isn + 1 + acked) & t.MASK, t.ACK, b"")
    source.shuffle(packets)
    packets.insert(source.randrange(len(packets) + 1), back)
    for batch in (1, 4, 37, 1000):
        result = run(tmp_path, t.retimed([first, *packets]), batch_frames=batch)
        got: dict[int, int] = {}
        for chunk in result.chunks.get((0, 0), []):
            got.update(enumerate(chunk.data, chunk.offset))
        assert got == {i: data[i] for i in held}
        gaps = {
            i for g in result.gaps.get((0, 0), []) for i in range(g.offset, g.offset + g.length)
        }
        end = max(reach, acked)
        told = set(range(end)) - held
        # A last byte that only the acknowledgement tells of is taken for a FIN.
        assert gaps == told - (
            {end - 1} if end - 1 == max(held, default=-1) + 1 == reach else set()
        )
        assert not [f for f in result.found if f.finding.code != "retransmission-differs"]
        assert not result.found


def test_data_in_a_syn_comes_first(tmp_path: Path) -> None:
    packets = conversation([(0, b"world")])
    packets[0] = replace(packets[0], payload=b"hello ")
    changed = [packets[0]]
    for p in packets[1:]:  # the numbers move on by what the SYN carries
        client = p.sport == 40000
        seq, ack = (p.seq + 6, p.ack) if client else (p.seq, p.ack + 6)
        changed.append(replace(p, seq=seq & t.MASK, ack=ack & t.MASK))
    result = run(tmp_path, changed)
    assert b"".join(c.data for c in result.chunks[0, 0]) == b"hello world"
    assert not result.gaps


def test_syn_that_the_capture_shows_late(tmp_path: Path) -> None:
    packets = conversation([(0, b"question"), (1, b"answer")])
    late = t.retimed([packets[1], packets[0], *packets[2:]])
    result = run(tmp_path, late)
    assert len(result.connections) == 1
    assert result.connections[0].client == 1, "direction 1 is what the client sends here"
    assert result.connections[0].endpoints[1].port == 40000
    assert b"".join(c.data for c in result.chunks[0, 1]) == b"question"
    behind_data = t.retimed([*packets[2:4], packets[0], *packets[4:]])
    for batch in (2, 100):
        result = run(tmp_path, behind_data, batch_frames=batch)
        assert len(result.connections) == 1
        assert b"".join(c.data for c in result.chunks[0, 0]) == b"question"
