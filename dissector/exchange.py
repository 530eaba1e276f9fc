"""What both sides of an SQL session said, in the order in which it was whole: many messages at once.

Each side's next messages are found first, then put in order; only the session's steps (`dissector.queries`)
are taken one after the other. The rows of the index are made of all together.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bulk import SHORT
from .queries import COMMAND, Queries, Steps, Way
from .reads import Read
from .recognise import HEADER
from .rows import NO_LSN, RECORD, pack_record
from .schemas import Tables
from .sides import HELD_LIMIT, HUGE, LANE_TAGS, Side

Array = NDArray[Any]

HEAD = Struct(">BI").unpack_from

ROW = LANE_TAGS["rows"]

WINDOW, SPAN = 512, 1 << 18
"""Messages of a side that are found ahead of their turn, and about how many bytes of them."""

FEW = 24
"""Messages of both sides, up to which arrays cost more than they save."""

LEAST = 4
"""Messages of a side that are put in order at once where few could be taken before."""


@dataclass(slots=True)
class Said:
    """The next messages of a side: where in its buffer each begins, and the last one ends; how each is
    taken, and its bytes.

    more: another follows that can be taken in the same way; stopped: what follows cannot, or may not be.
    """

    side: Side
    steps: Steps
    buffer: bytes
    bounds: list[int]
    ways: list[Way] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    more: bool = True
    stopped: bool = False

    def __len__(self) -> int:
        return len(self.ways)

    def find(self) -> None:
        """Find messages ahead."""
        buffer, size, ways = self.buffer, len(self.buffer), self.steps.of
        at, enough = self.bounds[-1], self.bounds[0] + SPAN
        slow = self.side.slow_until - self.side.base
        found, rows = [at], 0
        self.more = False
        while at + HEADER <= size:
            tag, length = HEAD(buffer, at)
            rows = rows + 1 if tag == ROW and at >= slow else 0
            if tag not in ways or not 4 <= length < HUGE or rows == SHORT:
                self.stopped = True
                break
            end = at + length + 1
            if end > size:
                break
            if len(found) > WINDOW or at > enough:
                self.more = True
                break
            found.append(end)
            at = end
        if rows == SHORT:  # of a long run, which is worth the arrays, none is taken here
            del found[1 - SHORT :]
        self.bounds += found[1:]
        self.ways += [ways[buffer[at]] for at in found[:-1]]
        self.texts += [buffer[at:end] for at, end in pairwise(found)]

    def left(self, which: int) -> int:
        """Bytes in the buffer from a message on."""
        return len(self.buffer) - self.bounds[which]

    def take(self, count: int) -> None:
        """The first `count` are taken: the side's cursor goes on behind them."""
        side, at = self.side, self.bounds[count]
        side.consumed += at - side.at
        side.at = at
        side.count += count
        self.drop(count)

    def drop(self, count: int) -> None:
        """The first `count` were taken."""
        del self.bounds[:count], self.ways[:count], self.texts[:count]

    @property
    def open(self) -> bool:
        """Whether there may be another message behind these, which is not known."""
        return self.more or self.stopped or len(self.side.waiting) > 0

    def places(self, count: int) -> tuple[Array, Array, Array, Array, Array]:
        """Of the first `count` messages: offset, length, and the arrival, frame and time of the last byte."""
        side, bounds = self.side, np.array(self.bounds[: count + 1], np.int64) + self.side.base
        starts, ends = bounds[:-1], bounds[1:]
        if not count:
            return starts, starts, starts, starts, starts
        which = np.minimum(side.ends.searchsorted(ends), len(side.ends) - 1)
        return starts, ends - starts, side.arrivals[which], side.frames[which], side.times[which]


def said(side: Side, steps: Steps) -> Said:
    """What `side` says next: what was found before and not taken, and more."""
    found = side.said
    if found is not None:  # others may have taken some of them
        found.drop(bisect_left(found.bounds, side.at))
    if (
        found is None
        or not found.ways
        or found.steps.of is not steps.of
        or found.buffer is not side.buffer
        or found.bounds[0] != side.at
    ):
        found = side.said = Said(side, steps, side.buffer, [side.at])
    found.steps = steps  # another encoding, say, makes no difference to where messages are
    if found.more and len(found) <= WINDOW // 2:
        found.find()
    return found


class Exchange:
    """The next messages of two sides, `most` of each. order: their numbers, those of the second side after
    those of the first, in the order in which they were whole, as far as it is known what comes next. more:
    of one there are more than these.
    """

    def __init__(self, first: Said, second: Said, most: int) -> None:
        self.two = first, second
        self.counts = min(len(first), most), min(len(second), most)
        self.few = sum(self.counts) <= FEW
        order = self._few() if self.few else self._many()
        self.order, last = order, -1
        self.more = False
        for each, count in zip(self.two, self.counts, strict=True):
            last += count
            more = each.more or len(each) > count
            self.more |= more
            if more or each.open:
                known = order.index(last) + 1 if count else 0
                self.order = self.order[:known]

    def _few(self) -> list[int]:
        """Look up where messages end, one by one; their order."""
        self._places = [
            each.side.place(each.side.base + end)
            for each, count in zip(self.two, self.counts, strict=True)
            for end in each.bounds[1 : count + 1]
        ]
        return sorted(range(len(self._places)), key=lambda i: self._places[i][0])

    def _many(self) -> list[int]:
        """The same by arrays."""
        places = (each.places(count) for each, count in zip(self.two, self.counts, strict=True))
        self._starts, self._lengths, self._arrivals, self._frames, self._times = map(
            np.concatenate, zip(*places, strict=True)
        )
        return np.argsort(self._arrivals, kind="stable").tolist()

    def take(self, session: Queries, free: bool) -> tuple[list[Read], list[int]]:
        """Have the session take messages in their order: of those that it took, what they say and the
        numbers of their schemas.

        It stops before one that waits for the other side's (free: none does), and where more changes than
        the conversation.
        """
        (first, second), (count, rest) = self.two, self.counts
        ways = first.ways[:count] + second.ways[:rest]
        texts = first.texts[:count] + second.texts[:rest]
        queue, base = session.conversation.queue, session.base
        reads: list[Read] = []
        schemas: list[int] = []
        for i in self.order:
            after, step = ways[i]
            mine = first if i < count else second
            waits = after and not free and (queue[0].kind if queue else "") not in after
            if waits and mine.left(i if mine is first else i - count) < HELD_LIMIT:
                break
            known = mine.steps.reads
            read = known.kept.get(texts[i]) or known.read(texts[i])
            schema = step(session, read)
            if schema == COMMAND:
                break
            reads.append(read)
            schemas.append(schema)
            if session.base is not base:
                break
        return reads, schemas

    def rows(
        self, reads: list[Read], schemas: list[int], number: int, flags: int, tables: Tables
    ) -> bytes:
        """The rows of what was taken, packed; both sides go on behind it."""
        first, second = self.two
        taken = np.array(self.order[: len(reads)], np.intp)
        count = int(np.count_nonzero(taken >= self.counts[0]))
        if self.few:
            records = self._rows_of_few(reads, schemas, number, flags, tables)
        else:
            records = self._rows(taken, reads, schemas, number, flags, tables)
        first.take(len(reads) - count)
        second.take(count)
        return records

    def _rows_of_few(
        self, reads: list[Read], schemas: list[int], number: int, flags: int, tables: Tables
    ) -> bytes:
        (first, second), begins, records = self.two, self.counts[0], bytearray()
        for i, read, schema in zip(self.order, reads, schemas, strict=False):
            mine, which = (first, i) if i < begins else (second, i - begins)
            start, end = mine.bounds[which : which + 2]
            steps = mine.steps
            records += pack_record(
                *self._places[i], number, steps.direction, start + mine.side.base, end - start,
                tables.paths.number(read.path), NO_LSN, 0, schema, steps.dialect, read.severity, flags,
            )  # fmt: skip
        return bytes(records)

    def _rows(
        self, taken: Array, reads: list[Read], schemas: list[int], number: int, flags: int,
        tables: Tables,
    ) -> bytes:  # fmt: skip
        first, second = self.two
        theirs = (taken >= self.counts[0]).astype(np.intp)
        paths = tables.paths.numbers
        made = np.empty(len(reads), RECORD)
        made["arrival"] = self._arrivals[taken]
        made["frame"] = self._frames[taken]
        made["time"] = self._times[taken]
        made["stream"] = number
        made["direction"] = np.array([first.steps.direction, second.steps.direction])[theirs]
        made["offset"] = self._starts[taken]
        made["length"] = self._lengths[taken]
        made["path"] = [paths.get(r.path) or tables.paths.number(r.path) for r in reads]
        made["lsn"] = NO_LSN
        made["xid"] = 0
        made["relation"] = schemas
        made["dialect"] = np.array([first.steps.dialect, second.steps.dialect])[theirs]
        made["severity"] = [r.severity for r in reads]
        made["flags"] = flags
        return made.tobytes()
