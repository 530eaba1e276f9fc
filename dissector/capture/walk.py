"""From a frame's first byte to its TCP header, for many frames at once.

A `Walk` keeps a cursor for every frame and a code for what begins there. Each step takes all frames with
the same code, reads that header with array gathers, moves the cursors and sets the next code, until
only final codes are left. So a tunnel costs a few more steps, not a slower lane.

Sources: the LINKTYPE_ registry of tcpdump.org; RFC 791 and 8200 (IP), 9293 (TCP), 2784 and 2890 (GRE),
2637 (PPTP's GRE), 7348 (VXLAN), 8926 (Geneve), 3032 (MPLS), 2516 (PPPoE), 1661 (PPP), IEEE 802.1Q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dissector.capture.frames import Array, distinct, member

LINK, ETHER, IP, PPP = 0x10000, 0x20000, 0x30000, 0x40000
"""Codes: a name space plus the number there: link type, EtherType, IP protocol, PPP protocol."""

TCP_FOUND, OTHER, CUT, UNKNOWN, FRAGMENT4, FRAGMENT6, MPLS_END = range(7)
"""Codes of their own. Final: a TCP header begins at the cursor; some other protocol; the frame ends
inside a header; nothing here knows what begins at the cursor; a piece of a fragmented datagram."""

FINAL = frozenset((TCP_FOUND, OTHER, CUT, UNKNOWN, FRAGMENT4, FRAGMENT6))

MAX_STEPS = 64
"""Headers in one frame. Hostile frames could stack them to their last byte."""

VXLAN_PORTS = (4789, 8472)
GENEVE_PORT = 6081
VXLAN_GPE_PORT = 4790
MPLS_UDP_PORT = 6635
SLOW_PORTS = (1701, 2152)
"""L2TP and GTP-U: tunnels that only scapy takes apart."""

_PLAIN_ETHER = (
    0x0806, 0x8035, 0x0842, 0x22F0, 0x22F3, 0x6003, 0x8137, 0x809B, 0x80F3, 0x8808, 0x8809, 0x880B,
    0x888E, 0x8892, 0x88A4, 0x88B5, 0x88B7, 0x88CC, 0x88E1, 0x88E3, 0x88F7, 0x8902, 0x8906, 0x8914,
    0x891D, 0x893A, 0x9000, 0x88E5, 0x8863,
)  # fmt: skip
"""EtherTypes that carry no IP packet: ARP, LLDP, EAPOL and their kind."""

TAGS = (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)
INET6 = (10, 23, 24, 28, 30)
"""AF_INET6 of Linux, Windows, the BSDs and macOS: NULL and LOOP frames carry the recorder's own."""


class Bytes(Protocol):
    """Arrays in which item i is the big-endian number that begins at byte i."""

    u1: Array
    u2: Array
    u4: Array
    u8: Array


class Walk:
    """n frames in one buffer. All columns have n rows.

    cur i8: offset of what the code says. end i8: first byte that is not captured (or is padding).
    wire i8: where the packet ends on the wire, beyond `end` where the snap length cut it.
    code i8. version u1 (4 or 6) and src_high, src_low, dst_high, dst_low u8: the innermost addresses.
    fragment columns (filled where the code is FRAGMENT4/6): ident u4, place i8 (offset in the datagram,
    bit 0 is "more"), inner i8 (protocol).
    """

    def __init__(self, data: Bytes, cur: Array, end: Array, wire: Array, code: Array) -> None:
        n = len(cur)
        self.data = data
        self.cur, self.end, self.wire, self.code = cur.copy(), end.copy(), wire.copy(), code.copy()
        self.version = np.zeros(n, np.uint8)
        self.src_high, self.src_low, self.dst_high, self.dst_low = np.zeros((4, n), np.uint64)
        self.ident = np.zeros(n, np.uint32)
        self.place = np.zeros(n, np.int64)
        self.inner = np.zeros(n, np.int64)

    def run(self) -> None:
        """Step until every code is final."""
        active = np.arange(len(self.cur))
        for _ in range(MAX_STEPS):
            code = self.code[active]
            if not len(code):
                return
            if (code == code[0]).all():
                self._step(int(code[0]), active)
            else:
                for kind in distinct(code).tolist():
                    self._step(kind, active[code == kind])
            code = self.code[active]
            active = active[code >= MPLS_END]
        self.code[active] = OTHER

    def _step(self, code: int, rows: Array) -> None:
        if code in FINAL:
            return
        step = STEPS.get(code)
        if step is not None:
            step(self, rows)
        elif code & ~0xFFFF == ETHER:
            number = code & 0xFFFF
            self.code[rows] = OTHER if number < 0x600 or number in _PLAIN_ETHER else UNKNOWN
        elif code & ~0xFFFF == LINK:
            self.code[rows] = UNKNOWN
        else:
            self.code[rows] = OTHER

    # helpers of the steps

    def need(self, rows: Array, count: Any) -> Array:
        """The rows in which `count` bytes are captured at the cursor; the others become CUT."""
        fits = self.cur[rows] + count <= self.end[rows]
        if fits.all():
            return rows
        self.code[rows[~fits]] = CUT
        return rows[fits]

    def u1(self, rows: Array, at: Any) -> Array:
        return self.data.u1[self.cur[rows] + at].astype(np.int64)

    def u2(self, rows: Array, at: Any) -> Array:
        return self.data.u2[self.cur[rows] + at].astype(np.int64)

    def u4(self, rows: Array, at: Any) -> Array:
        return self.data.u4[self.cur[rows] + at].astype(np.int64)

    def go(self, rows: Array, count: Any, code: Any) -> None:
        self.cur[rows] += count
        self.code[rows] = code


def _ethernet(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 14)
    w.go(rows, 14, ETHER | w.u2(rows, 12))
    lengths = w.code[rows] <= ETHER + 1500
    if lengths.any():
        _llc(w, rows[lengths])


def _llc(w: Walk, rows: Array) -> None:
    """802.3 with a length: only SNAP (AA AA 03, an organisation of 0) names an EtherType."""
    w.code[rows] = OTHER
    rows = rows[w.cur[rows] + 8 <= w.end[rows]]
    rows = rows[(w.u4(rows, 0) == 0xAAAA0300) & (w.u2(rows, 4) == 0)]
    w.go(rows, 8, ETHER | w.u2(rows, 6))


def _tag(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 4)
    w.go(rows, 4, ETHER | w.u2(rows, 2))
    lengths = w.code[rows] <= ETHER + 1500
    if lengths.any():
        _llc(w, rows[lengths])


def _sll(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 16)
    w.go(rows, 16, ETHER | w.u2(rows, 14))


def _sll2(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 20)
    w.go(rows, 20, ETHER | w.u2(rows, 0))


def _null(w: Walk, rows: Array) -> None:
    """NULL is in the recorder's byte order, LOOP in network order; families are small numbers."""
    rows = w.need(rows, 4)
    family = w.u4(rows, 0)
    family = np.where(family > 0xFFFF, family >> 24 | (family >> 8 & 0xFF00), family)
    code = np.where(family == 2, IP | 4, np.where(member(family, INET6), IP | 41, OTHER))
    w.go(rows, 4, code)


def _raw(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 1)
    version = w.u1(rows, 0) >> 4
    w.code[rows] = np.where(version == 4, IP | 4, np.where(version == 6, IP | 41, OTHER))


def _mpls(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 4)
    bottom = w.u1(rows, 2) & 1 == 1
    w.go(rows, 4, np.where(bottom, MPLS_END, ETHER | 0x8847))


def _mpls_end(w: Walk, rows: Array) -> None:
    """Nothing says what follows the last label: an IP version, or an Ethernet pseudowire."""
    rows = w.need(rows, 1)
    nibble = w.u1(rows, 0) >> 4
    code = np.select([nibble == 4, nibble == 6, nibble == 0], [IP | 4, IP | 41, LINK | 1], OTHER)
    w.go(rows, np.where(nibble == 0, 4, 0), code)


def _pppoe(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 6)
    w.go(rows, 6, LINK | 9)


def _ppp(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 2)
    w.cur[rows] += np.where(w.u2(rows, 0) == 0xFF03, 2, 0)
    rows = w.need(rows, 2)
    short = w.u1(rows, 0) & 1 == 1
    number = np.where(short, w.u1(rows, 0), w.u2(rows, 0))
    kinds = [number == 0x21, number == 0x57, number == 0x281]
    code = np.select(kinds, [IP | 4, IP | 41, ETHER | 0x8847], OTHER)
    w.go(rows, np.where(short, 1, 2), code)


def _ipv4(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 20)
    first = w.u1(rows, 0)
    header = (first & 15) * 4
    total = w.u2(rows, 2)
    good = (first >> 4 == 4) & (header >= 20) & ((total == 0) | (total >= header))
    if not good.all():
        w.code[rows[~good]] = OTHER
        rows, header, total = rows[good], header[good], total[good]
    # A total length of 0 is an offloaded packet: it ends with the frame.
    wire = np.where(total == 0, w.wire[rows], w.cur[rows] + total)
    w.wire[rows] = wire
    w.end[rows] = np.minimum(w.end[rows], wire)
    w.version[rows] = 4
    w.src_high[rows] = w.dst_high[rows] = 0
    w.src_low[rows] = w.data.u4[w.cur[rows] + 12]
    w.dst_low[rows] = w.data.u4[w.cur[rows] + 16]
    fragment, protocol = w.u2(rows, 6), w.u1(rows, 9)
    pieces = fragment & 0x3FFF != 0
    if pieces.any():
        mine = rows[pieces]
        w.ident[mine] = w.u2(mine, 4)
        w.place[mine] = (fragment[pieces] & 0x1FFF) << 3 | fragment[pieces] >> 13 & 1
        w.inner[mine] = protocol[pieces]
    short = w.cur[rows] + header > w.end[rows]
    code = np.where(pieces, FRAGMENT4, IP | protocol)
    w.go(rows, header, np.where(short, CUT, code))


def _ipv6(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 40)
    good = w.u1(rows, 0) >> 4 == 6
    if not good.all():
        w.code[rows[~good]] = OTHER
        rows = rows[good]
    length = w.u2(rows, 4)
    # A length of 0 is a jumbogram (BIG TCP): it ends with the frame.
    wire = np.where(length == 0, w.wire[rows], w.cur[rows] + 40 + length)
    w.wire[rows] = wire
    w.end[rows] = np.minimum(w.end[rows], wire)
    w.version[rows] = 6
    at = w.cur[rows]
    w.src_high[rows], w.src_low[rows] = w.data.u8[at + 8], w.data.u8[at + 16]
    w.dst_high[rows], w.dst_low[rows] = w.data.u8[at + 24], w.data.u8[at + 32]
    protocol = w.u1(rows, 6)
    w.go(rows, 40, np.where(protocol == 0, HOP_BY_HOP, IP | protocol))


def _extension(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    w.go(rows, w.u1(rows, 1) * 8 + 8, IP | w.u1(rows, 0))


def _authentication(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 12)
    w.go(rows, w.u1(rows, 1) * 4 + 8, IP | w.u1(rows, 0))


def _fragment6(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    place, protocol = w.u2(rows, 2), w.u1(rows, 0)
    w.place[rows] = place & 0xFFF8 | place & 1
    w.ident[rows] = w.data.u4[w.cur[rows] + 4]
    w.inner[rows] = protocol
    whole = place & 0xFFF9 == 0
    w.go(rows, 8, np.where(whole, IP | protocol, FRAGMENT6))


def _udp(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    port = w.u2(rows, 2)
    kinds = [
        member(port, VXLAN_PORTS),
        port == GENEVE_PORT,
        port == VXLAN_GPE_PORT,
        port == MPLS_UDP_PORT,
        member(port, SLOW_PORTS),
    ]
    code = np.select(kinds, [VXLAN, GENEVE, VXLAN_GPE, ETHER | 0x8847, UNKNOWN], OTHER)
    w.go(rows, np.where(code == UNKNOWN, 0, 8), code)


def _vxlan(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    w.go(rows, 8, np.where(w.u1(rows, 0) & 0x08 != 0, LINK | 1, OTHER))


def _vxlan_gpe(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    number = w.u1(rows, 3)
    code = np.select([number == 1, number == 2, number == 3], [IP | 4, IP | 41, LINK | 1], UNKNOWN)
    w.go(rows, 8, code)


def _geneve(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 8)
    number = w.u2(rows, 2)
    code = np.where(number == 0x6558, LINK | 1, ETHER | number)
    w.go(rows, (w.u1(rows, 0) & 0x3F) * 4 + 8, code)


def _gre(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 4)
    flags, number = w.u2(rows, 0), w.u2(rows, 2)
    point = flags & 7 == 1  # PPTP: key always there, acknowledgement by bit 7
    header = 4 + 4 * (
        (flags & 0xC000 != 0).astype(np.int64) + (flags >> 13 & 1) + (flags >> 12 & 1)
    )
    header += np.where(point, (flags >> 7 & 1) * 4, 0)
    sequence = flags & 0x1000 != 0
    kinds = [
        flags & 0x4000 != 0,  # source routes, which nobody sends any more
        point,
        number == 0x6558,
        number == 0x88BE,  # ERSPAN: type II has a header of 8 bytes and a sequence number
        number == 0x22EB,
    ]
    code = np.select(kinds, [UNKNOWN, LINK | 9, LINK | 1, LINK | 1, ERSPAN3], ETHER | number)
    header += np.where((number == 0x88BE) & sequence & ~point, 8, 0)
    w.go(rows, np.where(code == UNKNOWN, 0, header), code)


def _erspan3(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 12)
    w.go(rows, 12 + (w.u1(rows, 11) & 1) * 8, LINK | 1)


def _etherip(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 2)
    w.go(rows, 2, LINK | 1)


def _tcp(w: Walk, rows: Array) -> None:
    rows = w.need(rows, 20)
    good = w.u1(rows, 12) >> 4 >= 5
    w.code[rows] = np.where(good, TCP_FOUND, OTHER)


HOP_BY_HOP, VXLAN, VXLAN_GPE, GENEVE, ERSPAN3 = range(0x50000, 0x50005)

STEPS: dict[int, Callable[[Walk, Array], None]] = {
    LINK | 1: _ethernet,
    LINK | 113: _sll,
    LINK | 276: _sll2,
    LINK | 0: _null,
    LINK | 108: _null,
    **dict.fromkeys((LINK | 12, LINK | 14, LINK | 101), _raw),
    LINK | 228: _ipv4,
    LINK | 229: _ipv6,
    LINK | 9: _ppp,
    LINK | 50: _ppp,
    LINK | 51: _pppoe,
    ETHER | 0x0800: _ipv4,
    ETHER | 0x86DD: _ipv6,
    **{ETHER | tag: _tag for tag in TAGS},
    ETHER | 0x8847: _mpls,
    ETHER | 0x8848: _mpls,
    MPLS_END: _mpls_end,
    ETHER | 0x8864: _pppoe,
    ETHER | 0x6558: _ethernet,
    IP | 4: _ipv4,
    IP | 41: _ipv6,
    **dict.fromkeys((HOP_BY_HOP, IP | 43, IP | 60, IP | 135, IP | 139, IP | 140), _extension),
    IP | 44: _fragment6,
    IP | 51: _authentication,
    IP | 6: _tcp,
    IP | 17: _udp,
    IP | 47: _gre,
    IP | 97: _etherip,
    IP | 137: _mpls,
    VXLAN: _vxlan,
    VXLAN_GPE: _vxlan_gpe,
    GENEVE: _geneve,
    ERSPAN3: _erspan3,
}
"""Code -> the step that reads the header which begins there."""
