"""Hex dumps with offsets: xxd, hexdump -C, tcpdump -X and -xx, Wireshark's copies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import UsageProblem

_LINE = re.compile(
    r"^\s*(?:0x)?([0-9A-Fa-f]{4,16}(?::(?=\s|$)|(?=\s{2,})|(?=\s*$))|[0-9A-Fa-f]{6}(?= [0-9A-Fa-f]{2} ))"
    r"(.*)$"
)
"""The offset and the rest. od writes six digits and one blank, the others a colon or more blanks."""

_GROUP = re.compile(r"( *)((?:[0-9A-Fa-f]{2})+)(?=\s|$)")
_REPEATED = re.compile(r"^\s*\*\s*$")

HALF = 8
"""After so many single bytes hexdump -C leaves two blanks, which do not end the hex digits."""


@dataclass(slots=True)
class _Line:
    number: int
    offset: int
    data: bytes
    starred: bool = False


def dumped(text: str) -> list[bytes] | None:
    """The packets of a dump, one for each time that the offset begins at 0; None for no dump.

    Lines without an offset (tcpdump's headings) are skipped. Raises UsageProblem where offsets and
    bytes do not agree.
    """
    packets: list[list[_Line]] = []
    starred = False
    for number, line in enumerate(text.split("\n"), 1):
        if _REPEATED.match(line):
            starred = True
            continue
        match = _LINE.match(line.expandtabs())
        if match is None:
            if re.fullmatch(r"\s*[0-9A-Fa-f][0-9A-Fa-f\s]*", line) and packets:
                raise UsageProblem(f"line {number} has no offset, unlike the lines before it")
            continue
        offset = int(match[1].rstrip(":"), 16)
        if offset == 0:
            packets.append([])
        if not packets:
            return None
        packets[-1].append(_Line(number, offset, _across(match[2], number), starred))
        starred = False
    if not packets or not any(line.data for lines in packets for line in lines):
        return None
    return [data for lines in packets if (data := _joined(lines))]


def _across(rest: str, number: int) -> bytes:
    """The bytes of line `number`: groups of hex digits up to a wider gap, where the ASCII column begins."""
    found = bytearray()
    at = 0
    narrow = True
    while (group := _GROUP.match(rest, at)) is not None:
        gap = len(group[1])
        if found and gap > 1 and not (gap == 2 and narrow and len(found) == HALF):
            break
        narrow = narrow and len(group[2]) == 2
        found += bytes.fromhex(group[2])
        at = group.end()
    after = rest[at:]
    if after.strip() and not after.startswith("  "):
        raise UsageProblem(
            f"line {number}: {after.split()[0][:20]!a} is no byte in hex, after {len(found)} bytes"
        )
    return bytes(found)


def _joined(lines: list[_Line]) -> bytes:
    data = bytearray()
    for place, line in enumerate(lines):
        if line.starred and place and lines[place - 1].data:
            before = lines[place - 1].data
            missing = line.offset - len(data)
            if missing > MOST:
                raise UsageProblem(f"line {line.number}: * stands for {missing} bytes, too many")
            data += (before * (missing // len(before) + 1))[: max(missing, 0)]
        if line.offset != len(data):
            raise UsageProblem(
                f"line {line.number} says offset {line.offset:#x}, but {len(data):#x} bytes stand before "
                "it: a line is missing or was changed"
            )
        own = line.data
        if place + 1 < len(lines):
            own = own[: max(lines[place + 1].offset - line.offset, 0)]
        data += own
    return bytes(data)


MOST = 1 << 26
"""Bytes that a line with a star may stand for: hostile offsets do not fill the memory."""
