"""Summaries of row messages by columns: one step for a column of all rows of a block.

What a column shows in each of its states is learned from an opened message; only values are read where
they lie. Source of the layout: `dissector.catalogue`, through the opened message and `shapes`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .columns import column_values
from .rowpieces import (
    KINDS,
    VALUED,
    RowKind,
    Tables,
    piece_of,
)  # fmt: skip
from .rowwalks import CODE, LETTER, LETTERS, PlainWalk, Walk
from .slots import WINDOW, Array, Slots, packed
from .view import MessageView


class Rows:
    """Writes the summaries of row messages."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.kinds: list[RowKind] = []
        self._stale = True

    def shape(self) -> None:
        """Arrays of the kinds, made anew after one was added or learned: letter_at, columns, and first
        items of both tuples by kind and letter."""
        if not self._stale:
            return
        self._stale = False
        count = len(self.kinds)
        self.letter_at = np.array([k.letter_at for k in self.kinds] or [0], np.int64)
        self.columns = np.array([k.columns for k in self.kinds] or [0], np.int64)
        self.bases = np.full((count or 1, len(LETTERS) + 1, 2), -1, np.int64)
        self.layouts = list({kind.layout: 0 for kind in self.kinds})
        self.layout = np.array([self.layouts.index(kind.layout) for kind in self.kinds], np.int64)
        self.plain = np.array([bool(kind.layout) for kind in self.kinds], bool)
        for i, kind in enumerate(self.kinds):
            for letter, pair in kind.tuples.items():
                self.bases[i, letter] = pair
        texts = [kind.subject.encode() for kind in self.kinds]
        self.extra = np.array(
            [len(t) - len(k.subject) for t, k in zip(texts, self.kinds, strict=True)], np.int64
        )
        self.wide = bool(self.extra.any())
        self.subjects: list[tuple[Array, Array]] = []
        while any(texts):
            parts, texts = [t[:WINDOW] for t in texts], [t[WINDOW:] for t in texts]
            self.subjects.append((packed(parts, WINDOW), np.array(list(map(len, parts)), np.int64)))

    def add(self, kind: RowKind) -> int:
        """The number of a new kind."""
        self.kinds.append(kind)
        view, kind.view = kind.view, None
        if view is not None:
            self.learn(len(self.kinds) - 1, view)
        self._stale = True
        return len(self.kinds) - 1

    # -- learning

    def learn(self, number: int, view: MessageView) -> None:
        """Take what an opened row without findings shows of its columns."""
        kind = self.kinds[number]
        if kind.layout:
            self._learn_plain(kind, view)
            return
        letter = int(LETTER[view.data[kind.letter_at]]) if kind.letter_at < len(view.data) else 3
        inner = view.innermost
        parts = [p for p in ("old", "new") if inner.child(p) is not None]
        if view.found or letter == len(LETTERS) or not parts:
            return
        bases = kind.tuples.get(letter)
        if bases is None:
            first = self.tables.reserve(kind.columns)
            second = self.tables.reserve(kind.columns) if len(parts) > 1 else -1
            bases = kind.tuples[letter] = (first, second)
            self._stale = True
        starts: dict[str, list[int]] = {}
        for part in parts:
            repeat = inner.child(part).child("columns")  # type: ignore[union-attr]
            starts[part] = [
                element.start
                for element in (repeat.children if repeat else None) or ()
                if any(not node.absent for node in element.children or ())
            ]
        for each in column_values(view.tree, view.schema):
            base = bases[parts.index(each.part)]
            if each.index >= kind.columns or base < 0:
                continue
            code = int(CODE[view.data[starts[each.part][each.index]]])
            item = base + each.index * len(KINDS) + code
            if code < len(KINDS) and self.tables.pieces[item] is None:
                self.tables.set(item, piece_of(each, kind.context, view))

    def _learn_plain(self, kind: RowKind, view: MessageView) -> None:
        if not kind.tuples:
            kind.tuples[0] = (self.tables.reserve(kind.columns), -1)
            self._stale = True
        if view.found:
            return
        for each in column_values(view.tree, view.schema):
            item = kind.tuples[0][0] + each.index * len(KINDS)
            item += VALUED if each.state != "null" else 0
            if each.index < kind.columns and self.tables.pieces[item] is None:
                self.tables.set(item, piece_of(each, kind.context, view))

    # -- one block

    def write(
        self, slots: Slots, data: bytes, rows: Array, kinds: Array, begins: Array,
        opened: Callable[[int], MessageView],
    ) -> Array:  # fmt: skip
        """Add the summaries of `rows`, whose messages begin at `begins` in `data` and are of the kinds
        numbered `kinds`. `data` goes on for WINDOW bytes behind the last. opened: the message of a row.
        Returns the rows that must be written otherwise."""
        self.shape()
        plain = self.plain[kinds]
        dropped = [np.zeros(0, np.int64)]
        for mask, walk in ((~plain, Walk), (plain, PlainWalk)):
            if mask.any():
                run = walk(self, slots, data, opened).run
                dropped.append(run(rows[mask], kinds[mask], begins[mask]))
        return np.concatenate(dropped)
