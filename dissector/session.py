"""What earlier messages of a connection teach about the next: one Session a TCP connection.

A message means nothing by its first letter alone: 'p' is a password or a SASL answer by the state of
authentication, CopyData is a row, WAL, a replication message or a piece of a backup by the command
that began the copy, and an Insert carries an xid only inside a stream. The Session is fed whole
messages of both directions in byte-stream order, and says for each the `Context` that it was sent in.

Sources: the manual's "Message Flow", "Streaming Replication Protocol", "Logical Streaming Replication
Protocol", and what servers were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from . import catalogue
from .annotate import annotate
from .catalogue.sasl import MECHANISMS
from .command_check import check
from .commands import Command, parse_command
from .conversation import Conversation
from .copies import Copies, guess_copy
from .encodings import codec
from .facts import Facts, of_node
from .findings import Finding, Severity, finding
from .node import Node, findings, messages
from .pgoutput_state import PgoutputState
from .schemas import Column, Schema, Tables
from .session_header import header_of
from .spec import LAST_RELEASE, Dialect, Message
from .statements import copy_statement, encoding_set
from .text import decode_text
from .waiting import ASKING, BOTH_WAYS, PASSWORD
from .wal import check as check_wal

NO_LSN = (1 << 64) - 1
"""In an index row: the message has no LSN. No WAL position can be this high."""

REPLICATION = ("pgoutput", "plugin", "wal", "backup")
"""What CopyData holds where it holds messages of the replication layer."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the user said about connections whose start is not in the capture; 0 or "" is "not said"."""

    release: int = 0
    proto_version: int = 0
    streaming: str = ""
    ports: tuple[int, ...] = ()

    def dialect(self) -> Dialect:
        return Dialect(
            release=self.release or 18,
            proto_version=self.proto_version,
            parallel=self.streaming == "parallel",
        )


@dataclass(slots=True)
class Context:
    """What the Session says of one message.

    path: names by the release in force, ("CopyData", "XLogData", "Insert"). lsn: NO_LSN for none.
    xid: 0 for none. schema: a number in Tables.schemas, 0 for none. found: what only the state can
    tell (what is wrong inside the message is the annotator's to say).
    """

    path: tuple[str, ...]
    dialect: Dialect
    tree: Node
    lsn: int = NO_LSN
    xid: int = 0
    schema: int = 0
    assumed: bool = False
    found: list[Finding] = field(default_factory=list)


class Session:
    """The state of one connection. `feed` never raises on what a capture holds."""

    def __init__(self, tables: Tables, assumptions: Assumptions = Assumptions()) -> None:
        self.tables = tables
        self.assumptions = assumptions
        self.base = assumptions.dialect()
        self.release_known = False
        self.began_in_middle = False
        self.conversation = Conversation()
        self.parameters: dict[str, str] = {}
        self.startup: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        self.auth = ""
        self.auth_due = False
        self.in_startup = True
        self.codec = "utf-8"
        self.encoding_early = False
        self.copies = Copies(tables)
        self.copy = self.copies.mode
        self.copy_assumed = False
        self.gaps = False
        self.started = False
        self.slots: dict[str, str] = {}
        self.replication = PgoutputState(tables)
        self.process_id = 0
        self.cancel_key = b""
        self.cancels: tuple[int, bytes] | None = None
        self.cancel_target: int | None = None
        self.cancelled_by: list[int] = []
        self.asked_encryption = ""
        self.tls: Callable[[], dict[str, str]] | None = None
        self.commands: list[Command] = []

    # -- the dialect in force

    def dialect(self, direction: str) -> Dialect:
        """The Dialect for the next message of `direction`."""
        copy = self.copy[direction]
        if direction == "F":
            return replace(self.base, auth=self.auth, startup=self.in_startup, copy=copy)
        if copy == "pgoutput":
            return replace(self.replication.dialect(self.base), copy=copy)
        return replace(self.base, copy=copy)

    def assumed(self) -> bool:
        """Whether the layout of messages rests on an assumption (the start is not in the capture)."""
        return self.began_in_middle and (not self.release_known or self.copy_assumed)

    # -- one message

    def feed(self, direction: str, data: bytes) -> Context:
        """Take one whole message (type byte included) and say what it is; `data` may be cut short."""
        layer = "frontend" if direction == "F" else "backend"
        dialect = self.dialect(direction)
        tree = annotate(data, layer, dialect)
        message = tree.declaration
        context = Context((tree.name,), dialect, tree, assumed=self.assumed())
        if not isinstance(message, Message):
            return context
        if message.name == "CopyData":
            self._copy_data(direction, data, context)
            return context
        if message.name in ("CopyDone", "CopyFail"):
            if self.copy[direction] not in BOTH_WAYS:
                self.copy[direction] = ""
        elif direction == "F" and message.name not in _IN_COPY:
            self.copies.over()
        handler = _HANDLERS.get(message.name)
        if handler is not None:
            handler(self, {} if message.name in _SILENT else of_node(tree), context)
        if direction == "F" and not dialect.startup:
            self.in_startup = False
            self.auth_due = self.auth_due and message.tag != chr(PASSWORD)
        return context

    def outside(self, direction: str, data: bytes, state: str) -> Context:
        """Bytes that are no message: a TLS record, a GSSAPI packet (`state` as in Dialect.copy), or, with
        state "", the server's one-byte answer to the request for encryption."""
        asked = Dialect(startup=True, auth=self.asked_encryption)
        dialect = Dialect(copy=state) if state else asked
        tree = annotate(data, "frontend" if direction == "F" else "backend", dialect)
        return Context((tree.name,), dialect, tree)

    def _copy_data(self, direction: str, data: bytes, context: Context) -> None:
        if not context.dialect.copy and (self.began_in_middle or self.gaps):
            guess = guess_copy(direction, data)
            if guess:
                self.copy[direction] = guess
                self.copy_assumed = True
                if guess == "pgoutput" and not self.replication.begun:
                    self._assume_pgoutput()
                self._again(direction, data, context)
        if self._misjudged_backup(context):
            self.copies.is_tar()
            self._again(direction, data, context)
        mode = context.dialect.copy
        if mode in REPLICATION:
            self.replication.feed(direction, data, context, self)
            if self._misjudged(direction, context):
                self.copy[direction] = ""
                self._again(direction, data, context)
                return
            if mode == "backup":
                context.schema = self.copies.backup(context.tree)
            elif mode == "wal" and direction == "B":
                self._wal(data, context)
        elif mode:
            context.schema = self.copies.data(direction, data, context.tree)
        elif direction == "B" and not context.assumed:
            where = "here: no COPY is going on"
            context.found.append(finding("unexpected-here", message="CopyData", where=where))

    def _again(self, direction: str, data: bytes, context: Context) -> None:
        """Read a CopyData once more: the state that was assumed for it is another."""
        context.dialect = self.dialect(direction)
        layer = "frontend" if direction == "F" else "backend"
        context.tree = annotate(data, layer, context.dialect)
        context.path = (context.tree.name,)
        context.assumed, context.lsn, context.xid, context.schema = True, NO_LSN, 0, 0

    def _misjudged_backup(self, context: Context) -> bool:
        """Whether a backup's first CopyData is no "new archive": its release was not seen."""
        if context.dialect.copy != "backup" or self.release_known or self.assumptions.release:
            return False
        return self.copies.at_beginning() and _wrong(context)

    def _misjudged(self, direction: str, context: Context) -> bool:
        """Whether CopyData cannot be what was guessed of it: a row, or a piece of an archive."""
        if not self.copy_assumed or context.dialect.copy != "pgoutput":
            return False
        proven = direction == "B" and not self.replication.uncertain
        return not proven and _wrong(context)

    def _wal(self, data: bytes, context: Context) -> None:
        inner = messages(context.tree)[-1]
        lsn, node = inner.child("start_lsn"), inner.child("data")
        if lsn is not None and node is not None and isinstance(lsn.value, int):
            context.found += check_wal(lsn.value, data, node.start, node.end)

    def _assume_pgoutput(self) -> None:
        """Take the options that the user gave, or those that read most: the newest protocol."""
        self.replication.begin(
            self.assumptions.proto_version or 4, self.assumptions.streaming == "parallel", False
        )
        self.replication.uncertain = True

    def lane(self, direction: str) -> str:
        """What the next messages of `direction` are, where they cannot change the state: "pgoutput",
        "copy" (CopyData that is not looked into), "rows" (DataRow); "" where each has to be fed."""
        copy = self.copy[direction]
        if copy == "pgoutput":
            return "" if self.replication.uncertain else "pgoutput"
        if copy:
            return self.copies.lane(direction)[0]
        return "rows" if direction == "B" and not self.in_startup else ""

    def lost(self, direction: str) -> None:
        """Bytes of `direction` are missing: what they would have taught is not known any more."""
        self.gaps = True
        self.conversation.lost()
        if direction == "B":
            self.replication.uncertain = True
            self.replication.xid = self.replication.stream_xid = 0

    # -- handlers, by message name

    def _startup(self, values: Facts, context: Context) -> None:
        self.in_startup = False
        self.base = replace(self.base, protocol=int(values.get("protocol_version") or 196608))
        pairs = values.get("parameters") or []
        for pair in pairs:
            name, value = self.text(pair.get("name")), self.text(pair.get("value"))
            if name:
                self.startup[name] = value
        if "client_encoding" in self.startup:
            self._encoding(self.startup["client_encoding"])

    def _negotiated(self, values: Facts, context: Context) -> None:
        version = int(values.get("protocol_version") or 0)
        if version < 1 << 16:  # documented as the minor version alone
            version |= 3 << 16
        self.base = replace(self.base, protocol=min(self.base.protocol, version))

    def encryption_answer(self, byte: str) -> None:
        """The server's one byte to SSLRequest or GSSENCRequest."""
        what = {"S": "TLS", "G": "GSSAPI"}.get(byte)
        refused = f"{self.asked_encryption} refused"
        self.facts["encryption"] = what or refused

    def _cancel(self, values: Facts, context: Context) -> None:
        key = values.get("secret_key", b"")
        if isinstance(key, int):
            key = key.to_bytes(4, "big")
        self.cancels = (int(values.get("process_id") or 0), bytes(key or b""))

    def _parameter_status(self, values: Facts, context: Context) -> None:
        name, value = self.text(values.get("name")), self.text(values.get("value"))
        self.parameters[name] = value
        if name == "client_encoding":
            self._encoding(value)
        elif name == "server_version":
            major = value.split(".")[0]
            digits = "".join(c for c in major if c.isdigit())[: len(major)]
            if digits and major[:1].isdigit():
                leading = int(digits[:4])
                self.release_known = True
                self.base = replace(self.base, release=max(10, min(LAST_RELEASE, leading)))

    def _encoding(self, name: str) -> None:
        self.codec = codec(name)
        self.base = replace(self.base, encoding=self.codec)

    def _backend_key(self, values: Facts, context: Context) -> None:
        key = values.get("secret_key", b"")
        if isinstance(key, int):
            key = key.to_bytes(4, "big")
        self.process_id = int(values.get("process_id") or 0)
        self.cancel_key = bytes(key or b"")

    def _authentication(self, values: Facts, context: Context) -> None:
        name = context.path[0]
        self.auth = "" if name == "AuthenticationOk" else name
        self.auth_due = name in ASKING
        if name not in (
            "AuthenticationOk",
            "AuthenticationSASLContinue",
            "AuthenticationSASLFinal",
        ):
            self.facts["authentication"] = name.removeprefix("Authentication")
        elif name == "AuthenticationOk":
            self.facts.setdefault("authentication", "none asked")

    def _sasl_initial(self, values: Facts, context: Context) -> None:
        mechanism = self.text(values.get("mechanism"))
        # another name can be a password that came at the wrong time
        self.facts["authentication"] = mechanism if mechanism in MECHANISMS else "unknown mechanism"
        self.auth = "AuthenticationSASLContinue"

    def _query(self, values: Facts, context: Context) -> None:
        text = self.text(values.get("query"))
        command = parse_command(text) if self.is_walsender() else None
        if command is not None:
            self.commands.append(command)
            if command.name == "CREATE_REPLICATION_SLOT" and command.slot:
                self.slots[command.slot] = command.plugin
            if self.release_known or self.assumptions.release:
                context.found += check(command, self.base.release, self._for_pgoutput(command))
        self.conversation.query(text, command)

    def _for_pgoutput(self, command: Command) -> bool:
        """Whether the options of START_REPLICATION are pgoutput's: the slot tells, else what they are."""
        plugin = self.slots.get(command.slot, "")
        if plugin:
            return plugin == "pgoutput"
        return bool(command.option("proto_version") or command.option("publication_names"))

    def is_walsender(self) -> bool:
        """Replication commands are understood: asked for at the start, or the start was not seen."""
        asked = self.startup.get("replication", "").lower()
        return asked not in ("", "false", "off", "no", "0") or not self.startup

    def _parse(self, values: Facts, context: Context) -> None:
        oids = tuple(int(x.get("type_oid") or 0) for x in values.get("parameter_types") or [])
        self.conversation.parse(
            self.text(values.get("statement")), self.text(values.get("query")), oids
        )

    def _bind(self, values: Facts, context: Context) -> None:
        schema = self.conversation.bind(
            self.text(values.get("portal")), self.text(values.get("statement")),
            tuple(values.get("parameter_formats") or ()), tuple(values.get("result_formats") or ()),
            len(values.get("parameters") or ()),
        )  # fmt: skip
        if schema is not None:
            context.schema = self._number(replace(schema, encoding=self.codec))

    def _describe(self, values: Facts, context: Context) -> None:
        self.conversation.describe(chr(values.get("target") or 0), self.text(values.get("name")))

    def _close(self, values: Facts, context: Context) -> None:
        self.conversation.close(chr(values.get("target") or 0), self.text(values.get("name")))

    def _execute(self, values: Facts, context: Context) -> None:
        self.conversation.execute(self.text(values.get("portal")))

    def _sync(self, values: Facts, context: Context) -> None:
        self.conversation.other("sync")

    def _function_call(self, values: Facts, context: Context) -> None:
        self.conversation.other("function")

    def _row_description(self, values: Facts, context: Context) -> None:
        columns = tuple(
            Column(
                self.text(c.get("name")),
                c.get("type_oid") or 0,
                -1 if c.get("type_modifier") is None else c["type_modifier"],
                format=c.get("format") or 0,
            )
            for c in values.get("columns") or []
        )
        schema = Schema("row", columns, encoding=self.codec)
        context.schema = self._number(schema)
        self.conversation.described(schema)

    def _parameter_description(self, values: Facts, context: Context) -> None:
        columns = tuple(
            Column(f"${i}", p.get("type_oid") or 0)
            for i, p in enumerate(values.get("parameters") or [], start=1)
        )
        self.conversation.parameters(Schema("parameters", columns, encoding=self.codec))

    def _no_data(self, values: Facts, context: Context) -> None:
        self.conversation.described(None)

    def _data_row(self, values: Facts, context: Context) -> None:
        context.schema = self.row_schema()

    def row_schema(self) -> int:
        """The number of the description of a DataRow that comes now, 0 where there is none."""
        schema = self.conversation.row()
        return 0 if schema is None else self._number(replace(schema, encoding=self.codec))

    def _command_complete(self, values: Facts, context: Context) -> None:
        self.copies.clear()
        text, head = self.conversation.text(), self.conversation.head()
        if head is not None:
            encoding = encoding_set(text, head.completed)
            if encoding:  # ParameterStatus may come after rows of it
                self._encoding(encoding)
                self.encoding_early = True
            head.completed += 1
        self.conversation.done("execute")

    def _error(self, values: Facts, context: Context) -> None:
        self.copies.failed()
        if self.started:  # else the client's answer may still come
            self.auth = ""
        self.conversation.failed()

    def _ready(self, values: Facts, context: Context) -> None:
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

    # -- COPY

    def _copy_in(self, values: Facts, context: Context) -> None:
        self._begin_copy("F", values)

    def _copy_out(self, values: Facts, context: Context) -> None:
        self._begin_copy("B", values)

    def _begin_copy(self, direction: str, values: Facts) -> None:
        binary, old = bool(values.get("format")), self.base.release < 15
        head = self.conversation.head()
        sql = copy_statement(
            self.conversation.text(), head.completed if head is not None else 0, direction
        )
        self.copies.begin(direction, self._command(), sql, binary, old)

    def _copy_both(self, values: Facts, context: Context) -> None:
        command = self._command()
        if command is None or command.name != "START_REPLICATION":
            self.copy_assumed = True
            self.copies.clear()
            self.began_in_middle = True
            return
        self.copy_assumed = False
        what = self._start_replication(command)
        self.copy["F"] = self.copy["B"] = what

    def _start_replication(self, command: Command) -> str:
        """Begin a replication stream; returns what its CopyData holds."""
        self.facts["slot"] = command.slot
        self.facts["start_lsn"] = command.lsn
        self.facts.pop("options", None)
        if not command.logical:
            self.facts["plugin"] = ""
            return "wal"
        plugin = self.slots.get(command.slot, "")
        asked = command.option("proto_version")
        if not asked and not command.option("publication_names") and plugin != "pgoutput":
            self.facts["plugin"] = plugin or "not pgoutput (no proto_version asked for)"
            return "plugin"
        self.facts["plugin"] = "pgoutput"
        self.facts["options"] = {o.name: o.value for o in command.options}
        streaming = command.option("streaming", "off").lower()
        self.replication.begin(
            proto_version=int(asked) if asked.isdigit() and len(asked) < 6 else 1,
            parallel=streaming == "parallel",
            binary=command.option("binary", "off").lower() in ("on", "true", "yes", "1", "t"),
        )
        return "pgoutput"

    def _command(self) -> Command | None:
        head = self.conversation.head()
        return head.command if head is not None else None

    def header(self) -> dict[str, Any]:
        """The facts of the session by name, for people; only those that are known."""
        return header_of(self)

    # -- small things

    def text(self, value: Any) -> str:
        """A captured string in the connection's encoding."""
        if isinstance(value, bytes | bytearray | memoryview):
            return decode_text(bytes(value), self.codec)
        return "" if value is None else str(value)

    def _number(self, schema: Schema) -> int:
        return self.tables.schemas.number(schema)


def _wrong(context: Context) -> bool:
    return any(f.severity >= Severity.ERROR for f in findings(context.tree))


def _request(kind: str) -> Handler:
    return lambda session, values, context: session.conversation.other(kind)


def _done_with(*kinds: str) -> Handler:
    return lambda session, values, context: session.conversation.done(*kinds)


Handler = Callable[[Session, Facts, Context], None]

_HANDLERS: dict[str, Handler] = {
    "StartupMessage": Session._startup,
    "CancelRequest": Session._cancel,
    "NegotiateProtocolVersion": Session._negotiated,
    "ParameterStatus": Session._parameter_status,
    "BackendKeyData": Session._backend_key,
    "SASLInitialResponse": Session._sasl_initial,
    "Query": Session._query,
    "Parse": Session._parse,
    "Bind": Session._bind,
    "Describe": Session._describe,
    "Close": Session._close,
    "Execute": Session._execute,
    "Sync": _request("sync"),
    "FunctionCall": _request("function"),
    "ParseComplete": _done_with("parse"),
    "BindComplete": _done_with("bind"),
    "CloseComplete": _done_with("close"),
    "RowDescription": Session._row_description,
    "ParameterDescription": Session._parameter_description,
    "NoData": Session._no_data,
    "DataRow": Session._data_row,
    "CommandComplete": Session._command_complete,
    "EmptyQueryResponse": _done_with("execute"),
    "PortalSuspended": _done_with("execute"),
    "ErrorResponse": Session._error,
    "ReadyForQuery": Session._ready,
    "CopyInResponse": Session._copy_in,
    "CopyOutResponse": Session._copy_out,
    "CopyBothResponse": Session._copy_both,
}
_HANDLERS |= {
    message.name: Session._authentication
    for message in catalogue.MESSAGES
    if message.layer == "backend" and message.name.startswith("Authentication")
}


_IN_COPY = ("CopyData", "CopyDone", "CopyFail", "Flush", "Sync", "Terminate")
"""What a client that has not seen an error yet sends while it copies."""

_SILENT = frozenset(
    ("DataRow", "ReadyForQuery", "CommandComplete", "ParseComplete", "BindComplete", "CloseComplete",
     "NoData", "EmptyQueryResponse", "PortalSuspended", "ErrorResponse", "Sync", "FunctionCall")
)  # fmt: skip
"""Messages that change the state by coming, whatever they hold: no need to read them."""
