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
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import IO, Any

import numpy as np

from . import catalogue, display
from .capture import Frame
from .capture.frames import Interface
from .capture.link import Scratch
from .capture.walk import LINK, TCP_FOUND, Walk
from .chosen import Array, Frames, frames_of
from .contents import MAY_HOLD_SECRETS
from .records import MASK, secret_ranges
from .rows import ASSUMED, COLUMNS, DECRYPTED, DIRECTIONS, INCOMPLETE, NO_LSN, Row
from .selection import Numbers, in_blocks, told
from .spec import Field
from .text import visible
from .times import iso_time
from .view import Capture, one_text

AT_ONCE = 1 << 12
"""Rows whose columns are taken at once."""

MANY = 1 << 16
"""Messages whose frames are looked for at once."""

END = 1 << 62
"""Behind all bytes of a stream."""

SNAP = 262_144
"""The snap length that the file's head states, as tcpdump does; longer frames are written all the same."""


def write_pcap(capture: Capture, out: IO[bytes], numbers: Numbers) -> None:
    """Write the frames that hold bytes of the messages `numbers`, each once, in capture order."""
    chosen = frames_of(capture, in_blocks(numbers, MANY, MANY))
    sides = set(np.unique(chosen.side[chosen.side >= 0]).tolist())
    secrets = {} if capture.options.show_secrets else _secrets(capture, sides)
    kinds, digits = set(), 0
    for face in _interfaces(capture, chosen.record):
        kinds.add(face.linktype)
        digits = max(digits, face.digits)
    frames = _frames(capture, chosen, secrets)
    capture.comments_left_out = _comments(capture, chosen.number)
    parts = (
        _pcapng(frames, sorted(kinds))
        if len(kinds) > 1
        else _pcap(frames, kinds.pop() if kinds else 1, digits > 6)
    )
    while some := list(islice(parts, AT_ONCE)):
        out.write(b"".join(some))


def _comments(capture: Capture, numbers: Array) -> int:
    """How many comments the frames with these numbers have: none is written."""
    comments = capture.files.comments
    there = np.isin(np.fromiter(comments, np.int64, len(comments)), numbers)
    return sum(
        len(texts) for texts, is_there in zip(comments.values(), there, strict=True) if is_there
    )


def _interfaces(capture: Capture, records: Array) -> Iterator[Interface]:
    """The interfaces of the frames with these records."""
    seen = [
        np.unique(capture.files.columns_at(records[first : first + MANY]).interface)
        for first in range(0, len(records), MANY)
    ]
    numbers = np.unique(np.concatenate(seen)).tolist() if seen else []
    return (capture.files.interfaces[number] for number in numbers)


def _frames(capture: Capture, chosen: Frames, secrets: Ranges) -> Iterator[Frame]:
    """The frames, with what is secret in them masked."""
    count = len(chosen.record)
    firsts = range(0, count, AT_ONCE)
    for some in told(capture, (np.arange(at, min(at + AT_ONCE, count)) for at in firsts), count):
        for frame, side, shift in zip(
            capture.files.frames_at(chosen.record[some]),
            chosen.side[some].tolist(), chosen.shift[some].tolist(), strict=True,
        ):  # fmt: skip
            ranges = secrets.get(side)
            yield _masked(frame, shift + frame.position, ranges) if ranges else frame


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


Ranges = dict[int, list[tuple[int, int]]]


def _secrets(capture: Capture, wanted: set[int]) -> Ranges:
    """Of the sides `wanted` (stream * 2 + direction) -> (start, end) of secret bytes in that stream,
    ascending. Frames can hold a secret of a message that is not asked for, and one that was sent again."""
    index = capture.index
    risky = [i for i in range(len(index.tables.paths))
             if any(_holds_secrets(name) for name in index.tables.paths[i])]  # fmt: skip
    streams = [side >> 1 for side in wanted]
    places = index.rows.where(
        lambda path, flags, stream: np.isin(path, risky)
        & (flags & DECRYPTED == 0)
        & np.isin(stream, streams),
        "path", "flags", "stream",
    )  # fmt: skip
    found: Ranges = {}
    for number in (places + 1).tolist():
        row = capture.row(number)
        side = row.stream * 2 + row.direction
        if side not in wanted:
            continue
        view = capture.message(number)
        ranges = found.setdefault(side, [])
        ranges += [
            (row.offset + start, row.offset + end) for start, end in secret_ranges(view.tree)
        ]
        if row.flags & INCOMPLETE:  # what the rest of it holds was not read
            ranges.append((row.offset + len(view.data), row.offset + row.length))
    if not index.complete:  # a frame may end with the begin of a message that is not known yet
        for side in wanted:
            last = index.rows.last_at(side >> 1, side & 1, END)
            if last is not None:
                found.setdefault(side, []).append((last.offset + last.length, END))
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


def _masked(frame: Frame, shift: int, ranges: list[tuple[int, int]]) -> Frame:
    """The frame without what is in `ranges` of its stream; shift: offset in it of the frame's first byte,
    if that were sent."""
    at = max(0, bisect_right(ranges, (shift, 0)) - 1)
    behind = shift + len(frame.data)
    near = [each for each in takewhile(lambda r: r[0] < behind, ranges[at:]) if each[1] > shift]
    if not near:
        return frame
    start, end = _payload(frame)
    if not end:  # a fragment, or a link type of the slow lane: what the stream got is in its end
        start, end = 0, len(frame.data)
    data = bytearray(frame.data)
    for low, high in near:
        low, high = max(low - shift, start), min(high - shift, end)
        if low < high:
            data[low:high] = MASK * (high - low)
    return frame._replace(data=bytes(data))


def _pcap(frames: Iterable[Frame], linktype: int, nanoseconds: bool) -> Iterator[bytes]:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    yield struct.pack("<IHHiIII", magic, 2, 4, 0, 0, SNAP, linktype)
    unit, head = 1 if nanoseconds else 1000, struct.Struct("<IIII").pack
    for frame in frames:
        seconds, rest = divmod(frame.time, 1_000_000_000)
        yield head(seconds & 0xFFFFFFFF, rest // unit, len(frame.data), frame.wirelen)
        yield frame.data


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + -len(body) % 4 + 12
    return struct.pack("<II", kind, size) + body + bytes(-len(body) % 4) + struct.pack("<I", size)


def _pcapng(frames: Iterable[Frame], linktypes: list[int]) -> Iterator[bytes]:
    yield _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: nanoseconds
    for linktype in linktypes:
        yield _block(1, struct.pack("<HHI", linktype, 0, 0) + resolution)
    for frame in frames:
        head = struct.pack(
            "<IIIII", linktypes.index(frame.linktype), (frame.time >> 32) & 0xFFFFFFFF,
            frame.time & 0xFFFFFFFF, len(frame.data), frame.wirelen,
        )  # fmt: skip
        yield _block(6, head + frame.data)


# -- rows as a table

CSV_COLUMNS = (
    "number", "frame", "time", "stream", "direction", "source", "destination", "message", "path",
    "offset", "length", "lsn", "xid", "relation", "severity", "assumed",
)  # fmt: skip
"""Heads of the CSV columns: the keys of the JSON objects, the stream offset of the first byte, and the
worst finding's severity."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""

SEVERITIES = ("", "note", "warning", "error")
"""Of the worst finding of a message, by the index's column."""


def _cell(text: str) -> str:
    """A text of the capture, safe for a terminal and, by an apostrophe in front, for a spreadsheet."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def csv_rows(capture: Capture, numbers: Numbers, total: int = 0) -> Iterator[bytes]:
    """The rows of the messages `numbers` as CSV (RFC 4180: CRLF, a head line), from the index alone.
    total: how many there are, 0 where that is not known."""
    text, labels = _line(CSV_COLUMNS), _Labels(capture)
    for block in told(capture, in_blocks(numbers, AT_ONCE, AT_ONCE, capture.live), total):
        yield "".join([text, *labels.rows(block.tolist())]).encode()
        text = ""
    yield text.encode()


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def _quoted(*cells: str) -> str:
    """Cells as they stand inside a line."""
    return _line([*cells, ""]).removesuffix(",\r\n")


class _Labels:
    """The texts of many rows; those that come again are made once."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._paths: dict[int, str] = {}
        self._relations: dict[int, str] = {}
        self._ends: dict[tuple[int, int], str] = {}
        sources = capture.files.sources
        self._even = len(sources) == 1 and sources[0].kind == "pcap"
        self._digits = -1

    def rows(self, numbers: list[int]) -> Iterator[str]:
        """One line a message."""
        rows, at = self.capture.index.rows, np.array(numbers, np.int64) - 1
        c = {name: rows.take(name, at).tolist() for name, _ in COLUMNS}

        def told(known: dict[Any, Any], keys: Iterable[Any], tell: Callable[[Row], Any]) -> Any:
            """What `tell` tells of each key, by one row that has it, if it is not known yet."""
            keys = list(keys)
            for key, i in dict(zip(keys, range(len(keys)), strict=True)).items():
                if key not in known:
                    known[key] = tell(Row(numbers[i], *(column[i] for column in c.values())))
            return map(known.__getitem__, keys)

        times = told({}, zip(c["frame"], c["stream"], strict=True), self._time)
        lsns = ["" if x == NO_LSN else display.lsn(x) for x in c["lsn"]]
        ends = told(self._ends, zip(c["stream"], c["direction"], strict=True), self._between)
        cells = (
            numbers, c["frame"], times, c["stream"], map(DIRECTIONS.__getitem__, c["direction"]), ends,
            told(self._paths, c["path"], self._path), c["offset"], c["length"], lsns,
            [x or "" for x in c["xid"]], told(self._relations, c["relation"], self._relation),
            map(SEVERITIES.__getitem__, c["severity"]),
            ["true" if x & ASSUMED else "false" for x in c["flags"]],
        )  # fmt: skip
        form = ",".join(["%s"] * len(cells)) + "\r\n"
        return map(form.__mod__, zip(*cells, strict=True))

    def _time(self, row: Row) -> str:
        if self._digits < 0 or not self._even:
            self._digits = self.capture.digits(row)
        return iso_time(row.time, self._digits)

    def _path(self, row: Row) -> str:
        """The message's name, and its path."""
        path = self.capture.path(row)
        return _quoted(path[0] if path else "", ".".join(path))

    def _relation(self, row: Row) -> str:
        return _quoted(_cell(one_text(self.capture.relation(row))))

    def _between(self, row: Row) -> str:
        """Who sent a message, and to whom."""
        info = self.capture.connection(row.stream)
        ends = (info.frontend, info.backend)
        return _quoted(ends[row.direction], ends[1 - row.direction])
