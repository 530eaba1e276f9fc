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
from dataclasses import replace

from . import catalogue
from .annotate import annotate
from .catalogue.sasl import MECHANISMS
from .catalogue.startup import GSS_ANSWER, TLS_ANSWER
from .command_check import check
from .commands import Command, parse_command
from .facts import Facts
from .known import Assumptions, Context
from .queries import COMMAND, STEPS
from .reads import Read, reads_of
from .spec import LAST_RELEASE, Dialect
from .streaming import Streaming
from .waiting import ASKING, BOTH_WAYS, PASSWORD

__all__ = ["Assumptions", "Context", "Session"]


class Session(Streaming):
    """The state of one connection. `feed` never raises on what a capture holds."""

    def feed(self, direction: str, data: bytes) -> Context:
        """Take one whole message (type byte included) and say what it is; `data` may be cut short."""
        dialect = self.dialect(direction)
        reads = self._reads.get(direction)
        if reads is None or reads.dialect is not dialect:
            layer = "frontend" if direction == "F" else "backend"
            reads = self._reads[direction] = reads_of(layer, dialect)
        read = reads.read(data)
        context = Context(read.path, dialect, None, assumed=self.assumed(), read=read)
        message = read.message
        if message is None:
            return context
        if message.name == "CopyData":
            self._copy_data(direction, data, context)
            return context
        if message.name in ("CopyDone", "CopyFail"):
            if self.copy[direction] not in BOTH_WAYS:
                self.copy[direction] = ""
        elif direction == "F" and message.name not in _IN_COPY:
            self.copies.over()
        step = STEPS.get(message.name)
        if step is not None:
            schema = step(self, read)
            if schema == COMMAND:
                self._replication_command(read, context)
            else:
                context.schema = schema
        elif (handler := _HANDLERS.get(message.name)) is not None:
            handler(self, read.facts, context)
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
        self.conversation.lost(direction)
        if direction == "B":
            self.replication.uncertain = True
            self.replication.xid = self.replication.stream_xid = 0

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
        what = {TLS_ANSWER: "TLS", GSS_ANSWER: "GSSAPI"}.get(byte)
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

    def _replication_command(self, read: Read, context: Context) -> None:
        text = self.text(read.facts.get("query"))
        command = parse_command(text)
        if command is None:
            return
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

    def _copy_in(self, values: Facts, context: Context) -> None:
        self._begin_copy("F", values)

    def _copy_out(self, values: Facts, context: Context) -> None:
        self._begin_copy("B", values)


Handler = Callable[[Session, Facts, Context], None]

_HANDLERS: dict[str, Handler] = {
    "StartupMessage": Session._startup,
    "CancelRequest": Session._cancel,
    "NegotiateProtocolVersion": Session._negotiated,
    "ParameterStatus": Session._parameter_status,
    "BackendKeyData": Session._backend_key,
    "SASLInitialResponse": Session._sasl_initial,
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
