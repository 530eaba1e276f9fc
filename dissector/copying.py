"""COPY data: rows in text, CSV and binary format, wherever the sender cut them into messages.

`scan` walks a message from the state in which it begins and says in which state it ends; `parts` makes
nodes of what it found. A server sends one row a message; a client may cut anywhere, even inside a
number. Source: the manual's page on COPY, "File Formats".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from .inside import NUMBER, TEXT, leaf, listed, named, place
from .node import PARTIAL, Node
from .spec import Field

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
"""What binary data begins with."""

MOST_ROWS = 1 << 14
"""Rows of one message that are taken apart."""


END = b"\xff\xff"
"""In place of a count of columns: no more rows come in a binary COPY."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The format of COPY data, and where in it a message begins.

    form: text, csv, binary. delimiter, quote, escape, null: as the command says. column: which column
    the message begins in. inside: it goes on with a value begun before; quoted: inside quotes;
    escaped: after a backslash. Binary: stage (what comes), left (bytes of it), have (its bytes so far),
    columns (still to come in this row).
    """

    form: str = "text"
    delimiter: bytes = b"\t"
    quote: bytes = b'"'
    escape: bytes = b'"'
    null: bytes = b"\\N"
    column: int = 0
    inside: bool = False
    quoted: bool = False
    escaped: bool = False
    stage: str = "signature"
    left: int = len(SIGNATURE)
    have: bytes = b""
    columns: int = 0

    @property
    def fresh(self) -> bool:
        """Whether a row of text begins here, with letters of one byte around its columns."""
        going = self.column or self.inside or self.quoted or self.escaped
        one = len(self.delimiter) == 1 and len(self.quote) == 1
        return self.form != "binary" and one and not going


class Token(NamedTuple):
    """A stretch of the data. what: value, separator, row_end, or a stage of the binary format. value: of a
    number; None where only a part is here."""

    what: str
    start: int
    end: int
    value: Any = None


_OPTION = r"(?:AS\s+)?(E?'(?:[^']|'')*')"


def command_state(sql: str, binary: bool) -> CopyState:
    """How a COPY command's data begins; `binary` as CopyInResponse or CopyOutResponse told it."""
    if binary:
        return CopyState("binary")
    csv = bool(re.search(r"\bCSV\b", _outside_strings(sql), re.IGNORECASE)) or bool(
        re.search(r"\bFORMAT\s+'csv'", sql, re.IGNORECASE)
    )
    state = CopyState("csv", b",", null=b"") if csv else CopyState()
    given = {name: _option(sql, name) for name in ("DELIMITERS?", "QUOTE", "ESCAPE", "NULL")}
    one = {name: v for name, v in given.items() if v is not None and len(v) == 1}
    quote = one.get("QUOTE", state.quote)
    null = given["NULL"]
    return replace(
        state,
        delimiter=one.get("DELIMITERS?", state.delimiter),
        quote=quote,
        escape=one.get("ESCAPE", quote),
        null=state.null if null is None else null,
    )


def _option(sql: str, word: str) -> bytes | None:
    found = re.search(rf"\b{word}\s+{_OPTION}", sql, re.IGNORECASE)
    return None if found is None else _literal(found[1]).encode("utf-8", "surrogateescape")


def _outside_strings(sql: str) -> str:
    return re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", " ", sql)


def _literal(text: str) -> str:
    value = text[text.index("'") + 1 : -1].replace("''", "'")
    if text[0] in "eE":
        names = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
        value = re.sub(r"\\(.)", lambda m: names.get(m[1], m[1]), value)
    return value


# -- walking


def scan(state: CopyState, data: bytes, start: int, end: int) -> tuple[list[Token], CopyState]:
    """The tokens that tile ``data[start:end]``, and the state after it."""
    if state.form == "binary":
        return _binary(state, data, start, end)
    return _lines(state, data, start, end)


@lru_cache(maxsize=64)
def _patterns(form: str, delimiter: bytes, quote: bytes, escape: bytes) -> tuple[Any, Any]:
    d, q, e = re.escape(delimiter), re.escape(quote), re.escape(escape)
    if form == "text":
        return re.compile(rb"(?:[^\\\n" + d + rb"]|\\.)*", re.DOTALL), None
    plain = re.compile(rb"[^\n" + d + q + rb"]*")
    if escape == quote:
        return plain, re.compile(rb"[^" + q + rb"]*")
    return plain, re.compile(rb"(?:[^" + q + e + rb"]|" + e + rb".)*", re.DOTALL)


def _lines(state: CopyState, data: bytes, start: int, end: int) -> tuple[list[Token], CopyState]:
    plain, quoted_text = _patterns(state.form, state.delimiter, state.quote, state.escape)
    tokens: list[Token] = []
    at, column = start, state.column
    inside, quoted, escaped = state.inside, state.quoted, state.escaped
    csv = state.form == "csv"
    separator = state.delimiter[0]
    while at < end:
        stop = at + 1 if escaped else at
        escaped = False
        while True:
            stop = (quoted_text if quoted else plain).match(data, stop, end).end()
            if stop >= end or not csv or data[stop] != state.quote[0]:
                break
            quoted = not quoted
            stop += 1
        if stop < end and (
            quoted or data[stop] not in (separator, 10)
        ):  # an escape at the very end
            escaped, stop = True, end
        tokens.append(Token("value", at, stop))
        if stop == end:
            inside = True
            break
        inside = False
        if data[stop] == 10:
            tokens.append(Token("row_end", stop, stop + 1))
            column = 0
        else:
            tokens.append(Token("separator", stop, stop + 1))
            column += 1
        at = stop + 1
    else:
        inside = inside and start == end
    after = replace(state, column=column, inside=inside, quoted=quoted, escaped=escaped)
    return tokens, after


_NUMBERS = {"flags": 4, "extension_length": 4, "column_count": 2, "length": 4}


def _binary(state: CopyState, data: bytes, start: int, end: int) -> tuple[list[Token], CopyState]:
    stage, left, have, columns = state.stage, state.left, state.have, state.columns
    tokens: list[Token] = []
    at = start
    while at < end or not left:
        take = min(left, end - at)
        left -= take
        whole = not left
        value: Any = None
        if stage in _NUMBERS:
            have += data[at : at + take]
            if whole:
                value = int.from_bytes(have, "big", signed=True)
                have = b""
        if take or stage != "value":
            tokens.append(Token("after_end" if stage == "end" else stage, at, at + take, value))
        at += take
        if not whole:
            break
        stage, left, columns = _next(stage, value, columns)
        if stage == "end":
            if at < end:
                tokens.append(Token("after_end", at, end))
            left = 1 << 62
            at = end
    after = replace(state, stage=stage, left=left, have=have, columns=columns)
    return tokens, after


def _next(stage: str, value: Any, columns: int) -> tuple[str, int, int]:
    """(what comes after a finished stage, its bytes, columns still to come)."""
    if stage == "signature":
        return "flags", 4, 0
    if stage == "flags":
        return "extension_length", 4, 0
    if stage == "extension_length" and value > 0:
        return "extension", value, 0
    if stage == "column_count":
        if value < 0:
            return "end", 0, 0
        columns = value
    elif stage == "length":
        columns -= 1
        if value > 0:
            return "value", value, columns
    return ("length", 4, columns) if columns > 0 else ("column_count", 2, 0)


# -- nodes

_FIELDS = {
    "signature": named("signature", "Eleven bytes by which binary COPY data is known."),
    "extension": named("extension", "Header extension, to be passed over."),
    "after_end": named("after_end", "Bytes after the end of the data."),
    "separator": named("separator", "Separates two columns.", text=True),
    "row_end": named("row_end", "Ends a row.", text=True),
    "text": named("value", "Value of the column as it is written in the data.", text=True),
    "binary": named("value", "Value of the column in its type's binary form."),
    "rest": named("rest", "More rows, which are not taken apart.", text=True),
    "flags": Field("flags", NUMBER, "Bit 16: rows begin with an OID. No other bit has a meaning."),
    "extension_length": Field("extension_length", NUMBER, "Bytes of the header extension."),
    "column_count": Field("column_count", NUMBER, "Columns of the row; -1 ends the data."),
    "length": Field("length", NUMBER, "Length of the value in bytes; -1 for NULL."),
}
_ROWS = "Rows of the copied table; the first may have begun in a message before, the last go on."
_COLUMNS = "Columns of the row."


def parts(state: CopyState, data: bytes, start: int, end: int) -> list[Node]:
    """The nodes that tile ``data[start:end]``, which begins in `state`."""
    tokens, _ = scan(state, data, start, end)
    rows: list[list[Token]] = [[]]
    head: list[Node] = []
    for token in tokens:
        if len(rows) > MOST_ROWS:
            break
        if token.what in ("signature", "flags", "extension_length", "extension"):
            head.append(_leaf(token, data))
            continue
        if token.what == "column_count" and rows[-1]:
            rows.append([])
        rows[-1].append(token)
        if token.what == "row_end":
            rows.append([])
    rows = [row for row in rows if row][:MOST_ROWS]
    binary = state.form == "binary"
    column = max(state.column, 0)
    elements = []
    for row in rows:
        nodes = _binary_row(row, data) if binary else _text_row(row, data, state, column)
        elements.append((nodes, None))
        column = 0
    found = [*head, listed("rows", _ROWS, elements)] if elements else head
    told = found[-1].end if found else start
    if told < end:
        found.append(leaf(_FIELDS["rest"], data, told, end))
    return found


def _leaf(token: Token, data: bytes, form: str = "") -> Node:
    field = _FIELDS[form or token.what]
    node = Node(place(field), token.start, token.end, data[token.start : token.end])
    if field.kind is NUMBER:
        node.value = token.value
        node.state = PARTIAL if token.value is None else node.state
    return node


def _text_row(row: list[Token], data: bytes, state: CopyState, first: int) -> list[Node]:
    elements: list[tuple[list[Node], Any]] = []
    pending: list[Node] = []
    end: list[Node] = []
    for token in row:
        if token.what == "separator":
            if not elements:  # the value before it ended with the message before
                pending.append(_leaf(token, data))
                continue
            pending = [_leaf(token, data)]
        elif token.what == "row_end":
            end = [_leaf(token, data)]
        else:
            raw = data[token.start : token.end]
            null = raw == state.null and token is not row[-1]
            elements.append(([*pending, _leaf(token, data, "text")], "null" if null else "text"))
            pending = []
    if pending:
        elements.append((pending, "text"))
    columns = [listed("columns", _COLUMNS, elements, first)] if elements else []
    return [*columns, *end]


def _binary_row(row: list[Token], data: bytes) -> list[Node]:
    head: list[Node] = []
    tail: list[Node] = []
    elements: list[tuple[list[Node], Any]] = []
    for token in row:
        if token.what == "column_count":
            head.append(_leaf(token, data))
        elif token.what == "length":
            elements.append(([_leaf(token, data)], "null" if token.value == -1 else "binary"))
        elif token.what == "value":
            node = _leaf(token, data, "binary")
            if elements and elements[-1][0][-1].name == "length":
                elements[-1][0].append(node)
            else:
                elements.append(([node], "binary"))
        else:
            tail.append(_leaf(token, data))
    columns = [listed("columns", _COLUMNS, elements)] if elements else []
    return [*head, *columns, *tail]


assert TEXT.show == "text"
