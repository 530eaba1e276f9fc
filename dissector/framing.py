"""Byte streams of one connection to whole messages, each with its session context.

A `Framer` serves one TCP connection. It holds back what cannot be judged yet, finds out which side is
the client, follows start-up, TLS and GSSAPI, walks message lengths, and hands each whole message to the
`Session`. Where bytes are missing or make no sense it says so and goes on at the next boundary that
proves itself. Framing comes from the envelope's length only, never from what the inside consumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from struct import unpack_from
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue, recognise
from .bulk import SHORT, Answers, CopyBoth, copy_rows, data_rows, walk
from .capture import Chunk, End, Gap
from .findings import Finding, finding
from .node import findings, messages
from .rows import ASSUMED, BACKEND, DECRYPTED, DIRECTIONS, FRONTEND, INCOMPLETE
from .schema_findings import schema_findings
from .schemas import Tables
from .session import Assumptions, Context, Session
from .shapes import Run
from .spec import Dialect
from .waiting import waits

if TYPE_CHECKING:  # cryptography is imported where a connection is encrypted
    from .encrypted import Closed, Encrypted
    from .plaintext import PlainText
    from .tls import KeyLog

UNDECIDED, STARTUP, ANSWER, MESSAGES, LOST, TLS, GSS, WAITS = range(8)
"""What the next bytes of a side are: not known yet, a start-up packet, a one-byte answer, messages, bytes
without a boundary, TLS records, GSSAPI packets, what the server's one-byte answer will tell."""

HEAD_LIMIT = 1 << 18
"""Bytes of an unjudged stream that are kept until it is called foreign."""

BLOCK = 1 << 17
"""Messages that the fast lane takes at once: bounds its arrays."""

LANE_TAGS = {
    lane: ord(catalogue.by_name(name).tag)
    for lane, name in (("pgoutput", "CopyData"), ("copy", "CopyData"), ("rows", "DataRow"))
}
"""The type byte of the messages that a lane takes."""

STARTUP_HEADER = 8
"""Bytes of a start-up packet that tell what it is: length and code."""

GSS_LARGEST = 1 << 16
"""Longer than any packet of a GSSAPI-encrypted connection: those have 16384 bytes at most."""

PATIENCE = 1 << 16
"""What is left of HELD_LIMIT when waiting for a request ends for good: one side may not be captured."""

LOST_LIMIT, LOST_KEPT = 1 << 22, 1 << 16
"""Bytes without a boundary that are kept, and how many of them when there are more."""

HUGE, HUGE_HEAD = 1 << 26, 1 << 20
"""Messages of more bytes are not kept in memory: of these only so many bytes from the first."""

HELD_LIMIT = 1 << 20
"""Bytes of the server that wait for the client's first packet, where segments came out of order."""


@dataclass(slots=True)
class Framed:
    """A row of the index before it has a number, and what the state found about it."""

    arrival: int
    frame: int
    time: int
    direction: int
    offset: int
    length: int
    context: Context
    severity: int
    flags: int
    found: list[Finding]


Array = NDArray[Any]


def _nothing() -> Array:
    return np.empty(0, np.int64)


def _joined(before: Array, more: Array) -> Array:
    return np.concatenate((before, more.astype(np.int64))) if len(before) else more.astype(np.int64)


@dataclass(slots=True)
class Block:
    """Rows that the fast lane made, in stream order: arrays of one length, and what is one for all."""

    arrival: Array
    frame: Array
    time: Array
    offset: Array
    length: Array
    answers: Answers
    direction: int
    flags: int


@dataclass(slots=True)
class Side:
    """One direction's stream: bytes that wait, and the frames that hold them."""

    physical: int
    mode: int = UNDECIDED
    base: int = 0
    buffer: bytes = b""
    at: int = 0
    waiting: deque[Chunk | Gap] = field(default_factory=deque)
    ends: Array = field(default_factory=_nothing)
    frames: Array = field(default_factory=_nothing)
    arrivals: Array = field(default_factory=_nothing)
    times: Array = field(default_factory=_nothing)
    slow_until: int = 0
    notes: list[Finding] = field(default_factory=list)
    hole: tuple[int, int] | None = None
    skipped: int = 0
    consumed: int = 0
    total: int = 0
    looked: tuple[tuple[int, int, int, int], int] | None = None
    count: int = 0
    lost: int = 0
    unread: int = 0
    huge: tuple[int, int, bytes] | None = None

    def take(self) -> bool:
        """Move the next chunk into the buffer; False when a gap or nothing comes next."""
        if not self.waiting or isinstance(self.waiting[0], Gap):
            return False
        chunk = self.waiting.popleft()
        assert isinstance(chunk, Chunk)
        rest = len(self.buffer) - self.at
        if not rest:
            self.base, self.at, self.buffer = chunk.offset, 0, chunk.data
        else:
            self.base += self.at
            self.buffer = self.buffer[self.at :] + chunk.data
            self.at = 0
        self.total += len(chunk.data)
        pieces = chunk.pieces
        kept = int(np.searchsorted(self.ends, self.base, side="right"))
        self.ends = _joined(self.ends[kept:], pieces.offset + pieces.length)
        self.frames = _joined(self.frames[kept:], pieces.frame)
        self.arrivals = _joined(self.arrivals[kept:], pieces.arrival)
        self.times = _joined(self.times[kept:], pieces.time)
        self.thin()
        return True

    def thin(self) -> None:
        """Let go of the bytes of a huge message, which stands at the cursor, but for its head."""
        if self.huge is None:
            if self.mode != MESSAGES or self.hole is not None or self.left() < HUGE_HEAD:
                return
            (length,) = unpack_from(">I", self.buffer, self.at + 1)
            if not HUGE <= length <= recognise.LARGEST:
                return
            head = self.buffer[self.at : self.at + HUGE_HEAD]
            self.huge = (self.offset(), length + 1, head)
        start, need, _ = self.huge
        self.at += min(self.left(), start + need - self.offset())

    def huge_whole(self) -> bool:
        """Whether all bytes of the huge message were seen."""
        return self.huge is not None and self.offset() == self.huge[0] + self.huge[1]

    def left(self) -> int:
        """Bytes in the buffer that no message has taken."""
        return len(self.buffer) - self.at

    def offset(self) -> int:
        """Stream offset of the next byte."""
        return self.base + self.at

    def place(self, end: int) -> tuple[int, int, int]:
        """(arrival, frame, time) of the byte before stream offset `end`."""
        i = min(int(self.ends.searchsorted(end - 1, side="right")), len(self.ends) - 1)
        return int(self.arrivals[i]), int(self.frames[i]), int(self.times[i])

    def places(self, ends: Array) -> Array:
        """For stream offsets of messages' ends, the index of the piece that holds the last byte."""
        return np.minimum(self.ends.searchsorted(ends - 1, side="right"), len(self.ends) - 1)


class Framer:
    """All of one connection. Feed it chunks and gaps in capture order; take `Framed` messages."""

    def __init__(
        self,
        tables: Tables,
        assumptions: Assumptions,
        client: int | None,
        ports: tuple[int, int],
        keylog: KeyLog | None = None,
        session: Session | None = None,
    ) -> None:
        self.tables = tables
        self.session = session or Session(tables, assumptions)
        self.both = CopyBoth(tables, self.session.replication)
        self.keylog = keylog
        self.encrypted: Encrypted | None = None
        self.assumptions = assumptions
        self.sides = (Side(0), Side(1))
        self.client = client
        self.from_start = client is not None
        self.decided = False
        self.foreign = False
        if client is None:
            for physical, port in enumerate(ports):
                if port in assumptions.ports:  # the sender with this port is the server
                    self.client = 1 - physical
        self.fast = True
        self.forced = any(port in assumptions.ports for port in ports)
        self.final = False
        self.patient = True
        self.endings: dict[int, str] = {}
        self.found: list[Finding] = []

    # -- what comes in

    def feed(self, event: Chunk | Gap) -> None:
        """Take an event of this connection."""
        if not self.foreign:
            self.sides[event.direction].waiting.append(event)

    def ended(self, event: End) -> None:
        """A direction was closed (FIN), the connection broke (RST), or the capture ended."""
        self.endings[event.direction] = event.kind

    def messages(self, final: bool = False) -> Iterator[Framed | Block]:
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

    # -- who is who

    def _decide(self, final: bool) -> bool:
        """Find out whether this is PostgreSQL and which side is the client; True when decided."""
        for side in self.sides:
            while side.take():
                pass
        verdict = self._verdict(final)
        if verdict is None:
            kept = sum(len(side.buffer) for side in self.sides)
            verdict = False if final or kept > HEAD_LIMIT else None
        if verdict is None:
            return False
        if not verdict:
            self._give_up()
            return False
        self.decided = True
        return True

    def _give_up(self) -> None:
        self.foreign = True
        for side in self.sides:
            side.waiting.clear()
            side.buffer = b""
            side.at = 0

    def _verdict(self, final: bool) -> bool | None:
        """True: PostgreSQL, roles and modes are set; False: not; None: not enough bytes yet."""
        starts = [(side.buffer[: recognise.LARGEST_STARTUP]) for side in self.sides]
        candidates = (0, 1) if self.client is None else (self.client,)
        waits = False
        for client in candidates:
            if self.sides[client].base:  # the first byte is not in the capture
                continue
            packet = recognise.startup_packet(starts[client]) if starts[client] else None
            if packet is None and starts[client]:
                waits = True
            if packet:
                self._roles(client, STARTUP, MESSAGES)
                return True
            if recognise.is_tls_record(starts[client]):
                hello = self._direct_tls(starts[client], final)
                server = b"" if self.from_start else starts[1 - client]
                if server[:1] == b"S" and (hello or recognise.is_tls_record(server[1:])):
                    self.session.asked_encryption = (
                        "SSLRequest"  # not in the capture, its answer is
                    )
                    self._roles(client, WAITS, ANSWER)
                    return True
                if hello:
                    self.session.facts["encryption"] = "TLS (direct)"
                    self._begin_tls(client)
                    return True
                waits |= hello is None
        return self._middle(starts, candidates, waits, final)

    def _middle(
        self, starts: list[bytes], candidates: tuple[int, ...], waits: bool, final: bool
    ) -> bool | None:
        """The same for a connection whose beginning is not in the capture."""
        best, proof = -1, 0
        for client in candidates:
            layers = {client: "frontend", 1 - client: "backend"}
            scores = [
                recognise.seek(layers[i], starts[i], self._dialects(i), final)
                if starts[i]
                else None
                for i in (0, 1)
            ]
            score = sum(s for s in scores if s)
            if score > proof and (0 not in scores or score >= recognise.PROOF):
                best, proof = client, score
        if proof >= recognise.PROOF or (final and proof and (self.forced or proof > 1)):
            self._roles(best, LOST, LOST)
            self.session.began_in_middle = True
            self.session.in_startup = False
            note = finding("began-mid-session", what="roles, release and dialect are")
            self.sides[best].notes.append(note)
            return True
        if self.from_start and not waits and all(len(s) > 64 for s in starts) and not proof:
            return False
        return None

    def _direct_tls(self, start: bytes, final: bool) -> bool | None:
        """Whether a TLS ClientHello begins a PostgreSQL connection; None: not all of it is here."""
        if self.forced or recognise.is_postgres_hello(start):
            return True
        whole = len(start) >= 5 and len(start) >= 5 + int.from_bytes(start[3:5], "big")
        return False if whole or final else None

    def _begin_tls(self, client: int) -> None:
        """From here on both sides send TLS records."""
        from .encrypted import Encrypted

        self._roles(client, TLS, TLS)
        inner = Framer(self.tables, self.assumptions, client, (0, 0), session=self.session)
        inner.decided = True
        inner.fast = self.fast
        inner._roles(client, STARTUP, MESSAGES)
        self.encrypted = Encrypted(inner, client, self.keylog)
        self.session.tls = self.encrypted.facts

    def _roles(self, client: int, frontend: int, backend: int) -> None:
        self.client = client
        self.sides[client].mode = frontend
        self.sides[1 - client].mode = backend

    def _dialects(self, physical: int) -> tuple[Dialect, ...]:
        """The dialects that the next message may be in, where the state is not known."""
        now = self.session.dialect(DIRECTIONS[FRONTEND if physical == self.client else BACKEND])
        if not now.copy:
            now = replace(now, copy="pgoutput", proto_version=now.proto_version or 4)
        return now, replace(now, in_stream=not now.in_stream)

    def _direction(self, side: Side) -> int:
        return FRONTEND if side.physical == self.client else BACKEND

    # -- one unit

    def _whole(self, side: Side) -> int:
        """Bytes of the next whole unit of `side`; 0 where more bytes are needed."""
        left = side.left()
        if side.hole is not None or side.huge is not None:
            return 0
        if side.mode == MESSAGES:
            if left < recognise.HEADER:
                return 0
            (length,) = unpack_from(">I", side.buffer, side.at + 1)
            if not self._sound(side, length):
                return left
            return length + 1 if left > length else 0
        if side.mode == STARTUP:
            if left < 4:
                return 0
            (length,) = unpack_from(">I", side.buffer, side.at)
            if not 8 <= length <= recognise.LARGEST_STARTUP:
                return left
            return length if left >= length else 0
        if side.mode == ANSWER:
            return min(left, 1)
        if side.mode == LOST:
            return left if side.skipped < left else 0
        if side.mode == TLS and self.encrypted is not None:
            return self.encrypted.whole(side)
        if side.mode == GSS:
            return self._gss_packet(side)
        if side.mode == WAITS:
            other = self.sides[1 - side.physical].mode
            blocked = ANSWER if side.physical == self.client else STARTUP
            return left if other != blocked or self.final else 0
        return left

    def _gss_packet(self, side: Side) -> int:
        """Bytes of the next whole packet: its length and as much; all there is where it makes no sense."""
        left = side.left()
        if left < 4:
            return 0
        (length,) = unpack_from(">I", side.buffer, side.at)
        if length > GSS_LARGEST:
            return left
        return length + 4 if left >= length + 4 else 0

    def _sound(self, side: Side, length: int) -> bool:
        """Whether the header at the cursor can be a message's: an unknown letter may be a new message,
        when what follows it is sound."""
        layer = "frontend" if self._direction(side) == FRONTEND else "backend"
        tag = side.buffer[side.at]
        if not 4 <= length <= recognise.LARGEST:
            return False
        if tag in recognise.bounds(layer):
            return True
        after = side.at + length + 1
        known = recognise.plausible_header(layer, (side.buffer[after : after + 5]), 0)
        return chr(tag).isalnum() and tag < 128 and (known > 0 or after == len(side.buffer))

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
                yield from self._nonsense(side, length)
            elif length >= HUGE:
                side.thin()
                yield self._huge(side, 0)
            else:
                yield self._message(side, size)
        else:
            side.at += size
            side.consumed += size

    def _message(self, side: Side, size: int, missing: int = 0) -> Framed:
        """A message of which `size` bytes lie at the cursor (and `missing` more are not there)."""
        data = side.buffer[side.at : side.at + size]
        direction = self._direction(side)
        start = side.offset()
        context = self.session.feed(DIRECTIONS[direction], data)
        found = side.notes + context.found
        side.notes = []
        flags = ASSUMED if context.assumed else 0
        judged = list(found)
        if missing:
            flags |= INCOMPLETE
            self._forget(context)
        else:
            judged += findings(context.tree)
            judged += schema_findings(context.tree, self.tables.schemas[context.schema])
        severity = max((f.severity for f in judged), default=0)
        arrival, frame, time = side.place(start + size)
        side.at += size
        side.consumed += size
        side.count += 1
        return Framed(
            arrival, frame, time, direction, start, size + missing, context, severity, flags, found
        )

    def _huge(self, side: Side, missing: int) -> Framed:
        """A message of which only the head is kept; `missing` bytes of it are not in the capture."""
        assert side.huge is not None
        start, need, head = side.huge
        side.huge = None
        direction = self._direction(side)
        context = self.session.feed(DIRECTIONS[direction], head)
        self._forget(context)
        side.notes.append(finding("huge-message", shown=len(head), need=need))
        found, side.notes = side.notes + context.found, []
        severity = max(f.severity for f in found)
        flags = INCOMPLETE | (ASSUMED if context.assumed else 0)
        arrival, frame, time = side.place(side.offset())
        side.consumed += need - missing
        side.count += 1
        return Framed(arrival, frame, time, direction, start, need, context, severity, flags, found)

    def _forget(self, context: Context) -> None:
        """A table of which only a part was described is not known."""
        if context.path[-1] == "Relation":
            oid = messages(context.tree)[-1].child("relation_oid")
            if oid is not None:
                self.session.replication.relations.pop(oid.value, None)
            context.schema = 0

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
        begins, stop = walk(side.buffer, side.at, tag, BLOCK)
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
        answers = self._answers(lane, direction, Run(side.buffer, begins, ends))
        side.at = int(ends[-1])
        side.consumed += side.at - int(begins[0])
        side.count += count
        flags = ASSUMED if self.session.assumed() else 0
        return Block(
            side.arrivals[places], side.frames[places], side.times[places], begins + side.base,
            ends - begins, answers, direction, flags,
        )  # fmt: skip

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
                _, stop = walk(side.buffer, side.at, tag, BLOCK)
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

    # -- the start of a connection

    def _startup(self, side: Side, size: int) -> Iterator[Framed]:
        packet = recognise.startup_packet(side.buffer[side.at : side.at + size])
        if not packet:
            side.mode = LOST
            return
        server = self.sides[1 - side.physical]
        name = getattr(packet, "name", "")
        yield from self._early(server, side.place(side.offset() + size)[0], name)
        framed = self._message(side, size)
        if name in ("SSLRequest", "GSSENCRequest"):
            server.mode = ANSWER
            side.mode = WAITS
            self.session.asked_encryption = name
        else:
            side.mode = MESSAGES
            if server.mode == WAITS:
                server.mode = MESSAGES
        yield framed

    def _early(self, server: Side, arrival: int, name: str) -> Iterator[Framed]:
        """The server's refusal of encryption that came before the client's first packet in the capture:
        the request that it answers is not in it."""
        if self.from_start or server.consumed or server.mode != MESSAGES or not server.left():
            return
        earlier = server.place(server.offset() + 1)[0] < arrival
        if earlier and server.buffer[server.at] == ord("N"):
            asked = "GSSENCRequest" if name == "SSLRequest" else "SSLRequest"
            self.session.asked_encryption = asked
            self.session.encryption_answer("N")
            framed = self._outside(server, 1, "")
            framed.flags |= ASSUMED
            yield framed

    def _answer(self, side: Side) -> Iterator[Framed]:
        """The server's one byte; anything else is a message (an ErrorResponse)."""
        byte = chr(side.buffer[side.at])
        client = self.sides[1 - side.physical]
        side.mode = MESSAGES
        client.mode = STARTUP
        if byte not in "SNG":
            return
        self.session.encryption_answer(byte)
        yield self._outside(side, 1, "")
        side.mode = WAITS
        if byte == "S":
            self._begin_tls(client.physical)
        elif byte == "G":
            client.mode = side.mode = GSS

    def _unanswered(self, side: Side) -> None:
        """The other side's answer is not in the capture: what this one sends next tells."""
        if side.physical != self.client:
            side.mode = MESSAGES
        elif recognise.is_tls_record(side.buffer[side.at : side.at + 8]):
            self.session.encryption_answer("S")
            self._begin_tls(side.physical)
        else:
            side.mode = STARTUP

    # -- encryption

    def _outside(self, side: Side, size: int, state: str) -> Framed:
        """A row for `size` bytes at the cursor that are no message: see catalogue.outside."""
        data, start = side.buffer[side.at : side.at + size], side.offset()
        side.at += size
        side.consumed += size
        place = side.place(start + size)
        return self._row(self._direction(side), start, data, state, place, [])

    def _closed(self, record: Closed) -> Framed:
        direction = FRONTEND if record.physical == self.client else BACKEND
        return self._row(
            direction, record.start, record.data, record.state, record.place, record.found
        )

    def _row(
        self, direction: int, start: int, data: bytes, state: str, place: tuple[int, int, int],
        found: list[Finding],
    ) -> Framed:  # fmt: skip
        context = self.session.outside(DIRECTIONS[direction], data, state)
        severity = max((f.severity for f in [*found, *findings(context.tree)]), default=0)
        return Framed(*place, direction, start, len(data), context, severity, 0, found)

    def _decrypted(self, final: bool) -> Iterator[Framed | Block]:
        """Messages out of the plain text that TLS records held."""
        if self.encrypted is None:
            return
        for framed in self.encrypted.inner.messages(final):
            framed.flags |= DECRYPTED
            yield framed
        for found in (self.encrypted.found, self.encrypted.inner.found):
            self.found += found
            found.clear()

    def plain(self) -> list[PlainText]:
        """The plain text of TLS records since the last call."""
        return [] if self.encrypted is None else self.encrypted.plain()

    # -- damage

    def _nonsense(self, side: Side, length: int) -> Iterator[Framed]:
        """The header at the cursor cannot be a message's: say so, look for the next boundary."""
        side.notes.append(finding("bad-frame-length", 1, value=length))
        side.mode = LOST
        side.skipped = 0
        return
        yield

    def _seek(self, side: Side) -> None:
        """Look for a boundary that proves itself in what is there."""
        layer = "frontend" if self._direction(side) == FRONTEND else "backend"
        window = side.buffer[side.at :]
        found = recognise.boundary(layer, window, self._dialects(side.physical), self.final)
        if found is None:
            if side.left() > LOST_LIMIT:  # what was looked at is not kept
                skipped = side.left() - LOST_KEPT
                side.unread += skipped
                side.at += skipped
            side.skipped = side.left()
            return
        side.unread += found
        side.at += found
        self._tell_loss(side, f"; sound again from frame {side.place(side.offset() + 1)[1]}")
        side.skipped = 0
        side.mode = MESSAGES

    def _tell_loss(self, side: Side, where: str) -> None:
        """Say what is missing and what was passed over before the cursor of `side`."""
        if side.lost:
            usual = side.consumed / side.count if side.count else 0
            about = f", about {max(1, round(side.lost / usual))} messages" if usual else ""
            side.notes.append(finding("stream-gap", bytes=side.lost, about=about + where))
        if side.unread:
            side.notes.append(finding("resynchronised", bytes=side.unread))
        side.lost = side.unread = 0

    def _gap(self, side: Side, gap: Chunk | Gap) -> Iterator[Framed]:
        """Bytes are missing: inside a message whose length is known, framing goes on after it."""
        assert isinstance(gap, Gap)
        self.patient = False  # requests may be missing: nothing is waited for any more
        if side.mode == TLS and self.encrypted is not None:
            yield from map(self._closed, self.encrypted.gap(side, gap))
            side.buffer, side.at, side.base = b"", 0, gap.offset + gap.length
            return
        left = side.left()
        if side.huge is not None:
            end = side.huge[0] + side.huge[1]
            after = end - (gap.offset + gap.length) if gap.frame else -1
            have = side.huge[1] - gap.length if after >= 0 else side.offset() - side.huge[0]
            side.notes.append(finding("message-in-gap", have=have, need=side.huge[1]))
            yield self._huge(side, side.huge[1] - have)
            if after >= 0:
                self._resume(side, gap, after)
                return
        elif side.hole is not None:  # a second gap in the rest of one message
            if gap.frame and gap.offset + gap.length <= side.hole[1]:
                self._resume(side, gap, side.hole[1] - gap.offset - gap.length)
                return
        elif side.mode == MESSAGES and left >= recognise.HEADER:
            (length,) = unpack_from(">I", side.buffer, side.at + 1)
            need = length + 1
            end = side.offset() + need
            # without a frame: a hole in TLS, whose length in plain text is not known
            after = end - (gap.offset + gap.length) if gap.frame else -1
            have = need - gap.length if after >= 0 else left
            side.notes.append(finding("message-in-gap", left, have=have, need=need))
            yield self._message(side, left, need - left)
            if after >= 0:
                self._resume(side, gap, after)
                return
        else:
            side.unread += left
            side.at += left
        side.lost += gap.length
        self._resume(side, gap, None)

    def _resume(self, side: Side, gap: Gap, skip: int | None) -> None:
        side.buffer = b""
        side.at = 0
        side.base = gap.offset + gap.length
        if skip is None:
            side.mode = LOST
            side.hole = None
            side.skipped = 0
            self.session.lost(DIRECTIONS[self._direction(side)])
        else:
            side.hole = (side.base, side.base + skip)

    def _over_hole(self, side: Side) -> bool:
        """Step over the rest of a message that a gap fell into."""
        assert side.hole is not None
        step = min(side.left(), side.hole[1] - side.offset())
        side.at += step
        if side.offset() < side.hole[1]:
            return step > 0
        side.hole = None
        side.mode = MESSAGES
        return True

    def _rest(self, side: Side) -> Iterator[Framed]:
        """The stream has ended inside a message: show what is there."""
        left = side.left()
        if side.huge is not None:
            have, need = side.offset() - side.huge[0], side.huge[1]
            side.notes.append(finding("stream-ended-early", have=have, need=need))
            yield self._huge(side, need - have)
        elif side.mode == MESSAGES and left >= recognise.HEADER:
            (length,) = unpack_from(">I", side.buffer, side.at + 1)
            side.notes.append(finding("stream-ended-early", left, have=left, need=length + 1))
            yield self._message(side, left, length + 1 - left)
        elif side.mode == STARTUP and left >= STARTUP_HEADER:
            (length,) = unpack_from(">I", side.buffer, side.at)
            side.notes.append(finding("stream-ended-early", left, have=left, need=length))
            yield self._message(side, left, length - left)
        elif side.mode in (MESSAGES, LOST, STARTUP, WAITS) and left:
            side.unread += left
        self._tell_loss(side, "; nothing after them proves a message boundary")
        self.found += side.notes
        side.notes = []
