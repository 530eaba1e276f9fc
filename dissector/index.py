"""The index: one row a message, made in one pass over the capture, and the way back from a row.

`indexer` reads captures and yields picklable batches; `Index` takes batches, in this process or in
another; `Capture` joins an index with the files, so that any message opens by its number, in any
order, with the same result as reading from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .capture import CaptureFiles, Chunk, Connection, End, Pieces, Streams
from .findings import Finding
from .framing import Framed, Framer
from .rows import COLUMNS, Columns, Rows
from .schemas import Dialect, Path, Schema, Tables
from .session import Assumptions


@dataclass(frozen=True, slots=True)
class Options:
    """What the user said: assumptions where the capture does not show a connection's start, a key log
    for TLS, and whether secrets are shown."""

    assumptions: Assumptions = Assumptions()
    keylog: str = ""
    show_secrets: bool = False


@dataclass(slots=True)
class ConnectionInfo:
    """One TCP connection for people: addresses as "address:port" (IPv6 in brackets), whether
    PostgreSQL was recognised (None: not decided), and the session's facts."""

    number: int
    frontend: str
    backend: str
    client: int | None
    postgres: bool | None = None
    header: dict[str, Any] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """What a stretch of the capture adds to the index. Picklable; apply in order.

    found: (row's place in this batch, finding) for findings that cannot be derived from a message's
    bytes. pieces: (connection, physical direction, Pieces). read, size: bytes of the files so far.
    """

    columns: Columns
    tables: tuple[list[Path], list[Dialect], list[Schema]]
    connections: list[ConnectionInfo]
    pieces: list[tuple[int, int, Pieces]]
    found: list[tuple[int, Finding]]
    read: int
    size: int
    frames: int
    last: bool = False
    file_findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Indexer:
    """One pass over opened files. Iterate over `batches` once."""

    def __init__(self, files: CaptureFiles, options: Options) -> None:
        self.files = files
        self.options = options
        self.streams = Streams(files)
        self.tables = Tables()
        self.framers: dict[int, Framer] = {}

    def batches(self) -> Iterator[Batch]:
        """Batches until the end of the capture; the last one has `last` set."""
        before = self.tables.lengths()
        for stretch in self.streams.batches():
            pieces: list[tuple[int, int, Pieces]] = []
            touched: dict[int, None] = {}
            for event in stretch.events:
                framer = self._framer(event.connection)
                touched[event.connection] = None
                if isinstance(event, End):
                    framer.ended(event)
                    continue
                if isinstance(event, Chunk):
                    pieces.append((event.connection, event.direction, event.pieces))
                framer.feed(event)
            rows = [(number, row) for number in touched for row in self.framers[number].messages()]
            yield self._batch(rows, before, list(touched), pieces)
            before = self.tables.lengths()
        rows = [
            (n, row) for n, framer in self.framers.items() for row in framer.messages(final=True)
        ]
        batch = self._batch(rows, before, list(self.framers), [])
        batch.last = True
        batch.file_findings = [*self.files.findings, *self.streams.findings]
        batch.facts = summary_facts(self.streams)
        yield batch

    def _framer(self, number: int) -> Framer:
        framer = self.framers.get(number)
        if framer is None:
            connection = self.streams.connections[number]
            framer = self.framers[number] = Framer(
                self.tables, self.options.assumptions, connection.client, ports_of(connection)
            )
        return framer

    def _batch(
        self,
        rows: list[tuple[int, Framed]],
        before: tuple[int, int, int],
        touched: list[int],
        pieces: list[tuple[int, int, Pieces]],
    ) -> Batch:
        rows.sort(key=lambda pair: pair[1].arrival)  # stable: stream order inside a frame
        columns, found = self._columns(rows)
        connections = [self._info(number) for number in touched]
        return Batch(
            columns, self.tables.since(before), connections, pieces, found,
            self.files.read_so_far, self.files.size, self.files.frames,
        )  # fmt: skip

    def _columns(self, rows: list[tuple[int, Framed]]) -> tuple[Columns, list[tuple[int, Finding]]]:
        tables, found = self.tables, []
        table = np.empty((len(COLUMNS), len(rows)), object)
        for i, (number, row) in enumerate(rows):
            context = row.context
            table[:, i] = (
                row.frame, row.time, number, row.direction, row.offset, row.length,
                tables.paths.number(context.path), context.lsn, context.xid, context.schema,
                tables.dialects.number(context.dialect), int(row.severity), row.flags,
            )  # fmt: skip
            found += [(i, each) for each in row.found]
        columns = {name: table[k].astype(dtype) for k, (name, dtype) in enumerate(COLUMNS)}
        return columns, found

    def _info(self, number: int) -> ConnectionInfo:
        connection, framer = self.streams.connections[number], self.framers[number]
        ends = endpoints(connection)
        client = framer.client or 0
        postgres = True if framer.decided else (False if framer.foreign else None)
        return ConnectionInfo(
            number, ends[client], ends[1 - client], framer.client, postgres,
            framer.session.header() if framer.decided else {}, list(framer.found),
        )  # fmt: skip


def endpoints(connection: Connection) -> tuple[str, str]:
    """ "address:port" of the senders of direction 0 and 1; IPv6 addresses in brackets."""
    shown = []
    for address, port in connection.endpoints:
        shown.append(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
    return shown[0], shown[1]


def ports_of(connection: Connection) -> tuple[int, int]:
    """Ports of the senders of direction 0 and 1."""
    return connection.endpoints[0][1], connection.endpoints[1][1]


def summary_facts(streams: Streams) -> dict[str, Any]:
    """Packets, TCP connections and ports: what is said where there is no PostgreSQL."""
    stats = streams.stats
    return {"packets": stats.packets, "segments": stats.tcp, "ports": dict(stats.ports)}


PIECES = ("offset", "length", "position", "frame", "time", "record")


class Index:
    """Everything that batches said. `rows`, `tables`, `connections` grow; nothing else changes."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.tables = Tables()
        self.connections: dict[int, ConnectionInfo] = {}
        self.found: dict[int, list[Finding]] = {}
        self.file_findings: list[Finding] = []
        self.facts: dict[str, Any] = {}
        self.complete = False
        self.read = self.size = self.frames = 0
        self._pieces: dict[tuple[int, int], list[Pieces]] = {}
        self._joined: dict[tuple[int, int], dict[str, NDArray[Any]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def extend(self, batch: Batch) -> None:
        """Take the next batch."""
        base = len(self.rows)
        self.tables.extend(batch.tables)
        self.rows.extend(batch.columns)
        for info in batch.connections:
            self.connections[info.number] = info
        for number, direction, pieces in batch.pieces:
            self._pieces.setdefault((number, direction), []).append(pieces)
            self._joined.pop((number, direction), None)
        for place, each in batch.found:
            self.found.setdefault(base + place + 1, []).append(each)
        self.read, self.size, self.frames = batch.read, batch.size, batch.frames
        if batch.last:
            self.file_findings, self.facts = batch.file_findings, batch.facts
            self.complete = True

    def pieces(self, stream: int, physical: int) -> dict[str, NDArray[Any]]:
        """All pieces of a direction's stream, joined: columns PIECES, ascending offset."""
        key = (stream, physical)
        joined = self._joined.get(key)
        if joined is None:
            parts = self._pieces.get(key, [])
            joined = self._joined[key] = {
                name: np.concatenate([getattr(p, name) for p in parts])
                if parts
                else np.empty(0, np.int64)
                for name in PIECES
            }
        return joined
