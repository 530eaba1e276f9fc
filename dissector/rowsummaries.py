"""Summaries of row messages as texts, many at once, for whoever writes other things around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .rowpieces import row_kind
from .rowtexts import Rows
from .slots import WINDOW, Array, Slots
from .summary import WIDTH
from .view import MessageView

if TYPE_CHECKING:
    from .quick import Kind

MOST_ITEMS = 1 << 17
"""States of columns that are kept."""


class RowSummaries:
    """Makes summaries of rows of kinds that it was told of."""

    def __init__(self) -> None:
        self.rows = Rows()

    @property
    def full(self) -> bool:
        """Whether so much is known that it is better forgotten, with the kinds' numbers."""
        return self.rows.tables.count > MOST_ITEMS

    def number(self, kind: Kind, opened: Callable[[], MessageView]) -> int:
        """The number of a kind; -1 where its rows are not described. opened: one of its messages."""
        rows, number = kind.summarised
        if rows is not self.rows:
            found = row_kind(opened(), kind.short)
            number = -1 if found is None else self.rows.add(found)
            kind.summarised = self.rows, number
        return number

    def texts(
        self, data: bytes, kinds: Array, begins: Array, opened: Callable[[int], MessageView]
    ) -> list[str | None]:
        """The summaries of the rows that begin at `begins` (int64) in `data`, which goes on for WINDOW
        bytes behind the last; None where a row must be looked at otherwise. kinds: the numbers of their
        kinds (int64); opened: the row of some place in `begins`."""
        count = len(begins)
        slots = Slots(count)
        dropped = self.rows.write(slots, data, np.arange(count), kinds, begins, opened)
        slots.whole = dict.fromkeys(dropped.tolist(), b"")
        slots.size[dropped] = 0
        slots.cut(np.flatnonzero((slots.size > WIDTH) & (slots.extra == 0)), WIDTH - 1)
        ends = np.cumsum(slots.size + WINDOW) - WINDOW
        out = np.empty(int(ends[-1]) + 2 * WINDOW if count else 0, np.uint8)
        slots.write(out, ends - slots.size)
        made = out.tobytes()
        texts: list[Any] = [
            made[begin:end].decode()
            for begin, end in zip((ends - slots.size).tolist(), ends.tolist(), strict=True)
        ]
        for row in np.flatnonzero(slots.size - slots.extra > WIDTH).tolist():
            texts[row] = texts[row][: WIDTH - 1] + "…"
        for row in slots.whole:
            texts[row] = None
        return texts
