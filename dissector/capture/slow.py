"""The slow lane: scapy takes a frame apart when the walk does not know what it holds.

This is the only module of dissector.capture that imports scapy, and only when such a frame comes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from typing import Any

_EXTRA = ("mpls", "geneve", "gtp", "erspan", "nsh", "etherip", "lldp")
"""scapy.contrib modules with layers that carry IP."""


@functools.cache
def _scapy() -> Any:
    """scapy with every link type loaded; silent, since its warnings are no part of our output."""
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import scapy.all as scapy
        from scapy.main import load_contrib

        for name in _EXTRA:
            with contextlib.suppress(Exception):
                load_contrib(name)
    return scapy


def dissect(raw: bytes, linktype: int) -> Any:
    """The frame as a scapy packet; None when scapy has no class for the link type."""
    scapy = _scapy()
    cls = scapy.conf.l2types.num2layer.get(linktype)
    if cls is None:
        return None
    try:
        return cls(raw)
    except Exception:  # a dissector of scapy's fails on hostile bytes: then nobody knows this frame
        return None


def layers(packet: Any) -> list[tuple[Any, int]]:
    """(layer, offset of its first byte) of a dissected packet, outermost first."""
    found, offset = [], 0
    while packet is not None and packet.name not in ("NoPayload", "Raw", "Padding"):
        found.append((packet, offset))
        header = packet.raw_packet_cache
        if header is None:
            break
        offset += len(header)
        packet = packet.payload
    return found


def innermost_ip(raw: bytes, linktype: int, after: int = 0) -> tuple[int, int] | None:
    """(offset, version) of the last IP header of a frame, which must not lie before `after`."""
    packet = dissect(raw, linktype)
    if packet is None:
        return None
    scapy = _scapy()
    for layer, offset in reversed(layers(packet)):
        version = {scapy.IP: 4, scapy.IPv6: 6}.get(type(layer))
        if version and offset >= after and offset < len(raw) and raw[offset] >> 4 == version:
            return offset, version
    return None
