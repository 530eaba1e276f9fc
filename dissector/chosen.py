"""Which frames hold the bytes of chosen messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .capture.frames import distinct
from .halting import go_on
from .rows import DECRYPTED

if TYPE_CHECKING:
    from .view import Capture

Array = NDArray[Any]

APART = 1 << 16
"""Bytes between two messages from which on what lies between them is not looked at."""

_COLUMNS = ("stream", "direction", "offset", "length", "flags")


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames in capture order, a row each: arrays of one length, int64.

    number: of the frame. record: its place in the files. side: stream * 2 + direction of the bytes that
    it holds, -1 where these are not known by their places (TLS). shift: of a byte of it, offset in that
    stream minus position in the files.
    """

    number: Array
    record: Array
    side: Array
    shift: Array


def frames_of(capture: Capture, blocks: Iterator[Array]) -> Frames:
    """The frames that hold bytes of messages, each once; blocks: numbers of the messages, int64."""
    found = [np.zeros((4, 0), np.int64)]
    for numbers in blocks:
        go_on()
        some = np.concatenate(list(_of_block(capture, numbers)) or found[:1], axis=1)
        _, first = np.unique(some[0], return_index=True)
        found.append(some[:, first])
    together = np.concatenate(found, axis=1)
    # TLS and plain bytes in one frame: what is known of it counts
    order = np.lexsort((together[2] < 0, together[0]))
    together = together[:, order]
    first = np.flatnonzero(np.diff(together[0], prepend=-1))
    return Frames(*together[:, first])


def _of_block(capture: Capture, numbers: Array) -> Iterator[Array]:
    """Arrays of shape (4, frames): the columns of `Frames`."""
    c = {name: capture.index.rows.take(name, numbers - 1) for name in _COLUMNS}
    plain = c["flags"] & DECRYPTED == 0
    for number in numbers[~plain].tolist():
        go_on()
        extents = capture.extents(capture.row(number))
        if extents:
            yield np.array([(e.frame, e.record, -1, 0) for e in extents], np.int64).T
    sides = c["stream"].astype(np.int64) * 2 + c["direction"]
    for side in distinct(sides[plain]).tolist():
        mine = np.flatnonzero(plain & (sides == side))
        start = c["offset"][mine].astype(np.int64)
        order = np.argsort(start, kind="stable")
        start, length = start[order], c["length"][mine].astype(np.int64)[order]
        yield from _of_side(capture, side, start, start + length)


def _of_side(capture: Capture, side: int, start: Array, stop: Array) -> Iterator[Array]:
    """The same for messages of one direction, [start, stop) each, ascending."""
    physical = capture.physical(side >> 1, side & 1)
    reach = np.maximum.accumulate(stop)
    breaks = (np.flatnonzero(start[1:] > reach[:-1] + APART) + 1).tolist()
    for first, last in pairwise(chain((0,), breaks, (len(start),))):
        while first < last:
            upto = int(start[first])
            for place in capture.index.places(
                side >> 1, physical, upto, int(reach[last - 1]), True
            ):
                end = place.offset + place.length
                # which messages can have bytes in each: those from the first that ends behind its start
                # to the last that begins before its end
                low = np.searchsorted(reach[first:last], place.offset, side="right")
                high = np.searchsorted(start[first:last], end, side="left")
                used = np.flatnonzero(low < high)
                offset = place.offset[used]
                yield np.array(
                    (place.frame[used], place.record[used], np.full(len(used), side),
                     offset - place.position[used])
                )  # fmt: skip
                upto = int(end[-1])
            # a gap: the message in it has no more bytes before its end
            first = max(
                first + int(np.searchsorted(reach[first:last], upto, side="right")), first + 1
            )
