"""Transactions that were streamed or prepared: their pieces and the messages that end them, put together.

All at once, in columns: a capture can have tens of thousands of pieces. Source: the manual pages
``logicaldecoding-streaming.html`` and ``logicaldecoding-two-phase-commits.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .capture.frames import member
from .pieces import (
    BOUNDARY,
    COMMIT_PREPARED,
    ENDS,
    PREPARE,
    ROLLBACK_PREPARED,
    STREAM_ABORT,
    STREAM_COMMIT,
    STREAM_PREPARE,
    STREAM_START,
    Marked,
    Pieces,
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

_AFTER = np.zeros(ROLLBACK_PREPARED + 1, np.uint8)
"""Code of the message that came last -> State."""
_AFTER[[STREAM_COMMIT, STREAM_ABORT]] = State.COMMITTED, State.ABORTED
_AFTER[[PREPARE, STREAM_PREPARE]] = State.PREPARED
_AFTER[[COMMIT_PREPARED, ROLLBACK_PREPARED]] = State.COMMIT_PREPARED, State.ROLLED_BACK

SubxidOf = Callable[[int], int | None]
"""Number of a Stream Abort -> the xid that it rolls back; None when that cannot be read."""


@dataclass(slots=True)
class Columns:
    """Transactions, one entry each; message numbers count from 1, 0 stands for "not in the capture".

    stream, xid: uint32. state: uint8, see State. end, decided: int32, see
    `dissector.transactions.Transaction`. counts: how many pieces each has, int32; parts: their numbers,
    those of one transaction after those of the other. subaborts: place -> (number, xid) of each
    subtransaction rolled back.
    """

    stream: Array
    xid: Array
    state: Array
    streamed: bool
    end: Array
    decided: Array
    counts: Array
    parts: Array
    subaborts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Pieces that were streamed or end prepared, and messages that end transactions, as they came.

    kind: STREAM_START or PREPARE for a piece, else the message's code. piece: -1 for a message. number:
    of the (first) message. epoch: how often the replication was begun before.
    """

    kind: Array
    piece: Array
    number: Array
    stream: Array
    xid: Array
    epoch: Array

    def of(self, *kinds: int) -> Array:
        """Places of the steps of these kinds, in order."""
        return np.flatnonzero(member(self.kind, kinds))


def joined(
    pieces: Pieces,
    in_stream: Array,
    closer: Array,
    marked: Marked,
    rows: Any,
    subxid_of: SubxidOf,
) -> list[Columns]:
    """Transactions that were streamed or prepared, and those of which only the end is there.

    in_stream: which pieces were streamed; closer: the code of the message that closed each.
    """
    steps = _steps(pieces, in_stream, closer, marked, rows)
    streamed, lone, prepared_in = _streamed(steps, subxid_of)
    at = steps.of(PREPARE)
    piece = steps.piece[at]
    plain = Columns(
        steps.stream[at], steps.xid[at], _AFTER[steps.kind[at]], False, pieces.last[piece],
        _nothing(at), np.ones(len(at), np.int32), piece,
    )  # fmt: skip
    undecided = [
        (streamed, prepared_in, np.flatnonzero(streamed.state == State.PREPARED)),
        (plain, at, np.arange(len(at))),
    ]
    return [streamed, lone, plain, _decided(steps, undecided)]


def _steps(pieces: Pieces, in_stream: Array, closer: Array, marked: Marked, rows: Any) -> _Steps:
    chosen = np.flatnonzero(in_stream | (closer == PREPARE))
    events = np.flatnonzero(member(marked.code, ENDS))
    step = np.concatenate((pieces.start[chosen], events))
    order = np.argsort(step, kind="stable")
    kinds = np.where(in_stream[chosen], np.uint8(STREAM_START), np.uint8(PREPARE))
    step, at = step[order], marked.at[step[order]]
    return _Steps(
        np.concatenate((kinds, marked.code[events]))[order],
        np.concatenate((chosen, np.full(len(events), -1)))[order],
        at + np.int32(1),
        marked.stream(step),
        rows.take("xid", at),
        np.searchsorted(np.flatnonzero(marked.code == BOUNDARY), step, side="right"),
    )


def _streamed(steps: _Steps, subxid_of: SubxidOf) -> tuple[Columns, Columns, Array]:
    """(transactions sent in streams, Stream Aborts of subtransactions of which nothing was sent, the
    step at which each of the first that is prepared was)."""
    at = steps.of(STREAM_START, STREAM_COMMIT, STREAM_ABORT, STREAM_PREPARE)
    at = at[np.lexsort((steps.epoch[at], steps.xid[at], steps.stream[at]))]
    kind = steps.kind[at]
    sent = kind == STREAM_START
    subs = _subtransactions(steps, at, subxid_of)
    other = np.zeros(len(at), bool)  # only a subtransaction is rolled back: more may come
    other[list(subs)] = True
    ends = ~sent & ~other
    # A transaction begins with its xid, and after the end of one with the same xid.
    begins = np.ones(len(at), bool)
    begins[1:] = ends[:-1] | _changes(steps.stream[at], steps.xid[at], steps.epoch[at])
    place = np.cumsum(begins) - 1
    count = int(place[-1]) + 1 if len(at) else 0
    pieces = np.bincount(place[sent], minlength=count).astype(np.int32)
    last = np.full(count, -1)
    last[place[ends]] = np.flatnonzero(ends)
    # Stream Aborts before anything was sent stand alone.
    seen = np.cumsum(sent) - np.concatenate(([0], np.cumsum(pieces)))[place]
    alone = other & (seen == 0)
    kept = (pieces > 0) | (last >= 0)
    first = at[np.flatnonzero(begins)[kept]]
    last, ended = last[kept], last[kept] >= 0
    end = np.where(ended, steps.number[at[last]] if len(at) else 0, 0).astype(np.int32)
    found = Columns(
        steps.stream[first], steps.xid[first],
        np.where(ended, _AFTER[kind[last]] if len(at) else 0, np.uint8(State.OPEN)), True, end,
        _nothing(first), pieces[kept], steps.piece[at[sent]],
    )  # fmt: skip
    places = np.cumsum(kept) - 1
    for i, sub in subs.items():
        if not alone[i]:
            told = (int(steps.number[at[i]]), sub)
            found.subaborts.setdefault(int(places[place[i]]), []).append(told)
    lone = _without_pieces(steps, at[alone], True, steps.number[at[alone]], None)
    return found, lone, at[last[found.state == State.PREPARED]]


def _subtransactions(steps: _Steps, at: Array, subxid_of: SubxidOf) -> dict[int, int]:
    """Which of the steps `at` roll back only a subtransaction: place in `at` -> its xid."""
    found = {}
    aborts = np.flatnonzero(steps.kind[at] == STREAM_ABORT)
    told = zip(
        aborts.tolist(), steps.number[at[aborts]].tolist(), steps.xid[at[aborts]].tolist(),
        strict=True,
    )  # fmt: skip
    for i, number, xid in told:
        sub = subxid_of(number)
        if sub is not None and sub != xid:
            found[i] = sub
    return found


def _decided(steps: _Steps, undecided: Iterable[tuple[Columns, Array, Array]]) -> Columns:
    """Give what was prepared its decision; the decisions about what is not in the capture.

    undecided: transactions, the step at which each that counts was prepared, and its place.
    """
    decisions = steps.of(COMMIT_PREPARED, ROLLBACK_PREPARED)
    known = np.zeros(len(decisions), bool)
    groups = [(columns, at, place) for columns, at, place in undecided if len(at)]
    if len(decisions) and groups:
        at = np.concatenate([decisions, *(at for _, at, _ in groups)])
        owner = np.repeat(
            np.arange(-1, len(groups)), [len(decisions), *(len(g[1]) for g in groups)]
        )
        place = np.concatenate([np.arange(len(decisions)), *(g[2] for g in groups)])
        order = np.lexsort((at, steps.xid[at], steps.stream[at]))
        at, owner, place = at[order], owner[order], place[order]
        # The one before a decision is the prepared one, if it is of the same connection and xid.
        same = ~_changes(steps.stream[at], steps.xid[at])
        answers = np.flatnonzero((owner[1:] < 0) & (owner[:-1] >= 0) & same) + 1
        known[place[answers]] = True
        for i, (columns, _, _) in enumerate(groups):
            mine = answers[owner[answers - 1] == i]
            columns.decided[place[mine - 1]] = steps.number[at[mine]]
            columns.state[place[mine - 1]] = _AFTER[steps.kind[at[mine]]]
    others = decisions[~known]
    return _without_pieces(steps, others, False, None, steps.number[others])


def _without_pieces(
    steps: _Steps, at: Array, streamed: bool, end: Array | None, decided: Array | None
) -> Columns:
    """Transactions of which only the last message, at the steps `at`, is there."""
    nothing = _nothing(at)
    return Columns(
        steps.stream[at], steps.xid[at], _AFTER[steps.kind[at]], streamed,
        nothing if end is None else end, nothing if decided is None else decided,
        nothing, np.empty(0, np.int64),
    )  # fmt: skip


def _nothing(at: Array) -> Array:
    return np.zeros(len(at), np.int32)


def _changes(*columns: Array) -> Array:
    """Between which neighbours one of `columns` changes: one shorter than they are."""
    found: Array = np.zeros(max(0, len(columns[0]) - 1), bool)
    for column in columns:
        found |= column[1:] != column[:-1]
    return found
