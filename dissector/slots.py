"""Many lines of text put together at once, by arrays.

A line is a head and a summary that grows cell by cell. A cell is a column of texts: one window of up to
WINDOW bytes for each line, of which the first so many count. What is behind them in a window goes to the
output too, but is written over: by the line's next cell, or by the head of the next line, since heads are
written after it. Lines whose head is shorter than a window are written as a whole after that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WINDOW = 48
"""Bytes of a cell at most."""

MOST_TEXTS, LONG = 1 << 13, 192
"""Texts that are kept, and how long one may be."""

DENSE, MOST_CODES = 1 << 16, 1 << 20
"""Numbers below these are counted, and kept, in a table."""

_CUT = "…".encode()
_NEVER = 1 << 40
_MYRIAD = np.uint32(10_000)


def _texts(base: int) -> Array:
    """The four digits of each number, then the same without zeros in front (0 bytes stand there; of 0
    nothing is left), then the same, but 0 is "0"."""
    count = base**4
    numbers = np.arange(count)
    full = np.empty((count, 4), np.uint8)
    for i in range(4):
        full[:, i] = np.frombuffer(b"0123456789ABCDEF", np.uint8)[numbers // base ** (3 - i) % base]
    bare = full.copy()
    for i in range(4):
        bare[: base ** (3 - i), i] = 0
    last = bare.copy()
    last[0, 3] = ord("0")
    return np.concatenate([full, bare, last]).view(np.uint32)[:, 0]


@cache
def _table(base: int) -> tuple[Array, Array]:
    """The texts, and how many digits each number has, 1 for 0."""
    counts = np.ones(base**4, np.uint8)
    for i in range(1, 4):
        counts[base**i :] += np.uint8(1)
    return _texts(base), counts


def decimal(values: Array, blank: bool = False) -> tuple[Array, Array]:
    """Eight bytes a number of up to 32 bits, twelve where one has more digits: its digits at the end, 0
    bytes before them; and how many digits. blank: 0 is none at all."""
    table, counts = _table(10)
    values = values.astype(np.uint32)
    high = values // _MYRIAD
    low = values - high * _MYRIAD
    zero = _MYRIAD if blank else _MYRIAD * np.uint32(2)
    long = int(high.max(initial=0)) >= _MYRIAD
    out = np.empty((len(values), 2 + long), np.uint32)
    out[:, -1] = table.take(low + zero * (high == 0))
    middle, more = high, None
    if long:
        top = high // _MYRIAD
        middle, more = high - top * _MYRIAD, top > 0
        out[:, 0] = table.take(top + _MYRIAD)
        out[:, 1] = table.take(np.where(more, middle, middle + _MYRIAD))
    else:
        out[:, 0] = table.take(high + _MYRIAD)
    digits = np.where(high > 0, counts.take(middle) + np.uint8(4), counts.take(low))
    if more is not None:
        digits = np.where(more, counts.take(top) + np.uint8(8), digits)
    if blank:
        digits[values == 0] = 0
    return out.view(np.uint8), digits.astype(np.int64)


def hexadecimal(values: Array) -> tuple[Array, Array]:
    """Eight bytes a number of 32 bits: its hexadecimal digits at the end, 0 bytes before them; and how
    many digits."""
    table, counts = _table(16)
    high, low = values >> 16, values & 0xFFFF
    out = np.empty((len(values), 2), np.uint32)
    out[:, 0] = table.take(high + 65_536)
    out[:, 1] = table.take(low + 131_072 * (high == 0))
    digits = np.where(high > 0, counts.take(high) + np.uint8(4), counts.take(low))
    return out.view(np.uint8), digits.astype(np.int64)


def last_bytes(cells: Array, width: int) -> Array:
    """The last `width` bytes of each cell, as windows."""
    count, whole = cells.shape
    return np.ndarray((count,), f"V{width}", cells, offset=whole - width, strides=(whole,))


def left(cells: Array, lengths: Array) -> Array:
    """Cells whose text is at their end, with the text at the beginning, as windows."""
    count, width = cells.shape
    if width == 8:  # the first byte of such a number is its lowest one
        return (cells.view("<u8")[:, 0] >> ((8 - lengths) * 8).view(np.uint64)).view("V8")
    flat = np.empty(count * width + width, np.uint8)
    flat[: count * width] = cells.reshape(-1)
    return windows(flat, width)[np.arange(width, count * width + width, width) - lengths]


def ended(cells: Array, lengths: Array, mark: str) -> Array:
    """Cells of eight bytes whose text is at their end, with the text at the beginning and `mark`, which is
    one byte, behind it."""
    if lengths.max(initial=0) == 8:
        return left(marked(cells, mark).view(np.uint8).reshape(-1, 9), lengths + 1)
    marks = np.uint64(ord(mark)) << (lengths * 8).view(np.uint64)
    return (left(cells, lengths).view("<u8") | marks).view("V8")


def marked(cells: Array, mark: str) -> Array:
    """Cells with one more byte, `mark`, behind them, as windows."""
    count, width = cells.shape
    out = np.empty(count, np.dtype([("text", f"V{width}"), ("mark", np.uint8)]))
    out["text"] = last_bytes(cells, width)
    out["mark"] = ord(mark)
    return out.view(f"V{width + 1}")


def distinct(values: Array, space: int) -> tuple[Array, Array]:
    """The different values, all below `space`, and for each value its place among them."""
    if space > DENSE:
        found, places = np.unique(values, return_inverse=True)
        return found, places
    table = np.zeros(space, np.int32)
    table[values] = 1
    found = np.flatnonzero(table)
    table[found] = np.arange(len(found))
    return found, table[values]


def windows(data: Any, width: int) -> Array:
    """At item i the `width` bytes from byte i of `data` on."""
    size = data.nbytes if isinstance(data, np.ndarray) else len(data)
    return np.ndarray((max(size - width + 1, 0),), f"V{width}", data, strides=(1,))


def packed(texts: list[bytes], width: int = 0) -> Array:
    """Texts as an array of windows; longer ones are cut."""
    width = max(width or max(map(len, texts), default=1), 1)
    return np.array(texts, f"S{width}").view(f"V{width}")


class Known:
    """Numbers for codes, each found once."""

    def __init__(self) -> None:
        self._table = np.zeros(0, np.int32)  # by code: 0 unknown, else the number and 2
        self._sparse: dict[int, int] = {}

    def of(self, codes: Array, space: int, find: Callable[[int, int], int | None]) -> Array:
        """The number of each of `codes`, which are below `space`. find: of a code and the place in
        `codes` where it comes first, the number, -1 at least; None for -1 and to be asked again."""
        if space > MOST_CODES:
            return self._of_many(codes, find)
        if space > len(self._table):
            table = np.zeros(space + space // 2, np.int32)  # what is not touched takes no memory
            table[: len(self._table)] = self._table
            self._table = table
        numbers = self._table[codes].astype(np.int64)
        new = np.flatnonzero(numbers == 0)
        if len(new):
            found, first = np.unique(codes[new], return_index=True)
            for code, place in zip(found.tolist(), new[first].tolist(), strict=True):
                number = find(code, place)
                if number is not None:
                    self._table[code] = number + 2
            numbers = np.maximum(self._table[codes].astype(np.int64), 1)
        return numbers - 2

    def _of_many(self, codes: Array, find: Callable[[int, int], int | None]) -> Array:
        found, first, places = np.unique(codes, return_index=True, return_inverse=True)
        known = self._sparse
        if len(known) > MOST_CODES:
            known.clear()
        numbers = np.full(len(found), -1)
        for i, (code, place) in enumerate(zip(found.tolist(), first.tolist(), strict=True)):
            number = known.get(code)
            if number is None:
                number = find(code, place)
                if number is None:
                    continue
                known[code] = number
            numbers[i] = number
        return numbers[places]


class Texts:
    """Texts for codes, each made once."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._numbers = Known()
        self._texts: dict[bytes, int] = {}
        self._made = ending([])

    def of(
        self, codes: Array, space: int, make: Callable[[int], bytes], slow: Array
    ) -> tuple[Array, Array, Array]:
        """The texts for `codes`, which are below `space`: their lengths, a table of cells that end with
        texts, and the place of each in it. Where a text is longer than LONG, `slow` becomes true instead."""
        if len(self._texts) > MOST_TEXTS:
            self._forget()

        def find(code: int, _: int) -> int:
            text = make(code)
            return self._texts.setdefault(text, len(self._texts)) if len(text) <= LONG else -1

        which = self._numbers.of(codes, space, find)
        if len(self._made[0]) != len(self._texts):
            self._made = ending(list(self._texts))
        lengths, cells = self._made if self._texts else ending([b""])
        if which.min(initial=0) < 0:
            slow |= which < 0
            which = np.maximum(which, 0)
        return lengths.take(which), cells, which


def ending(texts: list[bytes]) -> tuple[Array, Array]:
    """The lengths of texts, and windows that end with them."""
    lengths = np.array(list(map(len, texts)), np.int64)
    width = int(lengths.max(initial=1))
    return lengths, packed([text.rjust(width) for text in texts], width)


class Slots:
    """The summaries of `count` lines. size: bytes so far; extra: how many of these bytes begin no
    character; whole: texts that stand for whole summaries, by line."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.size = np.zeros(count, np.int64)
        self.extra = np.zeros(count, np.int64)
        self.whole: dict[int, bytes] = {}
        self._cells: list[tuple[Array, Array, Array | None, Array]] = []
        self._cut, self._at = np.zeros(0, np.int64), 0

    def add(
        self, rows: Array, cells: Array, lengths: Array | int, which: Array | None = None
    ) -> None:
        """Put cells behind what the lines `rows`, each named once, have; one for each line, one for all of
        them, or with `which` a table of cells and which of these each line gets."""
        if cells.ndim == 2:
            cells = cells.view(f"V{cells.shape[1]}")[:, 0]
        start = self.size.take(rows)
        if which is not None:
            which = which.astype(np.int32)
        self._cells.append((rows, cells, which, start.astype(np.int32)))
        self.size[rows] = start + lengths

    def add_text(self, rows: Array, text: str) -> None:
        """The same text for all `rows`."""
        data = text.encode()
        if len(data) != len(text):
            self.extra[rows] += len(data) - len(text)
        for i in range(0, len(data), WINDOW):
            part = data[i : i + WINDOW]
            self.add(rows, np.frombuffer(part, f"V{len(part)}"), len(part))

    def add_texts(self, rows: Array, texts: list[str]) -> None:
        """A text for each of `rows`."""
        data = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, data), np.int64, len(data))
        characters = np.fromiter(map(len, texts), np.int64, len(data))
        self.extra[rows] += lengths - characters
        while len(rows):
            self.add(rows, packed(data, WINDOW), np.minimum(lengths, WINDOW))
            more = np.flatnonzero(lengths > WINDOW)
            rows, lengths = rows[more], lengths[more] - WINDOW
            data = [data[i][WINDOW:] for i in more.tolist()]

    def characters(self, rows: Array) -> Array:
        """How many characters lines have so far."""
        return self.size.take(rows) - self.extra.take(rows)

    def cut(self, rows: Array, characters: int) -> None:
        """Cut summaries, whose characters are all of one byte, to so many and "…"."""
        self._cut, self._at = rows, characters
        self.size[rows] = characters + len(_CUT)
        self.extra[rows] = len(_CUT) - 1

    def reach(self) -> Array:
        """How many bytes behind its begin windows of a summary go at most."""
        reach = np.zeros(self.count, np.int64)
        for rows, cells, _, start in self._cells:
            reach[rows] = np.maximum(reach[rows], start + cells.itemsize)
        reach[list(self.whole)] = WINDOW
        return np.minimum(reach, self.size + WINDOW)

    def write(self, out: Array, begins: Array) -> None:
        """Write the cells to `out`, and forget them; a summary begins at its place in `begins`, with `size`
        bytes of room. What replaced a summary as a whole is not written here."""
        limit = np.full(self.count, _NEVER)
        limit[list(self.whole)] = 0
        limit[self._cut] = self._at + 1
        bounded = len(self.whole) > 0 or len(self._cut) > 0
        last: Array | None = None
        for rows, cells, which, start in self._cells:
            if rows is not last:
                last, begin, most = rows, begins.take(rows), limit.take(rows)
            at = begin + (np.minimum(start, most) if bounded else start)
            windows(out, cells.itemsize)[at] = (
                cells if which is None else cells.take(which, mode="clip")
            )
        self._cells.clear()
        if len(self._cut):
            windows(out, len(_CUT))[begins[self._cut] + self._at] = np.frombuffer(
                _CUT, f"V{len(_CUT)}"
            )
