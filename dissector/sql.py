"""Passwords that stand in SQL: found so that they can be masked, the text around them stays.

Looks for string literals after the word PASSWORD (CREATE ROLE, ALTER USER, user mappings), and, in any
literal, for a password in a connection string or URI (CREATE SUBSCRIPTION, dblink). SQL is not
parsed: a password in another place is not known for one.
"""

from __future__ import annotations

import re

from .inside import leaf, named
from .node import Node

_HINT = re.compile(rb"password|://", re.IGNORECASE)
_LITERAL = re.compile(
    rb"[eE]'((?:[^'\\]|\\.|'')*)'?|'((?:[^']|'')*)'?|\$(\w*)\$(.*?)(?:\$\3\$|\Z)", re.DOTALL
)
_BEFORE = re.compile(rb"\bpassword\s*(?:=>|=|,)?\s*\Z", re.IGNORECASE)
_INSIDE = re.compile(
    rb"\bpassword\s*=\s*('{1,2}(?:[^'\\]|\\.)*'{1,2}|[^\s'&]+)|://[^:/@\s']*:([^@\s'/]+)@",
    re.IGNORECASE,
)

_TEXT = named("sql", "Text of the statement.", text=True)
_PASSWORD = named("password", "A password in the statement.", text=True, secret=True)


def passwords(text: bytes) -> list[tuple[int, int]]:
    """(start, end) of each password in a statement, ascending."""
    if not _HINT.search(text):
        return []
    found: list[tuple[int, int]] = []
    for match in _LITERAL.finditer(text):
        group = next((g for g in (1, 2, 4) if match[g] is not None), 0)
        low, high = match.span(group)
        if _BEFORE.search(text, max(0, match.start() - 64), match.start()):
            found.append((low, high))
            continue
        for inner in _INSIDE.finditer(match[group]):
            start, end = inner.span(1 if inner[1] is not None else 2)
            found.append((low + start, low + end))
    return [(low, high) for low, high in found if high > low]


def parts(data: bytes, start: int, end: int) -> list[Node]:
    """The nodes that tile ``data[start:end]``, a statement with its zero byte; [] without a password."""
    spans = passwords(data[start:end].rstrip(b"\0"))
    nodes: list[Node] = []
    at = start
    for low, high in spans:
        nodes.append(leaf(_TEXT, data, at, start + low))
        nodes.append(leaf(_PASSWORD, data, start + low, start + high))
        at = start + high
    if nodes:
        nodes.append(leaf(_TEXT, data, at, end, data[at:end].rstrip(b"\0")))
    return nodes
