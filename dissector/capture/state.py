"""What is kept of every direction: numbers in arrays, and tables that map streams back to frames."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from dissector.capture.events import Pieces
from dissector.packed import Packed, pack


class Directions:
    """One row per direction (2 * connection + direction). All offsets are stream offsets.

    known: base is set. base: the sequence number (32 bits) of offset 0. next: end of what was
    delivered. seen: highest end of a data segment. claim: highest number that a segment without data
    bears. ack: highest acknowledged offset, -1 if none. fin: offset
    of the FIN, -1 if none; fin_frame: frame of the FIN or RST, 0 if none. first_seq: the first
    sequence number seen, -1 if none. ended: its End was told. reset: by an RST. closed: nothing more
    can come.
    """

    def __init__(self) -> None:
        self.size = 0
        self.known = np.zeros(0, np.bool_)
        self.ended = np.zeros(0, np.bool_)
        self.reset = np.zeros(0, np.bool_)
        self.closed = np.zeros(0, np.bool_)
        self.base = np.zeros(0, np.int64)
        self.next = np.zeros(0, np.int64)
        self.seen = np.zeros(0, np.int64)
        self.claim = np.zeros(0, np.int64)
        self.ack = np.zeros(0, np.int64)
        self.fin = np.zeros(0, np.int64)
        self.fin_frame = np.zeros(0, np.int64)
        self.first_seq = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Make room for `size` directions."""
        if size <= self.size:
            return
        room = max(64, 2 * size)
        fresh = {"ack": -1, "fin": -1, "first_seq": -1}
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                larger: np.ndarray[Any, Any] = np.full(room, fresh.get(name, 0), value.dtype)
                larger[: len(value)] = value
                setattr(self, name, larger)
        self.size = room


class Tables:
    """Pieces of everything delivered. One table a batch, packed; a direction holds slices of them."""

    def __init__(self) -> None:
        self.tables: list[list[Packed]] = []
        self.starts: dict[int, list[int]] = {}
        self.slices: dict[int, list[tuple[int, int, int]]] = {}

    def add(self, pieces: Pieces) -> int:
        """Keep a batch's table; returns its number."""
        self.tables.append([pack(column) for column in pieces])
        return len(self.tables) - 1

    def track(self, one: int, offset: int, number: int, low: int, high: int) -> None:
        """Rows low..high of table `number` continue direction `one` at `offset`."""
        self.starts.setdefault(one, []).append(offset)
        self.slices.setdefault(one, []).append((number, low, high))

    def pieces(self, one: int, start: int, stop: int) -> Pieces:
        """The pieces of a direction that hold start..stop, clipped to it."""
        parts: list[Pieces] = []
        starts = self.starts.get(one, [])
        first = max(0, bisect_right(starts, start) - 1)
        for i in range(first, len(starts)):
            if starts[i] >= stop:
                break
            number, low, high = self.slices[one][i]
            table = self.tables[number]
            offset = table[0].part(low, high)
            a = low + max(0, int(np.searchsorted(offset, start, side="right")) - 1)
            b = max(a, low + int(np.searchsorted(offset, stop, side="left")))
            parts.append(Pieces(*(column.part(a, b) for column in table)))
        result = parts[0] if len(parts) == 1 else _joined(parts)
        offset = np.maximum(result.offset, start)
        end = np.minimum(result.offset + result.length, stop)
        keep = end > offset
        return result._replace(
            offset=offset,
            length=np.maximum(end - offset, 0).astype(np.uint32),
            position=result.position + (offset - result.offset),
        ).rows(keep)


def _joined(parts: list[Pieces]) -> Pieces:
    if not parts:
        kinds = (np.int64, np.uint32, np.int64, np.uint32, np.uint32, np.int64, np.int64)
        return Pieces(*(np.zeros(0, kind) for kind in kinds))
    return Pieces(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
