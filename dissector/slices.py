"""A slice of a capture: the frames of chosen messages as a capture of its own, and rows as CSV.

Frames keep their bytes, times and link types; one link type makes a pcap file, several a pcapng file
(draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng). Passwords, proofs and keys are masked in place unless
they are asked for: lengths stay, checksums do not.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from . import catalogue, display
from .capture import Frame
from .contents import MAY_HOLD_SECRETS
from .records import MASK, secret_ranges
from .rows import ASSUMED, DECRYPTED, DIRECTIONS, NO_LSN
from .spec import Field
from .text import visible
from .times import iso_time
from .view import Capture

SNAP = 262_144
"""The snap length that the file's head states, as tcpdump does; longer frames are written all the same."""


def write_pcap(capture: Capture, out: IO[bytes], numbers: Iterable[int]) -> None:
    """Write the frames that hold bytes of the messages `numbers`, each once, in capture order."""
    frames: dict[int, int] = {}
    for number in numbers:
        for extent in capture.extents(capture.row(number)):
            frames[extent.frame] = extent.record
    order = [frames[frame] for frame in sorted(frames)]
    secrets = {} if capture.options.show_secrets else _secrets(capture, frames)
    kinds, digits = set(), 0
    for record in order:
        frame = capture.frame(record)
        kinds.add(frame.linktype)
        digits = max(digits, frame.digits)
    masked = (_masked(capture.frame(record), secrets.get(record, ())) for record in order)
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


def _secrets(capture: Capture, frames: dict[int, int]) -> dict[int, list[tuple[int, int]]]:
    """Record -> (position, length) of secret bytes, of all messages that lie in `frames`."""
    index = capture.index
    risky = [i for i in range(len(index.tables.paths))
             if any(_holds_secrets(name) for name in index.tables.paths[i])]  # fmt: skip
    column = index.rows.column
    rows = np.isin(column("path"), risky) & (column("flags") & DECRYPTED == 0)
    found: dict[int, list[tuple[int, int]]] = {}
    for number in (np.flatnonzero(rows) + 1).tolist():
        view = capture.message(number)
        if not any(extent.frame in frames for extent in view.extents):
            continue
        for start, end in secret_ranges(view.tree):
            at = 0
            for extent in view.extents:
                low, high = max(start, at), min(end, at + extent.length)
                if low < high:
                    place = (extent.position + low - at, high - low)
                    found.setdefault(extent.record, []).append(place)
                at += extent.length
    return found


def _masked(frame: Frame, places: Iterable[tuple[int, int]]) -> Frame:
    data = bytearray(frame.data)
    for position, length in places:
        at = position - frame.position
        data[at : at + length] = MASK * length
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
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    last, time = (-1, -1), ""
    for number in numbers:
        row = capture.row(number)
        info = capture.connection(row.stream)
        ends = (info.frontend, info.backend)
        if last != (row.frame, row.stream):
            last, time = (row.frame, row.stream), iso_time(row.time, capture.digits(row))
        path = capture.path(row)
        relation = capture.relation(row) or ""
        names = relation if isinstance(relation, str) else ", ".join(relation)
        writer.writerow(
            (
                number, row.frame, time, row.stream, DIRECTIONS[row.direction], ends[row.direction],
                ends[1 - row.direction], path[0] if path else "", ".".join(path), row.offset, row.length,
                "" if row.lsn == NO_LSN else display.lsn(row.lsn), row.xid or "", _cell(names),
                _SEVERITIES[row.severity], "true" if row.flags & ASSUMED else "false",
            )
        )  # fmt: skip
        if text.tell() > 1 << 16:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()
