"""How messages of one kind are checked many at once: a Shape made from the declaration.

A message that passes the checks of its Shape is one in which the annotator finds nothing; every other
one is read by itself. Nothing here knows a message: all places come from the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .capture.frames import member
from .findings import CODES
from .spec import Choice, Dialect, Field, Message, Repeat, When

if TYPE_CHECKING:
    from .ahead import Told

Array = NDArray[Any]

MOST_COLUMNS = 4096
"""Columns of a tuple that is walked with others: more than any table has is read by itself."""

ROOM = 8
"""Bytes that must follow a message in the buffer for it to be checked with others."""


class Run:
    """Messages of one direction: `data`, and arrays of their starts and ends in it (int64).

    u1, u2, u4, u8: item i is the big-endian number that begins at byte i of the data. told: what is
    known of each message, None where nobody looked.
    """

    __slots__ = ("_views", "data", "ends", "starts", "told", "u1")

    def __init__(self, data: bytes, starts: Array, ends: Array, told: Told | None = None) -> None:
        self.data = data
        self.told = told
        self.starts = starts
        self.ends = ends
        self.u1 = np.frombuffer(data, np.uint8)
        self._views: dict[int, Array] = {1: self.u1}

    def __len__(self) -> int:
        return len(self.starts)

    def view(self, width: int) -> Array:
        """All numbers of `width` bytes, one at every offset."""
        known = self._views.get(width)
        if known is None:
            count = max(len(self.data) - width + 1, 0)
            known = np.ndarray((count,), f">u{width}", self.data, strides=(1,))
            self._views[width] = known
        return known

    def heads(self, at: Array, size: int) -> Heads:
        """The `size` bytes from each of the offsets `at`, with zeros behind the end of the data."""
        last = len(self.data) - size
        if last < 0:
            return Heads(_padded(self.data, at.tolist(), size), size)
        rows = np.ndarray((last + 1,), f"V{size}", self.data, strides=(1,))
        beyond = np.flatnonzero(at > last)
        if not len(beyond):
            return Heads(rows[at], size)
        table = rows[np.minimum(at, last)]
        table[beyond] = _padded(self.data, at[beyond].tolist(), size)
        return Heads(table, size)


def _padded(data: bytes, at: list[int], size: int) -> Array:
    parts = b"".join([data[i : i + size].ljust(size, b"\0") for i in at])
    return np.frombuffer(parts, f"V{size}")


class Heads:
    """The first bytes of many messages side by side: one copy, from which each field is a column."""

    __slots__ = ("size", "table")

    def __init__(self, table: Array, size: int) -> None:
        self.table = table
        self.size = size

    def field(self, offset: int, width: int) -> Array:
        """The unsigned numbers of `width` bytes at `offset` of each, in the machine's byte order."""
        shape = (len(self.table),)
        cells: Array = np.ndarray(
            shape, f">u{width}", self.table, offset=offset, strides=(self.size,)
        )
        return cells if width == 1 else cells.astype(f"=u{width}")


@dataclass(frozen=True, slots=True)
class Shape:
    """How messages of one kind are checked.

    plain: it can be checked at all. size: bytes of the fixed head (the whole message where nothing
    else is said). exact: (offset, width, value) that must hold. nonzero: (offset, width) of times.
    bits: (offset, mask) of bytes that may only have these bits. listed: (offset, allowed values).
    carries: another layer follows the head. tail: what follows it, "string" or "sized" (Int32
    length and so many bytes). tuples: it ends in tuples; old: letters of the old one, which may be
    missing unless old_required; new: letter of the new one, -1 for none. severity: of what is wrong
    with every such message in this dialect, however well it reads.
    """

    plain: bool
    size: int = 0
    exact: tuple[tuple[int, int, int], ...] = ()
    nonzero: tuple[tuple[int, int], ...] = ()
    bits: tuple[tuple[int, int], ...] = ()
    listed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    carries: bool = False
    tail: tuple[str, ...] = ()
    tuples: bool = False
    old: tuple[int, ...] = ()
    old_required: bool = False
    new: int = -1
    severity: int = 0


_READ = Shape(False)


@dataclass(slots=True)
class _Head:
    """The fixed part while it is being measured."""

    at: int = 0
    exact: list[tuple[int, int, int]] = field(default_factory=list)
    nonzero: list[tuple[int, int]] = field(default_factory=list)
    bits: list[tuple[int, int]] = field(default_factory=list)
    listed: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def add(self, part: Field) -> bool:
        """Take a field of fixed width; False where it cannot be checked at once."""
        width = part.kind.width
        if isinstance(part.constant, int) and not part.includes_self:
            if part.also:
                return False
            self.exact.append((self.at, width, part.constant))
        elif part.flags:
            if width != 1:
                return False
            self.bits.append((self.at, sum(part.flags)))
        elif part.kind.show == "timestamp":
            self.nonzero.append((self.at, width))
        elif part.closed and part.values:
            if width != 1:
                return False
            allowed = tuple(ord(v) if isinstance(v, str) else v for v in part.values)
            self.listed.append((self.at, allowed))
        self.at += width
        return True

    def shape(self) -> Shape:
        return Shape(
            True,
            self.at,
            tuple(self.exact),
            tuple(self.nonzero),
            tuple(self.bits),
            tuple(self.listed),
        )


@cache
def shape_of(message: Message, dialect: Dialect) -> Shape:
    """The Shape of `message` in `dialect`; `plain` is False where the declaration is not simple."""
    if message.since > dialect.release:
        return _READ  # worth a finding every time, and its layout is another release's
    shape = _shape(message, dialect)
    if message.proto > dialect.proto_version > 0:
        shape = replace(shape, severity=int(CODES["newer-than-proto"][0]))
    return shape


def _shape(message: Message, dialect: Dialect) -> Shape:
    head = _Head()
    parts = _resolved(message, dialect)
    for i, part in enumerate(parts):
        if isinstance(part, Choice) or (isinstance(part, Field) and part.kind.rule == "part"):
            return _tuples(parts[i:], head.shape())
        if not isinstance(part, Field):
            return _READ
        if part.layer and i == len(parts) - 1:
            return replace(head.shape(), carries=True)
        if isinstance(part.constant, str) and part.name == "new_tag":
            return _tuples(parts[i:], head.shape())
        if part.kind.rule != "fixed":
            return _tail(parts[i:], head.shape())
        if not head.add(part):
            return _READ
    return head.shape()


def _resolved(message: Message, dialect: Dialect) -> list[Any]:
    """The parts of `message` with the dialect's conditions settled, one level."""
    found: list[Any] = []
    for part in message.parts_in(dialect.release):
        if isinstance(part, When) and part.condition in ("in_stream", "parallel"):
            if getattr(dialect, part.condition):
                found += part.parts
        else:
            found.append(part)
    return found


def _tuples(parts: list[Any], head: Shape) -> Shape:
    """A Shape that ends in an old tuple, a new tuple, or both."""
    old: tuple[int, ...] = ()
    required = False
    new = -1
    for part in parts:
        if isinstance(part, Choice):
            old = tuple(ord(str(option.constant)) for option in part.options)
            required = part.required
        elif isinstance(part, Field) and isinstance(part.constant, str):
            new = ord(part.constant)
        elif isinstance(part, Repeat):
            return _READ
    return replace(head, tuples=True, old=old, old_required=required, new=new)


def _tail(parts: list[Any], head: Shape) -> Shape:
    """A Shape that ends in strings and bytes with their length before them."""
    tail: list[str] = []
    while parts:
        part, *parts = parts
        if not isinstance(part, Field) or part.sizes or part.values or part.layer:
            return _READ
        if part.kind.rule == "string":
            tail.append("string")
        elif (
            parts and part.kind.rule == "fixed" and part.kind.width == 4
            and getattr(parts[0], "size_from", "") == part.name and not parts[0].layer
        ):  # fmt: skip
            tail.append("sized")
            parts = parts[1:]
        else:
            return _READ
    return replace(head, tail=tuple(tail))


def check_head(heads: Heads, shape: Shape, at: Array, end: Array) -> Array:
    """Which of the messages at `at`, whose first bytes are `heads`, are ordinary as far as the fixed
    head goes (mask)."""
    if not shape.plain:
        return np.zeros(len(at), bool)
    need = shape.size
    open_ended = shape.carries or shape.tail or shape.tuples
    good: Array = at + need <= end if open_ended else at + need == end
    for offset, width, value in shape.exact:
        good &= heads.field(offset, width) == value
    for offset, width in shape.nonzero:
        good &= heads.field(offset, width) != 0
    for offset, mask in shape.bits:
        good &= (heads.field(offset, 1) & (~mask & 0xFF)) == 0
    for offset, allowed in shape.listed:
        good &= member(heads.field(offset, 1), allowed)
    return good


def check_tail(run: Run, shape: Shape, at: Array, end: Array, good: Array) -> None:
    """Clear `good` where the strings and sized bytes after the head do not end with the message."""
    find, data = run.data.find, run.data
    chosen = np.flatnonzero(good)
    fine = []
    for place, stop in zip((at[chosen] + shape.size).tolist(), end[chosen].tolist(), strict=True):
        for step in shape.tail:
            if step == "string":
                place = find(0, place, stop) + 1
                if not place:
                    break
            else:
                size = int.from_bytes(data[place : place + 4], "big", signed=True)
                if place + 4 > stop or size < 0:
                    place = -1
                    break
                place += 4 + size
        fine.append(place == stop)
    good[chosen] = fine
