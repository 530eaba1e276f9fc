"""The columns of a message's rows, each with the name and type that the Schema in force gives it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dissector.annotate import tuple_columns
from dissector.node import Node, messages
from dissector.schemas import Column, Schema
from dissector.spec import Field
from dissector.text import decode_text

from .protocols import MessageLike

STATES = ("text", "binary", "null", "unchanged", "not sent")
_UNKNOWN = Column("")


class TupleColumn:
    """A value of a row. name: "" where no Schema is known; state: one of `STATES`, or "" when the kind
    byte is none of them. Type and text are made when asked for: rows are wide, conditions ask little.
    """

    __slots__ = ("_column", "_leaf", "_schema", "_text", "state")

    def __init__(self, column: Column, state: str, leaf: Node, schema: Schema) -> None:
        self.state = state
        self._column = column
        self._leaf = leaf
        self._schema = schema
        self._text: str | None = None

    @property
    def name(self) -> str:
        """The column's name."""
        return self._column.name

    @property
    def type(self) -> str:
        """Its type as ``character varying(40)``; "" where none is known."""
        column = self._column
        return _type_name(column.type_oid, column.type_modifier, self._schema.types)

    @property
    def value(self) -> str | None:
        """Its text, None unless the state is text or binary."""
        raw = self._leaf.value
        if self._text is None and self.state in ("text", "binary") and isinstance(raw, bytes):
            self._text = _text(self._column, raw, self.state, self._schema)
        return self._text


def columns_of(message: MessageLike) -> Iterator[TupleColumn]:
    """The columns of all rows in the innermost message: TupleData, DataRow, Bind's parameters."""
    schema = message.schema
    inner = messages(message.tree)[-1]
    for place, state, leaf in _values(inner, schema):
        column = schema.columns[place] if place < len(schema.columns) else _UNKNOWN
        yield TupleColumn(column, state, leaf, schema)


def _values(inner: Node, schema: Schema) -> Iterator[tuple[int, str, Node]]:
    """(place in the row, state, leaf) of every column that was read."""
    for child in inner.children or ():
        if child.absent or not child.children:
            continue
        if isinstance(child.declaration, Field) and child.child("columns") is not None:  # TupleData
            for place, (state, leaf) in enumerate(tuple_columns(child)):
                yield place, state, leaf
        elif child.name in ("columns", "parameters") and schema.kind in ("row", "parameters"):
            for element in child.children:
                length, value = element.child("length"), element.child("value")
                if length is None or element.index < 0:
                    continue
                place = element.index
                column = schema.columns[place] if place < len(schema.columns) else _UNKNOWN
                if length.value == -1:
                    yield place, "null", length
                elif value is not None:
                    yield place, "binary" if column.format else "text", value


def _text(column: Column, raw: bytes, state: str, schema: Schema) -> str:
    if state == "text":
        return decode_text(raw, schema.encoding)
    from dissector import values

    return values.value(
        column.type_oid, column.type_modifier, raw, state, schema.encoding, dict(schema.types)
    ).text


@lru_cache(maxsize=4096)
def _type_name(oid: int, modifier: int, types: tuple[tuple[int, str], ...]) -> str:
    if not oid:
        return ""
    from dissector import values

    return values.type_name(oid, modifier, dict(types))
