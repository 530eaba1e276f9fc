"""Values of a column, of many rows at once, as cells of a line: cut, checked and quoted."""

from __future__ import annotations

import numpy as np

from .rowpieces import FLOATING, QUOTED
from .slots import WINDOW, Array
from .summary import VALUE

SHORT = 15
"""Bytes of a value that goes into a small window."""

_CUT = np.frombuffer("…".encode(), np.uint8)
CUT = len(_CUT) - 1
"""Bytes of the mark of a cut value that begin no character."""


def _masks(width: int) -> Array:
    """At item i a window whose first i bytes are kept."""
    kept = np.arange(width) < np.arange(width + 1)[:, None]
    return (kept * np.uint8(255)).astype(np.uint8).view(f"V{width}")[:, 0]


def _marks(width: int, at: int, mark: bytes) -> Array:
    """At item i a window with a quote at i; where the value is longer than `at`, `mark` and a quote."""
    found = np.zeros((width + 1, width), np.uint8)
    for i in range(width):
        found[i, i] = ord("'")
    for i in range(at + 1, width + 1):
        found[i] = 0
        found[i, at - 1 : at + len(mark)] = np.frombuffer(mark + b"'", np.uint8)
    return found.view(f"V{width}")[:, 0]


_MASKS = {16: _masks(16), WINDOW: _masks(WINDOW)}
_QUOTES = {16: _marks(16, 16, b""), WINDOW: _marks(WINDOW, VALUE, "…".encode())}


def shown_values(cells: Array, size: Array, sort: Array) -> tuple[Array, Array, Array | None]:
    """The windows that values begin in, cut to what is shown of them, with their quotes: (windows,
    lengths, mask of those that have to be looked at; None for none)."""
    width, count = cells.itemsize, len(cells)
    numeric = sort != QUOTED
    held = np.minimum(size, VALUE + 1)
    words = cells.view(np.uint64).reshape(count, -1)
    words &= _MASKS[width].take(held).view(np.uint64).reshape(count, -1)
    seen = cells.view(np.uint8).reshape(count, width)
    bad = _odd(seen, held, numeric, sort == FLOATING)
    empty = numeric & ((size == 0) | (size > VALUE))
    if empty.any():
        bad = empty if bad is None else bad | empty
    quoted = ~numeric
    lengths = np.minimum(size, VALUE) + quoted
    if width > 16:
        cut = np.flatnonzero(size > VALUE)
        seen[cut, VALUE - 1 :] = 0
        lengths[cut] += CUT
    which = np.flatnonzero(quoted)
    if len(which) == count:
        words |= _QUOTES[width].take(held).view(np.uint64).reshape(count, -1)
    elif len(which):
        words[which] |= (
            _QUOTES[width].take(held.take(which)).view(np.uint64).reshape(len(which), -1)
        )
    return cells, lengths, bad


def plain_values(cells: Array, size: Array, texts: Array) -> tuple[Array, Array, Array, Array]:
    """The windows of WINDOW bytes that strings begin in, as they are shown: those in the mask `texts` as they
    are, the others with a quote behind them. Returns the windows, their lengths, a mask of those that hold
    nothing else than letters that are shown as they are, and a mask of those that are cut; others than
    `texts` are not."""
    held = np.minimum(size, VALUE + 1)
    words = cells.view(np.uint64).reshape(len(cells), -1)
    words &= _MASKS[WINDOW].take(held).view(np.uint64).reshape(len(cells), -1)
    seen = cells.view(np.uint8).reshape(len(cells), WINDOW)
    plain = (seen - np.uint8(32)) <= 94
    plain &= seen != ord("\\")
    long = size > VALUE
    lengths = np.minimum(size, VALUE)
    if texts.all():
        good: Array = np.count_nonzero(plain, axis=1) == held
    else:
        marks = (seen == ord("'")) | (seen == ord('"'))
        plain &= ~(marks & ~texts[:, None])
        good = np.count_nonzero(plain, axis=1) == held
        good &= texts | ~long
        quoted = np.flatnonzero(good & ~texts)
        seen[quoted, size[quoted]] = ord("'")
        lengths[quoted] += 1
    empty = np.flatnonzero((size == 0) & texts)
    seen[empty, :2] = ord("'")
    lengths[empty] = 2
    cut = long & good
    seen[cut, VALUE - 1 : VALUE - 1 + len(_CUT)] = _CUT
    lengths[cut] += CUT
    return cells, lengths, good, cut


def _odd(seen: Array, held: Array, numeric: Array, floating: Array) -> Array | None:
    """Mask of the values that hold other bytes than those that are shown as they are; None for none."""
    digits = bool(numeric.any())
    odd: Array
    if digits and numeric.all():
        odd = (seen - np.uint8(48)) > 9
        odd &= seen != 0
    else:
        odd = (seen - np.uint8(32)) > 94
        odd &= seen != 0
        odd |= seen == ord("'")
        odd |= seen == ord("\\")
        if digits:
            others = (seen - np.uint8(48)) > 9
            others &= seen != 0
            others &= numeric[:, None]
            odd |= others
    full = np.count_nonzero(seen) == int(held.sum())  # or there are 0 bytes in the values
    if full and not odd.any():
        return None
    if digits:  # a minus sign in front is usual
        minus = numeric & (seen[:, 0] == ord("-")) & (held > 1)
        odd[minus, 0] = False
        if floating.any():
            points = seen == ord(".")
            good = floating & (np.count_nonzero(points, axis=1) == 1) & (held > 1 + minus)
            odd &= ~(points & good[:, None])
    bad: Array = np.logical_or.reduce(odd, axis=1)
    if not full:
        bad |= np.count_nonzero(seen, axis=1) != held
    return bad
