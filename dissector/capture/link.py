"""Frames to TCP segments, in columns; payload bytes stay where they are.

The walk reads what it knows in arrays. What it does not know (rare link types, L2TP, GTP-U, ...) goes
frame by frame to scapy (slow.py), which says where the innermost IP header begins; fragments are put
together (fragments.py). Both come back as rows of the same columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dissector.capture.files import CaptureFiles, FrameBatch
from dissector.capture.fragments import Datagram, Fragments
from dissector.capture.frames import FILE_SHIFT, OFFSET, Array, Columns, distinct
from dissector.capture.sources import Source, overlapping
from dissector.capture.walk import (
    CUT,
    FRAGMENT4,
    FRAGMENT6,
    IP,
    LINK,
    OTHER,
    TCP_FOUND,
    UNKNOWN,
    Walk,
)

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


class Segments(NamedTuple):
    """TCP segments in capture order, one row each.

    frame u4 (1-based, holds the bytes), arrival u4 (the frame that made the segment complete: another
    one only for fragments), time i8 (ns, of `frame`), record i8 and position i8 (of the frame's record
    and of the payload in the files), length i8 (captured payload bytes), wire i8 (payload bytes sent),
    seq and ack i8 (0..2**32-1), flags i8 (FIN 1, SYN 2, RST 4, PSH 8, ACK 16), version i8 (4 or 6),
    src_high, src_low, dst_high, dst_low u8 (addresses; high is 0 for IPv4), sport and dport i8.
    """

    frame: Array
    arrival: Array
    time: Array
    record: Array
    position: Array
    length: Array
    wire: Array
    seq: Array
    ack: Array
    flags: Array
    version: Array
    src_high: Array
    src_low: Array
    dst_high: Array
    dst_low: Array
    sport: Array
    dport: Array

    def rows(self, which: Array | slice) -> Segments:
        """The rows that an index array, mask or slice picks."""
        return Segments(*(column[which] for column in self))


@dataclass(slots=True)
class LinkStats:
    """Counts of frames. cut: the snap length took bytes of them; broken: they end inside a header
    though nothing was cut; other: no TCP in them; unknown: by link type that nothing understands;
    slow: went through scapy; lost_fragments: pieces of datagrams that never became complete."""

    packets: int = 0
    tcp: int = 0
    cut: int = 0
    broken: int = 0
    other: int = 0
    slow: int = 0
    lost_fragments: int = 0
    unknown: Counter[int] = field(default_factory=Counter)


class Scratch:
    """Bytes in memory (a datagram put together) as a buffer to walk."""

    def __init__(self, data: bytes) -> None:
        self.u1 = np.frombuffer(data, np.uint8)
        self.u2, self.u4, self.u8 = (overlapping(data, len(data), t) for t in (">u2", ">u4", ">u8"))


class Link:
    """Turns the frame batches of `files` into segments. State: unfinished datagrams, counts."""

    def __init__(self, files: CaptureFiles) -> None:
        self.files = files
        self.stats = LinkStats()
        self.fragments = Fragments(files.read)

    def segments(self, batch: FrameBatch) -> Segments:
        """The TCP segments of one batch."""
        columns = batch.columns
        frame = np.arange(batch.first, batch.last + 1, dtype=np.uint32)
        self.stats.packets += len(frame)
        self.stats.cut += int((columns.caplen < columns.wirelen).sum())
        number = columns.record >> FILE_SHIFT
        parts: list[Segments] = []
        if len(number) and (number == number[0]).all():
            parts += self._source(self.files.sources[int(number[0])], frame, columns)
        else:
            for each in distinct(number).tolist():
                mine = number == each
                parts += self._source(self.files.sources[each], frame[mine], columns.rows(mine))
        return self._counted(parts)

    def finish(self, last: int) -> Segments:
        """After the last batch: what can be used of datagrams that never became complete."""
        parts: list[Segments] = []
        for datagram in self.fragments.rest():
            parts += self._assembled(datagram, last)
        return self._counted(parts)

    def _counted(self, parts: list[Segments]) -> Segments:
        parts = [part for part in parts if len(part.frame)]
        if not parts:
            return _no_segments()
        result = parts[0]
        if len(parts) > 1:
            result = Segments(*(np.concatenate(c) for c in zip(*parts, strict=True)))
            result = result.rows(np.argsort(result.arrival, kind="stable"))
        self.stats.tcp += len(result.frame)
        return result

    def _source(self, source: Source, frame: Array, columns: Columns) -> list[Segments]:
        links = np.array([face.linktype for face in self.files.interfaces], np.int64)
        start = columns.offset & OFFSET
        end = start + columns.caplen
        code = links[columns.interface] | LINK
        walk = Walk(source, start, end, start + columns.wirelen, code)
        walk.run()
        parts = [_tcp(source, walk, frame, frame, columns)]
        found = int((walk.code == TCP_FOUND).sum())
        self.stats.broken += found - len(parts[0].frame)
        if found < len(frame):
            parts += self._odd(source, walk, start, code, frame, columns)
        return parts

    def _odd(
        self,
        source: Source,
        walk: Walk,
        start: Array,
        link: Array,
        frame: Array,
        columns: Columns,
        slow: bool = True,
    ) -> list[Segments]:
        """Everything in which the walk did not come to a TCP header. slow: scapy may still help."""
        parts: list[Segments] = []
        code = walk.code
        unknown = np.flatnonzero(code == UNKNOWN)
        if not slow:
            self.stats.other += len(unknown)
        elif len(unknown):
            from dissector.capture.slow import innermost_ip

            again, kinds = [], []
            for i in unknown.tolist():
                self.stats.slow += 1
                offset, size = int(start[i]), int(columns.caplen[i])
                raw = bytes(source.view[offset : offset + size])
                linktype = int(link[i]) & 0xFFFF
                found = innermost_ip(raw, linktype, int(walk.cur[i]) - offset)
                if found is not None:
                    walk.cur[i] = offset + found[0]
                    again.append(i)
                    kinds.append(IP | (4 if found[1] == 4 else 41))
                elif int(walk.cur[i]) == offset:
                    self.stats.unknown[linktype] += 1
                else:
                    self.stats.other += 1
            if again:
                rows = np.array(again)
                end, wire = start[rows] + columns.caplen[rows], start[rows] + columns.wirelen[rows]
                inner = Walk(source, walk.cur[rows], end, wire, np.array(kinds, np.int64))
                inner.run()
                few = columns.rows(rows)
                parts.append(_tcp(source, inner, frame[rows], frame[rows], few))
                parts += self._odd(source, inner, start[rows], link[rows], frame[rows], few, False)
        pieces = np.flatnonzero((code == FRAGMENT4) | (code == FRAGMENT6))
        for i in pieces.tolist():
            for datagram in self.fragments.add(walk, i, int(frame[i]), source.base, columns):
                parts += self._assembled(datagram, int(frame[i]))
        ended = code == CUT
        whole = columns.caplen >= columns.wirelen
        self.stats.broken += int((ended & whole).sum())
        self.stats.other += int((code == OTHER).sum())
        return parts

    def _assembled(self, datagram: Datagram, arrival: int) -> list[Segments]:
        """Segments of one datagram: one for each piece, since its bytes lie in several frames."""
        data = datagram.bytes(self.files.read)
        size = np.array([len(data)])
        scratch = Scratch(data)
        walk = Walk(scratch, np.zeros(1, np.int64), size, size, np.array([IP | datagram.protocol]))
        walk.version[:] = datagram.version
        for name, value in zip(_ADDRESSES, datagram.addresses, strict=True):
            getattr(walk, name)[:] = value
        walk.run()
        if int(walk.code[0]) != TCP_FOUND:
            self.stats.other += 1
            return []
        one = np.zeros(1, np.int64)
        whole = _tcp(scratch, walk, one, one, Columns(one, one, one, one, one, one))
        if not len(whole.frame):
            return []
        rows: list[Segments] = []
        begin = int(whole.position[0])
        stop = begin + int(whole.wire[0])
        syn = int(whole.flags[0]) & SYN
        for piece in datagram.pieces:
            low, high = max(begin, piece.start), min(stop, piece.stop)
            if low > high or (low == high and rows):
                continue
            first, last = not rows, high == stop
            shift = low - begin
            flags = int(whole.flags[0]) & ~(0 if first else SYN) & ~(0 if last else FIN)
            seq = int(whole.seq[0]) + shift + (1 if syn and not first else 0)
            rows.append(
                whole._replace(
                    frame=np.array([piece.frame], np.uint32),
                    arrival=np.array([arrival], np.uint32),
                    time=np.array([piece.time]),
                    record=np.array([piece.record]),
                    position=np.array([piece.position + low - piece.start]),
                    length=np.array([max(0, min(high, piece.start + piece.captured) - low)]),
                    wire=np.array([high - low]),
                    seq=np.array([seq & 0xFFFFFFFF]),
                    flags=np.array([flags]),
                )
            )
        return rows


_ADDRESSES = ("src_high", "src_low", "dst_high", "dst_low")


def _tcp(
    data: Source | Scratch, walk: Walk, frame: Array, arrival: Array, columns: Columns
) -> Segments:
    """The rows whose walk ended at a TCP header."""
    found = walk.code == TCP_FOUND
    rows = slice(None) if found.all() else np.flatnonzero(found)
    at = walk.cur[rows]
    u1, u4 = data.u1, data.u4
    ports = u4[at].astype(np.int64)
    payload = at + (u1[at + 12].astype(np.int64) >> 4) * 4
    base = data.base if isinstance(data, Source) else 0
    result = Segments(
        frame[rows],
        arrival[rows],
        columns.time[rows],
        columns.record[rows],
        payload | base,
        np.maximum(walk.end[rows] - payload, 0),
        walk.wire[rows] - payload,
        u4[at + 4].astype(np.int64),
        u4[at + 8].astype(np.int64),
        u1[at + 13].astype(np.int64),
        walk.version[rows],
        walk.src_high[rows],
        walk.src_low[rows],
        walk.dst_high[rows],
        walk.dst_low[rows],
        ports >> 16,
        ports & 0xFFFF,
    )
    sound = result.wire >= 0  # else the header claims to be longer than the packet
    return result if sound.all() else result.rows(sound)


def _no_segments() -> Segments:
    kinds = ["u4"] * 2 + ["i8"] * 8 + ["u1"] + ["u8"] * 4 + ["i8"] * 2
    return Segments(*[np.zeros(0, kind) for kind in kinds])
