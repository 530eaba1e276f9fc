"""Captures whose truth stays known, changed in every way: the same messages, however they are read."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import transforms as t
from sent import LANES, NAMES, Sent, cut, pgoutput, reading, sent, servers_list
from transforms import CAPTURES, Packet

from dissector.findings import Finding
from dissector.report import closing_words, write_list
from dissector.rows import INCOMPLETE
from dissector.view import Capture, open_capture

BASES = ("pg11-small", "pg13-small", "pg15-proto3")
SMALL = "pg11-small"


@cache
def packets(name: str) -> tuple[Packet, ...]:
    return tuple(t.packets(CAPTURES / f"{name}.pcap"))


def over_six(given: Sequence[Packet]) -> list[Packet]:
    """The same over IPv6."""
    return [
        replace(p, src=b"\xfd" + bytes(11) + p.src, dst=b"\xfd" + bytes(11) + p.dst) for p in given
    ]


def opened(paths: Sequence[Path], lane: str) -> Capture:
    with reading(lane):
        return open_capture([str(path) for path in paths]).read()


def row_data(capture: Capture, number: int) -> bytes:
    """The bytes of a message, through its extents."""
    pieces = capture.extents(capture.row(number))
    return b"".join(capture.files.read(piece.position, piece.length) for piece in pieces)


def listed(capture: Capture) -> list[Sent]:
    """The list, in its order (the frame that made a message whole is not in it)."""
    rows = map(capture.row, range(1, capture.count + 1))
    return [
        Sent(r.stream, r.direction, r.offset, row_data(capture, r.number), r.frame, 0) for r in rows
    ]


def bad(capture: Capture) -> list[Finding]:
    """What was found in files and streams, and about bytes that are missing."""
    found = [*capture.index.file_findings]
    for each in (*capture.index.connections.values(),):
        found += each.found
    for each in capture.index.found.values():
        found += [f for f in each if f.code in STREAM]
    return found


STREAM = ("stream-gap", "message-in-gap", "resynchronised", "bad-frame-length", "huge-message",
          "began-mid-session", "stream-ended-early", "retransmission-differs")  # fmt: skip


def is_truth(capture: Capture, given: Sequence[Packet], *, ordered: bool = True) -> None:
    """The list holds exactly the messages of the packets, each where it lies. ordered: both directions
    as they came; else only each by itself (answers wait for what they answer)."""
    wanted = [replace(each, done=0) for each in sent(given)]
    found = listed(capture)
    if not ordered:
        wanted, found = by_direction(wanted), by_direction(found)
    assert found == wanted
    for number in range(1, capture.count + 1):
        row = capture.row(number)
        data = row_data(capture, number)
        path = capture.path(row)
        assert row.length == len(data)
        assert not row.flags & INCOMPLETE
        assert row.time == given[row.frame - 1].time
        if data[:1] == b"d" and data[5:6] == b"w" and row.direction:
            assert path == ("CopyData", path[1], NAMES[chr(data[30])])
    assert not bad(capture)


def by_direction(given: list[Sent]) -> list[Sent]:
    return sorted(given, key=lambda each: (each.stream, each.direction))


def written(tmp_path: Path, data: bytes, name: str = "made") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", BASES)
def test_the_truth_is_the_servers(name: str) -> None:
    """What lengths cut the streams into is what the server listed."""
    server = next(data for data in t.streams(packets(name)).values() if data[:1] != b"\0")
    assert pgoutput([data for _, data in cut(server, client=False)]) == servers_list(name)


# -- segments


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("size", [1, 7, 61, 536, 1448, 60_000, "random"])
@pytest.mark.parametrize("name", BASES)
def test_segments_of_any_size(name: str, size: int | str, lane: str, tmp_path: Path) -> None:
    source = random.Random(name)
    given = t.joined(packets(name), 1448 if isinstance(size, str) else max(size, 61))
    if name == "pg15-proto3" and size in (1, 7):
        given = [p for p in given if p.flags & t.SYN] + whole_messages(given, 9000)
    step = size if isinstance(size, int) else lambda: source.choice([1, 3, 50, 500, 1448])
    changed = t.retimed(t.resegmented(given, step))
    is_truth(opened([written(tmp_path, t.pcap(t.frames(changed), nano=True))], lane), changed)


def whole_messages(given: Sequence[Packet], most: int) -> list[Packet]:
    """Data packets up to about `most` bytes of the server's stream, cut where a message ends."""
    server = next(p.flow for p in given if p.payload and p.payload[:1] != b"\0")
    start = next(p.seq + 1 for p in given if p.flags & t.SYN and p.flow == server)
    ends = [at + len(data) for at, data in cut(t.streams(given)[server], client=False)]
    end = max(end for end in ends if end <= most)
    result = []
    for packet in given:
        if packet.flags & t.SYN or not packet.payload:
            continue
        if packet.flow == server:
            left = end - (packet.seq - start & t.MASK)
            if left <= 0:
                break
            packet = replace(packet, payload=packet.payload[:left])
        result.append(packet)
    return result


CHANGES: dict[str, Callable[[Sequence[Packet]], list[Packet]]] = {
    "shuffled": lambda p: t.shuffled(p, 4, 1),
    "shuffled far": lambda p: t.shuffled(t.joined(p, 400), 15, 2),
    "all twice": lambda p: t.duplicated(p, 1.0, 3),
    "retransmitted": lambda p: t.duplicated(p, 0.3, 4, later=9),
    "overlapped": lambda p: t.overlapped(p, 5),
    "all of it": lambda p: t.shuffled(t.duplicated(t.overlapped(p, 6), 0.2, 7), 5, 8),
    "wrapped": t.wrapped,
    "wrapped, in small segments": lambda p: t.retimed(t.resegmented(t.wrapped(p, 3), 11)),
    "wrapped and shuffled": lambda p: t.wrapped(t.shuffled(p, 5, 9), 100),
}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("name", BASES)
def test_changes_that_lose_nothing(name: str, change: str, lane: str, tmp_path: Path) -> None:
    changed = CHANGES[change](packets(name))
    path = written(tmp_path, t.pcap(t.frames(changed), nano=True))
    is_truth(
        opened([path], lane), changed, ordered="shuffled" not in change and change != "all of it"
    )


INTERLEAVED = [
    ("pg11-small", "pg13-small"),
    ("pg13-small", "pg13-small"),
    ("pg13-small", "pg11-small", "pg12-latin1"),
    ("pg12-latin1", "pg15-proto3", "pg11-small"),
]


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("names", INTERLEAVED, ids="+".join)
def test_interleaved_connections(names: tuple[str, ...], lane: str, tmp_path: Path) -> None:
    changed = t.interleaved(*(packets(name) for name in names))
    capture = opened([written(tmp_path, t.pcap(t.frames(changed), nano=True))], lane)
    is_truth(capture, changed)
    for stream, name in enumerate(names):
        server = [m.data for m in listed(capture) if (m.stream, m.direction) == (stream, 1)]
        assert pgoutput(server) == servers_list(name)


# -- frames


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link", sorted(t.LINKS))
def test_every_link_type(link: str, version: int, tmp_path: Path) -> None:
    given = t.resegmented(packets(SMALL), 1200)
    if version == 6:
        given = over_six(given)
    path = written(tmp_path, t.pcap(t.frames(given, link), nano=True))
    for lane in LANES:
        is_truth(opened([path], lane), given)


# -- files


FORMS: dict[str, tuple[str, Callable[[t.Made], bytes]]] = {
    "pcap": ("us", t.pcap),
    "pcap, big-endian": ("us", lambda made: t.pcap(made, order=">")),
    "pcap, nanoseconds": ("ns", lambda made: t.pcap(made, nano=True)),
    "pcap, modified": ("us", lambda made: t.pcap(made, modified=True)),
    "pcapng": ("ns", t.pcapng),
    "pcapng, big-endian": ("ns", lambda made: t.pcapng(made, order=">")),
    "pcapng, sections and interfaces": (
        "us",
        lambda made: t.pcapng(made, clocks=[t.Clock(6), t.Clock(6, offset=-5)], sections=2),
    ),
    "gzip": ("ns", lambda made: gzip.compress(t.pcapng(made))),
    "zstd": ("ns", lambda made: zstd(t.pcap(made, nano=True))),
    "lz4": ("us", lambda made: lz4(t.pcap(made))),
}


def zstd(data: bytes) -> bytes:
    import zstandard

    packed: bytes = zstandard.ZstdCompressor().compress(data)
    return packed


def lz4(data: bytes) -> bytes:
    import lz4.frame

    packed: bytes = lz4.frame.compress(data)
    return packed


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_split_over_files_in_any_order(form: str, count: int, tmp_path: Path) -> None:
    given = t.retimed(t.joined(packets("pg13-small"), 600))
    unit, make = FORMS[form]
    paths = [
        written(tmp_path, make(part), f"{i}")
        for i, part in enumerate(t.split(t.frames(given), count))
    ]
    random.Random(form).shuffle(paths)
    if unit == "us":
        given = [replace(p, time=p.time // 1000 * 1000) for p in given]
    for lane in LANES:
        is_truth(opened(paths, lane), given)


CLOCKS: dict[str, list[t.Clock]] = {
    "milliseconds": [t.Clock(3)],
    "microseconds, unsaid": [t.Clock(6)],
    "2**-10 s": [t.Clock(10, binary=True)],
    "2**-20 s": [t.Clock(20, binary=True)],
    "2**-32 s": [t.Clock(32, binary=True)],
    "2**-40 s": [t.Clock(40, binary=True, offset=1_790_000_000)],
    "picoseconds from a late begin": [t.Clock(12, offset=1_790_000_000)],
    "from before 1970": [t.Clock(9, offset=-86_400)],
    "all of them": [
        t.Clock(3), t.Clock(6, offset=1_600_000_000), t.Clock(9), t.Clock(10, binary=True),
        t.Clock(20, binary=True, offset=-3600), t.Clock(12, offset=1_790_000_000),
    ],
}  # fmt: skip


@pytest.mark.parametrize("sections", [1, 3])
@pytest.mark.parametrize("name", sorted(CLOCKS))
def test_clocks_of_interfaces_and_sections(name: str, sections: int, tmp_path: Path) -> None:
    """Packets take turns over interfaces whose clocks differ; each time is what its clock tells."""
    given = t.retimed(t.joined(packets("pg13-small"), 600))
    given = [replace(p, time=p.time + i * 1_234_567) for i, p in enumerate(given)]
    clocks = CLOCKS[name]
    data = t.pcapng(t.frames(given), clocks=clocks, sections=sections)
    path = written(tmp_path, data)
    order = t.dealt(len(given), clocks, sections)
    told = [
        replace(p, time=clock.seen(p.time)) for p, (_, _, clock) in zip(given, order, strict=True)
    ]
    assert len({clock for _, _, clock in order}) == len(clocks)
    for lane in LANES:
        with opened([path], lane) as capture:
            assert len(capture.files.interfaces) == sections * len(clocks)
            is_truth(capture, told)
            digits = {row.frame: capture.digits(row) for row in map(capture.row, (1, 2, 3))}
            for frame, found in digits.items():
                clock = order[frame - 1][2]
                assert clock.binary or found == min(clock.exponent, 9)


@pytest.mark.parametrize("lane", LANES)
def test_files_of_different_forms_that_interleave(lane: str, tmp_path: Path) -> None:
    """Each recorder saw every third packet, and each wrote another form."""
    given = t.retimed(t.resegmented(t.joined(packets("pg13-small"), 600), 90))
    given = [replace(p, time=p.time // 1000 * 1000) for p in given]
    paths = []
    for i, (form, link) in enumerate(
        [("zstd", "SLL2"), ("pcap, big-endian", "raw 101"), ("pcapng, big-endian", "ethernet")]
    ):
        data = FORMS[form][1](t.frames(given[i::3], link))
        paths.append(written(tmp_path, data, f"{2 - i}"))
    is_truth(opened(paths, lane), given)


def tiny() -> list[Packet]:
    """The start of a recorded session and its first changes, in few and small packets."""
    given = packets(SMALL)
    return t.joined([*given[:3], *whole_messages(given, 900)], 330)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_cut_at_every_byte(form: str, part: int, tmp_path: Path) -> None:
    """A prefix of the truth, and one finding that says where; the last message may be there in part."""
    given = t.retimed(tiny())
    number, made = t.frames(given)
    make = FORMS[form][1]
    data = make((number, made))
    ends = [len(make((number, made[:count]))) for count in range(len(made) + 1)]
    sound = {*ends, 28} if form == "pcapng" else {*ends}  # a section's header ends at 28
    whole = sent(given)
    assert {"Begin", "Relation", "Insert"} <= {NAMES[chr(d[0])] for d in payloads(whole)}
    path = tmp_path / "cut"
    step = 4 if form == "pcap" else 12
    for place in range(25 + part, len(data) + 1, step):
        path.write_bytes(data[:place])
        have = sum(end <= place for end in ends) - 1
        lane = LANES[2] if place % 16 == part else LANES[place // 4 % 2]
        with opened([path], lane) as capture:
            codes = [f.code for f in capture.index.file_findings]
            assert codes == ([] if place in sound else ["file-cut"]), place
            rows = [capture.row(n) for n in range(1, capture.count + 1)]
            pairs = list(zip(rows, listed(capture), strict=True))
            complete = [each for row, each in pairs if not row.flags & INCOMPLETE]
            there = [replace(each, done=0) for each in whole if each.done <= have]
            assert by_direction(complete) == by_direction(there), (place, lane)
            for row, got in pairs:
                if row.flags & INCOMPLETE:
                    (true,) = [
                        m for m in whole if m.direction == got.direction and m.offset == got.offset
                    ]
                    assert true.done > have
                    assert true.data.startswith(got.data)
                    assert row.length == len(true.data) > len(got.data)


def payloads(given: Sequence[Sent]) -> list[bytes]:
    return pgoutput([each.data for each in given if each.direction])


# -- what comes after a message was written


@pytest.mark.parametrize("late", [True, False])
def test_another_copy_of_bytes_is_told_of_however_late(late: bool, tmp_path: Path) -> None:
    """A message that was written before the copy came is not written anew; the finding is its
    connection's then. Where nothing was written, it is the message's."""
    given = t.resegmented(packets("pg18-proto1"), 300)
    at = next(i for i, p in enumerate(given) if p.payload[:1] == b"d" and p.payload[5:6] == b"w")
    whole = given[at].payload
    other = replace(given[at], payload=whole[:-1] + bytes([whole[-1] ^ 1]))
    made = t.retimed([*given[:-8], other, *given[-8:]])
    path = written(tmp_path, t.pcap(t.frames(made)), "late.pcap")
    with open_capture([str(path)]) as capture:
        capture.files.batch_frames = 16
        out = io.StringIO()
        if late:
            write_list(capture, out, None, None)
        else:
            capture.read()
        codes = {number: [f.code for f in found] for number, found in capture.index.found.items()}
        mine = [n for n, each in codes.items() if "retransmission-differs" in each]
        info = capture.connection(0)
        told = [f for f in info.found if f.code == "retransmission-differs"]
        assert (len(mine), len(told)) == ((0, 1) if late else (1, 0))
        lines = out.getvalue().splitlines()
        assert len(lines) == (capture.count if late else 0)
        words = "\n".join(closing_words(capture))
    assert ("connection 0: " in words) == late
    frames = f"{at + 1}", f"{len(given) - 7}"
    text = told[0].text if late else ""
    assert not late or all(frame in text for frame in frames)
