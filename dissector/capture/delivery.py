"""From placed segments to events: runs, holes that wait, gaps, ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from dissector.capture.connections import MASK, Connection
from dissector.capture.events import Chunk, End, Gap, Pieces, StreamBatch
from dissector.capture.frames import Array, distinct
from dissector.capture.overlaps import Overlaps, Rows
from dissector.capture.placing import Seen
from dissector.capture.state import Directions, Tables

SLACK = 512
"""Frames that a segment may come later in the capture than the acknowledgement of its bytes."""

TAIL = 1 << 20
"""Acknowledged bytes that may be missing at the end of what is there before a Gap is told."""


class Delivery:
    """Hands streams on in order. What lies behind a hole waits until the hole is filled or lost."""

    def __init__(
        self,
        state: Directions,
        tables: Tables,
        overlaps: Overlaps,
        connections: list[Connection],
        window: int,
        read: Callable[[Pieces, bytes], bytes],
    ) -> None:
        self.state, self.tables, self.overlaps = state, tables, overlaps
        self.connections, self.window, self.read = connections, window, read
        self.ignored = overlaps.ignored
        self._pending: Rows | None = None
        self._acked: dict[int, tuple[int, int]] = {}
        self._seen = Seen()
        self._reach: dict[int, list[int]] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self._reached: dict[int, int] = {}

    def deliver(
        self, data: Rows | None, seen: Seen, batch: StreamBatch, closing: set[int], last: bool
    ) -> None:
        """Make events of the batch's data rows and of what waited before them.

        closing: directions of which nothing more can come; last: nothing more comes at all.
        """
        self._seen, self._reach, self._spans = seen, {}, {}
        self._reached = {}
        tracks: list[tuple[int, int, int]] = []
        rows = self._pending if data is None else data
        if data is not None and self._pending is not None:
            rows = Rows(*(np.concatenate(c) for c in zip(self._pending, data, strict=True)))
        self._pending = None
        if rows is None or not len(rows.did):
            return
        rows = _sorted(rows)
        rows = self.overlaps.settle(rows, batch)
        if not len(rows.did):
            return
        state = self.state
        did, offset = rows.did, rows.offset
        end = offset + rows.length
        first = np.r_[True, did[1:] != did[:-1]]
        head = np.flatnonzero(first)
        before = np.where(first, state.next[did], np.r_[0, end[:-1]])
        run = np.flatnonzero(first | (offset != before))  # where each contiguous run begins
        stop = np.r_[run[1:], len(did)]
        arrival = _arrivals(rows, first, batch.first)
        length = rows.length.astype(np.uint32)
        pieces = Pieces(offset, length, rows.position, rows.frame, arrival, rows.time, rows.record)
        holes = offset[run] != before[run]
        waiting: list[Array] = []
        last_of = np.searchsorted(run, [*head[1:].tolist(), len(did)]).tolist()
        first_of = np.searchsorted(run, head.tolist()).tolist()
        broken = np.logical_or.reduceat(holes, first_of).tolist()
        starts, stops = run.tolist(), stop.tolist()
        places, gaps_from = offset[run].tolist(), before[run].tolist()
        total = np.r_[0, np.cumsum(rows.length)]
        for i, one in enumerate(did[head].tolist()):
            a, b = first_of[i], last_of[i]
            for r in range(a, b):
                low, high = starts[r], stops[r]
                if broken[i] and holes[r]:
                    hole = gaps_from[r], places[r]
                    left = int(total[stops[b - 1]] - total[low])
                    if not (last or one in closing or self._lost(one, hole, left, batch)):
                        waiting.append(np.arange(low, stops[b - 1]))
                        break
                    self._gap(one, hole, int(rows.frame[low]), int(arrival[low]), batch)
                self._chunk(one, pieces.rows(slice(low, high)), batch)
                tracks.append((one, low, high))
        if waiting:
            self._pending = rows.rows(np.concatenate(waiting))
        self._track(tracks, pieces)

    def _track(self, tracks: list[tuple[int, int, int]], pieces: Pieces) -> None:
        """Keep the pieces of what was delivered, and of nothing else."""
        tracks = [track for track in tracks if track[0] >> 1 not in self.ignored]
        if not tracks:
            return
        if sum(high - low for _, low, high in tracks) < len(pieces.offset):
            parts = [np.arange(low, high) for _, low, high in tracks]
            pieces = pieces.rows(np.concatenate(parts))
            at = np.cumsum([0] + [len(part) for part in parts]).tolist()
            tracks = [(t[0], a, b) for t, a, b in zip(tracks, at, at[1:], strict=False)]
        number = self.tables.add(pieces)
        for one, low, high in tracks:
            self.tables.track(one, int(pieces.offset[low]), number, low, high)

    def _lost(self, one: int, hole: tuple[int, int], left: int, batch: StreamBatch) -> bool:
        """Whether the hole will not be filled any more; `left` bytes wait behind it."""
        if left > self.window:
            return True
        state = self.state
        start, frame = self._acked.get(one, (-1, 0))
        if start != hole[0]:
            frame = 0
            if state.ack[one] >= hole[1]:
                did, acks = self._seen.did, self._seen.acks
                if one not in self._reach:
                    low, high = np.searchsorted(did, [one ^ 1, (one ^ 1) + 1]).tolist()
                    self._spans[one] = low, high
                    self._reach[one] = np.maximum.accumulate(acks[low:high]).tolist()
                late = bisect_left(self._reach[one], hole[1])
                low, high = self._spans[one]
                frame = int(self._seen.frames[low + late]) if late < high - low else batch.first
            elif state.reset[one] or (state.fin_frame[one] and state.fin_frame[one ^ 1]):
                frame = int(max(state.fin_frame[one], state.fin_frame[one ^ 1]))
            if frame:
                self._acked[one] = hole[0], frame
        return frame > 0 and batch.last - frame >= SLACK

    def _gap(
        self, one: int, hole: tuple[int, int], frame: int, arrival: int, batch: StreamBatch
    ) -> None:
        self.state.next[one] = hole[1]
        self._acked.pop(one, None)
        if one >> 1 not in self.ignored:
            length = hole[1] - hole[0]
            batch.events.append(Gap(one >> 1, one & 1, hole[0], length, frame, arrival))

    def _chunk(self, one: int, pieces: Pieces, batch: StreamBatch) -> None:
        offset = int(pieces.offset[0])
        end = int(pieces.offset[-1]) + int(pieces.length[-1])
        self.state.next[one] = end
        self._reached[one] = int(pieces.arrival[-1])
        if one >> 1 not in self.ignored:
            chunk = Chunk(one >> 1, one & 1, offset, end - offset, pieces, self.read)
            batch.events.append(chunk)

    def tell_ends(self, batch: StreamBatch) -> None:
        """Ends that this batch showed, and losses that only acknowledgements show."""
        state = self.state
        some = distinct(np.r_[self._seen.ids, np.array(list(self._reached), np.int64)])
        done = (state.fin[some] >= 0) & (state.next[some] >= state.fin[some]) & ~state.ended[some]
        for one in some[done].tolist():
            self._end(one, "fin", int(state.fin_frame[one]), batch)
        for connection, frame in self._seen.resets:
            for one in (connection * 2, connection * 2 + 1):
                if not state.ended[one]:
                    state.fin_frame[one] = frame
                    state.reset[one] = True
                    self._end(one, "rst", frame, batch)
        if len(self._seen.ids):
            waiting = set() if self._pending is None else set(self._pending.did.tolist())
            both = distinct(np.r_[self._seen.ids, self._seen.ids ^ 1])
            both = both[state.known[both]]
            sure = np.maximum(state.ack[both], state.seen[both] - self.window) - TAIL
            for one, stop in zip(both.tolist(), sure.tolist(), strict=True):
                if stop - state.next[one] > TAIL and one not in waiting:
                    self._gap(one, (int(state.next[one]), stop), batch.last, batch.last, batch)

    def _end(self, one: int, kind: str, frame: int, batch: StreamBatch) -> None:
        self.state.ended[one] = True
        arrival = max(frame, batch.first, self._reached.get(one, 0))
        self.connections[one >> 1].ends[one & 1] = kind
        offset = int(self.state.next[one])
        batch.events.append(End(one >> 1, one & 1, offset, kind, frame, arrival))

    def close(self, one: int, kind: str, frame: int, batch: StreamBatch) -> None:
        """Nothing more comes: what is known to be missing at the end is a gap."""
        state = self.state
        if state.closed[one] or not state.known[one]:
            return
        state.closed[one] = True
        next_, fin, stop = int(state.next[one]), int(state.fin[one]), int(state.seen[one])
        if fin >= 0:
            stop = fin
        else:  # only numbers tell of bytes here, and a FIN that is not in the capture counts as one
            told = max(int(state.ack[one]), int(state.claim[one]))
            told -= told == next_ + 1 or state.fin[one ^ 1] >= 0
            stop = max(stop, told)
        if stop > next_:
            self._gap(one, (next_, stop), frame, max(frame, self._reached.get(one, 0)), batch)
        if not state.ended[one]:
            if fin >= 0:
                kind, frame = "fin", int(state.fin_frame[one])
            self._end(one, kind, frame, batch)


def _sorted(rows: Rows) -> Rows:
    """By direction and offset; what came first stays first among equals."""
    did, offset = rows.did, rows.offset
    step = did[1:] - did[:-1]
    if ((step > 0) | ((step == 0) & (offset[1:] >= offset[:-1]))).all():
        return rows
    return rows.rows(np.lexsort((offset, did)))


def _arrivals(rows: Rows, first: Array, floor: int) -> Array:
    """The frame with which each row became deliverable: a running maximum along each stream."""
    arrival = np.maximum(rows.arrival, np.uint32(floor))
    if (first[1:] | (arrival[1:] >= arrival[:-1])).all():
        return arrival
    group = np.cumsum(first) << 32
    result: Array = (np.maximum.accumulate(group | arrival) & MASK).astype(np.uint32)
    return result
