"""What the columns of rows show in each of their states, learned from opened messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import display, values
from .binary import decode_binary
from .binary_scalars import INTEGERS, PLAIN
from .cells import KEEPER
from .cells import SHORT as SHORT_VALUE
from .columns import ColumnValue, value_text
from .display import Context
from .node import Node
from .opened import Opened
from .slots import WINDOW
from .spec import Field
from .summary import VALUE
from .text import decode_text
from .view import MessageView

STATIC, NOT_SENT, NUMERIC, FLOATING, QUOTED, INTEGER, SLOW, UNKNOWN = range(8)
"""What a column in a state shows: a text, nothing, digits, digits with a point, text in quotes, a number that
is sent as such, whatever `Piece.texts` says."""

_NAMED = (STATIC, NUMERIC, FLOATING, QUOTED, INTEGER)
"""Those whose first text is the same for all values."""

KINDS = b"nutb"
VALUED = 2
"""From this one of KINDS on, a length and a value follow."""

STRING = 0
"""A string in a layout: see RowKind."""


@dataclass(slots=True)
class Piece:
    """A column in one state: its class, the text before the value (all of it where there is no value),
    the texts of values that have to be looked at one by one, and how many bytes a number has."""

    sort: int
    text: str
    make: Callable[[bytes], str] | None = None
    width: int = 0
    known: dict[bytes, str] = field(default_factory=dict)

    def texts(self, raw: bytes) -> str:
        """What is shown of a value, with the column's name."""
        assert self.make is not None
        found = self.known.get(raw)
        if found is None:
            found = self.make(raw)
            if len(raw) <= SHORT_VALUE:
                KEEPER.keep(self.known)
                self.known[raw] = found
        return found


class Tables:
    """Pieces by number, as arrays. An item for each column, times the kinds of its state."""

    def __init__(self) -> None:
        self.count = 0
        self.pieces: list[Piece | None] = []
        self.sort = np.full(0, UNKNOWN, np.uint8)
        self.text = np.zeros(0, f"V{WINDOW}")  # two items for each: behind others, and as the first
        self.length = np.zeros(0, np.int64)
        self.extra = np.zeros(0, np.int64)
        self.width = np.zeros(0, np.int64)  # of numbers that are sent as such
        self.wide = False  # whether any text has characters of several bytes

    def reserve(self, columns: int) -> int:
        """Room for `columns` columns: the number of the first item."""
        base, self.count = self.count, self.count + columns * len(KINDS)
        if self.count > len(self.sort):
            size = max(self.count, len(self.sort) * 2)
            self.sort = np.concatenate(
                [self.sort, np.full(size - len(self.sort), UNKNOWN, np.uint8)]
            )
            for name, times in (("text", 2), ("length", 2), ("extra", 1), ("width", 1)):
                old = getattr(self, name)
                setattr(
                    self, name, np.concatenate([old, np.zeros(size * times - len(old), old.dtype)])
                )
            self.pieces += [None] * (size - len(self.pieces))
        return base

    def set(self, item: int, piece: Piece) -> None:
        data = piece.text.encode()
        mark = b"'" if piece.sort == QUOTED else b""
        if len(data) + len(mark) + 2 > WINDOW and piece.sort in _NAMED:
            piece.sort = SLOW
        self.pieces[item] = piece
        self.width[item] = piece.width
        self.sort[item] = piece.sort
        if piece.sort in _NAMED:
            for i, text in enumerate((b", " + data + mark, data + mark)):
                self.text[item * 2 + i] = np.void(text.ljust(WINDOW, b"\0"))
                self.length[item * 2 + i] = len(text)
            self.extra[item] = len(data) - len(piece.text)
            self.wide |= len(data) > len(piece.text)


@dataclass(slots=True)
class RowKind:
    """Rows of one path, dialect, schema and direction: where the letter is, what stands before the
    columns, and by letter and tuple the first item in the tables.

    layout: of rows without letters, whose columns have none either, what stands before the number of
    columns: so many bytes, STRING, or below 0 as many times so many bytes as an Int16 says.
    """

    letter_at: int
    subject: str
    columns: int
    context: Context
    tuples: dict[int, tuple[int, int]] = field(default_factory=dict)
    view: MessageView | None = None
    layout: tuple[int, ...] = ()


def row_kind(view: MessageView, context: Context) -> RowKind | None:
    """How rows like the opened one are written; None where its columns are not described."""
    inner, schema = view.innermost, view.schema
    name = schema.full_name
    first = next((inner.child(n) for n in ("old", "new") if inner.child(n) is not None), None)
    if schema.kind != "relation" or not schema.columns or not name or first is None:
        return None
    return RowKind(
        first.start - 1, f"{display.visible(name)}: ", len(schema.columns), context, {}, view
    )


_PLAIN = {"DataRow": ("row", "columns"), "Bind": ("parameters", "parameters")}
"""Messages whose columns a schema of a kind describes, and the field that holds them."""


def plain_kind(view: MessageView, context: Context) -> RowKind | None:
    """How what queries return, or bind, is written where it is described, as in the opened message."""
    inner, schema = view.innermost, view.schema
    named = _PLAIN.get(view.path[-1], ("", ""))
    repeat = inner.child(named[1])
    if schema.kind != named[0] or repeat is None or (named[0] == "row" and not schema.columns):
        return None
    layout: list[int] = [inner.start] if inner.start else []
    width = 0
    for node in (inner.children or ())[: (inner.children or []).index(repeat)]:
        width = 0
        if isinstance(node.value, bytes):
            layout.append(STRING)
        elif isinstance(node.value, tuple) and isinstance(node.declaration, Field):
            layout.pop()  # how many there are
            layout.append(-node.declaration.kind.width)
        else:
            width = node.length
            layout.append(width)
    if width != 2:
        return None
    steps = tuple(layout[:-1])
    return RowKind(0, "", len(schema.columns), context, {}, view, steps)


def piece_of(each: ColumnValue, context: Context, view: Opened) -> Piece:
    """What a column shows in the state in which an opened message has it."""
    if each.state == "not sent":
        return Piece(NOT_SENT, "")
    name = display.visible(each.name, VALUE) + "="
    described = each.column
    if each.state not in ("text", "binary") or described is None:
        return Piece(STATIC, name + each.text(context))
    place, reason, state, encoding = (
        each.leaf.place, each.leaf.reason, each.state, view.schema.encoding,
    )  # fmt: skip
    types: dict[int, Any] = dict(view.schema.types)
    oid = values._resolved(described.type_oid, types)

    def make(raw: bytes) -> str:
        if state == "text":
            text = decode_text(raw, encoding)
            return name + value_text(text, values.typed_text(oid, text), context)
        found = decode_binary(oid, raw, encoding)
        if found is not None:
            return name + value_text(*found, context)
        leaf = Node(place, 0, len(raw), raw, None, reason)
        typed = values.value(
            described.type_oid, described.type_modifier, raw, state, encoding, types
        )
        one = ColumnValue(each.part, each.index, state, leaf, described, typed)
        return name + one.text(context)

    def quoted(raw: bytes) -> str:
        if encoding == "utf-8" and len(raw) > VALUE * 4 + 4:
            raw = raw[: VALUE * 4 + 4]
        return name + display.quote_text(decode_text(raw, encoding), VALUE)

    if state == "binary" and oid in INTEGERS:
        return Piece(INTEGER, name, make, INTEGERS[oid])
    if state == "binary":
        return Piece(QUOTED, name, quoted) if oid in PLAIN else Piece(SLOW, name, make)
    if oid in (20, 21, 23, 26):
        return Piece(NUMERIC, name, make)
    if oid in (700, 701):
        return Piece(FLOATING, name, make)
    return Piece(QUOTED, name, quoted)
