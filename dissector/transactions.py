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
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .rows import BACKEND, BLOCK
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


@dataclass(slots=True)
class _Marked:
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


def _marked(index: IndexLike) -> _Marked:
    paths = index.tables.paths
    table = np.array([_code(paths[i]) for i in range(len(paths))], np.uint8)
    parts: dict[int, list[tuple[Array, Array]]] = {}
    for start, (path, direction) in index.rows.parts("path", "direction"):
        codes = table[path]
        codes[direction != BACKEND] = _NONE
        at = np.flatnonzero(codes)
        if not len(at):
            continue
        stream, codes = index.rows.part("stream", start, start + len(path))[at], codes[at]
        at = (at + start).astype(np.int32)
        if (stream[1:] < stream[:-1]).any():
            order = np.argsort(stream, kind="stable")
            at, stream, codes = at[order], stream[order], codes[order]
        edges = np.concatenate(([0], np.flatnonzero(stream[1:] != stream[:-1]) + 1, [len(at)]))
        for low, high in pairwise(edges.tolist()):
            parts.setdefault(int(stream[low]), []).append((at[low:high], codes[low:high]))
    if not parts:
        nothing = np.empty(0, np.int64)
        return _Marked(nothing, np.empty(0, np.uint8), nothing, nothing)
    streams = sorted(parts)
    together = [part for stream in streams for part in parts[stream]]
    sizes = [sum(len(at) for at, _ in parts[stream]) for stream in streams]
    return _Marked(
        np.concatenate([at for at, _ in together]),
        np.concatenate([codes for _, codes in together]),
        np.array(streams, np.int64),
        np.cumsum([0, *sizes])[:-1],
    )


class _Pieces:
    """The stretches of messages between an opening and a closing one, in columns.

    start, stop: into the marked rows. first, last: message numbers. cut: the opening one is not there.
    """

    def __init__(self, marked: _Marked, start: Array, stop: Array, cut: Array, rows: Any) -> None:
        self.start, self.stop, self.cut = start, stop, cut
        self._marked, self._rows = marked, rows
        self.first = marked.at[start] + np.int32(1)
        self.last = marked.at[stop - 1] + np.int32(1)
        self.messages = np.zeros(len(start), np.int32)
        self.changes = np.zeros(len(start), np.int32)
        self.bytes = np.zeros(len(start), np.int64)
        self._count()

    def _count(self) -> None:
        """Messages, changes and bytes of each piece: by blocks, for pieces can be of any length."""
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
            member = here != _NONE
            changed = (here == _CHANGE) | (here == _NOTE)
            length = self._rows.take("length", self._marked.at[low:high])
            length[~member] = 0
            self.messages[some] += _sums(member, start, stop)
            self.changes[some] += _sums(changed, start, stop)
            self.bytes[some] += _sums(length, start, stop)

    def rows(self, piece: int) -> Array:
        """Message numbers of one piece."""
        span = slice(self.start[piece], self.stop[piece])
        member = self._marked.code[span] != _NONE
        return self._marked.at[span][member].astype(np.int64) + 1

    def time_of(self, number: int) -> int:
        """Frame time of a message."""
        return int(self._rows.row(number).time)


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
    rows, marked = index.rows, _marked(index)
    at, code = marked.at, marked.code
    start, stop, closer, kind = _cut(marked)
    # Without its bit the note was sent at once: it belongs to no transaction, wherever it stands.
    notes = np.flatnonzero(code == _NOTE)
    code[notes[rows.take("xid", at[notes]) == 0]] = _NONE
    keep = np.isin(kind, (_BEGIN, _STREAM_START, _OTHER))
    start, stop, closer, kind = start[keep], stop[keep], closer[keep], kind[keep]
    pieces = _Pieces(marked, start, stop, kind == _OTHER, rows)
    in_stream = (kind == _STREAM_START) | (closer == _STREAM_STOP)
    whole = np.flatnonzero(~in_stream & (closer != _PREPARE))
    stream = marked.stream(start[whole])
    follows = stop[whole] < len(at)
    follows[follows] = marked.stream(stop[whole][follows]) == stream[follows]
    done = closer[whole] == _COMMIT
    state = np.where(done, np.uint8(State.COMMITTED), np.uint8(State.OPEN))
    state[~done & follows] = State.CUT
    end = np.where(done, pieces.last[whole], np.int32(0))
    joined = list(_joined(pieces, in_stream, closer, marked, rows, subxid_of))
    xid = rows.take("xid", at[start[whole]])
    return Transactions(pieces, _Whole(whole, stream, xid, state, end), joined)


def _cut(marked: _Marked) -> tuple[Array, Array, Array, Array]:
    """Where pieces start and stop, the code of the message that closes each (0: none), and their kind:
    that of the message that opens them, _OTHER where that one is not in the capture."""
    if not len(marked.code):
        return (np.empty(0, np.int64),) * 4
    places, new = _turns(marked)
    code = marked.code[places]
    explicit, closes = _among(code, _OPENERS), _among(code, _CLOSERS)
    # A change or a closing message where nothing is open: the opening one was lost. The first opens.
    lost = _outside(code, explicit | closes, new) & ((code == _CHANGE) | closes) & ~explicit
    implicit = lost.copy()
    implicit[1:] &= ~(lost[:-1] & ~closes[:-1] & ~new[1:])
    opens = explicit | implicit | new
    kind = np.where(explicit, code, np.where(implicit, np.uint8(_OTHER), np.uint8(_NONE)))[opens]
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
    found[1:] = ~_among(code, (_BEGIN, _STREAM_START))[last[:-1]] | new[1:]
    return found


def _turns(marked: _Marked) -> tuple[Array, Array]:
    """Places (int32) where a piece can start or stop: what opens and closes, the first message of each
    connection, the first change after any of these; and which are a connection's first."""
    found, was_change = [], False
    begins = marked.begins
    for low in range(0, len(marked.code), BLOCK):
        code = marked.code[low : low + BLOCK]
        mark = _among(code, (*_OPENERS, *_CLOSERS))
        here = begins[np.searchsorted(begins, low) : np.searchsorted(begins, low + BLOCK)] - low
        mark[here] = True
        at = np.flatnonzero(mark | (code == _CHANGE))
        if not len(at):
            continue
        change, first = code[at] == _CHANGE, mark[at]
        first[0] |= not was_change
        first[1:] |= ~change[:-1]
        was_change = bool(change[-1])
        found.append((at[first] + low).astype(np.int32))
    places = np.concatenate(found)
    new = np.zeros(len(places), bool)
    new[np.searchsorted(places, begins)] = True
    return places, new


def _among(code: Array, which: tuple[int, ...]) -> Array:
    table = np.zeros(_OTHER + 1, bool)
    table[list(which)] = True
    found: Array = table[code]
    return found


def _joined(
    pieces: _Pieces,
    in_stream: Array,
    closer: Array,
    marked: _Marked,
    rows: Any,
    subxid_of: SubxidOf,
) -> Iterator[_Open]:
    """Streamed and prepared transactions: their pieces and the messages that end them, put together."""
    code = marked.code
    streamed: dict[tuple[int, int, int], _Open] = {}
    prepared: dict[tuple[int, int], _Open] = {}
    boundaries = np.flatnonzero(code == _BOUNDARY)
    chosen = np.flatnonzero(in_stream | (closer == _PREPARE))
    steps = np.concatenate((pieces.start[chosen], np.flatnonzero(_among(code, _ENDS))))
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
