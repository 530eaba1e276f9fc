"""A slice of a capture: the frames of chosen messages as a capture of its own, and rows as CSV.

Frames keep their bytes, times and link types; one link type makes a pcap file, several a pcapng file
(draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng). Passwords, proofs and keys are masked in place unless
they are asked for: lengths stay, checksums do not.
"""

from __future__ import annotations

import csv
import io
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any, NamedTuple

import numpy as np

from . import catalogue, display
from .capture import Frame
from .capture.link import Scratch
from .capture.walk import LINK, TCP_FOUND, Walk
from .contents import MAY_HOLD_SECRETS
from .records import MASK, secret_ranges
from .rows import ASSUMED, COLUMNS, DECRYPTED, DIRECTIONS, INCOMPLETE, NO_LSN, Row
from .spec import Field
from .text import visible
from .times import iso_time
from .view import Capture

AT_ONCE = 1 << 12
"""Rows whose columns are taken at once."""

SNAP = 262_144
"""The snap length that the file's head states, as tcpdump does; longer frames are written all the same."""


class _Segment(NamedTuple):
    """Whose bytes a frame holds: position + shift is the offset in the stream of a byte of it."""

    stream: int
    direction: int
    shift: int


def write_pcap(capture: Capture, out: IO[bytes], numbers: Iterable[int]) -> None:
    """Write the frames that hold bytes of the messages `numbers`, each once, in capture order."""
    frames: dict[int, int] = {}
    segments: dict[int, _Segment] = {}
    for number in numbers:
        row = capture.row(number)
        at = row.offset
        for extent in capture.extents(row):
            frames[extent.frame] = extent.record
            if not row.flags & DECRYPTED:
                shift = at - extent.position
                segments.setdefault(extent.record, _Segment(row.stream, row.direction, shift))
                at += extent.length
    order = [frames[frame] for frame in sorted(frames)]
    secrets = {} if capture.options.show_secrets else _secrets(capture, set(segments.values()))
    kinds, digits = set(), 0
    for record in order:
        frame = capture.frame(record)
        kinds.add(frame.linktype)
        digits = max(digits, frame.digits)
    masked = (_masked(capture.frame(record), segments.get(record), secrets) for record in order)
    if len(kinds) > 1:
        _pcapng(out, masked, sorted(kinds))
    else:
        _pcap(out, masked, kinds.pop() if kinds else 1, digits > 6)


def _holds_secrets(name: str) -> bool:
    if name in MAY_HOLD_SECRETS:
        return True
    try:
        parts = list(catalogue.by_name(name).parts)
    except KeyError:
        return False
    while parts:
        part: Any = parts.pop()
        if isinstance(part, Field):
            if part.secret:
                return True
        else:
            parts += getattr(part, "parts", ()) or getattr(part, "options", ())
    return False


Ranges = dict[tuple[int, int], list[tuple[int, int]]]


def _secrets(capture: Capture, segments: set[_Segment]) -> Ranges:
    """(stream, direction) -> (start, end) of secret bytes in that stream, ascending. Frames can hold a
    secret of a message that is not asked for, and one that was sent again."""
    index = capture.index
    wanted = {(s.stream, s.direction) for s in segments}
    risky = [i for i in range(len(index.tables.paths))
             if any(_holds_secrets(name) for name in index.tables.paths[i])]  # fmt: skip
    streams = [stream for stream, _ in wanted]
    places = index.rows.where(
        lambda path, flags, stream: np.isin(path, risky)
        & (flags & DECRYPTED == 0)
        & np.isin(stream, streams),
        "path", "flags", "stream",
    )  # fmt: skip
    found: Ranges = {}
    for number in (places + 1).tolist():
        row = capture.row(number)
        if (row.stream, row.direction) not in wanted:
            continue
        view = capture.message(number)
        ranges = found.setdefault((row.stream, row.direction), [])
        ranges += [
            (row.offset + start, row.offset + end) for start, end in secret_ranges(view.tree)
        ]
        if row.flags & INCOMPLETE:  # what the rest of it holds was not read
            ranges.append((row.offset + len(view.data), row.offset + row.length))
    for ranges in found.values():
        ranges.sort()
    return found


def _payload(frame: Frame) -> tuple[int, int]:
    """(start, end) of the TCP payload in the frame's bytes; (0, 0) where no TCP header is found."""
    data = frame.data
    ends = np.array([len(data)]), np.array([frame.wirelen])
    walk = Walk(Scratch(data), np.zeros(1, np.int64), *ends, np.array([frame.linktype | LINK]))
    walk.run()
    if walk.code[0] != TCP_FOUND:
        return 0, 0
    header = int(walk.cur[0])
    return header + (data[header + 12] >> 4) * 4, int(walk.end[0])


def _masked(frame: Frame, segment: _Segment | None, secrets: Ranges) -> Frame:
    ranges = secrets.get((segment.stream, segment.direction)) if segment is not None else None
    if not ranges or segment is None:
        return frame
    shift = segment.shift + frame.position
    start, end = _payload(frame)
    if (
        not end
    ):  # a fragment, or a link type of the slow lane: what the stream got of it is in its end
        start, end = 0, len(frame.data)
    data = bytearray(frame.data)
    at = max(0, bisect_right(ranges, (start + shift, 0)) - 1)
    for low, high in ranges[at:]:
        if low >= end + shift:
            break
        low, high = max(low - shift, start), min(high - shift, end)
        if low < high:
            data[low:high] = MASK * (high - low)
    return frame._replace(data=bytes(data))


def _pcap(out: IO[bytes], frames: Iterable[Frame], linktype: int, nanoseconds: bool) -> None:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, SNAP, linktype))
    unit = 1 if nanoseconds else 1000
    for frame in frames:
        seconds, rest = divmod(frame.time, 1_000_000_000)
        out.write(
            struct.pack("<IIII", seconds & 0xFFFFFFFF, rest // unit, len(frame.data), frame.wirelen)
        )
        out.write(frame.data)


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + -len(body) % 4 + 12
    return struct.pack("<II", kind, size) + body + bytes(-len(body) % 4) + struct.pack("<I", size)


def _pcapng(out: IO[bytes], frames: Iterable[Frame], linktypes: list[int]) -> None:
    out.write(_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: nanoseconds
    for linktype in linktypes:
        out.write(_block(1, struct.pack("<HHI", linktype, 0, 0) + resolution))
    for frame in frames:
        head = struct.pack(
            "<IIIII", linktypes.index(frame.linktype), (frame.time >> 32) & 0xFFFFFFFF,
            frame.time & 0xFFFFFFFF, len(frame.data), frame.wirelen,
        )  # fmt: skip
        out.write(_block(6, head + frame.data))


# -- rows as a table

CSV_COLUMNS = (
    "number", "frame", "time", "stream", "direction", "source", "destination", "message", "path",
    "offset", "length", "lsn", "xid", "relation", "severity", "assumed",
)  # fmt: skip
"""Heads of the CSV columns: the keys of the JSON objects, the stream offset of the first byte, and the
worst finding's severity."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""

_SEVERITIES = ("", "note", "warning", "error")


def _cell(text: str) -> str:
    """A text of the capture, safe for a terminal and, by an apostrophe in front, for a spreadsheet."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def csv_rows(capture: Capture, numbers: Iterable[int]) -> Iterator[bytes]:
    """The rows of the messages `numbers` as CSV (RFC 4180: CRLF, a head line), from the index alone."""
    source = iter(numbers)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    labels = _Labels(capture)
    while block := list(islice(source, AT_ONCE)):
        writer.writerows(labels.rows(block))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


class _Labels:
    """The texts of many rows; those that come again are made once."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._paths: dict[int, tuple[str, str]] = {}
        self._relations: dict[int, str] = {}
        self._ends: dict[tuple[int, int], tuple[str, str]] = {}
        self._last: tuple[tuple[int, int], str] = ((-1, -1), "")
        sources = capture.files.sources
        self._even = len(sources) == 1 and sources[0].kind == "pcap"
        self._digits = -1

    def rows(self, numbers: list[int]) -> Iterator[tuple[Any, ...]]:
        """One tuple of cells a message."""
        rows, at = self.capture.index.rows, np.array(numbers, np.int64) - 1
        columns = [rows.take(name, at).tolist() for name, _ in COLUMNS]
        for number, values in zip(numbers, zip(*columns, strict=True), strict=True):
            row = Row(number, *values)
            path, name = self._path(row)
            here, there = self._between(row)
            yield (
                number, row.frame, self._time(row), row.stream, DIRECTIONS[row.direction], here,
                there, path, name, row.offset, row.length,
                "" if row.lsn == NO_LSN else display.lsn(row.lsn), row.xid or "",
                self._relation(row), _SEVERITIES[row.severity],
                "true" if row.flags & ASSUMED else "false",
            )  # fmt: skip

    def _time(self, row: Row) -> str:
        frame, text = self._last
        if frame != (row.frame, row.stream):
            if self._digits < 0 or not self._even:
                self._digits = self.capture.digits(row)
            text = iso_time(row.time, self._digits)
            self._last = ((row.frame, row.stream), text)
        return text

    def _path(self, row: Row) -> tuple[str, str]:
        found = self._paths.get(row.path)
        if found is None:
            path = self.capture.path(row)
            found = self._paths[row.path] = (path[0] if path else "", ".".join(path))
        return found

    def _relation(self, row: Row) -> str:
        found = self._relations.get(row.relation)
        if found is None:
            relation = self.capture.relation(row) or ""
            names = relation if isinstance(relation, str) else ", ".join(relation)
            found = self._relations[row.relation] = _cell(names)
        return found

    def _between(self, row: Row) -> tuple[str, str]:
        """Who sent a message, and to whom."""
        found = self._ends.get((row.stream, row.direction))
        if found is None:
            info = self.capture.connection(row.stream)
            ends = (info.frontend, info.backend)
            found = ends[row.direction], ends[1 - row.direction]
            self._ends[row.stream, row.direction] = found
        return found
