"""Stretches of messages that belong to one transaction: found in the index's columns, many at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .capture.frames import member
from .rows import BACKEND, BLOCK
from .schemas import Path, Tables

Array = NDArray[Any]

(
    NONE, BEGIN, STREAM_START, BOUNDARY, COMMIT, PREPARE, STREAM_STOP, STREAM_COMMIT,
    STREAM_ABORT, STREAM_PREPARE, COMMIT_PREPARED, ROLLBACK_PREPARED, CHANGE, NOTE, OTHER,
) = range(15)  # fmt: skip

_CODES = {
    "Begin": BEGIN,
    "Begin Prepare": BEGIN,
    "Stream Start": STREAM_START,
    "Commit": COMMIT,
    "Prepare": PREPARE,
    "Stream Stop": STREAM_STOP,
    "Stream Commit": STREAM_COMMIT,
    "Stream Abort": STREAM_ABORT,
    "Stream Prepare": STREAM_PREPARE,
    "Commit Prepared": COMMIT_PREPARED,
    "Rollback Prepared": ROLLBACK_PREPARED,
    **dict.fromkeys(("Insert", "Update", "Delete", "Truncate"), CHANGE),
    "Message": NOTE,
    **dict.fromkeys(("Relation", "Type", "Origin"), OTHER),
}
"""Name of a pgoutput message -> what it does to transactions."""

CLOSERS = (COMMIT, PREPARE, STREAM_STOP)
ENDS = (STREAM_COMMIT, STREAM_ABORT, STREAM_PREPARE, COMMIT_PREPARED, ROLLBACK_PREPARED)
OPENERS = (BEGIN, STREAM_START, BOUNDARY, *ENDS)
"""What stands inside no piece: where one is open, the message that closes it was lost."""


FEW = 100
"""Transactions whose messages are counted one by one when they are asked for: then, all at once."""


def _code(path: Path) -> int:
    """What messages of `path` do: 0 for those that have nothing to do with transactions."""
    if path == ("CopyBothResponse",):
        return BOUNDARY
    return _CODES.get(path[2], OTHER) if len(path) == 3 and path[0] == "CopyData" else NONE


class IndexLike(Protocol):
    """`dissector.index.Index`: rows in columns, and the tables that they point into."""

    @property
    def rows(self) -> Any: ...
    @property
    def tables(self) -> Tables: ...


@dataclass(slots=True)
class Marked:
    """The rows that have to do with transactions, by connection, each in order.

    at: places of the rows, int32 (rows are counted in 32 bits). code: what each does. streams: the
    connections, ascending; begins: where the rows of each begin.
    """

    at: Array
    code: Array
    streams: Array
    begins: Array

    def stream(self, places: Array) -> Array:
        """The connections of `places`."""
        found: Array = self.streams[np.searchsorted(self.begins, places, side="right") - 1]
        return found


class Marker:
    """Finds the marked rows of an index, also while it grows."""

    def __init__(self, index: IndexLike) -> None:
        self._index, self._done = index, 0
        self._codes = np.empty(0, np.uint8)
        self._parts: dict[int, list[tuple[Array, Array]]] = {}

    def feed(self) -> None:
        """Look at the rows that came since the last time."""
        rows, paths = self._index.rows, self._index.tables.paths
        known = len(self._codes)
        if known < len(paths):
            more = np.array([_code(paths[i]) for i in range(known, len(paths))], np.uint8)
            self._codes = np.concatenate((self._codes, more))
        names = ("path", "direction", "stream")
        for start, (path, direction, streams) in rows.parts(*names, start=self._done):
            self._done = start + len(path)
            codes = self._codes[path]
            codes[direction != BACKEND] = NONE
            for stream, at in by_stream(streams, codes > NONE):
                part = (at + start).astype(np.int32), codes[at]
                self._parts.setdefault(stream, []).append(part)

    def marked(self) -> Marked:
        """What was found so far."""
        parts = self._parts
        if not parts:
            nothing = np.empty(0, np.int64)
            return Marked(nothing, np.empty(0, np.uint8), nothing, nothing)
        streams = sorted(parts)
        together = [part for stream in streams for part in parts[stream]]
        sizes = [sum(len(at) for at, _ in parts[stream]) for stream in streams]
        return Marked(
            np.concatenate([at for at, _ in together]),
            np.concatenate([codes for _, codes in together]),
            np.array(streams, np.int64),
            np.cumsum([0, *sizes])[:-1],
        )


def marked_rows(index: IndexLike) -> Marked:
    """The rows that `index` has now."""
    marker = Marker(index)
    marker.feed()
    return marker.marked()


def by_stream(streams: Array, mask: Array) -> Iterator[tuple[int, Array]]:
    """(connection, its places in the mask, ascending)."""
    places = np.flatnonzero(mask)
    if not len(places):
        return
    of = streams[places]
    if (of[1:] < of[:-1]).any():
        order = np.argsort(of, kind="stable")
        places, of = places[order], of[order]
    edges = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(of)]
    for first, after in pairwise(edges):
        yield int(of[first]), places[first:after]


class Pieces:
    """The stretches of messages between an opening and a closing one, in columns.

    start, stop: into the marked rows. first, last: message numbers. cut: the opening one is not there.
    """

    def __init__(self, marked: Marked, start: Array, stop: Array, cut: Array, rows: Any) -> None:
        self.start, self.stop, self.cut = start, stop, cut
        self._marked, self._rows = marked, rows
        self.first = marked.at[start] + np.int32(1)
        self.last = marked.at[stop - 1] + np.int32(1)
        self._asked = 0
        self._counts: tuple[Array, Array, Array] | None = None

    def totals(self, pieces: Array) -> tuple[int, int, int]:
        """Messages, changes and bytes on the wire of some pieces together."""
        if self._counts is None:
            self._asked += 1
            if self._asked > FEW:  # somebody wants to know it of all
                self._counts = self._count()
        if self._counts is not None:
            messages, changes, sizes = (int(each[pieces].sum()) for each in self._counts)
            return messages, changes, sizes
        messages = changes = sizes = 0
        for start, stop in zip(
            self.start[pieces].tolist(), self.stop[pieces].tolist(), strict=True
        ):
            for low in range(start, stop, BLOCK):
                code, at = (
                    c[low : min(low + BLOCK, stop)] for c in (self._marked.code, self._marked.at)
                )
                member = code != NONE
                messages += int(np.count_nonzero(member))
                changes += int(np.count_nonzero((code == CHANGE) | (code == NOTE)))
                sizes += int(self._rows.take("length", at[member]).sum(dtype=np.int64))
        return messages, changes, sizes

    def _count(self) -> tuple[Array, Array, Array]:
        """Messages, changes and bytes of each piece: by blocks, for pieces can be of any length."""
        messages = np.zeros(len(self.start), np.int32)
        changed, sizes = np.zeros_like(messages), np.zeros(len(self.start), np.int64)
        code, size = self._marked.code, len(self._marked.code)
        for low in range(0, size, BLOCK):
            high = min(low + BLOCK, size)
            some = slice(
                int(np.searchsorted(self.stop, low, side="right")),
                int(np.searchsorted(self.start, high, side="left")),
            )
            start = np.maximum(self.start[some], low) - low
            stop = np.minimum(self.stop[some], high) - low
            here = code[low:high]
            member = here != NONE
            change = (here == CHANGE) | (here == NOTE)
            length = self._rows.take("length", self._marked.at[low:high])
            length[~member] = 0
            messages[some] += _sums(member, start, stop)
            changed[some] += _sums(change, start, stop)
            sizes[some] += _sums(length, start, stop)
        return messages, changed, sizes

    def rows(self, piece: int) -> Array:
        """Message numbers of one piece."""
        span = slice(self.start[piece], self.stop[piece])
        member = self._marked.code[span] != NONE
        return self._marked.at[span][member].astype(np.int64) + 1

    def time_of(self, number: int) -> int:
        """Frame time of a message."""
        return int(self._rows.row(number).time)


def _sums(values: Array, start: Array, stop: Array) -> Array:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, dtype=np.int64, out=total[1:])
    found: Array = total[stop] - total[start]
    return found


def cut(marked: Marked) -> tuple[Array, Array, Array, Array]:
    """Where pieces start and stop, the code of the message that closes each (0: none), and their kind:
    that of the message that opens them, OTHER where that one is not in the capture."""
    if not len(marked.code):
        return (np.empty(0, np.int64),) * 4
    places, new = _turns(marked)
    code = marked.code[places]
    explicit, closes = member(code, OPENERS), member(code, CLOSERS)
    # A change or a closing message where nothing is open: the opening one was lost. The first opens.
    lost = _outside(code, explicit | closes, new) & ((code == CHANGE) | closes) & ~explicit
    implicit = lost.copy()
    implicit[1:] &= ~(lost[:-1] & ~closes[:-1] & ~new[1:])
    opens = explicit | implicit | new
    kind = np.where(explicit, code, np.where(implicit, np.uint8(OTHER), np.uint8(NONE)))[opens]
    start = places[opens]
    stop = np.append(start[1:], np.int32(len(marked.code)))
    closer = np.zeros(len(start), np.uint8)
    piece = np.cumsum(opens, dtype=np.int32)[closes] - np.int32(1)
    first = np.ones(len(piece), bool)
    first[1:] = piece[1:] != piece[:-1]
    piece = piece[first]
    closer[piece] = code[closes][first]
    stop[piece] = places[closes][first] + np.int32(1)
    return start, stop, closer, kind


def _outside(code: Array, marks: Array, new: Array) -> Array:
    """Before which messages nothing is open, by what opened or closed something last."""
    last = np.arange(len(code), dtype=np.int32)
    last[~(marks | new)] = 0
    np.maximum.accumulate(last, out=last)
    found = np.ones(len(code), bool)
    found[1:] = ~member(code, (BEGIN, STREAM_START))[last[:-1]] | new[1:]
    return found


def _turns(marked: Marked) -> tuple[Array, Array]:
    """Places (int32) where a piece can start or stop: what opens and closes, the first message of each
    connection, the first change after any of these; and which are a connection's first."""
    found, was_change = [], False
    begins = marked.begins
    for low in range(0, len(marked.code), BLOCK):
        code = marked.code[low : low + BLOCK]
        mark = member(code, (*OPENERS, *CLOSERS))
        here = begins[np.searchsorted(begins, low) : np.searchsorted(begins, low + BLOCK)] - low
        mark[here] = True
        at = np.flatnonzero(mark | (code == CHANGE))
        if not len(at):
            continue
        change, first = code[at] == CHANGE, mark[at]
        first[0] |= not was_change
        first[1:] |= ~change[:-1]
        was_change = bool(change[-1])
        found.append((at[first] + low).astype(np.int32))
    places = np.concatenate(found)
    new = np.zeros(len(places), bool)
    new[np.searchsorted(places, begins)] = True
    return places, new
