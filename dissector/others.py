"""Summaries of messages for whose kind nothing quicker is known: each is read from its bytes alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from .annotate import annotate
from .contents import open_contents
from .copyrows import CopyRows
from .datarows import DataRows
from .display import Context
from .findings import Finding
from .node import Node, messages
from .rowobjects import rows_of
from .summary import VALUE, summary
from .taken import UnusualError
from .view import MessageView

SHORT, KEPT = 256, 1024
"""Bytes of a message whose summary is kept, and how many are: the same ones come again and again."""


class Bare:
    """A message without its place in the capture: `dissector.opened.Opened` for a summary."""

    __slots__ = ("found", "schema", "short", "tree")

    def __init__(self, tree: Node, of: Other) -> None:
        self.tree = tree
        self.schema = of.schema
        self.short = of.short
        self.found: list[Finding] = []

    @property
    def innermost(self) -> Node:
        """The message node of the innermost layer."""
        return messages(self.tree)[-1]

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        """That of a summary."""
        return self.short


class Other:
    """Messages of one path, dialect, schema and direction in which nothing is wrong."""

    def __init__(self, view: MessageView, secrets: bool) -> None:
        self.layer = "backend" if view.direction == "B" else "frontend"
        self.dialect, self.schema = view.dialect, view.schema
        self.secrets = secrets
        self.short = view.context(secrets, VALUE)
        self._known: dict[bytes, bytes] = {}
        self._rows: DataRows | CopyRows | None = None
        with suppress(UnusualError):
            self._rows = rows_of(view, secrets, fields=False)

    def text(self, data: bytes, opened: Callable[[], MessageView]) -> bytes:
        """The summary of the message `data`, UTF-8."""
        found = self._known.get(data)
        if found is not None:
            return found
        if self._rows is not None:
            try:
                return self._rows.read(data, 0, len(data), lambda: self._bare(data))[0].encode()
            except UnusualError:
                pass
        found = summary(self._bare(data), self.secrets).encode()
        if len(data) <= SHORT:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[data] = found
        return found

    def _bare(self, data: bytes) -> Bare:
        tree = annotate(data, self.layer, self.dialect)
        open_contents(tree, data, self.dialect, self.schema)
        return Bare(tree, self)
