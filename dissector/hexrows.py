"""Rows of pg_logical_slot_peek_binary_changes as psql prints them: lsn, xid and data.

Read are the aligned, wrapped, unaligned, expanded and CSV formats and what COPY writes, with any
border; of other queries the rows that are one bytea.
"""

from __future__ import annotations

import re

from .errors import UsageProblem

Row = tuple[int | None, int | None, bytes]

_BAR = "[|\u2502\u2551,;\t]"
_EDGE = "[\\s|\u2502\u2551]*"
_KEYS = (
    rf"^{_EDGE}\"?([0-9A-Fa-f]{{1,8}})/([0-9A-Fa-f]{{1,8}})\"?\s*{_BAR}\s*\"?(\d+)\"?\s*({_BAR})"
)
_ROW = re.compile(rf"{_KEYS}\s*\"?\\{{1,2}}x([^\s|\u2502\u2551\",;.]*)(\.?)\"?{_EDGE}$")
"""One line with the three columns; a dot at the end (format wrapped) says that the next line goes on."""

_ESCAPED_ROW = re.compile(rf"{_KEYS}\s*(\S.*?){_EDGE}$")
"""The same with bytea_output = escape."""

_MORE = re.compile(rf"^{_EDGE}\.([0-9A-Fa-f]+)(\.?){_EDGE}$")
_ALONE = re.compile(rf"^{_EDGE}\"?\\{{1,2}}x([^\s|\u2502\u2551\",;.\\]*)(\.?)\"?{_EDGE}$")
_NAMED = re.compile(rf"^{_EDGE}(lsn|location|xid|data)\s*{_BAR}\s*(.*?){_EDGE}$")


def rows(text: str) -> list[Row] | None:
    """(lsn, xid, data) of each row in `text`, in order; None when the text does not hold rows.

    Raises UsageProblem that names the line where a row's data are no bytes.
    """
    lines = text.split("\n")
    if any(_ESCAPED_ROW.match(line) for line in lines):
        return _table(lines)
    named = {match[1] for line in lines if (match := _NAMED.match(line))}
    if "data" in named and len(named) > 1:
        return _expanded(lines)
    alone = [line for line in lines if _ALONE.match(line)]
    several = len(alone) > 1 or (alone and any(re.match(r"\(\d+ row", line) for line in lines))
    # Lines of one byte each are an escaped string that was broken into lines.
    if several and any(len(m[1]) != 2 for line in alone if (m := _ALONE.match(line))):
        return _one_column(lines)
    return None


def _table(lines: list[str]) -> list[Row]:
    found: list[Row] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        keys = _ESCAPED_ROW.match(line)
        if keys is None:
            if "\\x" in line:
                raise UsageProblem(
                    f"line {number} holds \\x and is no row; a row is lsn, xid and data"
                )
            continue
        lsn, xid = int(keys[1], 16) << 32 | int(keys[2], 16), int(keys[3])
        match = _ROW.match(line)
        if match is None:
            plain = keys[5].replace("\\\\", "\\") if keys[4] == "\t" else keys[5]
            found.append((lsn, xid, octal(plain, number)))
            continue
        first = number
        hexed, more = match[5], match[6]
        while more and number < len(lines) and (next_ := _MORE.match(lines[number])):
            hexed, more = hexed + next_[1], next_[2]
            number += 1
        if more:
            raise UsageProblem(f"the data of the row in line {first} end in the middle")
        found.append((lsn, xid, _bytes(hexed, first)))
    return found


def _expanded(lines: list[str]) -> list[Row]:
    """psql's \\x: the columns under each other, a heading line before each record."""
    found: list[Row] = []
    lsn: int | None = None
    xid: int | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        match = _NAMED.match(line)
        if match is None:
            continue
        name, value = match[1], match[2]
        if name in ("lsn", "location"):
            high, _, low = value.partition("/")
            lsn = int(high, 16) << 32 | int(low, 16) if _is_lsn(high, low) else None
        elif name == "xid":
            xid = int(value) if value.isdigit() else None
        else:
            first = number
            while (
                number < len(lines)
                and value.endswith(".")
                and (next_ := _MORE.match(lines[number]))
            ):
                value = value[:-1] + next_[1] + next_[2]
                number += 1
            hexed = re.match(r"\\{1,2}x", value)
            data = _bytes(value[hexed.end() :], first) if hexed else octal(value, first)
            found.append((lsn, xid, data))
            lsn = xid = None
    return found


def _is_lsn(high: str, low: str) -> bool:
    return bool(re.fullmatch(r"[0-9A-Fa-f]{1,8}", high) and re.fullmatch(r"[0-9A-Fa-f]{1,8}", low))


def _one_column(lines: list[str]) -> list[Row]:
    found: list[Row] = []
    for number, line in enumerate(lines, 1):
        match = _ALONE.match(line)
        if match is not None:
            found.append((None, None, _bytes(match[1], number)))
        elif "\\x" in line:
            raise UsageProblem(
                f"line {number} holds \\x and cannot be read as one value of hex digits"
            )
    return found


def _bytes(hexed: str, line: int) -> bytes:
    bad = re.search(r"[^0-9A-Fa-f]", hexed)
    if bad:
        raise UsageProblem(
            f"not a hex digit: {bad.group()!a}, digit {bad.start() + 1} of the data in line {line}"
        )
    if len(hexed) % 2:
        raise UsageProblem(
            f"an odd number of hex digits: the data in line {line} have {len(hexed)}, "
            "the last byte is half"
        )
    return bytes.fromhex(hexed)


def octal(text: str, line: int = 1) -> bytes:
    """bytea in the escape format: ``\\ooo`` is a byte in octal, ``\\\\`` a backslash."""
    found = re.sub(r"\\(?:([0-3][0-7]{2})|\\)", lambda m: chr(int(m[1], 8)) if m[1] else "\\", text)
    try:
        return found.encode("latin-1")
    except UnicodeEncodeError as problem:
        raise UsageProblem(f"not bytea: {found[problem.start]!a} in line {line}") from None
