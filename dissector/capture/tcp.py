"""TCP segments to byte streams with explicit gaps (RFC 9293), many segments at once.

All directions of all connections are handled together: the segments of a batch are sorted by direction and
sequence, and array operations find the runs that continue each other. Only what overlaps, and what
lies behind a hole, is looked at piece by piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dissector.capture.connections import Connection, Pairs
from dissector.capture.delivery import Delivery
from dissector.capture.events import Chunk, End, Gap, Pieces, StreamBatch, StreamFinding
from dissector.capture.files import CaptureFiles, FrameBatch
from dissector.capture.frames import FILE_SHIFT, OFFSET, distinct
from dissector.capture.link import Link, LinkStats, Segments
from dissector.capture.overlaps import Overlaps
from dissector.capture.placing import Placer, Seen
from dissector.capture.state import Directions, Tables
from dissector.errors import ShorterError
from dissector.findings import Finding, finding

__all__ = ["Chunk", "Connection", "End", "Gap", "Pieces", "StreamFinding", "Streams"]

WINDOW = 32 << 20
"""Bytes of one direction that may wait behind a hole. More than real receive windows in flight."""


class Streams:
    """The byte streams of `files`. Iterate `batches()` once; then everything else is complete.

    window: bytes of a direction that wait behind a hole before it is told as a Gap.
    """

    def __init__(self, files: CaptureFiles, *, window: int = WINDOW) -> None:
        self.files = files
        self.link = Link(files)
        self.window = window
        self.pairs = Pairs()
        self.state = Directions()
        self.tables = Tables()
        self.findings: list[Finding] = []
        self.ignored: set[int] = set()
        overlaps = Overlaps(self.tables, self.state, files.read, self.ignored)
        self._placer = Placer(self.state, overlaps)
        self._delivery = Delivery(
            self.state, self.tables, overlaps, self.connections, window, self.read
        )

    @property
    def connections(self) -> list[Connection]:
        """All TCP connections so far; item n has the number n."""
        return self.pairs.connections

    @property
    def stats(self) -> LinkStats:
        """Counts of packets."""
        return self.link.stats

    @property
    def ports(self) -> Counter[int]:
        """Server ports, each with the number of its connections."""
        return Counter(c.server_port for c in self.connections)

    def ignore(self, connection: int) -> None:
        """Hand on no more chunks and gaps of a connection, and keep no table of it."""
        self.ignored.add(connection)

    def pieces(self, connection: int, direction: int, start: int, stop: int) -> Pieces:
        """Where bytes start..stop of a stream lie, as far as they were delivered; clipped."""
        return self.tables.pieces(connection * 2 + direction, start, stop)

    def batches(self) -> Iterator[StreamBatch]:
        """The events of the capture, batch by batch."""
        ahead: FrameBatch | None = None
        try:
            for frames in self._frames():
                if ahead is not None:
                    yield self._batch(ahead, last=False)
                ahead = frames
            if ahead is not None:
                yield self._batch(ahead, last=True)
        except ShorterError as error:  # bytes that waited for others are gone
            self.files.became_shorter(error)
        self._finish()

    def _frames(self) -> Iterator[FrameBatch]:
        """Batches of frames, as far as the files are still there."""
        try:
            yield from self.files.batches()
        except ShorterError as error:
            self.files.became_shorter(error)

    def read(self, pieces: Pieces, before: bytes = b"") -> bytes:
        """The bytes of pieces, one after the other, behind those of `before`."""
        position = pieces.position
        if len(position) == 1:
            return before + self.files.read(int(position[0]), int(pieces.length[0]))
        sources = self.files.sources
        number = position >> FILE_SHIFT
        start = position & OFFSET
        stop = start + pieces.length
        spans = map(slice, start.tolist(), stop.tolist())
        if (number == number[0]).all():
            sources[int(number[0])].need(int(stop.max()), int(start[0]))
            view = sources[int(number[0])].view
            return b"".join([before, *map(view.__getitem__, spans)])
        for each in distinct(number).tolist():
            sources[each].need(int(stop[number == each].max()))
        views = [source.view for source in sources]
        parts = [views[n][span] for n, span in zip(number.tolist(), spans, strict=True)]
        return b"".join([before, *parts])

    # one batch

    def _batch(self, frames: FrameBatch, last: bool) -> StreamBatch:
        frames = self.files.still_there(frames)
        segments = self.link.segments(frames)
        if last:
            more = self.link.finish(frames.last)
            if len(more.frame):
                segments = Segments(*(np.concatenate(c) for c in zip(segments, more, strict=True)))
        batch = StreamBatch(frames.first, frames.last)
        replaced: list[tuple[Connection, int]] = []
        data, seen = None, Seen()
        if len(segments.frame):
            assigned = self.pairs.assign(segments, self.state.first_seq)
            batch.connections, replaced = assigned.started, assigned.replaced
            self.state.grow(2 * len(self.connections))
            data, seen = self._placer.place(segments, assigned.did, batch)
        closing = {c.number * 2 + d: frame for c, frame in replaced for d in (0, 1)}
        self._delivery.deliver(data, seen, batch, set(closing), last)
        self._delivery.tell_ends(batch)
        for one, frame in closing.items():
            self._delivery.close(one, "new", frame, batch)
        if last:
            for one in np.flatnonzero(self.state.known & ~self.state.closed).tolist():
                self._delivery.close(one, "capture", frames.last, batch)
        batch.events.sort(key=lambda event: event.arrival)
        return batch

    def _finish(self) -> None:
        """Findings that count over the whole capture."""
        stats = self.stats
        if stats.cut:
            self.findings.append(finding("snap-length", count=stats.cut))
        for link, count in sorted(stats.unknown.items()):
            self.findings.append(finding("link-type", count=count, link=link))
