"""CopyData of a logical replication stream, many messages at once.

Tags, LSNs, xids and OIDs are gathered from the places that the catalogue yields; in-stream state,
transactions and relation versions are filled forward; messages in which anything is unusual are read
one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from . import catalogue
from .ahead import NEWEST, NOTHING, Told, form_of, read_form, wal_shape
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
from .teaching import Relations, teaches
from .tuples import Tuples, alike, sound

_NONE = 0x200
"""The key of messages that carry nothing: above each type byte with the bit for in-stream."""


@cache
def _tags() -> dict[str, int]:
    return {message.name: ord(message.tag) for message in catalogue.in_layer("pgoutput")}


@cache
def _places(layer: str, message: Message, dialect: Dialect) -> dict[str, tuple[int, int, bool]]:
    return probes(layer, message.name, dialect)


@cache
def _forms(outside: Dialect, inside: Dialect) -> tuple[Array, Array, Array]:
    """By key (type byte, 0x100 in-stream): which form messages are of, 255 for none; the severity of what
    is wrong with every one of them; and whether they are row changes."""
    forms, severities = np.full(_NONE + 1, 255, np.uint8), np.zeros(_NONE + 1, np.uint8)
    rows = np.zeros(_NONE + 1, bool)
    for bit, dialect in ((0, outside), (0x100, inside)):
        if not alike(dialect.release, NEWEST):
            continue
        for tag in set(_tags().values()):
            message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
            if message is None:
                continue
            read = read_form(message, dialect)
            form = form_of(tag, read)
            if read is not None and form != NOTHING:
                forms[tag | bit] = form
                severities[tag | bit] = shape_of(message, dialect).severity
                rows[tag | bit] = read.oid is not None
    return forms, severities, rows


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


class CopyBoth:
    """The fast lane for CopyData of both directions of a pgoutput stream."""

    def __init__(self, tables: Tables, state: PgoutputState) -> None:
        self.tables = tables
        self.state = state
        self.relations = Relations(tables, state)

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
        self._follow(work, tags, in_stream, carries)
        taught = np.flatnonzero(teaches()[tags] & carries)
        learned = self.relations.learn(
            run, taught, inner[taught], tags[taught], in_stream[taught], dialects, codec
        )
        for i, number, fine in learned:
            answers.relation[i] = number
            work.read[i] |= not fine
        places = np.flatnonzero(work.has_oid)
        if len(places):
            found, odd = self.relations.in_force(work.oids[places], places, work.columns[:, places])
            answers.relation[places] = found
            work.read[places[odd]] = True
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
        forms, severities, rows = _forms(*dialects)
        known = told.form == forms.take(keys)
        np.copyto(work.own, told.xid, where=known)
        np.copyto(work.oids, told.oid, where=known)
        np.copyto(work.columns[0], told.old, where=known)
        np.copyto(work.columns[1], told.new, where=known)
        work.has_oid |= known & rows.take(keys)
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
            if len(chain) > 2 and chain[2].length:
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

    def _follow(self, work: _Pass, tags: Array, in_stream: Array, carries: Array) -> None:
        """Transactions by context; and the state behind the run."""
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
    at = np.flatnonzero(marks)
    later = inclusive_end[at]
    filled = np.concatenate(([before], np.where(later, 0, values[at]))).astype(np.uint32)
    edges = np.concatenate(([0], at + later, [len(marks)]))
    return np.repeat(filled, np.diff(edges))
