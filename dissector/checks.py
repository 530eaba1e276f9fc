"""What a field's value can be wrong about: constants, flags, lists of values, lengths, times."""

from __future__ import annotations

from collections.abc import Callable

from dissector.node import Node
from dissector.spec import Field, Message
from dissector.steps import ENVELOPES, Cursor, byte_text

Check = Callable[[Cursor, Node, Field], None]


def check_of(field: Field, message: Message) -> Check | None:
    """The check of a field's value, or None where any value is right."""
    if field.includes_self and message.layer in ENVELOPES:
        return _check_length
    if isinstance(field.constant, str):
        return _check_letter
    if field.constant is not None:
        return _check_constant
    if field.flags:
        return _check_flags
    if field.kind.show == "timestamp":
        return _check_time
    if field.closed and field.values:
        return _check_values
    return _check_size if field.sizes else None


def _check_length(cursor: Cursor, node: Node, field: Field) -> None:
    value = node.value
    if value < field.kind.width:
        cursor.found(node, "bad-frame-length", node.start, value=value)
        cursor.stop = True
        return
    if field.constant is not None:
        _check_constant(cursor, node, field)
    promised = node.start + value
    cursor.declared = node
    cursor.end = min(cursor.end, promised)


def _check_letter(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value != ord(str(field.constant)):
        expected = repr(field.constant)
        got = byte_text(node.value)
        cursor.found(node, "unexpected-byte", node.start, got=got, expected=expected)
        cursor.stop = True


def _check_constant(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value != field.constant and node.value not in field.also:
        name, got = field.name.replace("_", " "), node.value
        cursor.found(
            node, "constant-differs", node.start, name=name, got=got, expected=field.constant
        )


def _check_flags(cursor: Cursor, node: Node, field: Field) -> None:
    unknown = node.value
    for bit in field.flags:
        unknown &= ~bit
    if unknown:
        name = field.name.replace("_", " ")
        cursor.found(node, "unknown-flag", node.start, name=name, bit=f"0x{unknown:02x}")


def _check_time(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value == 0:
        cursor.found(node, "time-unset", node.start)


def _check_values(cursor: Cursor, node: Node, field: Field) -> None:
    known: object = chr(node.value) if field.kind.show == "char" else node.value
    if known not in field.values:
        name = field.name.replace("_", " ")
        shown = byte_text(node.value) if field.kind.show == "char" else node.value
        cursor.found(node, "unknown-value", node.start, name=name, value=shown)


def _check_size(cursor: Cursor, node: Node, field: Field) -> None:
    fewest, most = field.sizes or (0, 0)
    if not fewest <= node.length <= most:
        allowed = f"{fewest} to {most}"
        cursor.found(node, "key-length", node.start, length=node.length, allowed=allowed)
