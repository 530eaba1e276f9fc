"""One opened message, with what the panes ask of it: texts of values, columns, masked secrets."""

from __future__ import annotations

from functools import cached_property

from dissector.columns import ColumnValue, column_values
from dissector.display import Context, display
from dissector.node import Node, messages, walk
from dissector.spec import Field, Message, Repeat
from tui.below import BelowNode
from tui.model import MessageView

MASK = b"*"
"""What the bytes of a secret become: offsets and lengths stay."""


class Opened:
    """A message view and whether its secrets may be seen.

    data: the bytes of the message, those of secrets masked.
    """

    def __init__(self, view: MessageView, show_secrets: bool = False) -> None:
        self.view = view
        self.row = view.row
        self.tree = view.tree
        self.found = view.found
        self._show_secrets = show_secrets
        self._contexts: dict[int, Context] = {}
        self.data = view.data if show_secrets else self._masked(view.data)

    def text(self, node: Node, limit: int) -> str:
        """The value of `node` in one line, safe to show, `limit` characters of it; "" for none."""
        if isinstance(node, BelowNode):
            return node.text
        context = self._context(limit)
        column = self.column(node)
        if column is not None:
            return column.text(context)
        if node.children is not None and not node.is_message and not _is_repeat(node):
            # A part or a carried message: what is inside has lines of its own.
            inner = node.child("columns")
            return display(inner, context) if inner is not None else ""
        return display(node, context)

    def column(self, node: Node) -> ColumnValue | None:
        """The column whose value `node` is, or which it holds as an element of a tuple."""
        found = self._columns.get(id(node))
        if found is None and node.index >= 0:
            for child in node.children or ():
                found = self._columns.get(id(child), found)
        return found

    @cached_property
    def _columns(self) -> dict[int, ColumnValue]:
        return {id(each.leaf): each for each in column_values(self.tree, self.view.schema)}

    def _context(self, limit: int) -> Context:
        context = self._contexts.get(limit)
        if context is None:
            context = self.view.context(self._show_secrets, limit)
            self._contexts[limit] = context
        return context

    def _masked(self, data: bytes) -> bytes:
        inner = messages(self.tree)[-1].declaration
        if not isinstance(inner, Message) or inner.layer not in ("frontend", "backend"):
            return data  # no other layer has secrets: spare the walk
        masked = bytearray(data)
        for node in walk(self.tree):
            declared = node.declaration
            if isinstance(declared, Field) and declared.secret and node.children is None:
                masked[node.start : node.end] = MASK * (node.end - node.start)
        return bytes(masked)


def _is_repeat(node: Node) -> bool:
    return isinstance(node.declaration, Repeat)
