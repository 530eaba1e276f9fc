"""The container `PostgreSQL`: the messages of one direction, one after the other.

It frames by the length that each message tells and keeps what is not a whole message as Raw. It knows
no more of the connection than its Dialect and what its own messages say of streams; `PostgresSession`
knows the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scapy.fields import PacketListField
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from dissector import catalogue
from dissector.layers.making import make
from dissector.layers.packets import ASSUMED, CLASSES
from dissector.spec import Dialect, Field, Message

PORT = 5432
"""The port that IANA registers for PostgreSQL."""


def _unknown() -> Any:
    """The class for a message whose type byte no release declares: type, length, and the rest Raw."""
    some = catalogue.by_name("CopyDone")
    tag, length = (part for part in some.parts[:2] if isinstance(part, Field))
    tag = replace(tag, constant=None, meaning="A type byte that no release declares.")
    length = replace(length, constant=None)
    message = Message(
        "Unknown message",
        "backend",
        "",
        "F & B",
        (tag, length),
        "A message of unknown type.",
        some.page,
    )
    return make(message.name, message.parts, message)


UnknownMessage = _unknown()


def message_at(data: bytes, start: int, sender: str, dialect: Dialect) -> tuple[Any, int] | None:
    """The class of the message that begins at ``data[start]`` and where it ends.

    sender: "F" or "B". None when the message is not whole, or its length cannot be one.
    """
    layer = "frontend" if sender == "F" else "backend"
    message = catalogue.lookup_bytes(layer, data, start, dialect)
    cls = UnknownMessage if message is None else CLASSES[message.name]
    size = cls.size_of(data, start)
    return None if size is None or start + size > len(data) else (cls, start + size)


class _Messages(PacketListField):
    """The list of messages: each its own class, under the Dialect that the ones before it leave."""

    __slots__: list[str] = []

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        found: list[Packet] = []
        sender = pkt.from_whom()
        dialect = pkt.dialect
        if sender == "F":
            dialect = replace(dialect, startup=s[:1] == b"\0")
        start = 0
        while start < len(s) and (framed := message_at(s, start, sender, dialect)):
            cls, end = framed
            one = cls(s[start:end], dialect=dialect, _parent=pkt)
            one.sender = sender
            found.append(one)
            dialect = replace(after(dialect, one), startup=False)
            start = end
        return s[start:], found


def after(dialect: Dialect, one: Packet) -> Dialect:
    """`dialect` for the message that follows `one`: Stream Start and Stream Stop change it."""
    if one.haslayer(CLASSES["Stream Start"]):
        return replace(dialect, in_stream=True)
    if one.haslayer(CLASSES["Stream Stop"]):
        return replace(dialect, in_stream=False)
    return dialect


class PostgreSQL(Packet):
    """Messages of one direction. sender: "F" or "B"; without it the TCP ports below tell.

    PostgreSQL(data, sender="B", dialect=Dialect(...)).messages is the list of message packets; bytes
    that are not a whole message are the payload, Raw.
    """

    name = "PostgreSQL"
    __slots__ = ["_dialect", "sender"]
    fields_desc = [_Messages("messages", [])]  # noqa: RUF012
    ports: set[int] = {PORT}  # noqa: RUF012

    def __init__(
        self,
        _pkt: Any = b"",
        *args: Any,
        sender: str | None = None,
        dialect: Dialect | None = None,
        **fields: Any,
    ) -> None:
        self._dialect = dialect
        self.sender = sender
        super().__init__(_pkt, *args, **fields)

    @property
    def dialect(self) -> Dialect:
        """The Dialect of the first message."""
        return self._dialect or ASSUMED

    def from_whom(self) -> str:
        """Who sent it, "F" or "B": as given, or by the port that is the server's, or else the lower port."""
        if self.sender:
            return self.sender
        below = self.underlayer
        if not isinstance(below, TCP):
            return "B"
        if below.dport in self.ports or below.sport in self.ports:
            return "F" if below.dport in self.ports else "B"
        return "F" if below.dport < below.sport else "B"

    def copy(self) -> Any:
        clone = super().copy()
        clone._dialect, clone.sender = self._dialect, self.sender
        return clone

    def clone_with(self, payload: Any = None, **fields: Any) -> Any:
        clone = super().clone_with(payload, **fields)
        clone._dialect, clone.sender = self._dialect, self.sender
        return clone


bind_bottom_up(TCP, PostgreSQL, dport=PORT)
bind_bottom_up(TCP, PostgreSQL, sport=PORT)
bind_top_down(TCP, PostgreSQL, dport=PORT)
