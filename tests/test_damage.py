"""Losses, beginnings in the middle, damage, other protocols: nothing is invented, nothing lost silently."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from transforms import (
    CAPTURES,
    SYN,
    Packet,
    conversation,
    frames,
    joined,
    packets,
    pcap,
    resegmented,
    snapped,
    streams,
    without,
)

from dissector.framing import Framer
from dissector.index import Options
from dissector.rows import ASSUMED, INCOMPLETE
from dissector.schemas import Tables
from dissector.session import Assumptions
from dissector.sides import LOST
from dissector.view import Capture, open_capture

NAMES = ("pg16-proto4", "pg14-proto2", "pg18-proto1", "pg11-small", "conversation/query-extended",
         "conversation/copy")  # fmt: skip


def opened(tmp_path: Path, given: Sequence[Packet], options: Options | None = None) -> Capture:
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames(given)))
    return open_capture([str(path)], options).read()


def sent(given: Iterable[Packet]) -> dict[int, list[bytes]]:
    """What each side sent (0: the client), cut into messages by their lengths alone."""
    result = {}
    for data in streams(given).values():
        client = data[0] == 0
        at = struct.unpack_from(">I", data)[0] if client else 0
        cut = [data[:at]] if client else []
        while at + 5 <= len(data):
            end = at + 1 + struct.unpack_from(">I", data, at + 1)[0]
            cut.append(data[at:end])
            at = end
        result[0 if client else 1] = cut
    return result


def is_in_order(part: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(any(x == y for y in rest) for x in part)


def lossy(kind: str, given: list[Packet], seed: int) -> list[Packet]:
    source = random.Random(seed)
    if kind == "dropped":
        return without(given, lambda i, p: i > 3 and bool(p.payload) and source.random() < 0.06)
    if kind == "start":
        return given[source.randrange(4, len(given) // 2) :]
    if kind == "snapped":
        return snapped(given, source.choice([60, 200, 500]))
    flow = given[0].flow
    return [p for p in given if (p.flow == flow) == bool(seed % 2)]


@pytest.mark.parametrize("kind", ["dropped", "start", "snapped", "one side"])
@pytest.mark.parametrize("name", NAMES)
def test_losses_give_a_subset_in_order(name: str, kind: str, tmp_path: Path) -> None:
    whole = packets(CAPTURES / f"{name}.pcap")
    truth = sent(whole)
    for seed in range(2):
        given = resegmented(joined(whole, 1448), 1448 if seed else 300)
        got = lossy(kind, given, seed + len(name))
        with opened(tmp_path, got) as capture:
            views = [capture.message(n) for n in range(1, capture.count + 1)]
            for direction, messages in truth.items():
                complete = [
                    v.data
                    for v in views
                    if v.row.direction == direction and not v.row.flags & INCOMPLETE
                ]
                assert is_in_order(complete, messages)
            if kind == "one side":
                assert {v.row.direction for v in views} <= {0, 1}
                assert len(views) > 0
            if kind == "start" and views:
                assert any(f.code == "began-mid-session" for v in views for f in v.found)


@pytest.mark.parametrize("seed", range(8))
def test_every_missing_byte_is_told(seed: int, tmp_path: Path) -> None:
    """Bytes of the stream = bytes of messages + bytes told as missing or passed over."""
    source = random.Random(seed)
    whole = joined(packets(CAPTURES / "pg16-proto4.pcap"), 1448)
    busy = [i for i, p in enumerate(whole) if len(p.payload) > 1000]
    lost = source.choice(busy[2:-2])
    got = without(whole, lambda i, p: i == lost)
    with opened(tmp_path, got) as capture:
        views = [capture.message(n) for n in range(1, capture.count + 1)]
        server = [v for v in views if v.row.direction == 1]
        total = max(v.row.offset + v.row.length for v in server)
        seen = sum(len(v.data) for v in server)
        codes = Counter(f.code for v in views for f in v.found)
        assert codes["message-in-gap"] + codes["stream-gap"] >= 1
        if codes["stream-gap"]:
            gap = next(f for v in views for f in v.found if f.code == "stream-gap")
            assert gap.text.startswith(f"{len(whole[lost].payload)} bytes are missing")
            assert "sound again from frame" in gap.text
        skipped = [f for v in views for f in v.found if f.code == "resynchronised"]
        passed = sum(int(f.text.split()[0]) for f in skipped)
        holes = [v for v in server if v.row.flags & INCOMPLETE]
        missing = len(whole[lost].payload)
        after = (
            sum(v.row.length - len(v.data) for v in holes) if not codes["stream-gap"] else missing
        )
        assert seen + passed + after == total


def test_a_table_described_in_part_is_not_known(tmp_path: Path) -> None:
    whole = resegmented(joined(packets(CAPTURES / "pg14-proto2.pcap"), 1448), 200)
    for seed in range(3):
        source = random.Random(seed)
        got = without(
            whole, lambda i, p, s=source: i > 20 and bool(p.payload) and s.random() < 0.05
        )
        with opened(tmp_path, got) as capture:
            for number in range(1, capture.count + 1):
                view = capture.message(number)
                if view.row.flags & INCOMPLETE and view.path[-1] == "Relation":
                    assert capture.relation(view.row) is None


def test_a_beginning_in_the_middle_is_marked_and_corrected(tmp_path: Path) -> None:
    given = joined(packets(CAPTURES / "pg16-proto4.pcap"), 1448)
    begun = next(i for i, p in enumerate(given) if b"START_REPLICATION" in p.payload)
    got = [p for p in given[begun + 3 :] if not p.flags & SYN]
    with opened(tmp_path, got) as capture:
        views = [capture.message(n) for n in range(1, capture.count + 1)]
        assert views[0].assumed
        info = capture.index.connections[0]
        assert info.backend.endswith(str(next(p for p in given if p.flags & SYN).dport))
        assert sum(v.path[-1] == "Insert" for v in views) > 50
        assert not any(v.row.flags & INCOMPLETE for v in views)


def test_what_the_user_says_overrides(tmp_path: Path) -> None:
    given = joined(packets(CAPTURES / "pg16-proto4.pcap"), 1448)
    begun = next(i for i, p in enumerate(given) if b"START_REPLICATION" in p.payload)
    said = Options(Assumptions(release=15, proto_version=2, streaming="on"))
    with opened(tmp_path, given[begun + 3 :], said) as capture:
        dialects = {capture.message(n).dialect for n in range(1, capture.count + 1)}
        assert {d.release for d in dialects} == {15}
        assert {d.proto_version for d in dialects if d.copy == "pgoutput"} == {2}


GREETING = (
    b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0\xff\xf7\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0"
)
OTHERS = {
    "http": [
        (0, b"GET /index.html HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n" * 3),
        (1, b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\nContent-Type: text/html\r\n\r\n" + b"<p>" * 134),
    ],
    "mysql": [(1, GREETING + b"mysql_native_password\0"), (0, b"\x20\0\0\1\x85\xa6\xff\1" + bytes(28)),
              (1, b"\7\0\0\2\0\0\0\2\0\0\0" * 30), (0, b"\x0f\0\0\0\3SELECT version" * 20)],
    "tls": [(0, b"\x16\3\1\2\0\1\0\1\xfc\3\3" + bytes(range(256)) * 2), (1, b"\x16\3\3\0\x7a" + bytes(200))],
    "noise": [(i % 2, random.Random(i).randbytes(900)) for i in range(200)],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERS))
@pytest.mark.parametrize("handshake", [True, False])
def test_other_protocols_are_not_taken_for_postgresql(
    name: str, handshake: bool, tmp_path: Path
) -> None:
    given = conversation(OTHERS[name], server=5432, handshake=handshake)
    with opened(tmp_path, given) as capture:
        assert capture.count == 0
        assert not any(c.postgres for c in capture.index.connections.values())


@pytest.mark.parametrize("port", [80, 443, 3306, 65535])
def test_postgresql_is_known_on_any_port(port: int, tmp_path: Path) -> None:
    whole = packets(CAPTURES / "pg11-small.pcap")
    truth = sent(whole)
    ordered = [(0, truth[0][0]), (1, b"".join(truth[1][:5])), (0, b"".join(truth[0][1:])),
               (1, b"".join(truth[1][5:]))]  # fmt: skip
    with opened(tmp_path, conversation(ordered, server=port)) as capture:
        assert capture.count == len(truth[0]) + len(truth[1])


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack(">I", len(body) + 4) + body


READY = message(b"R", struct.pack(">I", 0)) + message(b"Z", b"I")
START = struct.pack(">II", 8 + len(b"user\0u\0\0"), 196608) + b"user\0u\0\0"


@pytest.mark.parametrize("length", [0, 3, 0x80000000, 0xFFFFFFFF])
def test_impossible_lengths_are_told_and_passed(length: int, tmp_path: Path) -> None:
    bad = b"D" + struct.pack(">I", length) + b"xx" * 40
    rest = message(b"C", b"SELECT 1\0") + message(b"Z", b"I") + message(b"S", b"a\0b\0")
    talk = [(0, START), (1, READY), (0, message(b"Q", b"SELECT 1\0")), (1, bad), (1, rest)]
    with opened(tmp_path, conversation(talk)) as capture:
        views = [capture.message(n) for n in range(1, capture.count + 1)]
        assert [v.path[0] for v in views[4:]] == [
            "CommandComplete",
            "ReadyForQuery",
            "ParameterStatus",
        ]
        assert {"bad-frame-length", "resynchronised"} <= {f.code for f in views[4].found}


def test_a_length_beyond_the_end_is_bounded(tmp_path: Path) -> None:
    bad = b"D" + struct.pack(">I", 0x3FFFFFFF) + b"xx" * 40
    talk = [(0, START), (1, READY), (0, message(b"Q", b"SELECT 1\0")), (1, bad)]
    with opened(tmp_path, conversation(talk)) as capture:
        last = capture.message(capture.count)
        assert last.path == ("DataRow",)
        assert [f.code for f in last.found] == ["stream-ended-early"]
        assert len(last.data) == len(bad)


def test_huge_messages_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dissector import framing, sides, turns, view

    for module in (framing, sides, turns, view):
        monkeypatch.setattr(module, "HUGE", 100_000)
        monkeypatch.setattr(module, "HUGE_HEAD", 5_000, raising=False)
    long = message(b"d", b"1\t" * 400_000)
    answer = message(b"H", b"\0\0\1\0\0") + long + message(b"d", b"2\t3\n") + message(b"c", b"")
    talk = [(0, START), (1, READY), (0, message(b"Q", b"COPY t TO STDOUT\0")), (1, answer)]
    given = resegmented(conversation(talk), 9000)
    with opened(tmp_path, given) as capture:
        views = [capture.message(n) for n in range(1, capture.count + 1)]
        copied = [v for v in views if v.path[0] == "CopyData"]
        assert [v.row.length for v in copied] == [len(long), 9]
        assert copied[0].data == long[:5000]
        assert [f.code for f in copied[0].found] == ["huge-message"]
        assert views[-1].path == ("CopyDone",)
        assert copied[1].data == message(b"d", b"2\t3\n")


def test_numbers_follow_completion(tmp_path: Path) -> None:
    whole = joined(packets(CAPTURES / "conversation" / "query-extended.pcap"), 1448)
    with opened(tmp_path, whole) as capture:
        frame = [capture.row(n).frame for n in range(1, capture.count + 1)]
        assert frame == sorted(frame)
        assert not any(capture.row(n).flags & ASSUMED for n in range(1, capture.count + 1))


def test_what_is_looked_through_for_a_boundary_comes_with_its_last_byte() -> None:
    """Up to that frame the other side's messages are taken together: none of them can come after it."""
    framer = Framer(Tables(), Assumptions(), 0, (40000, 5432))
    client = framer.sides[0]
    client.mode, client.buffer = LOST, bytes(100)
    client.ends, client.arrivals = np.array([60, 100]), np.array([5, 90])
    client.frames, client.times = np.array([5, 88]), np.array([0, 1])
    assert framer._horizon(client) == 90
