"""Many messages at once: the index's fast lane, equal to the session's message by message.

A run is a stretch of one direction's stream in which nothing can change the connection's state but what
this module follows itself: CopyData of a logical replication stream, DataRows, COPY rows. Tags, LSNs,
xids and OIDs are gathered from the places that the catalogue yields; in-stream state, transactions and
relation versions are filled forward; and messages in which anything is unusual are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue
from .annotate import annotate
from .decode import probes
from .facts import of_node
from .node import findings, messages
from .pgoutput_state import PgoutputState
from .recognise import HEADER, LARGEST
from .rows import NO_LSN
from .schema_findings import schema_findings
from .schemas import Schema, Tables
from .spec import Choice, Dialect, Field, Message, Repeat, When

Array = NDArray[Any]
_LENGTH = Struct(">I").unpack_from

SHORT = 16
"""Runs of fewer messages are not worth the arrays."""


def walk(data: bytes, at: int, limit: int) -> tuple[list[int], int]:
    """Starts of the whole messages from `at`, and where the walk stopped.

    Stops at the first message that is not whole, has a length that none can have, or when `limit`
    messages were found. This loop and that over record lengths are the only sequential ones.
    """
    starts: list[int] = []
    end = len(data) - HEADER
    add, size = starts.append, len(data)
    while at <= end and limit:
        (length,) = _LENGTH(data, at + 1)
        after = at + 1 + length
        if after > size or not 4 <= length <= LARGEST:
            break
        add(at)
        at = after
        limit -= 1
    return starts, at


class Run:
    """Messages of one direction: `data`, and arrays of their starts and ends in it (int64).

    u1, u2, u4, u8: item i is the big-endian number that begins at byte i of the data.
    """

    def __init__(self, data: bytes, starts: Array, ends: Array) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends
        self.u1 = np.frombuffer(data, np.uint8)
        self.u2, self.u4, self.u8 = (self._view(t) for t in (">u2", ">u4", ">u8"))

    def __len__(self) -> int:
        return len(self.starts)

    def _view(self, dtype: str) -> Array:
        width = np.dtype(dtype).itemsize
        count = max(len(self.data) - width + 1, 0)
        return np.ndarray((count,), dtype, self.data, strides=(1,))

    def gather(self, at: Array, width: int) -> Array:
        """The unsigned numbers of `width` bytes at offsets `at`; all must lie inside the data."""
        view = {1: self.u1, 2: self.u2, 4: self.u4, 8: self.u8}[width]
        return view[at]


@dataclass(slots=True)
class Answers:
    """What the fast lane says of a run's messages, one item each."""

    path: Array
    lsn: Array
    xid: Array
    relation: Array
    dialect: Array
    severity: Array

    @classmethod
    def blank(cls, count: int) -> Answers:
        return cls(
            np.zeros(count, np.uint16), np.full(count, NO_LSN, np.uint64),
            np.zeros(count, np.uint32), np.zeros(count, np.uint32),
            np.zeros(count, np.uint16), np.zeros(count, np.uint8),
        )  # fmt: skip


# -- what the declarations say about checking a message at once


@dataclass(frozen=True, slots=True)
class Shape:
    """How messages of one kind are checked without reading them one by one.

    size: bytes where all fields are of fixed width, else 0. exact: (offset, width, value) that must
    hold. nonzero: (offset, width) of times. bits: (offset, mask) of bytes that may only have these
    bits. listed: (offset, allowed values) of bytes. tuples: it ends in tuples that `_tuples` walks;
    start: where they begin; old / new: letters. Anything else is read one by one (`plain` False).
    """

    plain: bool
    size: int = 0
    exact: tuple[tuple[int, int, int], ...] = ()
    nonzero: tuple[tuple[int, int], ...] = ()
    bits: tuple[tuple[int, int], ...] = ()
    listed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    start: int = 0
    old: tuple[int, ...] = ()
    old_required: bool = False
    new: int = -1
    carries: bool = False


_READ = Shape(False)


@cache
def shape_of(message: Message, dialect: Dialect) -> Shape:
    """The Shape of `message` in `dialect`; one that says "read it" where the declaration is not simple."""
    if message.since > dialect.release or message.proto > dialect.proto_version > 0:
        return _READ  # worth a finding every time
    at = 0
    exact, nonzero, bits, listed = [], [], [], []
    parts = _resolved(message, dialect)
    for i, part in enumerate(parts):
        if isinstance(part, Choice) or (isinstance(part, Field) and part.kind.rule == "part"):
            return _tuple_shape(parts[i:], at, exact, nonzero, bits, listed)
        if isinstance(part, Field) and part.layer and i == len(parts) - 1:
            return Shape(
                True, at, tuple(exact), tuple(nonzero), tuple(bits), tuple(listed), carries=True
            )
        if not isinstance(part, Field) or part.kind.rule != "fixed":
            return _READ
        if isinstance(part.constant, str) and part.name == "new_tag":
            return _tuple_shape(parts[i:], at, exact, nonzero, bits, listed)
        width = part.kind.width
        if isinstance(part.constant, int) and not part.includes_self:
            if part.also:
                return _READ
            exact.append((at, width, part.constant))
        elif part.flags:
            if width != 1:
                return _READ
            bits.append((at, sum(part.flags)))
        elif part.kind.show == "timestamp":
            nonzero.append((at, width))
        elif part.closed and part.values:
            if width != 1:
                return _READ
            allowed = tuple(ord(v) if isinstance(v, str) else v for v in part.values)
            listed.append((at, allowed))
        at += width
    return Shape(True, at, tuple(exact), tuple(nonzero), tuple(bits), tuple(listed))


def _resolved(message: Message, dialect: Dialect) -> list[Any]:
    """The parts of `message` with the dialect's conditions settled, one level."""
    found: list[Any] = []
    for part in message.parts_in(dialect.release):
        if isinstance(part, When) and part.condition in ("in_stream", "parallel"):
            if getattr(dialect, part.condition):
                found += part.parts
        else:
            found.append(part)
    return found


def _tuple_shape(
    parts: list[Any], at: int, exact: list[Any], nonzero: list[Any], bits: list[Any],
    listed: list[Any],
) -> Shape:  # fmt: skip
    """A Shape that ends in an old tuple, a new tuple, or both."""
    old: tuple[int, ...] = ()
    required = False
    new = -1
    for part in parts:
        if isinstance(part, Choice):
            old = tuple(ord(str(option.constant)) for option in part.options)
            required = part.required
        elif isinstance(part, Field) and isinstance(part.constant, str):
            new = ord(part.constant)
        elif isinstance(part, Repeat):
            return _READ
    return Shape(
        True, 0, tuple(exact), tuple(nonzero), tuple(bits), tuple(listed), at, old, required, new
    )


@cache
def _kinds() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """TupleData's kind bytes: those without a value, and those with a length and a value."""
    part = catalogue.part("TupleData")
    repeat = next(p for p in part.parts if isinstance(p, Repeat))
    choice = next(p for p in repeat.parts if isinstance(p, Choice))
    valued = next(p for p in repeat.parts if isinstance(p, When)).condition.partition("=")[2]
    letters = [str(option.constant) for option in choice.options]
    return (
        tuple(ord(c) for c in letters if c not in valued),
        tuple(ord(c) for c in letters if c in valued),
    )


def walk_tuple(run: Run, at: Array, end: Array, good: Array) -> tuple[Array, Array]:
    """Step over a TupleData at each `at`; clears `good` where it does not fit before `end`.

    Returns (offsets after the tuples, column counts). Entries that are not good are not moved.
    """
    bare, valued = (np.isin(np.arange(256), letters) for letters in _kinds())
    at = at.copy()
    good &= at + 2 <= end
    count = np.zeros(len(at), np.int64)
    count[good] = run.u2[at[good]]
    at[good] += 2
    left = np.where(good, count, 0)
    active = np.flatnonzero(left)
    while len(active):
        here, stop = at[active], end[active]
        fits = here < stop
        kind = run.u1[np.where(fits, here, 0)]
        value = valued[kind] & fits
        step = np.ones(len(active), np.int64)
        ok = fits & (bare[kind] | value)
        w = np.flatnonzero(value)
        if len(w):
            whole = here[w] + 5 <= stop[w]
            size = np.where(whole, run.u4[np.where(whole, here[w] + 1, 0)].astype(np.int64), 0)
            whole &= here[w] + 5 + size <= stop[w]
            step[w] += 4 + size
            ok[w] &= whole
        good[active[~ok]] = False
        active = active[ok]
        at[active] += step[ok]
        left[active] -= 1
        active = active[left[active] > 0]
    return at, count


class CopyBoth:
    """The fast lane for CopyData of both directions of a pgoutput stream."""

    def __init__(self, tables: Tables, state: PgoutputState, codec: str) -> None:
        self.tables = tables
        self.state = state
        self.codec = codec
        self.names = {message.name: ord(message.tag) for message in catalogue.in_layer("pgoutput")}

    def frontend(self, run: Run, dialect: Dialect) -> Answers:
        """Status updates and feedback of the client: nothing to follow, only to check."""
        return self._envelope(run, "frontend", dialect)[0]

    def _envelope(self, run: Run, layer: str, dialect: Dialect) -> tuple[Answers, Array, Array]:
        """Paths and LSNs of the replication layer; also which carry a pgoutput message (mask), and
        which have to be read (mask)."""
        answers = Answers.blank(len(run))
        answers.dialect[:] = self.tables.dialects.number(dialect)
        carries = np.zeros(len(run), bool)
        sizes = run.ends - run.starts
        tags = np.where(sizes > HEADER, run.u1[np.minimum(run.starts + HEADER, len(run.u1) - 1)], 0)
        read = sizes <= HEADER
        for tag in np.unique(tags[~read]).tolist():
            chosen = np.flatnonzero(tags == tag)
            message = catalogue.lookup("replication", tag, dialect.release, dialect)
            if message is None or message.direction != ("F" if layer == "frontend" else "B"):
                read[chosen] = True
                continue
            shape = shape_of(message, dialect)
            at = run.starts[chosen] + HEADER
            good = self._check(run, shape, at, run.ends[chosen], message)
            read[chosen[~good]] = True
            name = message.name_in(dialect.release)
            answers.path[chosen] = self.tables.paths.number(("CopyData", name))
            known = probes("replication", message.name, dialect)
            place = known.get("start_lsn") or (known.get("end_lsn") if layer == "backend" else None)
            kept = chosen[good]
            if place is not None:
                answers.lsn[kept] = run.gather(at[good] + place[0], place[1])
            if shape.carries:
                whole = run.ends[kept] > at[good] + shape.size
                carries[kept[whole]] = True
                read[kept[~whole]] = True
        if layer == "frontend":
            for i in np.flatnonzero(read).tolist():
                self._read(run, i, layer, dialect, answers, None)
        return answers, carries, read

    def _check(self, run: Run, shape: Shape, at: Array, end: Array, message: Message) -> Array:
        """Which of the messages at `at` are ordinary by their Shape."""
        if not shape.plain:
            return np.zeros(len(at), bool)
        need = shape.start or shape.size
        good = at + need <= end
        if shape.size and not shape.carries:
            good &= at + need == end
        safe = np.where(good, at, 0)
        if len(run.u8) == 0:
            return np.zeros(len(at), bool)
        safe = np.minimum(safe, max(len(run.data) - need, 0))
        for offset, width, value in shape.exact:
            good &= run.gather(safe + offset, width) == value
        for offset, width in shape.nonzero:
            good &= run.gather(safe + offset, width) != 0
        for offset, mask in shape.bits:
            good &= (run.u1[safe + offset] & (~mask & 0xFF)) == 0
        for offset, allowed in shape.listed:
            good &= np.isin(run.u1[safe + offset], allowed)
        return good

    def backend(self, run: Run, dialect: Dialect) -> Answers:
        """The server's CopyData: keepalives and WAL data, in the state that this stream is in."""
        answers, carries, read = self._envelope(run, "backend", dialect)
        count = len(run)
        wal = catalogue.by_name("XLogData", dialect.release)
        inner = run.starts + HEADER + shape_of(wal, dialect).size
        tags = np.zeros(count, np.uint8)
        tags[carries] = run.u1[inner[carries]]
        in_stream = self._in_stream(tags)
        outside, inside = (replace(dialect, in_stream=flag) for flag in (False, True))
        numbers = [self.tables.dialects.number(d) for d in (outside, inside)]
        answers.dialect[:] = np.where(in_stream, numbers[1], numbers[0])
        own = np.zeros(count, np.uint32)
        oids = np.zeros(count, np.uint32)
        has_oid = np.zeros(count, bool)
        silent = np.zeros(count, bool)
        columns = np.full((2, count), -1, np.int64)
        prefix = ("CopyData", wal.name_in(dialect.release))
        for tag in np.unique(tags[carries]).tolist():
            for flag, each in ((False, outside), (True, inside)):
                chosen = np.flatnonzero(carries & (tags == tag) & (in_stream == flag))
                if len(chosen):
                    self._kind(
                        run, chosen, inner[chosen], tag, each, answers, prefix, read, own, oids,
                        has_oid, silent, columns,
                    )  # fmt: skip
        self._follow(run, tags, in_stream, own, silent, carries, answers, (outside, inside), inner)
        self._relations(answers, oids, has_oid, columns, read)
        for i in np.flatnonzero(read).tolist():
            each = inside if in_stream[i] else outside
            schema = self.tables.schemas[int(answers.relation[i])]
            self._read(run, i, "backend", each, answers, schema)
        return answers

    def _in_stream(self, tags: Array) -> Array:
        """Whether each message stands inside a stream segment; Stream Stop itself still does."""
        start, stop = self.names["Stream Start"], self.names["Stream Stop"]
        change = np.flatnonzero((tags == start) | (tags == stop))
        flags = np.empty(len(tags), bool)
        flags[: (change[0] + 1) if len(change) else len(tags)] = self.state.in_stream
        bounds = [*(change + 1).tolist(), len(tags)]
        for i, here in enumerate(change.tolist()):
            flags[bounds[i] : bounds[i + 1] + 1] = tags[here] == start
        return flags

    def _kind(
        self, run: Run, chosen: Array, at: Array, tag: int, dialect: Dialect, answers: Answers,
        prefix: tuple[str, ...], read: Array, own: Array, oids: Array, has_oid: Array,
        silent: Array, columns: Array,
    ) -> None:  # fmt: skip
        """All messages of one pgoutput kind in one dialect: path, own xid, OID, and whether ordinary."""
        message = catalogue.lookup("pgoutput", tag, dialect.release, dialect)
        if message is None:
            read[chosen] = True
            return
        name = message.name_in(dialect.release)
        answers.path[chosen] = self.tables.paths.number((*prefix, name))
        end = run.ends[chosen]
        known = probes("pgoutput", message.name, dialect)
        for field, target in (("xid", own), ("relation_oid", oids)):
            if field in known:
                offset, width, _ = known[field]
                fits = at + offset + width <= end
                target[chosen[fits]] = run.gather(at[fits] + offset, width)
                if field == "relation_oid" and message.name != "Relation":
                    has_oid[chosen[fits]] = True
        if message.name == "Message" and "flags" in known:
            offset = known["flags"][0]
            fits = at + offset < end
            silent[chosen] = True
            silent[chosen[fits]] = (run.u1[at[fits] + offset] & 1) == 0
        shape = shape_of(message, dialect)
        good = self._check(run, shape, at, end, message)
        if shape.plain and shape.start:
            self._tuples(run, shape, at, end, good, chosen, columns)
        read[chosen[~good]] = True

    def _tuples(
        self, run: Run, shape: Shape, at: Array, end: Array, good: Array, chosen: Array,
        columns: Array,
    ) -> None:  # fmt: skip
        """Walk the old and new tuples of messages; clears `good` where anything is unusual."""
        at = at + shape.start
        if shape.old:
            good &= at < end
            letter = np.where(good, run.u1[np.where(good, at, 0)], 0)
            olds = good & np.isin(letter, shape.old)
            if shape.old_required:
                good &= olds
            picked = np.flatnonzero(olds)
            if len(picked):
                fine = np.ones(len(picked), bool)
                after, count = walk_tuple(run, at[picked] + 1, end[picked], fine)
                good[picked] &= fine
                at[picked] = after
                columns[0, chosen[picked]] = count
        if shape.new >= 0:
            good &= at < end
            good &= run.u1[np.where(good, at, 0)] == shape.new
            picked = np.flatnonzero(good)
            fine = np.ones(len(picked), bool)
            after, count = walk_tuple(run, at[picked] + 1, end[picked], fine)
            good[picked] &= fine
            at[picked] = after
            columns[1, chosen[picked]] = count
        good &= at == end

    def _follow(
        self, run: Run, tags: Array, in_stream: Array, own: Array, silent: Array, carries: Array,
        answers: Answers, dialects: tuple[Dialect, Dialect], inner: Array,
    ) -> None:  # fmt: skip
        """Transactions by context, and the messages that teach: Relation, Type, Truncate."""
        state, names = self.state, self.names
        opens = (tags == names["Begin"]) | (tags == names["Begin Prepare"])
        closes = (tags == names["Commit"]) | (tags == names["Prepare"])
        current = _filled(opens | closes, np.where(opens, own, 0), state.xid, closes)
        starts = tags == names["Stream Start"]
        stream = _filled(starts, own, state.stream_xid, np.zeros(len(tags), bool))
        stops = tags == names["Stream Stop"]
        context = np.where(in_stream, stream, current)
        xid = np.where(stops, stream, np.where(own > 0, own, context))
        answers.xid[:] = np.where(carries & ~silent, xid, 0)
        teaching = np.isin(tags, [names["Relation"], names["Type"], names["Truncate"]]) & carries
        self.events: dict[int, list[tuple[int, int]]] = {}
        self.before = dict(state.relations)
        for i in np.flatnonzero(teaching).tolist():
            dialect = dialects[int(in_stream[i])]
            tree = annotate(run.data, "pgoutput", dialect, int(inner[i]), int(run.ends[i]))
            if isinstance(tree.declaration, Message):
                answers.relation[i] = self._teach(i, tree.declaration, of_node(tree))
        if len(tags):
            changed = opens | closes
            if changed.any():
                last = int(np.flatnonzero(changed)[-1])
                state.xid = int(own[last]) if opens[last] else 0
            if starts.any():
                state.stream_xid = int(own[np.flatnonzero(starts)[-1]])
            edges = np.flatnonzero(starts | stops)
            if len(edges):
                state.in_stream = bool(starts[edges[-1]])

    def _teach(self, i: int, message: Message, values: dict[str, Any]) -> int:
        number = self.state.describe(message, values, self.codec)
        if message.name == "Relation":
            self.events.setdefault(values.get("relation_oid") or 0, []).append((i, number))
        return number

    def _relations(
        self, answers: Answers, oids: Array, has_oid: Array, columns: Array, read: Array
    ) -> None:
        """The Relation in force for each row message, by OID and place in the run."""
        places = np.flatnonzero(has_oid)
        if not len(places):
            return
        wanted = oids[places]
        found = np.zeros(len(places), np.uint32)
        for oid in np.unique(wanted).tolist():
            mine = wanted == oid
            events = self.events.get(oid, [])
            numbers = np.array([self.before.get(oid, 0), *(n for _, n in events)], np.uint32)
            when = np.array([i for i, _ in events], np.int64)
            found[mine] = numbers[np.searchsorted(when, places[mine])]
        answers.relation[places] = found
        schemas = self.tables.schemas
        widths = np.full(len(schemas), -2, np.int64)
        for number in np.unique(found).tolist():
            if schemas[number].kind == "relation":
                widths[number] = len(schemas[number].columns)
        width = widths[found]
        odd = width < 0
        for counts in columns[:, places]:
            odd |= (counts >= 0) & (counts != width)
        read[places[odd]] = True

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
            if lsn is not None:
                answers.lsn[i] = lsn
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


def copy_rows(count: int, tables: Tables, dialect: Dialect) -> Answers:
    """CopyData that holds rows, WAL or text: nothing inside to follow."""
    answers = Answers.blank(count)
    answers.dialect[:] = tables.dialects.number(dialect)
    answers.path[:] = tables.paths.number(("CopyData",))
    return answers


def data_rows(run: Run, schema: int, tables: Tables, dialect: Dialect) -> Answers:
    """DataRows of one result: `schema` is its description's number."""
    answers = copy_rows(len(run), tables, dialect)
    answers.path[:] = tables.paths.number(("DataRow",))
    answers.relation[:] = schema
    at = run.starts + HEADER
    good = at + 2 <= run.ends
    left = np.zeros(len(run), np.int64)
    left[good] = run.u2[at[good]]
    at = at + 2
    active = np.flatnonzero(left)
    while len(active):
        here, stop = at[active], run.ends[active]
        ok = here + 4 <= stop
        size = run.u4[np.where(ok, here, 0)].astype(np.int64)
        null = size == 0xFFFFFFFF
        size = np.where(null, 0, size)
        ok &= here + 4 + size <= stop
        good[active[~ok]] = False
        active = active[ok]
        at[active] += 4 + size[ok]
        left[active] -= 1
        active = active[left[active] > 0]
    good &= at == run.ends
    for i in np.flatnonzero(~good).tolist():
        tree = annotate(run.data, "backend", dialect, int(run.starts[i]), int(run.ends[i]))
        answers.severity[i] = max((f.severity for f in findings(tree)), default=0)
    return answers
