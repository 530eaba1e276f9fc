"""How the process deals with memory that it gave back."""

from __future__ import annotations

import contextlib
import sys

_TRIM, _MMAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's mallopt(3)."""

KEPT = 1 << 28


def keep_freed_memory() -> None:
    """Let arrays use the memory of those before them. By default glibc returns large blocks to the system
    at once, which has to clear new pages for the next ones: for millions of messages, a tenth of the time.
    Where there is no glibc nothing happens."""
    _ask("mallopt", _TRIM, KEPT)
    _ask("mallopt", _MMAP, KEPT)


def give_back_freed_memory() -> None:
    """Before processes are forked: else each of them copies pages that nobody uses."""
    _ask("malloc_trim", 0)


def _ask(name: str, *arguments: int) -> None:
    """Call a function of glibc, where that is the C library."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        getattr(ctypes.CDLL(None), name)(*arguments)
