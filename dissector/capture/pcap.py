"""The pcap format (draft-ietf-opsawg-pcap): both byte orders, microseconds and nanoseconds, and the
modified form a1b2cd34 whose record headers are 24 bytes long."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator

import numpy as np

from dissector.capture.frames import MAX_FRAME, Columns, Interface, Notes, waiting
from dissector.capture.sources import Source
from dissector.findings import finding

FILE_HEADER = 24
MODIFIED = 0xA1B2CD34
NANO = 0xA1B23C4D

USUAL_MAX = 1 << 20
"""A record may be this long even when the header promises less: BIG TCP makes 512 KiB frames."""


ALIKE, AT_ONCE = 8, 256
"""After so many records of one length in a row, so many more are looked at together."""


class PcapReader:
    """Frames of one pcap file in batches."""

    def __init__(
        self, source: Source, notes: Notes, follow: Callable[[], bool] | None = None
    ) -> None:
        self.source = source
        self.follow = follow
        self.notes = notes
        head = bytes(source.view[:FILE_HEADER])
        self.order = "<" if head[:1] in b"\xd4\x4d\x34" else ">"
        self.complete = len(head) == FILE_HEADER
        if not self.complete:
            head = head.ljust(FILE_HEADER, b"\0")
        magic, _, _, _, _, snaplen, network = struct.unpack(f"{self.order}IHHiIII", head)
        self.header = 24 if magic == MODIFIED else 16
        digits = 9 if magic == NANO else 6
        self.face = Interface(source.number, network & 0xFFFF, snaplen, digits, digits)
        self.limit = min(max(snaplen, USUAL_MAX), MAX_FRAME)
        self.base = len(notes.interfaces)
        notes.interfaces.append(self.face)

    def batches(self, frames: int, span: int) -> Iterator[Columns]:
        """Batches of at most `frames` frames and about `span` bytes. Findings go to the notes."""
        if not self.complete:
            self._cut(0, "inside the file header")
            return
        pos = FILE_HEADER
        while True:
            pos, cut = yield from self._stretch(pos, frames, span)
            if cut is None or not (yield from waiting(self.source, self.follow)):
                break
        if cut:
            self._cut(pos, cut)

    def _stretch(
        self, pos: int, frames: int, span: int
    ) -> Generator[Columns, None, tuple[int, str | None]]:
        """Batches up to the end of the file as it is. Returns where it stopped and what is cut there:
        "" for nothing, None where the file is damaged."""
        source, header, size = self.source, self.header, self.source.size
        numbers = source.numbers(f"{self.order}u4")
        caplen_at = struct.Struct(f"{self.order}I").unpack_from
        data = source.view
        steps = np.arange(AT_ONCE)
        while pos < size:
            source.need(size, pos)
            start, last = pos, min(size - header, pos + span)
            at: list[int] = []
            add = at.append
            before, alike = -1, 0
            while len(at) < frames and pos <= last:
                add(pos)
                step = caplen_at(data, pos + 8)[0] + header
                pos += step
                if step != before:
                    before, alike = step, 0
                    continue
                alike += 1
                if alike == ALIKE:  # full segments: look whether many more have the same length
                    alike = 0
                    count = min(AT_ONCE, frames - len(at), (last - pos) // step + 1)
                    ahead = pos + step * steps[: max(count, 0)]
                    other = np.flatnonzero(numbers[ahead + 8] != step - header)
                    if len(other):
                        ahead = ahead[: int(other[0])]
                    at += ahead.tolist()
                    pos += step * len(ahead)
            record = np.array(at, np.int64)
            caplen = numbers[record + 8].astype(np.int64)
            good = len(at)
            wrong = (caplen > self.limit) | (record + header + caplen > size)
            if not caplen.all():  # zeros at the end of a file that a crash left half written
                wrong |= (caplen == 0) & (numbers[record] == 0) & (numbers[record + 12] == 0)
            bad = np.flatnonzero(wrong)
            if len(bad):
                good = int(bad[0])
            if good:
                yield self._columns(record[:good], caplen[:good], numbers)
            if good < len(at):
                where, length = int(record[good]), int(caplen[good])
                if length > self.limit or not length:
                    self._damaged(where, length)
                    return where, None
                left = size - where - header
                return where, f"the record needs {length} bytes, {left} remain"
            if pos == start:  # fewer bytes than a record header remain
                return pos, "inside a record header"
        return pos, ""

    def read(self, record: np.ndarray) -> Columns:
        """The frames whose records are at the offsets `record`, int64."""
        numbers = self.source.numbers(f"{self.order}u4")
        return self._columns(record, numbers[record + 8].astype(np.int64), numbers)

    def _columns(self, record: np.ndarray, caplen: np.ndarray, numbers: np.ndarray) -> Columns:
        seconds = numbers[record].astype(np.int64)
        part = numbers[record + 4].astype(np.int64)
        unit = 1 if self.face.digits == 9 else 1000
        wirelen = np.maximum(numbers[record + 12].astype(np.int64), caplen)
        return Columns(
            seconds * 1_000_000_000 + part * unit,
            record,
            record + self.header,
            caplen,
            wirelen,
            np.full(len(record), self.base, np.int64),
        )

    def _cut(self, offset: int, what: str) -> None:
        if self.source.cut is None:  # else the cut of the compressed data is already told
            self.notes.findings.append(
                finding("file-cut", offset, file=self.source.label, what=what)
            )

    def _damaged(self, offset: int, length: int) -> None:
        what = f"a record of {length} bytes (at most {self.limit} are possible)"
        if not length:
            what = "zeros in place of a record"
        action = "everything before it was read"
        self.notes.findings.append(
            finding("file-damaged", offset, file=self.source.label, what=what, action=action)
        )
