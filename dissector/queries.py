"""What the messages of SQL sessions teach: requests, their answers, statements and portals.

Each step takes a message that was read before and moves the conversation on; the encoding aside nothing
else of the state changes. So such messages are taken in long turns (`Steps`), whatever they hold. What
a message says is put into words once and kept with it: the same bytes come again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import catalogue
from .commands import parse_command
from .conversation import KINDS, Request
from .known import Known
from .reads import Read, Reads, reads_of
from .rows import DIRECTIONS
from .schemas import Column, Schema
from .statements import encoding_set
from .waiting import ANSWERS, QUERY

Step = Callable[["Queries", Read], int]
"""Takes a message; gives its schema's number, 0 for none, COMMAND where it leaves the message to others."""

COMMAND = -1
"""A Query holds a replication command: nothing was changed."""


Way = tuple[frozenset[str] | None, Step]
"""Kinds of the queue's head with which a message can come and waits for nothing, "" for an empty queue,
None for any; its step."""


@dataclass(slots=True)
class Steps:
    """How messages of one direction are taken while all that they change is the conversation.

    of: by type byte. reads: messages in the one dialect that they have; dialect: its number.
    """

    direction: int
    of: dict[int, Way]
    reads: Reads
    dialect: int


class Queries(Known):
    """Simple and extended queries of a Session."""

    def steps(self) -> tuple[Steps, Steps] | None:
        """The client's and the server's; None in start-up, authentication and COPY. They hold as long as
        `base` is the same object and the messages taken are theirs."""
        if not self.started or self.in_startup or self.auth or self.auth_due:
            return None
        if self.copy["F"] or self.copy["B"] or self.copies.broken:
            return None
        if self._steps is None or self._steps_of is not self.base:
            self._steps_of = self.base
            self._steps = self._made_steps("F"), self._made_steps("B")
        return self._steps

    def _made_steps(self, direction: str) -> Steps:
        dialect = self.dialect(direction)
        reads = reads_of("frontend" if direction == "F" else "backend", dialect)
        number = self.tables.dialects.number(dialect)
        return Steps(DIRECTIONS.index(direction), _BY_TAG[reads.layer], reads, number)

    def _query(self, read: Read) -> int:
        text = read.told.get(self.codec)
        if text is None:
            text = read.told[self.codec] = self.text(read.facts.get("query"))
        if self.is_walsender() and parse_command(text) is not None:
            return COMMAND
        self.conversation.query(text, None)
        return 0

    def _parse(self, read: Read) -> int:
        told = read.told.get(self.codec)
        if told is None:
            values = read.facts
            oids = [int(x.get("type_oid") or 0) for x in values.get("parameter_types") or []]
            told = read.told[self.codec] = (
                self.text(values.get("statement")), self.text(values.get("query")), tuple(oids)
            )  # fmt: skip
        self.conversation.parse(*told)
        return 0

    def _bind(self, read: Read) -> int:
        told = read.told.get(self.codec)
        if told is None:
            values = read.facts
            request = Request(
                "bind", target=("P", self.text(values.get("portal"))),
                source=self.text(values.get("statement")),
                formats=tuple(values.get("result_formats") or ()),
            )  # fmt: skip
            told = read.told[self.codec] = (
                request, tuple(values.get("parameter_formats") or ()),
                len(values.get("parameters") or ()),
            )  # fmt: skip
        schema = self.conversation.bind(*told)
        return 0 if schema is None else self._encoded(schema)

    def _about(self, kind: str, read: Read) -> int:
        """Describe and Close."""
        request = read.told.get(self.codec)
        if request is None:
            values = read.facts
            target = chr(values.get("target") or 0), self.text(values.get("name"))
            request = read.told[self.codec] = Request(kind, target=target)
        self.conversation.ask(request)
        return 0

    def _describe(self, read: Read) -> int:
        return self._about("describe", read)

    def _close(self, read: Read) -> int:
        return self._about("close", read)

    def _execute(self, read: Read) -> int:
        request = read.told.get(self.codec)
        if request is None:
            portal = self.text(read.facts.get("portal"))
            request = read.told[self.codec] = Request("execute", target=("P", portal))
        self.conversation.ask(request)
        return 0

    def _row_description(self, read: Read) -> int:
        schema = read.told.get(self.codec)
        if schema is None:
            columns = tuple(
                Column(
                    self.text(c.get("name")),
                    c.get("type_oid") or 0,
                    -1 if c.get("type_modifier") is None else c["type_modifier"],
                    format=c.get("format") or 0,
                )
                for c in read.facts.get("columns") or []
            )
            schema = read.told[self.codec] = Schema("row", columns, encoding=self.codec)
        self.conversation.described(schema)
        return self._encoded(schema)

    def _parameter_description(self, read: Read) -> int:
        schema = read.told.get(self.codec)
        if schema is None:
            columns = tuple(
                Column(f"${i}", p.get("type_oid") or 0)
                for i, p in enumerate(read.facts.get("parameters") or [], start=1)
            )
            schema = read.told[self.codec] = Schema("parameters", columns, encoding=self.codec)
        self.conversation.parameters(schema)
        return 0

    def _no_data(self, read: Read) -> int:
        self.conversation.described(None)
        return 0

    def _data_row(self, read: Read) -> int:
        return self.row_schema()

    def row_schema(self) -> int:
        """The number of the description of a DataRow that comes now, 0 where there is none."""
        schema = self.conversation.row()
        return 0 if schema is None else self._encoded(schema)

    def _command_complete(self, read: Read) -> int:
        self.copies.clear()
        head = self.conversation.head()
        if head is not None:
            encoding = encoding_set(self.conversation.text(), head.completed)
            if encoding:  # ParameterStatus may come after rows of it
                self._encoding(encoding)
                self.encoding_early = True
            if head.kind == "query":
                head.completed += 1
        self.conversation.done("execute")
        return 0

    def _error(self, read: Read) -> int:
        self.copies.failed()
        if self.started:  # else the client's answer may still come
            self.auth = ""
        self.conversation.failed()
        return 0

    def _ready(self, read: Read) -> int:
        self.copies.clear()
        self.auth = ""
        self.auth_due = False
        self.in_startup = False
        self.started = True
        if self.encoding_early:  # by now the server has told what is in force
            self.encoding_early = False
            if "client_encoding" in self.parameters:
                self._encoding(self.parameters["client_encoding"])
        self.conversation.ready()
        return 0


def _asked(kind: str) -> Step:
    request = Request(kind)

    def step(session: Queries, read: Read) -> int:
        session.conversation.ask(request)
        return 0

    return step


def _done_with(kind: str) -> Step:
    def step(session: Queries, read: Read) -> int:
        session.conversation.done(kind)
        return 0

    return step


def _nothing(session: Queries, read: Read) -> int:
    return 0


STEPS: dict[str, Step] = {
    "Query": Queries._query,
    "Parse": Queries._parse,
    "Bind": Queries._bind,
    "Describe": Queries._describe,
    "Close": Queries._close,
    "Execute": Queries._execute,
    "Sync": _asked("sync"),
    "Flush": _nothing,
    "FunctionCall": _asked("function"),
    "ParseComplete": _done_with("parse"),
    "BindComplete": _done_with("bind"),
    "CloseComplete": _done_with("close"),
    "RowDescription": Queries._row_description,
    "ParameterDescription": Queries._parameter_description,
    "NoData": Queries._no_data,
    "DataRow": Queries._data_row,
    "CommandComplete": Queries._command_complete,
    "EmptyQueryResponse": _done_with("execute"),
    "PortalSuspended": _done_with("execute"),
    "FunctionCallResponse": _nothing,
    "ErrorResponse": Queries._error,
    "NoticeResponse": _nothing,
    "NotificationResponse": _nothing,
    "ReadyForQuery": Queries._ready,
}
"""By the message's name."""

_NO_QUERY = frozenset(("", *KINDS)) - {"query"}


def _by_tag(layer: str) -> dict[int, Way]:
    made: dict[int, Way] = {}
    for message in catalogue.in_layer(layer):
        step = STEPS.get(message.name)
        if step is not None:
            tag = ord(message.tag)
            after = ANSWERS.get(tag) if layer == "backend" else None
            made[tag] = frozenset(after) if after else None, step
    if layer == "frontend":  # clients wait for the answer before they ask again
        made[QUERY] = _NO_QUERY, made[QUERY][1]
    return made


_BY_TAG = {layer: _by_tag(layer) for layer in ("frontend", "backend")}
