"""Which request a backend message answers: the queue of simple and extended queries.

A client may send many requests before it reads an answer (pipelining), and statements and portals
keep their descriptions for later. So requests go into a queue in the order in which they were sent,
and each answer of the server is matched with the queue's head. After an error in the extended
protocol the server skips everything up to the next Sync. Source: the manual's "Message Flow".
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from .commands import Command
from .schemas import Column, Schema

_FORMS = 64
"""Combinations of formats whose descriptions are kept at hand."""


@dataclass(slots=True, eq=False)
class Statement:
    """A prepared statement: its text, and what the server said of it (None: not said yet)."""

    text: str = ""
    row: Schema | None = None
    parameters: Schema | None = None


@dataclass(slots=True, eq=False)
class Portal:
    """A bound statement with the formats that its results will have; row: the columns of its rows in
    these formats, None where nobody described them yet."""

    statement: Statement = field(default_factory=Statement)
    formats: tuple[int, ...] = ()
    row: Schema | None = None


@dataclass(slots=True, eq=False)
class Request:
    """Something that the client asked for and the server has not finished answering.

    kind: query, parse, bind, describe, execute, close, sync, function. target: "S" (statement) or "P"
    (portal) and name of what it is about; source and formats: of bind. Of a query, row and completed (its
    statements) change; any other may be asked for again with the same object.
    """

    kind: str
    text: str = ""
    command: Command | None = None
    target: tuple[str, str] = ("", "")
    statement: Statement | None = None
    source: str = ""
    formats: tuple[int, ...] = ()
    row: Schema | None = None
    completed: int = 0


_LIMIT = 100_000
"""Requests without an answer that are kept: one direction alone in a capture must not fill memory."""

_EXTENDED = ("parse", "bind", "describe", "execute", "close")
_ENDED = ("query", "sync", "function")
"""Requests that a ReadyForQuery ends."""

KINDS = _EXTENDED + _ENDED

_FORGETS = re.compile(
    r"\s*(?:DISCARD\s+ALL|DEALLOCATE(?:\s+PREPARE)?\s+(\"(?:[^\"]|\"\")+\"|\w+))\s*(?:;|\Z)",
    re.IGNORECASE,
)


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


class _Forms:
    """Descriptions with format codes: the same object for the same description and codes."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, tuple[int, ...]], tuple[Schema, Schema]] = {}

    def of(self, schema: Schema, formats: tuple[int, ...], count: int = 0) -> Schema:
        """`schema` with `formats`, and at least `count` columns: the further ones of unknown type."""
        key = (id(schema), count, formats)
        made = self._made.get(key)
        if made is None or made[0] is not schema:
            first = len(schema.columns) + 1
            more = tuple(Column(f"${i}") for i in range(first, count + 1))
            whole = replace(schema, columns=schema.columns + more) if more else schema
            if len(self._made) >= _FORMS:
                self._made.clear()
            made = self._made[key] = schema, with_formats(whole, formats)
        return made[1]


_UNKNOWN = Schema("parameters")


class Conversation:
    """Requests, statements and portals of one connection.

    `statements` and `portals` are the server's: they change when an answer says so, in the server's
    order, so that what it refused or skipped after an error changes nothing.
    """

    def __init__(self) -> None:
        self.queue: deque[Request] = deque(maxlen=_LIMIT)
        self.statements: dict[str, Statement] = {}
        self.portals: dict[str, Portal] = {}
        self._sent: dict[str, Statement | None] = {}
        self._forms = _Forms()
        self._typed: dict[tuple[int, ...], Schema] = {}  # parameters by their types
        self.skipping = False
        self._behind = False  # only answers are missing: what waits may be done
        self._unheard = False  # requests are missing

    # what the frontend sends

    def ask(self, request: Request) -> None:
        """The client asks for something."""
        if self.skipping and request.kind != "sync":  # the server does not look at it
            return
        self.skipping = False
        self.queue.append(request)
        if request.kind in ("parse", "close") and request.target[0] == "S":
            self._sent[request.target[1]] = request.statement

    def query(self, text: str, command: Command | None) -> None:
        self.ask(Request("query", text, command))

    def parse(self, name: str, text: str, oids: tuple[int, ...]) -> None:
        statement = Statement(text)
        if any(oids):
            typed = self._typed.get(oids)
            if typed is None:
                if len(self._typed) >= _FORMS:
                    self._typed.clear()
                columns = tuple(Column(f"${i}", oid) for i, oid in enumerate(oids, start=1))
                typed = self._typed[oids] = Schema("parameters", columns)
            statement.parameters = typed
        self.ask(Request("parse", text, target=("S", name), statement=statement))

    def bind(
        self, request: Request, parameter_formats: tuple[int, ...], count: int = 0
    ) -> Schema | None:
        """Bind a portal; returns the description of Bind's own `count` parameters, None for none. Their
        types are 0 where nobody told them yet."""
        self.ask(request)
        if not count:
            return None
        name, sent = request.source, self._sent
        known = sent[name] if name in sent else self.statements.get(name)
        described = (known and known.parameters) or _UNKNOWN
        return self._forms.of(described, parameter_formats, count)

    # what the backend answers

    def head(self) -> Request | None:
        return self.queue[0] if self.queue else None

    def text(self) -> str:
        """The SQL that is being executed, "" where it is not known."""
        head = self.head()
        if head is None:
            return ""
        if head.kind == "execute":
            portal = self.portals.get(head.target[1])
            return portal.statement.text if portal is not None else ""
        return head.text

    def in_query(self) -> bool:
        """Whether a simple query waits for its ReadyForQuery."""
        return bool(self.queue) and self.queue[0].kind == "query"

    def asked(self, kinds: tuple[str, ...]) -> bool:
        """Whether one of `kinds` was asked for and can be answered now: nothing that ends with a
        ReadyForQuery stands before it."""
        for request in self.queue:
            if request.kind in kinds:
                return True
            if request.kind in _ENDED:
                return False
        return False

    def _take(self) -> Request:
        """The head leaves the queue; what it asked for was done."""
        request = self.queue.popleft()
        kind, name = request.target
        if request.kind == "parse":
            self.statements[name] = request.statement or Statement()
            self._settled(request)
        elif request.kind == "bind":
            self.portals[name] = Portal(self._statement(request.source), request.formats)
        elif request.kind == "close":
            (self.statements if kind == "S" else self.portals).pop(name, None)
            self._settled(request)
        elif request.kind == "execute":
            portal = self.portals.get(name)
            self._forget(portal.statement.text if portal is not None else "")
        return request

    def _settled(self, request: Request) -> None:
        name = request.target[1]
        if request.target[0] == "S" and self._sent.get(name) is request.statement:
            self._sent.pop(name, None)

    def _statement(self, name: str) -> Statement:
        """The statement of that name; one that was made unseen (before the capture, or by PREPARE)."""
        return self.statements.setdefault(name, Statement())

    def _portal(self, name: str) -> Portal:
        """The portal of that name; one that was made unseen (before the capture, or by DECLARE)."""
        return self.portals.setdefault(name, Portal())

    def _forget(self, text: str) -> None:
        """Statements that SQL took away: another of that name can be made by SQL."""
        for match in _FORGETS.finditer(text) if _FORGETS.match(text) else ():
            name = match[1]
            if name is None or name.upper() == "ALL":
                self.statements.clear()
            else:
                plain = name[1:-1].replace('""', '"') if name[0] == '"' else name.lower()
                self.statements.pop(plain, None)

    def done(self, kind: str) -> None:
        """The server finished a request of `kind`; the answers before it were lost.

        Answers come in order. Where some are missing and no request is, also what a ReadyForQuery would
        have ended is over; not before a CommandComplete, which a simple query gets, too.
        """
        if self.queue and self.queue[0].kind == kind:  # nearly always
            self._take()
            return
        for i, request in enumerate(self.queue):
            if request.kind == kind:
                for _ in range(i + 1):
                    self._take()
                return
            if request.kind in _ENDED and (not self._behind or kind == "execute"):
                return
        self._behind = False  # it answers nothing that was seen; nobody looks through all again

    def described(self, row: Schema | None) -> None:
        """A RowDescription came (or NoData: None)."""
        head = self.head()
        while head is not None and head.kind in ("parse", "bind", "close"):
            self._take()
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
        kind, name = head.target
        if kind == "S":
            self._statement(name).row = row
        elif row is not None:
            portal = self._portal(name)
            portal.row = row
            if portal.statement.row is None:
                portal.statement.row = row
        self.queue.popleft()

    def parameters(self, schema: Schema) -> None:
        """A ParameterDescription came: it answers a Describe of a statement."""
        head = self.head()
        while head is not None and head.kind in ("parse", "bind", "close"):
            self._take()
            head = self.head()
        if head is not None and head.kind == "describe" and head.target[0] == "S":
            self._statement(head.target[1]).parameters = schema

    def row(self) -> Schema | None:
        """The description of a DataRow that comes now."""
        head = self.head()
        while head is not None and head.kind in ("parse", "bind", "close", "describe"):
            self._take()
            head = self.head()
        if head is None:
            return None
        if head.kind == "execute":
            portal = self.portals.get(head.target[1])
            if portal is None:
                return None
            if portal.row is None and portal.statement.row is not None:
                portal.row = self._forms.of(portal.statement.row, portal.formats)
            return portal.row
        return head.row

    def failed(self) -> None:
        """ErrorResponse: in the extended protocol everything up to Sync is skipped, also what the client
        sends before it knows."""
        if not self.queue or self.queue[0].kind not in _EXTENDED:
            return
        while self.queue and self.queue[0].kind != "sync":
            self.queue.popleft()
        self.skipping = not self.queue
        self._sent = {
            r.target[1]: r.statement
            for r in self.queue
            if r.kind in ("parse", "close") and r.target[0] == "S"
        }

    def ready(self) -> None:
        """ReadyForQuery: the request that it ends leaves the queue."""
        self.skipping = False
        while self.queue:
            request = self._take()
            if request.kind in _ENDED:
                self._forget(request.text)
                break
        if not self.queue:
            self._behind = self._unheard = False

    def lost(self, direction: str) -> None:
        """Messages of `direction` are missing: a Sync may be among the client's."""
        self.skipping = False
        self._unheard = self._unheard or direction == "F"
        self._behind = not self._unheard
