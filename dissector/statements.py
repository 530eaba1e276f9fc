"""The statements of a simple query: which one is being executed, and what it says of the answers.

SQL is not parsed: strings, quoted names and comments are stepped over, semicolons divide. The server
answers each statement with one CommandComplete and skips empty ones, so counting those tells where
it is. Source: the manual's "Simple Query" and "Multiple Statements in a Simple Query".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

STEP = (
    r"(?:[eE]'(?:[^'\\]|\\.|'')*'?|'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|--[^\n]*"
    r"|/\*.*?(?:\*/|\Z)|\$(\w*)\$.*?(?:\$\1\$|\Z))"
)
"""What a semicolon inside does not divide: strings, quoted names, comments, dollar quotes."""

_PIECE = re.compile(rf"{STEP}|;|[^;'\"$/eE-]+|.", re.DOTALL)
_COMMENT = re.compile(r"(?:\s+|--[^\n]*|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_COPY = {
    "F": re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL),
    "B": re.compile(r"COPY\b.*\bTO\s+STDOUT\b", re.IGNORECASE | re.DOTALL),
}
_ENCODING = re.compile(
    r"SET\s+(?:(?:SESSION|LOCAL)\s+)?(?:client_encoding\s*(?:=|\bTO\b)|NAMES\b)\s*'?([\w-]+)'?\s*\Z",
    re.IGNORECASE,
)

LARGEST = 1 << 20
"""Characters of a query that are divided; a longer one counts as one statement."""


@lru_cache(maxsize=8)
def divide(sql: str) -> tuple[str, ...]:
    """The statements of `sql` that are not empty, without comments before them."""
    if ";" not in sql or len(sql) > LARGEST:
        return (_bare(sql),)
    found, begin = [], 0
    for match in _PIECE.finditer(sql):
        if match[0] == ";":
            found.append(sql[begin : match.start()])
            begin = match.end()
    found.append(sql[begin:])
    return tuple(text for text in map(_bare, found) if text)


def _bare(text: str) -> str:
    match = _COMMENT.match(text)
    return text[match.end() if match else 0 :]


@lru_cache(maxsize=8)
def _copies(sql: str, direction: str) -> tuple[int, ...]:
    wanted = _COPY[direction]
    return tuple(i for i, text in enumerate(divide(sql)) if wanted.match(text))


def copy_statement(sql: str, done: int, direction: str) -> str:
    """The COPY of `sql` that begins after `done` statements; `direction` F for FROM STDIN, B for TO
    STDOUT. `sql` as it is where none can be told from the others."""
    copies = _copies(sql, direction)
    if not copies:
        return sql
    return divide(sql)[copies[bisect_left(copies, done) % len(copies)]]


def encoding_set(sql: str, done: int) -> str:
    """The client_encoding that statement number `done` (from 0) of `sql` sets; "" for none."""
    return _encodings(sql).get(done, "")


@lru_cache(maxsize=8)
def _encodings(sql: str) -> dict[int, str]:
    if not _MAYBE.search(sql):
        return {}
    found = ((i, _ENCODING.match(text)) for i, text in enumerate(divide(sql)))
    return {i: match[1] for i, match in found if match}


_MAYBE = re.compile(r"client_encoding|\bNAMES\b", re.IGNORECASE)
