"""COPY text of whole rows, without a tree for each message: one row each as servers send it, or many.

What a column says is learned from an opened message; only values are read where they lie. Source: the manual
page ``sql-copy.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import display
from .cells import Cell, ColumnCell, Texts, is_safe
from .copying import MOST_ROWS
from .display import Context
from .node import Node, walk_paths
from .opened import Opened
from .recognise import HEADER
from .records import dumps, json_value
from .summary import VALUE, WIDTH
from .taken import Piece, UnusualError, leaf_records, piece_of
from .text import decode_text

_NEWLINE, _ESCAPE = b"\n", b"\\"


def _row(number: int) -> bytes:
    """How a row is named in the paths of its leaves."""
    return b".data.rows[%d]." % number


class CopyRows:
    """Writes such messages. fields: JSON of their columns is asked for, not only summaries."""

    def __init__(self, view: Opened, secrets: bool, fields: bool) -> None:
        """Raises UnusualError where the opened message is not one of them."""
        state = view.schema.copy
        if view.found or state is None or state.form != "text":
            raise UnusualError
        if state.column or state.inside or state.escaped or len(state.delimiter) != 1:
            raise UnusualError
        if _row(0) in state.null:
            raise UnusualError  # it would be taken for a path
        self.delimiter, self.null = state.delimiter, state.null
        self.short: Context = view.context(secrets, VALUE)
        self.full = view.context(secrets) if fields else None
        self.pieces: list[dict[bool, Piece]] = []
        self.end: Piece | None = None
        if fields:
            self.learn(view)

    def rows(self, data: bytes, begin: int, end: int) -> list[bytes]:
        """The rows that the message is. Raises UnusualError."""
        held = data[begin + HEADER : end]
        if held[-1:] != _NEWLINE or _ESCAPE + _NEWLINE in held:
            raise UnusualError
        return held[:-1].split(_NEWLINE)

    def cells(self, row: bytes) -> list[bytes]:
        """The columns of a row. Raises UnusualError."""
        cells = row.split(self.delimiter)
        if _ESCAPE + self.delimiter in row or not all(cells):
            raise UnusualError
        return cells

    def learn(self, view: Opened) -> None:
        """Take what an opened message shows of its columns. Raises UnusualError."""
        assert self.full is not None
        rows = [n for _, n in walk_paths(view.tree) if n.name == "rows" and n.index < 0]
        if view.found or not rows:
            raise UnusualError
        records = {id(n): found for n, found in leaf_records(view, self.full)}

        def told(node: Node, row: Node) -> tuple[Node, dict[str, Any]]:
            found = records[id(node)]
            path = found["path"].replace(_row(row.index).decode(), _row(0).decode(), 1)
            return node, {**found, "path": path}

        for row in rows[0].children or ():
            columns, end = row.child("columns"), row.child("row_end")
            for element in (columns.children if columns is not None else None) or ():
                nodes = element.children or []
                null = nodes[-1].value == self.null
                while len(self.pieces) <= element.index:
                    self.pieces.append({})
                if nodes[-1].value and null not in self.pieces[element.index]:
                    group = [told(n, row) for n in nodes]
                    sized, cell = (None, None) if null else (nodes[-1], self._cell(nodes[-1]))
                    self.pieces[element.index][null] = piece_of(group, element.start, sized, cell)
            if end is not None and self.end is None:
                self.end = piece_of([told(end, row)], end.start, None, None)

    def _cell(self, node: Node) -> Cell:
        place, reason, context = node.place, node.reason, self.full
        assert context is not None

        def make(raw: bytes) -> Texts:
            leaf = Node(place, 0, len(raw), raw, None, reason)
            shown = display.column("text", raw, context)
            return dumps(json_value(leaf, context)), dumps(shown), ""

        return ColumnCell(make, False, True)

    def read(
        self, data: bytes, begin: int, end: int, opened: Callable[[], Opened]
    ) -> tuple[str, list[bytes]]:
        """See `dissector.datarows.DataRows.read`."""
        rows = self.rows(data, begin, end)
        out: list[bytes] = []
        if len(rows) > MOST_ROWS:
            raise UnusualError
        first = [self.cells(row) for row in rows[: display.MOST_COPIED]]
        shown = " | ".join([", ".join(self._shown(c[: display.MOST_PARTS])) for c in first])
        if len(rows) > len(first):
            shown += f" | … {len(rows) - len(first)} more"
        if len(shown) > WIDTH:
            shown = shown[: WIDTH - 1] + "…"
        if self.full is None:
            return shown, out
        at = HEADER
        for number, row in enumerate(rows):
            cells = first[number] if number < len(first) else self.cells(row)
            out += self._json(cells, number, at, opened)
            at += len(row) + 1
        return shown, out

    def _shown(self, cells: list[bytes]) -> list[str]:
        return [shown_cell(raw, self.null, self.short) for raw in cells]

    def _json(
        self, cells: list[bytes], row: int, at: int, opened: Callable[[], Opened]
    ) -> Iterator[bytes]:
        """The leaves of row number `row`, which begins at `at`."""
        for i, raw in enumerate(cells):
            null = raw == self.null
            piece = self.pieces[i].get(null) if i < len(self.pieces) else None
            if piece is None:
                self.learn(opened())
                piece = self.pieces[i].get(null) if i < len(self.pieces) else None
                if piece is None:
                    raise UnusualError
            before = piece.made(at, len(raw), 0)
            if row:
                before = before.replace(_row(0), _row(row))
            if piece.cell is None:
                yield before
            else:
                value, text, _ = piece.cell.texts(raw)
                yield b"".join((before, value.encode(), piece.middle, text.encode(), piece.rest))
            at += len(raw) + (i > 0)
        if self.end is None:
            raise UnusualError
        yield self.end.made(at, 0, 0).replace(_row(0), _row(row))


def shown_cell(raw: bytes, null: bytes, context: Context) -> str:
    """What a summary says of a column that is written as `raw`."""
    if raw == null:
        return display.STATES["null"]
    if len(raw) <= WIDTH and is_safe(raw):
        return f"'{raw.decode()}'"
    return display.quote_text(decode_text(raw[: WIDTH * 4 + 4], context.encoding), WIDTH)
