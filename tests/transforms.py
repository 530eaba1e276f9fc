"""Captures made for tests: packets read from shipped files, changed, and written in any format.

Nothing here uses the code under test: reading and writing is plain struct. A `Packet` is one TCP segment
with its capture time; whatever is done to a list of them, what each side sent stays known.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "captures"
MASK = 0xFFFFFFFF
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Packet:
    """One TCP segment. time: ns. src and dst: 4 or 16 bytes. missing: bytes cut off the payload."""

    time: int
    src: bytes
    dst: bytes
    sport: int
    dport: int
    seq: int
    ack: int
    flags: int
    payload: bytes
    missing: int = 0

    @property
    def flow(self) -> tuple[bytes, int, bytes, int]:
        """Who sends to whom."""
        return self.src, self.sport, self.dst, self.dport

    @property
    def end(self) -> int:
        """The sequence number after it."""
        more = bool(self.flags & SYN) + bool(self.flags & FIN)
        return (self.seq + len(self.payload) + self.missing + more) & MASK


# reading


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """(ns, link type, frame) of a pcap or single-section little-endian pcapng file."""
    data = path.read_bytes()
    result = []
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        links, units, pos = [], [], 0
        while pos < len(data):
            kind, length = struct.unpack_from("<II", data, pos)
            if kind == 1:
                links.append(struct.unpack_from("<H", data, pos + 8)[0])
                unit, at = 1000, pos + 16
                while at + 4 < pos + length - 4:
                    code, size = struct.unpack_from("<HH", data, at)
                    if code == 9:
                        unit = 10 ** (9 - data[at + 4])
                    at += 4 + (size + 3) // 4 * 4
                units.append(unit)
            elif kind == 6:
                face, high, low, size = struct.unpack_from("<IIII", data, pos + 8)
                time = (high << 32 | low) * units[face]
                result.append((time, links[face], data[pos + 28 : pos + 28 + size]))
            pos += length
        return result
    unit = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    link = struct.unpack_from("<I", data, 20)[0]
    pos = 24
    while pos < len(data):
        seconds, part, size, _ = struct.unpack_from("<IIII", data, pos)
        result.append((seconds * 10**9 + part * unit, link, data[pos + 16 : pos + 16 + size]))
        pos += 16 + size
    return result


def packets(path: Path) -> list[Packet]:
    """The TCP segments of a shipped capture (Ethernet, SLL or SLL2; no tunnels or fragments)."""
    result = []
    for time, link, frame in records(path):
        skip, at = {1: (14, 12), 113: (16, 14), 276: (20, 0)}[link]
        kind = struct.unpack_from(">H", frame, at)[0]
        ip = frame[skip:]
        if kind == 0x0800 and ip[9] == 6:
            total = struct.unpack_from(">H", ip, 2)[0] or len(ip)
            src, dst, tcp = ip[12:16], ip[16:20], ip[(ip[0] & 15) * 4 : total]
        elif kind == 0x86DD and ip[6] == 6:
            total = struct.unpack_from(">H", ip, 4)[0] or len(ip) - 40
            src, dst, tcp = ip[8:24], ip[24:40], ip[40 : 40 + total]
        else:
            continue
        sport, dport, seq, ack = struct.unpack_from(">HHII", tcp)
        payload = tcp[(tcp[12] >> 4) * 4 :]
        result.append(Packet(time, src, dst, sport, dport, seq, ack, tcp[13], payload))
    return result


def streams(given: Iterable[Packet]) -> dict[tuple[bytes, int, bytes, int], bytes]:
    """Flow -> what it sent, for packets without loss or repetition of other content, with a SYN each."""
    start: dict[tuple[bytes, int, bytes, int], int] = {}
    parts: dict[tuple[bytes, int, bytes, int], dict[int, bytes]] = {}
    given = list(given)
    for packet in given:
        if packet.flags & SYN:
            start[packet.flow] = (packet.seq + 1) & MASK
    for packet in given:
        if packet.payload:
            offset = (packet.seq - start[packet.flow]) & MASK
            kept = parts.setdefault(packet.flow, {})
            if len(packet.payload) > len(kept.get(offset, b"")):
                kept[offset] = packet.payload
    result = {}
    for flow, kept in parts.items():
        data = bytearray()
        for offset in sorted(kept):
            assert offset <= len(data), "the packets given have a hole"
            data[offset : offset + len(kept[offset])] = kept[offset]
        result[flow] = bytes(data)
    return result


def conversation(
    sent: Sequence[tuple[int, bytes]],
    *,
    client: int = 40000,
    server: int = 5432,
    isn: tuple[int, int] = (1000, 9000),
    time: int = 1_700_000_000_000_000_000,
    step: int = 1_000_000,
    handshake: bool = True,
    fin: bool = True,
    version: int = 4,
) -> list[Packet]:
    """A connection in which side 0 (client) or 1 sends each payload, in order, each acknowledged."""
    ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
    if version == 6:
        ends = (b"\xfd" + bytes(14) + b"\1", b"\xfd" + bytes(14) + b"\2")
    ports, seq = (client, server), list(isn)
    result: list[Packet] = []

    def send(side: int, flags: int, payload: bytes = b"") -> None:
        ack = seq[1 - side] & MASK if flags & ACK else 0
        address = ends[side], ends[1 - side], ports[side], ports[1 - side]
        at = time + step * len(result)
        result.append(Packet(at, *address, seq[side] & MASK, ack, flags, payload))
        seq[side] += len(payload) + bool(flags & SYN) + bool(flags & FIN)

    if handshake:
        send(0, SYN)
        send(1, SYN | ACK)
        send(0, ACK)
    else:
        seq = [isn[0] + 1, isn[1] + 1]
    for side, payload in sent:
        send(side, ACK | PSH, payload)
        send(1 - side, ACK)
    if fin:
        send(0, FIN | ACK)
        send(1, FIN | ACK)
        send(0, ACK)
    return result


# changing


def resegmented(given: Sequence[Packet], size: int | Callable[[], int]) -> list[Packet]:
    """The same bytes in segments of `size` bytes (a number or a function that draws one): pieces of a
    packet stay its time apart by a nanosecond each, small packets of one side are not joined."""
    result = []
    for packet in given:
        if not packet.payload:
            result.append(packet)
            continue
        done = 0
        while done < len(packet.payload):
            step = size if isinstance(size, int) else size()
            part = packet.payload[done : done + step]
            flags = packet.flags
            if done + step < len(packet.payload):
                flags &= ~FIN
            seq = (packet.seq + done) & MASK
            time = packet.time + len(result) % 997
            result.append(replace(packet, time=time, payload=part, seq=seq, flags=flags))
            done += len(part)
    return result


def joined(given: Sequence[Packet], size: int) -> list[Packet]:
    """Neighbouring data packets of one side joined into segments of up to `size` bytes."""
    result: list[Packet] = []
    for packet in given:
        last = result[-1] if result else None
        if (
            last
            and last.payload
            and packet.payload
            and packet.flow == last.flow
            and packet.seq == last.end
            and len(last.payload) + len(packet.payload) <= size
        ):
            result[-1] = replace(last, payload=last.payload + packet.payload)
        elif packet.payload or packet.flags & (SYN | FIN | RST):
            result.append(packet)
    return result


def shuffled(given: Sequence[Packet], reach: int, seed: int) -> list[Packet]:
    """Each packet moved by up to `reach` places; SYNs stay in front. Times stay ascending."""
    source = random.Random(seed)
    keys = [
        (-1 if packet.flags & SYN else i + source.uniform(0, reach), i)
        for i, packet in enumerate(given)
    ]
    order = [i for _, i in sorted(keys)]
    return [replace(given[j], time=given[i].time) for i, j in enumerate(order)]


def duplicated(given: Sequence[Packet], share: float, seed: int, later: int = 0) -> list[Packet]:
    """Some packets a second time, right behind or `later` places on."""
    source = random.Random(seed)
    keyed: list[tuple[float, int, Packet]] = []
    for i, packet in enumerate(given):
        keyed.append((i, 0, packet))
        if source.random() < share:
            keyed.append((i + later + 0.5, 1, packet))
    return retimed([packet for _, _, packet in sorted(keyed, key=lambda k: k[:2])])


def overlapped(given: Sequence[Packet], seed: int) -> list[Packet]:
    """Data packets begin some bytes before their place, repeating what was sent before."""
    source = random.Random(seed)
    before: dict[tuple[bytes, int, bytes, int], bytes] = {}
    result = []
    for packet in given:
        tail = before.get(packet.flow, b"")
        if packet.payload:
            before[packet.flow] = (tail + packet.payload)[-300:]
            again = source.randrange(0, len(tail) + 1)
            if again:
                payload = tail[len(tail) - again :] + packet.payload
                packet = replace(packet, payload=payload, seq=(packet.seq - again) & MASK)
        result.append(packet)
    return result


def wrapped(given: Sequence[Packet], before: int = 500) -> list[Packet]:
    """Sequence numbers moved so that each direction passes 2**32 after `before` bytes."""
    start: dict[tuple[bytes, int, bytes, int], int] = {}
    for packet in given:
        start.setdefault(packet.flow, packet.seq)

    def moved(number: int, flow: tuple[bytes, int, bytes, int]) -> int:
        return (number - start.get(flow, 0) - before) & MASK

    result = []
    for packet in given:
        other = (packet.dst, packet.dport, packet.src, packet.sport)
        ack = moved(packet.ack, other) if packet.flags & ACK else packet.ack
        result.append(replace(packet, seq=moved(packet.seq, packet.flow), ack=ack))
    return result


def interleaved(*given: Sequence[Packet]) -> list[Packet]:
    """Several lists in turn, each with a client port of its own."""
    result: list[Packet] = []
    lists = []
    for number, one in enumerate(given):
        client = one[0].sport
        lists.append(
            [
                replace(
                    p,
                    sport=p.sport + number if p.sport == client else p.sport,
                    dport=p.dport + number if p.dport == client else p.dport,
                )
                for p in one
            ]
        )
    for i in range(max(len(one) for one in lists)):
        result += [one[i] for one in lists if i < len(one)]
    return retimed(result)


def retimed(given: Sequence[Packet]) -> list[Packet]:
    """Times a microsecond apart, in the order given."""
    return [replace(p, time=given[0].time + i * 1000) for i, p in enumerate(given)]


def without(given: Sequence[Packet], drop: Callable[[int, Packet], bool]) -> list[Packet]:
    """The packets for which drop(index, packet) is false: losses of the capture."""
    return [p for i, p in enumerate(given) if not drop(i, p)]


def snapped(given: Sequence[Packet], keep: int) -> list[Packet]:
    """Payloads cut to `keep` bytes, as a snap length does."""
    return [
        replace(p, payload=p.payload[:keep], missing=max(0, len(p.payload) - keep)) for p in given
    ]


# frames


def tcp_bytes(packet: Packet) -> bytes:
    """TCP header with a timestamp option, and the payload."""
    head = struct.pack(
        ">HHIIBBHHH",
        packet.sport,
        packet.dport,
        packet.seq,
        packet.ack,
        0x80,
        packet.flags,
        0xFFFF,
        0,
        0,
    )
    return head + b"\1\1\x08\x0a" + bytes(8) + packet.payload


def ip_bytes(packet: Packet, *, options: bytes = b"", total: int | None = None) -> bytes:
    """The IP packet; total: another total (or payload) length than the true one."""
    inner = tcp_bytes(packet)
    if len(packet.src) == 16:
        length = len(inner) + packet.missing
        length = (0 if length > 0xFFFF else length) if total is None else total
        head = struct.pack(">IHBB", 6 << 28, length, 6, 64)
        return head + packet.src + packet.dst + inner
    return ipv4(packet.src, packet.dst, 6, inner, options, total, packet.missing)


def ipv4(
    src: bytes,
    dst: bytes,
    protocol: int,
    inner: bytes,
    options: bytes = b"",
    total: int | None = None,
    missing: int = 0,
    ident: int = 0,
    fragment: int = 0,
) -> bytes:
    """An IPv4 packet around `inner`; fragment: flags and offset."""
    size = 20 + len(options)
    length = size + len(inner) + missing
    length = (0 if length > 0xFFFF else length) if total is None else total
    first = 0x40 | size // 4
    head = struct.pack(
        ">BBHHHBBH4s4s", first, 0, length, ident, fragment, 64, protocol, 0, src, dst
    )
    return head + options + inner


def udp(port: int, inner: bytes) -> bytes:
    """A UDP datagram to `port`."""
    return struct.pack(">HHHH", 50000, port, 8 + len(inner), 0) + inner


Made = tuple[int, list[tuple[int, bytes, int]]]
"""Link type, and (time, frame, bytes on the wire) of each frame."""

MACS = b"\x02\0\0\0\0\1" + b"\x02\0\0\0\0\2"
OUTER = (b"\xc0\xa8\0\1", b"\xc0\xa8\0\2")


def ethertype(ip: bytes) -> bytes:
    """The EtherType of an IP packet."""
    return b"\x08\0" if ip[0] >> 4 == 4 else b"\x86\xdd"


def ethernet(ip: bytes, tags: bytes = b"") -> bytes:
    """Ethernet, padded to 60 bytes with bytes that must never be taken for payload."""
    return (MACS + tags + ethertype(ip) + ip).ljust(60, b"\xee")


def _family(ip: bytes, six: int) -> int:
    return 2 if ip[0] >> 4 == 4 else six


def _gre(flags: int, kind: bytes, words: int, inner: bytes) -> bytes:
    body = struct.pack(">H", flags) + kind + b"\0\0\0\7" * words + inner
    return ethernet(ipv4(*OUTER, 47, body))


def _vxlan(port: int, inner: bytes) -> bytes:
    return ethernet(ipv4(*OUTER, 17, udp(port, b"\x08\0\0\0\0\0\x2a\0" + inner)))


def _geneve(ip: bytes, options: bytes) -> bytes:
    head = bytes([len(options) // 4, 0]) + b"\x65\x58" + b"\0\0\x2a\0" + options
    return ethernet(ipv4(*OUTER, 17, udp(6081, head + ethernet(ip))))


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, ethernet),
    "802.1Q": (1, lambda ip: ethernet(ip, b"\x81\0\0\x2a")),
    "QinQ": (1, lambda ip: ethernet(ip, b"\x88\xa8\0\x01\x81\0\0\x2a")),
    "SNAP": (
        1,
        lambda ip: (
            MACS
            + struct.pack(">H", 8 + len(ip) if len(ip) < 1400 else 0x0800)
            + (b"\xaa\xaa\3\0\0\0" + ethertype(ip) if len(ip) < 1400 else b"")
            + ip
        ),
    ),
    "SLL": (113, lambda ip: b"\0\0\0\1\0\6" + bytes(8) + ethertype(ip) + ip),
    "SLL2": (276, lambda ip: ethertype(ip) + bytes(18) + ip),
    "NULL": (0, lambda ip: struct.pack("<I", _family(ip, 30)) + ip),
    "NULL, other order": (0, lambda ip: struct.pack(">I", _family(ip, 28)) + ip),
    "NULL, Linux": (0, lambda ip: struct.pack("<I", _family(ip, 10)) + ip),
    "LOOP": (108, lambda ip: struct.pack(">I", _family(ip, 24)) + ip),
    "raw 12": (12, lambda ip: ip),
    "raw 101": (101, lambda ip: ip),
    "PPP": (9, lambda ip: (b"\0\x21" if ip[0] >> 4 == 4 else b"\0\x57") + ip),
    "PPP, HDLC": (9, lambda ip: b"\xff\3" + (b"\0\x21" if ip[0] >> 4 == 4 else b"\0\x57") + ip),
    "PPPoE": (
        1,
        lambda ip: (
            MACS
            + b"\x88\x64\x11\0\0\1"
            + struct.pack(">H", len(ip) + 2)
            + (b"\0\x21" if ip[0] >> 4 == 4 else b"\0\x57")
            + ip
        ),
    ),
    "MPLS": (1, lambda ip: MACS + b"\x88\x47\0\1\0\x40\0\2\1\x40" + ip),
    "GRE": (1, lambda ip: _gre(0, ethertype(ip), 0, ip)),
    "GRE with checksum, key, sequence": (1, lambda ip: _gre(0xB000, ethertype(ip), 3, ip)),
    "GRE bridge": (1, lambda ip: _gre(0x2000, b"\x65\x58", 1, ethernet(ip))),
    "ERSPAN II": (1, lambda ip: _gre(0x1000, b"\x88\xbe", 1, bytes(8) + ethernet(ip))),
    "VXLAN": (1, lambda ip: _vxlan(4789, ethernet(ip))),
    "VXLAN, old Linux port": (1, lambda ip: _vxlan(8472, ethernet(ip))),
    "Geneve": (1, lambda ip: _geneve(ip, b"")),
    "Geneve with options": (1, lambda ip: _geneve(ip, b"\1\2\3\1" + bytes(4))),
    "IP in IP": (1, lambda ip: ethernet(ipv4(*OUTER, 4 if ip[0] >> 4 == 4 else 41, ip))),
}
"""Name -> (link type, IP packet to frame)."""


def frames(
    given: Iterable[Packet], link: str = "ethernet"
) -> tuple[int, list[tuple[int, bytes, int]]]:
    """(link type, [(time, frame, bytes on the wire)]) of packets."""
    number, wrap = LINKS[link]
    result = []
    for packet in given:
        frame = wrap(ip_bytes(packet))
        if packet.missing:  # the snap length cut before any padding
            frame = MACS + ethertype(ip := ip_bytes(packet)) + ip
        result.append((packet.time, frame, len(frame) + packet.missing))
    return number, result


# files


def pcap(
    made: tuple[int, list[tuple[int, bytes, int]]],
    *,
    order: str = "<",
    nano: bool = False,
    modified: bool = False,
) -> bytes:
    """A pcap file."""
    number, given = made
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nano else 0xA1B2C3D4
    out = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, number)]
    for time, frame, wire in given:
        part = time % 10**9 // (1 if nano else 1000)
        out.append(struct.pack(f"{order}IIII", time // 10**9, part, len(frame), wire))
        if modified:
            out.append(struct.pack(f"{order}IHBB", 1, 0x0800, 0, 0))
        out.append(frame)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option."""
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"") -> bytes:
    """A Section Header Block."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(number: int, order: str = "<", snaplen: int = 0, options: bytes = b"") -> bytes:
    """An Interface Description Block."""
    return block(1, struct.pack(f"{order}HHI", number, 0, snaplen) + options, order)


def enhanced(
    face: int, ticks: int, frame: bytes, wire: int, order: str = "<", options: bytes = b""
) -> bytes:
    """An Enhanced Packet Block."""
    head = struct.pack(f"{order}IIIII", face, ticks >> 32, ticks & MASK, len(frame), wire)
    return block(6, head + frame + bytes(-len(frame) % 4) + options, order)


@dataclass(frozen=True)
class Clock:
    """How an interface counts: units of 10**-exponent, or of 2**-exponent, seconds since `offset` (s)."""

    exponent: int = 9
    binary: bool = False
    offset: int = 0

    @property
    def options(self) -> list[tuple[int, bytes]]:
        """if_tsresol and if_tsoffset, where they say what is not so without them; bytes big-endian."""
        found = []
        if (self.exponent, self.binary) != (6, False):
            found.append((9, bytes([self.exponent | self.binary << 7])))
        if self.offset:
            found.append((14, struct.pack(">q", self.offset)))
        return found

    @property
    def units(self) -> int:
        """Units in a second."""
        return 2**self.exponent if self.binary else 10**self.exponent

    def ticks(self, time: int) -> int:
        """The count at a time in ns since 1970, of the unit that has begun."""
        return (time - self.offset * 10**9) * self.units // 10**9

    def seen(self, time: int) -> int:
        """What of a time in ns the file tells: the begin of its unit, in whole ns."""
        return self.ticks(time) * 10**9 // self.units + self.offset * 10**9


NANOSECONDS = Clock()


def dealt(count: int, clocks: Sequence[Clock], sections: int) -> list[tuple[int, int, Clock]]:
    """(section, interface in it, its clock) of each packet, as `pcapng` deals them. The interfaces take
    turns; in each section they are described in another order."""
    found = []
    for i in range(count):
        part, face = i * sections // count, i % len(clocks)
        found.append((part, face, clocks[(face + part) % len(clocks)]))
    return found


def pcapng(
    made: Made, *, order: str = "<", clocks: Sequence[Clock] = (NANOSECONDS,), sections: int = 1
) -> bytes:
    """A pcapng file: sections whose byte orders take turns, in each an interface for each clock."""
    number, given = made
    out = []
    for part in range(sections):
        turned = [clocks[(face + part) % len(clocks)] for face in range(len(clocks))]
        out.append(section(order))
        for clock in turned:
            options = b"".join(
                option(code, value[:: 1 if order == ">" else -1], order)
                for code, value in clock.options
            )
            out.append(interface(number, order, options=options))
        mine = zip(given, dealt(len(given), clocks, sections), strict=True)
        out += [
            enhanced(face, clock.ticks(time), frame, wire, order)
            for (time, frame, wire), (where, face, clock) in mine
            if where == part
        ]
        order = "<" if order == ">" else ">"
    return b"".join(out)


def split(
    made: tuple[int, list[tuple[int, bytes, int]]], count: int
) -> list[tuple[int, list[tuple[int, bytes, int]]]]:
    """The frames in `count` files, as a rotating recorder writes them."""
    number, given = made
    size = -(-len(given) // count)
    return [(number, given[i : i + size]) for i in range(0, len(given), size)]
