"""An opened capture: the index joined with the files, for everyone who shows or exports messages."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from .annotate import annotate
from .capture import CaptureFiles, Frame, open_capture_files
from .contents import open_contents
from .display import Context
from .early import Begun
from .findings import Finding, Severity
from .halting import go_on
from .index import Batch, ConnectionInfo, Index, Indexer, Options
from .node import Node, findings, messages
from .progress import Progress
from .rows import ASSUMED, BACKEND, DECRYPTED, DIRECTIONS, INCOMPLETE, Row
from .schema_findings import schema_findings
from .schemas import Schema
from .secrets import Keys
from .sides import HUGE, HUGE_HEAD
from .spec import Dialect

MANY = 100_000
"""Messages after whose reading Python looks for garbage at once: it takes 20 ms, and would otherwise come
while somebody waits for a message."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where bytes of a message lie: `length` bytes at file position `position` in frame `frame`."""

    frame: int
    position: int
    length: int
    record: int


@dataclass(slots=True)
class MessageView:
    """One message, opened. data: its bytes as far as the capture has them; tree: annotated; found: all
    findings, those of the state first; schema: the Schema in force (kind "" for none)."""

    row: Row
    data: bytes
    tree: Node
    dialect: Dialect
    schema: Schema
    members: tuple[Schema, ...]
    extents: list[Extent]
    found: list[Finding]
    connection: ConnectionInfo
    path: tuple[str, ...]

    @property
    def direction(self) -> str:
        """ "F" from the frontend, "B" from the backend."""
        return DIRECTIONS[self.row.direction]

    @property
    def assumed(self) -> bool:
        """Whether the dialect had to be assumed."""
        return bool(self.row.flags & ASSUMED)

    @property
    def frames(self) -> list[int]:
        """All frames that hold its bytes, ascending."""
        return sorted({extent.frame for extent in self.extents})

    @property
    def innermost(self) -> Node:
        """The message node of the innermost layer."""
        return messages(self.tree)[-1]

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        """What `dissector.display` needs to know to show the message's nodes."""
        described = (self.schema, *self.members)
        return Context(
            release=self.dialect.release,
            encoding=self.dialect.encoding,
            types=dict(self.schema.types),
            relations={s.oid: s.full_name for s in described if s.kind == "relation"},
            show_secrets=show_secrets,
            limit=limit,
        )

    def payload(self) -> bytes:
        """The innermost layer's bytes: a whole pgoutput message; for others the message itself."""
        inner = self.innermost
        return self.data[inner.start : inner.end]


class Capture:
    """An opened capture. Use as a context manager; `read` fills the index."""

    files: CaptureFiles
    _begun: Begun | None = None

    def __init__(
        self, paths: Sequence[str], options: Options | None = None, begun: Begun | None = None
    ) -> None:
        """begun: the files of `paths`, where they are opened; they are this capture's from now on."""
        self._begun = begun
        try:
            self._prepare(paths, options, Index())
        except BaseException:
            if begun is not None:
                begun.close()
            raise
        self.files = begun.files if begun is not None else open_capture_files(paths, live=True)

    def _prepare(self, paths: Sequence[str], options: Options | None, index: Index) -> None:
        self.paths = list(paths)
        self.options = options or Options()
        Keys(self.options.keylog)  # a key log that cannot be used is told before anything is read
        self.index = index
        self.progress: Progress | None = None
        self._last: tuple[int, MessageView] | None = None
        self._reading: Iterator[Batch] | None = None
        self.undecided = 0  # values that a filter's pattern took too long for
        self.passed: int | None = None  # messages that a filter took, once all were asked
        self.comments_left_out = 0  # of frames that were written without them

    def __enter__(self) -> Capture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back files and temporary space."""
        (self._begun or self.files).close()

    # -- reading

    def batches(self, live: bool = False) -> Iterator[None]:
        """Read on, batch by batch: what came is in the index after each step.

        Whoever reads on later goes on where the last one stopped: nothing is read twice. live: of a
        stream, what has come; otherwise all of it is waited for first, which is quicker.
        """
        if self._reading is None:
            if not live:
                self.files.wait_for_all()
            streams = self._begun.streams if self._begun is not None else None
            self._reading = Indexer(self.files, self.options, streams=streams).batches()
        try:
            for batch in self._reading:
                self.index.extend(batch)
                if self.progress is not None:
                    self.progress.show(self.index)
                yield
        finally:
            if self.progress is not None:
                self.progress.clear()

    @property
    def live(self) -> bool:
        """Whether messages still come, as someone sends them: what has come is not held back."""
        return self.files.live and not self.index.complete

    def read(self) -> Capture:
        """Read to the end."""
        reading = not self.index.complete
        for _ in self.batches():
            pass
        if reading and self.count > MANY:
            gc.collect()
        return self

    # -- rows and tables

    @property
    def count(self) -> int:
        """Number of messages indexed so far."""
        return len(self.index)

    def row(self, number: int) -> Row:
        """Row `number`, from 1. Raises IndexError outside."""
        return self.index.rows.row(number)

    def path(self, row: Row) -> tuple[str, ...]:
        """Names of the message and what it carries, by the release in force."""
        return self.index.tables.paths[row.path]

    def relation(self, row: Row) -> str | list[str] | None:
        """ "schema.table" by the Relation in force; a list for Truncate; None where there is none."""
        return self.relation_of(row.relation)

    def relation_of(self, number: int) -> str | list[str] | None:
        """The same by the number of its schema."""
        schema = self.index.tables.schemas[number]
        if schema.kind == "relation":
            return schema.full_name
        if schema.kind == "relations":
            names = [self.index.tables.schemas[n].full_name for n in schema.members]
            return [name for name in names if name] or None
        return None

    def connection(self, stream: int) -> ConnectionInfo:
        """The connection numbered `stream`."""
        return self.index.connections[stream]

    # -- one message

    def extents(self, row: Row) -> list[Extent]:
        """The pieces of the files that hold the message's bytes, in stream order, up to a gap.

        Of a decrypted message: those that hold the TLS records it was in.
        """
        physical = self._physical(row)
        if not row.flags & DECRYPTED:
            return self._pieces(row.stream, physical, row.offset, row.offset + row.length)
        _, ranges = self.index.plain.read(row.stream, physical, row.offset, row.length)
        return [e for low, high in ranges for e in self._pieces(row.stream, physical, low, high)]

    def physical(self, stream: int, direction: int) -> int:
        """Which end of connection `stream` sends in a direction: 0 or 1, as the capture numbers them."""
        client = self.connection(stream).client or 0
        return client if direction != BACKEND else 1 - client

    def _physical(self, row: Row) -> int:
        return self.physical(row.stream, row.direction)

    def _data(self, row: Row, extents: list[Extent]) -> bytes:
        if row.flags & DECRYPTED:
            held, _ = self.index.plain.read(row.stream, self._physical(row), row.offset, row.length)
            return held
        if row.length > HUGE:  # nobody looks at more, and memory stays bounded
            extents = self._pieces(
                row.stream, self._physical(row), row.offset, row.offset + HUGE_HEAD
            )
        return b"".join(self.files.read(e.position, e.length) for e in extents)

    def _pieces(self, stream: int, physical: int, at: int, end: int) -> list[Extent]:
        """Where bytes at..end of a direction's TCP stream lie, up to a gap."""
        found = self.index.pieces(stream, physical, at, end)
        return [Extent(frame, place, size, record) for _, size, place, frame, record in found]

    def message(self, number: int) -> MessageView:
        """Message `number`, from 1, whole. Raises IndexError outside."""
        go_on()
        last = self._last  # read once: another thread may open messages too
        if last is not None and last[0] == number:
            return last[1]
        row = self.row(number)
        extents = self.extents(row)
        data = self._data(row, extents)
        dialect = self.index.tables.dialects[row.dialect]
        layer = "backend" if row.direction == BACKEND else "frontend"
        schema = self.index.tables.schemas[row.relation]
        tree = annotate(data, layer, dialect)
        open_contents(tree, data, dialect, schema)
        found = list(self.index.found.get(number, ()))
        if not row.flags & INCOMPLETE:  # what is missing is told already
            found += findings(tree) + schema_findings(tree, schema)
        view = MessageView(
            row, data, tree, dialect, schema,
            tuple(self.index.tables.schemas[n] for n in schema.members), extents, found,
            self.connection(row.stream), self.path(row),
        )  # fmt: skip
        self._last = (number, view)
        return view

    def frame(self, record: int) -> Frame:
        """The frame whose record lies at `record` (of an Extent)."""
        return self.files.frame(record)

    # -- all together

    def has_errors(self) -> bool:
        """Whether a finding of severity error exists anywhere."""
        if any((part >= Severity.ERROR).any() for _, (part,) in self.index.rows.parts("severity")):
            return True
        others = [f for c in self.index.connections.values() for f in c.found]
        return any(f.severity >= Severity.ERROR for f in [*self.index.file_findings, *others])

    def digits(self, row: Row) -> int:
        """Decimal places of the capture's own resolution for the message's time."""
        digits = self.files.digits()
        if digits is not None:
            return digits
        last = replace(row, offset=row.offset + row.length - 1, length=1)
        extents = self.extents(last) or self.extents(row)  # its end may be missing
        return self.files.frame(extents[-1].record).digits if extents else 9

    def counted(self) -> dict[str, Any]:
        """Packets, TCP connections and ports seen."""
        return {**self.index.facts, "connections": len(self.index.connections)}


def one_text(relation: str | list[str] | None) -> str:
    """What `Capture.relation` says as one text; "" for none."""
    return ", ".join(relation) if isinstance(relation, list) else relation or ""


def open_capture(
    paths: Sequence[str], options: Options | None = None, begun: Begun | None = None
) -> Capture:
    """Open captures as one. Raises CaptureError with one line that says why and what to try.

    begun: the same captures, if their reading has begun."""
    return Capture(paths, options, begun)
