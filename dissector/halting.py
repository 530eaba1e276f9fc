"""Long work that nobody may wait for any more: it asks now and then, deep inside, and ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class HaltedError(Exception):
    """Nobody waits for what this thread makes."""


class _OfThread(threading.local):
    halted: Callable[[], bool] | None = None


_asked = _OfThread()


@contextlib.contextmanager
def halting(halted: Callable[[], bool]) -> Iterator[None]:
    """While it lasts, `go_on` raises in this thread from when `halted` says that work is to end."""
    before, _asked.halted = _asked.halted, halted
    try:
        yield
    finally:
        _asked.halted = before


def go_on() -> None:
    """To be called where long work can be broken off. Raises HaltedError where somebody gave it up."""
    halted = _asked.halted
    if halted is not None and halted():
        raise HaltedError
