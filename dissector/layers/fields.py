"""scapy fields made from the catalogue's declarations: one field class for each rule of a kind.

Values stay raw: integers, `bytes`, packets. A field whose value is None in a packet that is built is
computed: lengths and counts from what they measure. A field that finds fewer bytes than it needs raises
`Unparsed`, which the packet turns into "the rest is Raw"; nothing of it reaches the caller. Bytes that
are read come as a memoryview, so that a long row is not copied once for each of its columns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from scapy.fields import ConditionalField, Field, PacketListField, _PacketFieldSingle
from scapy.packet import Packet
from scapy.volatile import RandBin, RandChoice, RandNum, RandString

from dissector.layers.showing import shown
from dissector.spec import LAST_RELEASE
from dissector.spec import Field as Declared

_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
"""struct's letters by width, for signed integers; the capital letter is the unsigned one."""


@cache
def attribute(name: str) -> str:
    """The scapy name of the catalogue's field `name`: with ``_`` where a Packet has that attribute.

    ``pkt.name`` is the layer's name at a scapy prompt and stays so; the field is ``pkt.name_``.
    """
    return f"{name}_" if hasattr(Packet, name) or name in Packet.__all_slots__ else name


MAX_ELEMENTS = 65_536
"""Elements of one repeat that become packets: all that an Int16 counts; an Int32 counts a gigabyte."""


class Unparsed(Exception):  # noqa: N818
    """The bytes do not go on as declared: this field and all after it stay unparsed."""


class Unterminated(bytes):
    """A string without its zero byte: it ends where the message ends, and is built so again."""


class _Catalogued(Field):
    """What all fields have: the declaration, and text for `show` that is safe on a terminal."""

    __slots__ = ["decl"]

    def __init__(self, decl: Declared, default: Any, fmt: str = "B") -> None:
        self.decl = decl
        super().__init__(attribute(decl.name), default, fmt)

    def i2repr(self, pkt: Any, x: Any) -> str:
        if isinstance(x, list | tuple):
            return repr(list(x))
        if x is None:
            return "None (computed)"
        return shown(self.decl, x, pkt.dialect.release if pkt is not None else LAST_RELEASE)

    def randval(self) -> Any:
        """For scapy's `fuzz`: None leaves the value that the declaration gives."""
        return None


class NumberField(_Catalogued):
    """An integer of fixed width. Default: the constant, else 0; None is computed (see `measures`).

    measures: scapy names of the siblings whose size or count this field tells.
    """

    __slots__ = ["measures"]

    def __init__(self, decl: Declared, measures: tuple[str, ...] = ()) -> None:
        self.measures = measures
        computed = measures or decl.includes_self
        default = None if computed else decl.constant if decl.constant is not None else 0
        code = _CODES[decl.kind.width]
        super().__init__(decl, default, code if decl.kind.signed else code.upper())

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        if len(s) < self.sz:
            raise Unparsed
        return s[self.sz :], self.struct.unpack_from(s)[0]

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        if val is None:
            val = pkt.measured(self) if self.measures else 0
        return super().addfield(pkt, s, val)

    def randval(self) -> Any:
        return None if self.decl.constant is not None else Field.randval(self)


class CharField(_Catalogued):
    """One byte that is shown as a character. The value is `bytes` of length 1."""

    __slots__ = []

    def __init__(self, decl: Declared) -> None:
        letters = [key for key in decl.values if isinstance(key, str)]
        default = decl.constant if decl.constant is not None else (letters or ["\0"])[0]
        super().__init__(decl, default)

    def any2i(self, pkt: Any, x: Any) -> Any:
        if isinstance(x, str):
            x = x.encode("latin-1")
        elif isinstance(x, int):
            x = bytes([x])
        if x is not None and len(x) != 1:
            raise ValueError(f"{self.name} is one byte, not {len(x)}")
        return x

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        if not s or (self.decl.constant is not None and s[:1] != self.default):
            raise Unparsed
        return s[1:], bytes(s[:1])

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + (val or b"\0")

    def randval(self) -> Any:
        letters = [key.encode() for key in self.decl.values if isinstance(key, str)]
        return None if self.decl.constant is not None or not letters else RandChoice(*letters)


class _BytesField(_Catalogued):
    """Common to fields that hold `bytes`; a str is taken as UTF-8."""

    __slots__ = []

    def any2i(self, pkt: Any, x: Any) -> Any:
        return x.encode() if isinstance(x, str) else x

    def i2len(self, pkt: Any, x: Any) -> int:
        return len(x or b"")


class TextField(_BytesField):
    """A String: the value is what stands before the zero byte."""

    __slots__ = []

    def __init__(self, decl: Declared) -> None:
        super().__init__(decl, b"")

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        if not s:
            raise Unparsed
        size = 64
        while True:  # a view has no find; look at twice as much each time
            head = bytes(s[:size])
            end = head.find(0)
            if end >= 0:
                return s[end + 1 :], head[:end]
            if size >= len(s):
                return s[len(s) :], Unterminated(head)
            size *= 2

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        val = self.any2i(pkt, val) or b""
        return s + val if isinstance(val, Unterminated) else s + val + b"\0"

    def randval(self) -> Any:
        return RandString(RandNum(0, 20))


class DataField(_BytesField):
    """Bytes whose length a sibling tells, a fixed number of them, or all to the message's end.

    None stands for NULL where the length may be -1 (`may_be_null`): no bytes, unlike ``b""``.
    """

    __slots__ = ["may_be_null", "size_from", "width"]

    def __init__(self, decl: Declared, size_from: Declared | None) -> None:
        self.size_from = size_from
        self.may_be_null = size_from is not None and -1 in size_from.values
        self.width = decl.kind.width if decl.kind.rule == "fixed" else 0
        default = None if self.may_be_null else bytes(self.width)
        super().__init__(decl, default)

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        size = self.width or len(s)
        if self.size_from is not None:
            size = pkt.fields.get(attribute(self.size_from.name))
            if size is None:
                raise Unparsed
            if self.size_from.includes_self:
                size -= self.size_from.kind.width
        if size == -1 and self.may_be_null:
            return s, None
        if size < 0 or size > len(s):
            raise Unparsed
        return s[size:], bytes(s[:size])

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + (val or b"")

    def i2repr(self, pkt: Any, x: Any) -> str:
        return "NULL" if x is None else super().i2repr(pkt, x)

    def randval(self) -> Any:
        return RandBin(self.width or RandNum(0, 40))


class ArrayField(_Catalogued):
    """Integers of one width, as many as a sibling says: a list of int."""

    __slots__ = ["count_from"]
    islist = 1

    def __init__(self, decl: Declared) -> None:
        self.count_from = decl.count_from
        code = _CODES[decl.kind.width]
        super().__init__(decl, [], code if decl.kind.signed else code.upper())

    def any2i(self, pkt: Any, x: Any) -> Any:
        return x if isinstance(x, list) or x is None else list(x)

    def i2count(self, pkt: Any, x: Any) -> int:
        return len(x or ())

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        count = pkt.fields.get(attribute(self.count_from))
        if count is None or count < 0:
            raise Unparsed
        whole = min(count, len(s) // self.sz)
        values = [self.struct.unpack_from(s, i * self.sz)[0] for i in range(whole)]
        pkt.broken = whole < count
        return s[whole * self.sz :], values

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + b"".join(self.struct.pack(each) for each in val or ())


class PartField(_PacketFieldSingle):
    """A declared part (TupleData) as a packet inside the packet."""

    __slots__ = ["decl"]

    def __init__(self, decl: Declared, cls: Any, optional: bool) -> None:
        self.decl = decl
        super().__init__(attribute(decl.name), None if optional else cls(), cls)

    def any2i(self, pkt: Any, x: Any) -> Any:
        if pkt is not None and hasattr(x, "add_parent"):
            x.add_parent(pkt)
        return x

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        part, rest = self.cls.part(s, pkt)
        if part.stopped == 0:
            raise Unparsed
        pkt.broken = part.stopped is not None
        return rest, part

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + bytes(self.cls() if val is None else val)


class RepeatField(PacketListField):
    """Parts that come again, each a packet: as many as a sibling says, up to a zero byte, or all."""

    __slots__ = ["count", "until_zero"]

    def __init__(self, name: str, cls: Any, count: str, until_zero: bool) -> None:
        self.count = count
        self.until_zero = until_zero
        super().__init__(attribute(name), [], cls)

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        left = pkt.fields.get(attribute(self.count)) if self.count else len(s)
        if left is None or left < 0:
            raise Unparsed
        found: list[Any] = []
        # Counts are not believed: the loop ends with the bytes, and an element takes at least one.
        while left and s and len(found) < MAX_ELEMENTS and not (self.until_zero and s[0] == 0):
            part, rest = self.cls.part(s, pkt)
            if part.stopped != 0:
                found.append(part)
            if part.stopped is not None or len(rest) == len(s):
                pkt.broken = True
                return rest, found
            s = rest
            left -= 1
        pkt.broken = bool(left and self.count) or len(found) >= MAX_ELEMENTS
        return s, found


class OptionField(ConditionalField):
    """One alternative of a Choice: there when its letter comes next, or when it is to be built."""

    __slots__ = ["choice", "last_required"]

    def __init__(self, decl: Declared, choice: str, last_required: bool) -> None:
        self.choice = choice
        self.last_required = last_required
        super().__init__(CharField(decl), lambda pkt: pkt.chosen(choice) == decl.constant)

    def getfield(self, pkt: Any, s: memoryview) -> tuple[memoryview, Any]:
        decl = self.fld.decl
        taken = pkt.taken(self.choice)
        if not taken and s[:1] == self.fld.default:
            if decl.since <= pkt.dialect.release <= decl.until:
                return s[1:], self.fld.default
        elif taken:
            return s, None
        if self.last_required:
            raise Unparsed
        return s, None
