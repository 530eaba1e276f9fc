"""The field tree: the nodes of one message, of which only the open ones become lines."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message

from dissector.node import Node
from tui import present_fields as present
from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.model import MessageView, Path, keyed_children
from tui.present import SEVERITY_STYLES

WIDE = 200
"""A node with more parts than this starts closed: opening takes one key, scrolling past many."""


@dataclass(slots=True)
class Line:
    """One visible line of the tree."""

    node: Node
    path: Path
    depth: int
    parent: int
    opened: bool


class FieldTree(LineView):
    """The annotated fields of one message.

    What was opened or closed, and where the cursor was, is remembered by path, so it is the same in
    the next message as far as that has the same fields. Posts `Picked` when the cursor comes to a
    field because of a user's doing or a new message; not when `select_path` puts it there.
    """

    BINDINGS = bindings("tree")
    COMPONENT_CLASSES = {  # noqa: RUF012 (Textual's way to declare them)
        "line--cursor",
        "line--cursor-blurred",
        *present.TREE_STYLES,
        *SEVERITY_STYLES,
    }

    @dataclass
    class Picked(Message):
        """The cursor is on `node`; `parents` lead to it from the root."""

        node: Node
        parents: list[Node]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view: MessageView | None = None
        self._lines: list[Line] = []
        self._opened: dict[Path, bool] = {}
        self._wanted: Path | None = None
        self._silent = False

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def node(self) -> Node | None:
        """The node under the cursor; None without a message."""
        return self._lines[self.cursor].node if self._lines else None

    def show_message(self, view: MessageView | None) -> None:
        """Show another message (None: nothing), with the tree in the state it is in."""
        self._view = view
        self._rebuild()
        self._announce()

    def select_path(self, path: Path) -> None:
        """Put the cursor on the node at `path`, opening what leads to it, without a `Picked`."""
        self._wanted = path
        for depth in range(len(path)):
            if not self._is_open(path[:depth]):
                self._opened[path[:depth]] = True
        self._rebuild()

    # The lines.

    def _is_open(self, path: Path) -> bool:
        for line in self._lines:
            if line.path == path:
                return line.opened
        return False

    def _rebuild(self) -> None:
        """Make the lines anew from the open nodes, and find the cursor's place in them."""
        self._lines = []
        if self._view is not None:
            self._add(self._view.node, (), 0, -1)
        self.resize_lines()
        self._place_cursor()

    def _add(self, node: Node, path: Path, depth: int, parent: int) -> None:
        # An explicit stack: how deep a message nests is the capture's to say, not Python's.
        stack = [(node, path, depth, parent)]
        while stack:
            node, path, depth, parent = stack.pop()
            opened = bool(node.children) and self._opened.get(path, self._starts_open(node))
            self._lines.append(Line(node, path, depth, parent, opened))
            if opened:
                here = len(self._lines) - 1
                stack.extend(
                    (child, (*path, key), depth + 1, here)
                    for key, child in reversed(list(keyed_children(node)))
                )

    @staticmethod
    def _starts_open(node: Node) -> bool:
        return len(node.children or ()) <= WIDE and node.index < 0

    def _place_cursor(self) -> None:
        """The cursor goes to the wanted path, or as near to it as this message has lines.

        Without one, and where the way to it leaves this message, to the message that is carried in
        there: what people look for is inside.
        """
        best, depth = 0, -1
        wanted = self._wanted or ()
        for index, line in enumerate(self._lines):
            size = len(line.path)
            if depth < size <= len(wanted) and line.path == wanted[:size]:
                best, depth = index, size
                if size == len(wanted):
                    break
        found = self._wanted is not None and depth == len(wanted)
        if not found:
            best = self._innermost(best)
        self._silent = True
        self.cursor = best
        self._silent = False
        if found:
            self.scroll_to_line(best)
        else:
            self.scroll_to(y=best, animate=False, force=True)

    def _innermost(self, index: int) -> int:
        """The line of the last message carried in what stands at line `index`, or that line."""
        last = index
        for inside in range(index + 1, len(self._lines)):
            line = self._lines[inside]
            if line.depth <= self._lines[index].depth:
                break
            if line.node.is_message:
                last = inside
        return last

    def cursor_moved(self) -> None:
        if not self._silent and self._lines:
            self._wanted = self._lines[self.cursor].path
            self._announce()

    def _announce(self) -> None:
        if not self._lines:
            return
        parents = []
        index = self._lines[self.cursor].parent
        while index >= 0:
            parents.append(self._lines[index].node)
            index = self._lines[index].parent
        self.post_message(self.Picked(self._lines[self.cursor].node, parents[::-1]))

    # Drawing.

    def pieces(self, line: int, width: int) -> list[Piece]:
        assert self._view is not None
        shown = self._lines[line]
        return present.tree_pieces(self._view, shown.node, shown.depth, shown.opened, width)

    # Doing.

    def _set_open(self, line: Line, opened: bool) -> None:
        if line.node.children and line.opened != opened:
            self._opened[line.path] = opened
            self._wanted = line.path
            self._rebuild()

    def action_open_close(self) -> None:
        if self._lines:
            line = self._lines[self.cursor]
            self._set_open(line, not line.opened)

    def action_open(self) -> None:
        if not self._lines:
            return
        line = self._lines[self.cursor]
        if line.node.children and not line.opened:
            self._set_open(line, True)
        elif line.opened:
            self.cursor += 1

    def action_close(self) -> None:
        if not self._lines:
            return
        line = self._lines[self.cursor]
        if line.opened:
            self._set_open(line, False)
        elif line.parent >= 0:
            self.cursor = line.parent

    def action_open_all(self) -> None:
        self._set_all(True)

    def action_close_all(self) -> None:
        self._set_all(False)

    def _set_all(self, opened: bool) -> None:
        if self._view is None:
            return
        stack: list[tuple[Node, Path]] = [(self._view.node, ())]
        while stack:
            node, path = stack.pop()
            if not node.children:
                continue
            self._opened[path] = opened or node.is_message
            stack.extend((child, (*path, key)) for key, child in keyed_children(node))
        self._rebuild()
        self._announce()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = None if offset is None else self.line_at(offset.y)
        if offset is None or index is None:
            return
        self.cursor = index
        line = self._lines[index]
        width = self.scrollable_content_region.width
        if event.chain == 2 or present.is_marker(line.depth, width, offset.x):
            self._set_open(line, not line.opened)
