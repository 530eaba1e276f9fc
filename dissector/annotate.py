"""Bytes and declarations make a tree of annotated nodes. Total: it never raises and loses no byte.

Each message is compiled once per dialect into steps (`dissector.plan`); reading runs the steps. A
fault stops the reading of its message: what was read stays, the rest is ``unparsed``, positions not
reached are absent with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from dissector import catalogue
from dissector.findings import finding
from dissector.groups import MAX_ELEMENTS, NOT_SENT
from dissector.node import (
    Node,
    Place,
    at,
    carried,
    find,
    findings,
    leaves,
    messages,
    walk,
    walk_paths,
)
from dissector.plan import Builder, inner_layer, plan_of
from dissector.spec import Dialect, Field, Message, Part
from dissector.steps import ENVELOPES, Cursor, Step, byte_text, run

__all__ = [
    "MAX_ELEMENTS",
    "NOT_SENT",
    "Node",
    "annotate",
    "at",
    "carried",
    "find",
    "findings",
    "inner_layer",
    "leaves",
    "messages",
    "tuple_columns",
    "walk",
    "walk_paths",
]

LAYER_NAMES = {"pgoutput": "logical replication"}
UNKNOWN = "Unknown"
"""Name of a message whose first byte no release declares."""

_UNPARSED = Place(None, "unparsed", 0, meaning="Bytes that no declaration claims.")


def annotate(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Node:
    """The tree of the one message of `layer` in ``data[start:end]``.

    layer: frontend, backend, replication or pgoutput. Never raises on content. Node offsets count
    in `data`; offsets of findings from `start`. The leaves tile ``[start, end)``.
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    size = len(data)
    start = min(max(start, 0), size)
    stop = size if end is None else min(max(end, start), size)
    return _message(data, layer, dialect, start, stop, start)


def tuple_columns(node: Node) -> list[tuple[str, Node]]:
    """Of a TupleData field's node: (state, leaf) of each column that was read, in wire order.

    state: text, binary, null, unchanged or "not sent" ("" when the kind is unknown or missing);
    leaf: the value where there is one, else the kind byte.
    """
    repeat = node.child("columns")
    found = []
    for element in (repeat.children if repeat else None) or ():
        present = [n for n in element.children or () if not n.absent]
        if present:
            found.append((element.value or "", present[-1]))
    return found


# -- one message ----------------------------------------------------------------------------------


def _message(data: bytes, layer: str, dialect: Dialect, start: int, end: int, base: int) -> Node:
    message = catalogue.lookup_bytes(layer, data, start, dialect) if start < end else None
    if message is None:
        return _unknown(data, layer, dialect, start, end, base)
    plan = plan_of(message, dialect)
    cursor = Cursor(data, dialect, start, end, base, _message)
    children: list[Node] = []
    node = Node(plan.place, start, end, None, children)
    if plan.code:
        node.finding = finding(plan.code, start - base, **plan.facts)
    run(plan.steps, cursor, children, {})
    _close(cursor, children, end)
    return node


def _close(cursor: Cursor, children: list[Node], end: int) -> None:
    """What the steps left is unparsed; a length that promised more gets its finding."""
    if cursor.pos < end:
        rest = Node(_UNPARSED, cursor.pos, end, cursor.data[cursor.pos : end])
        children.append(rest)
        if not cursor.stop:
            count = end - cursor.pos
            noun = "byte" if count == 1 else "bytes"
            cursor.found(rest, "trailing-bytes", cursor.pos, count=count, noun=noun)
    told = cursor.declared
    if told is not None and told.finding is None and not cursor.short:
        promised = told.start + told.value
        if promised > end:
            need, left = promised - cursor.frame, end - cursor.frame
            cursor.found(told, "cut-short", end, name="the message", need=need, left=left)


def _unknown(data: bytes, layer: str, dialect: Dialect, start: int, end: int, base: int) -> Node:
    """A message that no declaration knows: its tag, an envelope's length, and the rest unparsed."""
    shown = LAYER_NAMES.get(layer, layer)
    message, steps = _unknown_plan(layer, dialect.release, dialect.startup and layer == "frontend")
    cursor = Cursor(data, dialect, start, end, base, _message)
    children: list[Node] = []
    node = Node(Place(message, UNKNOWN, dialect.release), start, end, None, children)
    if start == end:
        cursor.found(node, "cut-short", end, name=f"a {shown} message", need=1, left=0)
        return node
    run(steps, cursor, children, {})
    if not (cursor.stop or cursor.short):
        first = children[0]
        tag = byte_text(first.value) if first.length == 1 else f"code {children[-1].value}"
        cursor.found(node, "unknown-message", start, layer=shown, tag=tag)
        cursor.stop = True
    _close(cursor, children, end)
    return node


@lru_cache(maxsize=64)
def _unknown_plan(layer: str, release: int, untagged: bool) -> tuple[Message, tuple[Step, ...]]:
    """The envelope that all messages of `layer` share, taken from one of them."""
    model = next(m for m in catalogue.MESSAGES if m.layer == layer and (not m.tag) == untagged)
    wanted = ("tag", "length") if layer in ENVELOPES and not untagged else ("tag",)
    parts: list[Part] = []
    for part in model.parts_in(release):
        if isinstance(part, Field) and (untagged or part.name in wanted):
            known = part.name == "tag"
            meaning = "The first byte, which no known message has." if known else part.meaning
            parts.append(
                replace(part, constant=None, also=(), older=(), values={}, meaning=meaning)
            )
        if len(parts) == (2 if untagged else len(wanted)):
            break
    meaning = "A message that the catalogue does not know."
    message = Message(UNKNOWN, layer, "", model.direction, tuple(parts), meaning, model.page)
    builder = Builder(message, Dialect(release=release))
    return message, builder.steps(message.parts, "")
