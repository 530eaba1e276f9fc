"""Places where a message of one kind may begin: found once, many at a time."""

from __future__ import annotations

import numpy as np

from dissector.capture.frames import Array

AT_ONCE = 1 << 17
"""Bytes that are looked through at once: they, and what is found of each, stay in the processor's cache."""


def marks_of(data: Array, tag: int) -> Array:
    """Offsets (int32, ascending) in `data` (uint8) of a type byte `tag` with a zero behind it, the first
    byte of a length below 16 MiB. A tag in the last byte is not among them."""
    parts = []
    last = len(data) - 1
    tags, zeros = np.empty((2, max(min(AT_ONCE, last), 0)), bool)
    for start in range(0, last, AT_ONCE):
        stop = min(start + AT_ONCE, last)
        here = np.equal(data[start:stop], tag, out=tags[: stop - start])
        here &= np.equal(data[start + 1 : stop + 1], 0, out=zeros[: stop - start])
        at = np.flatnonzero(here)
        at += start
        parts.append(at)
    found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return found.astype(np.int32)
