"""Columns of row messages, taken apart once for each state: what one column says in a state, all columns
say, but for their number, name and type."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from . import values
from .cells import Cell, ColumnCell, Texts
from .columns import ColumnValue, column_values
from .display import Context
from .node import Node, walk_paths
from .opened import Opened
from .records import _add_column, dumps, json_text, json_value
from .taken import Leaves, Piece, Tuple, UnusualError, Variant, leaf_records, piece_of
from .view import MessageView

if TYPE_CHECKING:
    from .quick import Kind

COLUMN = re.compile(r"\.(?:old|new)\.columns\[(\d+)\]\.")
_NUMERIC = (20, 21, 23, 26, 700, 701)
_MARKS = "\x01\x02\x03"
_MARK = re.compile(r"(\\u000[123])")
_NAMED = re.compile(r"\\u0002.*\\u0003")
"""Stand for a column's number, name and type; no text of the catalogue has them."""

KEPT = 512
"""Prototypes that are kept."""


class Prototype:
    """A column in one state, whichever it is."""

    def __init__(self, group: Leaves, start: int, column: ColumnValue) -> None:
        """group: its leaves with their records."""
        sized = next((n for n, _ in group if n.name == "value" and not n.absent), None)
        marked = []
        for node, found in group:
            record = dict(found)
            record["path"] = COLUMN.sub(_marked, record["path"])
            for key, mark in (("column", _MARKS[1]), ("type", _MARKS[2])):
                if key in record:
                    record[key] = mark
            marked.append((node, record))
        piece = piece_of(marked, start, sized, None)
        first, *more = piece.texts
        if sized is None:
            # what is the same in all tables, what names the column, and what is the same again
            names = list(_NAMED.finditer(first))
            if len(names) != 1:
                raise UnusualError
            begin, end = names[0].span()
            first, more = first[:begin], [first[begin:end], first[end:]]
        elif _NAMED.search(first):
            raise UnusualError
        self.texts = [_MARK.split(text) for text in (first, *more)]
        self.places = piece.places
        self.column = column
        self.sized = sized

    def piece(self, kind: Kind, index: int) -> Piece:
        """The state of the column `index`. Raises UnusualError where nothing describes it."""
        schema = kind.view.schema
        if index >= len(schema.columns):
            raise UnusualError
        column = schema.columns[index]
        kind_name = values.type_name(column.type_oid, column.type_modifier, kind.types)
        told = {
            "\\u0001": str(index),
            "\\u0002": dumps(json_text(column.name))[1:-1].replace("%", "%%"),
            "\\u0003": dumps(json_text(kind_name))[1:-1].replace("%", "%%"),
        }
        a, b, c = ("".join([told.get(part, part) for part in text]) for text in self.texts)
        a = sys.intern(a)  # tables share it
        c = sys.intern(c)
        cell = None
        if self.sized is not None:
            cell = cell_of(replace(self.column, index=index), self.sized, kind.context, kind.view)
        return Piece((a, b, c), self.places, cell)


def cell_of(column: ColumnValue, sized: Node, context: Context, view: Opened) -> Cell:
    """Texts of the values of a described column, in the slow writers' own words. column, sized: a value
    and the leaf that holds it."""
    schema, types = view.schema, dict(view.schema.types)
    described, place, reason = schema.columns[column.index], sized.place, sized.reason

    def make(raw: bytes) -> Texts:
        leaf = Node(place, 0, len(raw), raw, None, reason)
        typed = values.value(
            described.type_oid, described.type_modifier, raw, column.state, schema.encoding, types
        )
        one = ColumnValue(column.part, column.index, column.state, leaf, described, typed)
        record = {"value": json_value(leaf, context)}
        _add_column(record, one, context, view)
        return dumps(record["value"]), dumps(record["display"]), ""

    if column.state != "text":
        return Cell(make)
    oid = values._resolved(described.type_oid, types)
    return ColumnCell(make, oid in _NUMERIC[:4], oid not in _NUMERIC)


def _marked(match: re.Match[str]) -> str:
    text, (begin, end) = match.group(), (match.start(1), match.end(1))
    at = match.start()
    return text[: begin - at] + _MARKS[0] + text[end - at :]


_PROTOTYPES: dict[Any, Prototype] = {}


def learn(kind: Kind, view: MessageView) -> None:
    """Take apart a row message whose variant or column states are new to `kind`. Raises UnusualError."""
    if view.found:
        raise UnusualError
    letter = view.data[kind.letter_at]
    leaves = [(path, node) for path, node in walk_paths(view.tree) if node.children is None]
    groups = [(index, list(group)) for index, group in groupby(leaves, _index)]
    variant = kind.variants.get(letter)
    heads: dict[int, dict[str, Any]] = {}
    if variant is None:
        heads = {id(node): record for node, record in kind.heads(view)}
        first = [(node, heads[id(node)]) for _, node in groups[0][1]]
        variant = Variant(kind.taken(first, None), [])
    number = -1
    for index, group in groups[1:]:
        start = group[0][1].start
        if index < 0:
            if heads:
                between = [(node, heads[id(node)]) for _, node in group]
                variant.tuples[number].between = piece_of(between, start, None, None)
                variant.tuples[number].skip = group[-1][1].end - start
            continue
        if index == 0:
            number += 1
        if number == len(variant.tuples):
            variant.tuples.append(Tuple([{} for _ in view.schema.columns]))
        kinds = variant.tuples[number].pieces[index]
        state = view.data[start]
        if state in kinds:
            continue
        key = (view.dialect, view.path, kind.secrets, letter, number, state)
        prototype = _PROTOTYPES.get(key)
        if prototype is None:
            if len(_PROTOTYPES) >= KEPT:
                _PROTOTYPES.clear()
            prototype = _PROTOTYPES[key] = _prototype(kind, view, group)
        kinds[state] = prototype.piece(kind, index)
        kind.learned += 1
    kind.variants[letter] = variant


def _index(leaf: tuple[str, Node]) -> int:
    match = COLUMN.search(leaf[0])
    return int(match.group(1)) if match else -1


def _prototype(kind: Kind, view: MessageView, group: list[tuple[str, Node]]) -> Prototype:
    paths, ids = {path for path, _ in group}, {id(node) for _, node in group}
    records = leaf_records(view, kind.context, paths.__contains__)
    column = next((c for c in column_values(view.tree, view.schema) if id(c.leaf) in ids), None)
    if column is None or column.column is None:
        raise UnusualError
    return Prototype(records, group[0][1].start, column)
