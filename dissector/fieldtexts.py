"""Summaries of messages that are no rows, of all kinds of a block at once.

A kind is a list of items (see `dissector.fieldpieces`). The first items of all messages are written
together, then the second ones, and so on: one step for each way in which an item is shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import HIGH, LOW, SECONDS
from .fieldpieces import (
    BYTES,
    CELLS,
    CONSTANT,
    COUNTED,
    LENGTH,
    LSN,
    NAMED,
    NAMES,
    NEXT,
    NUMBER,
    REST,
    SIZE,
    SKIPPED,
    STRING,
    TIME,
    TOLD,
    Item,
    Named,
)
from .fieldstrings import Strings
from .slots import (
    WINDOW,
    Array,
    Slots,
    decimal,
    distinct,
    ended,
    hexadecimal,
    last_bytes,
    left,
    packed,
)  # fmt: skip

FEW = 8
"""Messages below which each is written by itself."""

_MICROS = 1_000_000
_SECOND = len("2026-11-29 18:53:12.")
_ZONE = np.void(b" UTC")
_TIME = np.dtype([("second", f"V{_SECOND}"), ("fraction", "V6"), ("zone", "V4")])
_ITEM = np.dtype(
    [("sort", "u1"), ("at", "i4"), ("width", "u1"), ("signed", "?"), ("skips", "?"), ("quoted", "?"),
     ("extra", "i8"), ("step", "i8")]
)  # fmt: skip


class Fields:
    """Writes the summaries of messages of kinds that it was told of."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._kinds: list[tuple[int, int, int, bool]] = []
        self._shape()

    def add(self, items: list[Item], size: int, tail: bool) -> int:
        """The number of a new kind. size: bytes of the fields of fixed width; tail: something follows."""
        self._kinds.append((len(self.items), len(items), size, tail))
        self.items += items
        self._stale = True
        return len(self._kinds) - 1

    def _shape(self) -> None:
        """Arrays of what is known, made anew after something was added."""
        self._stale = False
        kinds = np.array(self._kinds or [(0, 0, 0, False)], np.int64)
        self.base, self.count, self.size, self.tail = np.ascontiguousarray(kinds.T)
        items = self.items or [Item(CONSTANT, b"", b"")]
        rows = [
            (i.sort, i.at, i.width, i.signed, i.skips, i.quoted, i.extra, i.step) for i in items
        ]
        table = np.array(rows, _ITEM)
        for name in _ITEM.names or ():
            setattr(self, f"item_{name}", np.ascontiguousarray(table[name]))
        self.wide = bool(self.item_extra.any())
        self.loose = bool((self.item_at == NEXT).any())
        self.counting = bool(np.isin(self.item_sort, (COUNTED, NAMES, BYTES)).any())
        texts = [text for i in items for text in (i.text, i.first)]
        self.text = packed(texts, WINDOW)  # two of each item: behind others, and as the first
        self.length = np.array(list(map(len, texts)), np.int64)

    item_sort: Array
    item_at: Array
    item_width: Array
    item_signed: Array
    item_skips: Array
    item_quoted: Array
    item_extra: Array
    item_step: Array

    def write(
        self, slots: Slots, data: bytes, rows: Array, kinds: Array, begins: Array, ends: Array
    ) -> Array:
        """Add the summaries of `rows`, whose messages lie from `begins` to `ends` in `data`, which goes
        on for WINDOW bytes behind the last, and are of the kinds numbered `kinds`. Returns the places in
        `rows` of those that must be written otherwise, whatever they have got."""
        if len(rows) < FEW:
            return np.arange(len(rows))
        if self._stale:
            self._shape()
        at = begins + self.size[kinds]
        fits = np.where(self.tail[kinds] != 0, at <= ends, at == ends)
        places = np.arange(len(rows))
        if not fits.all():
            places = np.flatnonzero(fits)
            rows, kinds, begins, ends, at = (x[fits] for x in (rows, kinds, begins, ends, at))
        steps = _Steps(self, slots, data, rows, begins, ends, at)
        steps.run(self.base[kinds], self.count[kinds])
        odd = np.ones(len(fits), bool)
        odd[places] = steps.odd
        return np.flatnonzero(odd)


class _Steps(Strings):
    """All steps, by which `Strings` goes through its items."""

    def run(self, base: Array, count: Array) -> None:
        ways: dict[int, Any] = {
            CONSTANT: self._text, LSN: self._lsn, TIME: self._time, NUMBER: self._number,
            NAMED: self._named, LENGTH: self._length, STRING: self._string, BYTES: self._bytes,
            COUNTED: self._counted, REST: self._rest, SIZE: self._size, SKIPPED: self._skipped,
            NAMES: self._names, TOLD: self._told, CELLS: self._cells,
        }  # fmt: skip
        for i in range(int(count.max(initial=0))):
            which = np.flatnonzero(count > i)
            item = base.take(which) + i
            sorts = self.fields.item_sort.take(item)
            for sort in np.flatnonzero(np.bincount(sorts)).tolist():
                mine = np.flatnonzero(sorts == sort)
                ways[sort](which.take(mine), item.take(mine))
        self.odd |= self.at != self.ends

    # -- numbers

    def _values(self, which: Array, item: Array) -> Array:
        """The numbers, unsigned, of 64 bits."""
        places = self.fields.item_at.take(item)
        at = self.begins.take(which) + places
        widths = self.fields.item_width.take(item)
        if self.fields.loose:
            loose = np.flatnonzero(places == NEXT)
            mine = which[loose]
            at[loose] = self.at[mine]
            self._reach(mine, at[loose] + widths[loose])
        found = np.flatnonzero(np.bincount(widths)).tolist()
        if len(found) == 1:
            values = self.view(found[0])[at].astype(np.uint64)
        else:
            values = np.empty(len(which), np.uint64)
            for width in found:
                each = np.flatnonzero(widths == width)
                values[each] = self.view(width)[at[each]]
        if self.fields.counting:
            self.length[which] = values.view(np.int64)
        return values

    def _lsn(self, which: Array, item: Array) -> None:
        self._text(which, item)
        values = self._values(which, item)
        high, counts = hexadecimal((values >> np.uint64(32)).astype(np.uint32))
        self._add(which, ended(high, counts, "/"), counts + 1)
        low, counts = hexadecimal(values.astype(np.uint32))
        self._add(which, left(low, counts), counts)

    def _time(self, which: Array, item: Array) -> None:
        """``2026-11-29 18:53:12.831399 UTC``, without a fraction of 0; times of other years are odd."""
        self._text(which, item)
        values = self._values(which, item).view(np.int64)
        unusual = (values <= LOW) | (values >= HIGH)
        if unusual.any():
            self.odd[which[unusual]] = True
            values[unusual] = 0
        seconds = values // _MICROS
        micros = values - seconds * _MICROS
        least = int(seconds.min())
        found, places = distinct(seconds - least, int(seconds.max()) - least + 1)
        texts = [SECONDS[s + least].encode() for s in found.tolist()]
        cells = np.empty(len(which), _TIME)
        cells["second"] = packed(texts, _SECOND).take(places)
        cells["fraction"] = last_bytes(decimal(micros + _MICROS)[0], 6)
        cells["zone"] = _ZONE
        lengths = np.full(len(which), _TIME.itemsize)
        whole = np.flatnonzero(micros == 0)
        if len(whole):
            seen = cells.view(np.uint8).reshape(len(which), -1)
            seen[whole, _SECOND - 1 : _SECOND + 3] = np.frombuffer(b" UTC", np.uint8)
            lengths[whole] = _SECOND + 3
        self._add(which, cells.view(f"V{_TIME.itemsize}"), lengths)

    def _number(self, which: Array, item: Array) -> None:
        self._text(which, item)
        values = self._values(which, item)
        signed = self.fields.item_signed[item]
        if signed.any():
            bits = self.fields.item_width[item].astype(np.uint64) * np.uint64(8) - np.uint64(1)
            self.odd[which[signed & (values >> bits != 0)]] = True
        self._digits(which, values)

    def _digits(self, which: Array, values: Array) -> None:
        cells, counts = decimal(values)
        self._add(which, left(cells, counts), counts)

    def _size(self, which: Array, item: Array) -> None:
        self._text(which, item)
        self._digits(which, self.ends[which] - self.begins[which])
        self.at[which] = self.ends[which]

    def _counted(self, which: Array, item: Array) -> None:
        counts = self.length[which]
        self._looked_up(which, item, counts.view(np.uint64))
        size = np.minimum(counts, self.ends[which]) * self.fields.item_step.take(item)
        self._reach(which, self.at[which] + size)

    def _named(self, which: Array, item: Array) -> None:
        self._looked_up(which, item, self._values(which, item))

    def _looked_up(self, which: Array, item: Array, values: Array) -> None:
        """Numbers that have names: each that comes is looked up once."""
        fields = self.fields
        shown = (values != 0) | ~fields.item_skips[item]
        if not shown.all():
            which, item, values = which[shown], item[shown], values[shown]
        if not len(which):
            return
        self._text(which, item)
        numbers, places = distinct(values, int(values.max()) + 1)
        most = (int(item.max()) + 1) * len(numbers)
        codes, places = distinct(item * len(numbers) + places, most)
        texts = []
        for code in codes.tolist():
            i, value = divmod(code, len(numbers))
            of = fields.items[i].of
            assert isinstance(of, Named)
            sign = 1 << of.width * 8 - 1 if of.signed else 0
            texts.append(of.shown((int(numbers[value]) ^ sign) - sign))
        strange = np.array([len(t) > WINDOW or not t.isascii() for t in texts])
        self.odd[which[strange[places]]] = True
        lengths = np.array([min(len(t), WINDOW) for t in texts], np.int64)
        cells = packed([t.encode()[:WINDOW] for t in texts])
        self.slots.add(self.rows[which], cells, lengths[places], places)
