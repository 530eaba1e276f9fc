"""Conditions that the index's columns answer, a million rows at a time.

Numbers are compared in the column's own dtype. Text (message names, relations, addresses) stands in
small tables: a condition is evaluated once for each table entry and then taken by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dissector.findings import Severity
from dissector.rows import ASSUMED, BACKEND, FRONTEND, NO_LSN
from dissector.schemas import Schema

from .errors import QueryError
from .protocols import IndexLike
from .values import (
    IntSet,
    Item,
    TextTest,
    int_set,
    parse_int,
    parse_lsn,
    parse_word,
    text_test,
    time_set,
)

DIRECTIONS = dict.fromkeys(("f", "frontend", "client"), FRONTEND) | dict.fromkeys(
    ("b", "backend", "server"), BACKEND
)
SEVERITIES = {severity.name.lower(): int(severity) for severity in Severity}
BOOLEANS = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}

Mask = np.ndarray


class Leaf:
    """A condition on columns. `mask` gives bool for the rows [start, stop), a new array each time."""

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Held(Leaf):
    """What the bytes of a message must hold for a condition on its content: one of `parts`. Columns do not
    tell, so for them every row may. numbers: or a number with an exponent. binary: or a value in binary.
    caseless: letters of ASCII count in either case."""

    parts: frozenset[bytes]
    numbers: bool = False
    binary: bool = False
    caseless: bool = False

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        return np.ones(stop - start, bool)

    def either(self, other: Held) -> Held:
        """What holds where this one or the other does."""
        return Held(
            self.parts | other.parts, self.numbers or other.numbers, self.binary or other.binary,
            self.caseless or other.caseless,
        )  # fmt: skip


@dataclass(eq=False, slots=True)
class Every(Leaf):
    """All rows or none."""

    answer: bool

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        return np.full(stop - start, self.answer)


@dataclass(eq=False, slots=True)
class Number(Leaf):
    """A number column. allowed None asks whether there is a value at all; `null` is the column's word
    for none, and a comparison with none is false whatever the operator."""

    column: str
    allowed: Any = None
    null: int | None = None
    negated: bool = False
    bits: int = 0

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        if self.column == "number":
            values = np.arange(start + 1, stop + 1, dtype=np.int64)
        else:
            values = index.rows.part(self.column, start, stop)
        if self.bits:
            values = values & values.dtype.type(self.bits)
        found = np.ones(len(values), bool) if self.allowed is None else self.allowed.mask(values)
        if self.negated:
            np.logical_not(found, out=found)
        if self.null is not None:
            found &= values != values.dtype.type(self.null)
        return found


@dataclass(eq=False, slots=True)
class Table(Leaf):
    """A column of numbers into an append-only table whose entries have any number of texts.

    True where an entry's texts include one that `test` accepts; negated: where there are texts and
    none is accepted. The answers of entries are kept: live captures ask again and again.
    """

    column: str
    entries: Callable[[IndexLike], list[Any]]
    texts: Callable[[Any, list[Any]], tuple[Any, ...]]
    test: Callable[[Any], bool] | None
    negated: bool = False
    _for: Any = None
    _answers: Mask = field(default_factory=lambda: np.zeros(0, bool))

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        entries = self.entries(index)
        if self._for is not entries:
            self._for, self._answers = entries, np.zeros(0, bool)
        known = len(self._answers)
        if len(entries) > known:
            news = [self._answer(self.texts(entry, entries)) for entry in entries[known:]]
            self._answers = np.concatenate((self._answers, np.array(news, bool)))
        numbers = index.rows.part(self.column, start, stop)
        return np.take(self._answers, numbers, mode="clip")

    def _answer(self, texts: tuple[Any, ...]) -> bool:
        if not texts:
            return False
        if self.test is None:
            return True
        return any(map(self.test, texts)) is not self.negated


@dataclass(eq=False, slots=True)
class Ends(Leaf):
    """Who sent it and who gets it. which: source, destination or port (either of the two)."""

    which: str
    test: TextTest | None
    negated: bool = False

    def mask(self, index: IndexLike, start: int, stop: int) -> Mask:
        streams = index.rows.part("stream", start, stop)
        if self.test is None or not len(streams):
            return np.ones(len(streams), bool)
        # made anew each time: which side is the client can be learnt late
        pairs = dict(index.connections)
        client = np.zeros(max(pairs, default=0) + 1, bool)
        server = client.copy()
        for number, pair in pairs.items():
            client[number], server[number] = self.test(pair.frontend), self.test(pair.backend)
        if self.which == "port":
            found = np.take(client | server, streams, mode="clip")
        else:
            forth, back = (client, server) if self.which == "source" else (server, client)
            from_client = index.rows.part("direction", start, stop) == FRONTEND
            found = np.where(
                from_client,
                np.take(forth, streams, mode="clip"),
                np.take(back, streams, mode="clip"),
            )
        return ~found if self.negated else found


# --- texts of table entries ------------------------------------------------------------------------


def _paths(index: IndexLike) -> list[Any]:
    return index.tables.paths.items


def _schemas(index: IndexLike) -> list[Any]:
    return index.tables.schemas.items


def _names(path: tuple[str, ...], _: Any = None) -> tuple[str, ...]:
    return path


def _dotted(path: tuple[str, ...], _: Any = None) -> tuple[str, ...]:
    return (".".join(path),) if path else ()


def relation_names(schema: Schema, schemas: Sequence[Schema]) -> tuple[tuple[str, str], ...]:
    """(``schema.table``, ``table``) of a relation, of each in a Truncate's list, () for others."""
    if schema.kind == "relation":
        return ((schema.full_name, schema.name),)
    if schema.kind == "relations":
        members = (schemas[m] for m in schema.members if m < len(schemas))
        return tuple((m.full_name, m.name) for m in members if m.kind == "relation")
    return ()


def message_leaf(names: frozenset[str], canonical: Callable[[str], str]) -> Table:
    """Rows whose path holds one of the messages `names` (canonical names)."""
    return Table("path", _paths, _names, lambda name: canonical(name) in names)


# --- the columns by name ---------------------------------------------------------------------------

COLUMNS: dict[str, tuple[str, str]] = {
    "number": ("int", "number of the message, from 1"),
    "frame": ("int", "number of the frame that holds the message's last byte, from 1"),
    "time": ("time", "time of that frame: 12:00:03 or 2026-11-29T12:00:03.5Z (UTC)"),
    "stream": ("int", "connection number, from 0"),
    "direction": ("direction", "F from the frontend (client), B from the backend (server)"),
    "message": ("message", "name of a message in the path: Insert, XLogData, CopyData"),
    "path": ("path", "the whole path: CopyData.XLogData.Insert"),
    "length": ("int", "bytes on the wire"),
    "lsn": ("lsn", "XLogData's start or a keepalive's end: 0/1A2B3C4"),
    "xid": ("int", "transaction that the message belongs to"),
    "relation": ("relation", 'schema.table, or the table\'s name alone: "public.users"'),
    "severity": ("severity", "worst finding: note, warning, error"),
    "finding": ("finding", "code of a finding: cut-short, stream-gap"),
    "assumed": ("bool", "the dialect had to be assumed"),
    "source": ("address", "sender: 10.0.0.1 or 10.0.0.1:5432"),
    "destination": ("address", "receiver: 10.0.0.1 or 10.0.0.1:5432"),
    "port": ("port", "TCP port of either side"),
}
"""name -> (kind, meaning). `finding` looks into messages; all others are columns."""

ALWAYS = frozenset(COLUMNS) - {"lsn", "xid", "relation", "severity", "finding", "assumed"}
"""Columns that every row has: asking whether they exist says nothing."""

TEXT_OPERATORS = frozenset(("contains", "matches", "~*"))
_ORDER = frozenset(("<", "<=", ">", ">="))
_NULLS = {"lsn": NO_LSN, "xid": 0, "severity": 0}


def need_number(name: str, op: str, position: int) -> None:
    """Refuse text operators on numbers."""
    if op in TEXT_OPERATORS:
        raise QueryError(
            "",
            position,
            f"{op} looks into text, and {name} is no text",
            "use ==, <, > or in {1..5}",
        )


def need_equality(name: str, op: str, position: int) -> None:
    """Refuse the order operators on names."""
    if op in _ORDER:
        raise QueryError(
            "", position, f"{name} has no order", 'use ==, !=, in {...}, contains or matches "..."'
        )


def column_leaf(name: str, op: str, items: list[Item], position: int, canonical: Any) -> Leaf:
    """The condition ``name op items`` on a column; op "exists" has no items; "!=" is "==" negated.

    Raises QueryError (without the filter's text) for an operator or a value that does not fit.
    """
    negated, exists = op == "!=", op == "exists"
    plain = "==" if negated else op
    kind = COLUMNS[name][0]
    if kind in ("message", "path", "relation", "address"):
        return _text_leaf(
            name, kind, None if exists else (plain, items), position, negated, canonical
        )
    need_number(name, op, position)
    if kind == "bool":
        wanted = IntSet([(1, 1)])
        if not exists:
            wanted = int_set(plain, items, parse_word(BOOLEANS, "true or false"))
        return Number("flags", wanted, None, negated, ASSUMED)
    if kind == "port":
        if exists:
            return Every(True)
        ports = int_set(plain, items, parse_int)
        return Ends("port", lambda shown: _port(shown) in ports, negated)
    null = _NULLS.get(name)
    if exists:
        return Every(True) if null is None else Number(name, None, null)
    allowed: Any
    if kind == "time":
        allowed = time_set(plain, items)
    elif kind == "lsn":
        allowed = int_set(plain, items, parse_lsn)
    elif kind == "severity":
        allowed = int_set(plain, items, parse_word(SEVERITIES, "a severity"))
    elif kind == "direction":
        need_equality(name, op, position)
        allowed = int_set(plain, items, parse_word(DIRECTIONS, "a direction"))
    else:
        allowed = int_set(plain, items, parse_int)
    return Number(name, allowed, null, negated)


def _text_leaf(
    name: str,
    kind: str,
    wanted: tuple[str, list[Item]] | None,
    position: int,
    negated: bool,
    canonical: Callable[[str], str],
) -> Leaf:
    if wanted is None:
        if kind == "relation":
            return Table("relation", _schemas, relation_names, None)
        return Every(True)
    op, items = wanted
    if kind != "relation":
        need_equality(name, op, position)
    if kind == "message":
        test = text_test(op, items, canonical)
        return Table("path", _paths, _names, test, negated)
    if kind == "path":
        key = lambda path: ".".join(map(canonical, path.split(".")))  # noqa: E731
        test = text_test(op, items, key)
        return Table("path", _paths, _dotted, test, negated)
    test = text_test(op, items)
    if kind == "relation":
        alone = op in ("==", "in")
        return Table(
            "relation",
            _schemas,
            relation_names,
            lambda names: test(names[0]) or (alone and test(names[1])),
            negated,
        )
    return Ends(name, lambda shown: _address_is(shown, op, test), negated)


def _address_is(shown: str, op: str, test: TextTest) -> bool:
    """Whether "address:port" fits, or the address alone where the whole is compared."""
    host = shown.rpartition(":")[0].strip("[]")
    return test(shown) or (op not in TEXT_OPERATORS and test(host))


def _port(shown: str) -> int:
    digits = shown.rpartition(":")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 6 else -1
