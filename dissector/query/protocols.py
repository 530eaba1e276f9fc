"""What the filter language needs of an index and of an opened message, and no more.

`dissector.index.Index` and `dissector.view.MessageView` fit; so does anything of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from dissector.findings import Finding
from dissector.node import Node
from dissector.schemas import Schema, Tables


class ConnectionLike(Protocol):
    """One connection: "address:port" of either side, IPv6 addresses in brackets."""

    @property
    def frontend(self) -> str: ...

    @property
    def backend(self) -> str: ...


class RowsLike(Protocol):
    """Rows in columns, with the names and dtypes of `dissector.rows.COLUMNS`."""

    def part(self, name: str, start: int, stop: int) -> Any: ...


class IndexLike(Protocol):
    """Rows, the tables that they point into (append-only), connections by stream number."""

    @property
    def rows(self) -> RowsLike: ...

    @property
    def tables(self) -> Tables: ...

    @property
    def connections(self) -> Mapping[int, ConnectionLike]: ...

    def __len__(self) -> int: ...


class RowLike(Protocol):
    """A row's number, from 1."""

    @property
    def number(self) -> int: ...


class MessageLike(Protocol):
    """An opened message: its tree, all its findings, the Schema in force (kind "" for none)."""

    @property
    def row(self) -> RowLike: ...

    @property
    def tree(self) -> Node: ...

    @property
    def found(self) -> Iterable[Finding]: ...

    @property
    def schema(self) -> Schema: ...


class CaptureLike(Protocol):
    """An index, and the way to open a message by its number from 1."""

    @property
    def index(self) -> IndexLike: ...

    def message(self, number: int, /) -> MessageLike: ...
