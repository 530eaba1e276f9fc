"""A message as plain values: what the session needs to know of it, without the tree.

``facts`` gives a dict of field name -> raw value; repeats are lists of such dicts (or of values where
the element is one field), a carried message or a part is a dict, and the key "" holds the Message.
"""

from __future__ import annotations

from typing import Any

from .annotate import annotate
from .node import ABSENT, Node
from .spec import Dialect, Message, Repeat

Facts = dict[str, Any]


def facts(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Facts:
    """The values of the one message of `layer` in ``data[start:end]``; never raises on content.

    A field whose bytes are missing is missing from the dict, or None where only a part is there.
    """
    return of_node(annotate(data, layer, dialect, start, end))


def of_node(node: Node) -> Facts:
    """The values of a message node (or of a repeat's element)."""
    found: Facts = {}
    if isinstance(node.declaration, Message):
        found[""] = node.declaration
    for child in node.children or ():
        if child.state == ABSENT:
            continue
        if isinstance(child.declaration, Repeat):
            found[child.name] = [of_node(each) for each in child.children or () if each.index >= 0]
        elif child.children:
            inner = child.children[0]
            found[child.name] = of_node(inner) if inner.is_message else of_node(child)
        else:
            found[child.name] = child.value
    return found
