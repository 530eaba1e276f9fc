"""TLS records out of one direction's byte stream, with gaps, damage, and the way back into step.

A record header is 5 bytes and nothing marks its beginning, so after a gap a place that looks like a
header is a guess; the stream proves it by opening the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = 20, 21, 22, 23, 24

HEADER = 5
MAX_BODY = 16384 + 2048
"""The longest body that TLS 1.2 allows; 1.3 allows less (16384 + 256)."""

SMALLEST = HEADER + 17
"""The shortest protected record that any suite makes: bounds how many a gap can have held."""

_CANDIDATE = re.compile(rb"(?=[\x14-\x18]\x03[\x00-\x04][\x00-\x48])")


class Record(NamedTuple):
    """One record. start, end: its range in the direction's stream, header included.

    missing: bytes between the last record that is sure and this one; 0 when they touch. A record
    with missing > 0 is a guess until it opens.
    """

    kind: int
    version: int
    start: int
    end: int
    body: bytes | memoryview
    missing: int = 0


def plausible(data: bytes | bytearray | memoryview, at: int) -> bool:
    """Whether a record header (5 bytes) can stand at `at`."""
    return (
        CHANGE_CIPHER_SPEC <= data[at] <= HEARTBEAT
        and data[at + 1] == 3
        and data[at + 2] <= 4
        and (data[at + 3] << 8 | data[at + 4]) <= MAX_BODY
    )


class Framer:
    """Cuts one direction's stream into records, incrementally. Keeps one record's bytes at most.

    take(record) -> bool: called for each record; False refuses a guess (record.missing > 0), and the
        search goes on one byte further. Its answer is not asked for a record that touches the last.
    lost(kind, start, end): a record whose header is known but not all of its body; it is passed by.
    damaged(offset, first bytes): no record header where one must be; a search begins.
    """

    def __init__(
        self,
        take: Callable[[Record], bool],
        lost: Callable[[int, int, int], None],
        damaged: Callable[[int, bytes], None],
    ) -> None:
        self._take, self._lost, self._damaged = take, lost, damaged
        self._buffer = bytearray()
        self._start: int | None = None  # stream offset of the buffer's first byte
        self._skip_to = 0  # the buffer begins no earlier: end of a record that is lost
        self._need = HEADER  # bytes that the buffer must hold before anything can be done
        self._missing = 0  # > 0: searching

    @property
    def position(self) -> int | None:
        """The stream offset that comes next; None before the first bytes."""
        return None if self._start is None else self._start + len(self._buffer)

    @property
    def searching(self) -> bool:
        """Whether the stream is out of step with the records."""
        return self._missing > 0

    @property
    def waiting(self) -> tuple[int, int]:
        """(bytes held of a record that is not complete, bytes that it needs); (0, 0) for none."""
        if self._start is not None and self._skip_to > self._start:
            return 0, self._skip_to - self._start
        return (len(self._buffer), self._need) if self._buffer else (0, 0)

    def feed(self, offset: int, data: bytes) -> None:
        """The next bytes; `offset` is `position` (the stream sees to it)."""
        if self._start is None:
            self._start = offset
        if self._skip_to > self._start:
            passed = min(len(data), self._skip_to - self._start)
            self._start += passed
            data = data[passed:]
        if not self._buffer:
            self._run(data)  # the common case copies nothing but the end
            return
        self._buffer += data
        if len(self._buffer) >= self._need:
            self._run(bytes(self._buffer))

    def gap(self, offset: int, length: int) -> None:
        """`length` bytes from `offset` (= `position`) on are not there."""
        after = offset + length
        if self._start is None:
            self._start, self._missing = after, length
            return
        held = len(self._buffer)
        if not self._missing and self._skip_to <= self._start:
            known = held >= HEADER and plausible(self._buffer, 0)
            end = self._start + HEADER + int.from_bytes(self._buffer[3:5], "big") if known else 0
            if known and end >= after:
                self._lost(self._buffer[0], self._start, end)
                self._skip_to = end
            else:
                self._missing = held + length
        elif self._missing:
            self._missing += held + length
        elif after > self._skip_to:
            self._missing = after - self._skip_to
        self._buffer.clear()
        self._start, self._need = after, HEADER

    def finish(self) -> None:
        """No more bytes come: a guess that waits for its end does not stand in the way any more."""
        if self._missing and self._buffer:
            self._run(bytes(self._buffer), final=True)

    def _run(self, data: bytes, final: bool = False) -> None:
        view = memoryview(data)
        base = self._start or 0
        at, size = 0, len(data)
        while True:
            if self._missing:
                at, found = self._search(view, data, at, base, final)
                if not found:
                    break
                continue
            if size - at < HEADER:
                self._need = HEADER
                break
            if not plausible(data, at):
                self._damaged(base + at, data[at : at + 16])
                self._missing = 1
                at += 1
                continue
            end = at + HEADER + (data[at + 3] << 8 | data[at + 4])
            if end > size:
                self._need = end - at
                break
            self._take(self._record(view, at, end, base))
            at = end
        self._start = base + at
        self._buffer = bytearray(view[at:])

    def _record(self, view: memoryview, at: int, end: int, base: int) -> Record:
        version = view[at + 1] << 8 | view[at + 2]
        body = view[at + HEADER : end]
        return Record(view[at], version, base + at, base + end, body, self._missing)

    def _search(
        self, view: memoryview, data: bytes, at: int, base: int, final: bool
    ) -> tuple[int, bool]:
        """Try each place from `at` on that looks like a header: (where to go on, in step again)."""
        size = len(data)
        for match in _CANDIDATE.finditer(data, at):
            here = match.start()
            if here + HEADER > size or not plausible(data, here):
                continue
            end = here + HEADER + (data[here + 3] << 8 | data[here + 4])
            if end > size:
                if final:
                    continue
                self._missing += here - at
                self._need = end - here
                return here, False
            if size - end >= HEADER and not plausible(data, end):
                continue
            self._missing += here - at
            at = here
            if self._take(self._record(view, here, end, base)):
                self._missing, self._need = 0, HEADER
                return end, True
        keep = max(at, size - HEADER + 1)
        self._missing += keep - at
        self._need = HEADER
        return keep, False
