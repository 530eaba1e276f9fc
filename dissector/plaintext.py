"""The plain text of decrypted connections: where it is kept, and the way back to the frames.

Who builds the index hands on what TLS records held in `PlainText` parts (picklable, in a batch); who
has the index keeps the bytes in a temporary file without a name, so that memory holds only a few
numbers a record. Plain text is counted from the stream offset at which encryption began, so it never
takes the offsets of what was sent in the clear before.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

IN_MEMORY = 4 << 20
"""Bytes of plain text that are kept without a file."""

COLUMNS = ("offset", "length", "start", "end")


@dataclass(slots=True)
class PlainText:
    """What records of one direction held, in order.

    stream: the connection. physical: the direction, 0 or 1, as in capture.Chunk. offset, length: of
    each record's plain text. start, end: the record's own range in the TCP stream. data: all the
    plain text, one after the other.
    """

    stream: int
    physical: int
    offset: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    data: bytes = b""


class PlainStore:
    """All plain text of an index. `read` gives any of it back, with the ranges that it came from."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self._size = 0
        self._lock = Lock()
        self._parts: dict[tuple[int, int], list[dict[str, NDArray[Any]]]] = {}

    def add(self, part: PlainText) -> None:
        """Take the next part of a direction."""
        columns = {name: np.array(getattr(part, name), np.int64) for name in COLUMNS}
        columns["position"] = self._size + np.cumsum(columns["length"]) - columns["length"]
        with self._lock:
            self._file.seek(self._size)
            self._file.write(part.data)
        self._size += len(part.data)
        self._parts.setdefault((part.stream, part.physical), []).append(columns)

    def _columns(self, stream: int, physical: int) -> dict[str, NDArray[Any]]:
        parts = self._parts.get((stream, physical))
        if not parts:
            return {name: np.empty(0, np.int64) for name in (*COLUMNS, "position")}
        if len(parts) > 1:
            parts[:] = [{name: np.concatenate([p[name] for p in parts]) for name in parts[0]}]
        return parts[0]

    def read(
        self, stream: int, physical: int, offset: int, length: int
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """The plain text from `offset` on, up to `length` bytes or to a hole, and the TCP stream ranges
        of the records that held it, ascending, neighbours joined."""
        columns = self._columns(stream, physical)
        starts, lengths = columns["offset"], columns["length"]
        at, stop = offset, offset + length
        i = int(np.searchsorted(starts, at, side="right")) - 1
        pieces: list[bytes] = []
        ranges: list[tuple[int, int]] = []
        while 0 <= i < len(starts) and at < stop:
            start, size = int(starts[i]), int(lengths[i])
            if not start <= at < start + size:
                break
            take = min(start + size, stop) - at
            with self._lock:
                self._file.seek(int(columns["position"][i]) + at - start)
                pieces.append(self._file.read(take))
            low, high = int(columns["start"][i]), int(columns["end"][i])
            if ranges and ranges[-1][1] == low:
                ranges[-1] = (ranges[-1][0], high)
            else:
                ranges.append((low, high))
            at += take
            i += 1
        return b"".join(pieces), ranges
