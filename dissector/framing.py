"""Byte streams of one connection to whole messages, each with its session context.

A `Framer` serves one TCP connection. It holds back what cannot be judged yet, finds out which side is
the client, follows start-up, TLS and GSSAPI, walks message lengths, and hands each whole message to the
`Session`. Where bytes are missing or make no sense it says so and goes on at the next boundary that
proves itself. Framing comes from the envelope's length only, never from what the inside consumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from

import numpy as np

from . import recognise
from .bulk import SHORT, Answers, copy_rows, data_rows, walk
from .capture import Chunk, End, Gap
from .rows import ASSUMED, DIRECTIONS, FRONTEND
from .shapes import Run
from .sides import (
    BLOCK,
    HUGE,
    LANE_TAGS,
    MESSAGES,
    STARTUP,
    Block,
    Framed,
    Side,
)
from .turns import Turns


class Framer(Turns):
    """All of one connection. Feed it chunks and gaps in capture order; take its `messages`."""

    # -- what comes in

    def feed(self, event: Chunk | Gap) -> None:
        """Take an event of this connection."""
        if not self.foreign:
            self.sides[event.direction].waiting.append(event)

    def ended(self, event: End) -> None:
        """A direction was closed (FIN), the connection broke (RST), or the capture ended."""
        self.endings[event.direction] = event.kind

    def messages(self, final: bool = False) -> Iterator[Framed | Block | bytes]:
        """Whole messages that the events so far make: one by one, in blocks, or as packed rows
        (`rows.RECORD`; only where `fast` is set). `final`: nothing more will come."""
        self.final = final
        if final:
            for side in self.sides:
                side.skipped = 0
        while not self.foreign:
            if not self.decided and not self._decide(final):
                return
            progress = False
            for side in self.sides:
                progress |= self._fill(side)
            while (first := self._next()) is not None and self._gap_before(first) is None:
                progress = True
                block = self._block(first) if self.fast else None
                if block is not None:
                    yield block
                elif first.mode == MESSAGES and first.huge is None:
                    yield from self._turns(first)
                    self._fill(self.sides[1 - first.physical])
                else:
                    yield from self._one(first)
                if first.waiting:
                    self._fill(first)
            lossy = self._gap_before(first)
            if lossy is not None:
                yield from self._gap(lossy, lossy.waiting.popleft())
                progress = True
            yield from self._decrypted(False)
            if not progress:
                if not (final and self.patient):
                    break
                self.patient = False  # what was held comes before the end, in whatever order
                for side in self.sides:
                    if side.mode == STARTUP:
                        yield from self._rest(side)
        for side in self.sides:
            side.said = None  # of many connections that wait it would take memory
        if final and self.decided and not self.foreign:
            if self.encrypted is not None:
                yield from map(self._closed, self.encrypted.finish(self.sides))
                yield from self._decrypted(True)
            for side in self.sides:
                yield from self._rest(side)

    def _fill(self, side: Side) -> bool:
        """Take chunks of `side` until it has a whole unit, a gap comes, or nothing is left."""
        moved = False
        while True:
            if side.hole is not None:
                moved |= self._over_hole(side)
            if self._whole(side) or side.huge_whole() or not side.take():
                return moved
            moved = True

    def _gap_before(self, first: Side | None) -> Side | None:
        """The side whose next event is a gap, where it came before the next unit of `first`."""
        found: Side | None = None
        for side in self.sides:
            gap = side.waiting[0] if side.waiting else None
            if not isinstance(gap, Gap) or self._whole(side) or side.huge_whole():
                continue
            if first is not None and side is not first:
                size = self._whole(first)
                if first.place(first.offset() + size)[0] < gap.arrival:
                    continue
            found = side
        return found

    # -- many at once

    def _block(self, side: Side) -> Block | None:
        """The longest run from the cursor that the fast lane can take; None where it is too short."""
        direction = self._direction(side)
        if side.mode != MESSAGES or side.offset() < side.slow_until or side.notes:
            return None
        lane = self.session.lane(DIRECTIONS[direction])
        if not lane:
            return None
        tag = LANE_TAGS[lane]
        if side.at >= len(side.buffer) or side.buffer[side.at] != tag:
            return None
        if self.short_run(side, side.at, tag):
            return None
        known = side.ahead_of(tag)
        begins, stop, parts = walk(side.buffer, side.at, tag, BLOCK, known)
        count = len(begins)
        ends = np.append(begins[1:], stop)[:count]
        long = np.flatnonzero(ends - begins > HUGE)
        if len(long):
            count = int(long[0])
            ends = ends[:count]
        places = side.places(ends + side.base)
        horizon = self._horizon(self.sides[1 - side.physical])
        if horizon is not None:
            before = horizon + 1 - side.physical  # at one time, the first side is first
            count = int(np.searchsorted(side.arrivals[places], before))
            ends, places = ends[:count], places[:count]
        if lane == "copy" and count:
            steady = self.session.copies.steady(DIRECTIONS[direction], side.buffer, begins, ends)
            if steady < count:
                count, ends, places = steady, ends[:steady], places[:steady]
        if count < SHORT:
            side.slow_until = side.base + (int(begins[count]) + 1 if count < len(begins) else stop)
            return None
        begins = begins[:count]
        told = known.of(parts, count) if known is not None and lane == "pgoutput" else None
        answers = self._answers(lane, direction, Run(side.buffer, begins, ends, told))
        side.at = int(ends[-1])
        side.consumed += side.at - int(begins[0])
        side.count += count
        flags = self.flags | (ASSUMED if self.session.assumed() else 0)
        return Block(
            side.arrivals[places], side.frames[places], side.times[places], begins + side.base,
            ends - begins, answers, direction, flags,
        )  # fmt: skip

    def _horizon(self, side: Side) -> int | None:
        """When the other side's next message that may change the state arrives; None: not in sight."""
        if side.mode != MESSAGES or side.hole is not None:
            size = self._whole(side)
            return side.place(side.offset() + size)[0] if size else None
        lane = self.session.lane(DIRECTIONS[self._direction(side)])
        tag = LANE_TAGS.get(lane, -1)
        key = (side.base, len(side.buffer), side.at, tag)
        if side.looked is None or side.looked[0] != key:
            stop = side.at
            if side.left() and side.buffer[side.at] == tag:
                _, stop, _ = walk(side.buffer, side.at, tag, BLOCK, side.ahead_of(tag))
            side.looked = (key, stop)
        at = side.looked[1]
        if len(side.buffer) - at < recognise.HEADER or side.buffer[at] == tag:
            return None
        (length,) = unpack_from(">I", side.buffer, at + 1)
        if at + length + 1 > len(side.buffer):
            return None
        return side.place(side.base + at + length + 1)[0]

    def _answers(self, lane: str, direction: int, run: Run) -> Answers:
        session = self.session
        dialect = session.dialect(DIRECTIONS[direction])
        if lane == "pgoutput":
            if direction == FRONTEND:
                return self.both.frontend(run, dialect)
            return self.both.backend(run, dialect, session.codec)
        if lane == "copy":
            answers = copy_rows(len(run), self.tables, dialect)
            answers.relation[:] = session.copies.lane(DIRECTIONS[direction])[1]
            return answers
        schema = session.row_schema()
        return data_rows(run, schema, self.tables, dialect)
