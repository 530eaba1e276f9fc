"""The line that tells how far a long reading or search is."""

from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path

import pytest

from dissector import progress
from dissector.export import write_export
from dissector.progress import Progress
from dissector.selection import parts
from dissector.view import open_capture

TOUR = Path(__file__).parent.parent / "captures" / "tour.pcapng"

EXPRESSION = 'value contains "a"'
"""Columns cannot decide it: messages are opened."""


class Screen(io.StringIO):
    """A terminal that both streams go to."""

    def isatty(self) -> bool:
        return True


def searched(monkeypatch: pytest.MonkeyPatch, error: io.StringIO, output: io.StringIO) -> None:
    """Search with no patience, and write every part found to `output`."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "STEP", 0.0)
    monkeypatch.setattr("sys.stderr", error)
    monkeypatch.setattr("sys.stdout", output)
    monkeypatch.setattr("dissector.query.filter.PAUSE", 0.0)
    with open_capture([str(TOUR)]) as capture:
        capture.read()
        capture.progress = Progress()
        for part in parts(capture, EXPRESSION):
            output.write("".join(f"<{number}>\n" for number in part.tolist()))


def test_a_search_tells_how_far_it_is_and_leaves_the_output_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = Screen()
    searched(monkeypatch, both, both)
    text = both.getvalue()
    assert "% searched, 1 found" in text
    assert "100% searched" in text
    for line in text.split("\n")[:-1]:  # what was found stands at the begin of its line, alone
        seen = line.rpartition("\r\x1b[K")[2]
        assert seen.startswith("<")
        assert "searched" not in seen
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("terminal", "form"), [(True, "ndjson"), (False, "ndjson"), (True, "pcap"), (False, "pcap")]
)
def test_writing_a_file_tells_how_far_it_is(
    terminal: bool, form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where standard output is a terminal, which nothing is written to meanwhile."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "STEP", 0.0)
    monkeypatch.setattr("dissector.runs.MANY_OBJECTS", 10)
    monkeypatch.setattr("dissector.runs.OBJECTS", 64)
    error = Screen() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", error)
    monkeypatch.setattr("sys.stdout", Screen())
    with open_capture([str(TOUR)]) as capture:
        capture.progress = Progress(apart=True)
        write_export(capture, form, str(tmp_path / "out"), None)
    text = error.getvalue()
    assert ("100% written" in text) == terminal
    assert not text or text.endswith("\r\x1b[K")
    if form == "ndjson":
        assert len((tmp_path / "out").read_text().splitlines()) == 249


@pytest.mark.parametrize("error", [Screen(), io.StringIO()], ids=["terminal", "file"])
def test_a_pipe_that_nobody_writes_to_is_said_to_be_waited_for(
    error: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", error)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        until = time.monotonic() + 20
        while error.isatty() and not error.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        pipe.write_bytes(TOUR.read_bytes())

    writer = threading.Thread(target=write)
    writer.start()
    with open_capture([str(pipe)]) as capture:
        assert capture.read().count == 249
    writer.join()
    said = f"pgdissect: {pipe}: waiting for a program that writes to it; Ctrl+C ends\n"
    assert error.getvalue() == (said if error.isatty() else "")


def test_where_no_terminal_is_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    error = io.StringIO()
    searched(monkeypatch, error, io.StringIO())
    assert not error.getvalue()
