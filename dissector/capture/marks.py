"""Places where a message of one kind may begin: found once, many at a time."""

from __future__ import annotations

import numpy as np

from dissector.capture.frames import Array

AT_ONCE = 1 << 18
"""Bytes that are looked through at once: they stay in the processor's cache."""


def marks_of(data: Array, tag: int) -> Array:
    """Offsets (int32, ascending) in `data` (uint8) of a type byte `tag` with a zero behind it, the first
    byte of a length below 16 MiB. A tag in the last byte is not among them."""
    parts = []
    last = len(data) - 1
    for start in range(0, last, AT_ONCE):
        stop = min(start + AT_ONCE, last)
        here = (data[start:stop] == tag) & (data[start + 1 : stop + 1] == 0)
        parts.append(np.flatnonzero(here) + start)
    found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return found.astype(np.int32)
