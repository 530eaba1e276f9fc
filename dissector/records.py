"""A message as one JSON object: the machine output of the command line.

Keys are a contract with scripts. Text keeps its value: what a terminal would obey is written with
JSON's own ``\\u`` escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from . import display, values
from .columns import ColumnValue, column_values
from .display import Context
from .findings import Finding
from .node import ABSENT, Node, messages, walk_paths
from .opened import Opened
from .rows import DIRECTIONS, NO_LSN
from .spec import Field
from .summary import summary
from .text import decode_text, visible
from .times import iso_time
from .view import Capture, MessageView

_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""What a JSON writer leaves as it is and a terminal would obey or hide."""

MASK = b"*"
"""What secret bytes become in hex, so that offsets and lengths stay."""


FIELDS = b',"fields":['
"""Where an object's fields begin: inside a string no quotation mark follows a comma."""

END = b"]}\n"
"""What ends an object with fields."""


def dumps(thing: Any) -> str:
    """JSON on one line that is safe for a terminal."""
    text = orjson.dumps(thing).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def record(
    capture: Capture, view: MessageView, *, fields: bool = False, payload: bool = False
) -> dict[str, Any]:
    """The object of one message, keys in the documented order."""
    row, info = view.row, view.connection
    secrets = capture.options.show_secrets
    relation = capture.relation(row)
    ends = (info.frontend, info.backend)
    found: dict[str, Any] = {
        "number": row.number,
        "frame": row.frame,
        "frames": view.frames,
        "time": iso_time(row.time, capture.digits(row)),
        "stream": row.stream,
        "direction": DIRECTIONS[row.direction],
        "source": ends[row.direction],
        "destination": ends[1 - row.direction],
        "message": view.path[0] if view.path else None,
        "path": list(view.path),
        "length": row.length,
        "lsn": None if row.lsn == NO_LSN else display.lsn(row.lsn),
        "xid": row.xid or None,
        "relation": _clean(relation),
        "summary": summary(view, secrets),
        "findings": found_records(view.found),
        "assumed": view.assumed,
    }
    if payload:
        found["payload"] = masked_payload(view, secrets).hex()
    if fields:
        context = view.context(secrets)
        found["fields"] = list(field_records(view.tree, context, view))
    return found


def payload_json(data: bytes) -> bytes:
    """How an object names the innermost layer's bytes."""
    return b',"payload":"%b"' % data.hex().encode()


def found_records(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as the contract's objects; offset is None where one has no place in the message."""
    return [
        {
            "code": f.code,
            "severity": f.severity.name.lower(),
            "text": visible(f.text),
            "offset": f.offset if f.offset >= 0 else None,
        }
        for f in found
    ]


def _clean(relation: str | list[str] | None) -> str | list[str] | None:
    if isinstance(relation, list):
        return [json_text(name) for name in relation]
    return None if relation is None else json_text(relation)


def json_text(text: str) -> str:
    """Text that JSON can hold: bytes that did not decode become ``\\xNN``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub(
            "[\ud800-\udfff]",
            lambda m: (
                f"\\x{ord(m.group()) - 0xDC00:02x}"
                if 0xDC80 <= ord(m.group()) <= 0xDCFF
                else f"\\u{ord(m.group()):04x}"
            ),
            text,
        )
    return text


def secret_ranges(tree: Node) -> Iterator[tuple[int, int]]:
    """(start, end) of the bytes of `tree` that are masked unless secrets are shown."""
    for _, node in walk_paths(tree):
        declared = node.declaration
        if not isinstance(declared, Field) or not declared.secret or node.absent:
            continue
        if node.children is None:
            ended = declared.kind.rule == "string" and not node.partial
            yield node.start, node.end - ended  # a String's zero byte is no secret


def mask(data: bytes, ranges: Iterator[tuple[int, int]]) -> bytes:
    """`data` with the bytes of `ranges` replaced; the length stays."""
    masked = bytearray(data)
    for start, end in ranges:
        masked[start:end] = MASK * (end - start)
    return bytes(masked)


def masked_payload(view: MessageView, show_secrets: bool) -> bytes:
    """The innermost layer's bytes, secrets masked."""
    data = view.data if show_secrets else mask(view.data, secret_ranges(view.tree))
    inner = view.innermost
    return data[inner.start : inner.end]


def field_records(
    tree: Node, context: Context, view: Opened | None = None,
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The leaves of `tree` in byte order, absent positions among them, as the contract's fields; with
    `wanted` those whose path it takes."""
    columns: dict[int, ColumnValue] = {}
    if view is not None:
        columns = {id(c.leaf): c for c in column_values(tree, view.schema)}
    chain = messages(tree)
    for row in display.rows(tree, context, leaves_only=True, wanted=wanted):
        node = row.node
        layer = next((m for m in reversed(chain) if m.start <= node.start <= m.end), tree)
        found: dict[str, Any] = {
            "path": row.path,
            "position": node.position or None,
            "offset": node.start - tree.start,
            "layer_offset": node.start - layer.start,
            "length": node.length,
            "format": node.format or None,
            "name": node.name,
            "value": json_value(node, context),
            "display": row.text,
            "meaning": node.meaning,
        }
        if node.finding is not None:
            found["finding"] = node.finding.code
        if node.reason:
            found["reason"] = node.reason
        column = columns.get(id(node))
        if column is not None:
            _add_column(found, column, context, view)
        yield found


def _add_column(
    found: dict[str, Any], column: ColumnValue, context: Context, view: Opened | None
) -> None:
    found["state"] = column.state
    if not column.missing:
        found["display"] = column.text(context)
    if column.column is None:
        return
    types = dict(view.schema.types) if view is not None else {}
    name = values.type_name(column.column.type_oid, column.column.type_modifier, types)
    found["column"] = json_text(column.column.name)
    found["type"] = json_text(name)
    if column.missing:
        return
    if column.state == "text":
        found["value"] = json_text(column.typed.text)
    elif column.state == "binary" and column.typed.known:
        typed = column.typed.value
        plain = isinstance(typed, bool | int | float | str)
        found["value"] = json_text(typed) if isinstance(typed, str) else (
            typed if plain else json_text(column.typed.text)
        )  # fmt: skip


def json_value(node: Node, context: Context) -> Any:
    """A node's value in JSON's own types: numbers, text of Strings, hex of bytes, null for nothing."""
    value, declared = node.value, node.declaration
    if node.state == ABSENT or value is None:
        return None
    if isinstance(declared, Field) and declared.secret and not context.show_secrets:
        return (MASK * node.length).decode()
    if isinstance(value, int):
        if isinstance(declared, Field) and declared.kind.show == "char":
            return chr(value)
        return value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str):
        return value
    if isinstance(declared, Field) and declared.kind.show == "text":
        return json_text(decode_text(value, context.encoding))
    return bytes(value).hex()
