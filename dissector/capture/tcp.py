"""TCP segments to byte streams with explicit gaps (RFC 9293), many segments at once.

All directions of all connections are handled together: the segments of a batch are sorted by direction and
sequence, and array operations find the runs that continue each other. Only what overlaps, and what
lies behind a hole, is looked at piece by piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import numpy as np

from dissector.capture.connections import MASK, Connection, Pairs
from dissector.capture.events import Chunk, End, Gap, Pieces, StreamBatch, StreamFinding
from dissector.capture.files import CaptureFiles, FrameBatch
from dissector.capture.frames import FILE_SHIFT, OFFSET, Array, distinct
from dissector.capture.link import ACK, FIN, RST, SYN, Link, LinkStats, Segments
from dissector.capture.overlaps import Overlaps, Rows
from dissector.capture.state import Directions, Tables
from dissector.findings import Finding, finding

__all__ = ["Chunk", "Connection", "End", "Gap", "Pieces", "StreamFinding", "Streams"]

WINDOW = 32 << 20
"""Bytes of one direction that may wait behind a hole. More than real receive windows in flight."""

SLACK = 512
"""Frames that a segment may come later in the capture than the acknowledgement of its bytes."""

REACH = 1 << 30
"""No TCP window is larger (RFC 7323): a segment further away has no place in the stream."""

EARLY = 1 << 24
"""How far before the first data segment of a direction without a SYN its stream may begin."""

TAIL = 1 << 20
"""Acknowledged bytes that may be missing at the end of what is there before a Gap is told."""


class Streams:
    """The byte streams of `files`. Iterate `batches()` once; then everything else is complete.

    window: bytes of a direction that wait behind a hole before it is told as a Gap.
    """

    def __init__(self, files: CaptureFiles, *, window: int = WINDOW) -> None:
        self.files = files
        self.link = Link(files)
        self.window = window
        self.pairs = Pairs()
        self.state = Directions()
        self.tables = Tables()
        self.findings: list[Finding] = []
        self.ignored: set[int] = set()
        self._pending: Rows | None = None
        self._acked: dict[int, tuple[int, int]] = {}
        self._overlaps = Overlaps(self.tables, self.state, files.read)
        self._forget()

    @property
    def connections(self) -> list[Connection]:
        """All TCP connections so far; item n has the number n."""
        return self.pairs.connections

    @property
    def stats(self) -> LinkStats:
        """Counts of packets."""
        return self.link.stats

    @property
    def ports(self) -> Counter[int]:
        """Server ports, each with the number of its connections."""
        return Counter(c.server_port for c in self.connections)

    def ignore(self, connection: int) -> None:
        """Hand on no more chunks and gaps of a connection, and keep no table of it."""
        self.ignored.add(connection)

    def pieces(self, connection: int, direction: int, start: int, stop: int) -> Pieces:
        """Where bytes start..stop of a stream lie, as far as they were delivered; clipped."""
        return self.tables.pieces(connection * 2 + direction, start, stop)

    def batches(self) -> Iterator[StreamBatch]:
        """The events of the capture, batch by batch."""
        ahead: FrameBatch | None = None
        for frames in self.files.batches():
            if ahead is not None:
                yield self._batch(ahead, last=False)
            ahead = frames
        if ahead is not None:
            yield self._batch(ahead, last=True)
        self._finish()

    def read(self, pieces: Pieces) -> bytes:
        """The bytes of pieces, one after the other."""
        position = pieces.position
        if len(position) == 1:
            return self.files.read(int(position[0]), int(pieces.length[0]))
        sources = self.files.sources
        number = position >> FILE_SHIFT
        start = position & OFFSET
        stop = (start + pieces.length).tolist()
        if (number == number[0]).all():
            view = sources[int(number[0])].view
            return b"".join([view[a:b] for a, b in zip(start.tolist(), stop, strict=True)])
        views = [source.view for source in sources]
        return b"".join(
            [views[n][a:b] for n, a, b in zip(number.tolist(), start.tolist(), stop, strict=True)]
        )

    # one batch

    def _forget(self) -> None:
        """Clear what is kept of one batch only."""
        none = np.zeros(0, np.int64)
        self._acks, self._ack_frames, self._touched = (none, none), none, none
        self._resets: list[tuple[int, int]] = []
        self._reached: dict[int, int] = {}
        self._reach: dict[int, list[int]] = {}
        self._spans: dict[int, tuple[int, int]] = {}

    def _batch(self, frames: FrameBatch, last: bool) -> StreamBatch:
        segments = self.link.segments(frames)
        if last:
            more = self.link.finish(frames.last)
            if len(more.frame):
                segments = Segments(*(np.concatenate(c) for c in zip(segments, more, strict=True)))
        batch = StreamBatch(frames.first, frames.last)
        closing: set[int] = set()
        self._forget()
        if len(segments.frame):
            assigned = self.pairs.assign(segments, self.state.first_seq)
            batch.connections = assigned.started
            self.state.grow(2 * len(self.connections))
            data = self._place(segments, assigned.did, batch)
            closing = {c.number * 2 + d for c, _ in assigned.replaced for d in (0, 1)}
        else:
            assigned, data = None, None
        self._deliver(data, batch, closing, last)
        self._told(batch)
        if assigned is not None:
            for old, frame in assigned.replaced:
                for one in (old.number * 2, old.number * 2 + 1):
                    self._close(one, "new", frame, batch)
        if last:
            for one in np.flatnonzero(self.state.known & ~self.state.closed).tolist():
                self._close(one, "capture", frames.last, batch)
        batch.events.sort(key=lambda event: event.arrival)
        return batch

    def _place(self, s: Segments, did: Array, batch: StreamBatch) -> Rows:
        """Give every segment its stream offset; returns the rows that carry data."""
        state = self.state
        order = np.argsort(did, kind="stable")
        did = did[order]
        head = np.flatnonzero(np.r_[True, did[1:] != did[:-1]])
        group = np.repeat(np.arange(len(head)), np.diff(np.r_[head, len(did)]))
        ids = did[head]
        flags, wire, length = s.flags[order], s.wire[order], s.length[order]
        syn, rst = flags & SYN != 0, flags & RST != 0
        sequence = s.seq[order] + syn
        self._bases(ids, head, group, sequence, s.seq[order], syn & ~rst, (wire > 0) & ~rst)
        known = state.known[ids][group]
        near = np.maximum(state.next[ids], state.ack[ids])  # what is near in 32 bits is meant
        distance = _wrap(sequence - (state.base[ids] + near)[group])
        offset = near[group] + distance
        sane = known & ~rst & (np.abs(distance) < REACH)
        ends = np.where(sane, offset + wire, -1)
        for mark, mine in ((state.seen, wire > 0), (state.claim, wire == 0)):
            top = np.maximum.reduceat(np.where(mine, ends, -1), head)
            mark[ids] = np.maximum(mark[ids], top)
        finished = np.flatnonzero(sane & (flags & FIN != 0))
        for row in finished.tolist():
            one = int(did[row])
            if state.fin[one] < 0:
                state.fin[one] = int(ends[row])
                state.fin_frame[one] = int(s.frame[order[row]])
        self._acknowledge(ids, did, group, head, s.ack[order], (flags & ACK != 0) & ~rst)
        self._resets = [(int(did[r]) >> 1, int(s.frame[order[r]])) for r in np.flatnonzero(rst)]
        data = (length > 0) & ~rst
        lost = data & ~sane
        if lost.any():
            for row in np.flatnonzero(lost).tolist():
                frame = int(s.frame[order[row]])
                span = int(offset[row]), int(length[row])
                self._overlaps.outside(int(did[row]), *span, frame, batch)
            data &= sane
        self._ack_frames, self._touched = s.arrival[order], ids
        rows = order if data.all() else order[data]
        keep = slice(None) if data.all() else data
        return Rows(
            did[keep],
            offset[keep],
            length[keep],
            s.position[rows],
            s.frame[rows],
            s.arrival[rows],
            s.time[rows],
            s.record[rows],
        )

    def _bases(
        self,
        ids: Array,
        head: Array,
        group: Array,
        sequence: Array,
        seq: Array,
        syn: Array,
        data: Array,
    ) -> None:
        """Fix stream offset 0 of directions that are seen for the first time: behind the SYN, or
        at the lowest data near the first data segment."""
        state = self.state
        if state.known[ids].all():
            return
        rows = np.arange(len(sequence))
        none = len(sequence)
        first_syn = np.minimum.reduceat(np.where(syn, rows, none), head)
        first_data = np.minimum.reduceat(np.where(data, rows, none), head)
        begin = np.where(first_syn < none, first_syn, first_data)
        new = ~state.known[ids] & (begin < none)
        if not new.any():
            return
        origin = sequence[np.where(begin < none, begin, 0)]
        ahead = _wrap(sequence - origin[group])
        low = np.minimum.reduceat(np.where(data & (ahead > -EARLY), ahead, 0), head)
        low = np.where(first_syn < none, 0, np.minimum(low, 0))
        mine = ids[new]
        state.base[mine] = (origin + low)[new] & MASK
        state.known[mine] = True
        state.first_seq[mine] = seq[np.where(begin < none, begin, 0)][new]

    def _acknowledge(
        self, ids: Array, did: Array, group: Array, head: Array, ack: Array, valid: Array
    ) -> None:
        """Note how far the other side has acknowledged each direction."""
        state = self.state
        other = ids ^ 1
        fresh = ~state.known[other]
        if (
            fresh.any()
        ):  # a direction of which nothing is captured begins at the first acknowledgement
            rows = np.minimum.reduceat(np.where(valid, np.arange(len(ack)), len(ack)), head)
            fresh &= rows < len(ack)
            state.base[other[fresh]] = ack[rows[fresh]]
            state.first_seq[other[fresh]] = ack[rows[fresh]]
            state.known[other[fresh]] = True
        near = np.maximum(state.next[other], state.ack[other])
        distance = _wrap(ack - (state.base[other] + near)[group])
        valid = valid & state.known[other][group] & (distance < REACH)
        offset = np.where(valid, near[group] + distance, -1)
        state.ack[other] = np.maximum(state.ack[other], np.maximum.reduceat(offset, head))
        self._acks = did, offset

    # delivery

    def _deliver(
        self, data: Rows | None, batch: StreamBatch, closing: set[int], last: bool
    ) -> None:
        rows = self._pending if data is None else data
        if data is not None and self._pending is not None:
            rows = Rows(*(np.concatenate(c) for c in zip(self._pending, data, strict=True)))
        self._pending = None
        if rows is None or not len(rows.did):
            return
        rows = self._sorted(rows)
        rows = self._overlaps.settle(rows, batch)
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
        number, place = self.tables.add(
            Pieces(
                offset,
                rows.length.astype(np.uint32),
                rows.position,
                rows.frame,
                arrival,
                rows.time,
                rows.record,
            )
        )
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
                self._chunk(one, low, high, number, place, batch)
        if waiting:
            self._pending = rows.rows(np.concatenate(waiting))

    def _lost(self, one: int, hole: tuple[int, int], left: int, batch: StreamBatch) -> bool:
        """Whether the hole will not be filled any more; `left` bytes wait behind it."""
        if left > self.window:
            return True
        state = self.state
        start, frame = self._acked.get(one, (-1, 0))
        if start != hole[0]:
            frame = 0
            if state.ack[one] >= hole[1]:
                did, acks = self._acks
                if one not in self._reach:
                    low, high = np.searchsorted(did, [one ^ 1, (one ^ 1) + 1]).tolist()
                    self._spans[one] = low, high
                    self._reach[one] = np.maximum.accumulate(acks[low:high]).tolist()
                late = bisect_left(self._reach[one], hole[1])
                low, high = self._spans[one]
                frame = int(self._ack_frames[low + late]) if late < high - low else batch.first
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

    def _chunk(
        self, one: int, low: int, high: int, number: int, pieces: Pieces, batch: StreamBatch
    ) -> None:
        mine = pieces.rows(slice(low, high))
        offset = int(mine.offset[0])
        end = int(mine.offset[-1]) + int(mine.length[-1])
        self.state.next[one] = end
        self._reached[one] = int(mine.arrival[-1])
        self.tables.track(one, offset, number, low, high)
        if one >> 1 not in self.ignored:
            chunk = Chunk(one >> 1, one & 1, offset, end - offset, mine, self.read)
            batch.events.append(chunk)

    def _told(self, batch: StreamBatch) -> None:
        """Ends that this batch showed, and losses that only acknowledgements show."""
        state = self.state
        some = distinct(np.r_[self._touched, np.array(list(self._reached), np.int64)])
        done = (state.fin[some] >= 0) & (state.next[some] >= state.fin[some]) & ~state.ended[some]
        for one in some[done].tolist():
            self._end(one, "fin", int(state.fin_frame[one]), batch)
        for connection, frame in self._resets:
            for one in (connection * 2, connection * 2 + 1):
                if not state.ended[one]:
                    state.fin_frame[one] = frame
                    state.reset[one] = True
                    self._end(one, "rst", frame, batch)
        if len(self._touched):
            waiting = set() if self._pending is None else set(self._pending.did.tolist())
            both = distinct(np.r_[self._touched, self._touched ^ 1])
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

    def _close(self, one: int, kind: str, frame: int, batch: StreamBatch) -> None:
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

    def _finish(self) -> None:
        """Findings that count over the whole capture."""
        stats = self.stats
        if stats.cut:
            self.findings.append(finding("snap-length", count=stats.cut))
        for link, count in sorted(stats.unknown.items()):
            self.findings.append(finding("link-type", count=count, link=link))

    @staticmethod
    def _sorted(rows: Rows) -> Rows:
        """By direction and offset; what came first stays first among equals."""
        did, offset = rows.did, rows.offset
        step = did[1:] - did[:-1]
        if ((step > 0) | ((step == 0) & (offset[1:] >= offset[:-1]))).all():
            return rows
        return rows.rows(np.lexsort((offset, did)))


def _wrap(difference: Array) -> Array:
    """Differences of 32-bit sequence numbers as signed numbers (RFC 9293, serial arithmetic)."""
    result: Array = ((difference + 0x80000000) & MASK) - 0x80000000
    return result


def _arrivals(rows: Rows, first: Array, floor: int) -> Array:
    """The frame with which each row became deliverable: a running maximum along each stream."""
    arrival = np.maximum(rows.arrival, np.uint32(floor))
    if (first[1:] | (arrival[1:] >= arrival[:-1])).all():
        return arrival
    group = np.cumsum(first) << 32
    result: Array = (np.maximum.accumulate(group | arrival) & MASK).astype(np.uint32)
    return result
