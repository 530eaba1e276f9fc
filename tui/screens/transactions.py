"""Transactions: how each ended, what it changed, where its messages are."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from dissector.changes import RowChange, changes, facts, relation_counts, subxid_reader
from dissector.display import Context, display
from dissector.rows import NO_LSN
from dissector.text import visible
from dissector.transactions import State, Transaction, transactions
from tui.present import lsn_text, seconds, time_of_day
from tui.present_fields import Fact
from tui.table import Lead, Model, TableColumn

SHOWN = 40
"""Row changes that are told of one transaction; the list has all of them."""

RELATIONS = 12

_STYLES = {
    State.OPEN: "kind--quiet",
    State.CUT: "kind--quiet",
    State.ABORTED: "kind--error",
    State.ROLLED_BACK: "kind--error",
    State.PREPARED: "kind--schema",
}


class TransactionList(Model):
    """One line a transaction. Enter: its messages, all pieces of it."""

    title = "Transactions"
    empty = "No transaction of logical replication is in this capture."
    columns = (
        TableColumn("No", 5, 9, right=True),
        TableColumn("Xid", 9, 10, right=True),
        TableColumn("Stream", 6, 4, right=True),
        TableColumn("Changes", 8, 8, right=True),
        TableColumn("Bytes", 10, 5, right=True),
        TableColumn("Pieces", 6, 3, right=True),
        TableColumn("Message", 8, 6, right=True),
        TableColumn("Time (UTC)", 15, 4),
        TableColumn("Took s", 11, 2, right=True),
        TableColumn("LSN", 12, 5),
        TableColumn("State", 22, 9),
    )

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        self._table = transactions(capture.index, subxid_reader(capture))
        self._last: tuple[int, Transaction] | None = None
        number = replace(self.columns[0], width=max(4, len(str(len(self._table)))))
        self.columns = (number, *self.columns[1:])

    def __len__(self) -> int:
        return len(self._table)

    def _at(self, line: int) -> Transaction:
        if self._last is None or self._last[0] != line:
            self._last = line, self._table[line]
        return self._last[1]

    def cells(self, line: int) -> list[str]:
        t = self._at(line)
        last = t.decided or t.end
        lsn = self._capture.row(last).lsn if last else NO_LSN
        state = _state(t)
        return [
            str(t.number),
            str(t.xid) if t.xid else "?",
            str(t.stream),
            f"{t.changes:,}",
            f"{t.bytes:,}",
            str(len(t.segments)),
            str(_first(t)),
            time_of_day(t.first),
            seconds(t.last - t.first),
            "" if lsn == NO_LSN else lsn_text(lsn),
            state,
        ]

    def style(self, line: int) -> str:
        return _STYLES.get(self._at(line).state, "")

    def order_by(self, column: int) -> Any:
        table = self._table
        if column in (3, 4, 8):
            each = (table[i] for i in range(len(table)))
            pick = {3: lambda t: t.changes, 4: lambda t: t.bytes, 8: lambda t: t.last - t.first}
            return np.fromiter((pick[column](t) for t in each), np.int64, len(table))
        return {0: np.arange(len(table)), 1: table.xid, 2: table.stream, 10: table.state}.get(
            column
        )

    def facts(self, line: int) -> list[Fact]:
        t = self._at(line)
        title = f"transaction {t.xid or '?'} on connection {t.stream}: {_state(t)}"
        told = [Fact("", title, "detail--path")]
        took = seconds(t.last - t.first)
        told.append(Fact("time", f"{time_of_day(t.first)} UTC, sent within {took} s"))
        size = f"{_many(t.messages, 'message')}, {_many(t.changes, 'change')}, {t.bytes:,} bytes"
        told.append(Fact("size", size))
        number = _first(t)
        context = self._capture.message(number).context(limit=200) if number else Context()
        named = facts(self._capture, t)
        for name, node in named.items():
            told.append(Fact(name.replace("_", " "), display(node, context)))
        rows = self._table.rows(line)
        counts = relation_counts(self._capture.index, rows)
        for each in counts[:RELATIONS]:
            kinds = [
                _many(count, name)
                for name in ("insert", "update", "delete", "truncate")
                if (count := getattr(each, name + "s"))
            ]
            told.append(Fact(visible(each.name, 80), f"{', '.join(kinds)}; {each.bytes:,} bytes"))
        if len(counts) > RELATIONS:
            told.append(Fact("", f"and {len(counts) - RELATIONS} more relations"))
        if t.streamed:
            spans = ", ".join(f"{a} to {b}" for a, b in t.segments[:20])
            more = f" and {len(t.segments) - 20} more" if len(t.segments) > 20 else ""
            told.append(Fact("pieces", f"messages {spans}{more}"))
        for at, xid in t.subaborts[:8]:
            told.append(Fact("rolled back", f"subtransaction {xid}, by message {at}"))
        for change in islice(changes(self._capture, rows, t.subaborts), SHOWN):
            told.append(_change(change, self._capture.message(change.number).context(limit=60)))
        if t.changes > SHOWN:
            told.append(Fact("", f"and {t.changes - SHOWN:,} more changes: Enter shows all"))
        return told

    def lead(self, line: int) -> Lead:
        t = self._at(line)
        where = f"transaction {t.xid or '?'} of stream {t.stream}"
        return Lead(_first(t), numbers=self._table.rows(line), label=where)


def _state(t: Transaction) -> str:
    state = t.state.text
    if t.streamed:
        state += ", streamed"
    if t.subaborts:
        state += f", {_many(len(t.subaborts), 'subtransaction')} rolled back"
    return state


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _first(t: Transaction) -> int:
    """The first message of a transaction that is in the capture."""
    return t.segments[0][0] if t.segments else t.end or t.decided


def _change(change: RowChange, context: Context) -> Fact:
    """``Update public.users: id=1 → id=1, name='Zoë'``."""
    if change.kind == "Message":
        return Fact(str(change.number), "Message: written by an application")
    if change.kind == "Truncate":
        names = ", ".join(m.full_name or "?" for m in change.members)
        return Fact(str(change.number), f"Truncate {visible(names, 300)}", "kind--change")
    parts = [
        ", ".join(
            f"{visible(v.name, 40)}={v.text(context)}" for v in values[:20] if v.state != "not sent"
        )
        or "(no columns)"
        for values in (change.old, change.new)
        if values is not None
    ]
    undone = "  (rolled back)" if change.rolled_back else ""
    name = visible(change.schema.full_name or "?", 80)
    return Fact(str(change.number), f"{change.kind} {name}: {' → '.join(parts)}{undone}")
