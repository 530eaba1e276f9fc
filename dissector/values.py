"""Column values: type OID and bytes make a typed value and its text, in text and binary format.

Text is what the server writes (ISO dates, UTC). Names of types are format_type's: ``character
varying(10)``, ``numeric(10,2)``, ``integer[]``. Never raises on content: what does not decode is
shown as hex. Source: the manual's chapter "Data Types" and the servers' own output.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from dissector.binary import ALIASES, decode_binary, guess_binary
from dissector.catalogue.types import TYPES
from dissector.text import decode_text

_NO_TYPES: Mapping[int, str] = {}
WITHOUT_BYTES = {"null": "NULL", "unchanged": "unchanged TOAST", "not sent": "not sent"}


class Value(NamedTuple):
    """A column's value. value: bool, int, float, Decimal, bytes, str or None; text: as the server
    writes it, raw (not made safe for a terminal); type: the type's name; known: False where the binary
    form is not known: `text` is then what the bytes look like (a label, an array, a row) or hex."""

    value: Any
    text: str
    type: str
    known: bool = True


def value(
    type_oid: int,
    type_modifier: int,
    raw: bytes | None,
    state: str = "text",
    encoding: str = "utf-8",
    types: Mapping[int, str] = _NO_TYPES,
) -> Value:
    """The value of a column whose type is `type_oid` with the modifier `type_modifier`.

    state: text, binary, null, unchanged or "not sent", as `dissector.annotate` tells it; encoding: the
    codec of text; types: names of user types by OID, as Type messages told them.
    """
    name = type_name(type_oid, type_modifier, types)
    if state in WITHOUT_BYTES or raw is None:
        return Value(None, WITHOUT_BYTES.get(state, "NULL"), name)
    if state == "binary":
        oid = _resolved(type_oid, types)
        found = decode_binary(oid, raw, encoding)
        guess = guess_binary(raw, encoding) if found is None and oid not in TYPES else None
        if found is None and guess is None:
            return Value(raw, "\\x" + raw.hex(), name, known=False)
        text, typed = found or guess or ("", None)
        return Value(typed, text, name, known=found is not None)
    text = decode_text(raw, encoding)
    return Value(typed_text(_resolved(type_oid, types), text), text, name)


def typed_text(type_oid: int, text: str) -> Any:
    """The Python value of a text in the server's form; the text itself for types without one."""
    try:
        if type_oid == 16:
            return {"t": True, "f": False}.get(text, text)
        if type_oid in (20, 21, 23, 26):
            return int(text)
        if type_oid in (700, 701):
            return float(text)
        if type_oid == 1700:
            return Decimal(text)
        if type_oid == 17 and text.startswith("\\x"):
            return bytes.fromhex(text[2:])
    except (ValueError, InvalidOperation):
        return text
    return text


def _resolved(type_oid: int, types: Mapping[int, str]) -> int:
    """The built-in type behind a domain: its Type message carries the base type's name."""
    if type_oid in TYPES:
        return type_oid
    name = types.get(type_oid, "").removeprefix("pg_catalog.")
    return ALIASES.get(name, type_oid)


def type_name(type_oid: int, modifier: int = -1, types: Mapping[int, str] = _NO_TYPES) -> str:
    """The type's name as the server's format_type writes it; "type 16396" for one not known."""
    built_in = TYPES.get(type_oid)
    if built_in is None:
        name = types.get(type_oid)
        if name is None:
            return f"type {type_oid}"
        return name if modifier < 0 else f"{name}({modifier})"
    if built_in.kind == "array" and built_in.name.endswith("[]"):
        return type_name(built_in.element, modifier, types) + "[]"
    if modifier < 0:
        return {1042: "bpchar", 1560: '"bit"'}.get(type_oid, built_in.name)
    return _with_modifier(type_oid, modifier, built_in.name)


def _with_modifier(type_oid: int, modifier: int, name: str) -> str:
    if type_oid in (1042, 1043):
        return f"{name}({modifier - 4})" if modifier > 4 else name
    if type_oid == 1700:
        if modifier < 4:
            return name
        packed = modifier - 4
        scale = ((packed & 0x7FF) ^ 1024) - 1024
        return f"{name}({(packed >> 16) & 0xFFFF},{scale})"
    if type_oid in (1083, 1114, 1184, 1266):
        first, _, rest = name.partition(" ")
        return f"{first}({modifier}) {rest}"
    if type_oid in (1560, 1562):
        return f"{name}({modifier})"
    if type_oid == 1186:
        return name + _interval_modifier(modifier)
    return name


_INTERVAL_FIELDS = {
    1 << 2: "year",
    1 << 1: "month",
    1 << 3: "day",
    1 << 10: "hour",
    1 << 11: "minute",
    1 << 12: "second",
}


def _interval_modifier(modifier: int) -> str:
    """Which fields an interval has and how many digits: `` day to second(2)``."""
    mask, precision = (modifier >> 16) & 0x7FFF, modifier & 0xFFFF
    named = [name for bit, name in _INTERVAL_FIELDS.items() if mask & bit]
    span = ""
    if mask != 0x7FFF and named:
        span = f" {named[0]}" if len(named) == 1 else f" {named[0]} to {named[-1]}"
    return span if precision == 0xFFFF else f"{span}({precision})"
