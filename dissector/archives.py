"""The tar archives of a base backup: names and sizes of the files in them, headers taken apart.

`TarReader` follows a whole archive through messages that cut it anywhere; `parts` makes nodes of one
message's bytes. A header is believed when its checksum holds. Source: POSIX.1-1988 ustar, as the
server writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .inside import leaf, listed, named
from .node import Node
from .text import decode_text

BLOCK = 512

_WHERE = (
    ("file_name", 0, 100, "Path of the file below the data directory or tablespace."),
    ("mode", 100, 8, "Permissions, octal."),
    ("owner_id", 108, 8, "Numeric owner, octal."),
    ("group_id", 116, 8, "Numeric group, octal."),
    ("size", 124, 12, "Bytes of the file, octal."),
    ("modified", 136, 12, "Time of the last change in Unix seconds, octal."),
    ("checksum", 148, 8, "Sum of the header's bytes, octal."),
    ("type", 156, 1, "Kind of entry: 0 a file, 2 a symbolic link, 5 a directory."),
    ("link_target", 157, 100, "Where a symbolic link points."),
    ("magic", 257, 8, "ustar and the version."),
    ("owner", 265, 32, "Name of the owner."),
    ("group", 297, 32, "Name of the group."),
    ("device", 329, 16, "Device numbers of special files."),
    ("prefix", 345, 155, "Path that stands before the file name."),
    ("padding", 500, 12, "Unused."),
)
_FIELDS = tuple((named(name, meaning, text=True), at, size) for name, at, size, meaning in _WHERE)
_CONTENT = named("content", "Bytes of the file.")
_FILL = named("fill", "Zeros up to the next block of 512 bytes, or after the last file.")
_UNKNOWN = named("content", "Bytes of a file whose header came in a message before.")
_FILES = "Files that begin in this message."
MOST_FILES = 1 << 12
KINDS = MappingProxyType({"5": "directory", "2": "symbolic link"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in an archive. kind: "file", "directory", "symbolic link"."""

    name: str
    size: int
    kind: str = "file"


def entry_of(header: bytes) -> Entry | None:
    """What a header of 512 bytes describes; None where it is none (its checksum does not hold)."""
    told = _octal(header[148:156])
    if len(header) < BLOCK or told is None:
        return None
    if sum(header[:148]) + sum(header[156:BLOCK]) + 8 * 0x20 != told:
        return None
    size = _octal(header[124:136]) or 0
    name, prefix = (h.split(b"\0", 1)[0] for h in (header[:100], header[345:500]))
    path = decode_text(prefix + b"/" + name if prefix else name)
    kind = KINDS.get(chr(header[156]), "file")
    return Entry(path, size if kind == "file" else 0, kind)


def _octal(digits: bytes) -> int | None:
    if digits[:1] and digits[0] & 0x80:  # large sizes: binary, as GNU tar and the server write them
        return int.from_bytes(digits, "big") & ~(0x80 << 8 * (len(digits) - 1))
    try:
        return int(digits.strip(b"\0 ") or b"0", 8)
    except ValueError:
        return None


class TarReader:
    """Follows one archive. `feed` never raises; after bytes that are no header it stops looking."""

    def __init__(self) -> None:
        self._skip = 0
        self._head = b""
        self.lost = False
        self.current: Entry | None = None

    def feed(self, data: bytes) -> list[Entry]:
        """The files whose headers were complete with `data`."""
        found: list[Entry] = []
        at, size = 0, len(data)
        while at < size and not self.lost:
            if self._skip:
                step = min(self._skip, size - at)
                self._skip -= step
                at += step
                continue
            need = BLOCK - len(self._head)
            self._head += data[at : at + need]
            at += need
            if len(self._head) < BLOCK:
                break
            head, self._head = self._head, b""
            if not any(head):  # the end of an archive is blocks of zeros
                continue
            entry = entry_of(head)
            if entry is None:
                self.lost = True
                break
            self._skip = -(-entry.size // BLOCK) * BLOCK
            self.current = entry
            found.append(entry)
        return found


def parts(data: bytes, start: int, end: int) -> list[Node]:
    """The nodes that tile ``data[start:end]``: files whose headers stand here; [] for none."""
    elements: list[tuple[list[Node], Any]] = []
    at = start
    while at + BLOCK <= end and len(elements) < MOST_FILES:
        entry = entry_of(data[at : at + BLOCK])
        if entry is None:
            break
        nodes = _header(data, at)
        at += BLOCK
        stop = min(at + entry.size, end)
        if stop > at:
            nodes.append(leaf(_CONTENT, data, at, stop))
        fill = min(stop + -entry.size % BLOCK, end) if stop - at == entry.size else stop
        if fill > stop:
            nodes.append(leaf(_FILL, data, stop, fill))
        elements.append((nodes, None))
        at = fill
    if not elements:
        return []
    found = [listed("files", _FILES, elements)]
    if at < end:
        zeros = not data[at:end].strip(b"\0")
        found.append(leaf(_FILL if zeros else _UNKNOWN, data, at, end))
    return found


def _header(data: bytes, start: int) -> list[Node]:
    nodes = []
    for field, at, size in _FIELDS:
        low, high = start + at, start + at + size
        nodes.append(leaf(field, data, low, high, data[low:high].rstrip(b"\0 ")))
    return nodes
