"""What a `Framer` keeps of each direction: bytes that wait, the frames that hold them, rows that are made."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from struct import unpack_from
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue, recognise
from .ahead import MARKED, Ahead
from .bulk import Answers
from .capture import Chunk, Gap
from .findings import Finding
from .session import Context

if TYPE_CHECKING:
    from .exchange import Said

UNDECIDED, STARTUP, ANSWER, MESSAGES, LOST, TLS, GSS, WAITS = range(8)
"""What the next bytes of a side are: not known yet, a start-up packet, a one-byte answer, messages, bytes
without a boundary, TLS records, GSSAPI packets, what the server's one-byte answer will tell."""

HEAD_LIMIT = 1 << 18
"""Bytes of an unjudged stream that are kept until it is called foreign."""

HEAD_GAPS = 64
"""Gaps in a connection after which it is called foreign too: each look at it costs time."""

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


Listed = tuple[list[int], list[tuple[int, int, int]]]


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
    ahead: Ahead | None = None
    lists: tuple[Array, Listed] | None = None
    said: Said | None = None

    def take(self) -> bool:
        """Move the next chunk into the buffer; False when a gap or nothing comes next."""
        if not self.waiting or isinstance(self.waiting[0], Gap):
            return False
        chunk = self.waiting.popleft()
        assert isinstance(chunk, Chunk)
        self.said = None
        rest = len(self.buffer) - self.at
        if not rest:
            self.base, self.at, self.buffer = chunk.offset, 0, chunk.data
            self.ahead = chunk.ahead
        else:
            self.base += self.at
            self.buffer = chunk.after(self.buffer[self.at :])
            self.at = 0
            self.ahead = chunk.ahead.moved(rest) if chunk.ahead is not None else None
        self.total += chunk.length
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

    def ahead_of(self, tag: int) -> Ahead | None:
        """What is known of messages with the type byte `tag` in the buffer."""
        return self.ahead if tag == MARKED else None

    def left(self) -> int:
        """Bytes in the buffer that no message has taken."""
        return len(self.buffer) - self.at

    def offset(self) -> int:
        """Stream offset of the next byte."""
        return self.base + self.at

    def listed(self) -> Listed:
        """Of the pieces: stream offsets of their ends, and (arrival, frame, time) of each."""
        lists = self.lists
        if lists is None or lists[0] is not self.ends:
            places = zip(
                self.arrivals.tolist(), self.frames.tolist(), self.times.tolist(), strict=True
            )
            lists = self.lists = self.ends, (self.ends.tolist(), list(places))
        return lists[1]

    def place(self, end: int) -> tuple[int, int, int]:
        """(arrival, frame, time) of the byte before stream offset `end`."""
        ends, places = self.listed()
        return places[bisect_left(ends, end, 0, len(ends) - 1)]

    def places(self, ends: Array) -> Array:
        """For ascending stream offsets of messages' ends, the index of the piece that holds the last
        byte."""
        count = len(self.ends)
        if count > len(ends):
            return np.minimum(self.ends.searchsorted(ends - 1, side="right"), count - 1)
        upto = ends.searchsorted(self.ends[:-1], side="right")
        return np.repeat(np.arange(count), np.diff(upto, prepend=0, append=len(ends)))
