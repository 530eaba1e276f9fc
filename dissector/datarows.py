"""DataRow messages of one description, or of none, without a tree each: what a column says in each of its
states is learned from an opened message; only values are read where they lie.

Source of the layout: `dissector.catalogue`, through the opened message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from .cells import Cell, Texts, is_safe
from .columns import column_values
from .display import Context, display
from .node import Node
from .opened import Opened
from .prototypes import cell_of
from .records import dumps, json_value
from .rowpieces import QUOTED, piece_of
from .rowpieces import Piece as Shown
from .summary import VALUE, WIDTH
from .taken import Piece, UnusualError, leaf_records
from .taken import piece_of as json_piece

MOST_SHOWN = 21
"""Columns of a row that a summary shows."""

NULL, VALUE_THERE, EMPTY = range(3)
"""States of a column."""

_SIZE = Struct(">i").unpack_from


@dataclass(slots=True)
class _State:
    """A column in one state: what a summary shows, None where nothing describes it; JSON of its leaves,
    where it was asked for."""

    shown: Shown | None
    json: Piece | None


class DataRows:
    """Writes such messages. fields: JSON of their columns is asked for, not only summaries."""

    def __init__(self, view: Opened, secrets: bool, fields: bool) -> None:
        """Raises UnusualError where the opened message is not one of them."""
        repeat = view.tree.child("columns")
        elements = [e for e in (repeat.children if repeat else None) or () if e.index >= 0]
        self.described = bool(view.schema.columns)
        count = view.tree.child("column_count")
        if view.found or repeat is None or count is None or not elements:
            raise UnusualError
        if self.described and view.schema.kind != "row":
            raise UnusualError
        self.counted, self.first = count.start, repeat.start
        self.count = len(view.schema.columns) if self.described else len(elements)
        self.short: Context = view.context(secrets, VALUE)
        self.full = view.context(secrets) if fields else None
        if not self.described and display(view.innermost, self.short):
            raise UnusualError
        self.states: list[list[_State | None]] = [[None] * 3 for _ in range(self.count)]
        self.learn(view)

    def learn(self, view: Opened) -> None:
        """Take what an opened message shows of its columns. Raises UnusualError."""
        repeat = view.tree.child("columns")
        elements = [e for e in (repeat.children if repeat else None) or () if e.index >= 0]
        values = {each.index: each for each in column_values(view.tree, view.schema)}
        if view.found or len(elements) != self.count:
            raise UnusualError
        if len(values) != (self.count if self.described else 0):
            raise UnusualError
        records: dict[int, dict[str, Any]] = {}
        if self.full is not None:
            records = {id(n): found for n, found in leaf_records(view, self.full)}
        for element in elements:
            i, nodes = element.index, element.children or []
            state = _state_of(nodes)
            if self.states[i][state] is not None:
                continue
            value = values.get(i)
            shown = piece_of(value, self.short, view) if value is not None else None
            made: Piece | None = None
            if self.full is not None:
                sized = nodes[-1] if state == VALUE_THERE else None
                cell = None
                if sized is not None and value is not None:
                    cell = cell_of(value, sized, self.full, view)
                elif sized is not None:
                    cell = _unnamed(sized, self.full)
                group = [(n, records[id(n)]) for n in nodes]
                made = json_piece(group, element.start, sized, cell)
            self.states[i][state] = _State(shown, made)

    def read(
        self, data: bytes, begin: int, end: int, opened: Callable[[], Opened]
    ) -> tuple[str, list[bytes]]:
        """Of the message at begin..end: the summary, and the JSON of the leaves of its columns in pieces.
        opened: the same message, opened. Raises UnusualError."""
        at = begin + self.first
        if int.from_bytes(data[begin + self.counted : at], "big") != self.count:
            raise UnusualError
        shown: list[str] = []
        out: list[bytes] = []
        room = WIDTH + 3  # until what is shown is longer, whatever separates it from the next
        for i in range(self.count):
            if at + 4 > end:
                raise UnusualError
            (size,) = _SIZE(data, at)
            after = at + 4 + max(size, 0)
            if after > end or size < -1:
                raise UnusualError
            number = NULL if size < 0 else VALUE_THERE if size else EMPTY
            state = self.states[i][number]
            if state is None:
                self.learn(opened())
                state = self.states[i][number]
                if state is None:
                    raise UnusualError
            raw = data[at + 4 : after]
            if state.shown is not None and room > 0 and i < MOST_SHOWN:
                shown.append(_shown(state.shown, raw))
                room -= len(shown[-1]) + 2
            if state.json is not None:
                if state.json.cell is None:
                    out.append(state.json.at(at - begin, 0, 0))
                else:
                    value, text, _ = state.json.cell.texts(raw)
                    before = state.json.at(at - begin, size, 0)
                    out += (
                        before,
                        value.encode(),
                        state.json.middle,
                        text.encode(),
                        state.json.rest,
                    )
            elif room <= 0:
                break  # only the summary was asked for
            at = after
        else:
            if at != end:
                raise UnusualError
        text = ", ".join(shown) if self.described else f"{end - begin} bytes"
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…", out


def _unnamed(sized: Node, context: Context) -> Cell:
    """Texts of values that nothing describes."""

    def make(raw: bytes) -> Texts:
        leaf = Node(sized.place, 0, len(raw), raw, None, sized.reason)
        return dumps(json_value(leaf, context)), dumps(display(leaf, context)), ""

    return Cell(make)


def _state_of(nodes: list[Node]) -> int:
    if nodes[0].value == -1:
        return NULL
    return VALUE_THERE if nodes[-1].value else EMPTY


def _shown(piece: Shown, raw: bytes) -> str:
    if piece.make is None:
        return piece.text
    if piece.sort == QUOTED and len(raw) <= VALUE and is_safe(raw):
        return f"{piece.text}'{raw.decode()}'"
    return piece.texts(raw)
