"""The field tree: the nodes of one message, of which only the open ones become lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from dissector.node import Node
from tui import present_fields as present
from tui.actions import bindings
from tui.below import BelowNode
from tui.lines import LineView, Piece
from tui.model import Path, keyed_children, worst_below
from tui.opened import Opened
from tui.present import SEVERITY_STYLES

WIDE = 200
"""A node with more parts than this starts closed: opening takes one key, scrolling past many."""


Key = tuple[str, int]

FRAME = "~frame"
"""The name in the first key of a path that is in a frame; no field is called so."""


class Branch:
    """What the user did to the node at one path, and to those below it. `opened` None: nothing."""

    __slots__ = ("below", "opened")

    def __init__(self) -> None:
        self.opened: bool | None = None
        self.below: dict[Key, Branch] = {}


class Line:
    """One visible line of the tree. parent: the index of the line that it belongs to, or -1."""

    __slots__ = ("depth", "key", "node", "opened", "parent")

    def __init__(self, node: Node, key: Key, depth: int, parent: int, opened: bool) -> None:
        self.node = node
        self.key = key
        self.depth = depth
        self.parent = parent
        self.opened = opened


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

    @dataclass
    class FrameWanted(Message):
        """The user opened a frame whose layers were not read yet."""

        frame: BelowNode

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view: Opened | None = None
        self._lines: list[Line] = []
        self._branch = Branch()
        self._open_all: bool | None = None
        self._wanted: Path | None = None
        self._silent = False
        self._hide_absent = False
        self._worst: dict[int, int] = {}
        self._below: list[BelowNode] = []
        self._top = 0

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def node(self) -> Node | None:
        """The node under the cursor; None without a message."""
        return self._lines[self.cursor].node if self._lines else None

    @property
    def chain(self) -> list[Node]:
        """The nodes from the root to the one under the cursor; none without a message."""
        if not self._lines:
            return []
        index, found = self.cursor, []
        while index >= 0:
            found.append(self._lines[index].node)
            index = self._lines[index].parent
        return found[::-1]

    @property
    def path(self) -> Path:
        """The path of the node under the cursor."""
        return self._path(self.cursor) if self._lines else ()

    def show_message(self, view: Opened | None, below: Sequence[BelowNode] = ()) -> None:
        """Show another message (None: nothing), with the tree in the state it is in.

        below: the frames that its bytes were in.
        """
        self._view = view
        self._below = list(below)
        self._worst = worst_below(view.tree) if view is not None and view.found else {}
        self._rebuild()
        self._announce()

    def select_path(self, path: Path) -> None:
        """Put the cursor on the node at `path`, opening what leads to it, without a `Picked`."""
        if self._view is None:
            return
        node, branch = self._view.tree, self._branch
        if path and path[0][0] == FRAME:
            node = next((n for k, n in self._frames() if k == path[0]), node)
            branch = branch.below.setdefault(path[0], Branch())
        for key in path[1:] if isinstance(node, BelowNode) else path:
            if not self._opens(node, branch):
                branch.opened = True
            branch = branch.below.setdefault(key, Branch())
            node = next((child for each, child in keyed_children(node) if each == key), node)
        self._wanted = path
        self._rebuild()

    # The lines.

    def _path(self, index: int) -> Path:
        keys = []
        while self._lines[index].parent >= 0:
            keys.append(self._lines[index].key)
            index = self._lines[index].parent
        if self._lines[index].key[0] == FRAME:
            keys.append(self._lines[index].key)
        return tuple(keys[::-1])

    def _opens(self, node: Node, branch: Branch | None) -> bool:
        """True when the parts of `node` are to be seen."""
        if not node.children:
            return False
        if isinstance(node, BelowNode):
            return branch is not None and branch.opened is True
        if branch is not None and branch.opened is not None:
            return branch.opened
        if self._open_all is not None:
            return self._open_all or node.is_message or _carries(node)
        return len(node.children) <= WIDE and node.index < 0

    def _rebuild(self) -> None:
        """Make the lines anew from the open nodes, and find the cursor's place in them."""
        lines: list[Line] = []
        # An explicit stack: how deep a message nests is the capture's to say, not Python's.
        stack: list[tuple[Node, Key, int, int, Branch | None]] = []
        if self._view is not None:
            stack.append((self._view.tree, ("", 0), 0, -1, self._branch))
            frames = [(n, k, 0, -1, self._branch.below.get(k)) for k, n in self._frames()]
            stack += frames[::-1]
        while stack:
            node, key, depth, parent, branch = stack.pop()
            opened = self._opens(node, branch)
            if opened:
                here = len(lines)
                below = branch.below if branch is not None else {}
                inside = [
                    (child, each, depth + 1, here, below.get(each))
                    for each, child in keyed_children(node)
                    if not (self._hide_absent and child.absent)
                ]
                inside.reverse()
                stack += inside
            if parent < 0:
                self._top = len(lines)  # in the end that of the message: it comes last
                if opened and isinstance(node, BelowNode) and not node.read:
                    self.post_message(self.FrameWanted(node))
            lines.append(Line(node, key, depth, parent, opened))
        self._lines = lines
        self.resize_lines()
        self._place_cursor()

    def _place_cursor(self) -> None:
        """The cursor goes to the wanted path, or as near to it as this message has lines.

        Without one, and where the way to it leaves this message, to the message that is carried in
        there: what people look for is inside.
        """
        best, depth = self._top, 0
        wanted = self._wanted or ()
        under = 1
        if wanted and wanted[0][0] == FRAME:
            under = 0
            for index, line in enumerate(self._lines[: self._top]):
                if line.parent < 0 and line.key == wanted[0]:
                    best, depth = index, 1
        for index, line in enumerate(self._lines):
            if depth == len(wanted):
                break
            if line.parent == best and line.depth == depth + under and line.key == wanted[depth]:
                best, depth = index, depth + 1
        if (self._wanted is not None and depth == len(wanted)) or (depth and not under):
            top = None
        else:
            best = top = self._innermost(best)
        self._silent = True
        self.cursor = best
        self._silent = False
        if top is None:
            self.scroll_to_line(best)
        else:
            self.scroll_to(y=top, animate=False, force=True)

    def _frames(self) -> list[tuple[Key, BelowNode]]:
        return [((FRAME, i), frame) for i, frame in enumerate(self._below)]

    def frame_read(self, frame: BelowNode) -> None:
        """A frame that was wanted has its layers now."""
        if any(each is frame for each in self._below):
            self._rebuild()
            self._announce()

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
            self._wanted = self.path
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
        severity = self._worst.get(id(shown.node), 0)
        return present.tree_pieces(
            self._view, shown.node, shown.depth, shown.opened, severity, width
        )

    # Doing.

    def _set_open(self, index: int, opened: bool) -> None:
        line = self._lines[index]
        if not line.node.children or line.opened == opened:
            return
        self._wanted = self._path(index)
        branch = self._branch
        for key in self._wanted:
            branch = branch.below.setdefault(key, Branch())
        branch.opened = opened
        self._rebuild()

    def action_open_close(self) -> None:
        if self._lines:
            self._set_open(self.cursor, not self._lines[self.cursor].opened)

    def action_open(self) -> None:
        if not self._lines:
            return
        line = self._lines[self.cursor]
        if line.node.children and not line.opened:
            self._set_open(self.cursor, True)
        elif line.opened:
            self.cursor += 1

    def action_close(self) -> None:
        if not self._lines:
            return
        line = self._lines[self.cursor]
        if line.opened:
            self._set_open(self.cursor, False)
        elif line.parent >= 0:
            self.cursor = line.parent

    def action_open_all(self) -> None:
        self._set_all(True)

    def action_close_all(self) -> None:
        self._set_all(False)

    def action_absent(self) -> None:
        self._hide_absent = not self._hide_absent
        self._rebuild()
        self._announce()

    def _set_all(self, opened: bool) -> None:
        """From now on every field starts open, or every one but the layers starts closed."""
        self._open_all = opened
        self._branch = Branch()
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
            self._set_open(index, not line.opened)


def _carries(node: Node) -> bool:
    return bool(node.children) and node.children[0].is_message  # type: ignore[index]
