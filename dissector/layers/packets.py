"""scapy Packet classes made from the catalogue: one class for each message, part and repeated group.

The bytes of a packet are read by its declaration and its Dialect. A packet that has none of its own
takes the Dialect of what it stands in, and at last `ASSUMED`. Reading never raises: where the bytes do
not go on as declared the reading stops, the packet's fields end there, and the rest is Raw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from scapy.packet import Packet, Raw

from dissector import catalogue
from dissector.findings import Finding
from dissector.layers.fields import (
    NumberField,
    Unparsed,
)
from dissector.plan import inner_layer
from dissector.spec import Dialect, Message

ASSUMED = Dialect(copy="pgoutput")
"""For a packet without a Dialect: release 18, COPY BOTH of pgoutput, outside a stream."""

CLASSES: dict[str, Any] = {}
"""Message name -> class."""


class CataloguePacket(Packet):
    """What all the classes share. dialect: keyword of the constructor, or set later.

    stopped: how many fields were read before the bytes went wrong; None when all were.
    frames, sender, context: of a packet from PostgresSession: the numbers of the frames that hold it
    (from 1), "F" or "B", and the session's Context. findings: what the connection's state showed to be
    wrong with it, such as missing bytes.
    """

    __slots__ = [
        "_dialect",
        "_tail",
        "broken",
        "context",
        "findings",
        "frames",
        "sender",
        "stopped",
    ]
    stopped: int | None
    frames: tuple[int, ...]
    findings: tuple[Finding, ...]
    sender: str | None

    declared: Message | None = None
    choices: ClassVar[dict[str, list[tuple[str, str]]]] = {}
    needs: ClassVar[dict[str, list[tuple[str, str]]]] = {}
    required: frozenset[str] = frozenset()
    optional: ClassVar[dict[str, str]] = {}
    length_at: int | None = None
    layered = False

    def __init__(self, _pkt: Any = b"", *args: Any, dialect: Dialect | None = None, **fields: Any):
        self._dialect = dialect
        self._tail = b""
        self.broken = False
        self.stopped = None
        self.findings = ()
        self.frames = ()
        self.sender = None
        self.context = None
        super().__init__(_pkt, *args, **fields)

    # -- state that scapy's own copying does not know

    @property
    def dialect(self) -> Dialect:
        """The Dialect in force: the packet's own, or that of what it stands in."""
        pkt: Any = self
        while pkt is not None:
            own = getattr(pkt, "_dialect", None) if isinstance(pkt, CataloguePacket) else None
            if own is not None:
                return own
            pkt = pkt.parent or pkt.underlayer
        return ASSUMED

    @dialect.setter
    def dialect(self, dialect: Dialect | None) -> None:
        self._dialect = dialect

    def _same_state(self, clone: Any) -> Any:
        for name in CataloguePacket.__slots__:
            setattr(clone, name, getattr(self, name))
        return clone

    def copy(self) -> Any:
        return self._same_state(super().copy())

    def clone_with(self, payload: Any = None, **fields: Any) -> Any:
        return self._same_state(super().clone_with(payload, **fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _unpickled,
            (type(self), self.build(), self._dialect, self.frames, self.sender, self.time),
        )

    def __getattr__(self, name: str) -> Any:
        # An outer layer (Ether, TCP) asks its payload for what it does not have: pkt.frames works.
        if name in ("findings", "frames", "sender", "context", "dialect"):
            return object.__getattribute__(self, name)
        return super().__getattr__(name)

    def dialect_to_read(self) -> Dialect:
        """The Dialect under which the bytes of this packet read as what it holds now.

        That is its Dialect and every condition that a field somebody set brings about.
        """
        dialect = self.dialect
        pkt: Any = self
        while isinstance(pkt, CataloguePacket):
            for name, condition in pkt.optional.items():
                if pkt.fields.get(name) is not None:
                    dialect = replace(dialect, **{condition: True})  # type: ignore[arg-type]
            pkt = pkt.payload
        return dialect

    def show2(self, dump: bool = False, indent: int = 3, lvl: str = "", label_lvl: str = "") -> Any:
        """As `show`, after building the packet and reading it again: lengths and counts are filled."""
        again = type(self)(bytes(self), dialect=self.dialect_to_read())
        return again.show(dump, indent, lvl, label_lvl)

    # -- conditions

    def taken(self, choice: str) -> bool:
        """Whether an option of `choice` has been read or set."""
        return any(self.fields.get(name) is not None for name, _ in self.choices[choice])

    def chosen(self, choice: str) -> str:
        """The letter of the option of `choice` that is there; "" for none.

        When a packet is built and no option was set, the first is taken that fits the fields that
        were set, or, where one is required, the first of all.
        """
        options = self.choices[choice]
        for name, letter in options:
            if self.fields.get(name) is not None:
                return letter
        if self.stopped is not None:
            return ""
        for letters, name in self.needs.get(choice, ()):
            if self.fields.get(name) is not None:
                return (letters or options[0][1])[0]
        return options[0][1] if choice in self.required else ""

    # -- building

    def measured(self, fld: NumberField) -> int:
        """The count or the length that `fld` tells, from what it measures."""
        for name in fld.measures:
            other, value = self.getfield_and_val(name)
            if value is not None:
                is_list = other.islist
                return int(other.i2count(self, value) if is_list else other.i2len(self, value))
        return -1 if -1 in fld.decl.values else 0

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        at = self.length_at
        if at is not None and len(pkt) > at and self.getfieldval("length") is None:
            told = self.get_field("length").struct.pack(len(pkt) + len(pay) - at)
            pkt = pkt[:at] + told + pkt[at + len(told) :]
        return pkt + pay

    # -- reading

    @classmethod
    def size_of(cls, data: bytes, start: int) -> int | None:
        """How many bytes from ``data[start]`` on the message has, by its own length field.

        None when the length is not there, or is none: less than what counts itself.
        """
        if cls.length_at is None:
            return None
        begin = start + cls.length_at
        width = cls.length.sz
        if len(data) < begin + width:
            return None
        length = int.from_bytes(data[begin : begin + width], "big", signed=True)
        return cls.length_at + length if length >= width else None

    @classmethod
    def part(cls, data: memoryview, parent: Any) -> tuple[Any, memoryview]:
        """Read one part from the beginning of `data`: the packet and the bytes after it."""
        part = cls(_parent=parent)
        return part, part.read(data)

    def do_dissect(self, s: bytes) -> bytes:
        return bytes(self.read(memoryview(s)))

    def read(self, s: memoryview) -> memoryview:
        """Read the fields from the beginning of `s`; returns what is left of it."""
        for number, fld in enumerate(type(self).fields_desc):
            try:
                rest, value = fld.getfield(self, s)
            except Unparsed:
                self.stopped = number
                break
            if value is not None or not fld.isconditional:
                self.fields[fld.name] = value
            if fld.name == "length" and self.length_at is not None:
                rest = self._bounded(s, rest, value)
            s = rest
            if self.broken:
                self.broken = False
                self.stopped = number + 1
                break
        # scapy's cache of the bytes cannot see a change deep inside; a build comes from the fields.
        self.raw_packet_cache = None  # type: ignore[misc]
        self.explicit = 1  # type: ignore[misc]
        return s

    def _bounded(self, before: memoryview, rest: memoryview, length: int) -> memoryview:
        """What follows the length field and is inside the message; the rest is not the message's."""
        width = len(before) - len(rest)
        if width <= length < len(before):
            self._tail = bytes(before[length:])
            return before[width:length]
        return rest

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return s, self._tail

    def guess_payload_class(self, payload: bytes) -> Any:
        if self.stopped is not None or not self.layered or self.declared is None:
            return Raw
        dialect = self.dialect
        inner = inner_layer(self.declared.layer, dialect)
        message = catalogue.lookup_bytes(inner, payload, 0, dialect) if inner else None
        return Raw if message is None else CLASSES.get(message.name, Raw)


def _unpickled(
    cls: Any, data: bytes, dialect: Dialect | None, frames: Any, sender: Any, time: Any
) -> Any:
    pkt = cls(data, dialect=dialect)
    pkt.frames, pkt.sender, pkt.time = frames, sender, time
    return pkt
