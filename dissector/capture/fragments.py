"""IP fragments put together (RFC 791, RFC 8200). Only where their bytes lie is kept, no copy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dissector.capture.frames import Columns
from dissector.capture.walk import FRAGMENT4, Walk

MAX_PIECES = 65536
"""Pieces kept at once over all datagrams: about 16 MB; the oldest datagram goes first."""

STALE = 60_000_000_000
"""Nanoseconds after which a datagram is not continued: its identification may be in use again."""

REMEMBERED = 1024
"""Datagrams just completed whose second copies are recognised."""


class Piece(NamedTuple):
    """Bytes start..stop of the datagram, of which `captured` are in the file at `position`."""

    start: int
    stop: int
    captured: int
    position: int
    frame: int
    time: int
    record: int


@dataclass(slots=True)
class Datagram:
    """pieces: ascending, not overlapping once `settle` ran. total: -1 until the last piece came."""

    version: int
    protocol: int
    addresses: tuple[int, int, int, int]
    time: int
    pieces: list[Piece] = field(default_factory=list)
    total: int = -1

    def complete(self) -> bool:
        """Whether every byte up to the end was sent by some piece."""
        if self.total < 0:
            return False
        reach = 0
        for piece in sorted(self.pieces):
            if piece.start > reach:
                return False
            reach = max(reach, piece.stop)
        return reach >= self.total

    def settle(self) -> None:
        """Cut overlaps away (the first copy wins) and drop what follows the first hole."""
        taken: list[Piece] = []
        for piece in self.pieces:  # in order of arrival
            free = [(piece.start, piece.stop)]
            for other in taken:
                free = [
                    part
                    for low, high in free
                    for part in ((low, min(high, other.start)), (max(low, other.stop), high))
                    if part[0] < part[1]
                ]
            for low, high in free:
                left = max(0, min(high, piece.start + piece.captured) - low)
                place = piece.position + low - piece.start
                taken.append(Piece(low, high, left, place, *piece[4:]))
        self.pieces, reach = [], 0
        for piece in sorted(taken):
            if piece.start != reach:
                break
            self.pieces.append(piece)
            reach = piece.stop

    def bytes(self, read: Callable[[int, int], bytes]) -> bytes:
        """The datagram's bytes; those that the snap length cut are zeros and never delivered."""
        parts = [read(p.position, p.captured).ljust(p.stop - p.start, b"\0") for p in self.pieces]
        return b"".join(parts)


class Fragments:
    """Datagrams under way."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read = read
        self.open: OrderedDict[tuple[int, ...], Datagram] = OrderedDict()
        self.done: OrderedDict[tuple[int, ...], Datagram] = OrderedDict()
        self.count = 0

    def add(
        self, walk: Walk, row: int, frame: int, base: int, columns: Columns
    ) -> Iterator[Datagram]:
        """Take the fragment in `row`; yields a datagram that it completes, or that must go."""
        addresses = (
            int(walk.src_high[row]),
            int(walk.src_low[row]),
            int(walk.dst_high[row]),
            int(walk.dst_low[row]),
        )
        version = 4 if walk.code[row] == FRAGMENT4 else 6
        key = (version, int(walk.ident[row]), int(walk.inner[row]), *addresses)
        start = int(walk.place[row]) & ~7
        cur, end, wire = int(walk.cur[row]), int(walk.end[row]), int(walk.wire[row])
        time = int(columns.time[row])
        if wire <= cur:
            return
        stop = start + wire - cur
        piece = Piece(
            start, stop, max(0, end - cur), cur | base, frame, time, int(columns.record[row])
        )
        datagram = self.open.get(key)
        if datagram is not None and abs(time - datagram.time) > STALE:
            yield from self._leave(key)
            datagram = None
        if datagram is None:
            if key in self.done and self._repeats(piece, self.done[key]):
                return
            datagram = Datagram(version, int(walk.inner[row]), addresses, time)
            self.open[key] = datagram
        datagram.pieces.append(piece)
        self.count += 1
        if not int(walk.place[row]) & 1:
            datagram.total = stop
        if datagram.complete():
            del self.open[key]
            self.count -= len(datagram.pieces)
            datagram.settle()
            self.done[key] = datagram
            if len(self.done) > REMEMBERED:
                self.done.popitem(last=False)
            yield datagram
        while self.count > MAX_PIECES:
            yield from self._leave(next(iter(self.open)))

    def _repeats(self, piece: Piece, done: Datagram) -> bool:
        """Whether the piece is a second copy of one that did its work, not of a datagram with the
        same identification."""
        new = self.read(piece.position, piece.captured)
        for old in done.pieces:
            if old.start <= piece.start and piece.stop <= old.stop:
                return self.read(old.position + piece.start - old.start, piece.captured) == new
        return False

    def rest(self) -> Iterator[Datagram]:
        """The datagrams that never became complete, as far as they go from their first byte."""
        while self.open:
            yield from self._leave(next(iter(self.open)))

    def _leave(self, key: tuple[int, ...]) -> Iterator[Datagram]:
        datagram = self.open.pop(key)
        self.count -= len(datagram.pieces)
        datagram.settle()
        if datagram.pieces:
            yield datagram
