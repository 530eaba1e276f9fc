"""The index: one row a message, made in one pass over the capture, and the way back from a row.

`indexer` reads captures and yields picklable batches; `Index` takes batches, in this process or in
another; `Capture` joins an index with the files, so that any message opens by its number, in any
order, with the same result as reading from the start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .ahead import look_ahead
from .capture import CaptureFiles, Chunk, End, Pieces, StreamFinding, Streams
from .capture.far import FarStreams, may_be_far
from .errors import ShorterError
from .findings import Finding, finding
from .framing import Framer
from .links import CancelLinks
from .places import ManyPlaces, Place, Places
from .plaintext import PlainStore, PlainText
from .rows import (
    BACKEND,
    COLUMNS,
    FRONTEND,
    RECORD,
    Columns,
    Rows,
    columns_of,
    empty_columns,
    pack_record,
)
from .schemas import Dialect, Path, Schema, Tables
from .secrets import Keys
from .session import Assumptions
from .sides import Block, Framed


@dataclass(frozen=True, slots=True)
class Options:
    """What the user said: assumptions where the capture does not show a connection's start, a key log
    for TLS, and whether secrets are shown."""

    assumptions: Assumptions = field(default_factory=Assumptions)
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
    plain: what TLS records held that could be opened. subxids: (row's place in this batch,
    subtransaction) of Stream Aborts.
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
    stream_findings: list[StreamFinding] = field(default_factory=list)
    plain: list[PlainText] = field(default_factory=list)
    subxids: list[tuple[int, int]] = field(default_factory=list)


class Indexer:
    """One pass over opened files. Iterate over `batches` once. fast: take many messages at once where
    that is possible; the result does not depend on it. streams: of the files, where they are at hand."""

    def __init__(
        self, files: CaptureFiles, options: Options, *, fast: bool = True,
        streams: FarStreams | None = None,
    ) -> None:  # fmt: skip
        self.files = files
        self.fast = fast
        self.options = options
        self.streams: Streams | FarStreams = streams or Streams(files)
        if fast and not streams and may_be_far(files):
            self.streams = FarStreams(files, look_ahead)
        self.tables = Tables()
        self.framers: dict[int, Framer] = {}
        self.keys = Keys(options.keylog)
        self.links = CancelLinks()
        self._told = self.tables.lengths()
        self._dialect: tuple[Dialect | None, int] = None, 0

    def batches(self) -> Iterator[Batch]:
        """Batches until the end of the capture; the last one has `last` set."""
        try:
            yield from self._stretches()
        except ShorterError as error:
            self.files.became_shorter(error)
        batch = self._batch(self.framers, [], final=True)
        batch.last = True
        batch.file_findings = [*self.files.findings, *self.streams.findings]
        batch.facts = summary_facts(self.streams)
        yield batch

    def _stretches(self) -> Iterator[Batch]:
        for stretch in self.streams.batches():
            self.keys.learn(self.files)
            pieces: list[tuple[int, int, Pieces]] = []
            touched: dict[int, None] = {}
            for event in stretch.events:
                framer = self._framer(event.connection)
                touched[event.connection] = None
                if isinstance(event, End):
                    framer.ended(event)
                    continue
                if framer.foreign:
                    continue
                if isinstance(event, Chunk):
                    pieces.append((event.connection, event.direction, event.pieces))
                framer.feed(event)
            batch = self._batch(touched, pieces, final=False)
            for number in touched:
                if self.framers[number].foreign:  # its bytes cost nothing from now on
                    self.streams.ignore(number)
            batch.stream_findings = list(stretch.findings)
            yield batch
            self._told = self.tables.lengths()

    def _framer(self, number: int) -> Framer:
        framer = self.framers.get(number)
        if framer is None:
            connection = self.streams.connections[number]
            framer = self.framers[number] = Framer(
                self.tables,
                self.options.assumptions,
                connection.client,
                (connection.endpoints[0].port, connection.endpoints[1].port),
                self.keys.log,
            )
            framer.fast = self.fast
            framer.number = number
        return framer

    def _batch(
        self,
        touched: Iterable[int],
        pieces: list[tuple[int, int, Pieces]],
        final: bool,
    ) -> Batch:
        parts = (
            (number, part)
            for number in touched
            for part in self.framers[number].messages(final=final)
        )
        columns, found, subxids = self._columns(parts)
        plain = [text for number in touched for text in self._plain(number)]
        linked = self.links.update(touched, self.framers)
        connections = [
            self._info(number, final) for number in dict.fromkeys([*touched, *sorted(linked)])
        ]
        return Batch(
            columns, self.tables.since(self._told), connections, pieces, found,
            self._read(), sum(source.size for source in self.files.sources), self.files.frames,
            plain=plain, subxids=subxids,
        )  # fmt: skip

    def _plain(self, number: int) -> list[PlainText]:
        texts = self.framers[number].plain()
        for text in texts:
            text.stream = number
        return texts

    def _columns(
        self, parts: Iterable[tuple[int, Framed | Block | bytes]]
    ) -> tuple[Columns, list[tuple[int, Finding]], list[tuple[int, int]]]:
        """Columns in the order in which messages were complete; findings and subtransactions by place
        in them."""
        blocks, count = [], 0
        records = bytearray()
        found: list[tuple[int, Finding]] = []
        subxids: list[tuple[int, int]] = []
        for number, part in parts:
            if isinstance(part, bytes):
                records += part
            elif isinstance(part, Framed):
                place = count + len(records) // RECORD.itemsize
                found += [(place, f) for f in part.found]
                if part.context.subxid is not None:
                    subxids.append((place, part.context.subxid))
                records += self._record(number, part)
            else:
                if records:
                    blocks.append(columns_of(records))
                    count += len(blocks[-1]["arrival"])
                    records.clear()
                blocks.append(_of_block(number, part))
                for places, values in part.answers.subxids:
                    subxids += zip((places + count).tolist(), values.tolist(), strict=True)
                count += len(part.arrival)
        if records:
            blocks.append(columns_of(records))
        if not blocks:
            return empty_columns(), [], []
        joined = {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}
        arrival = joined.pop("arrival")
        if (arrival[1:] >= arrival[:-1]).all():
            columns = {name: joined[name].astype(dtype, copy=False) for name, dtype in COLUMNS}
            return columns, found, subxids
        order = np.argsort(arrival, kind="stable")  # keeps stream order in a frame
        columns = {
            name: joined[name].take(order).astype(dtype, copy=False) for name, dtype in COLUMNS
        }
        if found or subxids:
            after = np.empty(len(order), np.int64)
            after[order] = np.arange(len(order))
            found = sorted(((int(after[i]), f) for i, f in found), key=lambda pair: pair[0])
            subxids = [(int(after[i]), xid) for i, xid in subxids]
        return columns, found, subxids

    def _record(self, number: int, row: Framed) -> bytes:
        context, tables = row.context, self.tables
        dialect, in_force = self._dialect
        if dialect is not context.dialect:  # hashing one takes longer than all the rest
            in_force = tables.dialects.number(context.dialect)
            self._dialect = context.dialect, in_force
        return pack_record(
            row.arrival, row.frame, row.time, number, row.direction, row.offset, row.length,
            tables.paths.number(context.path), context.lsn, context.xid, context.schema,
            in_force, int(row.severity), row.flags,
        )  # fmt: skip

    def _read(self) -> int:
        """Bytes of the files read so far, by the last frame's place."""
        return self.files.bytes_read

    def _info(self, number: int, final: bool) -> ConnectionInfo:
        connection, framer = self.streams.connections[number], self.framers[number]
        ends = [str(end) for end in connection.endpoints]
        client = framer.client or 0
        found = list(framer.found)
        lost = sum(side.lost for side in framer.sides)
        if final and lost and not framer.decided:
            found.append(finding("foreign-gap", bytes=lost))
        postgres = True if framer.decided else (False if framer.foreign else None)
        return ConnectionInfo(
            number, ends[client], ends[1 - client], framer.client, postgres,
            framer.session.header() if framer.decided else {}, found,
        )  # fmt: skip


def _of_block(number: int, block: Block) -> Columns:
    count, answers = len(block.arrival), block.answers
    return {
        "arrival": block.arrival,
        "frame": block.frame.astype(np.uint32),
        "time": block.time,
        "stream": np.full(count, number, np.uint32),
        "direction": np.full(count, block.direction, np.uint8),
        "offset": block.offset.astype(np.uint64),
        "length": block.length.astype(np.uint32),
        "path": answers.path,
        "lsn": answers.lsn,
        "xid": answers.xid,
        "relation": answers.relation,
        "dialect": answers.dialect,
        "severity": answers.severity,
        "flags": np.full(count, block.flags, np.uint8),
    }


def summary_facts(streams: Streams | FarStreams) -> dict[str, Any]:
    """Packets, TCP connections and ports: what is said where there is no PostgreSQL."""
    stats = streams.stats
    return {"packets": stats.packets, "segments": stats.tcp, "ports": dict(streams.ports)}


MOST_FINDINGS = 10_000
"""Findings about a connection's stream that are placed one by one: hostile traffic can make millions."""


class Index:
    """Everything that batches said. `rows`, `tables`, `connections` grow; nothing else changes.

    found: message number -> what cannot be derived from its bytes. subxids: number of a Stream Abort ->
    the subtransaction that it rolls back. settled: the first so many rows, about which hardly anything
    can come any more. handed_on: the first so many, that somebody may have written already: what is found
    about these later becomes a finding of their connection, so that it is told. hands_on: whether rows
    are written before all are known.
    """

    def __init__(self) -> None:
        self.rows = Rows()
        self.tables = Tables()
        self.connections: dict[int, ConnectionInfo] = {}
        self.found: dict[int, list[Finding]] = {}
        self.subxids: dict[int, int] = {}
        self.file_findings: list[Finding] = []
        self.facts: dict[str, Any] = {}
        self.complete = False
        self.read = self.size = self.frames = 0
        self.settled = self.handed_on = 0
        self.hands_on = True
        self.plain = PlainStore()
        self._places: defaultdict[tuple[int, int], Places] = defaultdict(Places)

    def __len__(self) -> int:
        return len(self.rows)

    def extend(self, batch: Batch) -> None:
        """Take the next batch."""
        base = len(self.rows)
        self.tables.extend(batch.tables)
        self.rows.extend(batch.columns)
        for info in batch.connections:
            known = self.connections.get(info.number)
            if known is not None:
                info.found = [*known.found, *(f for f in info.found if f not in known.found)]
            self.connections[info.number] = info
        for number, direction, pieces in batch.pieces:
            self._places[number, direction].add(pieces)
        for text in batch.plain:
            self.plain.add(text)
        for place, each in batch.found:
            self.found.setdefault(base + place + 1, []).append(each)
        for place, xid in batch.subxids:
            self.subxids[base + place + 1] = xid
        for stream_finding in batch.stream_findings:
            self._place(stream_finding)
        self.read, self.size, self.frames = batch.read, batch.size, batch.frames
        if batch.last:
            self.file_findings, self.facts = batch.file_findings, batch.facts
            self.complete = True
            self.rows.close()
        self.settled = len(self) if self.complete else base

    def _place(self, about: StreamFinding) -> None:
        """Give a finding about stream bytes to the message that holds them, else to the connection."""
        info = self.connections.get(about.connection)
        if info is None:
            return
        if info.client is not None and len(info.found) < MOST_FINDINGS:
            direction = FRONTEND if about.direction == info.client else BACKEND
            row = self.rows.last_at(about.connection, direction, about.offset)
            late = row is not None and row.number <= self.handed_on
            if row is not None and not late and about.offset < row.offset + row.length:
                self.found.setdefault(row.number, []).append(about.finding)
                self.rows.worsen(row.number - 1, int(about.finding.severity))
                return
        info.found.append(about.finding)

    def places(
        self, stream: int, physical: int, start: int, stop: int, frames: bool = False
    ) -> Iterator[ManyPlaces]:
        """What `pieces` says, as arrays of many pieces; with the numbers of their `frames`, or without."""
        places = self._places.get((stream, physical))
        return places.find_many(start, stop, frames) if places is not None else iter(())

    def pieces(self, stream: int, physical: int, start: int, stop: int) -> Iterator[Place]:
        """Where bytes start..stop of a direction's stream lie, up to a gap, in stream order, clipped."""
        places = self._places.get((stream, physical))
        return places.find(start, stop) if places is not None else iter(())
