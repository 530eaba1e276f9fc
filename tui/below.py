"""The layers below PostgreSQL: frame, IP, TCP, as scapy reads them, for the field tree.

Scapy takes a second to load, so `read` belongs into a thread. The bytes of secrets are masked here as
they are in the message itself, those of other messages in the same frame too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dissector.catalogue import RELEASES, by_name
from dissector.node import Node, Place

MOST = 16
"""Frames of one message that are shown; a value of megabytes is in a thousand."""

TELLING = ("src", "dst", "sport", "dport", "seq", "ack", "flags")
"""Fields that a closed layer shows."""

ABOUT = "{} below the PostgreSQL message, as scapy reads the frame."


class BelowNode(Node):
    """A frame, a layer or a field of a layer. Offsets count from the frame's first byte.

    text: its value, safe to show. record: position of the frame's record in the files. data: of a
    frame that was read, its bytes. read: whether the layers are known.
    """

    __slots__ = ("data", "read", "record", "text")

    def __init__(
        self,
        name: str,
        start: int,
        end: int,
        text: str,
        children: list[Node] | None = None,
        meaning: str = "",
    ) -> None:
        super().__init__(Place(None, name, 0, meaning=meaning), start, end, None, children)
        self.text = text
        self.record = -1
        self.data = b""
        self.read = True


def frames_of(view: Any) -> list[BelowNode]:
    """The frames that a message was in, unread, the one with its last byte first."""
    records: dict[int, int] = {}
    for extent in reversed(getattr(view, "extents", ())):
        records.setdefault(extent.record, extent.frame)
    found = []
    for record, frame in list(records.items())[:MOST]:
        more = f"one of {len(records):,} with bytes of this message" if len(records) > 1 else ""
        waits = BelowNode("…", 0, 0, "reading")
        node = BelowNode(f"Frame {frame}", 0, 0, more, [waits], ABOUT.format("What is"))
        node.record, node.read = record, False
        found.append(node)
    return found


def read(capture: Any, view: Any, record: int, mask: Callable[[Any], bytes] | None) -> BelowNode:
    """The frame at `record` with its layers. mask: gives the bytes of an opened message with secrets
    masked; None where they may be seen."""
    from dissector.layers import frame_layers

    frame = capture.frame(record)
    data = frame.data if mask is None else _masked(capture, view, frame.data, record, mask)
    children: list[Node] = []
    for name, fields in frame_layers(data, frame.linktype):
        parts: list[Node] = [
            BelowNode(
                field, start, start + length, text, meaning=ABOUT.format(f"{field} of {name}")
            )
            for field, start, length, text in fields
        ]
        if not parts:
            continue
        start, end = parts[0].start, parts[-1].end
        few = [f"{field}={text}" for field, _, _, text in fields if field in TELLING]
        children.append(BelowNode(name, start, end, "  ".join(few), parts, ABOUT.format(name)))
    text = f"{len(frame.data):,} bytes"
    if frame.wirelen > len(frame.data):
        text += f" of {frame.wirelen:,} on the wire"
    made = BelowNode("Frame", 0, len(data), text, children)
    made.data = data
    return made


def _masked(
    capture: Any, view: Any, data: bytes, record: int, mask: Callable[[Any], bytes]
) -> bytes:
    """`data`, in which the secrets of all messages of that stream and direction are masked."""
    extents = [e for e in view.extents if e.record == record]
    if not extents:
        return data
    # Where the frame's bytes begin in the files: found in what the capture holds, not assumed.
    raw = capture.files.read(extents[0].position, extents[0].length)
    begin = extents[0].position - data.find(raw)
    out = bytearray(data)
    row = view.row
    rows = capture.index.rows
    paths = capture.index.tables.paths.items
    bearing = [i for i, path in enumerate(paths) if path and _has_secret(path)]
    near = rows.where(
        lambda frame, stream, direction, path: (
            (frame >= row.frame - MOST * 4)
            & (frame <= row.frame + MOST * 4)
            & (stream == row.stream)
            & (direction == row.direction)
            & np.isin(path, bearing)
        ),
        "frame", "stream", "direction", "path",
    )  # fmt: skip
    numbers = (near + 1).tolist()
    if row.number not in numbers:
        numbers.append(row.number)
    for number in numbers:
        other = view if number == row.number else capture.message(number)
        hidden, at = mask(other), 0
        if hidden == other.data:
            continue
        for extent in other.extents:
            if extent.record == record:
                place = extent.position - begin
                out[place : place + extent.length] = hidden[at : at + extent.length]
            at += extent.length
    return bytes(out)


def _has_secret(path: tuple[str, ...]) -> bool:
    """Whether a message of that path can hold a secret; an unknown one might."""
    try:
        declared = by_name(path[-1])
    except KeyError:
        return True
    return declared.layer in ("frontend", "backend") and any(
        placed.field.secret for release in RELEASES for placed in declared.layout(release)
    )
