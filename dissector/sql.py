"""Passwords that stand in SQL: found so that they can be masked, the text around them stays.

Looks for string literals after the word PASSWORD (CREATE ROLE, ALTER USER, user mappings) and its kin,
and, in any literal, for a password in a connection string or URI (CREATE SUBSCRIPTION, dblink) or in
the SQL that it holds (DO, EXECUTE, function bodies). SQL is not parsed: a password in another place
is not known for one. Sources: the manual's "Lexical Structure" and libpq's "Connection Strings".
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from .inside import leaf, named
from .node import Node

_HINTS = b"passw", b"://", b"secret", b"scram_"
_HINT = re.compile(b"|".join(_HINTS), re.IGNORECASE)
_WORDS = rb"(?:ssl)?password|passwd|scram_client_key|scram_server_key|(?:oauth_)?client_secret"
_LITERAL = (
    rb"(?P<prefix>[uU]&|[eEnN])?'(?P<quoted>(?:[^'\\]|''|%s)*)'?"
    rb"|\$(?P<tag>[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$(?P<dollar>.*?)(?:\$(?(tag)(?P=tag)|)\$|\Z)"
)
_NEXT = rb"(?P<gap>\s+|--[^\n]*|/\*.*?(?:\*/|\Z)|:=|[=,(>])|(?P<word>[\w\x80-\xff]+|\"[^\"]*\"?)|."
_TOKENS = re.compile(
    rb"(?P<escaped>[eE]'(?P<backslash>(?:[^'\\]|\\.|'')*)'?)|"
    + _LITERAL.replace(b"%s", rb"\\") + rb"|" + _NEXT,
    re.DOTALL,
)  # fmt: skip
_PASSWORD_WORD = re.compile(rb"\"?(?:" + _WORDS + rb")\"?\Z", re.IGNORECASE)
_INSIDE = re.compile(
    rb"\b(?:" + _WORDS + rb")\s*=\s*('{1,2}(?:[^'\\]|\\.)*'{1,2}|[^\s'&\"]+)"
    rb"|://[^:/@\s']*:([^@\s'/]+)@",
    re.IGNORECASE,
)

_DEEPEST = 4
"""Literals in literals that are looked into."""

_TEXT = named("sql", "Text of the statement.", text=True)
_TOLD = named("text", "Text before or after a password.", text=True)
_PASSWORD = named("password", "A password in the statement.", text=True, secret=True)


def passwords(text: bytes, prose: bool = False) -> list[tuple[int, int]]:
    """(start, end) of each password in a statement, ascending; `prose`: in what a server tells, where SQL
    stands in double quotes."""
    if not _HINT.search(text):
        return []
    whole = text.replace(b'"', b" ") if prose else text
    found = set(_walk(whole, 0))
    if prose:
        found |= {m.span(1 if m[1] is not None else 2) for m in _INSIDE.finditer(text)}
    merged: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        elif high > low:
            merged.append((low, high))
    return merged


def hinted(data: bytes, begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Which of the texts from `begins` to `ends` in `data`, ascending, and apart or the same, a password may
    stand in: in all others there is none."""
    if not begins:
        return []
    low = begins[0]
    found: set[int] = set()
    text = data[low : ends[-1]].lower()
    for hint in _HINTS:
        at = text.find(hint)
        while at >= 0:
            place = bisect_right(begins, at + low) - 1
            found.update(range(bisect_left(begins, begins[place]), place + 1))
            at = text.find(hint, max(at + 1, ends[place] - low))
    return sorted(found)


def _walk(text: bytes, depth: int) -> Iterator[tuple[int, int]]:
    """Spans in `text`; a literal may go on in the next one, which stands in another line."""
    armed = False
    for match in _TOKENS.finditer(text):
        group = next((g for g in ("backslash", "quoted", "dollar") if match[g] is not None), "")
        if not group:
            if match["gap"] is None:
                word = match["word"]
                armed = word is not None and bool(_PASSWORD_WORD.match(word))
            continue
        low, high = match.span(group)
        if armed:
            yield low, high
        elif _HINT.search(text, low, high):
            yield from _literal(text, low, high, group == "dollar", depth)


def _literal(
    text: bytes, low: int, high: int, dollar: bool, depth: int
) -> Iterator[tuple[int, int]]:
    """Spans in a literal that is no password itself: a connection string, or SQL with doubled quotes."""
    for inner in _INSIDE.finditer(text, low, high):
        yield inner.span(1 if inner[1] is not None else 2)
    if depth >= _DEEPEST:
        return
    held = text[low:high]
    if dollar or b"''" not in held:
        for start, end in _walk(held, depth + 1):
            yield low + start, low + end
        return
    place: list[int] = []
    at = 0
    while at < len(held):
        place.append(low + at)
        at += 2 if held.startswith(b"''", at) else 1
    place.append(high)
    for start, end in _walk(held.replace(b"''", b"'"), depth + 1):
        yield place[start], place[end]


def parts(data: bytes, start: int, end: int, prose: bool = False) -> list[Node]:
    """The nodes that tile ``data[start:end]``, a text with its zero byte; [] without a password."""
    spans = passwords(data[start:end].rstrip(b"\0"), prose)
    around = _TOLD if prose else _TEXT
    nodes: list[Node] = []
    at = start
    for low, high in spans:
        nodes.append(leaf(around, data, at, start + low))
        nodes.append(leaf(_PASSWORD, data, start + low, start + high))
        at = start + high
    if nodes:
        nodes.append(leaf(around, data, at, end, data[at:end].rstrip(b"\0")))
    return nodes
