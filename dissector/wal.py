"""Raw WAL of physical replication: where pages begin in it, and their headers.

A WAL page begins at every LSN that the page size divides, so the LSN of an XLogData alone tells
where headers stand. The records between them stay bytes: what they mean is the business of each
resource manager. Declarations: `dissector.catalogue.wal`.
"""

from __future__ import annotations

from typing import Any, Literal

from .catalogue.wal import (
    HEADER,
    LONG,
    LONG_HEADER,
    LONG_HEADER_FIELDS,
    MAGICS,
    PAGE_SIZE,
    SHORT,
)
from .findings import Finding, finding
from .inside import leaf, listed, named, place
from .node import Node
from .spec import Field

_RECORDS = named("records", "WAL records, or pieces of them, up to the next page.")
_PAGES = "WAL pages that the data touches; all but the first begin with a header."

Order = Literal["little", "big"]
ORDERS: tuple[Order, ...] = ("little", "big")

MOST_PAGES = 1 << 12
"""Pages of one message that are taken apart."""


def boundaries(lsn: int, length: int) -> range:
    """Offsets in `length` bytes of WAL from `lsn` on at which pages begin."""
    return range(-lsn % PAGE_SIZE, length, PAGE_SIZE)


def parts(lsn: int, data: bytes, start: int, end: int) -> list[Node]:
    """The nodes that tile ``data[start:end]``: WAL that begins at `lsn`; [] for no bytes."""
    if start >= end:
        return []
    elements: list[tuple[list[Node], Any]] = []
    begins = [start + at for at in boundaries(lsn, end - start)][:MOST_PAGES]
    if not begins or begins[0] > start:
        stop = begins[0] if begins else end
        elements.append(([leaf(_RECORDS, data, start, stop)], None))
    for i, at in enumerate(begins):
        stop = begins[i + 1] if i + 1 < len(begins) else end
        elements.append((_page(data, at, stop), None))
    return [listed("pages", _PAGES, elements)]


def _page(data: bytes, at: int, stop: int) -> list[Node]:
    found: list[Node] = []
    order = _order(data[at : at + 2])
    if order:
        fields: tuple[Field, ...] = HEADER
        if int.from_bytes(data[at + 2 : at + 4], order) & LONG_HEADER:
            fields = HEADER + LONG_HEADER_FIELDS
        for field in fields:
            after = at + field.kind.width
            if after > stop:
                break
            raw = data[at:after]
            value: Any = raw
            if field.kind.show != "bytes":
                value = int.from_bytes(raw, order)
            found.append(Node(place(field), at, after, value))
            at = after
    if at < stop or not found:
        found.append(leaf(_RECORDS, data, at, stop))
    return found


def _order(magic: bytes) -> Order | None:
    """The byte order in which `magic` is a WAL page's: None for neither."""
    if len(magic) == 2:
        for order in ORDERS:
            number = int.from_bytes(magic, order)
            if number in MAGICS or number >> 8 == 0xD1:
                return order
    return None


def check(lsn: int, data: bytes, start: int, end: int) -> list[Finding]:
    """What is wrong with the page headers in ``data[start:end]``; offsets count from `data`'s start."""
    found: list[Finding] = []
    for offset in boundaries(lsn, end - start):
        at = start + offset
        if at + SHORT > end:
            break
        order = _order(data[at : at + 2])
        if not order:
            magic = data[at : at + 2].hex()
            text = f"no WAL page header where a page begins: magic {magic}"
            found.append(finding("wal-page", at, text=text))
            continue
        told = int.from_bytes(data[at + 8 : at + 16], order)
        if told != lsn + offset:
            text = f"the WAL page names {told >> 32:X}/{told & 0xFFFFFFFF:X} as its place"
            found.append(finding("wal-page", at, text=text))
    return found


assert sum(f.kind.width for f in HEADER) == SHORT
assert SHORT + sum(f.kind.width for f in LONG_HEADER_FIELDS) == LONG
