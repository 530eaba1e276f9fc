"""The bytes of many messages, read at once from where they lie in the captures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .slots import Array

if TYPE_CHECKING:
    from .view import Capture

APART = 1 << 10
"""Bytes between two messages that are read over; where more lie between them, they are left out."""


class Bytes:
    """Bytes of messages of a block. data: all of them; begins: where each message begins in it, below 0
    where it was not read whole; records: the record of the frame that holds its last byte."""

    def __init__(self, count: int) -> None:
        self.data = b""
        self.parts: list[Any] = []
        self.size = 0
        self.low, self.high = 1 << 62, 0  # of the file, where there is one
        self.begins = np.full(count, -1, np.int64)
        self.records = np.zeros(count, np.int64)


def read_messages(capture: Capture, c: dict[str, Any], wanted: Array, behind: int) -> Bytes:
    """The bytes of the messages with columns `c` at the places `wanted`, and `behind` zero bytes."""
    out = Bytes(len(c["number"]))
    sides = c["stream"][wanted].astype(np.int64) * 2 + c["direction"][wanted]
    if (sides[1:] != sides[:-1]).any():
        order = np.argsort(sides, kind="stable")
        wanted, sides = wanted[order], sides[order]
    edges = [0, *(np.flatnonzero(sides[1:] != sides[:-1]) + 1).tolist(), len(sides)]
    for first, last in pairwise(edges):
        if first < last:
            _read_side(capture, int(sides[first]), c, wanted[first:last], out)
    out.parts.append(bytes(behind))
    out.data = b"".join(out.parts)
    out.parts.clear()  # views into the file
    if out.high > out.low:
        capture.files.sources[0].release(out.low, out.high)
    return out


def _read_side(capture: Capture, side: int, c: dict[str, Any], mine: Array, out: Bytes) -> None:
    offset = c["offset"][mine].astype(np.int64)
    end = offset + c["length"][mine]
    if (offset[1:] < offset[:-1]).any():
        order = np.argsort(offset, kind="stable")
        mine, offset, end = mine[order], offset[order], end[order]
    physical = capture.physical(side >> 1, side & 1)
    reach = np.maximum.accumulate(end)
    breaks = np.flatnonzero(offset[1:] > reach[:-1] + APART) + 1
    edges = [0, *breaks.tolist(), len(mine)]
    for first, last in pairwise(edges):
        while first < last:
            start = int(offset[first])
            stop = int(reach[last - 1])
            size = 0
            offsets, records = [], []
            for place in capture.index.places(side >> 1, physical, start, stop):
                out.parts += _read(capture, place.position, place.length, out)
                offsets.append(place.offset)
                records.append(place.record)
                size += int(place.length.sum())
            done = first + int(np.searchsorted(reach[first:last], start + size, side="right"))
            if done > first:  # a message before a gap may reach beyond it
                whole = mine[first:done]
                out.begins[whole] = out.size + offset[first:done] - start
                last_piece = (
                    np.searchsorted(np.concatenate(offsets), end[first:done] - 1, side="right") - 1
                )
                out.records[whole] = np.concatenate(records)[last_piece]
            out.size += size
            first = max(done, first + 1)


def _read(capture: Capture, position: Array, length: Array, out: Bytes) -> list[Any]:
    """The bytes at each position."""
    files = capture.files
    if len(files.sources) > 1:
        return list(map(files.read, position.tolist(), length.tolist()))
    source, stop = files.sources[0], position + length
    out.low = min(out.low, int(position.min(initial=out.low)))
    out.high = max(out.high, int(stop.max(initial=0)))
    if out.high > source.size:
        source.grow()
    source.need(int(stop.max(initial=0)))
    view = source.view
    return [view[a:b] for a, b in zip(position.tolist(), stop.tolist(), strict=True)]
