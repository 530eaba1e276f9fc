"""What Relation, Type and Truncate messages of a run teach, and which Relation is in force for each row.

They are read one by one, but come again and again: one that was read before is known by its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from . import catalogue
from .annotate import annotate
from .decode import probes
from .facts import of_node
from .node import findings
from .pgoutput_state import TEACHING, PgoutputState, names_relation
from .schemas import Schema, Tables
from .shapes import Array, Run
from .spec import Dialect, Message

REMEMBERED = 4096
"""Descriptions of one kind that are kept by their bytes."""

LONG_BODY = 1 << 16
"""Longer ones are not kept."""

_NOTHING: tuple[int, Schema | None] = (0, None)


@dataclass(slots=True)
class _Known:
    """A message that was read before. schema: what a Relation says where the encoding and the names of
    types are as in `told`."""

    message: Message
    values: dict[str, Any]
    sound: bool
    schema: Schema | None = None
    told: tuple[Any, ...] = ()


@dataclass(slots=True)
class _Kind:
    """Messages of one kind in one dialect. skip: bytes up to the end of an xid, which differs where all
    else is the same; known: by the bytes from there on, or by the length of those that end before."""

    message: Message | None
    dialect: Dialect
    skip: int
    known: dict[bytes | int, _Known]

    @classmethod
    def of(cls, tag: int, dialect: Dialect) -> _Kind:
        message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
        xid = None
        if message is not None:
            xid = probes("pgoutput", message.name, dialect).get("xid")
        return cls(message, dialect, xid[0] + xid[1] if xid is not None else 0, {})

    def read(self, data: bytes, start: int, end: int) -> _Known | None:
        """The message at start..end; None where there is none with its type byte."""
        if self.message is None:
            return None
        skip = start + self.skip
        key = data[skip:end] if skip <= end else end - start
        known = self.known.get(key)
        if known is None:
            tree = annotate(data, "pgoutput", self.dialect, start, end)
            known = _Known(self.message, of_node(tree), not any(f.severity for f in findings(tree)))
            if end - start < LONG_BODY:
                if len(self.known) >= REMEMBERED:
                    self.known.clear()
                self.known[key] = known
        return known


@cache
def teaches() -> Array:
    """By type byte: whether it is that of a pgoutput message that teaches."""
    table = np.zeros(256, bool)
    for name in TEACHING:
        table[ord(str(catalogue.by_name(name).tag))] = True
    return table


class Relations:
    """The relations of one connection, run by run."""

    def __init__(self, tables: Tables, state: PgoutputState) -> None:
        self.tables, self.state = tables, state
        self._kinds: dict[tuple[int, Dialect], _Kind] = {}
        self._before: dict[int, int] = {}
        self._events: dict[int, list[tuple[int, int]]] = {}
        self._described: dict[int, tuple[int, Schema]] = {}
        self._widths = np.zeros(0, np.int32)  # by number of a schema, -2 for those without columns

    def learn(
        self, run: Run, places: Array, starts: Array, tags: Array, streamed: Array,
        dialects: tuple[Dialect, Dialect], codec: str,
    ) -> Iterator[tuple[int, int, bool]]:  # fmt: skip
        """Take the messages that teach of the next run, whose pgoutput messages begin at `starts`.

        dialects: outside and inside a stream segment. Yields (place, number of what it describes,
        whether nothing is wrong with it).
        """
        self._events, self._before = {}, dict(self.state.relations)
        kinds: dict[tuple[int, bool], _Kind] = {}
        columns = (places, starts, run.ends[places], tags, streamed)
        for i, start, end, tag, inside in zip(*(c.tolist() for c in columns), strict=True):
            kind = kinds.get((tag, inside))
            if kind is None:
                key = tag, dialects[inside]
                if key not in self._kinds:
                    self._kinds[key] = _Kind.of(*key)
                kind = kinds[tag, inside] = self._kinds[key]
            known = kind.read(run.data, start, end)
            if known is not None:
                yield i, self._describe(i, known, codec), known.sound

    def _describe(self, i: int, known: _Known, codec: str) -> int:
        state = self.state
        if known.message.name != "Relation" or not names_relation(known.values):
            return state.describe(known.message, known.values, codec)
        # what it says hangs on its bytes, the encoding, and the types that were named before
        told = codec, state.named
        if known.schema is None or known.told != told:
            known.schema, known.told = state.described(known.values, codec), told
        oid = known.schema.oid
        number, described = self._described.get(oid, _NOTHING)
        if described is not known.schema or number != state.relations.get(oid):
            number = state.accept(known.schema)
            self._described[oid] = (number, known.schema)
        self._events.setdefault(oid, []).append((i, number))
        return number

    def in_force(self, oids: Array, places: Array, columns: Array) -> tuple[Array, Array]:
        """For row messages of that run, by OID and place (ascending, one at least): the numbers of the
        Relations in force, and a mask of those whose column counts (-1: no such tuple), of shape (2,
        messages), are not theirs."""
        heads = np.flatnonzero(np.concatenate(([True], oids[1:] != oids[:-1])))
        distinct, which = np.unique(oids[heads], return_inverse=True)
        first = [self._before.get(oid, 0) for oid in distinct.tolist()]
        sizes = np.diff(np.concatenate((heads, [len(oids)])))
        found = np.repeat(np.array(first, np.uint32)[which], sizes)
        for oid, before in zip(distinct.tolist(), first, strict=True):
            events = self._events.get(oid, ())
            if all(number == before for _, number in events):
                continue
            mine = np.flatnonzero(oids == oid)
            numbers = np.array([before, *(n for _, n in events)], np.uint32)
            when = np.array([i for i, _ in events], np.int64)
            found[mine] = numbers[np.searchsorted(when, places[mine])]
        schemas = self.tables.schemas
        if len(self._widths) < len(schemas):
            more = [schemas[n] for n in range(len(self._widths), len(schemas))]
            wide = [len(each.columns) if each.kind == "relation" else -2 for each in more]
            self._widths = np.concatenate((self._widths, np.array(wide, np.int32)))
        width = self._widths[found]
        odd = width < 0
        for counts in columns:
            odd |= (counts >= 0) & (counts != width)
        return found, odd
