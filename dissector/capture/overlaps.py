"""Bytes that come more than once: retransmissions, duplicates, overlaps, keep-alive probes.

The first copy in the capture wins. A later copy is compared with it; other bytes are a finding.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dissector.capture.events import StreamBatch, StreamFinding
from dissector.capture.frames import Array
from dissector.capture.state import Directions, Tables
from dissector.findings import finding

SHOWN = 64
"""Bytes of each copy that a finding keeps."""

MOST = 10_000
"""Findings of this kind in one capture; a capture of nothing but conflicts stays bounded."""


class Rows(NamedTuple):
    """Data segments with their place. did i8 (2 * connection + direction), offset i8, length i8,
    position i8, frame u4, arrival u4, time i8, record i8; see Segments and Pieces."""

    did: Array
    offset: Array
    length: Array
    position: Array
    frame: Array
    arrival: Array
    time: Array
    record: Array

    def rows(self, which: Array | slice) -> Rows:
        """The rows that an index array, mask or slice picks."""
        return Rows(*(column[which] for column in self))


class Copy(NamedTuple):
    """Stream bytes start..stop, in the files at position, first seen in frame; row: of which row."""

    start: int
    stop: int
    position: int
    frame: int
    row: int


class Overlaps:
    """Makes rows that do not overlap, comparing what they share."""

    def __init__(
        self,
        tables: Tables,
        state: Directions,
        read: Callable[[int, int], bytes],
        ignored: set[int],
    ) -> None:
        self.tables, self.state, self.read, self.ignored = tables, state, read, ignored
        self.repeated = 0
        self.differing = 0
        self.keepalives = 0

    def settle(self, rows: Rows, batch: StreamBatch) -> Rows:
        """`rows` are sorted by direction and offset; the result is too, and nothing in it overlaps
        anything else or what was delivered before."""
        bad = self._overlapping(rows)
        if not bad.any():
            return rows
        rows, bad = self._without_twins(rows, bad)
        if not bad.any():
            return rows
        keep = ~bad
        added: list[tuple[int, int, int]] = []  # row, start, stop
        for low, high in _clusters(rows.did, bad):
            keep[low:high] = False
            for copy in self._cluster(rows, low, high, batch):
                added.append((copy.row, copy.start, copy.stop))
        kept = rows.rows(keep)
        if not added:
            return kept
        which, start, stop = np.array(added, np.int64).T
        extra = rows.rows(which)
        extra = extra._replace(
            position=extra.position + (start - extra.offset), offset=start, length=stop - start
        )
        result = Rows(*(np.concatenate(c) for c in zip(kept, extra, strict=True)))
        return result.rows(np.lexsort((result.offset, result.did)))

    def outside(self, one: int, offset: int, length: int, frame: int, batch: StreamBatch) -> None:
        """Report a segment that has no place in its stream."""
        self.differing += 1
        if self.differing <= MOST:
            found = finding("out-of-window", bytes=length, frame=frame)
            batch.findings.append(StreamFinding(found, one >> 1, one & 1, offset, length, frame))

    def _overlapping(self, rows: Rows) -> Array:
        """Which rows begin before the end of what is left of them in the stream."""
        did, offset = rows.did, rows.offset
        first = np.r_[True, did[1:] != did[:-1]]
        next_ = self.state.next[did]
        end = offset + rows.length
        before = np.where(first, next_, np.r_[0, end[:-1]])
        if (offset >= before).all():
            return np.zeros(len(did), np.bool_)
        # A running maximum inside each group, by one over numbers that begin with the group's.
        group = np.cumsum(first) << 42
        reach = np.maximum.accumulate(group + np.clip(end - next_, 0, 1 << 41)) - group
        before = np.where(first, 0, np.r_[0, reach[:-1]])
        result: Array = offset - next_ < before
        return result

    def _without_twins(self, rows: Rows, bad: Array) -> tuple[Rows, Array]:
        """Drop exact second copies of the row before them, the usual case of packets seen twice."""
        twin = (rows.did[1:] == rows.did[:-1]) & (rows.offset[1:] == rows.offset[:-1])
        twin &= rows.length[1:] == rows.length[:-1]
        which = np.flatnonzero(twin) + 1
        if not len(which):
            return rows, bad
        keep = np.ones(len(bad), np.bool_)
        position, length, read = rows.position, rows.length.tolist(), self.read
        for i in which.tolist():
            n = length[i]
            keep[i] = read(int(position[i]), n) != read(int(position[i - 1]), n)
        self.repeated += int((~keep).sum())
        rows = rows.rows(keep)
        return rows, self._overlapping(rows)

    def _cluster(self, rows: Rows, low: int, high: int, batch: StreamBatch) -> list[Copy]:
        """Rows low..high overlap each other or what was delivered: take them in order of arrival."""
        one = int(rows.did[low])
        delivered = int(self.state.next[one])
        taken: list[Copy] = []
        order = np.lexsort((rows.offset[low:high], rows.frame[low:high], rows.arrival[low:high]))
        for i in (order + low).tolist():
            start, length = int(rows.offset[i]), int(rows.length[i])
            copy = Copy(start, start + length, int(rows.position[i]), int(rows.frame[i]), i)
            if start < 0:
                self.outside(one, start, min(length, -start), copy.frame, batch)
                if copy.stop <= 0:
                    continue
                copy = copy._replace(start=0, position=copy.position - start)
            if copy.start < delivered:
                self._with_delivered(one, copy, delivered, batch)
                if copy.stop <= delivered:
                    continue
                shift = delivered - copy.start
                copy = copy._replace(start=delivered, position=copy.position + shift)
            free = copy.start
            at = max(0, bisect_left(taken, (copy.start,)) - 1)
            fresh: list[Copy] = []
            for other in taken[at:]:
                if other.start >= copy.stop:
                    break
                if other.stop <= free:
                    continue
                if other.start > free:
                    place = copy.position + free - copy.start
                    fresh.append(copy._replace(start=free, stop=other.start, position=place))
                self._compare(one, copy, other, batch)
                free = max(free, other.stop)
            if free < copy.stop:
                fresh.append(copy._replace(start=free, position=copy.position + free - copy.start))
            for piece in fresh:
                insort(taken, piece)
        return taken

    def _with_delivered(self, one: int, copy: Copy, delivered: int, batch: StreamBatch) -> None:
        if one >> 1 in self.ignored:
            return  # no table is kept of it
        pieces = self.tables.pieces(one, copy.start, min(copy.stop, delivered))
        covered = 0
        for offset, length, position, frame in zip(
            pieces.offset.tolist(),
            pieces.length.tolist(),
            pieces.position.tolist(),
            pieces.frame.tolist(),
            strict=True,
        ):
            covered += length
            self._compare(one, copy, Copy(offset, offset + length, position, frame, -1), batch)
        late = min(copy.stop, delivered) - copy.start - covered
        if late > 0:
            self.outside(one, copy.start, late, copy.frame, batch)

    def _compare(self, one: int, copy: Copy, other: Copy, batch: StreamBatch) -> None:
        """Compare the bytes that a later copy shares with an earlier one."""
        start, stop = max(copy.start, other.start), min(copy.stop, other.stop)
        self.repeated += 1
        new = self.read(copy.position + start - copy.start, stop - start)
        old = self.read(other.position + start - other.start, stop - start)
        if new == old:
            return
        if copy.stop - copy.start == 1 and copy.stop == other.stop:
            self.keepalives += 1  # a probe repeats the last byte, with any content (RFC 9293 3.8.4)
            return
        self.differing += 1
        if self.differing > MOST:
            return
        at = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
        found = finding("retransmission-differs", frame=copy.frame, first=other.frame)
        batch.findings.append(
            StreamFinding(
                found,
                one >> 1,
                one & 1,
                start + at,
                stop - start - at,
                copy.frame,
                other.frame,
                old[at : at + SHOWN],
                new[at : at + SHOWN],
            )
        )


def _clusters(did: Array, bad: Array) -> list[tuple[int, int]]:
    """Row ranges of bad rows, each with the good row that they overlap where there is one."""
    rows = np.flatnonzero(bad)
    breaks = np.flatnonzero(np.diff(rows) > 1) + 1
    result = []
    for part in np.split(rows, breaks):
        low, high = int(part[0]), int(part[-1]) + 1
        # A run of bad rows may pass into the next direction: cut it there.
        while low < high:
            stop = low + int(np.searchsorted(did[low:high], did[low], side="right"))
            begin = low - 1 if low and did[low - 1] == did[low] and not bad[low - 1] else low
            result.append((begin, stop))
            low = stop
    return result
