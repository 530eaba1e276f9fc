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
from .damage import Damage
from .rows import ASSUMED, BACKEND, DIRECTIONS, FRONTEND
from .shapes import Run
from .sides import (
    ANSWER,
    BLOCK,
    GSS,
    HELD_LIMIT,
    HUGE,
    LANE_TAGS,
    LOST,
    MESSAGES,
    PATIENCE,
    STARTUP,
    TLS,
    WAITS,
    Block,
    Framed,
    Side,
)
from .waiting import waits


class Framer(Damage):
    """All of one connection. Feed it chunks and gaps in capture order; take `Framed` messages."""

    # -- what comes in

    def feed(self, event: Chunk | Gap) -> None:
        """Take an event of this connection."""
        if not self.foreign:
            self.sides[event.direction].waiting.append(event)

    def ended(self, event: End) -> None:
        """A direction was closed (FIN), the connection broke (RST), or the capture ended."""
        self.endings[event.direction] = event.kind

    def messages(self, final: bool = False) -> Iterator[Framed | Block | bytes]:
        """Whole messages that the events so far make. `final`: nothing more will come."""
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

    # -- one unit

    def _next(self) -> Side | None:
        """The side whose next whole unit was complete first in the capture; None: neither has one."""
        whole = [side for side in self.sides if self._whole(side) or side.huge_whole()]
        free = [side for side in whole if not self._held(side)]
        if len(whole) == 2 and not free:  # each waits for the other: no order can be right
            free = whole
        if len(free) < 2:
            return free[0] if free else None
        return min(free, key=lambda side: side.place(side.offset() + self._whole(side))[0])

    def _held(self, side: Side) -> bool:
        """Whether the next unit of `side` waits for the other side's, which came later in the capture:
        a server's first bytes for the client's, an answer for what it answers."""
        other = self.sides[1 - side.physical]
        if not self.from_start or side.left() >= HELD_LIMIT:
            return False
        early = self._direction(side) == BACKEND and other.mode == STARTUP and not other.consumed
        if early and self.patient:
            return bool(other.waiting or other.left() or not other.total)
        if side.mode != MESSAGES or other.mode != MESSAGES or not self.patient:
            return False
        if side.huge is not None:
            return False
        direction = DIRECTIONS[self._direction(side)]
        if not waits(self.session, direction, side.buffer[side.at]):
            return False
        if self._whole(other):
            return True
        nothing_comes = self.final or (other.physical in self.endings and not other.waiting)
        if nothing_comes or side.left() + PATIENCE >= HELD_LIMIT:
            self.patient = False
        return self.patient

    def _one(self, side: Side) -> Iterator[Framed]:
        """Take the next unit of `side`."""
        if side.huge is not None:
            yield self._huge(side, 0)
            return
        size = self._whole(side)
        if side.mode == STARTUP:
            yield from self._startup(side, size)
        elif side.mode == ANSWER:
            yield from self._answer(side)
        elif side.mode == TLS and self.encrypted is not None:
            yield from map(self._closed, self.encrypted.take(side, size))
        elif side.mode == GSS:
            yield self._outside(side, size, "gssenc")
        elif side.mode == WAITS:
            self._unanswered(side)
        elif side.mode == LOST:
            self._seek(side)
        elif side.mode == MESSAGES:
            (length,) = unpack_from(">I", side.buffer, side.at + 1)
            if not self._sound(side, length):
                self._nonsense(side, length)
            elif length >= HUGE:
                side.thin()
                yield self._huge(side, 0)
            else:
                yield self._message(side, size)
        else:
            side.at += size
            side.consumed += size

    def _turns(self, first: Side) -> Iterator[Framed]:
        """Take the next unit, of `first`, and then messages of both sides in their order, as `_next` would
        choose them, for as long as nothing else comes: each side's next message is looked at once."""
        yield from self._one(first)
        sides = self.sides
        if self.encrypted is not None or any(map(self._special, sides)):
            return
        directions = [DIRECTIONS[self._direction(side)] for side in sides]
        bounds = [recognise.bounds("frontend" if d == "F" else "backend") for d in directions]
        ends = [0, 0]  # of the next message in the buffer, 0 for none
        places = [(0, 0, 0), (0, 0, 0)]  # of its last byte: arrival, frame, time
        unknown = [0, 1]
        while True:
            for i in unknown:
                side = sides[i]
                end = ends[i] = self._end_of(side, bounds[i])
                if end < 0 or (not end and side.waiting):
                    return
                if end:
                    places[i] = side.place(side.base + end)
            if not (ends[0] or ends[1]):
                return
            mine = int(not ends[0] or (ends[1] > 0 and places[1][0] < places[0][0]))
            side = sides[mine]
            if waits(self.session, directions[mine], side.buffer[side.at]) and self._held(side):
                mine = 1 - mine
                if not ends[mine] or self._held(sides[mine]):
                    return
            side = sides[mine]
            lane = self.session.lane(directions[mine])
            fits = lane and self.fast and side.buffer[side.at] == LANE_TAGS[lane]
            if fits and side.offset() >= side.slow_until:
                return
            yield self._message(side, ends[mine] - side.at, place=places[mine])
            unknown = [mine]
            if self._special(side):
                return

    @staticmethod
    def _special(side: Side) -> bool:
        """Whether what comes next on a side is anything but whole messages that lie in its buffer."""
        return (
            side.mode != MESSAGES
            or side.hole is not None
            or side.huge is not None
            or (len(side.waiting) > 0 and isinstance(side.waiting[0], Gap))
        )

    @staticmethod
    def _end_of(side: Side, known: dict[int, recognise.Bounds]) -> int:
        """Where the next message of the buffer ends; 0 where it is not whole, -1 where it is not usual."""
        buffer, at = side.buffer, side.at
        left = len(buffer) - at
        if left < recognise.HEADER:
            return 0
        (length,) = unpack_from(">I", buffer, at + 1)
        if buffer[at] not in known or not 4 <= length < HUGE:
            return -1
        return at + length + 1 if left > length else 0

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
        if self.short_run(side, tag):
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
            count = int(np.searchsorted(side.arrivals[places], horizon))
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

    @staticmethod
    def short_run(side: Side, tag: int) -> bool:
        """Whether a run of messages with the type byte `tag` ends, in what is there, before it is worth
        the arrays; then nobody looks again before its end."""
        buffer, at = side.buffer, side.at
        last = len(buffer) - recognise.HEADER
        for _ in range(SHORT):
            if at > last:
                break
            if buffer[at] != tag:
                side.slow_until = side.base + at
                return True
            at += unpack_from(">I", buffer, at + 1)[0] + 1
        return False

    def _horizon(self, side: Side) -> int | None:
        """When the other side's next message that may change the state arrives; None: not in sight."""
        if side.mode != MESSAGES or side.hole is not None:
            return None if not self._whole(side) else side.place(side.offset() + 1)[0]
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
