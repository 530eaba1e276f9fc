"""A pasted packet: what tcpdump -X and Wireshark copy begins with Ethernet and IP, not with PostgreSQL.

Sources: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 9293 (TCP).
"""

from __future__ import annotations

from dataclasses import dataclass

TCP = 6
PORT = 5432
ETHERTYPES = (b"\x08\x00", b"\x86\xdd")
LINK_HEADERS = (0, 14, 16, 20, 4)
"""Bytes before the IP header: none (tcpdump -X), Ethernet, SLL, SLL2, BSD loopback."""


@dataclass(frozen=True, slots=True)
class Payload:
    """data: TCP's payload. skipped: bytes of headers before it. layer: "frontend" or "backend"."""

    data: bytes
    skipped: int
    layer: str


def payload(packet: bytes) -> Payload | None:
    """The TCP payload of `packet`; None where it does not begin with headers that agree with its size."""
    for link in LINK_HEADERS:
        if link == 14 and packet[12:14] not in ETHERTYPES:
            continue
        found = _ip(packet, link)
        if found is not None:
            return found
    return None


def _ip(packet: bytes, start: int) -> Payload | None:
    version = packet[start] >> 4 if start < len(packet) else 0
    if version == 4 and len(packet) >= start + 20:
        header = (packet[start] & 15) * 4
        total = int.from_bytes(packet[start + 2 : start + 4], "big") or len(packet) - start
        protocol = packet[start + 9]
    elif version == 6 and len(packet) >= start + 40:
        header = 40
        total = 40 + int.from_bytes(packet[start + 4 : start + 6], "big")
        protocol = packet[start + 6]
    else:
        return None
    padding = len(packet) - start - total
    # A frame is padded to 60 bytes; anything else that is left over shows that this is no header.
    if protocol != TCP or header < 20 or padding < 0 or (padding and len(packet) > 60 + start):
        return None
    tcp = start + header
    end = start + total
    if end < tcp + 20:
        return None
    data = tcp + (packet[tcp + 12] >> 4) * 4
    if not tcp + 20 <= data <= end:
        return None
    source, target = (int.from_bytes(packet[tcp + n : tcp + n + 2], "big") for n in (0, 2))
    from_server = source == PORT or (target != PORT and source < target)
    return Payload(packet[data:end], data, "backend" if from_server else "frontend")


def framed(data: bytes, typed: bool = True) -> list[bytes]:
    """`data` cut into messages by the length that each tells (after a type byte, where typed).

    The last piece is what is left: a message that goes on in another packet, or no message.
    """
    found = []
    at = 0
    lead = 1 if typed else 0
    while at < len(data):
        length = int.from_bytes(data[at + lead : at + lead + 4], "big", signed=True)
        end = at + lead + length
        if len(data) < at + lead + 4 or length < 4 or end > len(data):
            break
        found.append(data[at:end])
        at = end
        lead = 1
    return [*found, data[at:]] if at < len(data) else found
