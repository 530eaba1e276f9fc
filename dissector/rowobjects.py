"""Rows of queries and of COPY, written without a tree each: as summaries, and as JSON objects."""

from __future__ import annotations

from collections.abc import Callable

from . import catalogue
from .copyrows import CopyRows
from .datarows import DataRows
from .heads import in_json
from .node import Node, messages
from .opened import Opened
from .records import END, FIELDS, dumps, payload_json
from .summary import summary
from .taken import Piece, UnusualError, leaf_records, piece_of
from .view import MessageView

_ROWS: dict[str, type[DataRows] | type[CopyRows]] = {
    catalogue.by_name("DataRow").name: DataRows,
    catalogue.by_name("CopyData").name: CopyRows,
}


def rows_of(view: Opened, secrets: bool, fields: bool) -> DataRows | CopyRows:
    """What writes messages like the opened one. Raises UnusualError where nothing does."""
    if view.tree.name not in _ROWS or len(messages(view.tree)) > 1:
        raise UnusualError
    return _ROWS[view.tree.name](view, secrets, fields)


class RowObjects:
    """DataRow messages, or rows of COPY, of one description as JSON objects, with all fields or without, with
    their bytes or without, from ``,"message":`` on."""

    def __init__(
        self, view: MessageView, secrets: bool, text: bytes, fields: bool, payload: bool
    ) -> None:
        """text: the object of an opened message, from there on. Raises UnusualError where it is none."""
        self.rows = rows_of(view, secrets, fields)
        shown = dumps(summary(view, secrets)).encode()
        length = b',"length":%d,' % view.row.length
        told = b',"summary":%b,' % shown
        before, found, rest = text.partition(length)
        between, also, rest = rest.partition(told)
        self.payload, self.end = payload, FIELDS if fields else b"}\n"
        after, ended, _ = rest.partition(self._end(view.data))
        if not (found and also and ended):
            raise UnusualError
        self.before, self.between = before + b',"length":', b"," + between + b',"summary":"'
        self.after = b'",' + after
        self.head: Piece | None = None
        if self.rows.full is not None:
            records = leaf_records(view, self.rows.full, lambda path: "[" not in path)
            count = Node(records[-1][0].place, 0, 0)
            self.head = piece_of(records, 0, count, None)  # its length differs

    def text(self, data: bytes, opened: Callable[[], Opened]) -> bytes:
        """That of the message `data`. Raises UnusualError."""
        shown, columns = self.rows.read(data, 0, len(data), opened)
        said = self.before, b"%d" % len(data), self.between, in_json(shown).encode(), self.after
        end = self._end(data)
        if self.head is None:
            return b"".join((*said, end))
        return b"".join((*said, end, self.head.at(0, len(data) - 1, 0)[1:], *columns, END))

    def _end(self, data: bytes) -> bytes:
        """What follows where all is said that is said without fields and bytes."""
        return payload_json(data) + self.end if self.payload else self.end
