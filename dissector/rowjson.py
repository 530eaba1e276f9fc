"""JSON of the columns of row messages, as bytes, by what `dissector.tuples` took apart.

What is known of each column is the text between its numbers, which is kept by its place in the message,
and the value's own bytes where JSON, a terminal and quotes leave them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

from .cells import KEEPER, ColumnCell
from .display import quote_text
from .records import dumps
from .taken import NULLS, RUN, Piece, Tuple, UnusualError, Variant
from .text import decode_text, is_visible

Places = tuple[tuple[int, bool], ...]

KEPT = 4096
"""Columns by number and state whose texts are kept."""

LONG = 4096
"""Bytes of a value from which on nothing is taken for granted: int() refuses some more digits."""

_UNIT = Struct(">BI").unpack_from
_TEXT = ord("t")
_has_unsafe = re.compile(rb"[^ !#-&(-\[\]-~]").search
"""The opposite of `is_safe`, and quicker."""

_is_integer = re.compile(rb"-?[0-9]{1,4000}\Z").match
_is_float = re.compile(rb"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:e[+-][0-9]{2,3})?\Z").match


class NotKnownError(Exception):
    """A column's state was not seen before."""


class _Sizes(dict[int, bytes]):
    """Text around a value's length by that length, kept for usual ones."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before.encode(), after.encode()

    def __missing__(self, size: int) -> bytes:
        length = b"%d" % size
        found = length + self.before + length + self.after if self.before else length + self.after
        if size < LONG:
            KEEPER.keep(self, 128 + len(found))
            self[size] = found
        return found


@lru_cache(64)
def _sizes(before: str, after: str) -> _Sizes:
    return _Sizes(before, after)


class _Places(dict[int, tuple[bytes, bytes]]):
    """By a column's place in the message, what stands before its value: up to the length, and from there
    to the value's own; `lengths` and `ends` is what comes after each of them. `known` has all of it by
    `key` of the place and the length, for usual ones. The same for all tables."""

    def __init__(self, text: str, places: Places, layer: int, ending: str) -> None:
        parts, of = _parted("," + text.replace("%%", "\0") + ending, places)
        if len(parts) != 4 or of[1] or of[3]:
            raise UnusualError
        self.first = _Text(parts[0], of[0], layer)
        self.second = _Text(parts[2], of[2], layer)
        self.lengths = _sizes(parts[1].replace("\0", "%"), "")
        self.ends = _sizes("", parts[3].replace("\0", "%"))
        self.known: dict[int, bytes] = {}

    def made(self, at: int, size: int) -> bytes:
        """What stands before a value of `size` bytes of the column at `at`."""
        first, second = self[at]
        return b"".join((first, self.lengths[size], second, self.ends[size]))

    def short(self, at: int, size: int) -> bytes:
        """The same, kept. Raises IndexError for a long value."""
        if size >= LONG:
            raise IndexError
        found = self.made(at, size)
        KEEPER.keep(self.known, 128 + len(found))
        self.known[at << 32 | size] = found
        return found

    def __missing__(self, at: int) -> tuple[bytes, bytes]:
        found = self.first.at(at), self.second.at(at)
        KEEPER.keep(self, 256 + len(found[0]) + len(found[1]))
        self[at] = found
        return found


class _Place(dict[int, tuple[bytes, bytes]]):
    """By a column's place, what is written of it where it has no value, around its name. The same for all
    tables."""

    def __init__(self, first: str, second: str, places: Places, layer: int) -> None:
        count = first.replace("%%", "").count("%d")
        self.first = _Text("," + first.replace("%%", "\0"), list(places[:count]), layer)
        self.second = _Text(second.replace("%%", "\0"), list(places[count:]), layer)

    def __missing__(self, at: int) -> tuple[bytes, bytes]:
        found = self.first.at(at), self.second.at(at)
        KEEPER.keep(self, 256 + len(found[0]) + len(found[1]))
        self[at] = found
        return found


class _Text:
    """Text with places in it."""

    def __init__(self, text: str, places: list[tuple[int, bool]], layer: int) -> None:
        self.text = text.replace("\0", "%%")
        self.places = [offset - (layer if inner else 0) for offset, inner in places]

    def at(self, at: int) -> bytes:
        return (self.text % tuple([at + place for place in self.places])).encode()


_places = lru_cache(KEPT)(_Places)
_place = lru_cache(KEPT)(_Place)


def _parted(text: str, places: Places) -> tuple[list[str], list[list[tuple[int, bool]]]]:
    """`text` split where lengths go, and the places in each part."""
    parts: list[str] = [text]
    of: list[list[tuple[int, bool]]] = [[]]
    for offset, inner in places:
        if offset < 0:
            of.append([])
            parts[-1:] = _split(parts[-1], len(of[-2]))
        else:
            of[-1].append((offset, inner))
    return parts, of


def _split(text: str, number: int) -> tuple[str, str]:
    """Around the `number`-th "%d", counted from 0."""
    at = -1
    for _ in range(number + 1):
        at = text.index("%d", at + 1)
    return text[:at], text[at + 2 :]


class _Unknown:
    """A column that was not seen with a value yet."""

    def short(self, at: int, size: int) -> bytes:
        raise NotKnownError


class _Long:
    """_Places for values of any length."""

    def __init__(self, places: _Places) -> None:
        self.short = places.made


def _never(value: bytes) -> bool:
    return False


def _is_plain(encoding: str) -> Callable[[bytes], bool]:
    """A test for text that JSON, a terminal and quotes leave as it is."""
    unsafe = _has_unsafe
    if encoding != "utf-8":
        return lambda value: not unsafe(value)

    def is_plain(value: bytes) -> bool:
        if not unsafe(value):
            return True
        if value.isascii() or b"'" in value or b'"' in value:
            return False
        try:
            return is_visible(value.decode())
        except UnicodeDecodeError:
            return False

    return is_plain


Texts = Callable[[bytes], tuple[bytes, bytes, bytes, bytes]]

Column = tuple[
    dict[int, bytes], Any, Callable[[bytes], Any], Callable[[bytes], Any], Texts,
    bytes, bytes, dict[int, Any],
]  # fmt: skip
"""What is before the value by its place and length, and the _Places that make it; whether the value may
stand as it is, by the quick and by the sure test; else what stands for it; what is between value and display,
and after it; and what is known of other states: a _Place and the column's name, or what to do with a value
whose texts are complete."""


def _column(kinds: dict[int, Piece], layer: int, encoding: str) -> Column:
    others: dict[int, Any] = {}
    found: Column | None = None
    for kind, piece in kinds.items():
        cell = piece.cell
        if cell is None:
            first, named, last = piece.texts
            name = named.replace("%%", "%").encode()
            others[kind] = _place(first, last, piece.places, layer), name
        elif kind == _TEXT and isinstance(cell, ColumnCell):
            mark = b"'" if cell.quotes else b""
            fast: Callable[[bytes], Any] = bytes.isalnum if cell.quotes else bytes.isdigit
            check = (
                _is_plain(encoding) if cell.quotes else _is_integer if cell.numeric else _is_float
            )
            middle, rest = b'"' + piece.middle + b'"', b'"' + piece.rest
            places = _places(piece.texts[0], piece.places, layer, '"')
            found = (
                places.known, places, fast, check, _texts(cell, encoding, middle, rest),
                middle + mark, mark + rest, others,
            )  # fmt: skip
        else:
            before = _places(piece.texts[0], piece.places, layer, "")
            others[kind] = (before, cell, piece.middle, piece.rest)
    return found or ({}, _Unknown(), _never, _never, _no_texts, b"", b"", others)


def _no_texts(value: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    raise NotKnownError


def _texts(cell: ColumnCell, encoding: str, middle: bytes, rest: bytes) -> Texts:
    """A function from a value's bytes to its JSON, `middle`, that of its display, and `rest`."""

    def texts(value: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        if cell.quotes:
            text = decode_text(value, encoding)
            if is_visible(text):
                json = text.encode().replace(b'"', b'\\"')
                return json, middle, b"'" + json.replace(b"'", b"''") + b"'", rest
            if text.isascii():  # controls and backslashes
                shown = dumps(quote_text(text))[1:-1].encode()
                return dumps(text)[1:-1].encode(), middle, shown, rest
        known = cell.known.get(value) or cell.texts(value)
        return known[0][1:-1].encode(), middle, known[1][1:-1].encode(), rest

    return texts


class Columns:
    """Writes the columns of the tuples of row messages that begin with one letter."""

    def __init__(self, variant: Variant, layer: int, encoding: str) -> None:
        self.variant = variant
        self.encoding = encoding
        self.first = variant.flat.numbers.size
        self.layer = layer
        self.tuples: list[tuple[Tuple, list[list[Column]]]] = []
        self.known: list[list[int]] = []
        for each in variant.tuples:
            columns = [_column(kinds, layer, encoding) for kinds in each.pieces]
            step = RUN if len(columns) >= 2 * RUN else len(columns) or 1
            parts = [columns[i : i + step] for i in range(0, len(columns), step)]
            self.tuples.append((each, parts))
            self.known.append([len(kinds) for kinds in each.pieces])

    def take(self) -> None:
        """Take over what was learned of columns."""
        for (each, parts), known in zip(self.tuples, self.known, strict=True):
            for i, kinds in enumerate(each.pieces):
                if len(kinds) != known[i]:
                    known[i] = len(kinds)
                    part, place = divmod(i, len(parts[0]))
                    parts[part][place] = _column(kinds, self.layer, self.encoding)

    def write(self, message: bytes, out: list[bytes]) -> int:
        """Append the columns of `message`; where they end. Raises NotKnownError, and struct.error where a
        length points behind the message."""
        at = self.first
        for each, parts in self.tuples:
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
                    at = _write(part, message, at, out)
                except IndexError:  # a long value
                    del out[mark:]
                    at = _write(_careful(part), message, at, out)
            if each.between is not None:
                out.append(each.between.at(at, 0, self.layer))
                at += each.skip
        return at


def _careful(columns: list[Column]) -> list[Column]:
    """The same for values of any length: each by the sure test."""
    return [
        (
            {},
            _Long(places) if isinstance(places, _Places) else places,
            _never,
            check,
            texts,
            middle,
            rest,
            others,
        )
        for _, places, _, check, texts, middle, rest, others in columns
    ]


def _write(columns: list[Column], message: bytes, at: int, out: list[bytes]) -> int:
    """Append columns of `message` from `at` on; where the next one is. IndexError: a value is too long
    for the quick test."""
    unit = _UNIT
    for known, places, fast, check, texts, middle, rest, others in columns:
        kind, size = unit(message, at)
        if kind == _TEXT:
            before = known.get(at << 32 | size) or places.short(at, size)
            at += 5
            end = at + size
            value = message[at:end]
            at = end
            if fast(value) or check(value):
                out += (before, value, middle, value, rest)
            else:
                out.append(before)
                out += texts(value)
            continue
        other = others.get(kind)
        if other is None:
            raise NotKnownError
        if len(other) == 2:
            place, name = other
            first, second = place[at]
            out += (first, name, second)
            at += 1
            continue
        beside, cell, after, last = other
        end = at + 5 + size
        value = message[at + 5 : end]
        told = cell.known.get(value) or cell.texts(value)
        out += (beside.made(at, size), told[0].encode(), after, told[1].encode(), last)
        at = end
    return at
