"""Column values of a message: which leaf is which column, with the description in force.

Serves the tuples of pgoutput, DataRow by its RowDescription, and Bind's parameters by their
ParameterDescription.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import display, values
from .annotate import tuple_columns
from .node import ABSENT, Node, messages
from .schemas import Column, Schema
from .spec import Message


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """One value. part: "old" or "new" of a row change, "columns" or "parameters"; index from 0; state:
    text, binary, null, unchanged or "not sent"; leaf: the node that stands for it; column: None where
    nothing describes it; value: typed where it is known."""

    part: str
    index: int
    state: str
    leaf: Node
    column: Column | None
    typed: values.Value

    @property
    def name(self) -> str:
        """The column's name, or its number from 1 where nobody named it."""
        return self.column.name if self.column is not None else f"column {self.index + 1}"

    @property
    def missing(self) -> bool:
        """Whether the value's bytes are not there: its leaf is the length or the kind before them."""
        return self.state in ("text", "binary") and not isinstance(self.leaf.value, bytes)

    def text(self, context: display.Context) -> str:
        """The value for people: ``42``, ``'Zoë'``, ``NULL``, ``unchanged TOAST``, ``not sent``."""
        if self.state in display.STATES:
            return display.STATES[self.state]
        if self.column is None or not self.typed.known:
            raw = self.leaf.value if isinstance(self.leaf.value, bytes) else None
            return display.column(self.state, raw, context)
        return value_text(self.typed.text, self.typed.value, context)


def value_text(text: str, typed: Any, context: display.Context) -> str:
    """A known value for people: its text as it is for numbers, in quotes for others."""
    if isinstance(typed, int | float) and not isinstance(typed, bool):
        return display.visible(text, context.limit)
    return display.quote_text(text, context.limit)


def column_values(tree: Node, schema: Schema) -> Iterator[ColumnValue]:
    """The values of the message `tree` in wire order; nothing for messages without any."""
    inner = messages(tree)[-1]
    if not isinstance(inner.declaration, Message):
        return
    types = dict(schema.types)
    for part in _parts(inner.declaration, schema):
        node = inner.child(part)
        if node is None:
            continue
        found = tuple_columns(node) if part in ("old", "new") else _plain(node, schema)
        for index, (state, leaf) in enumerate(found):
            column = schema.columns[index] if index < len(schema.columns) else None
            raw = leaf.value if isinstance(leaf.value, bytes) else None
            typed = values.value(
                column.type_oid if column else 0,
                column.type_modifier if column else -1,
                raw,
                state,
                schema.encoding,
                types,
            )
            yield ColumnValue(part, index, state, leaf, column, typed)


def _parts(message: Message, schema: Schema) -> tuple[str, ...]:
    """Names of what holds values in `message`; others with a Schema, as RowDescription, only make it."""
    if message.layer == "pgoutput":
        return "old", "new"
    described = {("DataRow", "row"): "columns", ("Bind", "parameters"): "parameters"}
    part = described.get((message.name, schema.kind))
    return (part,) if part is not None else ()


def _plain(repeat: Node, schema: Schema) -> Iterator[tuple[str, Node]]:
    """(state, leaf) of DataRow's columns or Bind's parameters: a length and a value each."""
    for element in repeat.children or ():
        if element.index < 0:
            continue
        column = schema.columns[element.index] if element.index < len(schema.columns) else None
        leaf = next((n for n in reversed(element.children or []) if n.state != ABSENT), None)
        if leaf is None:
            continue
        if leaf.name == "length":
            yield ("null" if leaf.value == -1 else "text"), leaf
        else:
            yield ("binary" if column is not None and column.format else "text"), leaf
