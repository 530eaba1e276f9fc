"""Text of a field's value for scapy's `show` and `repr`: safe on a terminal, short, secrets masked."""

from __future__ import annotations

from typing import Any

from dissector.spec import Field

LIMIT = 400
"""Characters of one value; whoever wants more reads the field."""


def shown(decl: Field, value: Any, pkt: Any) -> str:
    """`value` of the field `decl` as text; bytes the way Python writes them."""
    if decl.secret and isinstance(value, bytes) and value:
        return f"<secret of {len(value)} bytes; the field itself holds it>"
    if isinstance(value, bytes) and len(value) > LIMIT:
        return f"{value[:LIMIT]!r}... ({len(value)} bytes)"
    return repr(value)
