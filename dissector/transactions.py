"""Messages to transactions: which rows of the index belong together, how each ended, what it changed.

`transactions` works on the index alone, from the stretches that `dissector.pieces` finds, and gives a
table with one row a transaction. What a transaction says of itself (LSNs, GID, origin) and its row
changes are in `dissector.changes`.

A transaction is sent in one piece (Begin to Commit, Begin Prepare to Prepare) or streamed in segments
(Stream Start to Stream Stop) and decided by a message of its own. Source: the manual pages
``protocol-logicalrep-message-formats.html`` and ``logicaldecoding-streaming.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pieces import (
    BEGIN,
    BOUNDARY,
    COMMIT,
    COMMIT_PREPARED,
    ENDS,
    NONE,
    NOTE,
    OTHER,
    PREPARE,
    ROLLBACK_PREPARED,
    STREAM_ABORT,
    STREAM_COMMIT,
    STREAM_START,
    STREAM_STOP,
    IndexLike,
    Marked,
    Pieces,
    among,
    cut,
    marked_rows,
)

Array = NDArray[Any]


class State(IntEnum):
    """How a transaction ended, as far as the capture shows."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2
    PREPARED = 3
    COMMIT_PREPARED = 4
    ROLLED_BACK = 5
    CUT = 6

    @property
    def text(self) -> str:
        """In words for people."""
        return _STATES[self]

    @property
    def made_visible(self) -> bool:
        """Whether the receiver applied its changes."""
        return self in (State.COMMITTED, State.COMMIT_PREPARED)


_STATES = {
    State.OPEN: "open at the end",
    State.COMMITTED: "committed",
    State.ABORTED: "aborted",
    State.PREPARED: "prepared, undecided",
    State.COMMIT_PREPARED: "prepared, committed",
    State.ROLLED_BACK: "prepared, rolled back",
    State.CUT: "its end is not in the capture",
}


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


@dataclass(slots=True)
class _Open:
    """A transaction while it is put together: numbers of its segments, messages that ended it."""

    stream: int
    xid: int
    streamed: bool
    parts: list[int] = field(default_factory=list)
    state: State = State.OPEN
    end: int = 0
    decided: int = 0
    subaborts: list[tuple[int, int]] = field(default_factory=list)


class Transactions:
    """All transactions of an index, as columns; `table[i]` gives one as an object (i from 0).

    stream, xid, state, streamed, end, decided: one entry a transaction, meaning as in Transaction.
    """

    def __init__(self, pieces: Pieces, whole: _Whole, others: list[_Open]) -> None:
        self._pieces = pieces
        # Most transactions are one piece and need no object; only the others were put together.
        parts = np.concatenate(
            (
                whole.piece.astype(np.int32),
                np.array([p for t in others for p in t.parts], np.int32),
            )
        )
        counts = np.concatenate(
            (
                np.ones(len(whole.piece), np.int32),
                np.array([len(t.parts) for t in others], np.int32),
            )
        )
        begins = np.cumsum(counts, dtype=np.int32) - counts
        more = [int(pieces.first[t.parts[0]]) if t.parts else t.end or t.decided for t in others]
        first = np.concatenate((pieces.first[whole.piece], np.array(more, np.int32)))
        order = np.argsort(first, kind="stable")

        def column(of_whole: Array, name: str, dtype: Any) -> Array:
            more = np.array([getattr(t, name) for t in others], dtype)
            joined: Array = np.concatenate((of_whole.astype(dtype), more))[order]
            return joined

        nothing = np.zeros(len(whole.piece), bool)
        self.stream = column(whole.stream, "stream", np.uint32)
        self.xid = column(whole.xid, "xid", np.uint32)
        self.state = column(whole.state, "state", np.uint8)
        self.streamed = column(nothing, "streamed", bool)
        self.end = column(whole.end, "end", np.int32)
        self.decided = column(nothing, "decided", np.int32)
        self._begins, self._counts, self._parts = begins[order], counts[order], parts
        told = {
            len(whole.piece) + i: tuple(t.subaborts) for i, t in enumerate(others) if t.subaborts
        }
        places = np.flatnonzero(np.isin(order, list(told))).tolist() if told else []
        self._subaborts = {place: told[int(order[place])] for place in places}

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
        inside = sum(any(a <= n <= b for a, b in segments) for n in ends)
        return Transaction(
            place + 1, int(self.stream[place]), int(self.xid[place]), State(int(self.state[place])),
            bool(self.streamed[place]),
            segments[0][0] if segments and not pieces.cut[parts[0]] else 0,
            end, decided, segments, subaborts,
            int(pieces.messages[parts].sum()) + len(ends) - inside + len(subaborts),
            int(pieces.changes[parts].sum()), int(pieces.bytes[parts].sum()),
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
        owners = np.searchsorted(self._begins[order], near, side="right") - 1
        ends = np.flatnonzero((self.end == number) | (self.decided == number))
        subs = [p for p, told in self._subaborts.items() if number in (n for n, _ in told)]
        for place in [*order[owners].tolist(), *ends.tolist(), *subs]:
            if number in self.rows(place):
                return int(place)
        return None


@dataclass(frozen=True, slots=True)
class _Whole:
    """Transactions that are one piece and ended with it, or did not end: columns of one length."""

    piece: Array
    stream: Array
    xid: Array
    state: Array
    end: Array


SubxidOf = Callable[[int], int | None]
"""Number of a Stream Abort -> the xid that it rolls back; None when that cannot be read."""


def transactions(index: IndexLike, subxid_of: SubxidOf) -> Transactions:
    """All transactions in the rows that `index` has now.

    subxid_of: see SubxidOf; `dissector.changes.subxid_reader` makes one.
    """
    rows, marked = index.rows, marked_rows(index)
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
    joined = list(_joined(pieces, in_stream, closer, marked, rows, subxid_of))
    xid = rows.take("xid", at[start[whole]])
    return Transactions(pieces, _Whole(whole, stream, xid, state, end), joined)


def _joined(
    pieces: Pieces,
    in_stream: Array,
    closer: Array,
    marked: Marked,
    rows: Any,
    subxid_of: SubxidOf,
) -> Iterator[_Open]:
    """Streamed and prepared transactions: their pieces and the messages that end them, put together."""
    code = marked.code
    streamed: dict[tuple[int, int, int], _Open] = {}
    prepared: dict[tuple[int, int], _Open] = {}
    boundaries = np.flatnonzero(code == BOUNDARY)
    chosen = np.flatnonzero(in_stream | (closer == PREPARE))
    steps = np.concatenate((pieces.start[chosen], np.flatnonzero(among(code, ENDS))))
    xids, streams = rows.take("xid", marked.at[steps]), marked.stream(steps)
    epochs = np.searchsorted(boundaries, steps, side="right")
    pieces_of = np.concatenate((chosen, np.full(len(steps) - len(chosen), -1)))
    table = (
        pieces_of, in_stream[pieces_of], code[steps], marked.at[steps], xids, streams, epochs
    )  # fmt: skip
    order = np.argsort(steps, kind="stable")
    for piece, is_streamed, kind, at, own, connection, epoch in zip(
        *(column[order].tolist() for column in table), strict=True
    ):
        key = (connection, epoch, own)
        if piece < 0:
            yield from _event(kind, at + 1, key, streamed, prepared, subxid_of)
            continue
        if is_streamed:
            found = streamed.get(key)
            if found is None:
                found = streamed[key] = _Open(connection, own, True)
                yield found
            found.parts.append(piece)
            continue
        found = _Open(connection, own, False, [piece], State.PREPARED, int(pieces.last[piece]))
        prepared[connection, own] = found
        yield found


def _event(
    code: int,
    number: int,
    key: tuple[int, int, int],
    streamed: dict[tuple[int, int, int], _Open],
    prepared: dict[tuple[int, int], _Open],
    subxid_of: SubxidOf,
) -> Iterator[_Open]:
    """Apply a message that ends a transaction; gives the transaction where nothing of it was sent."""
    connection, _, own = key
    if code in (COMMIT_PREPARED, ROLLBACK_PREPARED):
        found = prepared.pop((connection, own), None)
        if found is None:
            found = _Open(connection, own, False)
            yield found
        found.decided = number
        found.state = State.COMMIT_PREPARED if code == COMMIT_PREPARED else State.ROLLED_BACK
        return
    known = streamed.get(key)
    if code == STREAM_ABORT and known is not None:
        sub = subxid_of(number)
        if sub is not None and sub != own:
            known.subaborts.append((number, sub))
            return
    if known is None:
        known = _Open(connection, own, True)
        yield known
    streamed.pop(key, None)
    known.end = number
    if code == STREAM_COMMIT:
        known.state = State.COMMITTED
    elif code == STREAM_ABORT:
        known.state = State.ABORTED
    else:
        known.state = State.PREPARED
        prepared[connection, own] = known
