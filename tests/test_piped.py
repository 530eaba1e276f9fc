"""Captures that come through a pipe while they are recorded, and output into pipes that do not wait."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dissector.capture import sources

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "captures"
SMALL = (CAPTURES / "pg11-small.pcap").read_bytes()
TOUR = (CAPTURES / "tour.pcapng").read_bytes()
LIST = ("list", "-")
NDJSON = ("export", "-", "--format", "ndjson")
CSV = ("export", "-", "--format", "csv")
STRICT = ("list", "-", "--strict")
UPDATES = ("list", "-", "--filter", "message == Update")
COLUMNS = ("export", "-", "--format", "ndjson", "--fields", "--filter", "value contains 'e'")


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "dissector", *words], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.kill()


def whole(*words: str, name: str = "pg11-small.pcap") -> list[bytes]:
    """What a command writes of the capture as a file."""
    with_file = [str(CAPTURES / name) if word == "-" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-m", "dissector", *with_file], cwd=ROOT, capture_output=True, check=True
    )
    return done.stdout.splitlines(keepends=True)


def send(child: subprocess.Popen[bytes], data: bytes) -> None:
    assert child.stdin is not None
    child.stdin.write(data)
    child.stdin.flush()


def lines(child: subprocess.Popen[bytes], count: int) -> list[bytes]:
    """So many lines, which have to come while nothing else is sent."""
    assert child.stdout is not None
    found = b""
    while found.count(b"\n") < count:
        readable, _, _ = select.select([child.stdout], [], [], 60)
        assert readable, f"{count} lines were to come, not {len(found.splitlines())}"
        part = os.read(child.stdout.fileno(), 1 << 16)
        assert part, "it ended"
        found += part
    return found.splitlines(keepends=True)


def records(data: bytes) -> list[int]:
    """Where the records of a pcap file end; the file's head is one."""
    ends = [24]
    while ends[-1] < len(data):
        length = int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "little")
        ends.append(ends[-1] + 16 + length)
    return ends


@pytest.mark.parametrize("words", [LIST, STRICT, NDJSON, CSV, UPDATES, COLUMNS], ids=" ".join)
def test_what_came_is_written_while_more_is_waited_for(words: tuple[str, ...]) -> None:
    filtered = words[words.index("--filter") :] if "--filter" in words else ()
    frames = [json.loads(line)["frame"] for line in whole(*NDJSON, *filtered)]
    first, second = sorted(set(frames))[:2]
    expected = whole(*words)
    heads = len(expected) - len(frames)  # of CSV
    ends = records(SMALL)
    with started(*words) as child:
        send(child, SMALL[: ends[first]])
        got = lines(child, heads + frames.count(first))
        send(child, SMALL[ends[first] : ends[second]])
        got += lines(child, frames.count(second))
        send(child, SMALL[ends[second] :])
        out, _ = child.communicate(timeout=60)
    assert b"".join(got) + out == b"".join(expected)
    assert child.returncode == 0


def test_the_messages_of_each_frame_come_with_it() -> None:
    """By the frames that the server's own list and the file give, none is a frame late."""
    expected = whole(*NDJSON)
    frames = [json.loads(line)["frame"] for line in expected]
    ends = records(SMALL)
    begin = 12
    with started(*NDJSON) as child:
        send(child, SMALL[: ends[begin]])
        got = lines(child, sum(frame <= begin for frame in frames))
        for frame in range(begin + 1, begin + 8):
            send(child, SMALL[ends[frame - 1] : ends[frame]])
            if frame in frames:
                got += lines(child, frames.count(frame))
    assert got == expected[: len(got)]
    assert len(got) == sum(frame <= begin + 7 for frame in frames)


def test_pcapng_and_packed_streams_come_as_well() -> None:
    expected = whole(*LIST, name="tour.pcapng")
    half = len(TOUR) // 2
    with started(*LIST) as child:
        send(child, TOUR[:half])
        got = lines(child, 5)
        send(child, TOUR[half:])
        out, _ = child.communicate(timeout=60)
    assert b"".join(got) + out == b"".join(expected)
    members = gzip.compress(SMALL[:5000]), gzip.compress(SMALL[5000:])
    with started(*LIST) as child:
        send(child, members[0] + members[1][:10])
        got = lines(child, 5)
        send(child, members[1][10:])
        out, _ = child.communicate(timeout=60)
    assert b"".join(got) + out == b"".join(whole(*LIST))


@pytest.mark.parametrize("words", [LIST, ("stats", "-")], ids=" ".join)
def test_a_stream_that_ends_in_a_record_is_one_finding(words: tuple[str, ...]) -> None:
    ends = records(SMALL)
    frames = [json.loads(line)["frame"] for line in whole(*NDJSON)]
    begin, end = ends[max(frames) - 1 :][:2]
    with started(*words) as child:
        send(child, SMALL[:1000])
        send(child, SMALL[1000 : begin + 20])
        out, said = child.communicate(timeout=60)
    assert child.returncode == 0
    (line,) = [line for line in said.decode().splitlines() if "standard input:" in line]
    assert line.startswith(f"error: standard input: cut at byte {begin} ")
    assert f"needs {end - begin - 16} bytes, 4 remain" in line
    count = sum(frame < max(frames) for frame in frames)
    if words == LIST:
        assert out.splitlines(keepends=True) == whole(*LIST)[:count]
    else:
        assert f"messages     {count} ".encode() in out


@pytest.mark.parametrize("words", [LIST, ("stats", "-")], ids=" ".join)
def test_ctrl_c_ends_the_recording_not_the_work_on_it(words: tuple[str, ...]) -> None:
    """The one who records hears it, too, and writes what it still holds."""
    ends = records(SMALL)
    with started(*words) as child:
        send(child, SMALL[: ends[12]])
        wait_until_taken(child)
        child.send_signal(signal.SIGINT)
        send(child, SMALL[ends[12] :])
        out, said = child.communicate(timeout=60)
    assert child.returncode == 0, said
    if words == LIST:
        assert out == b"".join(whole(*LIST))
    else:
        assert f"messages     {len(whole(*LIST))} ".encode() in out


def test_ctrl_c_ends_where_the_sender_goes_on() -> None:
    ends = records(SMALL)
    with started(*LIST) as child:
        send(child, SMALL[: ends[12]])
        wait_until_taken(child)
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0  # its standard input stays open
        assert child.stdout is not None
        out = child.stdout.read()
    frames = [json.loads(line)["frame"] for line in whole(*NDJSON)]
    assert out.count(b"\n") == sum(frame <= 12 for frame in frames)


def wait_until_taken(child: subprocess.Popen[bytes]) -> None:
    """Wait until the process has read what was sent."""
    assert child.stdin is not None
    waiting = b"...."
    for _ in range(600):
        waiting = fcntl.ioctl(child.stdin, termios.FIONREAD, waiting)
        if waiting == bytes(4):
            return
        time.sleep(0.1)
    pytest.fail("it reads nothing")


@pytest.mark.parametrize(
    "words",
    [
        ("list", "-"),
        ("export", "-", "--format", "ndjson", "--fields"),
        ("export", "-", "--format", "csv"),
        ("export", "-", "--format", "pcap"),
        ("explain", "--json"),
    ],
    ids=" ".join,
)
def test_output_waits_for_room_in_a_pipe_that_does_not(words: tuple[str, ...]) -> None:
    """As node.js and ssh make them: what does not fit is refused by the system, not waited for."""
    expected = b"".join(whole(*words, name="pg18-proto4.pcap"))
    assert len(expected) > 1 << 17
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    file = [str(CAPTURES / "pg18-proto4.pcap") if word == "-" else word for word in words]
    command = [sys.executable, "-m", "dissector", *file]
    with subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=subprocess.PIPE) as child:
        got = b""
        while len(got) < 1 << 16:  # full by then, or soon
            got += os.read(source, 1 << 12)
        assert not os.get_blocking(sink)  # the flag is its owner's, too
        os.close(sink)
        with os.fdopen(source, "rb") as rest:
            got += rest.read()
        assert child.stderr is not None
        said = child.stderr.read()
    assert got == expected
    assert child.returncode == 0, said


PARALLEL = """
import sys
from dissector import parallel
text = [bytes([65 + i]) * 100_000 for i in range(6)]
def work(blocks):
    for i in blocks:
        yield parallel.Pieces([text[i][:50_000], text[i][50_000:]]) if {pieces} else text[i]
        yield b""
parallel.write_in_order(open(1, "wb"), range(6), work, 2)
"""


@pytest.mark.parametrize("pieces", [False, True])
def test_processes_wait_for_room_as_well(pieces: bool) -> None:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    command = [sys.executable, "-c", PARALLEL.format(pieces=pieces)]
    with subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=subprocess.PIPE) as child:
        os.close(sink)
        with os.fdopen(source, "rb") as rest:
            got = rest.read()
        assert child.stderr is not None
        assert child.stderr.read() == b""
    assert got == b"".join(bytes([65 + i]) * 100_000 for i in range(6))


@pytest.mark.parametrize(
    ("words", "code"),
    [(("list", "-", "--filter", "lsn ="), 2), (("stats", "-", "--keylog", "/missing/file"), 1),
     (("export", "-", "--format", "csv", "--filter", "lsn ="), 2),
     (("export", "-", "--format", "sql"), 2), (("export", "-", "--format", "csv", "--fields"), 2)],
)  # fmt: skip
def test_what_is_wrong_in_a_command_is_told_before_a_pipe_is_waited_for(
    words: tuple[str, ...], code: int
) -> None:
    with started(*words) as child:
        assert child.wait(60) == code  # nothing was sent, and its input is still open


def test_a_named_pipe_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer would go on, and have nobody to write to, as soon as it was closed again."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(sources, "_open", lambda *_: pytest.fail("it was opened"))
    assert not sources.is_plain_file(str(tmp_path / "pipe"))
