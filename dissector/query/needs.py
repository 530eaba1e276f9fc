"""What the bytes of a message must hold for a condition on a text or a value: so that only messages that
hold it have to be opened.

All client encodings of PostgreSQL have ASCII as it is, so ASCII letters of a text are found in its bytes.
"""

from __future__ import annotations

import re

from .columns import Held
from .patterns import literals
from .values import Item, Literal

_SURE = re.compile(r"[ -\[\]-}]+")
"""ASCII without backslash and tilde, which Japanese encodings have twice."""

_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE]", re.ASCII)
_DIGITS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?\Z", re.ASCII)


def needed(op: str, items: list[Item], value: bool) -> Held | None:
    """What must be there where ``op items`` holds; None where that is not known.

    value: of a row, where numbers without quotes are compared as numbers, and which may be sent in binary.
    """
    if op in ("matches", "~*"):
        return _found(op, items[0], value)
    if op not in ("==", "in", "contains"):
        return None
    parts, numbers = set(), False
    for item in items:
        if not isinstance(item, Literal):
            return None
        part = None
        if value and not item.quoted and op != "contains":
            part = _digits(item.text)
            numbers |= part is not None
        if part is None:
            part = max(_SURE.findall(item.text), key=len, default="")
        if not part:
            return None
        parts.add(part.encode())
    return Held(frozenset(parts), numbers, value)


def _found(op: str, item: Item, value: bool) -> Held | None:
    """What must be there for a regular expression to find something."""
    if not isinstance(item, Literal):
        return None
    caseless = op == "~*"
    texts = literals(item.raw if item.quoted else item.text, caseless)
    parts = {max(_SURE.findall(text), key=len, default="") for text in texts or ("",)}
    if "" in parts:
        return None
    return Held(frozenset(part.encode() for part in parts), binary=value, caseless=caseless)


def _digits(text: str) -> str | None:
    """The digits that every way to write a number without an exponent has; "" where it has one itself,
    None where it is no number."""
    if _EXPONENT.match(text):
        return ""
    match = _DIGITS.match(text)
    if match is None or not any(match.groups()):
        return None
    whole, fraction = (match[1] or "").lstrip("0"), (match[2] or "").rstrip("0")
    return (f"{whole}.{fraction}" if fraction else whole) or "0"
