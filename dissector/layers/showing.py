"""Text of a field's value for scapy's `show` and `repr`: safe on a terminal, short, secrets masked."""

from __future__ import annotations

from typing import Any

from dissector.display import display
from dissector.node import Node, Place
from dissector.spec import Field

LIMIT = 400
"""Bytes of one value; whoever wants more reads the field."""


def shown(decl: Field, value: Any, release: int) -> str:
    """`value` of the field `decl` as text: numbers as the program shows them (``0/1E9D450``), bytes the
    way Python writes them."""
    if isinstance(value, int):
        return display(Node(Place(decl, decl.name, release), 0, decl.kind.width, value))
    if decl.secret and value:
        return f"<secret of {len(value)} bytes; the field itself holds it>"
    if decl.kind.show == "char" and len(value) == 1:
        known = decl.values.get(value.decode("latin-1"))
        return f"{value!r} ({known})" if known else repr(value)
    if len(value) > LIMIT:
        return f"{value[:LIMIT]!r}... ({len(value)} bytes)"
    return repr(value)
