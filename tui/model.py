"""What the interface needs to know of a capture, and nothing else: the shapes it reads.

The opened capture of `dissector` has these shapes. Tests put small hand-made ones in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dissector.display import Context
from dissector.findings import Finding
from dissector.node import Node
from dissector.schemas import Schema

Path = tuple[tuple[str, int], ...]
"""The way from the root of a message to a node: (name, how many siblings of that name precede)."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of the message list: plain numbers and names, nothing formatted.

    number: from 1. time: nanoseconds since the Unix epoch. direction: F for what the frontend sent, B
    for the backend. path: message names from the envelope inwards. severity: the worst `Severity`
    among the findings, 0 without any. relation: as it is in the capture. summary: one line for people,
    already made visible by `dissector.text`.
    """

    number: int
    frame: int
    time: int
    stream: int
    direction: str
    path: tuple[str, ...]
    length: int
    lsn: int | None
    xid: int | None
    relation: str | None
    severity: int
    summary: str


class Numbered(Protocol):
    """What the status line tells of an opened message."""

    @property
    def number(self) -> int: ...
    @property
    def frame(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def severity(self) -> int: ...


class MessageView(Protocol):
    """One opened message."""

    @property
    def row(self) -> Numbered: ...
    @property
    def data(self) -> bytes:
        """All bytes of the message; the nodes' offsets count from its first byte."""

    @property
    def tree(self) -> Node:
        """The root."""

    @property
    def schema(self) -> Schema:
        """The columns in force, kind "" for none."""

    @property
    def found(self) -> Sequence[Finding]:
        """All findings of the message, those that no node carries among them."""

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        """What `dissector.display` needs to know to show the nodes."""


class Source(Protocol):
    """An opened capture. Message numbers count from 1."""

    @property
    def count(self) -> int: ...
    @property
    def show_secrets(self) -> bool:
        """Whether passwords, proofs, tokens and cancel keys may be seen."""

    def row(self, number: int) -> ListRow: ...
    def message(self, number: int) -> MessageView: ...
    def said(self, numbers: NDArray[np.int64]) -> tuple[list[str], list[str], list[str]]:
        """Summaries, paths and relations of messages, as the list shows them."""


def keyed_children(node: Node) -> Iterator[tuple[tuple[str, int], Node]]:
    """The children of `node`, each with a key that is the same for its like in another message."""
    seen: dict[str, int] = {}
    for child in node.children or ():
        index = seen.get(child.name, 0)
        seen[child.name] = index + 1
        yield (child.name, index), child


def path_to(root: Node, offset: int) -> Path:
    """The path of the smallest node that covers byte `offset`; () when only the root does.

    Zero-length nodes cover nothing. Leaves tile a message, so every byte of it has a leaf.
    """
    path: list[tuple[str, int]] = []
    node = root
    while True:
        for key, child in keyed_children(node):
            if child.start <= offset < child.end:
                path.append(key)
                node = child
                break
        else:
            return tuple(path)


def chain_at(root: Node, path: Path) -> list[Node]:
    """The nodes from the root to the one at `path`, or to the deepest one there is on the way."""
    chain = [root]
    for wanted in path:
        for key, child in keyed_children(chain[-1]):
            if key == wanted:
                chain.append(child)
                break
        else:
            break
    return chain


def worst_below(root: Node) -> dict[int, int]:
    """id of a node -> the worst severity at or below it, for the nodes that have one."""
    worst: dict[int, int] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if not done:
            stack.append((node, True))
            stack += [(child, False) for child in node.children or ()]
            continue
        severity = int(node.finding.severity) if node.finding is not None else 0
        for child in node.children or ():
            severity = max(severity, worst.get(id(child), 0))
        if severity:
            worst[id(node)] = severity
    return worst
