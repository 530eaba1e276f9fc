"""A second process that reads ahead: the same events, whatever fits into the shared memory; and its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transforms import CAPTURES, frames, joined, packets, pcap

from dissector.ahead import NOTHING, STREAMED, WHOLE, look_ahead
from dissector.capture import Chunk, Streams, far, open_capture_files
from dissector.capture.far import FarStreams
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


@pytest.mark.parametrize("room", [1, 3000, 5 << 20], ids=["none", "little", "enough"])
@pytest.mark.parametrize(
    "name", ["pg18-proto1.pcap", "pg16-proto4.pcap", "conversation/tls12-replication.pcapng"]
)
def test_the_same_events(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES / name
    monkeypatch.setattr(far, "ROOM", room)
    with open_capture_files([str(path)], batch_bytes=20_000) as files:
        wanted = told(Streams(files)), files.findings, files.secrets, files.comments, files.frames
    with open_capture_files([str(path)], batch_bytes=20_000) as files:
        found = told(FarStreams(files, look_ahead))
        assert (found, files.findings, files.secrets, files.comments, files.frames) == wanted
    assert_no_child()


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
    """CopyData with XLogData with an Insert into relation 16384."""
    insert = b"I" + (b"\0\0\2\x9a" if streamed else b"") + b"\0\0\x40\0" + body
    data = b"w" + bytes(24) + insert
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
        assert found.marks[:2].tolist() == [0, len(row(body, streamed))]
        assert found.form[1] == WHOLE
        if columns < 0:
            assert found.form[0] == NOTHING
        else:
            assert (found.form[0], found.old[0], found.new[0]) == (form, -1, columns)


def test_what_overlaps_without_end_is_not_looked_at() -> None:
    """Each of these begins a message of 4,000 columns that steps over the next ones."""
    cell = bytearray(row(b"N\x0f\xa0" + b"n" * 20 + b"t\0\0\0\x26"))
    cell[1:5] = (13_000).to_bytes(4, "big")
    data = bytes(cell) * 4000
    found = look_ahead(data)
    assert len(found.marks) >= 4000
    assert not found.form.any()
    alone = row(b"N\0\3nub\0\0\0\0") * 3 + bytes(40)
    assert look_ahead(alone).form.tolist() == [WHOLE] * 3


def test_entries_of_messages() -> None:
    one = row(b"N\0\1n")
    data = one + row(b"N\0\1t\0\0\0\2d\0") + one + bytes(40)  # a mark inside a value
    found = look_ahead(data)
    begins = np.array([0, len(one), len(data) - len(one) - 40])
    assert set(begins.tolist()) < set(found.marks.tolist())
    assert found.of(begins).form.tolist() == [WHOLE] * 3
    assert found.of(begins + 1).form.tolist() == [NOTHING] * 3  # nothing begins there
    moved = found.after(np.array([3], np.int32), 10)
    assert moved.of(np.array([3, 10])).form.tolist() == [NOTHING, WHOLE]
    assert look_ahead(b"").of(begins).form.tolist() == [NOTHING] * 3


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
