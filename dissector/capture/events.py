"""What the TCP stage hands on: chunks, gaps, ends, findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dissector.capture.connections import Connection
from dissector.capture.frames import Array
from dissector.findings import Finding


class Pieces(NamedTuple):
    """Where stream bytes lie: one row per segment piece, ascending and without holes.

    offset i8 (in the stream), length u4, position i8 (of the bytes in the files), frame u4 (that holds
    them), arrival u4 (the frame that made them deliverable), time i8 (ns, of `frame`), record i8
    (position of that frame's record).
    """

    offset: Array
    length: Array
    position: Array
    frame: Array
    arrival: Array
    time: Array
    record: Array

    def rows(self, which: Array | slice) -> Pieces:
        """The rows that a slice or index array picks."""
        return Pieces(*(column[which] for column in self))


class Chunk:
    """Consecutive bytes of one direction. `data` is copied out of the files when first asked for.

    ahead: what a look at the bytes told, None where nobody looked.
    """

    __slots__ = (
        "_data",
        "_read",
        "_shared",
        "ahead",
        "connection",
        "direction",
        "length",
        "offset",
        "pieces",
    )  # fmt: skip

    def __init__(
        self,
        connection: int,
        direction: int,
        offset: int,
        length: int,
        pieces: Pieces,
        read: Callable[[Pieces, bytes], bytes],
    ) -> None:
        self.connection = connection
        self.direction = direction
        self.offset = offset
        self.length = length
        self.pieces = pieces
        self._read = read
        self._data: bytes | None = None
        self._shared: memoryview | None = None
        self.ahead: Any = None

    @property
    def data(self) -> bytes:
        """The bytes, `length` of them. Ask while the files are open."""
        if self._data is None:
            self._data = self.after(b"")
        return self._data

    def after(self, before: bytes) -> bytes:
        """`before` and then the bytes. Ask while the files are open."""
        if self._data is not None:
            return before + self._data
        if self._shared is not None:
            return b"".join((before, self._shared))
        return self._read(self.pieces, before)

    def share(self, memory: memoryview) -> None:
        """The bytes lie in `memory` until `let_go`."""
        self._shared = memory

    def let_go(self) -> None:
        """`memory` is used for something else from now on."""
        if self._shared is not None:
            self._shared.release()
            self._shared = None

    @property
    def arrival(self) -> int:
        """The frame that made the first byte deliverable."""
        return int(self.pieces.arrival[0])

    def __repr__(self) -> str:
        return f"Chunk({self.connection}, {self.direction}, {self.offset}, {self.length} bytes)"


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are not in the capture. frame: holds the first byte after them, or proves the loss."""

    connection: int
    direction: int
    offset: int
    length: int
    frame: int
    arrival: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a direction. offset: its length. kind: "fin", "rst" (either side reset), "new" (a SYN
    began another connection on the same addresses), "capture" (the capture ends first). frame: the one
    that says so. Hostile or reordered traffic can send more bytes after it; they still come."""

    connection: int
    direction: int
    offset: int
    kind: str
    frame: int
    arrival: int


Event = Chunk | Gap | End


@dataclass(frozen=True, slots=True)
class StreamFinding:
    """A finding about stream bytes offset..offset+length.

    frame: where it shows; first_frame: the other frame concerned, 0 if none. first, other: the bytes
    of the first copy and of the later one (at most SHOWN bytes of each).
    """

    finding: Finding
    connection: int
    direction: int
    offset: int
    length: int
    frame: int
    first_frame: int = 0
    first: bytes = b""
    other: bytes = b""


@dataclass(slots=True)
class StreamBatch:
    """What frames first..last brought, see the package's description of the order."""

    first: int
    last: int
    events: list[Event] = field(default_factory=list)
    findings: list[StreamFinding] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
