"""JSON of one column of row messages in one state, as bytes, by what `dissector.prototypes` took apart.

What is known of it is the text between its numbers, and the value's own bytes where JSON, a terminal and
quotes leave them as they are. `dissector.rowcolumns` writes the columns of many rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .cells import KEEPER, ColumnCell, is_safe
from .display import quote_text
from .records import dumps
from .taken import Piece, UnusualError
from .text import decode_text, is_visible

Places = tuple[tuple[int, bool], ...]

KEPT = 4096
"""Columns by number and state whose texts are kept."""

LONG = 4096
"""Bytes of a value from which on nothing is taken for granted: int() refuses some more digits."""

NO_DIGIT, UNSAFE, EMPTY, ANY = 1, 2, 4, 128
"""What a value may have: a byte that is no digit, one that is not safe, none at all; all have the last."""

CLASSES = bytes(
    ANY | NO_DIGIT * (chr(i) not in "0123456789") | UNSAFE * (is_safe(bytes([i])) is None)
    for i in range(256)
)
"""For bytes.translate: what each byte gives to a value that has it."""

_TEXT = ord("t")
_is_integer = re.compile(rb"-?[0-9]{1,4000}\Z").match
_is_float = re.compile(rb"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:e[+-][0-9]{2,3})?\Z").match


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
    to the value's own; `lengths` and `ends` is what comes after each of them. The same for all tables."""

    def __init__(self, text: str, places: Places, layer: int, ending: str) -> None:
        parts, of = _parted("," + text.replace("%%", "\0") + ending, places)
        if len(parts) != 4 or of[1] or of[3]:
            raise UnusualError
        self.first = _Text(parts[0], of[0], layer)
        self.second = _Text(parts[2], of[2], layer)
        self.lengths = _sizes(parts[1].replace("\0", "%"), "")
        self.ends = _sizes("", parts[3].replace("\0", "%"))

    def made(self, at: int, size: int) -> bytes:
        """What stands before a value of `size` bytes of the column at `at`."""
        first, second = self[at]
        return b"".join((first, self.lengths[size], second, self.ends[size]))

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


Texts = Callable[[bytes], tuple[bytes, bytes, bytes, bytes]]


@dataclass(slots=True)
class Item:
    """What is written of a column in one state.

    before: of its place in the message and its value's length, what stands before the value, all of it
    where there is none; like: the same object for all whose `before` gives the same. Where the value has
    nothing of `mask` follow itself, `middle`, itself again, and `rest`; else its `texts`.
    """

    before: Callable[[int, int], bytes]
    like: object = None
    mask: int = 0
    texts: Texts | None = None
    middle: bytes = b""
    rest: bytes = b""


def item_of(kind: int, piece: Piece, layer: int, encoding: str) -> Item:
    """The Item of a piece, whose state is that of the byte `kind`."""
    cell = piece.cell
    if cell is None:
        return Item(lambda at, size: piece.made(at, 0, layer))
    if kind == _TEXT and isinstance(cell, ColumnCell):
        mark = b"'" if cell.quotes else b""
        middle, rest = b'"' + piece.middle + b'"', b'"' + piece.rest
        places = _places(piece.texts[0], piece.places, layer, '"')
        mask = UNSAFE if cell.quotes else NO_DIGIT | EMPTY
        texts = _texts(cell, encoding, middle, rest)
        return Item(places.made, places, mask, texts, middle + mark, mark + rest)
    places = _places(piece.texts[0], piece.places, layer, "")

    def told(value: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        found = cell.texts(value)
        return found[0].encode(), piece.middle, found[1].encode(), piece.rest

    return Item(places.made, places, ANY, told)


def _texts(cell: ColumnCell, encoding: str, middle: bytes, rest: bytes) -> Texts:
    """A function from a value's bytes to its JSON, `middle`, that of its display, and `rest`."""

    plain = _is_integer if cell.numeric else _is_float

    def texts(value: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        if cell.quotes:
            text = decode_text(value, encoding)
            if text.isascii() and text.isprintable():  # quotes and backslashes
                value = text.encode()
                json = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
                shown = value.replace(b"\\", b"\\\\\\\\").replace(b'"', b'\\"')
                return json, middle, b"'" + shown.replace(b"'", b"''") + b"'", rest
            if is_visible(text):
                json = text.encode().replace(b'"', b'\\"')
                return json, middle, b"'" + json.replace(b"'", b"''") + b"'", rest
            if text.isascii():  # controls
                shown = dumps(quote_text(text))[1:-1].encode()
                return dumps(text)[1:-1].encode(), middle, shown, rest
        elif plain(value):
            return value, middle, value, rest
        known = cell.known.get(value) or cell.texts(value)
        return known[0][1:-1].encode(), middle, known[1][1:-1].encode(), rest

    return texts
