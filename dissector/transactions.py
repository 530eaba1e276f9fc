"""Messages to transactions: which rows of the index belong together, how each ended, what it changed.

`transactions` works on the index's columns alone and gives a table with one row a transaction; only a
Stream Abort is opened, because its subtransaction is not in the index. What a transaction says of
itself (LSNs, GID, origin) and its row changes are in `dissector.changes`.

A transaction is sent in one piece (Begin to Commit, Begin Prepare to Prepare) or streamed in segments
(Stream Start to Stream Stop) and decided by a message of its own. Source: the manual pages
``protocol-logicalrep-message-formats.html`` and ``logicaldecoding-streaming.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .rows import BACKEND
from .schemas import Path, Tables

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

(
    _NONE, _BEGIN, _STREAM_START, _BOUNDARY, _COMMIT, _PREPARE, _STREAM_STOP, _STREAM_COMMIT,
    _STREAM_ABORT, _STREAM_PREPARE, _COMMIT_PREPARED, _ROLLBACK_PREPARED, _CHANGE, _NOTE, _OTHER,
) = range(15)  # fmt: skip

_CODES = {
    "Begin": _BEGIN,
    "Begin Prepare": _BEGIN,
    "Stream Start": _STREAM_START,
    "Commit": _COMMIT,
    "Prepare": _PREPARE,
    "Stream Stop": _STREAM_STOP,
    "Stream Commit": _STREAM_COMMIT,
    "Stream Abort": _STREAM_ABORT,
    "Stream Prepare": _STREAM_PREPARE,
    "Commit Prepared": _COMMIT_PREPARED,
    "Rollback Prepared": _ROLLBACK_PREPARED,
    **dict.fromkeys(("Insert", "Update", "Delete", "Truncate"), _CHANGE),
    "Message": _NOTE,
    **dict.fromkeys(("Relation", "Type", "Origin"), _OTHER),
}
"""Name of a pgoutput message -> what it does to transactions."""

_OPENERS = (_BEGIN, _STREAM_START, _BOUNDARY)
_CLOSERS = (_COMMIT, _PREPARE, _STREAM_STOP)
_ENDS = (_STREAM_COMMIT, _STREAM_ABORT, _STREAM_PREPARE, _COMMIT_PREPARED, _ROLLBACK_PREPARED)


def _code(path: Path) -> int:
    """What messages of `path` do: 0 for those that have nothing to do with transactions."""
    if path == ("CopyBothResponse",):
        return _BOUNDARY
    return _CODES.get(path[2], _OTHER) if len(path) == 3 and path[0] == "CopyData" else _NONE


class IndexLike(Protocol):
    """`dissector.index.Index`: rows in columns, and the tables that they point into."""

    @property
    def rows(self) -> Any: ...
    @property
    def tables(self) -> Tables: ...


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

    def __init__(self, pieces: _Pieces, whole: _Whole, others: list[_Open]) -> None:
        self._pieces = pieces
        # Most transactions are one piece and need no object; only the others were put together.
        parts = np.concatenate(
            (whole.piece, np.array([p for t in others for p in t.parts], np.int64))
        )
        counts = np.concatenate(
            (
                np.ones(len(whole.piece), np.int64),
                np.array([len(t.parts) for t in others], np.int64),
            )
        )
        begins = np.concatenate(([0], np.cumsum(counts)))[:-1]
        first = np.concatenate(
            (
                pieces.first[whole.piece],
                [pieces.first[t.parts[0]] if t.parts else t.end or t.decided for t in others],
            )
        )
        order = np.argsort(first, kind="stable")

        def column(of_whole: Array, name: str, dtype: Any) -> Array:
            more = np.array([getattr(t, name) for t in others], dtype)
            joined: Array = np.concatenate((of_whole.astype(dtype), more))[order]
            return joined

        nothing = np.zeros(len(whole.piece))
        self.stream = column(whole.stream, "stream", np.uint32)
        self.xid = column(whole.xid, "xid", np.uint32)
        self.state = column(whole.state, "state", np.uint8)
        self.streamed = column(nothing, "streamed", bool)
        self.end = column(whole.end, "end", np.int64)
        self.decided = column(nothing, "decided", np.int64)
        self._begins, self._counts, self._parts = begins[order], counts[order], parts
        back = np.argsort(order)
        self._subaborts = {
            int(back[len(whole.piece) + i]): tuple(t.subaborts)
            for i, t in enumerate(others)
            if t.subaborts
        }

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


class _Pieces:
    """The stretches of messages between an opening and a closing one, in columns.

    at: row places of everything that has to do with transactions, by connection; start, stop: into it.
    """

    def __init__(self, at: Array, start: Array, stop: Array, cut: Array, columns: Any) -> None:
        self.at, self.start, self.stop, self.cut = at, start, stop, cut
        self._time, codes, lengths = columns
        self.first = at[start].astype(np.int64) + 1
        self.last = at[stop - 1].astype(np.int64) + 1
        member = codes != _NONE
        self._member = member
        self.messages = _sums(member, start, stop)
        self.changes = _sums((codes == _CHANGE) | (codes == _NOTE), start, stop)
        self.bytes = _sums(np.where(member, lengths, 0), start, stop)

    def rows(self, piece: int) -> Array:
        """Message numbers of one piece."""
        span = slice(self.start[piece], self.stop[piece])
        return self.at[span][self._member[span]].astype(np.int64) + 1

    def time_of(self, number: int) -> int:
        """Frame time of a message."""
        return int(self._time[number - 1])


@dataclass(frozen=True, slots=True)
class _Whole:
    """Transactions that are one piece and ended with it, or did not end: columns of one length."""

    piece: Array
    stream: Array
    xid: Array
    state: Array
    end: Array


def _sums(values: Array, start: Array, stop: Array) -> Array:
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, dtype=np.int64, out=total[1:])
    found: Array = total[stop] - total[start]
    return found


SubxidOf = Callable[[int], int | None]
"""Number of a Stream Abort -> the xid that it rolls back; None when that cannot be read."""


def transactions(index: IndexLike, subxid_of: SubxidOf) -> Transactions:
    """All transactions in the rows that `index` has now.

    subxid_of: see SubxidOf; `dissector.changes.subxid_reader` makes one.
    """
    rows, paths = index.rows, index.tables.paths
    table = np.array([_code(paths[i]) for i in range(len(paths))], np.uint8)
    codes = table[rows.column("path")]
    codes[rows.column("direction") != BACKEND] = _NONE
    at = np.flatnonzero(codes).astype(np.int32)  # half the memory: rows are counted in 32 bits
    stream = rows.column("stream")[at]
    if len(stream) and (stream[1:] < stream[:-1]).any():
        order = np.argsort(stream, kind="stable")
        at, stream = at[order], stream[order]
        del order
    code, xid = codes[at], rows.column("xid")[at]
    lengths = rows.column("length")[at]
    start, stop, closer, kind = _cut(code, stream)
    # Without its bit the note was sent at once: it belongs to no transaction, wherever it stands.
    counted = np.where((code == _NOTE) & (xid == 0), _NONE, code)
    keep = np.isin(kind, (_BEGIN, _STREAM_START, _OTHER))
    start, stop, closer, kind = start[keep], stop[keep], closer[keep], kind[keep]
    pieces = _Pieces(at, start, stop, kind == _OTHER, (rows.column("time"), counted, lengths))
    in_stream = (kind == _STREAM_START) | (closer == _STREAM_STOP)
    whole = np.flatnonzero(~in_stream & (closer != _PREPARE))
    follows = stop[whole] < len(at)
    follows[follows] = stream[stop[whole][follows]] == stream[start[whole][follows]]
    done = closer[whole] == _COMMIT
    state = np.where(done, State.COMMITTED, np.where(follows, State.CUT, State.OPEN))
    end = np.where(done, pieces.last[whole], 0)
    events = np.flatnonzero(np.isin(code, _ENDS))
    joined = _joined(pieces, in_stream, closer, events, (code, xid, stream), subxid_of)
    return Transactions(
        pieces, _Whole(whole, stream[start[whole]], xid[start[whole]], state, end), list(joined)
    )


def _cut(code: Array, stream: Array) -> tuple[Array, Array, Array, Array]:
    """Where pieces start and stop, the code of the message that closes each (0: none), and their kind:
    that of the message that opens them, _OTHER where that one is not in the capture."""
    if not len(code):
        return (np.empty(0, np.int64),) * 4
    places = np.arange(len(code), dtype=np.int32)
    new = np.concatenate(([True], stream[1:] != stream[:-1]))
    explicit = np.isin(code, _OPENERS)
    closes = np.isin(code, _CLOSERS)
    marks = np.where(explicit | closes, places, np.int32(-1))
    before = np.maximum.accumulate(marks)
    before[1:] = before[:-1].copy()
    before[0] = -1
    first = np.maximum.accumulate(np.where(new, places, np.int32(0)))
    outside = (before < first) | np.isin(code[before], (*_CLOSERS, _BOUNDARY))
    # A change or a closing message where nothing is open: the opening one was lost. The first opens.
    lost = np.flatnonzero(outside & ((code == _CHANGE) | closes) & ~explicit)
    _, each = np.unique(np.maximum(before[lost], first[lost] - 1), return_index=True)
    implicit = np.zeros(len(code), bool)
    implicit[lost[each]] = True
    start = np.flatnonzero(explicit | implicit | new)
    kind = np.where(explicit[start], code[start], np.where(implicit[start], _OTHER, _NONE))
    stop = np.concatenate((start[1:], [len(code)]))
    closing = np.flatnonzero(closes)
    piece = np.searchsorted(start, closing, side="right") - 1
    piece, each = np.unique(piece, return_index=True)
    closer = np.zeros(len(start), code.dtype)
    closer[piece] = code[closing[each]]
    stop[piece] = closing[each] + 1
    return start, stop, closer, kind


def _joined(
    pieces: _Pieces,
    in_stream: Array,
    closer: Array,
    events: Array,
    columns: tuple[Array, Array, Array],
    subxid_of: SubxidOf,
) -> Iterator[_Open]:
    """Streamed and prepared transactions: their pieces and the messages that end them, put together."""
    code, xid, stream = columns
    streamed: dict[tuple[int, int, int], _Open] = {}
    prepared: dict[tuple[int, int], _Open] = {}
    epochs = np.cumsum(code == _BOUNDARY, dtype=np.int32)
    chosen = np.flatnonzero(in_stream | (closer == _PREPARE))
    steps = np.concatenate((pieces.start[chosen], events)).astype(np.int64)
    for step in np.argsort(steps, kind="stable").tolist():
        place = int(steps[step])
        own, connection = int(xid[place]), int(stream[place])
        key = (connection, int(epochs[place]), own)
        if step >= len(chosen):
            number = int(pieces.at[place]) + 1
            yield from _event(int(code[place]), number, key, streamed, prepared, subxid_of)
            continue
        piece = int(chosen[step])
        if in_stream[piece]:
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
    if code in (_COMMIT_PREPARED, _ROLLBACK_PREPARED):
        found = prepared.pop((connection, own), None)
        if found is None:
            found = _Open(connection, own, False)
            yield found
        found.decided = number
        found.state = State.COMMIT_PREPARED if code == _COMMIT_PREPARED else State.ROLLED_BACK
        return
    known = streamed.get(key)
    if code == _STREAM_ABORT and known is not None:
        sub = subxid_of(number)
        if sub is not None and sub != own:
            known.subaborts.append((number, sub))
            return
    if known is None:
        known = _Open(connection, own, True)
        yield known
    streamed.pop(key, None)
    known.end = number
    if code == _STREAM_COMMIT:
        known.state = State.COMMITTED
    elif code == _STREAM_ABORT:
        known.state = State.ABORTED
    else:
        known.state = State.PREPARED
        prepared[connection, own] = known
