"""The binary format of the built-in types: bytes to (text, value), text as the server writes it.

Source: the types' send functions as the servers run them; each decoder was checked against the text
that a server gives for the same value. Malformed bytes give None, never an exception.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from dissector.binary_scalars import DECODERS, Input, MalformedError, Result
from dissector.catalogue.types import TYPES
from dissector.text import decode_text

RECORD = 2249
"""OID of a composite value without a type of its own."""

MAX_DEPTH = 12
"""Arrays, ranges and records inside each other: deeper values are shown as hex."""

ALIASES = {
    "bool": 16, "bytea": 17, "char": 18, "name": 19, "int8": 20, "int2": 21, "int4": 23,
    "text": 25, "oid": 26, "json": 114, "xml": 142, "point": 600, "cidr": 650, "float4": 700,
    "float8": 701, "money": 790, "macaddr": 829, "inet": 869, "bpchar": 1042, "varchar": 1043,
    "date": 1082, "time": 1083, "timestamp": 1114, "timestamptz": 1184, "interval": 1186,
    "timetz": 1266, "bit": 1560, "varbit": 1562, "numeric": 1700, "uuid": 2950, "jsonb": 3802,
}  # fmt: skip
"""pg_type.typname -> OID of the types that a domain is likely to be based on."""


def decode_binary(type_oid: int, raw: bytes, encoding: str = "utf-8") -> Result | None:
    """(text, Python value) of `raw` in the binary format of `type_oid`; None if it does not fit."""
    if type_oid not in TYPES:
        return None
    try:
        return _decode(type_oid, Input(raw, encoding, 0))
    except (MalformedError, struct.error, IndexError, ValueError, OverflowError):
        return None


def guess_binary(raw: bytes, encoding: str = "utf-8") -> Result | None:
    """(text, value) of a user type's binary form, by what the bytes are; None if nothing fits.

    Arrays and composite values prove themselves by their lengths; an enum's binary form is its label,
    so bytes that are printable text are taken for that.
    """
    try:
        return _guess(Input(raw, encoding, 0))
    except (MalformedError, struct.error, IndexError, ValueError, OverflowError):
        return None


def _guess(given: Input) -> Result:
    if given.depth > MAX_DEPTH:
        raise MalformedError
    for read in (lambda: _array(0, given), lambda: _record(given)):
        try:
            return read()
        except (MalformedError, struct.error, IndexError, ValueError, OverflowError):
            continue
    text = decode_text(given.raw, given.encoding)
    if not text.isprintable():
        raise MalformedError
    return text, text


def _decode(type_oid: int, given: Input) -> Result:
    built_in = TYPES.get(type_oid)
    if built_in is None:
        return _guess(given)
    if given.depth > MAX_DEPTH:
        raise MalformedError
    if built_in.kind == "array":
        return _array(type_oid, given)
    if built_in.kind == "range":
        return _range(built_in.element, given)
    if built_in.kind == "multirange":
        return _multirange(built_in.element, given)
    if type_oid == RECORD:
        return _record(given)
    decoder = DECODERS.get(type_oid)
    if decoder is None:
        raise MalformedError
    return decoder(given)


def _take(raw: bytes, at: int) -> tuple[bytes | None, int]:
    """The bytes after an Int32 length at `at`, and where they end; None for the length -1."""
    (size,) = struct.unpack_from(">i", raw, at)
    at += 4
    if size == -1:
        return None, at
    if size < 0 or at + size > len(raw):
        raise MalformedError
    return raw[at : at + size], at + size


_QUOTE_ARRAY = re.compile(r'[ \t\n\r\v\f"\\{}]')
_QUOTE_RECORD = re.compile(r'[ \t\n\r\v\f"\\(),]')
_QUOTE_RANGE = re.compile(r'[ \t\n\r\v\f"\\()\[\],]')


def _in_array(text: str, delimiter: str) -> str:
    if not text or text.upper() == "NULL" or _QUOTE_ARRAY.search(text) or delimiter in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def _in_record(text: str, pattern: re.Pattern[str]) -> str:
    if not text or pattern.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text


def _array(type_oid: int, given: Input) -> Result:
    raw = given.raw
    dimensions, _, element = struct.unpack_from(">iiI", raw)
    if not 0 <= dimensions <= 6 or 12 + 8 * dimensions > len(raw):
        raise MalformedError
    sizes = [struct.unpack_from(">ii", raw, 12 + 8 * n) for n in range(dimensions)]
    total = 1 if dimensions else 0
    for size, _lower in sizes:
        total *= size
    if total < 0 or total * 4 > len(raw):
        raise MalformedError
    at = 12 + 8 * dimensions
    texts: list[str | None] = []
    values: list[Any] = []
    for _ in range(total):
        item, at = _take(raw, at)
        found = (
            (None, None)
            if item is None
            else _decode(element, Input(item, given.encoding, given.depth + 1))
        )
        texts.append(found[0])
        values.append(found[1])
    if at != len(raw):
        raise MalformedError
    if type_oid in (22, 30):
        return " ".join(str(text) for text in texts), values
    if not total:
        return "{}", []
    delimiter = ";" if element == 603 else ","
    shown = ["NULL" if text is None else _in_array(text, delimiter) for text in texts]
    for size, _lower in reversed(sizes):
        shown = [
            "{" + delimiter.join(shown[n : n + size]) + "}" for n in range(0, len(shown), size)
        ]
        values = [values[n : n + size] for n in range(0, len(values), size)]
    bounds = ""
    if any(lower != 1 for _, lower in sizes):
        bounds = "".join(f"[{lower}:{lower + size - 1}]" for size, lower in sizes) + "="
    return bounds + shown[0], values[0]


def _range(subtype: int, given: Input) -> Result:
    flags = given.raw[0]
    if flags & 1:
        if len(given.raw) != 1:
            raise MalformedError
        return "empty", "empty"
    at = 1
    sides = []
    for infinite in (flags & 8, flags & 16):
        text = ""
        if not infinite:
            item, at = _take(given.raw, at)
            if item is None:
                raise MalformedError
            found = _decode(subtype, Input(item, given.encoding, given.depth + 1))[0]
            text = _in_record(found, _QUOTE_RANGE)
        sides.append(text)
    if at != len(given.raw) or flags & ~0x1F:
        raise MalformedError
    opened = "[" if flags & 2 else "("
    closed = "]" if flags & 4 else ")"
    text = f"{opened}{sides[0]},{sides[1]}{closed}"
    return text, text


def _multirange(range_oid: int, given: Input) -> Result:
    (count,) = struct.unpack_from(">i", given.raw)
    if count < 0 or count * 5 > len(given.raw):
        raise MalformedError
    at, parts = 4, []
    for _ in range(count):
        item, at = _take(given.raw, at)
        if item is None:
            raise MalformedError
        parts.append(_decode(range_oid, Input(item, given.encoding, given.depth + 1))[0])
    if at != len(given.raw):
        raise MalformedError
    text = "{" + ",".join(parts) + "}"
    return text, text


def _record(given: Input) -> Result:
    (count,) = struct.unpack_from(">i", given.raw)
    if count < 0 or count * 8 > len(given.raw):
        raise MalformedError
    at, parts = 4, []
    for _ in range(count):
        (oid,) = struct.unpack_from(">I", given.raw, at)
        item, at = _take(given.raw, at + 4)
        if item is None:
            parts.append("")
        else:
            found = _decode(oid, Input(item, given.encoding, given.depth + 1))[0]
            parts.append(_in_record(found, _QUOTE_RECORD))
    if at != len(given.raw):
        raise MalformedError
    text = f"({','.join(parts)})"
    return text, text
