"""The annotated tree: what `dissector.annotate` makes of bytes, and ways to walk it.

A node points at its declaration through a shared `Place`; it keeps raw values only. Whoever shows a
node asks `dissector.display`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissector.findings import Finding
from dissector.spec import Field, Message, Repeat

PRESENT, ABSENT, PARTIAL = 0, 1, 2
"""States of a node: all of it is here, none of it is, only its first bytes are."""

Declared = Field | Message | Repeat | None


class Place:
    """Where a node stands in the documentation of one release; all nodes of a position share it.

    position: documented, from 1; 0 for messages, repeats and bytes without a position.
    format: as the manual of `release` writes it; "" where `position` is 0.
    """

    __slots__ = ("declaration", "format", "meaning", "name", "position", "release")

    def __init__(
        self,
        declaration: Declared,
        name: str,
        release: int,
        position: int = 0,
        format: str = "",
        meaning: str = "",
    ) -> None:
        self.declaration = declaration
        self.name = name
        self.release = release
        self.position = position
        self.format = format
        self.meaning = meaning


class Node:
    """A stretch of bytes and what it is.

    start, end: offsets in the annotated data. value: raw: int (unsigned or signed as declared; a
    Byte1 is its number), bytes (a String without its zero byte), a tuple of int for arrays, the
    state of a TupleData column, or None. children: parts in documented order; an array element's
    `index` counts from 0 and is -1 elsewhere. finding: what is wrong here. reason: why an optional
    part is there or not. state: PRESENT, ABSENT or PARTIAL.
    """

    __slots__ = (
        "children",
        "end",
        "finding",
        "index",
        "place",
        "reason",
        "start",
        "state",
        "value",
    )

    def __init__(
        self,
        place: Place,
        start: int,
        end: int,
        value: Any = None,
        children: list[Node] | None = None,
        reason: str = "",
        state: int = PRESENT,
        index: int = -1,
    ) -> None:
        self.place = place
        self.start = start
        self.end = end
        self.value = value
        self.children: list[Node] | None = children
        self.finding: Finding | None = None
        self.reason = reason
        self.state = state
        self.index = index

    @property
    def declaration(self) -> Declared:
        """The Field, Message or Repeat; None for bytes that nothing declares."""
        return self.place.declaration

    @property
    def name(self) -> str:
        """Field name, message name by the release in force, or ``unparsed``."""
        return self.place.name

    @property
    def position(self) -> int:
        """Documented position, 0 for none."""
        return self.place.position

    @property
    def format(self) -> str:
        """Format as the manual of the release writes it."""
        return self.place.format

    @property
    def meaning(self) -> str:
        """Meaning of the declaration."""
        return self.place.meaning

    @property
    def absent(self) -> bool:
        """True for a documented position that these bytes do not have; `reason` tells why."""
        return self.state == ABSENT

    @property
    def partial(self) -> bool:
        """True when only the first bytes of it are here."""
        return self.state == PARTIAL

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.end - self.start

    @property
    def is_message(self) -> bool:
        """True for the root of a layer: offsets of the layer count from this node's start."""
        return isinstance(self.place.declaration, Message)

    @property
    def layer_start(self) -> int:
        """Of a message node: where its layer's bytes start."""
        return self.start

    def child(self, name: str) -> Node | None:
        """The present child called `name`, looked for in messages carried by a child as well."""
        for node in self.children or ():
            if node.place.name == name and node.state != ABSENT:
                return node
        return None

    def __repr__(self) -> str:
        return f"<{self.name} [{self.start}:{self.end}] {self.value!r}>"


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, in byte order, without recursion."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if node.children:
            pending.extend(reversed(node.children))


def leaves(node: Node, absent: bool = False) -> Iterator[Node]:
    """The nodes that hold the bytes, in order; with `absent`, the positions that are not there too.

    Without `absent` they tile ``[node.start, node.end)``.
    """
    for each in walk(node):
        if each.children is None and (absent or each.state != ABSENT):
            yield each


def findings(node: Node) -> list[Finding]:
    """All findings of the tree, in byte order of the nodes that carry them."""
    return [each.finding for each in walk(node) if each.finding is not None]


def walk_paths(node: Node) -> Iterator[tuple[str, Node]]:
    """`walk` with each node's path: ``CopyData.XLogData.Relation.columns[0].name``.

    A field that carries another message keeps its node, but the path of what it carries goes on
    from the message: the carrier's name is left out.
    """
    pending = [("", node)]
    while pending:
        prefix, node = pending.pop()
        if node.index >= 0:
            path = f"{prefix}[{node.index}]"
        else:
            path = f"{prefix}.{node.place.name}" if prefix else node.place.name
        yield path, node
        if node.children:
            pending.extend(
                (prefix if child.is_message else path, child) for child in reversed(node.children)
            )


def carried(node: Node) -> Node | None:
    """The message that the message `node` carries in its last layer field, or None."""
    for child in node.children or ():
        if child.children and child.children[0].is_message:
            return child.children[0]
    return None


def messages(node: Node) -> list[Node]:
    """The message nodes from the outermost to the innermost: ``CopyData, XLogData, Insert``."""
    chain = []
    inner: Node | None = node
    while inner is not None:
        chain.append(inner)
        inner = carried(inner)
    return chain


def find(node: Node, path: str) -> Node | None:
    """The node at `path`, as `walk_paths` writes it; None when there is none."""
    for each, found in walk_paths(node):
        if each == path:
            return found
    return None


def at(node: Node, offset: int) -> Node | None:
    """The leaf that holds the byte at `offset`, or None outside the node."""
    if not node.start <= offset < node.end:
        return None
    while node.children is not None:
        inside = next((c for c in node.children if c.start <= offset < c.end), None)
        if inside is None:
            return None
        node = inside
    return node
