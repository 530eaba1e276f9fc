"""Values as text for people: the only place that makes strings of nodes.

Everything that comes from a capture passes through `dissector.text.visible`. Five states of a column
never look alike: NULL, an empty value (``''``), unchanged TOAST, not sent, and binary (``\\x2a``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dissector.moments import timestamp_text
from dissector.node import Node, walk_paths
from dissector.spec import Field, Message, Repeat
from dissector.steps import NULL_REASON, byte_text
from dissector.text import decode_text, visible
from dissector.values import type_name

STATES = {"null": "NULL", "unchanged": "unchanged TOAST", "not sent": "not sent"}
"""What stands for a column that has no bytes, by its state."""


@dataclass(frozen=True)
class Context:
    """What a display needs to know beyond the node.

    release: server major (how LSNs are written). encoding: codec of text. types: user types by OID
    ("public.mood"). relations: names by OID. show_secrets: passwords and keys as they are. limit:
    characters of a value that are shown, 0 for all.
    """

    release: int = 18
    encoding: str = "utf-8"
    types: Mapping[int, str] = field(default_factory=dict)
    relations: Mapping[int, str] = field(default_factory=dict)
    show_secrets: bool = False
    limit: int = 0


DEFAULT = Context()


class Row(NamedTuple):
    """A node with its path, its column's state ("" outside tuples) and its text."""

    path: str
    node: Node
    state: str
    text: str


def lsn(value: int) -> str:
    """An LSN: high and low half in hex, ``0/1A2B3C4``, the same for every release.

    Servers of release 19 pad the low half with zeros in their own output; one form for all releases
    keeps LSNs of different connections comparable as text.
    """
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


def timestamp(value: int) -> str:
    """Microseconds since 2000-01-01 UTC: ``2026-11-29 18:53:12.831399 UTC``, ``infinity``."""
    return timestamp_text(value, " UTC", trim=False)


def full_xid(value: int) -> str:
    """A 64-bit transaction ID: ``750 (epoch 1)``."""
    return f"{value & 0xFFFFFFFF} (epoch {value >> 32})"


def protocol(value: int) -> str:
    """A protocol version: ``3.2``."""
    return f"{(value >> 16) & 0xFFFF}.{value & 0xFFFF}"


def flags(value: int, names: Mapping[int, str]) -> str:
    """Bits by name, unknown ones as hex: ``CASCADE | RESTART IDENTITY | 0x80``; 0 for none."""
    known = [name for bit, name in names.items() if value & bit]
    for bit in names:
        value &= ~bit
    if value:
        known.append(f"0x{value & 0xFF:02x}")
    return " | ".join(known) or "0"


def quoted(data: bytes, context: Context = DEFAULT) -> str:
    """Text in quotes, so that an empty or a blank value is seen and 'NULL' is no NULL."""
    return quote_text(decode_text(_cut(data, context.limit), context.encoding), context.limit)


def quote_text(text: str, limit: int = 0) -> str:
    """Text in single quotes, made visible."""
    return "'" + visible(text, limit).replace("'", "''") + "'"


def plain(data: bytes, context: Context = DEFAULT) -> str:
    """A name or another String: as it is, in quotes only when it is empty."""
    if not data:
        return "''"
    return visible(decode_text(_cut(data, context.limit), context.encoding), context.limit)


def binary(data: bytes, limit: int = 0) -> str:
    """Bytes as hex, ``\\x0102``; beyond `limit` characters cut, with the number of bytes."""
    shown = data[: max(limit // 2, 1)] if limit else data
    text = f"\\x{shown.hex()}"
    return text if len(shown) == len(data) else f"{text}… ({len(data)} bytes)"


def content(data: bytes, context: Context = DEFAULT) -> str:
    """Bytes of unknown kind: quoted text when all of it is printable UTF-8, else hex."""
    head = _cut(data, context.limit)
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) == len(data) or error.start < len(head) - 4:
            return binary(data, context.limit)
        text = head[: error.start].decode("utf-8")
    if not text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable() and text:
        return binary(data, context.limit)
    return quoted(data, context)


def _cut(data: bytes, limit: int) -> bytes:
    """A head of `data` long enough for `limit` characters: a megabyte costs what is shown of it."""
    return data[: limit * 4 + 4] if limit and len(data) > limit * 4 + 4 else data


def column(state: str, raw: bytes | None, context: Context = DEFAULT) -> str:
    """A tuple column as it came, without its type: see `dissector.values` for typed values."""
    if state in STATES:
        return STATES[state]
    if raw is None:
        return "missing"
    return binary(raw, context.limit) if state == "binary" else quoted(raw, context)


def display(node: Node, context: Context = DEFAULT, state: str = "") -> str:
    """The node's value as one line of text, safe for a terminal.

    state: of the tuple column that the node belongs to (`rows` passes it on); without it a value's
    bytes are shown as text or hex by what they hold.
    """
    declaration = node.declaration
    if node.absent:
        return "NULL" if node.reason == NULL_REASON else "absent"
    if isinstance(declaration, Message):
        return ""
    if isinstance(declaration, Repeat):
        return _repeat(node, context)
    if node.children is not None:
        return _carrier(node, context)
    if declaration is None:
        return str(node.value) if isinstance(node.value, int) else binary(node.value or b"")
    if node.value is None:
        return "cut short"
    return _field(node, declaration, context, state)


def rows(
    root: Node, context: Context = DEFAULT, *, leaves_only: bool = False,
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Every node of the tree with its path, column state and text, in byte order; or the leaves only,
    or those whose path `wanted` takes."""
    state, inside = "", ("", "")
    for path, node in walk_paths(root):
        if node.index >= 0:
            state = node.value if isinstance(node.value, str) else ""
            inside = (path, path + ".")
        elif state and not path.startswith(inside[1]):
            state = ""
        if leaves_only and node.children is not None:
            continue
        if wanted is None or wanted(path):
            yield Row(path, node, state, display(node, context, state))


def _repeat(node: Node, context: Context) -> str:
    if node.index < 0:
        count = sum(each.index >= 0 for each in node.children or ())
        name = node.name.replace("_", " ")
        return f"{count} {name.removesuffix('s') if count == 1 else name}"
    if isinstance(node.value, str):
        last = next((n for n in reversed(node.children or ()) if not n.absent), None)
        raw = last.value if last is not None and isinstance(last.value, bytes) else None
        return column(node.value, raw, context)
    shown = [display(each, context) for each in node.children or () if not each.absent]
    called, oid = node.child("name"), node.child("type_oid")
    modifier = node.child("type_modifier")
    if called and oid and modifier and None not in (called.value, oid.value, modifier.value):
        kind = type_name(oid.value, modifier.value, context.types)
        return f"{plain(called.value, context)} {visible(kind)}"
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")


MOST_COPIED = 3
"""Rows of COPY data that a line shows."""

MOST_PARTS = 12
"""Parts of a field that its own line shows."""


def _carrier(node: Node, context: Context) -> str:
    """A field that has parts: the message that it carries, or its parts in few words."""
    first = node.children[0] if node.children else None
    if first is not None and first.is_message:
        return visible(first.name)
    found = node.child("columns")
    if found is not None:
        return display(found)
    if node.child("sql") is not None:  # a statement with passwords in it
        return "".join(display(each, context) for each in node.children or ())
    rows = node.child("rows")
    if rows is not None:
        return _copied(rows, context)
    shown = [
        f"{each.name}={display(each, context)}"
        for each in node.children or ()
        if each.children is None and each.length and each.name != "key"
    ]
    return ", ".join(shown[:MOST_PARTS]) or f"{node.length} bytes"


def _copied(rows: Node, context: Context) -> str:
    """The first rows of COPY data: ``1, 'Zoe', NULL``."""
    shown = []
    for row in (rows.children or ())[:MOST_COPIED]:
        columns = row.child("columns")
        cells = [display(each, context) for each in (columns.children if columns else None) or ()]
        shown.append(", ".join(cells[:MOST_PARTS]) or f"{row.length} bytes")
    more = len(rows.children or ()) - len(shown)
    return " | ".join(shown) + (f" | … {more} more" if more else "")


def _field(node: Node, declared: Field, context: Context, state: str) -> str:
    value, kind = node.value, declared.kind
    if isinstance(value, int) and state in STATES:
        return STATES[state]
    if declared.secret and not context.show_secrets:
        size = f"{len(value)} bytes" if isinstance(value, bytes) else f"{node.length} bytes"
        return f"(masked, {size})"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bytes):
        if state in ("text", "binary"):
            return column(state, value, context)
        if kind.show == "text":
            known = declared.values.get(decode_text(value)) if declared.values else None
            shown = plain(value, context)
            return f"{shown} ({known})" if known else shown
        return content(value, context)
    if declared.flags:
        return flags(value, declared.flags)
    show = _SHOW.get(kind.show)
    text = show(value) if show else str(value)
    known = declared.values.get(chr(value) if kind.show == "char" else value)
    if kind.show == "oid":
        known = known or _oid(declared.name, value, context)
    return f"{text} ({visible(known)})" if known else text


def _oid(name: str, value: int, context: Context) -> str | None:
    if name == "relation_oid":
        return context.relations.get(value)
    if name.endswith("type_oid") and value:
        name = type_name(value, -1, context.types)
        return None if name == f"type {value}" else name
    return None


_SHOW: dict[str, Callable[[int], str]] = {
    "lsn": lsn,
    "char": byte_text,
    "timestamp": timestamp,
    "full_xid": full_xid,
    "protocol": protocol,
}
