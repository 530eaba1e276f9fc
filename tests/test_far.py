"""A second process that reads ahead: the same events, whatever fits into the shared memory; and its end."""

from __future__ import annotations

import mmap
import os
import random
from pathlib import Path
from typing import Any

import pytest
from transforms import CAPTURES, frames, joined, packets, pcap

from dissector.ahead import NOTHING, STREAMED, WHOLE, look_ahead
from dissector.bulk import walk
from dissector.capture import Chunk, Streams, far, handing, open_capture_files
from dissector.capture.far import FarStreams
from dissector.capture.handing import Slots
from dissector.errors import CaptureError

ROWS = {"I", "U", "D"}


def told(streams: Any) -> list[tuple[Any, ...]]:
    """All events of all batches, with the bytes of chunks."""
    found: list[tuple[Any, ...]] = []
    for batch in streams.batches():
        found.append((batch.first, batch.last, batch.findings))
        for event in batch.events:
            if isinstance(event, Chunk):
                pieces = [column.tolist() for column in event.pieces]
                found.append((event.connection, event.direction, event.offset, event.data, pieces))
            else:
                found.append((event,))
    ends = [(str(c.endpoints[0]), str(c.endpoints[1]), c.client) for c in streams.connections]
    return [*found, *ends, (streams.findings, streams.stats, streams.ports)]


ROOMS = {"none": 1, "little": 3000, "some": 30_000, "enough": 5 << 20}


@pytest.mark.parametrize("lasts", [1, 1000], ids=["few slots", "many slots"])
@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
@pytest.mark.parametrize(
    "name", ["pg18-proto1.pcap", "pg16-proto4.pcap", "conversation/tls12-replication.pcapng"]
)
def test_the_same_events(name: str, room: int, lasts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES / name
    monkeypatch.setattr(handing, "ROOM", room)
    monkeypatch.setattr(handing, "LASTS", lasts)
    with open_capture_files([str(path)], batch_bytes=20_000) as files:
        wanted = told(Streams(files)), files.findings, files.secrets, files.comments, files.frames
    with open_capture_files([str(path)], batch_bytes=20_000) as files:
        found = told(FarStreams(files, look_ahead))
        assert (found, files.findings, files.secrets, files.comments, files.frames) == wanted
    assert_no_child()


def test_slots_that_are_not_needed_any_more_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beside a slot stays, wherever pages begin."""
    page = mmap.PAGESIZE
    room = 3 * page + 100
    for name, value in {"ROOM": room, "MOST": 4, "LASTS": 2}.items():
        monkeypatch.setattr(handing, name, value)
    source, sink = os.pipe()
    memory = Slots.memory()
    memory[:] = b"x" * len(memory)
    takes, gives = Slots(memory, sink), Slots(memory, source)
    assert [gives.take() for _ in range(4)] == [0, 1, 2, 3]
    for number, slot in enumerate([0, 1, 2, 3, 0, 1, 3, 1]):
        takes.release(slot, number)
    os.close(sink)
    assert [gives.take() for _ in range(7)] == [0, 1, 3, 1, 3, 1, None]
    os.close(source)
    if hasattr(mmap, "MADV_REMOVE"):
        kept = [memory[k * room : (k + 1) * room].count(b"x") for k in range(4)]
        assert kept == [room - 3 * page, room, room - 2 * page, room]


def assert_no_child() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_no_process_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(CAPTURES / "pg16-proto4.pcap")
    with open_capture_files([path], batch_bytes=20_000) as files:
        wanted = told(Streams(files))

    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    descriptors = Path("/proc/self/fd")
    opened = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    with open_capture_files([path], batch_bytes=20_000) as files:
        assert told(FarStreams(files, look_ahead)) == wanted
    if opened:
        assert len(list(descriptors.iterdir())) <= opened


def test_left_early() -> None:
    with open_capture_files([str(CAPTURES / "pg18-proto1.pcap")], batch_bytes=20_000) as files:
        batches = FarStreams(files, look_ahead).batches()
        next(batches)
        batches.close()
    assert_no_child()


def test_the_other_process_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: object) -> None:
        os._exit(3)

    monkeypatch.setattr(far._Sender, "run", die)
    with (
        open_capture_files([str(CAPTURES / "pg18-proto1.pcap")]) as files,
        pytest.raises(CaptureError, match=r"ended early.*taskset"),
    ):
        list(FarStreams(files, look_ahead).batches())
    assert_no_child()


def test_chunks_of_those_who_are_ignored_do_not_come() -> None:
    with open_capture_files([str(CAPTURES / "pg18-proto1.pcap")], batch_bytes=20_000) as files:
        streams = FarStreams(files, look_ahead)
        streams.ignore(0)
        events = [event for batch in streams.batches() for event in batch.events]
        assert events
        assert not any(isinstance(event, Chunk) and event.connection == 0 for event in events)


def row(body: bytes, streamed: bool = False) -> bytes:
    """CopyData with XLogData, sent a microsecond after the epoch, with an Insert into relation 16384."""
    insert = b"I" + (b"\0\0\2\x9a" if streamed else b"") + b"\0\0\x40\0" + body
    data = b"w" + bytes(23) + b"\1" + insert
    return b"d" + (len(data) + 4).to_bytes(4, "big") + data


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        (b"N\0\2t\0\0\0\1xn", 2),
        (b"N\0\0", 0),
        (b"N\0\3nub\0\0\0\0", 3),
        (b"N\0\2t\0\0\0\2xn", -1),  # the value takes the next column
        (b"N\0\2t\0\0\0\1x", -1),  # a column is missing
        (b"N\0\1t\0\0\0\1xn", -1),  # one too many
        (b"N\0\1q", -1),  # no kind of column
        (b"N\0\1t\xff\xff\xff\xffx", -1),  # no length
        (b"N\x7f\xff" + b"n" * 50, -1),  # a count beyond the bytes
        (b"N", -1),
        (b"", -1),
    ],
)
def test_what_is_known_ahead(body: bytes, columns: int) -> None:
    for streamed, form in ((False, WHOLE), (True, STREAMED)):
        data = row(body, streamed) + row(b"N\0\1n") + bytes(40)
        found = look_ahead(data)
        told = found.told
        assert found.starts.tolist() == [0, len(row(body, streamed))]
        assert told.kind.tolist() == [ord("I")] * 2
        assert (told.form[1], told.oid[1], told.xid[1]) == (WHOLE, 16384, 0)
        if columns < 0:
            assert told.form[0] == NOTHING
        else:
            assert (told.form[0], told.old[0], told.new[0]) == (form, -1, columns)
            assert (told.oid[0], told.xid[0]) == (16384, 0x29A if streamed else 0)


def wal(message: bytes) -> bytes:
    """CopyData with XLogData, sent a microsecond after the epoch, that carries `message`."""
    data = b"w" + bytes(23) + b"\1" + message
    return b"d" + (len(data) + 4).to_bytes(4, "big") + data


BEGIN = b"B" + bytes(7) + b"\x63" + bytes(7) + b"\1" + b"\0\0\2\x9a"
COMMIT = b"C\0" + bytes(7) + b"\x63" + bytes(7) + b"\x64" + bytes(7) + b"\1"
"""Sent a microsecond after the epoch."""


@pytest.mark.parametrize(
    ("message", "form", "xid"),
    [
        (BEGIN, WHOLE, 0x29A),
        (COMMIT, WHOLE, 0),
        (b"S\0\0\2\x9a\1", WHOLE, 0x29A),
        (b"E", WHOLE, 0),
        (BEGIN + b"\0", NOTHING, None),
        (COMMIT[:-1], NOTHING, None),
        (b"S\0\0\2\x9a", NOTHING, None),
        (b"E\0", NOTHING, None),
        (BEGIN[:9] + bytes(8) + BEGIN[17:], NOTHING, None),  # sent at no time
        (COMMIT[:18] + bytes(8), NOTHING, None),
        (b"C\1" + COMMIT[2:], NOTHING, None),  # flags that mean nothing yet
    ],
)
def test_messages_of_a_fixed_length_are_known_ahead(
    message: bytes, form: int, xid: int | None
) -> None:
    told = look_ahead(wal(message) + wal(BEGIN) + bytes(40)).told
    assert (told.form.tolist(), told.kind.tolist()) == ([form, WHOLE], [message[0], ord("B")])
    assert xid is None or told.xid[0] == xid
    assert not told.oid.any()


def test_what_overlaps_without_end_is_not_looked_at() -> None:
    """Each of these begins a message of 4,000 columns that steps over the next ones."""
    cell = bytearray(row(b"N\x0f\xa0" + b"n" * 20 + b"t\0\0\0\x26"))
    cell[1:5] = (13_000).to_bytes(4, "big")
    data = bytes(cell) * 4000
    found = look_ahead(data)
    assert len(found.starts) == 4000 - 13_001 // 63  # those that are whole
    assert not found.told.form.any()
    alone = row(b"N\0\3nub\0\0\0\0") * 3 + bytes(40)
    assert look_ahead(alone).told.form.tolist() == [WHOLE] * 3


def test_entries_of_messages() -> None:
    one = row(b"N\0\1n")
    data = one + row(b"N\0\1t\0\0\0\2d\0") + one + bytes(40)  # a mark inside a value
    found = look_ahead(data)
    begins = [0, len(one), len(data) - len(one) - 40]
    assert found.starts.tolist() == begins
    assert found.follow(0, 9) == slice(0, 3)
    assert found.follow(begins[1], 9) == slice(1, 3)
    assert found.follow(begins[1], 1) == slice(1, 2)
    assert found.follow(1, 9) is None  # nothing begins there
    moved = found.moved(10)
    assert moved.follow(begins[1], 9) is None
    assert moved.follow(begins[1] + 10, 9) == slice(1, 3)
    told = moved.of([(2, None), (2, slice(1, 3))], 3)
    assert told.form.tolist() == [NOTHING, NOTHING, WHOLE]
    assert told.kind.tolist() == [0, 0, ord("I")]
    assert look_ahead(b"").follow(0, 9) is None


def test_only_sound_wal_data_is_told_of() -> None:
    no_time = bytearray(row(b"N\0\1n"))
    no_time[22:30] = bytes(8)
    other = b"d\0\0\0\x16k" + bytes(17)
    data = (
        bytes(no_time) + other + row(b"N\0\1n") + row(b"N\0\1n")
    )  # the last has no room behind it
    assert look_ahead(data).told.kind.tolist() == [0, 0, ord("I"), 0]


def one_by_one(data: bytes, at: int) -> tuple[list[int], int]:
    """Whole CopyData messages that follow each other from `at`, and where they stop."""
    starts = []
    while data[at : at + 1] == b"d" and at + 5 <= len(data):
        length = int.from_bytes(data[at + 1 : at + 5], "big")
        if length < 4 or at + 1 + length > len(data):
            break
        starts.append(at)
        at += 1 + length
    return starts, at


@pytest.mark.parametrize("seed", range(24))
def test_messages_follow_each_other_whatever_is_in_them(seed: int) -> None:
    """Values full of marks, of lengths that lead to other marks, other messages, a cut end, damage."""
    dice = random.Random(seed)
    parts = []
    for _ in range(120):
        value = bytes(dice.choice(b"d\0\0\4\5ab") for _ in range(dice.randrange(40)))
        kind = dice.choice(b"dddddddddc")
        parts.append(bytes([kind]) + (len(value) + 4).to_bytes(4, "big") + value)
    data = bytearray(b"".join(parts))
    if seed % 3 == 0:
        data[dice.randrange(len(data))] = dice.choice(b"d\0\xff")
    data = data[: len(data) - dice.randrange(20)]
    whole, skip = bytes(data), dice.randrange(50)
    ahead = look_ahead(whole[skip:]).moved(skip)
    places = [0]
    for part in parts:
        places.append(places[-1] + len(part))
    for at in [*places[:-1], *(dice.randrange(len(whole)) for _ in range(20))]:
        if at >= len(whole):
            continue
        wanted, stop = one_by_one(whole, at)
        starts, stopped, known = walk(whole, at, ord("d"), 1000, ahead)
        assert (starts.tolist(), stopped) == (wanted, stop)
        assert sum(size for size, _ in known) == len(wanted)
        named = [
            place for size, which in known
            for place in ([-1] * size if which is None else ahead.starts[which] + skip)
        ]  # fmt: skip
        assert all(n in (-1, w) for n, w in zip(named, wanted, strict=True))


def test_a_capture_large_enough_is_read_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames(joined(packets(CAPTURES / "pg18-proto1.pcap"), 60_000))))
    monkeypatch.setattr("threading.active_count", lambda: 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
    with open_capture_files([str(path)]) as files:
        assert not far.may_be_far(files)
        monkeypatch.setattr(far, "ENOUGH", 1000)
        assert far.may_be_far(files)
        monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0}, raising=False)
        assert not far.may_be_far(files)
    with open_capture_files([str(path)], growing=True) as files:
        monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
        assert not far.may_be_far(files)


def columns_of(body: bytes) -> int:
    """Columns of a new tuple that is just these bytes; -1 where it is not."""
    count, at = int.from_bytes(body[1:3], "big"), 3
    for _ in range(count):
        kind = body[at : at + 1]
        if kind in (b"n", b"u"):
            at += 1
        elif kind in (b"t", b"b") and at + 5 <= len(body):
            at += 5 + int.from_bytes(body[at + 1 : at + 5], "big")
        else:
            return -1
    return count if body[:1] == b"N" and at == len(body) else -1


@pytest.mark.parametrize("seed", range(8))
def test_wide_rows_with_few_values(seed: int) -> None:
    dice = random.Random(seed)
    bodies = []
    for _ in range(40):
        count = dice.randrange(28, 300)
        cells = [dice.choice([b"n", b"u"]) for _ in range(count)]
        for place in dice.sample(range(count), dice.randrange(7)):
            value = bytes(dice.choice(b"ntub\0q") for _ in range(dice.randrange(6)))
            cells[place] = dice.choice([b"t", b"b"]) + len(value).to_bytes(4, "big") + value
        body = bytearray(b"N" + count.to_bytes(2, "big") + b"".join(cells))
        if dice.random() < 0.5:
            body[dice.randrange(3, len(body))] = dice.choice(b"ntqb\0\xff")
        if dice.random() < 0.2:
            body += dice.choice([b"n", b"t\0\0\0\0"])
        bodies.append(bytes(body[: len(body) - (dice.random() < 0.2)]))
    told = look_ahead(b"".join(map(row, bodies)) + bytes(40)).told
    wanted = [columns_of(body) for body in bodies]
    assert -1 in wanted
    assert max(wanted) > 0
    found = [n if form else -1 for n, form in zip(told.new.tolist(), told.form, strict=True)]
    assert found == wanted


def test_what_only_looks_like_beginnings_joins_nothing() -> None:
    """A chain that ends where a message begins that is not whole ends there, though another one begins
    after it."""
    whole, torn, noise = b"d\0\0\0\5z", b"d\0\1\0\0", b"d\0" * 30
    found = look_ahead(noise + whole * 2 + torn + noise + whole + noise)
    at, later = len(noise), len(noise) * 2 + len(whole * 2 + torn)
    assert found.starts.tolist() == [at, at + len(whole), later]
    assert found.breaks.tolist() == [1, 2]
