"""A compiled filter: over columns at once, into messages where it must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dissector.spec import Message

from .columns import Held, Leaf, Mask
from .fields import Facts
from .grammar import parse
from .names import Names, default_names
from .protocols import CaptureLike, IndexLike, MessageLike
from .tree import Expr, row_masks
from .values import Pattern

BATCH = 65_536
"""Rows whose columns are asked at once while searching: a few milliseconds, and little memory."""

LOOKED = 4096
"""Rows whose bytes are looked through at once."""

PAUSE = 0.05
"""Seconds after which a search gives what it has found: a list fills while one looks on."""


Holding = Callable[[np.ndarray, Held], Mask]
"""(places of rows from 0, ascending int64; what is looked for) -> which of them can hold it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A step of a search. rows: places (from 0) of rows that passed since the last step, ascending,
    int64. done: rows decided so far, of total. opened: messages that had to be opened so far."""

    rows: np.ndarray
    done: int
    total: int
    opened: int


class Filter:
    """A filter that was understood.

    text: as written. columns_only: the index answers it alone, so `mask` is exact. quick: and does so in a
    tenth of a microsecond a row; regular expressions take as long as they are made to.
    """

    def __init__(
        self, text: str, tree: Expr | None, names: Names, patterns: Sequence[Pattern] = ()
    ) -> None:
        self.text = text
        self.columns_only = tree is None or tree.columns_only
        self.quick = self.columns_only and not patterns
        self._tree = tree
        self._names = names
        self._patterns = patterns

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    @property
    def gave_up(self) -> int:
        """How many values a regular expression took too long for; they count as not matching."""
        return sum(each.gave_up for each in self._patterns)

    def mask(self, index: IndexLike, start: int = 0, stop: int | None = None) -> Mask:
        """Which of the rows [start, stop) pass by their columns: bool, one for each row.

        Exact when `columns_only`; otherwise the rows that can pass, which `search` or `test` decide.
        """
        return self.bounds(index, start, stop)[0]

    def bounds(
        self, index: IndexLike, start: int = 0, stop: int | None = None
    ) -> tuple[Mask, Mask]:
        """(can pass, passes whatever the message holds) for the rows [start, stop)."""
        stop = len(index) if stop is None else min(stop, len(index))
        start = max(0, min(start, stop))
        if self._tree is None:
            every = np.ones(stop - start, bool)
            return every, every
        edges = [start, *range((start // BATCH + 1) * BATCH, stop, BATCH), stop]
        if len(edges) == 2:
            return self._tree.bounds(row_masks(index, start, stop))
        possible, certain = np.empty(stop - start, bool), np.empty(stop - start, bool)
        for low, high in pairwise(edges):  # columns are kept in blocks
            here = slice(low - start, high - start)
            possible[here], certain[here] = self._tree.bounds(row_masks(index, low, high))
        return possible, certain

    def test(self, message: MessageLike, index: IndexLike) -> bool:
        """Whether an opened message of `index` passes."""
        if self._tree is None:
            return True
        row = message.row.number - 1
        facts = Facts(message, self._names.canonical)
        return self._tree.test(facts, lambda leaf: bool(leaf.mask(index, row, row + 1)[0]))

    def search(
        self,
        index: IndexLike,
        open_message: Callable[[int], MessageLike],
        start: int = 0,
        stop: int | None = None,
        holding: Holding | None = None,
    ) -> Iterator[Found]:
        """Find the rows [start, stop) that pass, opening only those that columns cannot decide.

        open_message: row number (from 1) -> message. holding: tells which messages can hold certain bytes
        (`dissector.holding.holder`); others are not opened. Gives a `Found` at least every `PAUSE`
        seconds and one for the end; between two, the caller may stop (close the generator) or do other
        work.
        """
        stop = len(index) if stop is None else min(stop, len(index))
        start = max(0, min(start, stop))
        total, opened = stop - start, 0
        last = time.monotonic()
        for low in range(start, stop, BATCH):
            high = min(low + BATCH, stop)
            masks = row_masks(index, low, high)
            if self._tree is None:
                possible = certain = np.ones(high - low, bool)
            else:
                possible, certain = self._tree.bounds(masks)
            if self.columns_only:
                yield Found(np.flatnonzero(possible) + low, high - start, total, opened)
                continue
            found: list[int] = []
            for places in self._narrowed(index, low, high, possible, certain, holding):
                for place in places.tolist():
                    passes = bool(certain[place])
                    if not passes:
                        opened += 1
                        passes = self._opened(open_message(low + place + 1), masks, place)
                    if passes:
                        found.append(low + place)
                    if time.monotonic() - last > PAUSE:
                        rows = np.array(found, np.int64)
                        yield Found(rows, low + place + 1 - start, total, opened)
                        found, last = [], time.monotonic()
            yield Found(np.array(found, np.int64), high - start, total, opened)
        if not total:
            yield Found(np.zeros(0, np.int64), 0, 0, 0)

    def _narrowed(
        self, index: IndexLike, low: int, high: int, possible: Mask, certain: Mask,
        holding: Holding | None,
    ) -> Iterator[np.ndarray]:  # fmt: skip
        """Places from `low` of rows that can pass, ascending, in parts: as far as what the messages hold
        tells, too."""
        places = np.flatnonzero(possible)
        if self._tree is None or holding is None:
            yield places
            return
        asked = False
        for first in range(0, len(places), LOOKED):
            part = places[first : first + LOOKED]
            open_ = part[~certain[part]]

            def held(needs: Held, open_: np.ndarray = open_) -> Mask:
                nonlocal asked
                asked = True
                mask = np.ones(high - low, bool)
                mask[open_] = holding(open_ + low, needs)
                return mask

            can, _ = self._tree.bounds(row_masks(index, low, high, held))
            if not asked:  # there is no such condition
                yield places
                return
            yield part[can[part]]

    def _opened(self, message: MessageLike, masks: Callable[[Leaf], Mask], place: int) -> bool:
        assert self._tree is not None
        facts = Facts(message, self._names.canonical)
        return self._tree.test(facts, lambda leaf: bool(masks(leaf)[place]))


def compile(text: str, messages: Sequence[Message] | None = None) -> Filter:
    """Understand `text`. Empty text takes every message.

    messages: the declarations whose names it may use, the catalogue's when None. Raises QueryError.
    """
    names = default_names() if messages is None else Names(messages)
    tree, patterns = parse(text, names)
    return Filter(text, tree, names, patterns)


def matching(capture: CaptureLike, text: str, holding: Holding | None = None) -> Iterator[int]:
    """Numbers (from 1) of the messages of an indexed capture that pass, ascending, as they are found.

    holding: as in `Filter.search`. Raises QueryError at once, not when the first number is asked for.
    """
    chosen = compile(text)
    steps = chosen.search(capture.index, capture.message, holding=holding)
    return (place + 1 for step in steps for place in step.rows.tolist())
