"""Messages that were read before: short ones come again and again with the same bytes."""

from __future__ import annotations

from .annotate import annotate
from .facts import Facts, of_node
from .node import Node, findings
from .spec import Dialect, Message

SHORT, KEPT = 96, 2048
"""Bytes of a message that is kept, and how many of them in one dialect."""

DIALECTS = 16
"""Dialects whose messages are kept apart."""


class Read:
    """A message in one dialect: its tree, its declaration (None where it is none that is known), the path
    of its row, and the worst severity of what is wrong inside it. Nobody changes what it holds."""

    __slots__ = ("_facts", "message", "path", "severity", "tree")

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self.message = tree.declaration if isinstance(tree.declaration, Message) else None
        self.path = (tree.name,)
        self.severity = int(max((f.severity for f in findings(tree)), default=0))
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """The message as plain values."""
        if self._facts is None:
            self._facts = of_node(self.tree)
        return self._facts


_known: dict[tuple[str, Dialect], dict[bytes, Read]] = {}


def read_once(data: bytes, layer: str, dialect: Dialect) -> Read:
    """The message `data` of `layer`; the same one for the same bytes, as long as it is kept."""
    if len(data) > SHORT:
        return Read(annotate(data, layer, dialect))
    kept = _known.get((layer, dialect))
    if kept is None:
        if len(_known) >= DIALECTS:
            _known.clear()
        kept = _known[layer, dialect] = {}
    found = kept.get(data)
    if found is None:
        if len(kept) >= KEPT:
            kept.clear()
        found = kept[data] = Read(annotate(data, layer, dialect))
    return found
