"""`Streams` that a second process makes: it reads the files, puts segments in order, and looks for where
messages may begin, while this one follows the sessions.

What comes is the same, batch by batch, and does not depend on which of the two is quicker. The bytes of
a batch, and what was found in them, lie in memory that both share, in as many slots as the reading may be
ahead; where bytes do not fit there, they are read from the files here.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dissector.capture import handing
from dissector.capture.connections import Connection
from dissector.capture.events import Chunk, Event, Pieces, StreamBatch, StreamFinding
from dissector.capture.files import CaptureFiles
from dissector.capture.frames import FILE_SHIFT, OFFSET, distinct
from dissector.capture.handing import Slots, received, send
from dissector.capture.link import LinkStats
from dissector.capture.tcp import Streams
from dissector.errors import CaptureError, ShorterError
from dissector.findings import Finding
from dissector.parallel import processors

ENOUGH = 16 << 20
"""Bytes of files from which on a second process is worth its start."""

MANY, LONGEST = 16, 1 << 14
"""Pieces of one length, at most so long, from which on they are copied at once."""


def may_be_far(files: CaptureFiles) -> bool:
    """Whether a second process can read `files`, and pays: a file that grows is waited for, not worked
    for."""
    if files.follows or sum(source.size for source in files.sources) < ENOUGH:
        return False
    return processors() > 1


@dataclass(slots=True)
class _Part:
    """One batch on its way. slot: where its bytes lie. chunks: (place among the events, connection,
    direction, first and last row of `pieces`, place of the bytes in the slot or -1, which of the looks).
    files: what reading taught."""

    slot: int
    first: int
    last: int
    events: list[Event]
    findings: list[StreamFinding]
    connections: list[Connection]
    clients: dict[int, int | None]
    pieces: Pieces | None
    chunks: list[tuple[int, int, int, int, int, int, int]]
    looks: list[Any]
    files: _Files


@dataclass(slots=True)
class _Files:
    """What reading taught of the files since the last batch."""

    frames: int
    reached: dict[int, int]
    findings: list[Finding]
    secrets: list[tuple[int, bytes]]
    known: Any = None


@dataclass(slots=True)
class _Last:
    """What stands at the end."""

    files: _Files
    stats: LinkStats
    findings: list[Finding]
    names: dict[str, list[str]] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Child:
    """The other process. source: what it sends."""

    number: int
    source: int
    slots: Slots


Look = Callable[[memoryview], Any]
"""Looks at the bytes of a chunk ahead; what it returns is picklable and becomes `Chunk.ahead`."""


class FarStreams:
    """The same as `Streams`, as far as an index needs it."""

    def __init__(self, files: CaptureFiles, look: Look) -> None:
        self.files = files
        self.look = look
        self.connections: list[Connection] = []
        self.findings: list[Finding] = []
        self.stats = LinkStats()
        self.ignored: set[int] = set()
        self._near = Streams(files)  # reads bytes; all else only where there is no other process
        self._child: _Child | None = None
        self._alone = False

    @property
    def ports(self) -> Counter[int]:
        """Server ports, each with the number of its connections."""
        return Counter(c.server_port for c in self.connections)

    def ignore(self, connection: int) -> None:
        """Nobody wants to know more of a connection: its chunks are not handed on."""
        self.ignored.add(connection)
        self._near.ignore(connection)

    def start(self) -> None:
        """Have the other process begin. Without memory, processes or files left for it, this one will do
        all."""
        if self._child is not None or self._alone:
            return
        pipes: list[int] = []
        try:
            shared = Slots.memory()
            pipes += os.pipe()
            pipes += os.pipe()
            child = os.fork()
        except OSError:
            for each in pipes:
                os.close(each)
            self._alone = True
            return
        source, sink, free, freed = pipes
        if not child:
            os.close(source)
            os.close(freed)
            _child(self.files, self.look, Slots(shared, free), sink)
        os.close(sink)
        os.close(free)
        self._child = _Child(child, source, Slots(shared, freed))

    def end(self) -> int:
        """Have the other process end, if there is one; returns how it ended, as the system says it."""
        if self._child is None:
            return 0
        child, self._child, self._alone = self._child, None, True
        os.close(child.source)
        os.close(child.slots.pipe)  # it ends when it reads that
        return os.waitpid(child.number, 0)[1]

    def batches(self) -> Iterator[StreamBatch]:
        """The events of the capture, once. Raises CaptureError where the other process died."""
        self.start()
        child, status = self._child, 0
        if child is None:
            yield from self._here()
            return
        try:
            with open(child.source, "rb", closefd=False) as incoming:
                number = 0
                while isinstance(part := received(incoming, child.slots.view), _Part):
                    chunks: list[Chunk] = []
                    slot = part.slot
                    yield self._batch(part, child.slots.view, chunks)
                    for chunk in chunks:
                        chunk.let_go()
                    child.slots.release(slot, number)
                    number += 1
        finally:
            status = self.end()
        self._finish(part, status)

    def _here(self) -> Iterator[StreamBatch]:
        """The same without another process."""
        self.connections = self._near.connections
        yield from self._near.batches()
        self.findings, self.stats = self._near.findings, self._near.stats

    def _batch(self, part: _Part, view: memoryview, chunks: list[Chunk]) -> StreamBatch:
        self._learn(part.files)
        self.connections += part.connections
        for number, client in part.clients.items():
            self.connections[number].client = client
        batch = StreamBatch(part.first, part.last, part.events, part.findings, part.connections)
        for place, connection, direction, low, high, at, looked in part.chunks:
            if connection in self.ignored:
                continue
            assert part.pieces is not None
            pieces = part.pieces.rows(slice(low, high))
            offset = int(pieces.offset[0])
            length = int(pieces.offset[-1]) + int(pieces.length[-1]) - offset
            chunk = Chunk(connection, direction, offset, length, pieces, self._near.read)
            if at >= 0:
                start = part.slot * handing.ROOM + at
                chunk.share(view[start : start + length])
                chunk.ahead = part.looks[looked]
            chunks.append(chunk)
            batch.events[place] = chunk
        batch.events = [event for event in batch.events if event is not None]
        return batch

    def _learn(self, files: _Files) -> None:
        mine = self.files
        mine.frames = files.frames
        mine.reached = files.reached
        mine.notes.findings += files.findings
        mine.notes.secrets += files.secrets
        if files.known is not None:
            mine.learn(files.known)

    def _finish(self, last: Any, status: int) -> None:
        """status: how the other process ended, as the system says it."""
        if not isinstance(last, _Last):
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS:
                for source in self.files.sources:  # cut in the midst of a batch
                    if source.data.size() < source.size:
                        at = self.files.reached.get(source.number, 0)
                        self.files.became_shorter(ShorterError(source.label, source.number, at))
                return
            raise CaptureError(
                "the process that read the capture ended early; is there memory left? "
                "With one processor (taskset -c 0 pgdissect ...) there is only one process"
            )
        self._learn(last.files)
        self.stats, self.findings = last.stats, last.findings
        self.files.notes.names |= last.names
        self.files.notes.dropped |= last.dropped


# -- in the other process


def _child(files: CaptureFiles, look: Look, slots: Slots, sink: int) -> None:
    """Read everything, hand it on, and end without what the other one would do at its end."""
    try:
        gc.disable()
        _Sender(files, look, slots, sink).run()
    except (BrokenPipeError, KeyboardInterrupt, MemoryError):
        pass  # the other one tells that this one ended early
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(0)


class _Sender:
    """Sends batches, as many ahead of the one who takes them as there are slots."""

    def __init__(self, files: CaptureFiles, look: Look, slots: Slots, sink: int) -> None:
        self.files, self.look, self.slots, self.sink = files, look, slots, sink
        self.shared = slots.view
        self.streams = Streams(files)
        self.findings = self.secrets = 0
        self.told: Any = None

    def run(self) -> None:
        try:
            for batch in self.streams.batches():
                slot = self.slots.take()
                if slot is None:
                    return
                part, used = self._part(batch, slot)
                begin = slot * handing.ROOM
                send(self.sink, part, self.shared, begin + used, begin + handing.ROOM)
        except ShorterError as error:
            self.files.became_shorter(error)
        notes = self.files.notes
        last = _Last(
            self._files(), self.streams.stats, self.streams.findings, notes.names, notes.dropped
        )
        send(self.sink, last, self.shared, 0, 0)

    def _files(self) -> _Files:
        """What is new since the last batch."""
        files, notes = self.files, self.files.notes
        news = _Files(
            files.frames, dict(files.reached),
            notes.findings[self.findings :], notes.secrets[self.secrets :],
        )  # fmt: skip
        self.findings, self.secrets = len(notes.findings), len(notes.secrets)
        interfaces, sections, comments = files.known()
        told = len(interfaces), sum(map(len, sections)), sum(map(len, comments.values()))
        if told != self.told:
            news.known, self.told = (interfaces, sections, comments), told
        return news

    def _part(self, batch: StreamBatch, slot: int) -> tuple[_Part, int]:
        """The batch as it is sent, and how many bytes of the slot it takes."""
        events: list[Any] = []
        rows: list[Pieces] = []
        chunks, looks = [], []
        low = at = 0
        for event in batch.events:
            if not isinstance(event, Chunk):
                events.append(event)
                continue
            high = low + len(event.pieces.offset)
            place = -1
            if at + event.length <= handing.ROOM:
                place = at
                start = slot * handing.ROOM + at
                self._copy(event.pieces, start)
                looks.append(self.look(self.shared[start : start + event.length]))
                at += event.length
            chunks.append(
                (len(events), event.connection, event.direction, low, high, place, len(looks) - 1)
            )
            rows.append(event.pieces)
            events.append(None)
            low = high
        pieces = Pieces(*map(np.concatenate, zip(*rows, strict=True))) if rows else None
        clients = {
            e.connection: self.streams.connections[e.connection].client for e in batch.events
        }
        part = _Part(
            slot, batch.first, batch.last, events, batch.findings, batch.connections, clients,
            pieces, chunks, looks, self._files(),
        )  # fmt: skip
        return part, at

    def _copy(self, pieces: Pieces, to: int) -> None:
        """Put the bytes of pieces into the shared memory."""
        number, start = pieces.position >> FILE_SHIFT, pieces.position & OFFSET
        length = pieces.length.astype(np.int64)
        for each in distinct(number).tolist():
            mine = number == each
            self.files.sources[each].need(int((start + length)[mine].max()), int(start[mine][0]))
        target = to + np.cumsum(length) - length
        usual = int(np.bincount(pieces.length).argmax()) if len(length) > MANY else 0
        alike = (length == usual) & (number == number[0])
        if usual and usual <= LONGEST and np.count_nonzero(alike) > MANY:
            # full segments are all of one length: rows of two tables
            source = self.files.sources[int(number[0])]
            rows = np.ndarray((source.size - usual + 1,), f"V{usual}", source.data, strides=(1,))
            into = np.ndarray(
                (len(self.shared) - usual + 1,), f"V{usual}", self.shared, strides=(1,)
            )
            into[target[alike]] = rows[start[alike]]
            rest = np.flatnonzero(~alike)
            number, start, length, target = (c[rest] for c in (number, start, length, target))
        views = [source.view for source in self.files.sources]
        for one, at, size, place in zip(
            number.tolist(), start.tolist(), length.tolist(), target.tolist(), strict=True
        ):
            self.shared[place : place + size] = views[one][at : at + size]
