"""Where a replication connection stood when its capture ended: what the server told of, what the client
confirmed, and the first transaction that the client had not confirmed.

https://www.postgresql.org/docs/current/protocol-replication.html describes the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .changes import subxid_reader
from .display import lsn
from .node import Node, messages
from .pieces import by_stream
from .rows import BACKEND, NO_LSN, Rows
from .times import iso_time
from .transactions import State, Transaction, Transactions, transactions

_STATUS, _KEEPALIVE, _DATA = "Standby status update", "Primary keepalive message", "XLogData"


@dataclass(frozen=True, slots=True)
class Standing:
    """One connection at its end; LSNs are integers, message numbers count from 1, 0 for none.

    told: highest LSN that the server's messages name, in message told_in. written, flushed, applied: of
    the last Standby status update, message confirmed_in at confirmed_at (ns since the Unix epoch).
    behind: bytes from flushed to told, None where one of them is missing. waiting: transactions that
    ended for the client and whose end it has not confirmed as flushed. first: the earliest of them.
    open: the latest transaction of which more was to come when the capture ended.
    """

    stream: int
    told: int
    told_in: int
    written: int = 0
    flushed: int = 0
    applied: int = 0
    confirmed_in: int = 0
    confirmed_at: int = 0
    behind: int | None = None
    waiting: int = 0
    first: Transaction | None = None
    open: Transaction | None = None


@dataclass(slots=True)
class Reached:
    """What the rows of one connection say of its end. told: highest LSN that the server's messages name;
    number of the first that names it, of the last that names any, and of the client's last Standby
    status update; 0 for none."""

    told: int = 0
    number: int = 0
    last: int = 0
    update: int = 0


def standing(
    capture: Any, stream: int, table: Transactions | None = None, reached: Reached | None = None
) -> Standing | None:
    """Where connection `stream` stood after its last message; None where it does not replicate.

    table: the transactions of `capture`, reached: of the connection, where they are at hand.
    """
    rows = capture.index.rows
    reached = reached or replicating(capture).get(stream)
    if reached is None:
        return None
    told, told_in = _told(capture, reached)
    written = flushed = applied = at = 0
    number = reached.update
    if number:
        node = messages(capture.message(number).tree)[-1]
        written, flushed, applied = (_lsn(node, n) for n in ("written", "flushed", "applied"))
        at = rows.row(number).time
    if table is None:
        table = transactions(capture.index, subxid_reader(capture))
    waiting, first = _waiting(table, stream, rows, flushed)
    still = np.flatnonzero((table.stream == stream) & (table.state == State.OPEN))
    return Standing(
        stream, told, told_in, written, flushed, applied, number, at,
        max(0, told - flushed) if flushed else None,
        waiting, first, table[int(still[-1])] if len(still) else None,
    )  # fmt: skip


def replicating(capture: Any) -> dict[int, Reached]:
    """By number of a connection, ascending: those on which the server sent WAL, changes or keepalives."""
    reaching = Reaching(capture)
    reaching.feed()
    return reaching.found()


class Reaching:
    """Finds how far each connection came, also while the index of a capture grows."""

    def __init__(self, capture: Any) -> None:
        self._index, self._done = capture.index, 0
        self._found: dict[int, Reached] = {}
        self._updates: dict[int, int] = {}

    def feed(self) -> None:
        """Look at the rows that came since the last time."""
        update, told = _paths(self._index, _STATUS), _paths(self._index, _KEEPALIVE, _DATA)
        names = ("path", "stream", "lsn", "direction")
        rows = self._index.rows.parts(*names, start=self._done)
        for start, (path, stream, lsns, direction) in rows:
            self._done = start + len(path)
            for one, mine in by_stream(stream, update[path]):
                self._updates[one] = start + int(mine[-1]) + 1
            lsns = np.where((lsns == NO_LSN) | (direction != BACKEND), np.uint64(0), lsns)
            for one, mine in by_stream(stream, told[path]):
                reached = self._found.setdefault(one, Reached())
                best = int(mine[np.argmax(lsns[mine])])
                if not reached.number or int(lsns[best]) > reached.told:
                    reached.told, reached.number = int(lsns[best]), start + best + 1
                reached.last = start + int(mine[-1]) + 1

    def found(self) -> dict[int, Reached]:
        """See `replicating`."""
        for one, reached in self._found.items():
            reached.update = self._updates.get(one, 0)
        return dict(sorted(self._found.items()))


def told_of(at: Standing) -> dict[str, str]:
    """What people are told of it, line by line: name -> text."""
    lines = {"server has sent up to": f"{lsn(at.told)} (message {at.told_in:,})"}
    parts = f"flushed {lsn(at.flushed)}, written {lsn(at.written)}, applied {lsn(at.applied)}"
    if not at.confirmed_in:
        parts = "nothing: no Standby status update is in this capture"
    elif not at.flushed:
        parts = f"nothing as flushed (written {lsn(at.written)}, applied {lsn(at.applied)})"
    if at.confirmed_in:
        parts += f" (message {at.confirmed_in:,}, {iso_time(at.confirmed_at, 6)})"
    lines["client has confirmed"] = parts
    if at.behind is not None:
        lines["client is behind by"] = f"{at.behind:,} bytes of WAL"
    if at.first is not None:
        more = f"; {at.waiting - 1:,} more after it" if at.waiting > 1 else ""
        lines["first transaction not confirmed"] = _named(at.first) + more
    if at.open is not None:
        lines["ends inside transaction"] = _named(at.open)
    return lines


def _named(transaction: Transaction) -> str:
    first = transaction.begin or transaction.end or transaction.decided
    if transaction.segments:
        first = transaction.segments[0][0]
    return f"xid {transaction.xid or '?'} ({transaction.state.text}), messages from {first:,}"


def _paths(index: Any, *names: str) -> np.ndarray:
    """By number of a path of the index: whether its messages are CopyData with one of `names` in it."""
    paths = [index.tables.paths[i] for i in range(len(index.tables.paths))]
    return np.array([len(p) > 1 and p[0] == "CopyData" and p[1] in names for p in paths], bool)


def _told(capture: Any, reached: Reached) -> tuple[int, int]:
    """(highest LSN, number of its message) with WAL itself counted to its end."""
    told, number, end_of = reached.told, reached.number, reached.last
    last = messages(capture.message(end_of).tree)
    for node in last:
        start, data = node.child("start_lsn"), node.child("data")
        if node is last[-1] and start is not None and data is not None:  # WAL itself: to its end
            end = int(start.value or 0) + data.length
            if end > told:
                told, number = end, end_of
    return told, number


def _lsn(node: Node, name: str) -> int:
    child = node.child(f"{name}_lsn")
    return int(child.value or 0) if child is not None else 0


def _waiting(
    table: Transactions, stream: int, rows: Rows, flushed: int
) -> tuple[int, Transaction | None]:
    """(how many ended transactions of `stream` are not confirmed, the first of these)."""
    last = np.where(table.decided > 0, table.decided, table.end)
    found = np.flatnonzero((table.stream == stream) & (last > 0) & (table.state != State.ABORTED))
    ends = rows.take("lsn", last[found] - 1)
    found = found[(ends != NO_LSN) & (ends > flushed)]
    return len(found), table[int(found[np.argmin(last[found])])] if len(found) else None
