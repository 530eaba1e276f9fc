"""One frame through scapy: the slow lane for what the fast one does not recognise, and the layers
below PostgreSQL, field by field, for a reader.

What scapy knows only after a module is loaded (tunnels, PPP) is loaded with the first frame.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.packet import NoPayload, Packet, Padding, Raw

from dissector.text import visible

TUNNELS = ("scapy.layers.vxlan", "scapy.layers.ppp", "scapy.contrib.geneve", "scapy.contrib.mpls")

RAW_IP = (12, 14, 101)
"""Link types for bare IP of either version; scapy registers only some of them for every system."""

MAX_TEXT = 120
"""Characters of a field's text."""

FrameField = tuple[str, int, int, str]
"""Name, offset in the frame, length in bytes (of the bytes that a bit field touches), value as text."""


@cache
def _link_layers() -> dict[int, Any]:
    for module in TUNNELS:
        import_module(module)
    from scapy.layers.inet6 import IPv46

    known = dict(conf.l2types.num2layer)
    known.update(dict.fromkeys(RAW_IP, IPv46))
    return known


def dissect_frame(raw: bytes, linktype: int) -> Packet:
    """The scapy packet of a frame down to TCP, whose payload stays Raw.

    linktype: as pcap and pcapng write it (LINKTYPE_ numbers). An unknown one gives Raw. Never raises
    on content: what scapy cannot read is Raw as well.
    """
    cls = _link_layers().get(linktype, Raw)
    try:
        return cls(raw, stop_dissection_after=TCP)
    except Exception:  # scapy's layers raise many kinds on damaged headers
        return Raw(raw)


def frame_layers(raw: bytes, linktype: int) -> list[tuple[str, list[FrameField]]]:
    """The layers of a frame from the outermost: (layer name, its fields), which tile the frame.

    Bytes above TCP or of no known layer are the layer "Payload", padding of the link layer "Padding".
    Text is safe for a terminal.
    """
    found: list[tuple[str, list[FrameField]]] = []
    offset = 0
    layer = dissect_frame(raw, linktype)
    while not isinstance(layer, NoPayload):
        header = layer.raw_packet_cache or b""
        if isinstance(layer, Raw) or raw[offset : offset + len(header)] != header:
            break
        found.append((str(layer.name), _fields(layer, header, offset)))
        offset += len(header)
        layer = layer.payload
    padding = layer.getlayer(Padding) if not isinstance(layer, NoPayload) else None
    end = len(raw) - (len(padding.load) if padding is not None else 0)
    for name, start, stop in (("Payload", offset, end), ("Padding", max(offset, end), len(raw))):
        if start < stop:
            size = stop - start
            found.append((name, [("bytes", start, size, f"{size} byte{'s' * (size != 1)}")]))
    return found


def _fields(layer: Packet, header: bytes, offset: int) -> list[FrameField]:
    """The fields of one layer, found by reading its header again, field after field."""
    found: list[FrameField] = []
    rest: Any = header
    begin = 0
    for fld in layer.fields_desc:
        try:
            rest, value = fld.getfield(layer, rest)
        except Exception:
            break
        # Between bit fields scapy hands on (bytes, bits of the first byte that are already read).
        left, bits = (len(rest[0]) * 8, rest[1]) if isinstance(rest, tuple) else (len(rest) * 8, 0)
        end = len(header) * 8 - left + bits
        if end > begin:
            first, last = begin // 8, (end + 7) // 8
            found.append((fld.name, offset + first, last - first, _text(layer, fld, value)))
        begin = end
    done = (begin + 7) // 8
    if done < len(header):
        found.append(("rest", offset + done, len(header) - done, ""))
    return found


def _text(layer: Packet, fld: Any, value: Any) -> str:
    try:
        text = str(fld.i2repr(layer, value))
    except Exception:
        text = repr(value)
    return visible(text, MAX_TEXT)
