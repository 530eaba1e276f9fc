"""Summaries of messages for whose kind nothing quicker is known: each is read from its bytes alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from .annotate import annotate
from .contents import open_contents
from .copying import CopyState
from .copyrows import CopyRows
from .display import Context
from .findings import Finding
from .node import Node, findings, messages
from .schema_findings import schema_findings
from .schemas import Schema, Tables
from .summary import VALUE, summary
from .taken import UnusualError
from .view import MessageView

SHORT, KEPT = 256, 1024
"""Bytes of a message whose summary is kept, and how many are: the same ones come again and again."""


class Bare:
    """A message without its place in the capture: `dissector.opened.Opened` for a summary."""

    __slots__ = ("found", "schema", "short", "tree")

    def __init__(
        self, tree: Node, schema: Schema, short: Context, found: Sequence[Finding]
    ) -> None:
        self.tree = tree
        self.schema = schema
        self.short = short
        self.found = list(found)

    @property
    def innermost(self) -> Node:
        """The message node of the innermost layer."""
        return messages(self.tree)[-1]

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        """That of a summary."""
        return self.short


class Other:
    """Messages of one path, dialect and direction, and of schemas that `alike` makes equal; usual: in which
    nothing is wrong."""

    def __init__(self, view: MessageView, secrets: bool, tables: Tables, usual: bool) -> None:
        self.layer = "backend" if view.direction == "B" else "frontend"
        self.dialect, self.tables = view.dialect, tables
        self.secrets, self.usual = secrets, usual
        self.short = view.context(secrets, VALUE)
        self._known: dict[tuple[bytes, int, str], bytes] = {}
        self._rows: CopyRows | None = None
        with suppress(UnusualError):
            self._rows = CopyRows(view, secrets, fields=False)

    def text(self, data: bytes, relation: int, stored: Sequence[Finding]) -> bytes:
        """The summary of the message `data`, UTF-8. relation: the number of its schema; stored: what is
        wrong with it beside what its bytes tell."""
        key = data, relation, stored[0].text if stored else ""
        found = self._known.get(key)
        if found is not None:
            return found
        if self._rows is not None:
            try:
                bare = partial(self._bare, data, relation, stored)
                return self._rows.read(data, 0, len(data), bare)[0].encode()
            except UnusualError:
                pass
        found = summary(self._bare(data, relation, stored), self.secrets).encode()
        if len(data) <= SHORT:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[key] = found
        return found

    def _bare(self, data: bytes, relation: int, stored: Sequence[Finding]) -> Bare:
        schema = self.tables.schemas[relation]
        tree = annotate(data, self.layer, self.dialect)
        open_contents(tree, data, self.dialect, schema)
        if not stored and not self.usual:  # a summary tells the first one only
            stored = findings(tree) + schema_findings(tree, schema)
        return Bare(tree, schema, self.short, stored)


_ANYWHERE = CopyState("")


def alike(schema: Schema) -> Schema:
    """What all schemas are that make no other difference to the writers than that each message is read
    with its own: a description that comes again with a new number, COPY data that goes on somewhere."""
    if schema.copy is not None and not schema.copy.fresh:
        return replace(schema, version=0, copy=_ANYWHERE)
    return replace(schema, version=0)
