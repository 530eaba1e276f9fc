"""Where the bytes of a stream lie in the files, kept small: there is one entry for every segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .capture import Pieces
from .packed import Packed, pack

Array = NDArray[Any]

FEW = 8
"""Entries that are faster read one by one."""


class Place(NamedTuple):
    """Bytes of one frame: their offset in the stream, how many, their position in the files, the number
    of the frame, and the position of its record."""

    offset: int
    length: int
    position: int
    frame: int
    record: int


class ManyPlaces(NamedTuple):
    """Places in columns, each int64; frame is empty where it was not asked for."""

    offset: Array
    length: Array
    position: Array
    record: Array
    frame: Array


class _Part:
    """The entries of one `Pieces`; consecutive bytes."""

    __slots__ = ("_begins", "_frames", "_heads", "_positions", "start", "stop")

    def __init__(self, pieces: Pieces) -> None:
        offset = pieces.offset
        self.start = int(offset[0])
        self.stop = int(offset[-1]) + int(pieces.length[-1])
        self._begins = offset - offset[0]
        if self.stop - self.start <= np.iinfo(np.uint32).max:
            self._begins = self._begins.astype(np.uint32)
        self._positions: Packed = pack(pieces.position)
        self._heads: Packed = pack(pieces.position - pieces.record)
        self._frames: Packed = pack(pieces.frame)

    def many(self, start: int, stop: int, frames: bool) -> ManyPlaces:
        """See `places`."""
        begins: Any = self._begins
        low = bisect_right(begins.data, start - self.start) - 1
        high = bisect_right(begins.data, stop - 1 - self.start, low)
        edges = np.empty(high - low + 1, np.int64)
        edges[:-1] = begins[low:high]
        edges += self.start
        skip = start - int(edges[0])
        edges[0], edges[-1] = start, stop
        position = self._positions.part(low, high)
        record = position - self._heads.part(low, high)
        position[0] += skip
        frame = self._frames.part(low, high if frames else low)
        return ManyPlaces(edges[:-1], np.diff(edges), position, record, frame)

    def places(self, start: int, stop: int) -> Iterator[Place]:
        """Of the bytes start..stop, all of which are here."""
        begins: Any = self._begins.data
        low = bisect_right(begins, start - self.start) - 1
        high = bisect_right(begins, stop - 1 - self.start, low)
        each = [*begins[low:high], stop - self.start]
        columns = (self._positions, self._heads, self._frames)
        if high - low <= FEW:
            entries = [[column.one(i) for i in range(low, high)] for column in columns]
        else:
            entries = [column.part(low, high).tolist() for column in columns]
        for i, (position, head, frame) in enumerate(zip(*entries, strict=True)):
            begin = each[i] + self.start
            skip = max(0, start - begin)
            length = each[i + 1] + self.start - begin - skip
            yield Place(begin + skip, length, position + skip, frame, position - head)


class Places:
    """The places of one direction's bytes, as they come: ascending, with gaps."""

    __slots__ = ("_parts", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._parts: list[_Part] = []

    def add(self, pieces: Pieces) -> None:
        """Take what comes after all that came before."""
        if len(pieces.offset):
            part = _Part(pieces)
            self._parts.append(part)
            self._starts.append(part.start)

    def find(self, start: int, stop: int) -> Iterator[Place]:
        """Where the bytes start..stop lie, in order, up to a gap."""
        for part, low, high in self._spans(start, stop):
            yield from part.places(low, high)

    def find_many(self, start: int, stop: int, frames: bool = False) -> Iterator[ManyPlaces]:
        """The same, many at a time."""
        return (part.many(low, high, frames) for part, low, high in self._spans(start, stop))

    def _spans(self, start: int, stop: int) -> Iterator[tuple[_Part, int, int]]:
        which = max(0, bisect_right(self._starts, start) - 1)
        while which < len(self._parts) and start < stop:
            part = self._parts[which]
            if not part.start <= start < part.stop:
                return
            end = min(stop, part.stop)
            yield part, start, end
            start = end
            which += 1
