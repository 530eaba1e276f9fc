"""JSON of the columns of many rows: one step for a column of all of them, as in `dissector.rowtexts`.

A row is a line of elements: the columns of its tuples, and what stands between two tuples. An element in one
of its states is an item, of which `dissector.rowjson` tells what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .cells import KEEPER
from .rowjson import ANY, CLASSES, EMPTY, LONG, Item, item_of
from .rowpieces import KINDS, VALUED
from .slots import Array, windows
from .taken import NULLS, RUN, Tuple, Variant

CODES = len(KINDS) + 1
"""States of an element: the last one is of what stands between two tuples."""

CELLS = 1 << 14
"""Elements that are written at once."""

FEW = 12
"""Rows that still have elements, below which each is finished by itself."""

AT, SIZE = 23, 12
"""Bits of a place in a message, and of a length below LONG."""

MOST_ITEMS = 1 << 17
"""Items that are kept."""

_CODE = np.full(256, len(KINDS), np.int64)
_CODE[list(KINDS)] = range(len(KINDS))


class _Before(dict[int, bytes]):
    """What stands before values, by Item, place and length: usual ones."""

    def __init__(self) -> None:
        self.makers: list[Callable[[int, int], bytes]] = []

    def __missing__(self, key: int) -> bytes:
        at, size = key >> SIZE & (1 << AT) - 1, key & LONG - 1
        found = self.makers[key >> AT + SIZE](at, size)
        KEEPER.keep(self, 128 + len(found))
        self[key] = found
        return found


class Table:
    """Items by number, as arrays.

    width: bytes of the element beside its value, 0 for an unknown item; step: items to the next element;
    mask, middle, rest: see Item; maker: by which its text before the value is kept; run: of a column that is
    NULL, the item of it and those after it that are so, too, 0 for none.
    """

    def __init__(self) -> None:
        self.count = 1
        self.items: list[Item | None] = []
        self.before = _Before()
        self._makers: dict[int, int] = {}
        self.width, self.mask = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        self.valued = np.zeros(0, bool)
        self.step, self.maker, self.run = (np.zeros(0, np.int64) for _ in range(3))
        self.middle, self.rest = np.zeros(0, object), np.zeros(0, object)

    def reserve(self, count: int) -> int:
        """Room for `count` items: the number of the first."""
        base, self.count = self.count, self.count + count
        missing = self.count - len(self.items)
        if missing > 0:
            missing = max(missing, len(self.items))
            for name in ("width", "mask", "valued", "step", "maker", "run", "middle", "rest"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(missing, old.dtype)]))
            self.items += [None] * missing
        return base

    def set(self, number: int, item: Item, width: int, valued: bool, step: int = CODES) -> None:
        maker = len(self.before.makers)
        if item.like is not None:
            maker = self._makers.setdefault(id(item.like), maker)
        if maker == len(self.before.makers):
            self.before.makers.append(item.before)  # which holds what it is like
        self.items[number] = item
        self.width[number], self.valued[number], self.step[number] = width, valued, step
        self.mask[number], self.maker[number] = item.mask, maker
        self.middle[number], self.rest[number] = item.middle, item.rest


class Layout:
    """The elements of the rows of one kind that begin with one letter. first: where they begin; base: the
    first one's first item; end: the item behind all."""

    def __init__(self, table: Table, variant: Variant, layer: int, encoding: str) -> None:
        self.table, self.layer, self.encoding = table, layer, encoding
        self.first = variant.flat.numbers.size
        self.tuples: list[tuple[Tuple, int, list[int], dict[int, int]]] = []
        count = sum(len(each.pieces) + (each.between is not None) for each in variant.tuples)
        at = self.base = table.reserve(count * CODES)
        self.end = self.base + count * CODES
        for each in variant.tuples:
            runs = range(0, len(each.pieces) - RUN + 1, RUN) if len(each.pieces) >= 2 * RUN else ()
            numbers = {first: table.reserve(1) for first in runs}
            self.tuples.append((each, at, [0] * len(each.pieces), numbers))
            at += len(each.pieces) * CODES
            between = each.between
            if between is not None:
                made = between.made
                item = Item(lambda at, size, made=made: made(at, 0, layer))  # type: ignore[misc]
                table.set(at + len(KINDS), item, each.skip, False)
                at += CODES
        self.take()

    def take(self) -> None:
        """Take over what was learned of columns."""
        for each, base, known, runs in self.tuples:
            changed = False
            for i, kinds in enumerate(each.pieces):
                if len(kinds) == known[i]:
                    continue
                known[i], changed = len(kinds), True
                for kind, piece in kinds.items():
                    code = KINDS.index(kind)
                    number = base + i * CODES + code
                    if not self.table.width[number]:
                        item = item_of(kind, piece, self.layer, self.encoding)
                        valued = code >= VALUED
                        self.table.set(number, item, 5 if valued else 1, valued)
            for first, number in runs.items() if changed else ():
                column = base + first * CODES
                if not self.table.run[column] and each.nulls(first):
                    self.table.set(number, Item(self._nulls(each, first)), RUN, False, RUN * CODES)
                    self.table.run[column] = number

    def _nulls(self, each: Tuple, first: int) -> Callable[[int, int], bytes]:
        def before(at: int, size: int) -> bytes:
            pieces = each.nulls(first) or ()
            return b"".join(p.made(at + i, 0, self.layer) for i, p in enumerate(pieces))

        return before


class Rows:
    """Rows of one block: where they begin and end in `data`, which goes on for RUN bytes behind the last
    one's end; of each first, base and end of its Layout, and what learns from a row at some place."""

    def __init__(
        self, table: Table, data: bytes, begins: Array, ends: Array, shape: Array,
        learn: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.table, self.data = table, data
        self.begins, self.ends, self.learn = begins, ends, learn
        self.at = begins + shape[:, 0]
        self.item, self.last = shape[:, 1], shape[:, 2]
        self.limit = int(ends.max(initial=0)) + 1  # who comes here is behind its end
        self.u1 = np.frombuffer(data, np.uint8)
        self.classes = np.frombuffer(data.translate(CLASSES), np.uint8)
        self.u4 = np.ndarray((max(len(data) - 3, 0),), ">u4", data, strides=(1,))
        self.runs = windows(data, RUN)

    def pieces(self) -> Iterator[list[bytes] | None]:
        """The columns' text of each row in turn, in pieces; None where it must be made otherwise."""
        count = np.cumsum((self.last - self.item) // CODES)
        start = 0
        while start < len(count):
            done = int(count[start - 1]) if start else 0
            stop = max(int(np.searchsorted(count, done + CELLS, side="right")), start + 1)
            yield from self._some(start, stop)
            start = stop

    def _some(self, start: int, stop: int) -> Iterator[list[bytes] | None]:
        parts, found = self._made(start, stop)
        for begin, end, wrong in parts:
            yield None if wrong else found[begin:end]

    def _made(self, start: int, stop: int) -> tuple[list[list[int]], list[bytes]]:
        """Of each row where its pieces begin and end in the second, and whether it is made otherwise."""
        order = np.argsort(self.begins[start:stop], kind="stable")
        rows = order + start
        sizes = (self.last[rows] - self.item[rows]) // CODES
        starts = np.cumsum(sizes) - sizes
        cells = _Cells(int(sizes.sum()))
        self._walk(rows, starts, cells)
        bad = self.at[rows] != self.ends[rows]
        for i in np.flatnonzero(bad).tolist():
            cells.item[starts[i] : starts[i] + sizes[i]] = 0
        at = cells.at - np.repeat(self.begins[rows], sizes)
        ends, found = self._texts(cells, at)
        parts = np.empty((stop - start, 3), np.int64)
        parts[order, 0], parts[order, 1], parts[order, 2] = ends[starts], ends[starts + sizes], bad
        return parts.tolist(), found

    # -- where the elements are

    def _walk(self, rows: Array, starts: Array, cells: _Cells) -> None:
        """Step through the elements of rows; those that cannot be followed do not come to their ends."""
        table, i = self.table, 0
        which = np.arange(len(rows))[self.item[rows] < self.last[rows]]
        while len(which) >= FEW:
            r = rows[which]
            at = self.at[r]
            item = self.item[r] + _CODE[self.u1[at]]
            width = table.width[item]
            if not width.all():
                self._learn(r[width == 0], item[width == 0])
                width = table.width[item]
                if not width.all():
                    self.at[r[width == 0]] = self.limit
                    which = which[width != 0]
                    continue
            run = np.flatnonzero(table.run[item])
            if len(run):
                run = run[self.runs[at[run]] == _NULLS]
                item[run] = table.run[item[run]]
                width = table.width[item]
            size = self.u4[at + 1] * table.valued[item]
            cell = starts[which] + i
            cells.item[cell], cells.at[cell], cells.size[cell] = item, at, size
            self.at[r] = np.minimum(at + width + size, self.limit)
            self.item[r] += table.step[item]
            which = which[self.item[r] < self.last[r]]
            i += 1
        for place in which.tolist():
            self._finish(int(rows[place]), int(starts[place]) + i, cells)

    def _finish(self, row: int, cell: int, cells: _Cells) -> None:
        """The same for one row."""
        table, data = self.table, self.data
        at, number, last = int(self.at[row]), int(self.item[row]), int(self.last[row])
        items, places, sizes = [], [], []
        while number < last:
            item = number + int(_CODE[data[at]])
            if not table.width[item]:
                self._learn(np.array([row]), np.array([item]))
                if not table.width[item]:
                    at = self.limit
                    break
            run = int(table.run[item])
            if run and data.startswith(NULLS, at):
                item = run
            size = int.from_bytes(data[at + 1 : at + 5], "big") if table.valued[item] else 0
            items.append(item)
            places.append(at)
            sizes.append(size)
            at = min(at + int(table.width[item]) + size, self.limit)
            number += int(table.step[item])
        stop = cell + len(items)
        cells.item[cell:stop], cells.at[cell:stop], cells.size[cell:stop] = items, places, sizes
        self.at[row] = at

    def _learn(self, rows: Array, items: Array) -> None:
        """Get to know items of rows that are not behind their ends."""
        inside = self.at[rows] < self.ends[rows]
        for row, item in zip(rows[inside].tolist(), items[inside].tolist(), strict=True):
            if not self.table.width[item]:
                self.learn(row)

    # -- what is written of them

    def _texts(self, cells: _Cells, at: Array) -> tuple[Array, list[bytes]]:
        """The pieces of all elements that have an item, and how many those before each have; at: their
        places in their messages."""
        table, item, size = self.table, cells.item, cells.size
        valued = table.valued[item]
        count = np.where(valued, 5, (item > 0).astype(np.int64))
        ends = np.zeros(len(count) + 1, np.int64)
        np.cumsum(count, out=ends[1:])
        flat = np.empty(int(ends[-1]), object)
        keys = table.maker[item] << AT + SIZE | at << SIZE | size
        before = table.before.__getitem__

        def put(places: Array, texts: Any) -> None:
            flat[places] = texts

        fixed = np.flatnonzero(count == 1)
        put(ends[fixed], list(map(before, keys[fixed].tolist())))
        with_value = np.flatnonzero(valued)
        begin, length = cells.at[with_value] + 5, size[with_value]
        odd = self._classes(begin, length) & table.mask[item[with_value]] != 0
        usual = with_value[length < LONG]
        put(ends[usual], list(map(before, keys[usual].tolist())))
        odd |= length >= LONG
        plain = with_value[~odd]
        data, place, number = self.data, ends[plain], item[plain]
        begin = cells.at[plain] + 5
        values = [
            data[a:b] for a, b in zip(begin.tolist(), (begin + size[plain]).tolist(), strict=True)
        ]
        put(place + 1, values)
        put(place + 2, table.middle[number])
        put(place + 3, values)
        put(place + 4, table.rest[number])
        found: list[bytes] = flat.tolist()
        odd_ones = with_value[odd]
        for i, a, n, relative, to in zip(
            *(x[odd_ones].tolist() for x in (item, cells.at, size, at, ends)), strict=True
        ):
            told = table.items[i]
            assert told is not None and told.texts is not None
            found[to + 1 : to + 5] = told.texts(data[a + 5 : a + 5 + n])
            if n >= LONG:
                found[to] = told.before(relative, n)
        return ends, found

    def _classes(self, begin: Array, length: Array) -> Array:
        """What the values have."""
        if not len(begin):
            return np.zeros(0, np.uint8)
        edges = np.stack([begin, begin + length], axis=1).reshape(-1)
        found: Array = np.bitwise_or.reduceat(self.classes, edges)[::2]
        return np.where(length == 0, np.uint8(ANY | EMPTY), found)


class _Cells:
    """Elements of rows: their items (0: none), places in the data and values' lengths."""

    def __init__(self, count: int) -> None:
        self.item, self.at, self.size = (np.zeros(count, np.int64) for _ in range(3))


_NULLS = np.frombuffer(NULLS, f"V{RUN}")[0]
