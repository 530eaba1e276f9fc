"""Summaries of row messages as texts, many at once, for whoever writes other things around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .heads import in_json
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
    ) -> list[bytes]:
        """The summaries of the rows that begin at `begins` (int64) in `data`, which goes on for WINDOW
        bytes behind the last, as JSON without quotes; nothing where a row must be looked at otherwise.
        kinds: the numbers of their kinds (int64); opened: the row of some place in `begins`."""
        count = len(begins)
        slots = Slots(count)
        dropped = self.rows.write(slots, data, np.arange(count), kinds, begins, opened)
        slots.whole = dict.fromkeys(dropped.tolist(), b"")
        slots.size[dropped] = 0
        long = np.flatnonzero((slots.size > WIDTH) & (slots.extra == 0))
        slots.cut(long, WIDTH - 1)
        ends = np.cumsum(slots.size + WINDOW) - WINDOW
        starts = ends - slots.size
        out = np.empty(int(ends[-1]) + 2 * WINDOW if count else 0, np.uint8)
        slots.write(out, starts)
        made = out.tobytes()
        texts = [made[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        edges = np.stack([starts, ends], axis=1)
        edges[long, 1] -= len("…".encode())
        odd = np.bitwise_or.reduceat(_ODD[out], edges.reshape(-1))[::2] if count else edges
        for row in np.flatnonzero(odd).tolist():
            text = texts[row].decode()
            cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
            texts[row] = in_json(cut).encode()
        return texts


_ODD = np.array([in_json(chr(i)) != chr(i) or i > 126 for i in range(256)])
"""Bytes that JSON does not leave as they are, or that are not the only one of their character."""
