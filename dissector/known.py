"""What a Session knows: the facts of one connection, and the context that it gives a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .commands import Command
from .conversation import Conversation
from .copies import Copies
from .encodings import codec
from .findings import Finding
from .node import Node, findings
from .pgoutput_state import PgoutputState
from .reads import Read, Reads
from .schemas import Schema, Tables
from .session_header import header_of
from .spec import Dialect
from .text import decode_text

if TYPE_CHECKING:
    from .queries import Steps

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
    xid: 0 for none. schema: a number in Tables.schemas, 0 for none. subxid: that a Stream Abort rolls
    back. found: what only the state can tell (what is wrong inside the message is the annotator's to
    say). read: how it was read at first; own: the tree where it is another one.
    """

    path: tuple[str, ...]
    dialect: Dialect
    own: Node | None
    lsn: int = NO_LSN
    xid: int = 0
    schema: int = 0
    subxid: int | None = None
    assumed: bool = False
    found: list[Finding] = field(default_factory=list)
    read: Read | None = None

    @property
    def tree(self) -> Node:
        """The message, taken apart."""
        if self.own is None:
            assert self.read is not None
            return self.read.tree
        return self.own

    def worst(self) -> int:
        """The worst severity of what is wrong inside the message, 0 for nothing."""
        if self.own is None and self.read is not None:
            return self.read.severity
        return max((f.severity for f in findings(self.tree)), default=0)


NUMBERS = 256
"""Schemas of a connection whose numbers are kept at hand, and texts."""

SHORT = 256
"""Bytes of a text that is kept."""


class Known:
    """The state of one connection, as far as its messages have told it."""

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
        self._made: dict[tuple[str, str, bool], Dialect] = {}
        self._made_from = self.base
        self._numbers: dict[int, tuple[Schema, str, int]] = {}
        self._reads: dict[str, Reads] = {}
        self._steps: tuple[Steps, Steps] | None = None
        self._steps_of = self.base
        self._texts: dict[str, dict[bytes, str]] = {}

    def dialect(self, direction: str) -> Dialect:
        """The Dialect for the next message of `direction`; the same object as long as it is the same."""
        copy = self.copy[direction]
        if direction == "B" and copy == "pgoutput":
            return self.replication.dialect(self.base)
        if self._made_from is not self.base:
            self._made_from = self.base
            self._made.clear()
        key = (copy, self.auth, self.in_startup) if direction == "F" else (copy, "", False)
        made = self._made.get(key)
        if made is None:
            _, auth, startup = key
            made = replace(self.base, auth=auth, startup=startup, copy=copy)
            dialects = self.tables.dialects  # one object for all connections compares quickly
            made = self._made[key] = dialects[dialects.number(made)]
        return made

    def assumed(self) -> bool:
        """Whether the layout of messages rests on an assumption (the start is not in the capture)."""
        return self.began_in_middle and (not self.release_known or self.copy_assumed)

    def text(self, value: Any) -> str:
        """A captured string in the connection's encoding."""
        if isinstance(value, bytes):
            texts = self._texts.get(self.codec)
            if texts is None:
                texts = self._texts[self.codec] = {}
            found = texts.get(value)
            if found is None:
                found = decode_text(value, self.codec)
                if len(value) <= SHORT:
                    if len(texts) >= NUMBERS:
                        texts.clear()
                    texts[value] = found
            return found
        if isinstance(value, bytearray | memoryview):
            return decode_text(bytes(value), self.codec)
        return "" if value is None else str(value)

    def _number(self, schema: Schema) -> int:
        return self.tables.schemas.number(schema)

    def _encoded(self, schema: Schema) -> int:
        """The number of `schema` with the connection's encoding."""
        found = self._numbers.get(id(schema))
        if found is not None and found[0] is schema and found[1] == self.codec:
            return found[2]
        number = self._number(replace(schema, encoding=self.codec))
        if len(self._numbers) >= NUMBERS:
            self._numbers.clear()
        self._numbers[id(schema)] = schema, self.codec, number
        return number

    def _encoding(self, name: str) -> None:
        self.codec = codec(name)
        self.base = replace(self.base, encoding=self.codec)

    def is_walsender(self) -> bool:
        """Replication commands are understood: asked for at the start, or the start was not seen."""
        asked = self.startup.get("replication", "").lower()
        return asked not in ("", "false", "off", "no", "0") or not self.startup

    def _command(self) -> Command | None:
        head = self.conversation.head()
        return head.command if head is not None else None

    def header(self) -> dict[str, Any]:
        """The facts of the session by name, for people; only those that are known."""
        return header_of(self)
