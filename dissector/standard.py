"""The standard streams of a command: there, patient, and quiet where nobody takes what they are given."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from .errors import UserError
from .patience import PatientFile
from .text import visible

INTERRUPTED = 130
"""Exit code after Ctrl+C, as shells have it."""


def prepare_streams() -> None:
    """Give the standard streams that are closed a place, and let none refuse a character or lose what the
    system does not take at once.

    Raises UserError where standard output is closed: what was asked for would be lost.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - the flush at the end needs one
        raise UserError("standard output is closed; send it to a file or a pipe")
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)


def _patient(stream: TextIO) -> TextIO:
    """The same stream, where it is one of the system; python -u makes one that would write a part where a
    disk is full, and tell no error."""
    raw = getattr(stream, "buffer", None)
    raw = getattr(raw, "raw", raw)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(PatientFile(raw.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """While numpy is loaded, Ctrl+C ends the program at once: numpy would take it for a fault of its own."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def silence() -> None:
    """Nobody takes the output: write the rest nowhere, so that exit stays quiet too."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def not_written(problem: OSError) -> str:
    """The line for output that could not be written."""
    where = visible(str(problem.filename)) if problem.filename else "standard output"
    return f"{where}: {problem.strerror or problem}; write to another place, or make room"
