"""Sessions: every TCP connection, with what the session learned about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dissector.changes import subxid_reader
from dissector.standing import replicating, standing, told_of
from dissector.text import visible
from dissector.transactions import Transactions, transactions
from tui.present import SEVERITY_NAMES, seconds, severity_style, time_of_day
from tui.present_fields import Fact
from tui.table import Lead, Model, TableColumn

KINDS = 12
"""Kinds of messages that are counted for one session."""


class Sessions(Model):
    """One line a connection. Enter: its messages."""

    title = "Sessions"
    empty = "No TCP connection is in this capture."
    columns = (
        TableColumn("No", 4, 10, right=True),
        TableColumn("Server", 9, 4, grow=22),
        TableColumn("Client", 9, 3, grow=22),
        TableColumn("Release", 7, 6),
        TableColumn("User", 8, 5, grow=8),
        TableColumn("Database", 8, 5, grow=8),
        TableColumn("Messages", 9, 8, right=True),
        TableColumn("Bytes", 11, 7, right=True),
        TableColumn("What", 19, 9),
    )

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        index = capture.index
        self._infos = [index.connections[n] for n in sorted(index.connections)]
        self._numbers = {info.number: i for i, info in enumerate(self._infos)}
        size = max(index.connections, default=0) + 1
        rows = index.rows
        self._messages = np.zeros(size, np.int64)
        self._bytes = np.zeros(size, np.int64)
        self._worst = np.zeros(size, np.uint8)
        for _, (stream, length, severity) in rows.parts("stream", "length", "severity"):
            self._messages += np.bincount(stream, minlength=size)
            self._bytes += np.bincount(stream, length, minlength=size).astype(np.int64)
            np.maximum.at(self._worst, stream, severity)
        self._replicating = replicating(capture)
        self._transactions: Transactions | None = None
        self._first = rows.first_numbers()

    def __len__(self) -> int:
        return len(self._infos)

    def cells(self, line: int) -> list[str]:
        info = self._infos[line]
        header = info.header
        return [
            str(info.number),
            visible(info.backend, 60),
            visible(info.frontend, 60),
            visible(str(header.get("release", "")), 30),
            visible(str(header.get("user", "")), 60),
            visible(str(header.get("database", "")), 60),
            f"{int(self._messages[info.number]):,}",
            f"{int(self._bytes[info.number]):,}",
            self._what(info),
        ]

    def _what(self, info: Any) -> str:
        header = info.header
        if info.postgres is False:
            return "not PostgreSQL"
        if info.postgres is None:
            return "not decided"
        parts = []
        if header.get("plugin") or header.get("publications"):
            plugin = str(header.get("plugin") or "logical")
            parts.append(f"{plugin} protocol {header.get('proto_version', '?')}")
        elif header.get("replication"):
            parts.append(f"replication {header['replication']}")
        if header.get("slot"):
            parts.append(f"slot {header['slot']}")
        if "cancels_connection" in header:
            parts.append(f"cancels connection {header['cancels_connection']}")
        elif "cancels_process" in header:
            parts.append(f"cancels process {header['cancels_process']}")
        if "cancelled_by_connection" in header:
            parts.append(f"cancelled by {header['cancelled_by_connection']}")
        if str(header.get("encryption", "none")) != "none":
            parts.append(str(header["encryption"]))
        if header.get("application"):
            parts.append(str(header["application"]))
        return visible(", ".join(parts) or "queries", 120)

    def severity(self, line: int) -> int:
        info = self._infos[line]
        own = max((int(f.severity) for f in info.found), default=0)
        return max(own, int(self._worst[info.number]))

    def order_by(self, column: int) -> Any:
        numbers = [info.number for info in self._infos]
        by = {0: numbers, 6: self._messages[numbers], 7: self._bytes[numbers]}
        return by.get(column)

    def facts(self, line: int) -> list[Fact]:
        info = self._infos[line]
        title = f"connection {info.number}: {info.frontend} → {info.backend}"
        told = [Fact("", visible(title, 160), "detail--path")]
        told += [
            Fact(
                "finding",
                f"{SEVERITY_NAMES[int(f.severity)]}: {visible(f.text, 300)}",
                severity_style(int(f.severity)),
            )
            for f in info.found[:8]
        ]
        told += [Fact(name, visible(text, 300)) for name, text in self._standing(info.number)]
        told += [
            Fact(name.replace("_", " "), visible(str(value), 300))
            for name, value in info.header.items()
        ]
        rows = self._capture.index.rows
        mine = rows.where(lambda stream: stream == info.number, "stream")
        if len(mine):
            times = rows.take("time", mine)
            first, last = int(times.min()), int(times.max())
            told.append(Fact("time", f"{time_of_day(first)} UTC, for {seconds(last - first)} s"))
            sent = np.bincount(rows.take("direction", mine), minlength=2)
            told.append(
                Fact("messages", f"{int(sent[0]):,} of the client, {int(sent[1]):,} of the server")
            )
            told.append(Fact("kinds", self._kinds(rows.take("path", mine))))
        return told

    def _standing(self, stream: int) -> list[tuple[str, str]]:
        """Where a replication connection stood at the end, in words."""
        if stream not in self._replicating:
            return []
        if self._transactions is None:
            self._transactions = transactions(self._capture.index, subxid_reader(self._capture))
        at = standing(self._capture, stream, self._transactions, self._replicating.get(stream))
        return list(told_of(at).items()) if at else []

    def _kinds(self, paths: np.ndarray) -> str:
        counts = np.bincount(paths)
        order = np.argsort(-counts, kind="stable")[:KINDS]
        names = self._capture.index.tables.paths
        parts = [
            f"{int(counts[i]):,} {names[int(i)][-1] if names[int(i)] else 'unknown'}"
            for i in order
            if counts[i]
        ]
        return visible(", ".join(parts), 600)

    def lead(self, line: int) -> Lead:
        number = self._infos[line].number
        first = self._first.get(number, 0)
        return Lead(first, f"stream == {number}") if first else Lead()
