"""Which request a backend message answers: the queue of simple and extended queries.

A client may send many requests before it reads an answer (pipelining), and statements and portals
keep their descriptions for later. So requests go into a queue in the order in which they were sent,
and each answer of the server is matched with the queue's head. After an error in the extended
protocol the server skips everything up to the next Sync. Source: the manual's "Message Flow".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from .commands import Command
from .schemas import Column, Schema


@dataclass(slots=True, eq=False)
class Statement:
    """A prepared statement: its text, and what the server said of it (None: not said yet)."""

    text: str = ""
    row: Schema | None = None
    parameters: Schema | None = None


@dataclass(slots=True, eq=False)
class Portal:
    """A bound statement with the formats that its results will have."""

    statement: Statement = field(default_factory=Statement)
    formats: tuple[int, ...] = ()
    row: Schema | None = None

    def result(self) -> Schema | None:
        """The columns of its rows with the formats of this portal, None where nobody described them."""
        if self.row is not None:
            return self.row
        if self.statement.row is not None:
            self.row = with_formats(self.statement.row, self.formats)
        return self.row


@dataclass(slots=True, eq=False)
class Request:
    """Something that the client asked for and the server has not finished answering.

    kind: query, parse, bind, describe, execute, close, sync, function.
    """

    kind: str
    text: str = ""
    command: Command | None = None
    statement: Statement | None = None
    portal: Portal | None = None
    row: Schema | None = None


_LIMIT = 100_000
"""Requests without an answer that are kept: one direction alone in a capture must not fill memory."""

_EXTENDED = ("parse", "bind", "describe", "execute", "close")


def with_formats(schema: Schema, formats: tuple[int, ...]) -> Schema:
    """`schema` with Bind's format codes: none means text, one holds for all columns."""
    if not formats:
        formats = (0,)
    if len(formats) == 1:
        formats = formats * len(schema.columns)
    columns = tuple(
        replace(column, format=formats[i] if i < len(formats) else 0)
        for i, column in enumerate(schema.columns)
    )
    return replace(schema, columns=columns)


class Conversation:
    """Requests, statements and portals of one connection."""

    def __init__(self) -> None:
        self.queue: deque[Request] = deque(maxlen=_LIMIT)
        self.statements: dict[str, Statement] = {}
        self.portals: dict[str, Portal] = {}

    # what the frontend sends

    def query(self, text: str, command: Command | None) -> None:
        self.queue.append(Request("query", text, command))

    def parse(self, name: str, text: str, oids: tuple[int, ...]) -> None:
        statement = Statement(text)
        if any(oids):
            columns = tuple(Column(f"${i}", oid) for i, oid in enumerate(oids, start=1))
            statement.parameters = Schema("parameters", columns)
        self.statements[name] = statement
        self.queue.append(Request("parse", text, statement=statement))

    def bind(
        self, portal: str, statement: str, parameter_formats: tuple[int, ...],
        result_formats: tuple[int, ...], count: int = 0,
    ) -> Schema | None:  # fmt: skip
        """Bind a portal; returns the description of Bind's own `count` parameters, None for none. Their
        types are 0 where nobody told them yet."""
        source = self.statements.get(statement) or Statement()
        self.portals[portal] = made = Portal(source, result_formats)
        self.queue.append(Request("bind", statement=source, portal=made))
        if not count:
            return None
        described = source.parameters or Schema("parameters")
        known = len(described.columns)
        more = tuple(Column(f"${i}") for i in range(known + 1, count + 1))
        return with_formats(replace(described, columns=described.columns + more), parameter_formats)

    def describe(self, kind: str, name: str) -> None:
        request = Request("describe")
        if kind == "S":
            request.statement = self.statements.get(name) or Statement()
        else:
            request.portal = self.portals.get(name) or Portal()
        self.queue.append(request)

    def execute(self, portal: str) -> None:
        bound = self.portals.get(portal) or Portal()
        self.queue.append(Request("execute", bound.statement.text, portal=bound))

    def close(self, kind: str, name: str) -> None:
        (self.statements if kind == "S" else self.portals).pop(name, None)
        self.queue.append(Request("close"))

    def other(self, kind: str) -> None:
        self.queue.append(Request(kind))

    # what the backend answers

    def head(self) -> Request | None:
        return self.queue[0] if self.queue else None

    def in_query(self) -> bool:
        """Whether a simple query waits for its ReadyForQuery."""
        return bool(self.queue) and self.queue[0].kind == "query"

    def asked(self, kinds: tuple[str, ...]) -> bool:
        """Whether one of `kinds` was asked for and can be answered now: nothing that ends with a
        ReadyForQuery stands before it."""
        for request in self.queue:
            if request.kind in kinds:
                return True
            if request.kind in ("query", "sync", "function"):
                return False
        return False

    def done(self, *kinds: str) -> None:
        """The server finished a request of one of `kinds`; anything before it was lost or skipped."""
        for i, request in enumerate(self.queue):
            if request.kind in kinds:
                for _ in range(i + 1):
                    self.queue.popleft()
                return
            if request.kind in ("query", "sync", "function"):
                return

    def described(self, row: Schema | None) -> None:
        """A RowDescription came (or NoData: None)."""
        head = self.head()
        while head is not None and head.kind in ("parse", "bind", "close"):
            self.queue.popleft()
            head = self.head()
        if head is None:
            if (
                row is not None
            ):  # the request is not in the capture: rows that follow have this form
                self.queue.append(Request("query", row=row))
            return
        if head.kind == "query":
            head.row = row
            return
        if head.kind != "describe":
            return
        if head.statement is not None:
            head.statement.row = row
        elif head.portal is not None and row is not None:
            head.portal.row = row
            if head.portal.statement.row is None:
                head.portal.statement.row = row
        self.queue.popleft()

    def parameters(self, schema: Schema) -> None:
        """A ParameterDescription came: it answers a Describe of a statement."""
        for request in self.queue:
            if request.kind == "describe" and request.statement is not None:
                request.statement.parameters = schema
                return
            if request.kind not in ("parse", "bind", "close"):
                return

    def row(self) -> Schema | None:
        """The description of a DataRow that comes now."""
        head = self.head()
        while head is not None and head.kind in ("parse", "bind", "close", "describe"):
            self.queue.popleft()
            head = self.head()
        if head is None:
            return None
        if head.kind == "execute" and head.portal is not None:
            return head.portal.result()
        return head.row

    def failed(self) -> None:
        """ErrorResponse: in the extended protocol everything up to Sync is skipped."""
        while self.queue and self.queue[0].kind in _EXTENDED:
            self.queue.popleft()

    def ready(self) -> None:
        """ReadyForQuery: the request that it ends leaves the queue."""
        while self.queue:
            if self.queue.popleft().kind in ("query", "sync", "function"):
                return
