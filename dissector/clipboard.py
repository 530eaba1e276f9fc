"""What one can copy of a message or a field: value, hex, Python bytes, a C array, JSON, a scapy expression.

scapy is loaded only when an expression is asked for. `dissector.building` goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from . import display
from .columns import column_values
from .errors import UsageProblem
from .node import Node, carried, messages, walk
from .opened import Opened
from .records import dumps, field_records, found_records, mask, secret_ranges
from .spec import Dialect, Message
from .text import visible

FORMS = {
    "value": "the value as it is shown, without quotes",
    "hex": "hex digits",
    "python": "a Python bytes literal",
    "scapy": "a scapy expression that builds the message",
    "c": "a C array",
    "json": "the fields as JSON",
}
"""Form -> what it is."""

ACROSS = 12
"""Bytes in a line of a C array."""


class Copyable(Opened, Protocol):
    """An opened message with its bytes."""

    @property
    def data(self) -> bytes: ...

    @property
    def dialect(self) -> Dialect: ...


def copied(
    form: str, opened: Copyable, node: Node | None = None, show_secrets: bool = False
) -> str:
    """`node` of the message (all of it when None) in `form`, a key of FORMS.

    Secrets are masked unless shown. A scapy expression is of the message that `node` stands in, from its
    own layer inwards. Raises UsageProblem for a form that is not known.
    """
    if form not in FORMS:
        raise UsageProblem(f"cannot copy as {form!r}: say one of {', '.join(FORMS)}")
    node = node or opened.tree
    if form == "value":
        return value_text(opened, node, show_secrets)
    if form == "json":
        return json_text(opened, node, show_secrets)
    data = opened.data if show_secrets else mask(opened.data, secret_ranges(opened.tree))
    if form == "scapy":
        holder = _holder(opened.tree, node)
        declared = holder.declaration
        assert isinstance(declared, Message)
        return expression(data[holder.start : holder.end], declared, opened.dialect)
    own = data[node.start : node.end]
    if form == "hex":
        return own.hex()
    return repr(own) if form == "python" else c_array(own, node.name)


def value_text(opened: Opened, node: Node, show_secrets: bool = False) -> str:
    """The value of `node` as text, not cut and safe for a terminal; for a message its path."""
    if node.is_message:
        return " > ".join(visible(n.name) for n in messages(node))
    context = opened.context(show_secrets)
    for column in column_values(opened.tree, opened.schema):
        if column.leaf is node and not column.missing and column.state not in display.STATES:
            if column.column is not None and column.typed.known:
                return visible(column.typed.text)
            text = column.text(context)
            return text[1:-1].replace("''", "'") if text[:1] == "'" else text
    for row in display.rows(opened.tree, context):
        if row.node is node:
            quoted = isinstance(node.value, bytes) and row.text[:1] == row.text[-1:] == "'"
            return row.text[1:-1].replace("''", "'") if quoted else row.text
    return ""


def json_text(opened: Opened, node: Node, show_secrets: bool = False) -> str:
    """JSON on one line: of a message an object with its fields, of a field its object, of what repeats a
    list of them."""
    context = opened.context(show_secrets)
    records = list(field_records(opened.tree, context, opened))
    if node is opened.tree:
        return dumps(
            {
                "message": node.name,
                "path": [n.name for n in messages(node)],
                "length": node.length,
                "findings": found_records(opened.found),
                "fields": records,
            }
        )
    inside = {id(each) for each in walk(node)}
    rows = (r.node for r in display.rows(opened.tree, context) if r.node.children is None)
    own = [record for record, leaf in zip(records, rows, strict=True) if id(leaf) in inside]
    return dumps(own[0] if node.children is None else own)


def c_array(data: bytes, name: str = "bytes") -> str:
    """A C array with a name made of `name`, its size and its bytes."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_").lower()
    plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
    # C has no array of size 0
    numbers = [f"0x{byte:02x}" for byte in data] or ["0x00"]
    lines = [", ".join(numbers[i : i + ACROSS]) for i in range(0, len(numbers), ACROSS)]
    size = f"const unsigned char {plain}[{len(numbers)}] = {{\n    "
    return size + ",\n    ".join(lines) + "\n};" + ("" if data else " /* no bytes */")


def _holder(tree: Node, node: Node) -> Node:
    """The innermost message that `node` stands in."""
    if node.is_message:
        return node
    held = tree
    inner = carried(tree)
    while inner is not None and inner.start <= node.start and node.end <= inner.end:
        if not any(each is node for each in walk(inner)):
            break
        held, inner = inner, carried(inner)
    return held


# -- scapy


def expression(data: bytes, message: Message, dialect: Dialect) -> str:
    """A Python expression whose value v has ``bytes(v) == data`` after ``from dissector.layers import *``.

    Fields that scapy computes or that have their usual value are left out. Bytes that the layers cannot
    build from fields (cut short, a wrong length) become ``Class(b"...")``, which keeps them as they are;
    what has no layer becomes a bytes literal.
    """
    from .layers.packets import CLASSES

    cls = CLASSES.get(message.name)
    if cls is None:
        return repr(data)
    packet = cls(data, dialect=dialect)
    for every in (False, True):
        text, built = _chain(packet, every)
        if built == data:
            return text
    return f"{cls.__name__}({data!r})"


def _chain(packet: Any, every: bool) -> tuple[str, bytes | None]:
    """The layers of `packet` with ``/`` between them, and what they build."""
    texts: list[str] = []
    whole: Any = None
    layer = packet
    while type(layer).__name__ != "NoPayload":
        if not hasattr(layer, "choices"):
            rest = bytes(layer)
            texts.append(repr(rest))
            whole = whole / rest
            break
        text, copy = _call(layer, every)
        texts.append(text)
        whole = copy if whole is None else whole / copy
        layer = layer.payload
    try:
        return " / ".join(texts), bytes(whole)
    except Exception:  # scapy and struct raise many kinds for values that no bytes can hold
        return "", None


def _call(packet: Any, every: bool) -> tuple[str, Any]:
    """``Class(field=value, ...)`` for the fields that tell, and the packet that it makes."""
    cls = type(packet)
    pairs = [(name, *_value(value)) for name, value in _told(packet, every)]
    text = ", ".join(f"{name}={shown}" for name, shown, _ in pairs)
    return f"{cls.__name__}({text})", cls(**{name: value for name, _, value in pairs})


def _value(value: Any) -> tuple[str, Any]:
    if isinstance(value, list):
        pairs = [_value(each) for each in value]
        return f"[{', '.join(text for text, _ in pairs)}]", [made for _, made in pairs]
    if hasattr(value, "fields_desc"):
        wanted = bytes(value)
        text, made = _call(value, every=False)
        return (text, made) if bytes(made) == wanted else _call(value, every=True)
    if isinstance(value, bytes):
        value = bytes(
            value
        )  # an unterminated string is a class of its own, and no longer in the text
    return repr(value), value


def _told(packet: Any, every: bool) -> Iterator[tuple[str, Any]]:
    options = {name for choice in packet.choices.values() for name, _ in choice}
    for field in type(packet).fields_desc:
        value = packet.fields.get(field.name)
        if value is None:
            continue
        plain = getattr(field, "fld", field)
        if not every:
            if field.name in options and _follows(packet, field.name):
                continue
            if getattr(plain, "measures", ()) or (
                value == plain.default and not field.isconditional
            ):
                continue
            if plain.default is None and getattr(
                getattr(plain, "decl", None), "includes_self", False
            ):
                continue
        yield field.name, value


def _follows(packet: Any, option: str) -> bool:
    """Whether the choice falls on `option` by the other fields alone."""
    others = type(packet)(
        **{
            name: value
            for name, value in packet.fields.items()
            if value is not None
            and not any(name == o for c in packet.choices.values() for o, _ in c)
        }
    )
    for choice, names in packet.choices.items():
        letters = dict(names)
        if option in letters:
            return bool(others.chosen(choice) == letters[option])
    return False
