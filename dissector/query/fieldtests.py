"""Comparisons with what one field of the catalogue holds, by its kind: numbers, times, text, bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from dissector.spec import Field
from dissector.text import decode_text

from .columns import BOOLEANS, TEXT_OPERATORS
from .errors import QueryError
from .values import (
    SECOND,
    Item,
    Literal,
    fold,
    int_set,
    parse_int,
    parse_lsn,
    text_test,
    time_set,
)

_EPOCH_2000 = 946_684_800 * SECOND
_ENDLESS = {"infinity": 2**63 - 1, "-infinity": -(2**63)}


class Around(Protocol):
    """What a test asks of the message around a value."""

    @property
    def encoding(self) -> str: ...


Test = Callable[[Any, Around], bool]


def field_key(field: Field) -> tuple[Any, ...]:
    """What a field's test depends on; fields themselves have mappings and cannot be hashed."""
    kind = field.kind
    return kind.show, kind.rule, tuple(field.values.values()), tuple(field.flags.values())


def field_test(field: Field, op: str, items: list[Item], position: int) -> Test:
    """``field op items``. Raises QueryError where that cannot be asked of `field`."""
    show = field.kind.show
    if show == "tuple":
        raise QueryError(
            "", position, f"{field.name} is a whole row", 'ask for its columns: column.name == "id"'
        )
    if show in ("text", "bytes"):
        return _bytes_test(show, op, items)
    if op in TEXT_OPERATORS and not (op == "contains" and field.flags):
        raise QueryError(
            "",
            position,
            f"{op} looks into text, and {field.name} is a number",
            "use ==, <, > or in",
        )
    bits = _bits(field)
    if op == "contains":
        first = items[0]
        assert isinstance(first, Literal)
        bit = bits.get(fold(first.text)) or parse_int(first)
        return lambda value, _: isinstance(value, int) and bool(value & bit)
    if show == "timestamp":
        return _timestamp_test(op, items)
    allowed = int_set(op, items, partial(field_int, field, field_words(field)))
    if show == "char":
        digits = [
            i for i in items if isinstance(i, Literal) and i.text.isdecimal() and not i.quoted
        ]
        plain = int_set(op, list(digits), parse_int) if digits else ()
        return lambda value, _: value in allowed or value in plain

    def check(value: Any, _: Around) -> bool:
        if isinstance(value, tuple):
            return any(each in allowed for each in value)
        return isinstance(value, int) and value in allowed

    return check


def _bits(field: Field) -> dict[str, int]:
    """The names of its flags."""
    return {fold(text.partition(":")[0]): bit for bit, text in field.flags.items()}


def field_words(field: Field) -> dict[str, int]:
    """The names of a field's values and flags."""
    words = {
        fold(text.partition(":")[0]): ord(key) if isinstance(key, str) else key
        for key, text in field.values.items()
        if isinstance(key, int) or len(key) == 1
    }
    return words | _bits(field)


def field_int(field: Field, words: dict[str, int], literal: Literal) -> int:
    """The number that `literal` means as a value of `field`; words: its names. Raises QueryError."""
    show, text = field.kind.show, literal.text
    if show == "lsn":
        return parse_lsn(literal)
    if show == "char" and len(text) == 1:
        return ord(text)
    if fold(text) in words:
        return words[fold(text)]
    if show == "bool" and fold(text) in BOOLEANS:
        return BOOLEANS[fold(text)]
    if show == "protocol" and text.count(".") == 1 and text.replace(".", "").isdecimal():
        major, minor = text.split(".")
        return (int(major[:6]) << 16) + int(minor[:6])
    try:
        return parse_int(literal)
    except QueryError as error:
        hint = f"it is a number or one of {', '.join(words)}" if words else error.suggestion
        raise QueryError("", error.position, error.message, hint) from None


def _timestamp_test(op: str, items: list[Item]) -> Test:
    first = items[0]
    if len(items) == 1 and isinstance(first, Literal) and first.text.lower() in _ENDLESS:
        raw = int_set(op, items, lambda literal: _ENDLESS[literal.text.lower()])
        return lambda value, _: value in raw
    times = time_set(op, items)
    return lambda value, _: isinstance(value, int) and (value * 1000 + _EPOCH_2000) in times


def _bytes_test(show: str, op: str, items: list[Item]) -> Test:
    check = text_test(op, items)

    def text(value: Any, facts: Around) -> bool:
        return check(value if isinstance(value, str) else decode_text(value, facts.encoding))

    first = items[0]
    if show == "text" or op not in ("==", "in", "contains"):
        return text
    raws = [_hex(i) for i in items if isinstance(i, Literal)]
    if op == "contains":
        assert isinstance(first, Literal)
        part = _hex(first) or _encoded(first.text)
        return lambda value, facts: (
            (part in value) if isinstance(value, bytes) else text(value, facts)
        )
    return lambda value, facts: value in raws or text(value, facts)


def _hex(literal: Literal) -> bytes | None:
    """Bytes written as 0xdeadbeef without quotes."""
    if literal.quoted or not literal.text.lower().startswith("0x"):
        return None
    try:
        return bytes.fromhex(literal.text[2:]) or None
    except ValueError:
        return None


def _encoded(text: str) -> bytes:
    """`text` as a capture would hold it; bytes of the command line that did not decode stay."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which no encoding has
        return text.encode("utf-8", "surrogatepass")
