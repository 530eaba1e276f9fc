"""Messages to transactions: which rows of the index belong together, how each ended, what it changed.

`transactions` works on the index alone, from the stretches that `dissector.pieces` finds, and gives a
table with one row a transaction. What a transaction says of itself (LSNs, GID, origin) and its row
changes are in `dissector.changes`.

A transaction is sent in one piece (Begin to Commit, Begin Prepare to Prepare) or streamed in segments
(Stream Start to Stream Stop) and decided by a message of its own. Source: the manual pages
``protocol-logicalrep-message-formats.html`` and ``logicaldecoding-streaming.html``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ended import Columns, State, SubxidOf, joined
from .pieces import (
    BEGIN,
    COMMIT,
    NONE,
    NOTE,
    OTHER,
    PREPARE,
    STREAM_START,
    STREAM_STOP,
    IndexLike,
    Marked,
    Pieces,
    cut,
    marked_rows,
)

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction; message numbers count from 1, 0 stands for "not in the capture".

    number: from 1, in the order of their first messages. begin: its first message. end: the message
    that committed, aborted or prepared it. decided: Commit Prepared or Rollback Prepared, else 0.
    segments: (first, last message) of each piece. subaborts: (number of the Stream Abort, xid) of each
    subtransaction that was rolled back. messages, changes, bytes: of its pieces; bytes on the wire.
    first, last: times of its first and its last message, ns since the Unix epoch.
    """

    number: int
    stream: int
    xid: int
    state: State
    streamed: bool
    begin: int
    end: int
    decided: int
    segments: tuple[tuple[int, int], ...]
    subaborts: tuple[tuple[int, int], ...]
    messages: int
    changes: int
    bytes: int
    first: int
    last: int


class Transactions:
    """All transactions of an index, as columns; `table[i]` gives one as an object (i from 0).

    stream, xid, state, streamed, end, decided: one entry a transaction, meaning as in Transaction.
    """

    def __init__(self, pieces: Pieces, groups: list[Columns]) -> None:
        self._pieces = pieces
        parts, counts = _put(groups, "parts", np.int32), _put(groups, "counts", np.int32)
        begins = np.cumsum(counts, dtype=np.int32) - counts
        end, decided = _put(groups, "end", np.int32), _put(groups, "decided", np.int32)
        first = np.where(end > 0, end, decided)
        first[counts > 0] = pieces.first[parts[begins[counts > 0]]]
        order = np.argsort(first, kind="stable")
        self.stream = _put(groups, "stream", np.uint32)[order]
        self.xid = _put(groups, "xid", np.uint32)[order]
        self.state = _put(groups, "state", np.uint8)[order]
        self.streamed = np.repeat([g.streamed for g in groups], [len(g.xid) for g in groups])[order]
        self.end, self.decided = end[order], decided[order]
        self._begins, self._counts, self._parts = begins[order], counts[order], parts
        told: dict[int, list[tuple[int, int]]] = {}
        base = 0
        for group in groups:
            told |= {base + place: subs for place, subs in group.subaborts.items()}
            base += len(group.xid)
        places = np.flatnonzero(np.isin(order, list(told))).tolist() if told else []
        self._subaborts = {place: tuple(told[int(order[place])]) for place in places}

    def __len__(self) -> int:
        return len(self.xid)

    def __iter__(self) -> Iterator[Transaction]:
        return (self[i] for i in range(len(self)))

    def pieces_of(self, place: int) -> Array:
        """Numbers of the pieces of transaction `place`."""
        begin = int(self._begins[place])
        return self._parts[begin : begin + int(self._counts[place])]

    def __getitem__(self, place: int) -> Transaction:
        if not 0 <= place < len(self):
            raise IndexError(place)
        pieces, parts = self._pieces, self.pieces_of(place)
        segments = tuple(
            (int(a), int(b)) for a, b in zip(pieces.first[parts], pieces.last[parts], strict=True)
        )
        end, decided = int(self.end[place]), int(self.decided[place])
        subaborts = self._subaborts.get(place, ())
        ends = [n for n in (end, decided) if n]
        known = [n for segment in segments for n in segment] + ends
        messages, changes, size = pieces.totals(parts)
        inside = sum(any(a <= n <= b for a, b in segments) for n in ends)
        return Transaction(
            place + 1, int(self.stream[place]), int(self.xid[place]), State(int(self.state[place])),
            bool(self.streamed[place]),
            segments[0][0] if segments and not pieces.cut[parts[0]] else 0,
            end, decided, segments, subaborts,
            messages + len(ends) - inside + len(subaborts), changes, size,
            pieces.time_of(min(known)), pieces.time_of(max(known)),
        )  # fmt: skip

    def rows(self, place: int) -> Array:
        """Numbers of all messages of transaction `place` (from 0), ascending: int64."""
        transaction = self[place]
        numbers = [self._pieces.rows(int(p)) for p in self.pieces_of(place)]
        ends = [transaction.end, transaction.decided, *(n for n, _ in transaction.subaborts)]
        numbers.append(np.array([n for n in ends if n], np.int64))
        return np.unique(np.concatenate(numbers))

    def of(self, number: int) -> int | None:
        """The place of the transaction that message `number` belongs to; None for none."""
        pieces, parts = self._pieces, self._parts
        near = np.flatnonzero((pieces.first[parts] <= number) & (number <= pieces.last[parts]))
        order = np.argsort(self._begins, kind="stable")
        order = order[self._counts[order] > 0]  # the others begin where the next does
        owners = np.searchsorted(self._begins[order], near, side="right") - 1
        ends = np.flatnonzero((self.end == number) | (self.decided == number))
        subs = [p for p, told in self._subaborts.items() if number in (n for n, _ in told)]
        for place in [*order[owners].tolist(), *ends.tolist(), *subs]:
            if number in self.rows(place):
                return int(place)
        return None


def _put(groups: list[Columns], name: str, dtype: Any) -> Array:
    """The columns `name` of all groups, one after the other."""
    return np.concatenate([getattr(group, name) for group in groups]).astype(dtype, copy=False)


def transactions(
    index: IndexLike, subxid_of: SubxidOf, marked: Marked | None = None
) -> Transactions:
    """All transactions in the rows that `index` has now.

    subxid_of: see SubxidOf; `dissector.changes.subxid_reader` makes one. marked: the marked rows of the
    index, where they are at hand; some of the codes are changed.
    """
    rows, marked = index.rows, marked or marked_rows(index)
    at, code = marked.at, marked.code
    start, stop, closer, kind = cut(marked)
    # Without its bit the note was sent at once: it belongs to no transaction, wherever it stands.
    notes = np.flatnonzero(code == NOTE)
    code[notes[rows.take("xid", at[notes]) == 0]] = NONE
    keep = np.isin(kind, (BEGIN, STREAM_START, OTHER))
    start, stop, closer, kind = start[keep], stop[keep], closer[keep], kind[keep]
    pieces = Pieces(marked, start, stop, kind == OTHER, rows)
    in_stream = (kind == STREAM_START) | (closer == STREAM_STOP)
    whole = np.flatnonzero(~in_stream & (closer != PREPARE))
    stream = marked.stream(start[whole])
    follows = stop[whole] < len(at)
    follows[follows] = marked.stream(stop[whole][follows]) == stream[follows]
    done = closer[whole] == COMMIT
    state = np.where(done, np.uint8(State.COMMITTED), np.uint8(State.OPEN))
    state[~done & follows] = State.CUT
    end = np.where(done, pieces.last[whole], np.int32(0))
    xid = rows.take("xid", at[start[whole]])
    ones = np.ones(len(whole), np.int32)
    plain = Columns(stream, xid, state, False, end, np.zeros_like(ones), ones, whole)
    more = joined(pieces, in_stream, closer, marked, rows, subxid_of)
    return Transactions(pieces, [plain, *more])
