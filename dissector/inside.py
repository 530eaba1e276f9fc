"""Nodes for what stands inside a field's bytes: names, places and lists that no message declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from .node import Node, Place
from .spec import Field, Kind, Repeat

TEXT = Kind("inner_text", "text", rule="bytes", show="text")
BYTES = Kind("inner_bytes", "bytes", rule="bytes", show="bytes")
NUMBER = Kind("inner_number", "number")


@lru_cache(maxsize=4096)
def place(field: Field, release: int = 0) -> Place:
    """The Place of a declared field that has no documented position."""
    return Place(field, field.name, release, 0, field.kind.documented, field.meaning)


@lru_cache(maxsize=256)
def list_place(name: str, meaning: str) -> Place:
    """The Place of a list and of its elements."""
    return Place(Repeat(name, ()), name, 0, meaning=meaning)


@lru_cache(maxsize=256)
def _text_place(was: Place) -> Place:
    declared = was.declaration
    assert isinstance(declared, Field)
    field = replace(declared, kind=TEXT)
    return Place(field, was.name, was.release, was.position, was.format, was.meaning)


def as_text(node: Node) -> None:
    """Say of a field's node that its bytes are text in the client's encoding."""
    if isinstance(node.declaration, Field) and node.declaration.kind is not TEXT:
        node.place = _text_place(node.place)


@lru_cache(maxsize=1024)
def named(name: str, meaning: str, text: bool = False, secret: bool = False) -> Field:
    """A field of text or bytes that is declared where it is used."""
    return Field(name, TEXT if text else BYTES, meaning, secret=secret)


def leaf(field: Field, data: bytes, start: int, end: int, value: Any = None) -> Node:
    """A leaf for ``data[start:end]``; its value is those bytes unless `value` is given."""
    return Node(place(field), start, end, data[start:end] if value is None else value)


def listed(
    name: str, meaning: str, elements: Sequence[tuple[list[Node], Any]], first: int = 0
) -> Node:
    """A list: its elements are (nodes, value), in order and without holes; indexes count from `first`."""
    where = list_place(name, meaning)
    made = [
        Node(where, nodes[0].start, nodes[-1].end, value, nodes, index=i)
        for i, (nodes, value) in enumerate(elements, first)
    ]
    return Node(where, made[0].start, made[-1].end, None, made)
