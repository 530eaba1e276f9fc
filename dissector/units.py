"""Units of a connection's streams: where each ends by its header, and the row that it becomes."""

from __future__ import annotations

from dataclasses import replace
from struct import unpack_from
from typing import TYPE_CHECKING

from . import recognise
from .copyboth import CopyBoth
from .findings import Finding, finding
from .node import findings, messages
from .rows import ASSUMED, BACKEND, DIRECTIONS, FRONTEND, INCOMPLETE
from .schema_findings import schema_findings
from .schemas import Tables
from .session import Assumptions, Context, Session
from .sides import (
    ANSWER,
    GSS,
    GSS_LARGEST,
    LOST,
    MESSAGES,
    STARTUP,
    TLS,
    WAITS,
    Framed,
    Side,
)
from .spec import Dialect

if TYPE_CHECKING:  # cryptography is imported where a connection is encrypted
    from .encrypted import Closed, Encrypted
    from .tls import KeyLog


class Units:
    """The state of one connection, and one unit at a time."""

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
        self.gaps = 0  # before it was decided
        if client is None:
            for physical, port in enumerate(ports):
                if port in assumptions.ports:  # the sender with this port is the server
                    self.client = 1 - physical
        self.fast = True
        self.number = 0  # of the connection
        self.flags = 0  # of all its rows
        self.forced = any(port in assumptions.ports for port in ports)
        self.final = False
        self.patient = True
        self.at_once = 0  # of how many messages of a side an order is looked for
        self.endings: dict[int, str] = {}
        self.found: list[Finding] = []

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

    def _message(
        self, side: Side, size: int, missing: int = 0, place: tuple[int, int, int] | None = None
    ) -> Framed:
        """A message of which `size` bytes lie at the cursor (and `missing` more are not there); place: of
        its last byte, where it is at hand."""
        data = side.buffer[side.at : side.at + size]
        direction = self._direction(side)
        start = side.offset()
        context = self.session.feed(DIRECTIONS[direction], data)
        found = context.found
        if side.notes:
            found, side.notes = side.notes + found, []
        flags = self.flags | (ASSUMED if context.assumed else 0)
        severity = 0
        if missing:
            flags |= INCOMPLETE
            self._forget(context)
        else:
            severity = context.worst()
            if len(context.path) > 2:  # CopyData, and what it carries: maybe a row change
                found_too = schema_findings(context.tree, self.tables.schemas[context.schema])
                severity = max(severity, *(f.severity for f in found_too), 0)
        if found:
            severity = max(severity, *(f.severity for f in found))
        arrival, frame, time = place or side.place(start + size)
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
        flags = self.flags | INCOMPLETE | (ASSUMED if context.assumed else 0)
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
        return Framed(*place, direction, start, len(data), context, severity, self.flags, found)
