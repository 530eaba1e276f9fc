"""What the filter language needs of an index and of an opened message, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dissector.findings import Finding
from dissector.node import Node
from dissector.schemas import Tables

NO_LSN = 2**64 - 1
"""The lsn column's "none"."""

ASSUMED = 1
"""The bit of the flags column that marks an assumed dialect."""

Address = tuple[str, int]


class ConnectionLike(Protocol):
    """One connection: (address, port) of the frontend and of the backend."""

    @property
    def client(self) -> Address: ...

    @property
    def server(self) -> Address: ...


class IndexLike(Protocol):
    """The index: one-dimensional numpy arrays with at least `count` elements, and tables.

    frame u4, time i8 (ns since 1970-01-01 UTC), stream u4, direction u1 (ord of F or B), length u4,
    path u2 (number in tables.paths), lsn u8 (`NO_LSN` none), xid u4 (0 none), relation u4 (number in
    tables.schemas, 0 none), severity u1 (0 none), flags u1. A row's number is its place from 1.
    """

    count: int
    tables: Tables
    frame: Any
    time: Any
    stream: Any
    direction: Any
    length: Any
    path: Any
    lsn: Any
    xid: Any
    relation: Any
    severity: Any
    flags: Any

    @property
    def connections(self) -> Sequence[ConnectionLike]: ...


@dataclass(frozen=True, slots=True)
class TupleColumn:
    """A value of a row by the Relation (or RowDescription) in force.

    type: ``character varying(40)``. state: text, binary, null, unchanged, not sent. value: the value's
    text, None unless state is text or binary.
    """

    name: str
    type: str
    state: str
    value: str | None


class MessageLike(Protocol):
    """An opened message. number counts from 1; encoding is that of its text fields."""

    @property
    def number(self) -> int: ...

    @property
    def encoding(self) -> str: ...

    @property
    def node(self) -> Node: ...

    @property
    def findings(self) -> Iterable[Finding]: ...

    def tuple_columns(self) -> Iterable[TupleColumn]: ...
