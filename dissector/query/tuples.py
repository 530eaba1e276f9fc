"""The columns of a message's rows, each with the name and type that the Schema in force gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dissector.annotate import tuple_columns
from dissector.node import Node, messages
from dissector.schemas import Column, Schema
from dissector.text import decode_text

from .protocols import MessageLike

STATES = ("text", "binary", "null", "unchanged", "not sent")
_UNKNOWN = Column("")


@dataclass(frozen=True, slots=True)
class TupleColumn:
    """A value of a row. type: ``character varying(40)``; state: one of `STATES` or ""; value: its text,
    None unless state is text or binary. Name and type are "" where no Schema is known."""

    name: str
    type: str
    state: str
    value: str | None


def columns_of(message: MessageLike) -> Iterator[TupleColumn]:
    """The columns of all rows in the innermost message: TupleData, DataRow, Bind's parameters."""
    schema = message.schema
    inner = messages(message.tree)[-1]
    for place, state, leaf in _values(inner, schema):
        known = place < len(schema.columns)
        column = schema.columns[place] if known else _UNKNOWN
        value = None
        if state in ("text", "binary") and isinstance(leaf.value, bytes):
            value = _text(column, leaf.value, state, schema)
        type_ = _type_name(column.type_oid, column.type_modifier, schema.types) if known else ""
        yield TupleColumn(column.name, type_, state, value)


def _values(inner: Node, schema: Schema) -> Iterator[tuple[int, str, Node]]:
    """(place in the row, state, leaf) of every column that was read."""
    for child in inner.children or ():
        if child.absent or not child.children:
            continue
        if child.child("columns") is not None:  # a TupleData
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
