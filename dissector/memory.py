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
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM, KEPT)
        mallopt(_MMAP, KEPT)
