"""Capture files as one sequence of frames, whose bytes are read again by their places."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np

from dissector.capture.frames import (
    FILE_SHIFT,
    OFFSET,
    Array,
    Columns,
    Interface,
    Notes,
    distinct,
    no_frames,
)
from dissector.capture.merging import Stream, merged, reader_of
from dissector.capture.pcapng import PcapngReader
from dissector.capture.sources import SPOOL_LIMIT, Source
from dissector.errors import CaptureError, ShorterError
from dissector.findings import Finding, finding

BATCH_FRAMES = 16384
"""Frames in a batch: enough that numpy's cost per call vanishes, few enough to stay in cache."""

BATCH_BYTES = 4 << 20
"""File bytes in a batch: what is copied out of them stays in the processor's cache."""

RECORD = 32
"""Bytes of a record or block, at least, that tell of its frame."""

Path = str | PathLike[str]


class Frame(NamedTuple):
    """One frame read again. time: ns since 1970 UTC; digits: its resolution in decimals; position: of
    its first byte in the files."""

    time: int
    digits: int
    linktype: int
    wirelen: int
    data: bytes
    interface: Interface
    position: int = 0


@dataclass(slots=True)
class FrameBatch:
    """Frames in capture order. first: number of the first one. The columns are those of `Columns`,
    but record and offset are positions (file number << 42 | offset)."""

    first: int
    columns: Columns

    @property
    def last(self) -> int:
        """The number of the last frame."""
        return self.first + len(self.columns.time) - 1


class CaptureFiles:
    """Opened capture files. Use as a context manager, or call close()."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        batch_frames: int,
        batch_bytes: int,
        spool_limit: int,
        labels: Sequence[str] = (),
        growing: bool = False,
        follow: Callable[[], bool] | None = None,
        live: bool = False,
    ) -> None:
        self.notes = Notes()
        self.batch_frames, self.batch_bytes = batch_frames, batch_bytes
        self.sources: list[Source] = []
        self.frames = 0
        self.reached: dict[int, int] = {}
        self.comments: dict[int, list[str]] = {}
        _allow_files(len(paths))
        for number, path in enumerate(paths):
            label = labels[number] if labels else ""
            source = Source(
                number, fspath(path), spool_limit, label=label, growing=growing,
                live=live and len(paths) == 1,
            )  # fmt: skip
            self.sources.append(source)
            if source.live:
                follow = source.more
        self._shorter: dict[int, tuple[int, Finding]] = {}
        self.follows = growing or follow is not None
        self._readers = [reader_of(source, self.notes, follow) for source in self.sources]

    def __enter__(self) -> CaptureFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the mappings; spooled temporary files go with them."""
        self._readers.clear()
        for source in self.sources:
            source.close()
        self.sources.clear()

    @property
    def live(self) -> bool:
        """Whether `batches` gives what a stream brings, as it comes."""
        return any(source.live for source in self.sources)

    def wait_for_all(self) -> None:
        """Take a stream up to its end before anything of it is read: that is faster than as it comes."""
        for source in self.sources:
            if source.live:
                while source.more():
                    pass
                source.grow()
                self.follows = False

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces of all files; `Columns.interface` counts in this list."""
        return self.notes.interfaces

    @property
    def bytes_read(self) -> int:
        """Bytes of the files that `batches` has gone through."""
        return sum(self.reached.values())

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the files; complete after the last batch."""
        return self.notes.findings

    @property
    def secrets(self) -> list[tuple[int, bytes]]:
        """(type, bytes) of Decryption Secrets Blocks; type 0x544c534b is an NSS key log."""
        return self.notes.secrets

    @property
    def names(self) -> dict[str, list[str]]:
        """Address -> names, from Name Resolution Blocks."""
        return self.notes.names

    def batches(self) -> Iterator[FrameBatch]:
        """All frames, in time order over the files, in file order inside each file. Call it once."""
        numbered = [Stream(s, r, self) for s, r in zip(self.sources, self._readers, strict=True)]
        for columns in merged(numbered):
            batch = FrameBatch(self.frames + 1, columns)
            self.frames += len(columns.time)
            if self.notes.comments:
                self._number_comments(batch)
            yield batch
        if self.notes.comments:
            self._number_comments(FrameBatch(self.frames + 1, no_frames()))

    def _number_comments(self, batch: FrameBatch) -> None:
        """Comments are collected by record; give them the frame's number once it has one."""
        records = batch.columns.record.tolist()
        numbers = {record: batch.first + i for i, record in enumerate(records)}
        waiting = self.notes.comments
        self.notes.comments = []
        for record, text in waiting:
            number = 0 if record < 0 else numbers.get(record, -1)
            if number < 0:
                self.notes.comments.append((record, text))
            else:
                self.comments.setdefault(number, []).append(text)

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes at `position`."""
        number, offset = self.split(position)
        source = self.sources[number]
        if offset + length > source.size:
            source.grow()
        source.need(offset + length, offset)
        return bytes(source.view[offset : offset + length])

    def became_shorter(self, error: ShorterError) -> None:
        """Tell of a file that was cut while it was read: once, of the first place that was lost."""
        source, told = self.sources[error.source], self._shorter.get(error.source)
        if told is not None:
            if told[0] <= error.at:
                return
            self.findings.remove(told[1])
        what = f"it became shorter while it was read, to {source.data.size():,} bytes"
        found = finding("file-cut", error.at, file=source.label, what=what)
        self._shorter[error.source] = error.at, found
        self.findings.append(found)

    def still_there(self, batch: FrameBatch) -> FrameBatch:
        """The frames of `batch` before the first one that was cut off its file."""
        columns = batch.columns
        for number in distinct(columns.record >> FILE_SHIFT).tolist():
            mine = np.flatnonzero(columns.record >> FILE_SHIFT == number)
            ends = columns.offset[mine] + columns.caplen[mine] & OFFSET
            try:
                self.sources[number].need(int(ends.max(initial=0)))
            except ShorterError as error:
                first = int(mine[int(np.argmax(ends > self.sources[number].data.size()))])
                error.at = int(columns.record[first]) & OFFSET
                self.became_shorter(error)
                columns = columns.rows(slice(0, first))
        return FrameBatch(batch.first, columns)

    def known(self) -> tuple[list[Interface], list[Any], dict[int, list[str]]]:
        """What reading taught about the files, for `learn` in another process: picklable."""
        return self.interfaces, [getattr(r, "sections", []) for r in self._readers], self.comments

    def learn(self, known: tuple[list[Interface], list[Any], dict[int, list[str]]]) -> None:
        """Take what another process learned by reading the same files: then `frame` works."""
        self.notes.interfaces[:], sections, self.comments = known
        for reader, each in zip(self._readers, sections, strict=True):
            if isinstance(reader, PcapngReader):
                reader.sections = each

    def split(self, position: int) -> tuple[int, int]:
        """(file number, offset in it) of a position."""
        return position >> FILE_SHIFT, position & OFFSET

    def digits(self) -> int | None:
        """Decimal places of the times of all frames so far; None where they differ."""
        found = {face.digits for face in self.notes.interfaces}
        return found.pop() if len(found) == 1 else None

    def frame(self, record: int) -> Frame:
        """The frame whose record is at position `record` (of a part that was read already)."""
        return next(self.frames_at(np.array([record], np.int64)))

    def frames_at(self, records: Array) -> Iterator[Frame]:
        """The frames whose records are at the positions `records`, int64, one after the other."""
        columns = self.columns_at(records)
        for time, position, caplen, wirelen, interface in zip(
            columns.time.tolist(), columns.offset.tolist(), columns.caplen.tolist(),
            columns.wirelen.tolist(), columns.interface.tolist(), strict=True,
        ):  # fmt: skip
            data = self.read(position, caplen)
            face = self.notes.interfaces[interface]
            yield Frame(time, face.digits, face.linktype, wirelen, data, face, position)

    def columns_at(self, records: Array) -> Columns:
        """The columns of these frames, as in a FrameBatch."""
        numbers = records >> FILE_SHIFT
        found = Columns(*(np.empty(len(records), np.int64) for _ in Columns._fields))
        for number in distinct(numbers).tolist():
            mine, source = np.flatnonzero(numbers == number), self.sources[number]
            offsets = records[mine] & OFFSET
            source.grow()
            last = int(offsets.max())
            source.need(min(last + RECORD, source.size), last)
            part = self._readers[number].read(offsets)
            for column, values in zip(found, part, strict=True):
                column[mine] = values
            found.record[mine] += number << FILE_SHIFT
            found.offset[mine] += number << FILE_SHIFT
        return found


def open_capture_files(
    paths: Sequence[Path],
    *,
    batch_frames: int = BATCH_FRAMES,
    batch_bytes: int = BATCH_BYTES,
    spool_limit: int = SPOOL_LIMIT,
    labels: Sequence[str] = (),
    growing: bool = False,
    follow: Callable[[], bool] | None = None,
    live: bool = False,
) -> CaptureFiles:
    """Open captures ("-" is standard input) as one. Raises CaptureError: one line, what to try.

    labels: what the files are called, where their paths do not say it. growing: they are still
    written: what is asked for beyond their end is looked for. follow: `batches` goes on at the end of
    the (one) file as long as this, which waits a little each time, gives True. live: so they do with the
    (one) stream, in place of waiting for its end here.
    """
    if not paths:
        raise CaptureError("no capture named; give one or more pcap or pcapng files")
    return CaptureFiles(
        paths,
        batch_frames=batch_frames,
        batch_bytes=batch_bytes,
        spool_limit=spool_limit,
        labels=labels,
        growing=growing,
        follow=follow,
        live=live,
    )


def _allow_files(count: int) -> None:
    """A mapping keeps its file open: raise the soft limit when many files are named."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if count + 64 > soft:
            wanted = count + 64 if hard == resource.RLIM_INFINITY else min(hard, count + 64)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
