"""Steps of summaries that show strings, or go over what comes behind them: see `dissector.fieldtexts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .display import MOST_PARTS, STATES
from .fieldpieces import CopyCells, Tail
from .rowvalues import CUT, plain_values
from .shapes import Run
from .slots import WINDOW, Array, Slots, decimal, left, packed, windows
from .summary import MOST_NAMES, TOLD_OF, WIDTH

if TYPE_CHECKING:
    from .fieldtexts import Fields

SMALL = 16
"""Bytes of a smaller window, for strings none of which is longer."""

MOST_TOLD = 40
"""Fields of what a server tells, beyond which a message is looked at by itself."""


NEWLINE = ord("\n")
_NULL = packed([text.encode() for text in (", " + STATES["null"], STATES["null"])])


def string_ends(run: Run, at: Array) -> Array:
    """Where the strings that begin at the bytes `at` of the data end: the place of the next 0 byte. The data
    ends with WINDOW of these."""
    cells = windows(run.data, WINDOW)[at]
    zeros = cells.view(np.uint8).reshape(-1, WINDOW) == 0
    ends: Array = at + zeros.argmax(axis=1)
    long = np.flatnonzero(~zeros.any(axis=1))
    if len(long):
        low = int(at[long].min()) + WINDOW
        found = np.flatnonzero(run.u1[low:] == 0) + low
        ends[long] = found[np.searchsorted(found, at[long] + WINDOW)]
    return ends


class Strings:
    """The messages of one block on their way through their items. Arrays are by the place in `rows`; at:
    where the next string begins; length: of the next bytes, or what was counted; odd: those that must be
    looked at one by one."""

    def __init__(
        self, fields: Fields, slots: Slots, data: bytes, rows: Array, begins: Array, ends: Array,
        at: Array,
    ) -> None:  # fmt: skip
        self.fields, self.slots, self.data = fields, slots, data
        self.rows, self.begins, self.ends, self.at = rows, begins, ends, at
        self.run_ = Run(data, begins, ends)
        self.view = self.run_.view
        self.windows = windows(data, WINDOW)
        self.length = np.zeros(len(rows), np.int64)
        self.odd = np.zeros(len(rows), bool)

    def _add(self, which: Array, cells: Array, lengths: Array | int) -> None:
        self.slots.add(self.rows.take(which), cells, lengths)

    def _text(self, which: Array, item: Array) -> None:
        """What stands before a value."""
        slots, fields, rows = self.slots, self.fields, self.rows.take(which)
        double = item * 2 + (slots.size.take(rows) == 0)
        slots.add(rows, fields.text, fields.length.take(double), double)
        if fields.wide:
            slots.extra[rows] += fields.item_extra[item]

    def _reach(self, which: Array, at: Array) -> None:
        """Strings end at `at`; where the message does not go so far, it is odd."""
        ends = self.ends[which]
        self.odd[which[at > ends]] = True
        self.at[which] = np.minimum(at, ends)

    def _length(self, which: Array, item: Array) -> None:
        self._text(which, item)
        at = self.at[which]
        values = self.view(4)[at].astype(np.int64)
        cells, counts = decimal(values)
        self._add(which, left(cells, counts), counts)
        self.length[which] = values
        self._reach(which, at + 4)

    def _string(self, which: Array, item: Array) -> None:
        at = self.at[which]
        ends = string_ends(self.run_, at)
        self._shown(which, item, at, ends - at)
        self._reach(which, ends + 1)

    def _bytes(self, which: Array, item: Array) -> None:
        at, size = self.at[which], self.length[which]
        self._shown(which, item, at, np.minimum(size, self.ends[which] - at))
        self._reach(which, at + size)  # those that are cut are odd

    def _rest(self, which: Array, item: Array) -> None:
        at, ends = self.at[which], self.ends[which]
        self._shown(which, item, at, ends - at)
        self.at[which] = ends

    def _skipped(self, which: Array, item: Array) -> None:
        size = self.fields.item_step.take(item)
        self._reach(which, np.where(size > 0, self.at[which] + size, self.ends[which]))

    def _shown(self, which: Array, item: Array, at: Array, size: Array) -> None:
        """Strings that begin at `at`, after what stands before each."""
        texts = ~self.fields.item_quoted[item]
        cells, lengths, plain, cut = plain_values(self.windows[at], size, texts)
        if not plain.all():
            other = np.flatnonzero(~plain & ~self.odd[which])
            self._slowly(which[other], *(x[other].tolist() for x in (item, at, size)))
            which, item, cells, lengths, cut = (
                x[plain] for x in (which, item, cells, lengths, cut)
            )
        if len(which):
            self._text(which, item)
            if lengths.max() <= SMALL:
                cells = np.ndarray((len(cells),), f"V{SMALL}", cells, strides=(WINDOW,))
            self._add(which, cells, lengths)
            self.slots.extra[self.rows[which[cut]]] += CUT

    def _slowly(self, which: Array, items: list[int], at: list[int], sizes: list[int]) -> None:
        rows, texts = self.rows[which], []
        for i, begin, size, row in zip(items, at, sizes, rows.tolist(), strict=True):
            of = self.fields.items[i].of
            assert isinstance(of, Tail)
            shown = of.shown(self.data[begin : begin + size])
            texts.append(f"{of.mark}{shown}" if self.slots.size[row] else shown)
        self.slots.add_texts(rows, texts)

    def _values(self, which: Array, item: Array) -> Array:
        """The numbers, unsigned, of 64 bits; what they count is kept in `length`."""
        raise NotImplementedError

    # -- lists of strings

    def _names(self, which: Array, item: Array) -> None:
        """Strings, each with so many bytes behind it: the first of as many as a number counts."""
        self._values(which, item)
        done = which
        for i in range(MOST_NAMES):
            more = (self.length[which] > i) & (
                self.slots.characters(self.rows.take(which)) <= WIDTH
            )
            which, item = which[more], item[more]
            if not len(which):
                break
            self._string(which, item)
            self._skipped(which, item)
        self.at[done] = self.ends[done]

    def _told(self, which: Array, item: Array) -> None:
        """Letters, each with a string behind it, until a 0 byte: the strings of three letters."""
        places = np.full((len(TOLD_OF), len(self.rows)), -1)
        active = which
        for _ in range(MOST_TOLD):
            at = self.at[active]
            letters = self.run_.u1[at]
            some = letters != 0
            active, at, letters = active[some], at[some], letters[some]
            if not len(active):
                break
            for place, letter in zip(places, TOLD_OF, strict=True):
                mine = letters == ord(letter)
                place[active[mine]] = at[mine] + 1
            self._reach(active, string_ends(self.run_, at + 1) + 1)
        self.odd[active] = True
        for place in places:
            told = place[which] >= 0
            mine, at = which[told], place[which[told]]
            if len(mine):
                self._shown(mine, item[told], at, string_ends(self.run_, at) - at)
        self.at[which] = self.ends[which]

    # -- rows of COPY

    def _cells(self, which: Array, item: Array) -> None:
        """Messages that are a whole row each; others are odd."""
        for number in np.flatnonzero(np.bincount(item)).tolist():
            self._rows(which[item == number], number)
        self.at[which] = self.ends[which]

    def _rows(self, which: Array, number: int) -> None:
        of = self.fields.items[number].of
        assert isinstance(of, CopyCells)
        at, ends, letters = self.at[which], self.ends[which], self.run_.u1
        low, high = int(at.min()), int(ends.max())
        part = letters[low:high]
        marks = np.flatnonzero((part == of.delimiter) | (part == NEWLINE)) + low
        first, last = np.searchsorted(marks, at), np.searchsorted(marks, ends)
        newlines = letters[marks] == NEWLINE
        good = (_between(newlines, first, last) == 1) & (letters[ends - 1] == NEWLINE) & (at < ends)
        good &= _between(letters[marks - 1] == of.escape, first, last) == 0
        if of.quote >= 0:
            good &= _between(part == of.quote, at - low, ends - low) == 0
        self.odd[which[~good]] = True
        which, at, first, last = which[good], at[good], first[good], last[good]
        for i in range(MOST_PARTS):
            if not len(which):
                break
            stop = marks[first + i]
            self._cell(which, number, at, stop - at)
            more = first + i + 1 < last
            more &= self.slots.characters(self.rows.take(which)) <= WIDTH
            which, at, first, last = which[more], stop[more] + 1, first[more], last[more]

    def _cell(self, which: Array, number: int, at: Array, size: Array) -> None:
        of = self.fields.items[number].of
        assert isinstance(of, CopyCells)
        null = size == len(of.null)
        for i, letter in enumerate(of.null):
            null &= self.run_.u1[at + i] == letter
        if null.any():
            rows = self.rows[which[null]]
            alone = (self.slots.size[rows] == 0).astype(np.int64)
            self.slots.add(rows, _NULL, _NULL.itemsize - 2 * alone, alone)
            which, at, size = which[~null], at[~null], size[~null]
        if len(which):
            self._shown(which, np.full(len(which), number), at, size)


def _between(mask: Array, first: Array, last: Array) -> Array:
    """How many of `mask` are true from `first` to before `last`."""
    counts = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=counts[1:])
    found: Array = counts[last] - counts[first]
    return found
