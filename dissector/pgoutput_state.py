"""What a stream of pgoutput messages teaches: stream segments, transactions, relations, types.

One `PgoutputState` serves a connection; each START_REPLICATION begins a stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .annotate import annotate
from .facts import of_node
from .findings import Severity
from .node import findings, messages
from .schemas import Column, Schema, Tables
from .spec import Dialect, Message
from .text import decode_text

if TYPE_CHECKING:
    from .known import Context, Known

NO_RELATION = 0

TEACHING = ("Relation", "Type", "Truncate")
"""Messages that describe relations or refer to several: read one by one even in the fast lane."""


def names_relation(values: dict[str, Any]) -> bool:
    """Whether a Relation goes on as far as its OID: else it describes nothing, least of all OID 0."""
    return values.get("relation_oid") is not None


class PgoutputState:
    """In-stream flag, the transaction that is open, and the relations in force by OID."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.versions: dict[int, int] = {}
        self.relations: dict[int, int] = {}
        self._described: dict[int, Schema] = {}
        self.types: dict[int, str] = {}
        self.named = 0  # how often a type got a name, or another one
        self.begin(1, False, False)
        self.begun = False

    def begin(self, proto_version: int, parallel: bool, binary: bool) -> None:
        """A START_REPLICATION was answered: take the new options.

        Relations stay: up to release 13 a server process does not describe again in a later stream what
        it described before.
        """
        self.begun = True
        self.uncertain = False
        self.proto_version = proto_version
        self.parallel = parallel
        self.binary = binary
        self.in_stream = False
        self.xid = 0
        self.stream_xid = 0
        self._dialects: dict[tuple[Dialect, bool, bool], Dialect] = {}

    def dialect(self, base: Dialect) -> Dialect:
        """`base` with what this stream knows."""
        key = (base, self.in_stream, self.parallel)
        known = self._dialects.get(key)
        if known is None:
            known = self._dialects[key] = replace(
                base,
                copy="pgoutput",
                proto_version=self.proto_version,
                in_stream=self.in_stream,
                parallel=self.parallel,
                binary=self.binary,
            )
        return known

    def learn(self, message: Message, values: dict[str, Any], context: Context, codec: str) -> None:
        """Take one pgoutput message: `values` are its fields; fills xid and schema of `context`."""
        name = message.name
        own = values.get("xid") or 0
        context.subxid = values.get("subxid")
        if name in _OPENS:
            self.xid = own
        if name == "Stream Start":
            self.in_stream = True
            self.stream_xid = own
        elif name == "Stream Stop":
            own = self.stream_xid
            self.in_stream = False
        elif name in TEACHING:
            context.schema = self.describe(message, values, codec)
        elif "relation_oid" in values:
            context.schema = self.relations.get(values["relation_oid"], NO_RELATION)
        if name == "Message" and not (values.get("flags") or 0) & 1:
            context.xid = 0
        else:
            context.xid = own or self.open_xid()
        if name in _CLOSES:
            self.xid = 0

    def open_xid(self) -> int:
        """The transaction that a message without an xid of its own belongs to; 0 for none."""
        return self.stream_xid if self.in_stream else self.xid

    def describe(self, message: Message, values: dict[str, Any], codec: str) -> int:
        """Take a Relation, Type or Truncate; returns the schema number that its row gets."""
        if message.name == "Relation":
            return (
                self.accept(self.described(values, codec))
                if names_relation(values)
                else NO_RELATION
            )
        if message.name == "Type":
            self._type(values, codec)
            return NO_RELATION
        return self._truncated(values)

    def described(self, values: dict[str, Any], codec: str) -> Schema:
        """The Schema that a Relation message tells, without its version."""
        columns = []
        for column in values.get("columns") or ():
            type_oid, modifier = column.get("type_oid") or 0, column.get("type_modifier", -1)
            modifier = -1 if modifier is None else modifier
            columns.append(
                Column(
                    decode_text(column.get("name") or b"", codec),
                    type_oid,
                    modifier,
                    bool((column.get("flags") or 0) & 1),
                )
            )
        identity = values.get("replica_identity") or 0
        return Schema(
            "relation",
            tuple(columns),
            values["relation_oid"],
            decode_text(values.get("namespace") or b"", codec),
            decode_text(values.get("relation_name") or b"", codec),
            chr(identity) if isinstance(identity, int) else str(identity),
            codec,
            types=tuple(
                (c.type_oid, self.types[c.type_oid]) for c in columns if c.type_oid in self.types
            ),
        )

    def accept(self, described: Schema) -> int:
        """`described` is in force from now on: its number, a new one where it differs from before."""
        oid = described.oid
        previous = self.relations.get(oid, 0)
        if previous and self._described.get(oid) == described:
            return previous
        self.versions[oid] = self.versions.get(oid, 0) + 1
        number = self.tables.schemas.number(replace(described, version=self.versions[oid]))
        self.relations[oid], self._described[oid] = number, described
        return number

    def _type(self, values: dict[str, Any], codec: str) -> None:
        namespace = decode_text(values.get("namespace") or b"", codec)
        name = decode_text(values.get("name") or b"", codec)
        oid, told = values.get("type_oid") or 0, f"{namespace}.{name}" if namespace else name
        if self.types.get(oid) != told:
            self.types[oid] = told
            self.named += 1

    def _truncated(self, values: dict[str, Any]) -> int:
        oids = [r.get("relation_oid") for r in values.get("relations") or ()]
        members = tuple(self.relations.get(oid, NO_RELATION) for oid in oids)
        return self.tables.schemas.number(Schema("relations", members=members)) if members else 0

    def feed(self, direction: str, data: bytes, context: Context, session: Known) -> None:
        """A CopyData of a replication stream: fills `context`, whose tree is that of `data`."""
        if self.uncertain and direction == "B":
            self._prove(data, context, session)
        chain = messages(context.tree)
        context.path = tuple(node.name for node in chain)
        if len(chain) < 2:
            return
        outer = of_node(chain[1])
        if outer.get("start_lsn") is not None:
            context.lsn = outer["start_lsn"]
        elif direction == "B" and outer.get("end_lsn") is not None:
            context.lsn = outer["end_lsn"]
        if len(chain) > 2 and isinstance(chain[2].declaration, Message):
            self.learn(chain[2].declaration, outer["data"], context, session.codec)

    def _prove(self, data: bytes, context: Context, session: Known) -> None:
        """The beginning was not seen: take the reading of in-stream and parallel that makes sense."""
        context.assumed = True
        if not any(f.severity >= Severity.ERROR for f in findings(context.tree)):
            chain = messages(context.tree)
            if len(chain) > 2 and chain[2].name in _CERTAIN:
                self.uncertain = False
            return
        before = self.in_stream, self.parallel
        for self.in_stream, self.parallel in _READINGS:
            dialect = session.dialect("B")
            tree = annotate(data, "backend", dialect)
            if not any(f.severity >= Severity.ERROR for f in findings(tree)):
                context.dialect, context.own = dialect, tree
                return
        self.in_stream, self.parallel = before


_OPENS = ("Begin", "Begin Prepare")
_CLOSES = ("Commit", "Prepare")

_CERTAIN = ("Stream Start", "Stream Stop", "Begin", "Begin Prepare", "Commit", "Prepare")
"""Messages after which the in-stream state is known, however the capture began."""

_READINGS = ((True, False), (False, False), (False, True), (True, True))
"""(in-stream, parallel) in the order in which they are tried."""
