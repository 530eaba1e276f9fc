"""Output to files that do not wait until there is room for it (O_NONBLOCK).

Whoever shares a pipe or a terminal may have made it such a file: node.js and ssh do. Its flag is theirs,
too, so it stays as it is, and the wait is here.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import Any, TypeVar

Given = TypeVar("Given")


class PatientFile(io.FileIO):
    """A file of the system, by its number, that waits for room."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)

    def write(self, data: Any) -> int:
        """Write what there is room for, at least something; how much it was."""
        while (done := super().write(data)) is None:
            _wait(self.fileno())
        return done


def patiently(write: Callable[[int, Given], int], to: int, data: Given) -> int:
    """What `write` gives, `os.write` or `os.writev`, as soon as the file `to` has room."""
    while True:
        try:
            return write(to, data)
        except BlockingIOError:
            _wait(to)


def write_all(to: int, data: bytes | memoryview) -> None:
    """Write all of `data` to the file `to`."""
    rest = memoryview(data)
    while rest:
        rest = rest[patiently(os.write, to, rest) :]


def _wait(number: int) -> None:
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    poll.poll()
