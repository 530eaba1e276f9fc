"""The frames of several capture files in time order.

Sources of the formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from dissector.capture.frames import Array, Columns, Notes
from dissector.capture.pcap import PcapReader
from dissector.capture.pcapng import PcapngReader
from dissector.capture.sources import Source

if TYPE_CHECKING:
    from dissector.capture.files import CaptureFiles

Reader = PcapReader | PcapngReader


def reader_of(source: Source, notes: Notes, follow: Callable[[], bool] | None = None) -> Reader:
    """What reads the format of a file."""
    kind = PcapReader if source.kind == "pcap" else PcapngReader
    return kind(source, notes, follow)


class Stream:
    """The batches of one file with positions in place of offsets, and its first time."""

    def __init__(self, source: Source, reader: Reader, files: CaptureFiles) -> None:
        self.source, self.reader, self.files = source, reader, files

    def first_time(self) -> int:
        """The time of the first frame, a very early one when there is none."""
        trial = reader_of(self.source, Notes())
        for columns in trial.batches(64, 1):
            return int(columns.time[0])
        return -(1 << 63)

    def batches(self) -> Iterator[Columns]:
        """Batches; memory of the file is released behind the reader."""
        high = self.source.base
        done, behind = 0, 0
        for columns in self.reader.batches(self.files.batch_frames, self.files.batch_bytes):
            yield columns._replace(record=columns.record | high, offset=columns.offset | high)
            self.source.release(done, behind)  # one batch late: consumers look one batch ahead
            if len(columns.record):
                done, behind = behind, int(columns.record[-1])
                self.files.reached[self.source.number] = behind
        self.files.reached[self.source.number] = self.source.size
        if self.source.cut is not None:
            self.files.findings.append(self.source.cut)


class _Head:
    """What is loaded of one file while merging. key: the running maximum of time, which keeps the
    order inside the file even where its clock went back."""

    def __init__(self, stream: Stream) -> None:
        self.source = stream.batches()
        self.columns: Columns | None = None
        self.key: Array = np.zeros(0, np.int64)
        self.top = -(1 << 63)
        self.load()

    def load(self) -> None:
        self.columns = next(self.source, None)
        if self.columns is not None:
            self.key = np.maximum(np.maximum.accumulate(self.columns.time), self.top)
            self.top = int(self.key[-1])

    def take(self, horizon: int) -> tuple[Columns, Array]:
        """Remove and return the rows up to `horizon`."""
        assert self.columns is not None
        count = int(np.searchsorted(self.key, horizon, side="right"))
        taken = self.columns.rows(slice(0, count)), self.key[:count]
        self.columns, self.key = self.columns.rows(slice(count, None)), self.key[count:]
        if not len(self.key):
            self.load()
        return taken


def merged(streams: list[Stream]) -> Iterator[Columns]:
    """Rows of all files by time; equal times keep the order in which the files begin. Those of one file
    alone stay as they are."""
    if len(streams) == 1:
        yield from streams[0].batches()
        return
    waiting = sorted(((s.first_time(), s.source.number, s) for s in streams), key=lambda w: w[:2])
    waiting.reverse()
    heads: list[_Head] = []
    while waiting or heads:
        if not heads:
            heads.append(_Head(waiting.pop()[2]))
        heads = [h for h in heads if h.columns is not None]
        if not heads:
            continue
        horizon = min(h.top for h in heads)
        if waiting and waiting[-1][0] < horizon:
            heads.append(_Head(waiting.pop()[2]))
            continue
        parts = [part for h in heads if len((part := h.take(horizon))[1])]
        if len(parts) == 1:
            yield parts[0][0]
            continue
        order = np.argsort(np.concatenate([key for _, key in parts]), kind="stable")
        together = Columns(*(np.concatenate(c) for c in zip(*(p for p, _ in parts), strict=True)))
        together = together.rows(order)
        size = streams[0].files.batch_frames
        for start in range(0, len(order), size):
            yield together.rows(slice(start, start + size))
