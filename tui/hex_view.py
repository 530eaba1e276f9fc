"""The byte pane: the bytes of one message, with those of the selected field marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from dissector.node import Node
from tui import present_fields as present
from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.opened import Opened


class HexView(LineView):
    """Offsets, bytes and their characters. Posts `Picked` when the user goes to another byte.

    The cursor of the view is the row; `at` is the byte.
    """

    BINDINGS = bindings("hex")
    COMPONENT_CLASSES = {"line--cursor", "line--cursor-blurred", *present.HEX_STYLES}  # noqa: RUF012

    @dataclass
    class Picked(Message):
        """The user went to byte `offset` of the message."""

        offset: int

    @dataclass
    class Leapt(Message):
        """The user wants the field `step` fields away from the one at byte `offset`."""

        offset: int
        step: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._data = b""
        self._message = b""
        self.below: bytes | None = None
        self._found: tuple[int, int] | None = None
        self.at = 0
        self._field = (0, 0)
        self._around: list[tuple[int, int]] = []
        self._shape = present.hex_shape(80, 0)

    @property
    def marked(self) -> tuple[int, int]:
        """Start and end of the selected field."""
        return self._field

    @property
    def line_count(self) -> int:
        return -(-len(self._data) // self._shape.per_row)

    def show_message(self, view: Opened | None) -> None:
        """Show the bytes of another message."""
        self._data = self._message = b"" if view is None else view.data
        self.below, self._found = None, None
        self._field, self._around = (0, 0), []
        self.at = min(self.at, max(0, len(self._data) - 1))
        self._reshape()

    def show_below(self, frame: bytes | None) -> None:
        """Show the bytes of a whole frame; None: those of the message again."""
        if frame is self.below:
            return
        self.below = frame
        self._data = self._message if frame is None else frame
        self.border_title = "Bytes" if frame is None else "Bytes of the frame"
        self._field, self._around, self._found = (0, 0), [], None
        self.at = min(self.at, max(0, len(self._data) - 1))
        self._reshape()

    def show_found(self, span: tuple[int, int]) -> None:
        """Mark what was found, and go to it."""
        self._found = span
        self.at = span[0]
        self.cursor = self.at // self._shape.per_row
        self.scroll_to_line(self.cursor)
        self.refresh()

    def mark(self, node: Node, parents: Sequence[Node], at: int | None = None) -> None:
        """Mark the bytes of `node`, fainter those of the innermost of its parents that is no layer.

        at: the byte to stand on; without it the first one of the field.
        """
        self._field = (node.start, node.end)
        self._around = [(p.start, p.end) for p in parents[-1:] if p.end - p.start < len(self._data)]
        self.at = max(0, min(node.start if at is None else at, len(self._data) - 1))
        row = self.at // self._shape.per_row
        if self.cursor == row:
            self.scroll_to_line(row)
        self.cursor = row
        self.refresh()

    def _reshape(self) -> None:
        self._shape = present.hex_shape(self.scrollable_content_region.width, len(self._data))
        self.cursor = self.at // self._shape.per_row
        self.resize_lines()

    def on_resize(self) -> None:
        self._reshape()
        self.scroll_to_line(self.cursor)

    def cursor_style(self, line: int) -> str:
        return ""  # the byte is marked, not its row

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def pieces(self, line: int, width: int) -> list[Piece]:
        start = line * self._shape.per_row
        return present.hex_pieces(
            self._data[start : start + self._shape.per_row],
            start,
            self._shape,
            self._marks(),
        )

    def _marks(self) -> list[tuple[int, int, str]]:
        marks = [(start, end, "hex--around") for start, end in self._around]
        marks.append((*self._field, "hex--field"))
        if self._found is not None:
            marks.append((*self._found, "hex--found"))
        if self.has_focus:
            marks.append((self.at, self.at + 1, "hex--at"))
        return marks

    # Doing.

    def _go(self, offset: int) -> None:
        if self._data:
            self.at = max(0, min(offset, len(self._data) - 1))
            self._found = None
            self.cursor = self.at // self._shape.per_row
            self.post_message(self.Picked(self.at))

    def action_move(self, step: int) -> None:
        if 0 <= self.at + step * self._shape.per_row < len(self._data):
            self._go(self.at + step * self._shape.per_row)

    def action_page(self, step: int) -> None:
        self._go(self.at + step * self._shape.per_row * max(1, self.page_lines - 1))

    def action_first(self) -> None:
        self._go(0)

    def action_last(self) -> None:
        self._go(len(self._data) - 1)

    def action_byte(self, step: int) -> None:
        self._go(self.at + step)

    def action_field(self, step: int) -> None:
        self.post_message(self.Leapt(self.at, step))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if offset is None or line is None:
            return
        column = self._shape.byte_at(offset.x)
        if column is not None:
            self._go(line * self._shape.per_row + column)
