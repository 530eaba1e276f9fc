"""Which messages hold certain bytes: looked for in all of them at once, none is opened.

A filter on values opens the others only, so that one row among a million is found in seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .halting import go_on
from .reading import read_messages
from .rows import DECRYPTED, INCOMPLETE
from .slots import Array
from .tuples import kind_letter

if TYPE_CHECKING:
    from .query.columns import Held
    from .view import Capture

AT_ONCE = 1 << 22
"""Bytes of messages that are looked through at once."""

LONG = 1 << 20
"""Longer messages are opened in any case."""

_COLUMNS = ("stream", "direction", "offset", "length", "flags", "relation")

_BINARY = kind_letter("binary_kind").encode() + b"\0"
"""How a value in binary begins in TupleData: its kind, and the first byte of its length (see LONG)."""

_DIGITS = np.zeros(256, bool)
_DIGITS[list(b"0123456789.")] = True
_REST = re.compile(rb"[eE][+-]?[0-9]+")
_LONGEST = 400
"""Longer values are not compared as numbers."""


def holder(capture: Capture) -> Callable[[Array, Held], Array]:
    """Tells which of the rows at some places (from 0, ascending int64) can hold what is looked for: a mask.
    True also where the bytes are not looked at (decrypted, incomplete, very long messages)."""
    binary = np.zeros(0, bool)

    def holding(places: Array, needs: Held) -> Array:
        nonlocal binary
        c = {name: capture.index.rows.take(name, places) for name in _COLUMNS}
        c["number"] = places + 1
        looked = (c["flags"] & (DECRYPTED | INCOMPLETE) == 0) & (c["length"] <= LONG)
        if needs.binary:
            schemas = capture.index.tables.schemas
            more = range(len(binary), len(schemas))
            formats = [any(column.format for column in schemas[i].columns) for i in more]
            binary = np.concatenate((binary, np.array(formats, bool)))
            looked &= ~binary[c["relation"]]
        found = np.ones(len(places), bool)
        for part in _portions(np.flatnonzero(looked), c["length"]):
            go_on()
            found[part] = _looked_through(capture, c, part, needs)
        return found

    return holding


def _portions(wanted: Array, length: Array) -> Iterator[Array]:
    """`wanted` in parts of messages that are about AT_ONCE bytes together."""
    before = np.cumsum(length[wanted], dtype=np.int64) // AT_ONCE
    edges = np.flatnonzero(before[1:] != before[:-1]) + 1
    return iter(np.split(wanted, edges) if len(wanted) else ())


def _looked_through(capture: Capture, c: dict[str, Any], wanted: Array, needs: Held) -> Array:
    read = read_messages(capture, c, wanted, 2)
    begins = read.begins[wanted]
    found = begins < 0  # not there as a whole: what is missing may hold it
    whole = np.flatnonzero(~found)
    whole = whole[np.argsort(begins[whole], kind="stable")]
    starts = begins[whole]
    ends = starts + c["length"][wanted[whole]]
    has = np.zeros(len(whole), bool)
    data = read.data.lower() if needs.caseless else read.data
    parts = [part.lower() if needs.caseless else part for part in needs.parts]
    for part in [*parts, _BINARY] if needs.binary else parts:
        _mark(data, part, starts.tolist(), ends.tolist(), has)
    if needs.numbers and len(whole):
        at = np.array(_exponents(read.data), np.int64)
        has[np.searchsorted(starts, at, side="right") - 1] = True
    found[whole] = has
    return found


def _mark(data: bytes, part: bytes, starts: list[int], ends: list[int], has: Array) -> None:
    """Mark the messages [start, end) of `data`, ascending, that hold `part`."""
    at = data.find(part)
    while at >= 0:
        go_on()
        i = bisect_right(starts, at) - 1
        if i >= 0 and at + len(part) <= ends[i]:
            has[i] = True
            at = data.find(part, ends[i])
        else:
            at = data.find(part, at + 1)


def _exponents(data: bytes) -> list[int]:
    """Where values that are numbers with an exponent have their letter."""
    raw = np.frombuffer(data, np.uint8)
    letters = np.flatnonzero((raw | 0x20) == ord("e"))
    letters = letters[_DIGITS[raw[letters - 1]]]  # the first byte of all is no letter of a value
    return [at for at in letters.tolist() if _is_a_value(data, at)]


def _is_a_value(data: bytes, letter: int) -> bool:
    """Whether the number around the exponent's letter is as long as the four bytes before it say; the next
    message may begin with a digit."""
    go_on()
    rest = _REST.match(data, letter)
    if rest is None:
        return False
    for start in range(letter - 1, max(letter - _LONGEST, 3), -1):
        if letter + 1 < start + int.from_bytes(data[start - 4 : start], "big") <= rest.end():
            return True
        if data[start] not in b"0123456789.+-":
            break
    return False
