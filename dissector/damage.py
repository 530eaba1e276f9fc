"""Bytes that are missing or make no sense: what is said of them, and where framing goes on."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from

from . import recognise
from .beginning import Beginning
from .capture import Chunk, Gap
from .findings import finding
from .rows import DIRECTIONS, FRONTEND
from .sides import (
    LOST,
    LOST_KEPT,
    LOST_LIMIT,
    MESSAGES,
    STARTUP,
    STARTUP_HEADER,
    TLS,
    WAITS,
    Framed,
    Side,
)
from .times import POSTGRES_EPOCH


class Damage(Beginning):
    """Gaps, boundaries that are looked for, and streams that end in a message."""

    def _nonsense(self, side: Side, length: int) -> None:
        """The header at the cursor cannot be a message's: say so, look for the next boundary."""
        side.notes.append(finding("bad-frame-length", 1, value=length))
        side.mode = LOST
        side.skipped = 0

    def _seek(self, side: Side) -> None:
        """Look for a boundary that proves itself in what is there."""
        layer = "frontend" if self._direction(side) == FRONTEND else "backend"
        window = side.buffer[side.at :]
        now = (side.place(side.offset() + 1)[2] - POSTGRES_EPOCH) // 1000
        found = recognise.boundary(layer, window, self._dialects(side.physical), self.final, now)
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
                side.lost += gap.length
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
        if side.lost:  # that message has its row, and told of its first gap only
            about = ", inside the one before it"
            side.notes.append(finding("stream-gap", bytes=side.lost, about=about))
            side.lost = 0
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
