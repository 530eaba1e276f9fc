"""The compiled form of a declaration: steps that read bytes into nodes, each one part of a message.

`dissector.plan` makes the steps. A fault puts a finding on a node and stops the cursor; what comes
after a stop is absent. Counts and lengths are compared with the bytes that remain before anything
is made of them.
"""

from __future__ import annotations

from collections.abc import Callable

from dissector.findings import finding
from dissector.node import ABSENT, PARTIAL, Node, Place
from dissector.spec import Dialect, Field

NOT_REACHED = "not reached: the message could not be read up to here"
TOO_SHORT = "the message ends before it"
NULL_REASON = "its length is -1: NULL, so no bytes follow"
ENVELOPES = ("frontend", "backend")
"""Layers whose messages carry their own length."""

Scope = dict[str, int | str | None]

Nest = Callable[[bytes, str, Dialect, int, int, int], Node]
"""Reads a message of the named layer: (data, layer, dialect, start, end, base)."""


class Cursor:
    """The place of reading inside one message.

    base: the annotated data's first byte, from which findings count. end: where the message ends
    (the envelope's length can lower it). stop: a fault ended the reading. short: a finding has
    already told that bytes are missing. nest: reads a message of an inner layer. frame: the
    message's first byte. declared: the envelope's length node.
    """

    __slots__ = (
        "base",
        "data",
        "declared",
        "dialect",
        "end",
        "frame",
        "nest",
        "pos",
        "short",
        "stop",
    )

    def __init__(
        self, data: bytes, dialect: Dialect, pos: int, end: int, base: int, nest: Nest
    ) -> None:
        self.data = data
        self.dialect = dialect
        self.pos = self.frame = pos
        self.end = end
        self.base = base
        self.stop = self.short = False
        self.declared: Node | None = None
        self.nest = nest

    def found(self, node: Node, code: str, offset: int, **facts: object) -> None:
        """Put the finding `code` on `node`; `offset` is an offset in the data."""
        node.finding = finding(code, offset - self.base, **facts)

    def cut(self, node: Node, need: int, name: str = "") -> None:
        """`node` starts at the cursor and needs more bytes than there are: take the rest, stop."""
        left = self.end - self.pos
        node.state = PARTIAL if left else ABSENT
        node.end = self.end
        if not left:
            node.reason = TOO_SHORT
        if not self.short:
            name = name or node.name
            self.found(node, "cut-short", self.end, name=name, need=need, left=left)
        self.pos = self.end
        self.stop = self.short = True


class Step:
    """Reads one part, which takes at least `min_size` bytes; `fixed` when never more."""

    __slots__ = ("fixed", "min_size", "place")

    def __init__(self, place: Place, min_size: int, fixed: bool) -> None:
        self.place = place
        self.min_size = min_size
        self.fixed = fixed

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        """Append the nodes of this part to `out`; `scope` keeps counts, lengths and choices."""
        raise NotImplementedError

    def skip(self, cursor: Cursor, out: list[Node], reason: str) -> None:
        """Append this part's positions as absent."""
        out.append(Node(self.place, cursor.pos, cursor.pos, None, None, reason, ABSENT))


def run(steps: tuple[Step, ...], cursor: Cursor, out: list[Node], scope: Scope) -> None:
    """Read `steps` one after the other; once the cursor stops, the rest is absent."""
    for step in steps:
        if cursor.stop:
            step.skip(cursor, out, NOT_REACHED)
        else:
            step.read(cursor, out, scope)


class FieldStep(Step):
    """One documented position. keep: a later part asks for its value. reason: why it is there."""

    __slots__ = ("check", "field", "keep", "reason")

    def __init__(self, place: Place, field: Field, keep: bool, reason: str, min_size: int) -> None:
        super().__init__(place, min_size, field.kind.rule == "fixed")
        self.field = field
        self.keep = keep
        self.reason = reason
        self.check: Callable[[Cursor, Node, Field], None] | None = None


class NumberStep(FieldStep):
    """Fixed width: an integer, or raw bytes for kinds that are shown as bytes."""

    __slots__ = ("raw", "signed", "width")

    def __init__(self, place: Place, field: Field, keep: bool, reason: str) -> None:
        super().__init__(place, field, keep, reason, field.kind.width)
        self.width = field.kind.width
        self.signed = field.kind.signed
        self.raw = field.kind.show == "bytes"

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        start = cursor.pos
        end = start + self.width
        node = Node(self.place, start, end, None, None, self.reason)
        out.append(node)
        if end > cursor.end:
            cursor.cut(node, self.width)
            return
        cursor.pos = end
        raw = cursor.data[start:end]
        if self.raw:
            node.value = raw
            return
        node.value = value = int.from_bytes(raw, "big", signed=self.signed)
        if self.keep:
            scope[self.field.name] = value
        if self.check is not None:
            self.check(cursor, node, self.field)


class StringStep(FieldStep):
    """Bytes up to a zero byte."""

    __slots__ = ()

    def __init__(self, place: Place, field: Field, keep: bool, reason: str) -> None:
        super().__init__(place, field, keep, reason, 1)

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        start = cursor.pos
        stop = cursor.data.find(0, start, cursor.end)
        if stop >= 0:
            value = cursor.data[start:stop]
            out.append(Node(self.place, start, stop + 1, value, None, self.reason))
            cursor.pos = stop + 1
            return
        left = cursor.end - start
        node = Node(self.place, start, cursor.end, None, None, self.reason)
        out.append(node)
        if not left:
            cursor.cut(node, 1)
            return
        node.value = cursor.data[start : cursor.end]
        node.state = PARTIAL
        if not cursor.short:
            cursor.found(node, "unterminated-string", cursor.end, left=left)
        cursor.pos = cursor.end
        cursor.stop = cursor.short = True


class BytesStep(FieldStep):
    """Bytes whose length a field told, or the rest of the message; may carry another layer."""

    __slots__ = ("layer", "null", "owner", "size_field")

    def __init__(
        self,
        place: Place,
        field: Field,
        reason: str,
        size_field: Field | None,
        layer: str,
        owner: str,
    ) -> None:
        super().__init__(place, field, False, reason, 0)
        self.owner = owner
        self.size_field = size_field
        self.null = size_field is not None and -1 in size_field.values
        self.layer = layer

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        start = cursor.pos
        end = cursor.end
        if self.size_field is not None:
            size = scope.get(self.size_field.name)
            if not isinstance(size, int):
                self.skip(cursor, out, NOT_REACHED)
                return
            if self.size_field.includes_self:
                size -= self.size_field.kind.width
            if size < 0:
                self._negative(cursor, out, size)
                return
            end = start + size
        node = Node(self.place, start, end, None, None, self.reason)
        out.append(node)
        if end > cursor.end:
            node.value = cursor.data[start : cursor.end] or None
            cursor.cut(node, end - start)
            return
        cursor.pos = end
        if self.layer:
            inner = cursor.nest(cursor.data, self.layer, cursor.dialect, start, end, cursor.base)
            node.children = [inner]
            return
        node.value = cursor.data[start:end]
        if self.check is not None:
            self.check(cursor, node, self.field)

    def _negative(self, cursor: Cursor, out: list[Node], size: int) -> None:
        if size == -1 and self.null:
            self.skip(cursor, out, NULL_REASON)
            return
        told = last(out, self.size_field.name) if self.size_field else None
        self.skip(cursor, out, "its length is negative")
        cursor.stop = True
        if told is not None:
            allowed = "-1 alone means NULL" if self.null else "a length is 0 or more"
            name = f"{self.owner} {told.name.replace('_', ' ')}".lstrip()
            cursor.found(
                told, "negative-length", told.start, name=name, value=size, allowed=allowed
            )


class ArrayStep(FieldStep):
    """Integers, as many as a field told: one position, one leaf, a tuple of int."""

    __slots__ = ("count",)

    def __init__(self, place: Place, field: Field, reason: str) -> None:
        super().__init__(place, field, False, reason, 0)
        self.count = field.count_from

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        count = scope.get(self.count)
        if not isinstance(count, int):
            self.skip(cursor, out, NOT_REACHED)
            return
        width = self.field.kind.width
        fits = (cursor.end - cursor.pos) // width
        too_many(cursor, out, self.count, count, self.field.name, width, True)
        taken = max(0, min(count, fits))
        start, end = cursor.pos, cursor.pos + taken * width
        signed = self.field.kind.signed
        values = tuple(
            int.from_bytes(cursor.data[at : at + width], "big", signed=signed)
            for at in range(start, end, width)
        )
        node = Node(self.place, start, end, values, None, self.reason)
        out.append(node)
        cursor.pos = end
        if taken < count:
            cursor.stop = True
            node.end = cursor.pos = cursor.end
            node.state = PARTIAL


def last(out: list[Node], name: str) -> Node | None:
    """The node called `name` that was read last."""
    return next((n for n in reversed(out) if n.place.name == name), None)


def byte_text(byte: int) -> str:
    """A byte as a quoted letter, or as hex where it is no printable ASCII."""
    return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"0x{byte:02x}"


def too_many(
    cursor: Cursor, out: list[Node], name: str, count: int, what: str, size: int, fixed: bool
) -> None:
    """Put a finding on the count when `count` elements of `size` bytes cannot be there."""
    left = cursor.end - cursor.pos
    told = last(out, name)
    if told is None:
        return
    if count < 0:
        said = {"name": name.replace("_", " "), "value": count, "allowed": "a count is 0 or more"}
        cursor.found(told, "negative-length", told.start, **said)
    elif count * size > left:
        cursor.found(
            told,
            "count-too-large",
            told.start,
            count=count,
            what=what.replace("_", " "),
            least="" if fixed else "at least ",
            need=count * size,
            left=left,
        )
        cursor.short = True
