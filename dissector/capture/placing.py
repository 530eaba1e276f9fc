"""From sequence numbers to stream offsets (RFC 9293): 64 bits that never wrap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dissector.capture.connections import MASK
from dissector.capture.events import StreamBatch
from dissector.capture.frames import Array
from dissector.capture.link import ACK, FIN, RST, SYN, Segments
from dissector.capture.overlaps import Overlaps, Rows
from dissector.capture.state import Directions

REACH = 1 << 30
"""No TCP window is larger (RFC 7323): a segment further away has no place in the stream."""

EARLY = 1 << 24
"""How far before the first data segment of a direction without a SYN its stream may begin."""


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Seen:
    """What the segments of one batch say beside data.

    ids: directions with a segment. did, acks, frames: of every segment, ordered by direction, its
    direction, the offset that it acknowledges in the other one (-1 if none), its frame.
    resets: (connection, frame) of each RST.
    """

    ids: Array = field(default_factory=_none)
    did: Array = field(default_factory=_none)
    acks: Array = field(default_factory=_none)
    frames: Array = field(default_factory=_none)
    resets: list[tuple[int, int]] = field(default_factory=list)


class Placer:
    """Gives segments their place and notes in `state` what they tell of their directions."""

    def __init__(self, state: Directions, overlaps: Overlaps) -> None:
        self.state, self.overlaps = state, overlaps

    def place(self, s: Segments, did: Array, batch: StreamBatch) -> tuple[Rows, Seen]:
        """Give every segment its stream offset; returns the rows that carry data, and the rest.

        did: 2 * connection + direction of every segment.
        """
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
        acks = self._acknowledge(ids, group, head, s.ack[order], (flags & ACK != 0) & ~rst)
        resets = [(int(did[r]) >> 1, int(s.frame[order[r]])) for r in np.flatnonzero(rst)]
        data = (length > 0) & ~rst
        lost = data & ~sane
        if lost.any():
            for row in np.flatnonzero(lost).tolist():
                frame = int(s.frame[order[row]])
                span = int(offset[row]), int(length[row])
                self.overlaps.outside(int(did[row]), *span, frame, batch)
            data &= sane
        seen = Seen(ids, did, acks, s.arrival[order], resets)
        rows = order if data.all() else order[data]
        keep = slice(None) if data.all() else data
        carried = Rows(
            did[keep],
            offset[keep],
            length[keep],
            s.position[rows],
            s.frame[rows],
            s.arrival[rows],
            s.time[rows],
            s.record[rows],
        )
        return carried, seen

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
        self, ids: Array, group: Array, head: Array, ack: Array, valid: Array
    ) -> Array:
        """Note how far the other side has acknowledged each direction; returns, for every segment,
        the offset in the other direction that it acknowledges, -1 if none."""
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
        return offset


def _wrap(difference: Array) -> Array:
    """Differences of 32-bit sequence numbers as signed numbers (RFC 9293, serial arithmetic)."""
    result: Array = ((difference + 0x80000000) & MASK) - 0x80000000
    return result
