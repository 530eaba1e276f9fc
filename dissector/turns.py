"""Messages of both directions in the order in which they were complete, many in a row.

Whose turn it is follows from the frames that hold the messages' last bytes. While both sides have whole
messages in their buffers and nothing else comes (a gap, start-up, encryption), each side's next message
is looked at once. Where all that they change is the conversation (`dissector.queries`), many are taken
together (`dissector.exchange`).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from

from . import recognise
from .bulk import SHORT
from .capture import Gap
from .damage import Damage
from .exchange import LEAST, WINDOW, Exchange, said
from .recognise import HEADER
from .rows import ASSUMED, BACKEND, DIRECTIONS
from .sides import (
    ANSWER,
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
    Framed,
    Side,
)
from .waiting import waits


class Turns(Damage):
    """Whole messages that lie in the buffers."""

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

    # -- messages in turn

    def _turns(self, first: Side) -> Iterator[Framed | bytes]:
        """Take the next unit, of `first`, and then messages of both sides in their order, as `_next` would
        choose them, for as long as nothing else comes."""
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
            for records in self._many() if self.fast else ():
                unknown = [0, 1]
                yield records
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

    # -- many

    def _many(self) -> Iterator[bytes]:
        """Packed rows of the next messages, as long as these only move the conversation on."""
        session, sides = self.session, self.sides
        free = session.began_in_middle or not (self.from_start and self.patient)
        flags = self.flags | (ASSUMED if session.assumed() else 0)
        while (steps := session.steps()) is not None and not (sides[0].notes or sides[1].notes):
            first, second = (said(side, steps[self._direction(side)]) for side in sides)
            if any(each.open and not each.ways for each in (first, second)):
                break
            exchange = Exchange(first, second, max(LEAST, self.at_once))
            reads, schemas = exchange.take(session, free)
            self.at_once = min(2 * len(reads), WINDOW)  # what was in vain stays little
            if reads:
                yield exchange.rows(reads, schemas, self.number, flags, self.tables)
            if len(reads) < len(exchange.order) or not (reads and exchange.more):
                break

    @staticmethod
    def short_run(side: Side, at: int, tag: int) -> bool:
        """Whether a run of messages with the type byte `tag` ends, in what is there, before it is worth
        the arrays; then nobody looks again before its end."""
        buffer = side.buffer
        last = len(buffer) - HEADER
        for _ in range(SHORT):
            if at > last:
                break
            if buffer[at] != tag:
                side.slow_until = side.base + at
                return True
            at += unpack_from(">I", buffer, at + 1)[0] + 1
        return False
