"""A line on a terminal's standard error that tells how far a long reading is; nothing elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .index import Index

PATIENCE, STEP = 1.0, 0.2
"""Seconds before the line first comes, and between two of its changes."""


class Progress:
    """Call `show` as the index grows and `clear` at the end. `active` only where standard error is a
    terminal and standard output is not: the line would stand between lines of output."""

    def __init__(self, active: bool | None = None) -> None:
        terminal = sys.stderr.isatty() and not sys.stdout.isatty()
        self.active = terminal if active is None else active
        self.next = time.monotonic() + PATIENCE
        self.shown = False

    def show(self, index: Index) -> None:
        """Say how much of the files was read and how many messages were found."""
        if not self.active or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + STEP
        done = f"{index.read * 100 // index.size:3d}% " if index.size else ""
        sys.stderr.write(f"\r{done}read, {len(index):,} messages\x1b[K")
        sys.stderr.flush()
        self.shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = False
