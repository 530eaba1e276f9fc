"""Whole messages for people who live in scapy: ``sniff(offline="x.pcap", session=PostgresSession)``.

scapy hands a session one packet at a time, so this module puts the segments of a connection in order
itself; roles, framing and state are those of the whole program (`dissector.framing`). What is missing
is a gap, never zeros, and frames longer than scapy's usual 65,535 bytes are read whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import NoPayload, Packet, Padding
from scapy.sessions import IPSession
from scapy.utils import EDecimal

from dissector import catalogue
from dissector.layers.envelope import UnknownMessage
from dissector.layers.packets import CLASSES

FRAME_LIMIT = 1 << 20
"""Bytes asked of scapy's readers for one frame; they cut at 65,535 unless told."""

WINDOW = 1 << 20
"""Bytes that wait for what is missing before them; then it is a gap."""

SEGMENTS = 500
"""The same in segments."""

HELD = 1000
"""Packets that are kept while it is not known whether a connection is PostgreSQL."""

SECOND = 10**9
LARGEST_IP = 0xFFFF
"""An IPv4 packet's length field ends here; offloading captures write 0 for longer ones."""


@dataclass(slots=True, order=True)
class _Piece:
    offset: int
    data: bytes = field(compare=False)
    frame: int = field(compare=False)
    time: int = field(compare=False)


class _Way:
    """One direction of a connection: its bytes in order, and what no message has taken yet."""

    def __init__(self, sender: tuple[Any, int]) -> None:
        self.sender = sender
        self.first: int | None = None
        self.next = 0
        self.waiting: list[_Piece] = []
        self.held = 0
        self.kept: list[_Piece] = []
        self.text: list[tuple[int, bytes, int, tuple[int, ...]]] = []
        self.last: Packet | None = None

    def add(self, seq: int, data: bytes, frame: int, time: int) -> None:
        """Take a segment; `seq` is the number in its header, which wraps every 4 GiB."""
        assert self.first is not None
        ahead = (seq - self.first - self.next + (1 << 31)) % (1 << 32) - (1 << 31)
        heapq.heappush(self.waiting, _Piece(self.next + ahead, data, frame, time))
        self.held += len(data)

    def ready(self) -> list[_Piece]:
        """The pieces that come next in the stream; bytes that came twice are dropped."""
        found = []
        while self.waiting and self.waiting[0].offset <= self.next:
            piece = heapq.heappop(self.waiting)
            self.held -= len(piece.data)
            data = piece.data[self.next - piece.offset :]
            if data:
                found.append(_Piece(self.next, data, piece.frame, piece.time))
                self.next += len(data)
        self.kept += found
        return found

    def skip(self) -> int:
        """Give up what is missing before the first piece that waits: how many bytes those are."""
        missing = self.waiting[0].offset - self.next
        self.next += missing
        return missing

    def peek(self, start: int, length: int) -> tuple[bytes, tuple[int, ...]]:
        """The bytes of a stream range as far as they are there, and the frames that hold them."""
        stop = start + length
        parts, frames = [], []
        for piece in self.kept:
            if piece.offset < stop and piece.offset + len(piece.data) > start:
                parts.append(piece.data[max(start - piece.offset, 0) : stop - piece.offset])
                frames.append(piece.frame)
        return b"".join(parts), tuple(dict.fromkeys(frames))

    def opened(self, text: Any) -> None:
        """Plain text out of TLS records (`dissector.plaintext.PlainText`) and where they lie."""
        at = 0
        for offset, length, start, end in zip(
            text.offset, text.length, text.start, text.end, strict=True
        ):
            frames = self.peek(start, end - start)[1]
            self.text.append((offset, text.data[at : at + length], start, frames))
            at += length

    def plain(self, start: int, length: int) -> tuple[int, bytes, tuple[int, ...]]:
        """The bytes of a message in plain text, with the stream offset of its first record and the
        frames of all of them. What stands before it is forgotten."""
        while len(self.text) > 1 and self.text[1][0] <= start:
            del self.text[0]
        stop, first = start + length, -1
        parts: list[bytes] = []
        frames: list[int] = []
        for offset, data, record, held in self.text:
            if offset < stop and offset + len(data) > start:
                first = record if first < 0 else first
                parts.append(data[max(start - offset, 0) : stop - offset])
                frames += held
        return max(first, 0), b"".join(parts), tuple(dict.fromkeys(frames))

    def forget(self, offset: int) -> None:
        """Everything before stream offset `offset` has been taken."""
        done = 0
        while done < len(self.kept) and (
            self.kept[done].offset + len(self.kept[done].data) <= offset
        ):
            done += 1
        del self.kept[:done]


class _Flow:
    """One TCP connection."""

    def __init__(self, number: int, one: tuple[Any, int], other: tuple[Any, int]) -> None:
        self.number = number
        self.ways = (_Way(one), _Way(other))
        self.client: int | None = None
        self.framer: Any = None
        self.held: list[Packet] = []


def _addresses(tcp: Packet | None) -> Packet | None:
    """The IP header of a segment; extension headers may stand between."""
    while tcp is not None and not isinstance(tcp, IP | IPv6):
        tcp = tcp.underlayer
    return tcp


class PostgresSession(IPSession):
    """A scapy session that yields one packet for each PostgreSQL message.

    The packet has the headers of the frame in which the message ended, with the sequence number of the
    message's first byte, and then the message down to the pgoutput layer. `frames` are the numbers of
    all frames that hold it, from 1 in order of arrival; `sender` is "F" or "B"; `time` is that of the
    frame in which it ended; `context` what the session knows (`dissector.session.Context`); `findings`
    what is wrong with it, such as bytes that are missing before it.

    Packets that are not PostgreSQL pass unchanged; so do both sides of a connection that turns out to
    be something else. Segments without a message of their own (handshake, acknowledgements) do not.
    TLS comes as TLSRecord packets, and as messages where `keylog`, the path of an NSS key log, opens it:
    ``sniff(offline="x.pcap", session=PostgresSession(keylog="x.keylog"))``.
    assumptions: `dissector.session.Assumptions` for connections whose start is not in the capture.
    """

    def __init__(
        self, *args: Any, assumptions: Any = None, keylog: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        # Here, not above: the upper half of the program may import this package, not the reverse.
        from dissector import capture, framing, rows, schemas, session, tls

        self._capture = capture
        self._framer = framing.Framer
        self._keylog = tls.load_keylog(keylog) if keylog else None
        self._decrypted = rows.DECRYPTED
        self._tables = schemas.Tables()
        self._assumptions = assumptions or session.Assumptions()
        self._flows: dict[Any, _Flow] = {}
        self._connections = 0
        self._frame = 0

    def recv(self, sock: Any) -> Iterator[Packet]:
        """Read one packet from `sock`; yield what it completes. At the end, what is still open."""
        try:
            pkt = sock.recv(FRAME_LIMIT, stop_dissection_after=TCP)
        except EOFError:
            yield from self.finish()
            raise
        if pkt is None:
            return
        self._frame += 1
        pkt = self.process(pkt)  # IP fragments are put together
        if pkt is not None:
            yield from self.messages(pkt)

    def finish(self) -> Iterator[Packet]:
        """The messages that end with the capture: nothing more will come."""
        for flow in list(self._flows.values()):
            yield from self._end(flow)
        self._flows.clear()

    def messages(self, pkt: Packet) -> Iterator[Packet]:
        """The packets that `pkt` completes."""
        tcp = pkt.getlayer(TCP)
        ip = _addresses(tcp)
        if ip is None:
            yield pkt
            return
        one, other = (ip.src, tcp.sport), (ip.dst, tcp.dport)
        key = (one, other) if one <= other else (other, one)
        flow = self._flows.get(key)
        starts = bool(tcp.flags.S) and not tcp.flags.A
        if flow is not None and starts and self._used(flow, one, tcp.seq):
            yield from self._end(flow)
            flow = None
        if flow is None:
            flow = self._flows[key] = _Flow(self._connections, one, other)
            self._connections += 1
        if flow.framer is not None and flow.framer.foreign:
            yield pkt
            return
        physical = 0 if flow.ways[0].sender == one else 1
        way = flow.ways[physical]
        data = b"" if isinstance(tcp.payload, NoPayload | Padding) else tcp.payload.original
        if tcp.flags.S:
            way.first = (tcp.seq + 1) % (1 << 32)
            flow.client = physical if starts else 1 - physical
        elif way.first is None:
            way.first = tcp.seq
        if data:
            way.last = pkt
            way.add(tcp.seq + bool(tcp.flags.S), data, self._frame, int(pkt.time * SECOND))
        self._hold(flow, pkt)
        late = way.held > WINDOW or len(way.waiting) > SEGMENTS
        yield from self._deliver(flow, physical, late)

    def _used(self, flow: _Flow, sender: tuple[Any, int], seq: int) -> bool:
        """A SYN for a pair that has been used, and not the same SYN again: a new connection."""
        way = next(each for each in flow.ways if each.sender == sender)
        return way.first is not None and way.first != (seq + 1) % (1 << 32)

    def _hold(self, flow: _Flow, pkt: Packet) -> None:
        if (flow.framer is None or not flow.framer.decided) and len(flow.held) < HELD:
            flow.held.append(pkt)

    def _deliver(
        self, flow: _Flow, physical: int, skip: bool, final: bool = False
    ) -> Iterator[Any]:
        way = flow.ways[physical]
        pieces = way.ready()
        if not (pieces or skip or final):
            return
        if flow.framer is None:
            ports = (flow.ways[0].sender[1], flow.ways[1].sender[1])
            flow.framer = self._framer(
                self._tables, self._assumptions, flow.client, ports, self._keylog
            )
            flow.framer.fast = False  # one message at a time
        framer = flow.framer
        while pieces or (skip and way.waiting):
            for piece in pieces:
                framer.feed(self._chunk(flow, physical, piece))
            pieces = []
            if skip and way.waiting:
                start, missing = way.next, way.skip()
                after = way.waiting[0].frame
                framer.feed(
                    self._capture.Gap(flow.number, physical, start, missing, after, self._frame)
                )
                skip = final
                pieces = way.ready()
        yield from self._framed(flow, final)

    def _chunk(self, flow: _Flow, physical: int, piece: _Piece) -> Any:
        import numpy as np

        def column(value: int, dtype: Any = np.int64) -> Any:
            return np.array([value], dtype)

        pieces = self._capture.Pieces(
            offset=column(piece.offset),
            length=column(len(piece.data)),
            position=column(0),
            frame=column(piece.frame, np.uint32),
            arrival=column(self._frame, np.uint32),
            time=column(piece.time),
            record=column(0),
        )
        data = piece.data
        return self._capture.Chunk(
            flow.number, physical, piece.offset, len(data), pieces, lambda _, before: before + data
        )

    def _framed(self, flow: _Flow, final: bool) -> Iterator[Packet]:
        framer = flow.framer
        for framed in framer.messages(final):
            for text in framer.plain():
                flow.ways[text.physical].opened(text)
            yield self._packet(flow, framed)
        if framer.foreign:
            yield from flow.held
            flow.held = []
        elif framer.decided:
            flow.held = []
            for way, side in zip(flow.ways, framer.sides, strict=True):
                way.forget(side.offset() - (0 if framer.encrypted is None else WINDOW))

    def _packet(self, flow: _Flow, framed: Any) -> Packet:
        """The message as a packet under the headers of its last frame."""
        client = flow.framer.client
        frontend = framed.direction == 0
        way = flow.ways[client if frontend else 1 - client]
        if framed.flags & self._decrypted:
            start, data, frames = way.plain(framed.offset, framed.length)
        else:
            start = framed.offset
            data, frames = way.peek(start, framed.length)
        dialect = framed.context.dialect
        layer = "frontend" if frontend else "backend"
        message = catalogue.lookup_bytes(layer, data, 0, dialect)
        cls = UnknownMessage if message is None else CLASSES[message.name]
        one = cls(data, dialect=dialect)
        one.sender, one.context = "F" if frontend else "B", framed.context
        one.frames = frames or (framed.frame,)
        one.findings = tuple(framed.found)
        one.time = EDecimal(framed.time) / SECOND
        return self._under(way, start, one, len(data))

    @staticmethod
    def _under(way: _Way, start: int, one: Packet, size: int) -> Packet:
        """`one` as payload of the headers; lengths and checksums are computed when it is built."""
        assert way.last is not None and way.first is not None
        pkt = way.last.copy()
        tcp = pkt[TCP]
        tcp.remove_payload()
        tcp.seq = (way.first + start) % (1 << 32)
        del tcp.chksum
        ip = _addresses(tcp)
        if isinstance(ip, IPv6):
            del ip.plen
        elif ip is not None:
            del ip.len, ip.chksum
            if size + 120 > LARGEST_IP:
                ip.len = tcp.chksum = 0
        tcp.add_payload(one)
        pkt.time = one.time
        pkt.wirelen = None
        return pkt

    def _end(self, flow: _Flow) -> Iterator[Packet]:
        for physical in (0, 1):
            yield from self._deliver(flow, physical, True, physical == 1)
