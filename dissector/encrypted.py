"""TLS of one connection: records in, plain text to a second framer, rows for what stays closed.

The bytes that follow the server's 'S' (or open a connection with direct TLS) are cut into records. What a
record holds goes, where the key log has the keys, into a `Framer` of its own as if TCP had carried
it: the same messages, the same session. Every other record is a row ``TLSRecord``, so that all bytes
of the connection are accounted for. Sources: the manual's "SSL Session Encryption"; RFC 8446.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .capture import Chunk, Gap, Pieces
from .findings import Finding, finding
from .plaintext import PlainText
from .rows import DIRECTIONS
from .tls import Chunk as Opened
from .tls import KeyLog, TLSStream
from .tls.records import ALERT, HANDSHAKE, HEADER, Record, plausible
from .tls.state import Side as TLSSide

if TYPE_CHECKING:
    from .framing import Framer
    from .sides import Side

SEARCH = 1 << 16
"""Bytes in the clear that are kept while the first TLS record is looked for."""


class Place(NamedTuple):
    """Where a record was complete: see `sides.Side.place`."""

    arrival: int
    frame: int
    time: int


class Closed(NamedTuple):
    """A record without plain text for the second framer, or bytes that are no record at all."""

    physical: int
    state: str
    start: int
    data: bytes
    place: Place
    found: list[Finding]


class _Records(TLSStream):
    """A TLSStream that tells of each record, once it is settled whether it opens."""

    def __init__(self, keylog: KeyLog | None, seen: Callable[[str, Record, bool], None]) -> None:
        super().__init__(keylog)
        self._seen = seen

    def _record(self, side: TLSSide, record: Record) -> bool:
        waits = self._pends(side, record.kind)
        good = super()._record(side, record)
        if good:
            self._seen(side.direction, record, waits)
        return good


class Encrypted:
    """The TLS part of a connection. `take` and `gap` come from the outer framer, for either side."""

    def __init__(self, inner: Framer, client: int, keylog: KeyLog | None) -> None:
        self.inner = inner
        self.client = client
        self.stream = _Records(keylog, self._seen)
        self.found: list[Finding] = []
        self.texts: dict[int, PlainText] = {}
        self._bytes = (bytearray(), bytearray())
        self._next: dict[int, int] = {}
        self._begun = [False, False]
        self._clear = [b"", b""]
        self._side: Side | None = None
        self._records: dict[tuple[int, int], tuple[Record, Place]] = {}
        self._waiting: set[tuple[int, int]] = set()
        self._settled: list[tuple[int, int]] = []
        self._told = 0

    # -- what comes in

    @staticmethod
    def whole(side: Side) -> int:
        """Bytes of the record at the cursor of `side`, 0 while it is not complete; all that is there
        where no record can be."""
        left = side.left()
        if left < HEADER:
            return 0
        if not plausible(side.buffer, side.at):
            return left
        size = HEADER + int.from_bytes(side.buffer[side.at + 3 : side.at + HEADER], "big")
        return size if size <= left else 0

    def take(self, side: Side, size: int) -> Iterator[Closed]:
        """Take `size` bytes at the cursor of `side`."""
        data, offset = side.buffer[side.at : side.at + size], side.offset()
        self._next.setdefault(side.physical, offset)
        if not self._begun[side.physical]:
            data, offset, early = self._beginning(side, data, offset)
            yield from early
        side.at += size
        side.consumed += size
        if data:
            self._side = side
            yield from self._settle(self.stream.feed(self._letter(side.physical), offset, data))

    def gap(self, side: Side, gap: Gap) -> Iterator[Closed]:
        """Bytes of `side` are not in the capture; what is in its buffer came before them."""
        yield from self.take(side, side.left())
        self._begun[side.physical] = True
        self._next.setdefault(side.physical, gap.offset)
        self._side = side
        letter = self._letter(side.physical)
        yield from self._settle(self.stream.gap(letter, gap.offset, gap.length))

    def finish(self, sides: tuple[Side, Side]) -> Iterator[Closed]:
        """Both streams have ended."""
        for side in sides:
            yield from self.take(side, side.left())
            if self._clear[side.physical] and not self._begun[side.physical]:
                yield self._unencrypted(side, self._clear[side.physical], side.offset())
        yield from self._settle(self.stream.finish())
        for key in sorted(self._waiting):
            yield self._closed(key, [])
        self._waiting.clear()

    def plain(self) -> list[PlainText]:
        """The plain text since the last call."""
        texts, self.texts = list(self.texts.values()), {}
        for text in texts:
            text.data = bytes(self._bytes[text.physical])
            self._bytes[text.physical].clear()
        return texts

    def facts(self) -> dict[str, str]:
        """What the handshake told, for the session's header."""
        found: dict[str, str] = {}
        for label, text in self.stream.facts.lines():
            name = label if label.lower().startswith("tls") else f"TLS {label}"
            found[name] = f"{found[name]}; {text}" if name in found else text
        return found

    # -- bytes in the clear

    def _beginning(self, side: Side, data: bytes, offset: int) -> tuple[bytes, int, list[Closed]]:
        """The first bytes must be a record's: what stands before one was slipped in."""
        kept = self._clear[side.physical] + data
        start = offset - len(self._clear[side.physical])
        at = next(
            (i for i in range(len(kept) - HEADER + 1)
             if plausible(kept, i) and (kept[i] == HANDSHAKE or (i == 0 and kept[i] == ALERT))),
            -1,
        )  # fmt: skip
        if at < 0 and len(kept) < SEARCH:
            self._clear[side.physical] = kept
            return b"", offset, []
        self._begun[side.physical] = True
        self._clear[side.physical] = b""
        if at < 0:
            return b"", offset, [self._unencrypted(side, kept, start + len(kept))]
        early = [self._unencrypted(side, kept[:at], start + at)] if at else []
        return kept[at:], start + at, early

    def _unencrypted(self, side: Side, data: bytes, end: int) -> Closed:
        who = "client" if side.physical == self.client else "server"
        note = finding("not-encrypted", 0, bytes=len(data), side=who)
        return Closed(
            side.physical, "unencrypted", end - len(data), data, Place(*side.place(end)), [note]
        )

    # -- records

    def _letter(self, physical: int) -> str:
        return DIRECTIONS[0 if physical == self.client else 1]

    def _physical(self, letter: str) -> int:
        return self.client if letter == DIRECTIONS[0] else 1 - self.client

    def _seen(self, letter: str, record: Record, waits: bool) -> None:
        key = (self._physical(letter), record.start)
        if key not in self._records:
            assert self._side is not None
            place = Place(*self._side.place(record.end))
            kept = record._replace(body=bytes(record.body))
            self._records[key] = (kept, place)
        if waits:
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
            self._settled.append(key)

    def _settle(self, chunks: list[Opened]) -> Iterator[Closed]:
        """Plain text goes to the second framer, the other records come out as rows."""
        for chunk in chunks:
            physical = self._physical(chunk.direction)
            if chunk.lost:
                self._lost(physical, chunk)
                continue
            _, place = self._records.pop((physical, chunk.start))
            self._open(physical, chunk, place)
        news = self.stream.findings[self._told :]
        self._told = len(self.stream.findings)
        settled, self._settled = self._settled, []
        for key in settled:
            if key not in self._records:  # opened
                continue
            mine = [n for n in news if (self._physical(n.direction), n.offset) == key]
            news = [n for n in news if n not in mine]
            yield self._closed(key, [n.finding for n in mine])
        self.found += [n.finding for n in news]

    def _open(self, physical: int, chunk: Opened, place: Place) -> None:
        offset, size = self._next[physical], len(chunk.data)
        text = self.texts.setdefault(physical, PlainText(-1, physical))
        text.offset.append(offset)
        text.length.append(size)
        text.start.append(chunk.start)
        text.end.append(chunk.end)
        self._bytes[physical].extend(chunk.data)
        pieces = Pieces(
            np.array([offset]), np.array([size], np.uint32), np.zeros(1, np.int64),
            np.array([place.frame], np.uint32), np.array([place.arrival], np.uint32),
            np.array([place.time]), np.zeros(1, np.int64),
        )  # fmt: skip
        data = chunk.data
        self.inner.feed(Chunk(-1, physical, offset, size, pieces, lambda _, before: before + data))
        self._next[physical] = offset + size

    def _lost(self, physical: int, chunk: Opened) -> None:
        offset, size = self._next[physical], max(chunk.end - chunk.start, 1)
        # frame 0: how long the plain text was is not known, `size` only keeps offsets apart
        self.inner.feed(Gap(-1, physical, offset, size, 0, 0))
        self._next[physical] = offset + size

    def _closed(self, key: tuple[int, int], found: list[Finding]) -> Closed:
        record, place = self._records.pop(key)
        header = bytes((record.kind, record.version >> 8, record.version & 255))
        data = header + len(record.body).to_bytes(2, "big") + record.body
        return Closed(key[0], "tls", record.start, data, place, found)
