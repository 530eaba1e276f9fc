"""What can be typed next: names, operators or values, by what the grammar allows at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lark.exceptions import LarkError

from dissector.findings import CODES
from dissector.text import visible

from .columns import COLUMNS, SEVERITIES, relation_names
from .errors import QueryError
from .grammar import MAX_TEXT, parser
from .names import TUPLE_NAMES, Names, default_names
from .protocols import IndexLike
from .tuples import STATES
from .values import fold

LIMIT = 50
"""Completions at most: more than a list on a screen shows."""

_RELATIONS = 10_000
"""Table entries that are looked through for relation names while typing."""

_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*|'(?:[^'\\]|\\.)*|[^\s(){},"'&|=<>!~]*)\Z""", re.DOTALL)
_LAST_NAME = re.compile(
    r"([^\W\d][\w.\[\]]*)\s*(?:not\s+)?(?:[=<>!~*]+|[a-z]+)\s*(?:[{(][^{}()]*)?\Z", re.IGNORECASE
)
_BEFORE_OPERATOR = re.compile(r"([^\W\d][\w.\[\]]*)\s*\Z")
_NUMBERS = ("==", "!=", "<", "<=", ">", ">=", "in")
_TEXTS = ("==", "!=", "contains", "matches", "in", "~*")
_BARE = re.compile(r"""[^\s(){},"'&|=<>!~]+\Z""")


@dataclass(frozen=True, slots=True)
class Completion:
    """text takes the place of the filter's characters [start, end). kind: column, message, field,
    operator, value or word; detail: a few words about it. Both are safe to show."""

    text: str
    start: int
    end: int
    kind: str
    detail: str = ""


def complete(
    text: str, cursor: int | None = None, index: IndexLike | None = None, names: Names | None = None
) -> list[Completion]:
    """What may stand at `cursor` (the end when None), nearest first, at most `LIMIT`.

    index: where relation names come from. An empty list where nothing fits or the text before the
    cursor is wrong; never raises.
    """
    cursor = len(text) if cursor is None else max(0, min(cursor, len(text)))
    if len(text) > MAX_TEXT:
        return []
    names = names or default_names()
    before, word = _split(text[:cursor])
    start = len(before)
    try:
        accepted = _accepted(before)
    except LarkError:
        return []
    if word[:1] in ("'", '"'):
        accepted &= {"STRING"}
    offers: list[tuple[str, str, str]] = []
    if "VALUE" in accepted or ("STRING" in accepted and "NAME" not in accepted):
        offers += _values(before, names, index)
    elif "STRING" in accepted and word[:1] in ("'", '"'):
        offers += [(_quoted(name), "message", "") for name in names.message_names()]
    if "OPERATOR" in accepted:
        offers += _operators(before, names)
    if "_AND" in accepted:
        offers += [("and", "word", "both"), ("or", "word", "either")]
    if "NAME" in accepted:
        offers += _names(names, word)
    return _ranked(offers, word, start, cursor)


def _split(before: str) -> tuple[str, str]:
    """The text before the word at the cursor, and that word; an open quote is a word."""
    quote, opened = "", 0
    i = 0
    while i < len(before):
        char = before[i]
        if quote and char == "\\":
            i += 1
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, opened = char, i
        i += 1
    if quote:
        return before[:opened], before[opened:]
    found = _WORD.search(before)
    start = found.start() if found else len(before)
    if start < len(before) and before[start:].rpartition("..")[1]:
        start = len(before) - len(before.rpartition("..")[2])  # the end of a range
    return before[:start], before[start:]


def _accepted(before: str) -> set[str]:
    interactive = parser().parse_interactive(before)
    interactive.exhaust_lexer()
    return set(interactive.accepts())


def _names(names: Names, word: str) -> Iterator[tuple[str, str, str]]:
    if "." in word:
        every = {d.dotted: d for found in names.fields.values() for d in found}
        for dotted, declared in every.items():
            yield dotted, "field", declared.field.meaning
        for name in TUPLE_NAMES:
            yield name, "column", TUPLE_NAMES[name]
        return
    for name, (_, meaning) in COLUMNS.items():
        yield name, "column", meaning
    for name, meaning in TUPLE_NAMES.items():
        yield name, "column", meaning
    yield "not", "word", "the opposite"
    for message in names.messages:
        yield message.name.replace(" ", ""), "message", message.meaning
    for name, found in names.fields.items():
        yield name, "field", found[0].field.meaning
    for message in names.messages:
        yield message.name.replace(" ", "") + ".", "message", f"fields of {message.name}"


def _kind(name: str, names: Names) -> str:
    """The kind of a name's values: a column's, or a field's show rule; "" when unknown."""
    key = name.lower()
    if key in COLUMNS:
        return COLUMNS[key][0]
    if key in TUPLE_NAMES:
        return "state" if key == "state" else "text"
    try:
        found, _ = names.resolve(name, 0)
    except QueryError:
        return ""
    return found[0].field.kind.show


def _operators(before: str, names: Names) -> Iterator[tuple[str, str, str]]:
    match = _BEFORE_OPERATOR.search(before)
    kind = _kind(match[1], names) if match else ""
    if not kind:
        return
    for operator in _TEXTS if kind in _TEXT_KINDS else _NUMBERS:
        yield operator, "operator", ""


_TEXT_KINDS = ("text", "bytes", "message", "path", "relation", "address", "finding", "state")


def _values(before: str, names: Names, index: IndexLike | None) -> Iterator[tuple[str, str, str]]:
    match = _LAST_NAME.search(before.rpartition("..")[0] if before.endswith("..") else before)
    if not match:
        return
    name = match[1].lower()
    kind = _kind(name, names)
    values: Iterable[str] = ()
    if kind == "message":
        values = names.message_names()
    elif kind == "severity":
        values = SEVERITIES
    elif kind == "direction":
        values = ("F", "B")
    elif kind == "bool":
        values = ("true", "false")
    elif kind == "finding":
        values = CODES
    elif kind == "state":
        values = STATES
    elif kind == "relation" and index is not None:
        schemas = index.tables.schemas.items
        pairs = (p for s in schemas[-_RELATIONS:] for p in relation_names(s, schemas))
        values = sorted({full for full, _ in pairs})
    elif kind and kind not in COLUMNS:
        try:
            found, _ = names.resolve(name, 0)
        except QueryError:
            return
        for value, meaning in found[0].field.values.items():
            yield _bare(str(value)), "value", meaning
        return
    for value in values:
        yield (_quoted(value) if kind == "relation" else _bare(value)), "value", ""


def _bare(value: str) -> str:
    return value if _BARE.match(value) and ".." not in value else _quoted(value)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ranked(
    offers: list[tuple[str, str, str]], word: str, start: int, end: int
) -> list[Completion]:
    """Those that begin with the word, then those that contain it, each in the order offered."""
    plain = fold(word.lstrip("\"'"))
    first: dict[str, Completion] = {}
    then: dict[str, Completion] = {}
    for text, kind, detail in offers:
        place = fold(text.lstrip('"')).find(plain)
        if place < 0 or text == word or visible(text.replace("\\", "")) != text.replace("\\", ""):
            continue
        chosen = first if place == 0 else then
        chosen.setdefault(text, Completion(text, start, end, kind, visible(detail, 80)))
    return [*first.values(), *then.values()][:LIMIT]
