"""A line on a terminal's standard error that tells how far a long reading is; nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .index import Index

PATIENCE, STEP = 1.0, 0.2
"""Seconds before the line first comes, and between two of its changes."""


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Say `text` where the work inside has not ended after PATIENCE, on a line of its own. Only the main
    thread's work: while another's goes on, the interface may be what is on the terminal."""
    if threading.current_thread() is not threading.main_thread() or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # there is one thread where processes are begun


class Progress:
    """Call `show` as the index grows, `searching` as a filter goes on, `writing` as a file grows, and
    `clear` before other output and at the end.

    active: whether there is a line for reading: only where standard error is a terminal and standard
    output is not, since it would stand between lines of output; apart: nothing is written there
    meanwhile. A search takes its line away before what it found is written: it needs no more than a
    terminal for standard error.
    """

    def __init__(self, active: bool | None = None, apart: bool = False) -> None:
        terminal = sys.stderr.isatty()
        usual = terminal and (apart or not sys.stdout.isatty())
        self.active = usual if active is None else active
        self.active_searching = terminal if active is None else active
        self.next = time.monotonic() + PATIENCE
        self.shown = False

    def show(self, index: Index) -> None:
        """Say how much of the files was read and how many messages were found."""
        if self.active and time.monotonic() >= self.next:
            done = f"{index.read * 100 // index.size:3d}% " if index.size else ""
            self._say(f"{done}read, {len(index):,} messages")

    def searching(self, done: int, total: int, found: int) -> None:
        """Say how many of `total` messages a filter has decided, and how many passed."""
        if self.active_searching and time.monotonic() >= self.next:
            part = f"{done * 100 // total:3d}% " if total else ""
            self._say(f"{part}searched, {found:,} found")

    def writing(self, done: int, total: int) -> None:
        """Say how much of what is to be written was written."""
        if self.active and time.monotonic() >= self.next:
            self._say(f"{done * 100 // total:3d}% written")

    def _say(self, text: str) -> None:
        self.next = time.monotonic() + STEP
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()
        self.shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = False
