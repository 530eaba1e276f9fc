"""JSON of the columns of row messages, as bytes, by what `dissector.tuples` took apart.

What is known of each column is the text between its numbers, which is kept by its place in the message,
and the value's own bytes where JSON, a terminal and quotes leave them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import Struct
from typing import Any

import orjson

from .cells import KEEPER, ColumnCell, is_safe
from .taken import NULLS, RUN, Piece, Tuple, Variant
from .text import decode_text, visible

LONG = 4096
"""Bytes of a value from which on nothing is taken for granted: int() refuses some more digits."""

DECIMALS = [b"%d" % n for n in range(LONG)]

_UNIT = Struct(">BI").unpack_from
_TEXT = ord("t")
_is_integer = re.compile(rb"-?[0-9]{1,4000}\Z").match
_is_float = re.compile(rb"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:e[+-][0-9]{2,3})?\Z").match


class NotKnownError(Exception):
    """A column's state was not seen before."""


class _Places(dict[int, tuple[bytes, ...]]):
    """By a column's place in the message, what stands before its value, split where the value's length
    goes."""

    def __init__(self, piece: Piece, layer: int, ending: str = "") -> None:
        self.layer = layer
        self.of: list[list[tuple[int, bool]]] = [[]]
        parts = ["," + piece.texts[0].replace("%%", "\0") + ending]
        for offset, inner in piece.places:
            if offset < 0:
                self.of.append([])
                before, after = _split(parts[-1], len(self.of[-2]))
                parts[-1:] = [before, after]
            else:
                self.of[-1].append((offset, inner))
        self.parts = [part.replace("\0", "%%") for part in parts]

    def __missing__(self, at: int) -> tuple[bytes, ...]:
        found = tuple(
            (
                part % tuple(at + offset - (self.layer if inner else 0) for offset, inner in of)
            ).encode()
            for part, of in zip(self.parts, self.of, strict=True)
        )
        KEEPER.keep(self, 256 + sum(map(len, found)))
        self[at] = found
        return found


def _split(text: str, number: int) -> tuple[str, str]:
    """Around the `number`-th "%d", counted from 0."""
    at = -1
    for _ in range(number + 1):
        at = text.index("%d", at + 1)
    return text[:at], text[at + 2 :]


class _Place(dict[int, bytes]):
    """By a column's place, all that is written of it where it has no value."""

    def __init__(self, piece: Piece, layer: int) -> None:
        self.piece, self.layer = piece, layer

    def __missing__(self, at: int) -> bytes:
        found = self.piece.made(at, 0, self.layer)
        KEEPER.keep(self, 128 + len(found))
        self[at] = found
        return found


class _Unknown(dict[int, tuple[bytes, ...]]):
    """A column that was not seen with a value yet."""

    def __missing__(self, at: int) -> tuple[bytes, ...]:
        raise NotKnownError


def _never(value: bytes) -> bool:
    return False


Texts = Callable[[bytes], tuple[bytes, bytes]]

Column = tuple[
    dict[int, tuple[bytes, ...]], Callable[[bytes], Any], Callable[[bytes], Any], Texts,
    bytes, bytes, bytes, bytes, dict[int, Any],
]  # fmt: skip
"""What is before the value; whether the value may stand as it is, by the quick and by the sure test; else
its texts, without their quotes; between value and display, and after it, for both cases; and what is
known of other states: a _Place, or what to do with a value whose texts are complete."""


def _column(kinds: dict[int, Piece], layer: int, encoding: str) -> Column:
    others: dict[int, Any] = {}
    found: Column | None = None
    for kind, piece in kinds.items():
        cell = piece.cell
        if cell is None:
            others[kind] = _Place(piece, layer)
        elif kind == _TEXT and isinstance(cell, ColumnCell):
            mark = b"'" if cell.quotes else b""
            fast: Callable[[bytes], Any] = bytes.isalnum if cell.quotes else bytes.isdigit
            check = is_safe if cell.quotes else _is_integer if cell.numeric else _is_float
            middle, rest = b'"' + piece.middle + b'"', b'"' + piece.rest
            found = (
                _Places(piece, layer, '"'), fast, check, _texts(cell, encoding),
                middle + mark, mark + rest, middle, rest, others,
            )  # fmt: skip
        else:
            others[kind] = (_Places(piece, layer), cell, piece.middle, piece.rest)
    return found or (
        _Unknown(), _never, _never, lambda value: (b"", b""), b"", b"", b"", b"", others,
    )  # fmt: skip


def _texts(cell: ColumnCell, encoding: str) -> Texts:
    """A function from a value's bytes to its JSON and that of its display, both without the quotes."""

    def texts(value: bytes) -> tuple[bytes, bytes]:
        if cell.quotes:
            text = decode_text(value, encoding)
            if visible(text) == text:
                json = orjson.dumps(text)[1:-1]
                return json, b"'" + json.replace(b"'", b"''") + b"'"
        known = cell.known.get(value) or cell.texts(value)
        return known[0][1:-1].encode(), known[1][1:-1].encode()

    return texts


class _Decimals(dict[int, bytes]):
    """Numbers of any size as text."""

    def __missing__(self, number: int) -> bytes:
        return b"%d" % number


class Columns:
    """Writes the columns of the tuples of row messages that begin with one letter."""

    def __init__(self, variant: Variant, layer: int, encoding: str) -> None:
        self.variant = variant
        self.encoding = encoding
        self.first = variant.flat.numbers.size
        self.layer = layer
        self.tuples: list[tuple[Tuple, list[list[Column]], _Place | None]] = []
        self.known: list[list[int]] = []
        for each in variant.tuples:
            columns = [_column(kinds, layer, encoding) for kinds in each.pieces]
            step = RUN if len(columns) >= 2 * RUN else len(columns) or 1
            parts = [columns[i : i + step] for i in range(0, len(columns), step)]
            between = _Place(each.between, layer) if each.between is not None else None
            self.tuples.append((each, parts, between))
            self.known.append([len(kinds) for kinds in each.pieces])

    def take(self) -> None:
        """Take over what was learned of columns."""
        for (each, parts, _), known in zip(self.tuples, self.known, strict=True):
            for i, kinds in enumerate(each.pieces):
                if len(kinds) != known[i]:
                    known[i] = len(kinds)
                    part, place = divmod(i, len(parts[0]))
                    parts[part][place] = _column(kinds, self.layer, self.encoding)

    def write(self, message: bytes, out: list[bytes]) -> int:
        """Append the columns of `message`; where they end. Raises NotKnownError, and struct.error where a
        length points behind the message."""
        at = self.first
        for each, parts, between in self.tuples:
            number = 0
            for part in parts:
                if len(part) == RUN and message.startswith(NULLS, at):
                    nulls = each.nulls(number, at, self.layer)
                    if nulls:
                        out.append(nulls)
                        at += RUN
                        number += RUN
                        continue
                number += len(part)
                mark = len(out)
                try:
                    at = _write(part, message, at, out, DECIMALS)
                except IndexError:  # a long value
                    del out[mark:]
                    at = _write(_careful(part), message, at, out, _Decimals())
            if between is not None:
                out.append(between[at])
                at += each.skip
        return at


def _careful(columns: list[Column]) -> list[Column]:
    """The same, every value by the sure test."""
    return [(column[0], _never, *column[2:]) for column in columns]


def _write(columns: list[Column], message: bytes, at: int, out: list[bytes], decimals: Any) -> int:
    """Append columns of `message` from `at` on; where the next one is. IndexError: a value is too long
    for the quick test and for `decimals`."""
    unit, add = _UNIT, out.append
    for places, fast, check, texts, middle, rest, middle_2, rest_2, others in columns:
        kind, size = unit(message, at)
        if kind == _TEXT:
            a, b, c, d = places[at]
            at += 5
            length = decimals[size]
            end = at + size
            value = message[at:end]
            at = end
            if fast(value) or check(value):
                out += (a, length, b, length, c, length, d, value, middle, value, rest)
            else:
                value, shown = texts(value)
                out += (a, length, b, length, c, length, d, value, middle_2, shown, rest_2)
            continue
        other = others.get(kind)
        if other is None:
            raise NotKnownError
        if type(other) is _Place:
            add(other[at])
            at += 1
            continue
        places, cell, before, after = other
        a, b, c, d = places[at]
        length = b"%d" % size
        value = message[at + 5 : at + 5 + size]
        at += 5 + size
        known = cell.known.get(value) or cell.texts(value)
        out += (a, length, b, length, c, length, d)
        out += (known[0].encode(), before, known[1].encode(), after)
    return at
