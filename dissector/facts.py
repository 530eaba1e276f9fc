"""A message as plain values: what the session needs to know of it, without the tree.

``of_node`` gives a dict of field name -> raw value; repeats are lists of such dicts (or of values where
the element is one field), a carried message or a part is a dict, and the key "" holds the Message.
"""

from __future__ import annotations

from typing import Any

from .node import ABSENT, Node
from .spec import Message, Repeat

Facts = dict[str, Any]


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
