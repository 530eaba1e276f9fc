"""Messages of both directions in the order in which they were complete, many in a row.

Whose turn it is follows from the frames that hold the messages' last bytes. While both sides have whole
messages in their buffers and nothing else comes (a gap, start-up, encryption), each side's next message
is looked at once. Where all that they change is the conversation (`dissector.queries`), they become rows
without more ado: a side keeps its turn up to the other's next message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct, unpack_from

from . import recognise
from .bulk import SHORT
from .capture import Gap
from .damage import Damage
from .queries import COMMAND, Steps
from .recognise import HEADER
from .rows import ASSUMED, BACKEND, DIRECTIONS, NO_LSN, pack_record
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

NEVER, STOPPED, UNKNOWN = 1 << 62, -1, -2
"""When the next message of a side is whole: none is in sight; it is not taken in this way; see there."""

LENGTH = Struct(">I").unpack_from

ROW = LANE_TAGS["rows"]


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
            if self.fast and (records := self._many(bounds)):
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

    # -- many, one side's after the other's

    def _many(self, bounds: list[dict[int, recognise.Bounds]]) -> bytes:
        """Packed rows of the next messages, as long as these only move the conversation on."""
        sides, records = self.sides, bytearray()
        steps = self.session.steps()
        if steps is None or sides[0].notes or sides[1].notes:
            return b""
        mine = [steps[self._direction(side)] for side in sides]
        first, second = (self._due(side, known) for side, known in zip(sides, bounds, strict=True))
        while min(first, second) > STOPPED and first != second:
            if first < second:
                first = self._run(sides[0], mine[0], second, records)
                if first == UNKNOWN:
                    first = self._due(sides[0], bounds[0])
            else:
                second = self._run(sides[1], mine[1], first, records)
                if second == UNKNOWN:
                    second = self._due(sides[1], bounds[1])
        return bytes(records)

    def _due(self, side: Side, known: dict[int, recognise.Bounds]) -> int:
        """When the next message of `side` is whole: the arrival of its last byte."""
        end = self._end_of(side, known)
        if end > 0:
            return side.place(side.base + end)[0]
        return STOPPED if end or side.waiting else NEVER

    def _run(self, side: Side, steps: Steps, before: int, records: bytearray) -> int:
        """Take the messages of `side` that are whole before `before`; when the next one is.

        Stops at a message that waits for the other side's, or changes more than the conversation.
        """
        session, buffer, base = self.session, side.buffer, side.base
        queue, fixed = session.conversation.queue, session.base
        free = session.began_in_middle or not (self.from_start and self.patient)
        of, kept, paths = steps.of, steps.reads.kept, self.tables.paths.numbers
        number, direction, dialect = self.number, steps.direction, steps.dialect
        flags = self.flags | (ASSUMED if session.assumed() else 0)
        ends, places = side.listed()
        last = len(ends) - 1
        piece = bisect_left(ends, base + side.at + 1, 0, last)
        arrival, frame, time = places[piece]
        begin = at = side.at
        size, count, due = len(buffer), 0, UNKNOWN
        while at + HEADER <= size:
            (length,) = LENGTH(buffer, at + 1)
            end = at + length + 1
            if end > size or not 4 <= length < HUGE:
                break
            if base + end > ends[piece]:
                piece = bisect_left(ends, base + end, piece, last)
                arrival, frame, time = places[piece]
            if arrival >= before:
                due = arrival
                break
            tag = buffer[at]
            due = STOPPED
            if tag not in of:
                break
            after, step = of[tag]
            waiting = not free and after and (queue[0].kind if queue else "") not in after
            if waiting and size - at < HELD_LIMIT:
                break
            if tag == ROW and base + at >= side.slow_until and not self.short_run(side, at, tag):
                break
            data = buffer[at:end]
            read = kept.get(data) or steps.reads.read(data)
            schema = step(session, read)
            if schema == COMMAND:
                break
            path = paths.get(read.path) or self.tables.paths.number(read.path)
            records += pack_record(
                arrival, frame, time, number, direction, base + at, length + 1, path, NO_LSN, 0,
                schema, dialect, read.severity, flags,
            )  # fmt: skip
            at = end
            count += 1
            if session.base is not fixed:
                break
            due = UNKNOWN
        side.at = at
        side.consumed += at - begin
        side.count += count
        return due

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
