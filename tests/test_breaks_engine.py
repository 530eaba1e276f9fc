"""What broke the fast ways to read and write: they say what the slow ones say, and their processes end."""

from __future__ import annotations

import errno
import faulthandler
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import transforms as t
from test_index import assert_same
from test_objects import BEGIN, INT4, TEXT, described, made, message, row
from test_row_objects import made as made_of_session

from dissector import framing, parallel
from dissector.ahead import look_ahead
from dissector.capture import far, open_capture_files
from dissector.capture.sources import Source
from dissector.errors import UserError
from dissector.findings import Severity
from dissector.report import list_cells
from dissector.runs import Runs
from dissector.view import open_capture

OID = 16400


@pytest.mark.parametrize("odd", range(4))
def test_times_of_pcapng_lines_behind_one_that_is_opened(odd: int, tmp_path: Path) -> None:
    """Messages of one frame, some of which are written without opening them, in every order."""
    columns = [("id", INT4), ("note", TEXT)]
    head = b"I" + struct.pack("!I", OID) + b"N"
    plain = head + row([b"1", b"one"])
    strange = [
        head + row([b"1"]),  # a column is missing
        head + row([b"1", b"\xff\x00\x1b"]),
        b"T" + struct.pack("!iBI", 1, 0, OID),
        head + b"\0\2q",
    ][odd]
    changes = [BEGIN, described(OID, "t", columns), strange]
    for i in range(300):
        changes += [strange] * (i % 3) + [plain] * (i % 5)
    made(tmp_path, changes).close()
    given = t.packets(tmp_path / "made.pcap")
    path = tmp_path / "made.pcapng"
    path.write_bytes(t.pcapng(t.frames(t.joined(given, 9000))))
    with open_capture([str(path)]) as capture:
        capture.read()
        assert capture.count > 400
        for chosen in (range(1, capture.count + 1), range(1, capture.count + 1, 7)):
            lines = [line for block in Runs(capture).lines(chosen) for line in block]
            for number, line in zip(chosen, lines, strict=True):
                assert line == "\t".join(list_cells(capture, capture.message(number)))


# -- processes that write


def work(blocks: Iterable[int]) -> Iterator[bytes]:
    for block in blocks:
        yield bytes([block]) * 1000
        yield b""


WANTED = b"".join(bytes([block]) * 1000 for block in range(20))


def open_files() -> int:
    here = Path("/proc/self/fd")
    return len(list(here.iterdir())) if here.is_dir() else 0


def assert_no_child() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("what", ["fork", "pipe"])
def test_no_processes_to_write_with(
    what: str, allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses the first, second, or third one."""
    real, count = getattr(os, what), 0

    def refuse() -> object:
        nonlocal count
        count += 1
        if count > allowed:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    before = open_files()
    monkeypatch.setattr(os, what, refuse)
    with (tmp_path / "out").open("w+b") as out:
        parallel.write_in_order(out, range(20), work, 3)
        out.seek(0)
        assert out.read() == WANTED
    count = 0
    assert b"".join(parallel.in_order(range(20), work, 3)) == WANTED
    assert open_files() <= before
    assert_no_child()


TOLD = "it became shorter; copy it → elsewhere"


@pytest.mark.parametrize(
    ("problem", "words"),
    [(MemoryError(), ""), (UserError(TOLD), TOLD), (OSError(errno.ENOSPC, ""), "No space left"),
     (None, r"memory left.*taskset")],
    ids=["no memory", "told", "no room", "killed"],
)  # fmt: skip
def test_a_process_that_writes_dies(
    problem: Exception | None, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = os.getpid()

    def die(blocks: Iterable[int]) -> Iterator[bytes]:
        yield from work(list(blocks)[:2])
        if os.getpid() == here:
            yield from work(list(blocks)[2:])
            return
        if problem is not None:
            raise problem
        os.kill(os.getpid(), signal.SIGKILL)

    kind = type(problem) if problem is not None else UserError
    with (tmp_path / "out").open("wb") as out, pytest.raises(kind, match=words or None):
        parallel.write_in_order(out, range(20), die, 2)
    with pytest.raises(kind, match=words or None):
        list(parallel.in_order(range(20), die, 2))
    assert_no_child()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("problem", [MemoryError(), UserError(TOLD), OSError(errno.ENOSPC, "no")])
def test_who_began_the_work_fails(problem: Exception, tmp_path: Path) -> None:
    """The other processes are ended, and what went wrong is told."""
    here, before = os.getpid(), open_files()

    def die(blocks: Iterable[int]) -> Iterator[bytes]:
        yield from work(list(blocks)[:2])
        if os.getpid() == here:
            raise problem
        yield from work(list(blocks)[2:])

    with (
        (tmp_path / "out").open("wb") as out,
        pytest.raises(type(problem), match=re.escape(str(problem)) or None),
    ):
        parallel.write_in_order(out, range(20), die, 3)
    assert open_files() <= before
    assert_no_child()


ENDLESS = r"""
import os, signal, sys, time
from dissector.parallel import write_in_order
signal.signal(signal.SIGINT, signal.default_int_handler)
def work(blocks):
    os.write(2, b"%d\n" % os.getpid())
    while True:
        time.sleep(0.01)
        yield b"x" * 100
with open(sys.argv[1], "wb") as out:
    write_in_order(out, [1, 2], work, 2)
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_who_began_the_work_is_ended(end: signal.Signals, tmp_path: Path) -> None:
    """Nobody goes on writing, neither who has the turn nor who waits for it, and nobody complains."""
    parent = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "out")],
        stderr=subprocess.PIPE, cwd=Path(__file__).parent.parent, text=True,
    )  # fmt: skip
    assert parent.stderr is not None
    children = [int(parent.stderr.readline()) for _ in range(2)]
    parent.send_signal(end)
    said = parent.stderr.read()  # until the last of the three has ended
    parent.wait()
    assert "ended early" not in said
    assert "BrokenPipe" not in said
    assert said.count("Traceback") == (end == signal.SIGINT)  # of the parent, which has no handler
    for child in children:
        assert not running(child)


def running(process: int) -> bool:
    """Whether a process still works; one that ended and waits for its parent does not."""
    status = Path(f"/proc/{process}/stat")
    for _ in range(100):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


# -- releases


@pytest.mark.parametrize("release", [10, 13, 14, 18])
def test_binary_columns_of_releases_that_do_not_know_them(release: int, tmp_path: Path) -> None:
    """Binary columns came with release 14; the same is found by whatever looks at many rows at once."""
    head = b"I" + struct.pack("!I", OID) + b"N\0\2"
    binary = head + b"t\0\0\0\1" + b"1" + b"b\0\0\0\2\0\1"
    changes = [BEGIN, described(OID, "t", [("id", INT4), ("n", INT4)])]
    changes += [head + b"t\0\0\0\1" + b"1n", binary] * 60
    made(tmp_path, changes).close()
    path = tmp_path / "made.pcap"
    data = path.read_bytes().replace(
        b"server_version\x0018.1\0", b"server_version\0%d.1\0" % release
    )
    path.write_bytes(data)
    index = assert_same(path)
    wanted = 60 if release < 14 else 0
    assert int((index.rows.column("severity") == Severity.ERROR).sum()) == wanted


@pytest.mark.parametrize("looks", [True, False])
def test_a_capture_that_is_cut_while_a_second_process_reads_it(
    looks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """looks: the process sees it; else the file was cut just after, and the system ends the process."""
    path = tmp_path / "cut.pcap"
    path.write_bytes((t.CAPTURES / "pg18-proto1.pcap").read_bytes())
    run = far._Sender.run

    def cut(self: far._Sender) -> None:
        faulthandler.disable()
        os.truncate(path, 100)
        if not looks:
            Source.need = lambda self, stop, at=-1: None  # only in the other process
        run(self)

    monkeypatch.setattr(far._Sender, "run", cut)
    with open_capture_files([str(path)]) as files:
        list(far.FarStreams(files, look_ahead).batches())
        (found,) = files.findings
    assert found.code == "file-cut"
    assert "became shorter while it was read, to 100 bytes" in found.text
    assert_no_child()


def test_changes_of_nothing_at_the_end_of_what_is_read(tmp_path: Path) -> None:
    """WAL data that carries no message, up to the last byte: no byte behind it is taken for one."""
    with made(tmp_path, [b""] * 700) as capture:
        assert capture.message(capture.count).path == ("CopyData", "XLogData", "Unknown")
        assert (capture.index.rows.column("severity")[-700:] == Severity.ERROR).all()
    assert_same(tmp_path / "made.pcap")


def test_copy_data_of_nothing_is_read_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty messages of a client, among rows, whole and cut: as if read one by one."""
    rows = [message("d"), message("d", b"1\t2\n"), message("d", b"3\t"), message("d", b"4\n")]
    some = [rows[0] * 900, rows[1] * 20, rows[0] * 3, rows[2], rows[0] * 9, rows[3]]
    start = [(0, message("Q", b"copy t from stdin\0")), (1, message("G", b"\0\0\2\0\0\0\0"))]
    walked = []
    walk = framing.walk
    monkeypatch.setattr(framing, "walk", lambda *given: walked.append(1) or walk(*given))
    made_of_session(tmp_path, [*start, (0, b"".join(some * 3)), (0, message("c"))]).close()
    assert len(walked) < 100
    assert_same(tmp_path / "made.pcap")
