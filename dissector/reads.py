"""Messages that were read before: short ones come again and again with the same bytes."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakSet

from . import catalogue
from .annotate import annotate
from .decode import value_reader
from .facts import Facts, of_node
from .node import Node, findings
from .spec import Dialect, Message

SHORT, KEPT = 256, 2048
"""Bytes of a message that is kept, and how many of them in one dialect."""

_COPY_DATA = str(catalogue.by_name("CopyData").tag).encode()

DIALECTS = 16
"""Dialects whose messages are kept apart."""

MOST = DIALECTS * KEPT
"""Messages that are kept in all: hostile connections can have a dialect each, and keep what they read."""


class Read:
    """A message in one dialect: its declaration (None where it is none that is known), the path of its
    row, and the worst severity of what is wrong inside it. Nobody changes what it holds."""

    __slots__ = ("_data", "_facts", "_reads", "_tree", "message", "path", "severity", "told")

    def __init__(self, data: bytes, reads: Reads) -> None:
        self._data, self._reads = data, reads
        self._tree: Node | None = None
        self._facts: Facts | None = None
        self.told: dict[str, Any] = {}  # what it says, by encoding; for the session
        self.severity = 0
        facts: Facts = {}
        names: list[str] = []
        # What CopyData carries is looked at as a tree in any case.
        copied = data[:1] == _COPY_DATA
        if not copied and reads.values(reads.layer, data, 0, len(data), facts, names):
            self._facts = facts
            self.path = tuple(names)
            self.message: Message | None = catalogue.by_name(names[0])
        else:
            tree = self.tree
            self.path = (tree.name,)
            self.message = tree.declaration if isinstance(tree.declaration, Message) else None
            self.severity = int(max((f.severity for f in findings(tree)), default=0))

    @property
    def tree(self) -> Node:
        """The message, taken apart."""
        if self._tree is None:
            self._tree = annotate(self._data, self._reads.layer, self._reads.dialect)
        return self._tree

    @property
    def facts(self) -> Facts:
        """The message as plain values."""
        if self._facts is None:
            self._facts = of_node(self.tree)
        return self._facts


_known: dict[tuple[str, Dialect], Reads] = {}


class Reads:
    """Messages of one layer in one dialect. kept: those at hand, by their bytes."""

    __slots__ = ("__weakref__", "dialect", "kept", "layer", "values")

    _all: ClassVar[WeakSet[Reads]] = WeakSet()
    _added = 0  # to any of them, since all were emptied

    def __init__(self, layer: str, dialect: Dialect) -> None:
        self.layer, self.dialect = layer, dialect
        self.values = value_reader(dialect)
        self.kept: dict[bytes, Read] = {}
        self._all.add(self)

    def read(self, data: bytes) -> Read:
        """The message `data`; the same one for the same bytes, as long as it is kept."""
        found = self.kept.get(data)
        if found is None:
            found = Read(data, self)
            if len(data) <= SHORT:
                if Reads._added >= MOST:
                    Reads._added = 0
                    for each in self._all:
                        each.kept.clear()
                elif len(self.kept) >= KEPT:
                    self.kept.clear()
                Reads._added += 1
                self.kept[data] = found
        return found


def reads_of(layer: str, dialect: Dialect) -> Reads:
    """What is kept for a layer and a dialect, for all connections."""
    kept = _known.get((layer, dialect))
    if kept is None:
        if len(_known) >= DIALECTS:
            _known.clear()
        kept = _known[layer, dialect] = Reads(layer, dialect)
    return kept
