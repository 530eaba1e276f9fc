"""CopyData of a logical replication stream, many messages at once.

Tags, LSNs, xids and OIDs are gathered from the places that the catalogue yields; in-stream state,
transactions and relation versions are filled forward; messages in which anything is unusual are read
one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from . import catalogue
from .ahead import NEWEST, NOTHING, Told, form_of, row_form, wal_shape
from .annotate import annotate
from .bulk import Answers, Array, grouped
from .decode import probes
from .facts import of_node
from .node import findings, messages
from .pgoutput_state import TEACHING, PgoutputState
from .recognise import HEADER
from .rows import NO_LSN
from .schema_findings import schema_findings
from .schemas import Schema, Tables
from .shapes import ROOM, Run, Shape, check_head, check_tail, shape_of
from .spec import Dialect, Message
from .tuples import Tuples, alike, sound

REMEMBERED = 4096
"""Descriptions of tables that are kept by their bytes: they come again and again."""

LONG_BODY = 1 << 16
"""Longer ones are not kept."""

_NONE = 0x200
"""The key of messages that carry nothing: above each type byte with the bit for in-stream."""


@cache
def _tags() -> dict[str, int]:
    return {message.name: ord(message.tag) for message in catalogue.in_layer("pgoutput")}


@cache
def _places(layer: str, message: Message, dialect: Dialect) -> dict[str, tuple[int, int, bool]]:
    return probes(layer, message.name, dialect)


@cache
def _forms(outside: Dialect, inside: Dialect) -> tuple[Array, Array]:
    """By key (type byte, 0x100 in-stream): which form row changes are of, 255 for none; and the severity
    of what is wrong with every one of them."""
    forms, severities = np.full(_NONE + 1, 255, np.uint8), np.zeros(_NONE + 1, np.uint8)
    for bit, dialect in ((0, outside), (0x100, inside)):
        if not alike(dialect.release, NEWEST):
            continue
        for tag in set(_tags().values()):
            message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
            if message is None:
                continue
            form = form_of(tag, row_form(message, dialect))
            if form != NOTHING:
                forms[tag | bit] = form
                severities[tag | bit] = shape_of(message, dialect).severity
    return forms, severities


def _reach(shape: Shape, known: dict[str, tuple[int, int, bool]]) -> int:
    """Bytes of a message that hold its head and its probes."""
    return max(shape.size, 1, *(offset + width for offset, width, _ in known.values()))


@dataclass(slots=True)
class _Pass:
    """One run's messages while they are looked at. read: has to be read by itself; own: the message's
    xid; oids, has_oid: of rows; columns: of old and new tuples, -1 for none; silent: belongs to no
    transaction; tuples: those to be walked still; left: places of those that nobody
    knew anything of before."""

    run: Run
    answers: Answers
    read: Array
    own: Array
    oids: Array
    has_oid: Array
    silent: Array
    columns: Array
    tuples: list[Tuples]
    left: Array


_NOTHING: tuple[int, Schema | None] = (0, None)


@dataclass(slots=True)
class _Known:
    """A Relation, Type or Truncate that was read before. schema: what a Relation says where the encoding
    and the names of types are as in `told`."""

    message: Message
    values: dict[str, Any]
    severity: int
    schema: Schema | None = None
    told: tuple[Any, ...] = ()


@dataclass(slots=True)
class _Teaching:
    """Messages of one kind that describe, in one dialect. skip: bytes up to the end of an xid, which
    differs where all else is the same; known: by the bytes from there on, or by the length of those that
    end before."""

    message: Message | None
    dialect: Dialect
    skip: int
    known: dict[bytes | int, _Known]

    @classmethod
    def of(cls, tag: int, dialect: Dialect) -> _Teaching:
        message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
        xid = _places("pgoutput", message, dialect).get("xid") if message is not None else None
        return cls(message, dialect, xid[0] + xid[1] if xid is not None else 0, {})


class CopyBoth:
    """The fast lane for CopyData of both directions of a pgoutput stream."""

    def __init__(self, tables: Tables, state: PgoutputState) -> None:
        self.tables = tables
        self.state = state
        self.codec = ""
        self.events: dict[int, list[tuple[int, int]]] = {}
        self.before: dict[int, int] = {}
        self._teaching: dict[tuple[int, Dialect], _Teaching] = {}
        self._described: dict[int, tuple[int, Schema]] = {}
        self._widths = np.zeros(0, np.int32)  # by number of a schema, -2 for those without columns

    def frontend(self, run: Run, dialect: Dialect) -> Answers:
        """Status updates and feedback of the client: nothing to follow, only to check."""
        answers, _, read = self._envelope(run, "frontend", dialect)
        for i in np.flatnonzero(read).tolist():
            self._read(run, i, "frontend", dialect, answers, None)
        return answers

    def _envelope(self, run: Run, layer: str, dialect: Dialect) -> tuple[Answers, Array, Array]:
        """Paths and LSNs of the replication layer; also which carry a pgoutput message (mask), and
        which have to be read (mask)."""
        answers = Answers.blank(len(run))
        answers.dialect[:] = self.tables.dialects.number(dialect)
        told = self._told(run, dialect) if layer == "backend" else None
        if told is not None:
            carries, places = told.kind > 0, np.flatnonzero(told.kind == 0)
            answers.lsn[:] = told.lsn
            name = catalogue.by_name("XLogData", dialect.release).name_in(dialect.release)
            answers.path[:] = self.tables.paths.number(("CopyData", name))
        else:
            carries, places = np.zeros(len(run), bool), np.arange(len(run))
        starts, ends = run.starts[places], run.ends[places]
        read = np.zeros(len(run), bool)
        read[places] = (ends - starts <= HEADER) | (ends > len(run.data) - ROOM)
        tags = run.u1[np.minimum(starts + HEADER, len(run.data) - 1)]
        for tag, mine in grouped(tags):
            chosen = places[mine]
            message = catalogue.lookup("replication", tag, dialect.release, dialect)
            if message is None or message.direction != ("F" if layer == "frontend" else "B"):
                read[chosen] = True
                continue
            shape = shape_of(message, dialect)
            known = _places("replication", message, dialect)
            at = run.starts[chosen] + HEADER
            heads = run.heads(at, _reach(shape, known))
            good = check_head(heads, shape, at, run.ends[chosen]) & ~read[chosen]
            name = message.name_in(dialect.release)
            answers.path[chosen] = self.tables.paths.number(("CopyData", name))
            place = known.get("start_lsn") or (known.get("end_lsn") if layer == "backend" else None)
            lsns = heads.field(place[0], place[1]) if place is not None else None
            kept = chosen
            if not good.all():
                read[chosen[~good]] = True
                kept, at = chosen[good], at[good]
                lsns = lsns[good] if lsns is not None else None
            if lsns is not None:
                answers.lsn[kept] = lsns
            if shape.carries:
                whole = run.ends[kept] > at + shape.size
                carries[kept[whole]] = True
                read[kept[~whole]] = True
        return answers, carries, read

    def backend(self, run: Run, dialect: Dialect, codec: str) -> Answers:
        """The server's CopyData: keepalives and WAL data, in the state that this stream is in."""
        self.codec = codec
        answers, carries, read = self._envelope(run, "backend", dialect)
        count, told = len(run), self._told(run, dialect)
        wal = catalogue.by_name("XLogData", dialect.release)
        inner = run.starts + (HEADER + shape_of(wal, dialect).size)
        # a message that has to be read may carry one all the same: the state follows it then, too
        odd = self._odd(run, read, dialect, carries)
        tags = np.zeros(count, np.uint8) if told is None else told.kind.copy()
        more = np.flatnonzero(carries & (tags == 0))
        tags[more] = run.u1[inner[more]]
        in_stream = self._in_stream(tags)
        dialects = (replace(dialect, in_stream=False), replace(dialect, in_stream=True))
        numbers = [self.tables.dialects.number(d) for d in dialects]
        if in_stream.any():
            answers.dialect[:] = np.where(in_stream, numbers[1], numbers[0])
        else:
            answers.dialect[:] = numbers[0]
        keys = tags.astype(np.uint16) | (in_stream.astype(np.uint16) << 8)
        keys[~carries] = _NONE
        work = self._pass(run, answers, read, keys, dialects, told)
        release = dialect.release
        prefix = ("CopyData", wal.name_in(release))
        paths = np.zeros(_NONE + 1, np.uint16)
        for key in np.flatnonzero(np.bincount(keys)).tolist():
            message = catalogue.lookup("pgoutput", key & 0xFF, release, dialects[key >> 8 & 1])
            if key != _NONE and message is not None:
                paths[key] = self.tables.paths.number((*prefix, message.name_in(release)))
        for key, mine in grouped(keys[work.left]):
            if key != _NONE:
                chosen = work.left[mine]
                self._kind(work, chosen, inner[chosen], key & 0xFF, dialects[key >> 8])
        found = paths[keys]
        np.copyto(answers.path, found, where=found > 0)
        if work.tuples:
            looked = np.concatenate([places for places, _, _ in work.tuples])
            good = sound(run, work.tuples, work.columns, dialects[0].release)
            work.read[looked[~good[looked]]] = True
        work.read |= odd
        self._follow(work, tags, in_stream, carries, dialects, inner)
        self._relations(work)
        for i in np.flatnonzero(work.read).tolist():
            schema = self.tables.schemas[int(answers.relation[i])]
            self._read(run, i, "backend", dialects[int(in_stream[i])], answers, schema)
        return answers

    @staticmethod
    def _told(run: Run, dialect: Dialect) -> Told | None:
        """What was found in the run's messages before, if WAL data is read in the same way here."""
        wal = catalogue.by_name("XLogData", dialect.release)
        alike = wal_shape(dialect.release) == wal_shape(NEWEST)
        return run.told if alike and shape_of(wal, dialect) == wal_shape(NEWEST)[0] else None

    def _pass(
        self, run: Run, answers: Answers, read: Array, keys: Array,
        dialects: tuple[Dialect, Dialect], told: Told | None,
    ) -> _Pass:  # fmt: skip
        """The pass over messages with these type bytes (and 0x100 for in-stream), with what was found in
        them before where that is read in the same way here."""
        count = len(run)
        work = _Pass(
            run, answers, read, np.zeros(count, np.uint32), np.zeros(count, np.uint32),
            np.zeros(count, bool), np.zeros(count, bool), np.full((2, count), -1, np.int32), [],
            np.arange(count),
        )  # fmt: skip
        if told is None:
            return work
        forms, severities = _forms(*dialects)
        known = told.form == forms[keys]
        np.copyto(work.own, told.xid, where=known)
        np.copyto(work.oids, told.oid, where=known)
        np.copyto(work.columns[0], told.old, where=known)
        np.copyto(work.columns[1], told.new, where=known)
        work.has_oid |= known
        if severities.any():
            answers.severity[known] = severities[keys[known]]
        work.left = np.flatnonzero(~known)
        return work

    def _odd(self, run: Run, read: Array, dialect: Dialect, carries: Array) -> Array:
        """Of the messages that have to be read, mark those that carry a pgoutput message all the
        same; returns the mask of all of them."""
        odd = read.copy()
        for i in np.flatnonzero(read).tolist():
            start, end = int(run.starts[i]), int(run.ends[i])
            chain = messages(annotate(run.data, "backend", dialect, start, end))
            if len(chain) > 2:
                carries[i] = isinstance(chain[2].declaration, Message)
        return odd

    def _in_stream(self, tags: Array) -> Array:
        """Whether each message stands inside a stream segment; Stream Stop itself still does."""
        start, stop = _tags()["Stream Start"], _tags()["Stream Stop"]
        starts = tags == start
        change = np.flatnonzero(starts | (tags == stop))
        if not len(change):
            return np.full(len(tags), self.state.in_stream)
        runs = np.diff(np.concatenate(([-1], change, [len(tags) - 1])))
        values = np.concatenate(([self.state.in_stream], starts[change]))
        return np.repeat(values, runs)

    def _kind(self, work: _Pass, chosen: Array, at: Array, tag: int, dialect: Dialect) -> None:
        """Messages of one pgoutput kind in one dialect: own xid, OID, and whether ordinary."""
        run = work.run
        message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
        if message is None:
            work.read[chosen] = True
            return
        end = run.ends[chosen]
        known = _places("pgoutput", message, dialect)
        shape = shape_of(message, dialect)
        heads = run.heads(at, _reach(shape, known))
        for name in ("xid", "relation_oid", "subxid"):
            if name not in known:
                continue
            offset, width, _ = known[name]
            where, values = chosen, heads.field(offset, width)
            fits = at + (offset + width) <= end
            if not fits.all():
                where, values = chosen[fits], values[fits]
            if name == "xid":
                work.own[where] = values
            elif name == "subxid":
                work.answers.subxids.append((where, values))
            else:
                work.oids[where] = values
                work.has_oid[where] = message.name != "Relation"
        if message.name == "Message" and "flags" in known:
            offset = known["flags"][0]
            fits = at + offset < end
            work.silent[chosen] = ~fits | ((heads.field(offset, 1) & 1) == 0)
        if message.name in TEACHING:
            return  # read one by one, or known by their bytes: see `_follow`
        good = check_head(heads, shape, at, end)
        good &= ~work.read[chosen]
        if shape.tail:
            check_tail(run, shape, at, end, good)
        if shape.tuples:
            work.tuples.append((chosen[good], at[good] + shape.size, shape))
        if shape.severity:
            work.answers.severity[chosen] = shape.severity
        if not good.all():
            work.read[chosen[~good]] = True

    def _follow(
        self, work: _Pass, tags: Array, in_stream: Array, carries: Array,
        dialects: tuple[Dialect, Dialect], inner: Array,
    ) -> None:  # fmt: skip
        """Transactions by context, and the messages that teach: Relation, Type, Truncate."""
        state, names, own, answers = self.state, _tags(), work.own, work.answers
        opens = (tags == names["Begin"]) | (tags == names["Begin Prepare"])
        closes = (tags == names["Commit"]) | (tags == names["Prepare"])
        current = _filled(opens | closes, np.where(opens, own, 0), state.xid, closes)
        starts = tags == names["Stream Start"]
        streamed = bool(starts.any()) or bool(in_stream.any())
        if streamed:
            stream = _filled(starts, own, state.stream_xid, np.zeros(len(tags), bool))
            stops = tags == names["Stream Stop"]
            context = np.where(in_stream & ~stops, stream, current)
            xid = np.where(own > 0, own, context)
            xid = np.where(starts, own, np.where(stops & (stream > 0), stream, xid))
        else:
            xid = np.where(own > 0, own, current)
            if state.stream_xid:
                xid[tags == names["Stream Stop"]] = state.stream_xid
        answers.xid[:] = np.where(carries & ~work.silent, xid, 0)
        self.events = {}
        self.before = dict(state.relations)
        teaching = (
            (tags == names["Relation"]) | (tags == names["Type"]) | (tags == names["Truncate"])
        )
        taught = np.flatnonzero(teaching & carries)
        if len(taught):
            ends = work.run.ends[taught].tolist()
            each = zip(
                taught.tolist(), tags[taught].tolist(), in_stream[taught].tolist(),
                inner[taught].tolist(), ends, strict=True,
            )  # fmt: skip
            kinds: dict[tuple[int, bool], _Teaching] = {}
            for i, tag, inside, start, end in each:
                kind = kinds.get((tag, inside))
                if kind is None:
                    kind = kinds[tag, inside] = self._kind_that_teaches(tag, dialects[inside])
                self._teach(work, i, kind, start, end)
        if len(tags):
            changed = np.flatnonzero(opens | closes)
            if len(changed):
                last = int(changed[-1])
                state.xid = int(own[last]) if opens[last] else 0
            if streamed:
                begun = np.flatnonzero(starts)
                if len(begun):
                    state.stream_xid = int(own[begun[-1]])
                edges = np.flatnonzero(starts | (tags == names["Stream Stop"]))
                if len(edges):
                    state.in_stream = bool(starts[edges[-1]])

    def _kind_that_teaches(self, tag: int, dialect: Dialect) -> _Teaching:
        found = self._teaching.get((tag, dialect))
        if found is None:
            found = self._teaching[tag, dialect] = _Teaching.of(tag, dialect)
        return found

    def _teach(self, work: _Pass, i: int, teaching: _Teaching, start: int, end: int) -> None:
        """A message that describes: by its bytes where they were seen before."""
        if teaching.message is None:
            return
        skip = start + teaching.skip
        key = work.run.data[skip:end] if skip <= end else end - start
        known = teaching.known.get(key)
        if known is None:
            tree = annotate(work.run.data, "pgoutput", teaching.dialect, start, end)
            severity = max((f.severity for f in findings(tree)), default=0)
            values = of_node(tree)
            known = _Known(teaching.message, values, severity)
            if end - start < LONG_BODY:
                if len(teaching.known) >= REMEMBERED:
                    teaching.known.clear()
                teaching.known[key] = known
        if known.severity:
            work.read[i] = True
        work.answers.relation[i] = self._describe(i, known)

    def _describe(self, i: int, known: _Known) -> int:
        state = self.state
        if known.message.name != "Relation":
            return state.describe(known.message, known.values, self.codec)
        # what it says hangs on its bytes, the encoding, and the types that were named before
        told = self.codec, state.named
        if known.schema is None or known.told != told:
            known.schema, known.told = state.described(known.values, self.codec), told
        oid = known.schema.oid
        number, described = self._described.get(oid, _NOTHING)
        if described is not known.schema or number != state.relations.get(oid):
            number = state.accept(known.schema)
            self._described[oid] = (number, known.schema)
        self.events.setdefault(oid, []).append((i, number))
        return number

    def _relations(self, work: _Pass) -> None:
        """The Relation in force for each row message, by OID and place in the run."""
        places = np.flatnonzero(work.has_oid)
        if not len(places):
            return
        wanted = work.oids[places]
        heads = np.flatnonzero(np.concatenate(([True], wanted[1:] != wanted[:-1])))
        distinct, which = np.unique(wanted[heads], return_inverse=True)
        first = [self.before.get(oid, 0) for oid in distinct.tolist()]
        sizes = np.diff(np.concatenate((heads, [len(wanted)])))
        found = np.repeat(np.array(first, np.uint32)[which], sizes)
        for oid in distinct.tolist():
            events = [e for e in self.events.get(oid, ()) if e[1] != self.before.get(oid, 0)]
            if not events:
                continue
            events = self.events[oid]
            mine = np.flatnonzero(wanted == oid)
            numbers = np.array([self.before.get(oid, 0), *(n for _, n in events)], np.uint32)
            when = np.array([i for i, _ in events], np.int64)
            found[mine] = numbers[np.searchsorted(when, places[mine])]
        work.answers.relation[places] = found
        schemas = self.tables.schemas
        if len(self._widths) < len(schemas):
            more = [schemas[n] for n in range(len(self._widths), len(schemas))]
            wide = [len(each.columns) if each.kind == "relation" else -2 for each in more]
            self._widths = np.concatenate((self._widths, np.array(wide, np.int32)))
        width = self._widths[found]
        odd = width < 0
        for counts in work.columns[:, places]:
            odd |= (counts >= 0) & (counts != width)
        work.read[places[odd]] = True

    def _read(
        self, run: Run, i: int, layer: str, dialect: Dialect, answers: Answers,
        schema: Schema | None,
    ) -> None:  # fmt: skip
        """One message that is not ordinary: what the exact lane would say of it."""
        tree = annotate(run.data, layer, dialect, int(run.starts[i]), int(run.ends[i]))
        chain = messages(tree)
        answers.path[i] = self.tables.paths.number(tuple(node.name for node in chain))
        if len(chain) > 1:
            outer = of_node(chain[1])
            lsn = outer.get("start_lsn")
            if lsn is None and layer == "backend":
                lsn = outer.get("end_lsn")
            answers.lsn[i] = NO_LSN if lsn is None else lsn
        found = findings(tree)
        if schema is not None:
            found += schema_findings(tree, schema)
        answers.severity[i] = max((f.severity for f in found), default=0)


def _filled(marks: Array, values: Array, before: int, inclusive_end: Array) -> Array:
    """Fill forward: at each place the value of the last mark before it, or at it.

    A mark in `inclusive_end` takes effect only after its own place.
    """
    count = len(marks)
    index = np.where(marks & ~inclusive_end, np.arange(count), -1)
    ended = np.flatnonzero(marks & inclusive_end)
    after = ended + 1
    after = after[after < count]
    # a closing mark acts as a mark on the next place, unless that place has its own
    closing = np.zeros(count, bool)
    closing[after] = True
    closing &= ~(marks & ~inclusive_end)
    index = np.where(closing, np.arange(count), index)
    filled = np.maximum.accumulate(index) if count else index
    source = np.where(closing, 0, values)
    return np.where(filled >= 0, source[np.maximum(filled, 0)], before).astype(np.uint32)
