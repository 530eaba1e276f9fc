"""A look at bytes before anybody knows what they are: which CopyData messages follow each other in them, what
the WAL data in these says of itself, and which are sound row changes, or sound messages of a fixed length
(Begin, Commit).

Nothing here decides anything: who follows the session takes what fits what it knows, and looks for itself
where nothing fits. So this may be done in another process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue
from .capture.frames import member
from .capture.marks import marks_of
from .decode import probes
from .pgoutput_state import TEACHING
from .recognise import HEADER
from .rows import NO_LSN
from .shapes import ROOM, Run, Shape, check_head, shape_of
from .spec import Dialect, Message
from .tuples import Tuples, sound

Array = NDArray[Any]

NOTHING, WHOLE, STREAMED = range(3)
"""form: nothing is known; a sound message as it is outside a stream segment, or inside one."""

NEWEST = max(catalogue.RELEASES)

MARKED = ord(catalogue.by_name("CopyData").tag)
"""The type byte of the messages that are looked for."""

_WAL = ord(str(catalogue.by_name("XLogData").tag))

MOST = 2
"""Messages do not overlap. What looks like messages of more than so many times the bytes that there are was
made to look so, and walking all of it would take for ever."""


@dataclass(slots=True)
class Told:
    """What is known of messages, one entry each.

    kind uint8: type byte of the pgoutput message in sound WAL data, 0 where this is something else.
    lsn uint64: start of that WAL data. form uint8: see above; only where there is one are known xid, oid
    uint32: its own xid and its relation's OID, 0 for none; old, new int16: columns of its tuples, -1 for
    none.
    """

    kind: Array
    lsn: Array
    form: Array
    xid: Array
    oid: Array
    old: Array
    new: Array

    @classmethod
    def nothing(cls, count: int) -> Told:
        """Nothing, of so many messages."""
        none = np.full(count, -1, np.int16)
        zeros = np.zeros(count, np.uint32)
        return cls(
            np.zeros(count, np.uint8), np.full(count, NO_LSN, np.uint64), np.zeros(count, np.uint8),
            zeros, zeros.copy(), none, none.copy(),
        )  # fmt: skip

    def part(self, which: slice) -> Told:
        """Some of the entries."""
        return Told(*(getattr(self, each.name)[which] for each in fields(self)))


@dataclass(slots=True)
class Ahead:
    """Messages of a stretch of bytes that may be there, and nearly always are.

    starts int32: their offsets behind `base`, ascending; each message is whole. breaks: places of those
    behind which the next one does not begin at once, ascending; the last one is among them.
    """

    starts: Array
    breaks: Array
    told: Told
    base: int = 0

    def moved(self, by: int) -> Ahead:
        """The same, `by` bytes further on."""
        return replace(self, base=self.base + by)

    def follow(self, at: int, most: int) -> slice | None:
        """The messages that follow each other from offset `at` on, at most so many; None for none."""
        first = int(self.starts.searchsorted(at - self.base))
        if first == len(self.starts) or int(self.starts[first]) != at - self.base:
            return None
        last = int(self.breaks[self.breaks.searchsorted(first)])
        return slice(first, min(last + 1, first + most))

    def of(self, parts: Iterable[tuple[int, slice | None]], count: int) -> Told:
        """What is known of the first `count` messages that `walk` found: so many, and which they are."""
        found: list[Told] = []
        for size, which in parts:
            size = min(size, count)
            count -= size
            if size:
                some = None if which is None else slice(which.start, which.start + size)
                found.append(Told.nothing(size) if some is None else self.told.part(some))
        if len(found) == 1:
            return found[0]
        names = [each.name for each in fields(Told)]
        return Told(*(np.concatenate([getattr(t, name) for t in found]) for name in names))


@dataclass(frozen=True, slots=True)
class Form:
    """How messages of one kind are read: their shape, and (offset, width) of their xid and of their
    relation's OID, None for none; those with an OID are row changes."""

    shape: Shape
    xid: tuple[int, int] | None
    oid: tuple[int, int] | None


@cache
def read_form(message: Message, dialect: Dialect) -> Form | None:
    """None where messages of this kind are neither row changes nor of a fixed length, say more than their
    xid, or cannot be checked many at once."""
    shape = shape_of(message, dialect)
    known = probes("pgoutput", message.name, dialect)
    if not shape.plain or shape.carries or shape.tail or message.name in TEACHING:
        return None
    if shape.tuples != ("relation_oid" in known) or "subxid" in known:
        return None
    xid, oid = (known[n][:2] if n in known else None for n in ("xid", "relation_oid"))
    return Form(replace(shape, severity=0), xid, oid)


@cache
def _forms(form: int) -> dict[int, Form]:
    """By type byte, in the newest release."""
    streamed = form == STREAMED
    dialect = Dialect(
        NEWEST, proto_version=4 if streamed else 1, in_stream=streamed, copy="pgoutput"
    )
    each = {m: read_form(m, dialect) for m in catalogue.in_layer("pgoutput") if m.tag}
    return {ord(str(m.tag)): found for m, found in each.items() if found is not None}


@cache
def _has_form() -> Array:
    """By type byte: whether its messages are looked at."""
    table = np.zeros(256, bool)
    table[list(_forms(WHOLE))] = True
    return table


def form_of(tag: int, found: Form | None) -> int:
    """Which form messages with this type byte are of that are read in this way; NOTHING for none."""
    for form in (WHOLE, STREAMED):
        if found is not None and _forms(form).get(tag) == found:
            return form
    return NOTHING


@cache
def wal_shape(release: int) -> tuple[Shape, tuple[int, int]]:
    """The shape of WAL data that carries another layer, and (offset, width) of its start."""
    message = catalogue.by_name("XLogData", release)
    dialect = Dialect(release, copy="pgoutput")
    return shape_of(message, dialect), probes("replication", message.name, dialect)["start_lsn"][:2]


def look_ahead(data: Any) -> Ahead:
    """Look through `data`, bytes or a memoryview."""
    raw = np.frombuffer(data, np.uint8)
    starts, ends, breaks = _following(data, raw)
    told = Told.nothing(len(starts))
    found = Ahead(starts.astype(np.int32), breaks, told)
    shape, (offset, width) = wal_shape(NEWEST)
    inside = HEADER + shape.size
    fit = np.flatnonzero((starts + inside < ends) & (ends <= len(raw) - ROOM))
    if not len(fit):
        return found
    run = Run(data, starts, ends)
    at = starts[fit] + HEADER
    heads = run.heads(at, shape.size + 1)
    good = check_head(heads, shape, at, ends[fit])
    good &= heads.field(0, 1) == _WAL
    kinds, lsns = heads.field(shape.size, 1), heads.field(offset, width)
    if not good.all():
        fit, kinds, lsns = fit[good], kinds[good], lsns[good]
    told.kind[fit], told.lsn[fit] = kinds, lsns
    some = _has_form().take(kinds)
    fit, kinds = fit[some], kinds[some]
    if len(fit) and int((ends - starts)[fit].sum()) <= MOST * len(raw):
        _look_inside(run, fit, kinds, inside, told)
    return found


def _following(data: Any, raw: Array) -> tuple[Array, Array, Array]:
    """Starts and ends of whole messages that follow each other, and after which the next one does not.

    Every place that has the type byte and a zero behind it may be a message; what ends where another
    begins is taken for one. Only the exceptions are looked at one by one.
    """
    if len(raw) < HEADER:
        return (np.zeros(0, np.int64),) * 3
    marks = marks_of(raw, MARKED).astype(np.int64)
    lengths: Array = np.ndarray((len(raw) - 4,), ">u4", data, strides=(1,), offset=1)
    marks = marks[: int(marks.searchsorted(len(lengths)))]
    length = lengths[marks].astype(np.int64)
    after = marks + 1 + length
    after[(length < 4) | (after > len(raw))] = -1
    count = len(marks)
    if not count:
        return marks, after, marks
    odd = np.append(np.flatnonzero(after[:-1] != marks[1:]), count - 1)
    targets = after[odd]
    places = marks.searchsorted(targets)
    hit = (targets >= 0) & (marks[np.minimum(places, count - 1)] == targets)
    begins = np.append(0, odd[:-1] + 1)
    reached = np.zeros(count + 1, bool)
    reached[places[hit]] = True
    # where nothing whole ends, nothing is kept: such marks can be as many as the bytes
    some = np.flatnonzero((targets >= 0) | (begins < odd) | reached[odd])
    columns = odd[some], begins[some], targets[some] >= 0, places[some], hit[some]
    keep = np.zeros(count, bool)
    breaks: list[int] = []
    first = kept = 0
    for k, begin, whole, place, follows in zip(*(c.tolist() for c in columns), strict=True):
        if k < first:
            continue
        first = max(first, begin)
        stop = k + 1 if whole else k
        keep[first:stop] = True
        kept += stop - first
        first = place if follows else k + 1
        if not follows and kept and breaks[-1:] != [kept - 1]:
            breaks.append(kept - 1)
    which = np.flatnonzero(keep)
    return marks.take(which), after.take(which), np.array(breaks, np.int64)


def _look_inside(run: Run, fit: Array, kinds: Array, inside: int, told: Told) -> None:
    """Fill in what is known of the messages `fit`, which have the type bytes `kinds`."""
    parts: list[Tuples] = []
    forms: list[tuple[Array, int]] = []
    for tag, usual in _forms(WHOLE).items():
        mine = fit[kinds == tag]
        if not len(mine):
            continue
        shape = usual.shape
        if usual.oid is None:
            at, end = run.starts[mine] + inside, run.ends[mine]
            heads = run.heads(at, max(shape.size, 1))
            good = check_head(heads, shape, at, end)
            if usual.xid is not None:
                told.xid[mine] = heads.field(*usual.xid)
            told.form[mine[good]] = WHOLE
            continue
        letters = (*shape.old, shape.new) if shape.new >= 0 else shape.old
        at, end = run.starts[mine] + inside, run.ends[mine]
        here = member(run.u1[np.minimum(at + shape.size, end)], letters)
        for form, chosen, begin in (
            (WHOLE, mine[here], at[here]),
            (STREAMED, mine[~here], at[~here]),
        ):
            if not len(chosen):
                continue
            one = _forms(form)[tag]
            heads = run.heads(begin, one.shape.size)
            good = check_head(heads, one.shape, begin, run.ends[chosen])
            assert one.oid is not None
            told.oid[chosen] = heads.field(*one.oid)
            if one.xid is not None:
                told.xid[chosen] = heads.field(*one.xid)
            parts.append((chosen[good], begin[good] + one.shape.size, one.shape))
            forms.append((chosen[good], form))
    if not parts:
        return
    columns = np.full((2, len(run)), -1, np.int32)
    good = sound(run, parts, columns, NEWEST)
    for chosen, form in forms:
        told.form[chosen[good[chosen]]] = form
    told.old[:], told.new[:] = columns
