"""Rows of a block on their way through their columns: see `dissector.rowtexts`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .fieldstrings import string_ends
from .rowpieces import (
    INTEGER,
    KINDS,
    NOT_SENT,
    NUMERIC,
    QUOTED,
    SLOW,
    STATIC,
    STRING,
    UNKNOWN,
    VALUED,
)  # fmt: skip
from .rowvalues import CUT, SHORT, shown_values
from .shapes import Run
from .slots import WINDOW, Array, Slots, decimal, left, windows
from .summary import VALUE, WIDTH
from .view import MessageView

if TYPE_CHECKING:
    from .rowtexts import Rows

SHOWN = 20
"""Columns of a tuple after which no more are shown."""

LETTERS = b"NKO"
FEW = 12
"""Rows that still have columns, below which they are finished one by one."""

BETWEEN = " → "
CODE = np.full(256, len(KINDS), np.int64)
CODE[list(KINDS)] = range(len(KINDS))
LETTER = np.full(256, len(LETTERS), np.int64)
LETTER[list(LETTERS)] = range(len(LETTERS))


class Walk:
    """The rows of one block on their way through their columns. Arrays are by the row of the block."""

    empty = "(no columns)"

    def __init__(
        self, rows: Rows, slots: Slots, data: bytes, opened: Callable[[int], MessageView]
    ) -> None:
        self.rows, self.tables, self.slots, self.opened = rows, rows.tables, slots, opened
        self.data = data
        empty = np.zeros(0, np.int64)
        self.run_ = Run(data, empty, empty)
        self.limit = len(data) - WINDOW
        self.small, self.large = windows(data, 16), windows(data, WINDOW)
        count = slots.count
        self.at = np.zeros(count, np.int64)
        self.base = np.zeros(count, np.int64)
        self.second = np.zeros(count, np.int64)
        self.shown = np.zeros(count, np.int64)
        self.columns = np.zeros(count, np.int64)
        self.kind = np.zeros(count, np.int64)
        self.dropped: list[Array] = []

    def run(self, r: Array, kinds: Array, begins: Array) -> Array:
        rows = self.rows
        rows.shape()
        letter_at = begins + rows.letter_at[kinds]
        letters = LETTER.take(self.run_.u1.take(np.minimum(letter_at, self.limit)))
        bases = rows.bases[kinds, letters]
        if (bases[:, 0] < 0).any():
            keys = kinds * (len(LETTERS) + 1) + letters
            for key in np.flatnonzero(np.bincount(keys[bases[:, 0] < 0])).tolist():
                first = int(np.flatnonzero(keys == key)[0])
                rows.learn(key // (len(LETTERS) + 1), self.opened(int(r[first])))
            rows.shape()
            bases = rows.bases[kinds, letters]
        self.kind[r], self.columns[r] = kinds, rows.columns[kinds]
        self.at[r], self.base[r], self.second[r] = letter_at + 1, bases[:, 0], bases[:, 1]
        r = self._keep(r, bases[:, 0] >= 0)
        self._subjects(r)
        r = self._tuple(r)
        r = r[self.second[r] >= 0]
        if len(r):
            here = np.minimum(self.at[r], self.limit)
            r = self._keep(r, self.run_.u1[here] == ord("N"))
            self.slots.add_text(r, BETWEEN)
            self.at[r] += 1
            self.base[r], self.second[r], self.shown[r] = self.second[r], -1, 0
            self._tuple(r)
        return np.concatenate(self.dropped) if self.dropped else np.zeros(0, np.int64)

    def _keep(self, r: Array, good: Array) -> Array:
        """The rows that are good; the others are dropped."""
        if good.all():
            return r
        self.dropped.append(r[~good])
        kept: Array = r[good]
        return kept

    def _subjects(self, r: Array) -> None:
        kinds = self.kind[r]
        if self.rows.wide:
            self.slots.extra[r] += self.rows.extra[kinds]
        for part, lengths in self.rows.subjects:
            if len(r):
                self.slots.add(r, part, lengths.take(kinds), kinds)
                more = lengths[kinds] == WINDOW
                r, kinds = r[more], kinds[more]

    # -- one tuple

    def _tuple(self, r: Array) -> Array:
        """Step through a tuple of each row: those that came to its end."""
        whole = r
        here = np.minimum(self.at[r], self.limit)
        good = self.run_.view(2)[here] == self.columns[r]
        if not good.all():
            whole = r = self._keep(r, good)
        self.at[r] = np.minimum(self.at[r] + 2, self.limit)
        r = r[self.columns[r] > 0]
        i = 0
        while len(r) >= FEW:
            r = self._step(r, i)
            i += 1
            more = (self.columns.take(r) > i) & (self.slots.characters(r) <= WIDTH)
            if i > SHOWN:
                more &= (self.shown[r] <= SHOWN) | (self.second[r] >= 0)
            r = r[more]
        for row in r.tolist():
            self._finish(row, i)
        dropped = np.concatenate(self.dropped) if self.dropped else None
        if dropped is not None:
            whole = whole[~np.isin(whole, dropped)]
        whole = whole[self.slots.characters(whole) <= WIDTH]
        none = whole[self.shown[whole] == 0]
        if len(none):
            self.slots.add_text(none, self.empty)
        return whole

    def _items(self, r: Array, i: int) -> tuple[Array, Array, Array]:
        """Rows, their items and the classes of these, for column `i`; unknown ones are learned."""
        for attempt in (0, 1):
            codes = self._codes(self.at.take(r))
            strange = codes.max(initial=0) == len(KINDS)
            item = self.base.take(r) + (np.minimum(codes, len(KINDS) - 1) if strange else codes)
            item += i * len(KINDS)
            sort = self.tables.sort.take(item)
            if strange:
                sort[codes == len(KINDS)] = UNKNOWN
            elif sort.max(initial=0) < UNKNOWN:
                break
            unknown = np.flatnonzero(sort == UNKNOWN)
            if attempt:
                r = self._keep(r, sort != UNKNOWN)
                item, sort = item[sort != UNKNOWN], sort[sort != UNKNOWN]
                break
            _, first = np.unique(item[unknown], return_index=True)
            for place in unknown[first].tolist():
                if self.tables.sort[item[place]] == UNKNOWN:
                    row = int(r[place])
                    self.rows.learn(int(self.kind[row]), self.opened(row))
        return r, item, sort

    def _step(self, r: Array, i: int) -> Array:
        """Column `i` of the rows `r`, which all have it: the rows that could be stepped over."""
        kept, item, sort = self._items(r, i)
        r, at = kept, self.at.take(kept)
        begin, size = self._values(at, item % len(KINDS) >= VALUED)
        self.at[r] = np.minimum(begin + size, self.limit)
        shown = self.shown.take(r)
        counts = np.bincount(sort, minlength=UNKNOWN).tolist()
        if counts[NOT_SENT] or i > SHOWN:
            seen = (sort != NOT_SENT) & (shown <= SHOWN)
            r, item, sort, begin, size, shown = (
                x[seen] for x in (r, item, sort, begin, size, shown)
            )
            counts = np.bincount(sort, minlength=UNKNOWN).tolist()
        self.shown[r] = shown + 1
        self._show(r, item, sort, counts, np.minimum(begin, self.limit), size, shown == 0)
        return kept

    def _codes(self, at: Array) -> Array:
        """In which state columns at `at` are: a place among KINDS, their number for none of them."""
        codes: Array = CODE.take(self.run_.u1.take(at))
        return codes

    def _values(self, at: Array, valued: Array) -> tuple[Array, Array]:
        """Where the values of columns at `at` begin, and their bytes."""
        size = self.run_.view(4)[at + 1].astype(np.int64)
        begin = at + 5
        if not valued.all():
            size *= valued
            begin -= 4 * ~valued
        return begin, size

    def _one(self, at: int) -> tuple[int, int, int]:
        """Of the column at `at`: its state, where its value begins, and where it ends."""
        code, begin = int(CODE[self.data[at]]), at + 1
        if code < VALUED:
            return code, begin, begin
        return code, begin + 4, begin + 4 + int.from_bytes(self.data[begin : begin + 4], "big")

    def _show(
        self, r: Array, item: Array, sort: Array, counts: list[int], begin: Array, size: Array,
        first: Array,
    ) -> None:  # fmt: skip
        """counts: of rows in each class."""
        slots, tables = self.slots, self.tables
        slow = np.zeros(0, np.int64)
        small = size <= SHORT
        large = ~small
        if counts[STATIC] or counts[SLOW] or counts[INTEGER]:
            quick = (sort >= NUMERIC) & (sort <= QUOTED)
            small &= quick
            large &= quick
            slow = np.flatnonzero(sort == SLOW)
        parts = []
        if counts[INTEGER]:
            which = np.flatnonzero(sort == INTEGER)
            cells, lengths, good = self._integers(item[which], begin[which], size[which])
            slow = np.concatenate([slow, which[~good]])
            parts.append((r[which[good]], cells, lengths))
        for mask, view in ((small, self.small), (large, self.large)):
            which = np.flatnonzero(mask)
            if len(which):
                cells, lengths, bad = shown_values(
                    view[begin.take(which)], size.take(which), sort.take(which)
                )
                if bad is not None:
                    slow = np.concatenate([slow, which[bad]])
                    cells, lengths, which = cells[~bad], lengths[~bad], which[~bad]
                parts.append((r.take(which) if len(which) < len(r) else r, cells, lengths))
                cut = which[size[which] > VALUE] if view is self.large else which[:0]
                if len(cut):
                    slots.extra[r[cut]] += CUT
        if len(slow):
            self._slowly(*(x[slow] for x in (r, item, begin, size, first)))
            rest = np.ones(len(r), bool)
            rest[slow] = False
            r, item, first = r[rest], item[rest], first[rest]
        double = item * 2 + first
        slots.add(r, tables.text, tables.length.take(double), double)
        if tables.wide:
            slots.extra[r] += tables.extra[item]
        for rows, cells, lengths in parts:
            slots.add(rows, cells, lengths)

    def _integers(self, item: Array, begin: Array, size: Array) -> tuple[Array, Array, Array]:
        """Cells of numbers that are sent as such, and their lengths; and the mask of these: not those of
        another size, negative ones, and large ones."""
        widths = self.tables.width.take(item)
        values, good = np.zeros(len(item), np.uint64), np.zeros(len(item), bool)
        for width in (2, 4, 8):
            mine = np.flatnonzero((widths == width) & (size == width))
            values[mine] = self.run_.view(width)[begin[mine]]
            good[mine] = values[mine] < 1 << min(width * 8 - 1, 32)
        cells, counts = decimal(values[good])
        return left(cells, counts), counts, good

    def _slowly(self, r: Array, item: Array, begin: Array, size: Array, first: Array) -> None:
        pieces, data = self.tables.pieces, self.data
        texts = []
        for i, at, length, alone in zip(
            item.tolist(), begin.tolist(), size.tolist(), first.tolist(), strict=True
        ):
            piece = pieces[i]
            assert piece is not None
            shown = piece.texts(data[at : at + length]) if piece.make is not None else piece.text
            texts.append(shown if alone else f", {shown}")
        self.slots.add_texts(r, texts)

    def _finish(self, row: int, i: int) -> None:
        """The columns of one row from `i` on."""
        tables, data = self.tables, self.data
        at, base, shown = int(self.at[row]), int(self.base[row]), int(self.shown[row])
        room = WIDTH - int(self.slots.size[row] - self.slots.extra[row])
        texts: list[str] = []
        for column in range(i, int(self.columns[row])):
            if room < 0 or (shown > SHOWN and self.second[row] < 0):
                break
            code, begin, after = self._one(at) if at < self.limit else (len(KINDS), at, at)
            item = base + column * len(KINDS) + code
            if code < len(KINDS) and tables.pieces[item] is None:
                self.rows.learn(int(self.kind[row]), self.opened(row))
            piece = tables.pieces[item] if code < len(KINDS) else None
            if piece is None:
                self.dropped.append(np.array([row]))
                return
            at = after
            if piece.sort == NOT_SENT or shown > SHOWN:
                continue
            text = piece.text if piece.make is None else piece.texts(data[begin:at])
            texts.append(text if not shown else f", {text}")
            room -= len(texts[-1])
            shown += 1
        self.at[row], self.shown[row] = min(at, self.limit), shown
        if texts:
            self.slots.add_texts(np.array([row]), ["".join(texts)])


class PlainWalk(Walk):
    """Rows whose columns are a length, -1 for NULL, and so many bytes: what queries return and bind."""

    empty = ""

    def run(self, r: Array, kinds: Array, begins: Array) -> Array:
        rows = self.rows
        rows.shape()
        self.kind[r], self.columns[r], self.second[r] = kinds, rows.columns[kinds], -1
        self.base[r] = rows.bases[kinds, 0, 0]
        layouts = rows.layout[kinds]
        for number in np.flatnonzero(np.bincount(layouts)).tolist():
            mine = np.flatnonzero(layouts == number)
            self.at[r[mine]] = self._counts(rows.layouts[number], begins[mine])
        self._tuple(self._keep(r, self.base[r] >= 0))
        return np.concatenate(self.dropped) if self.dropped else np.zeros(0, np.int64)

    def _counts(self, layout: tuple[int, ...], at: Array) -> Array:
        """Where the numbers of columns stand in messages that begin at `at`."""
        for step in layout:
            if step > 0:
                at = at + step
            elif step == STRING:
                at = string_ends(self.run_, at) + 1
            else:
                at = at + 2 - self.run_.view(2)[at].astype(np.int64) * step
            at = np.minimum(at, self.limit)
        return at

    def _codes(self, at: Array) -> Array:
        codes: Array = np.where(self._sizes(at) == -1, 0, VALUED)
        return codes

    def _sizes(self, at: Array) -> Array:
        sizes: Array = self.run_.view(4)[at].astype(np.int32)
        return sizes

    def _values(self, at: Array, valued: Array) -> tuple[Array, Array]:
        return at + 4, np.maximum(self._sizes(at), 0).astype(np.int64)

    def _one(self, at: int) -> tuple[int, int, int]:
        size = int.from_bytes(self.data[at : at + 4], "big", signed=True)
        return 0 if size == -1 else VALUED, at + 4, at + 4 + max(size, 0)
