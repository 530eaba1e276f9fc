"""The message list: a window on the index, as many rows read as the screen has lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from tui import present
from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.model import Source


class MessageList(LineView):
    """All messages of a source, or the chosen ones among them, in columns.

    Posts `Picked` when the cursor comes to another message.
    """

    BINDINGS = bindings("list")
    HEADER_LINES = 1
    COMPONENT_CLASSES = {  # noqa: RUF012 (Textual's way to declare them)
        "line--cursor",
        "line--cursor-blurred",
        "list--header",
        "list--quiet",
        *present.KIND_STYLES,
        *present.SEVERITY_STYLES,
    }

    @dataclass
    class Picked(Message):
        """The cursor is on message `number`."""

        number: int

        def can_replace(self, message: Message) -> bool:
            """A held key makes many of these; only the last is worth opening a message for."""
            return isinstance(message, MessageList.Picked)

    @dataclass
    class Opened(Message):
        """The user wants to see the fields of message `number`."""

        number: int

    def __init__(self, source: Source, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = source
        self._numbers: Sequence[int] | None = None
        self._clock = present.Clock()
        self._columns: list[present.Placed] = []
        self._placed_for = (0, 0, "")

    @property
    def line_count(self) -> int:
        return self.source.count if self._numbers is None else len(self._numbers)

    @property
    def number(self) -> int:
        """The number of the message under the cursor; 0 where there is none."""
        return self.number_at(self.cursor) if self.line_count else 0

    def number_at(self, line: int) -> int:
        """The number of the message in a line."""
        return line + 1 if self._numbers is None else int(self._numbers[line])

    def on_mount(self) -> None:
        self.refresh_rows()

    def refresh_rows(self) -> None:
        """To be called when the source has grown or changed."""
        first = self._clock.first is None and self.line_count > 0
        if first:
            self._clock.first = self.source.row(1).time
        self.resize_lines()
        if first:
            self.cursor_moved()

    def show_numbers(self, numbers: Sequence[int] | None) -> None:
        """Show these messages only (ascending numbers), or all of them with None.

        The cursor stays on its message, or goes to the next one that is left.
        """
        keep = self.number
        self._numbers = numbers
        self.refresh_rows()
        self.go_to(keep)

    def go_to(self, number: int) -> None:
        """Put the cursor on message `number`, or on the nearest one after it that is shown."""
        if self._numbers is None:
            line = number - 1
        else:
            from bisect import bisect_left

            line = bisect_left(self._numbers, number)
        before = self.cursor
        self.cursor = line
        if self.cursor == before:
            self.cursor_moved()

    def next_time_mode(self) -> str:
        """Show times in the next way; gives its name."""
        self._clock.next_mode()
        self.refresh()
        return self._clock.mode

    def _placed(self, width: int) -> list[present.Placed]:
        """The columns for `width` cells, laid out anew when that, the count or the clock changed."""
        state = (width, len(str(self.source.count)), self._clock.mode)
        if state != self._placed_for:
            self._placed_for = state
            self._columns = present.place_columns(width, self.source.count, self._clock)
        return self._columns

    def header(self, width: int) -> list[Piece]:
        return [(text + " ", "list--header") for text in present.headings(self._placed(width))]

    def pieces(self, line: int, width: int) -> list[Piece]:
        row = self.source.row(self.number_at(line))
        before = None
        if line and self._clock.needs_previous:
            before = self.source.row(self.number_at(line - 1)).time
        return present.row_pieces(row, self._placed(width), self._clock, before)

    def cursor_moved(self) -> None:
        if self.line_count:
            self.post_message(self.Picked(self.number))

    def action_enter(self) -> None:
        if self.line_count:
            self.post_message(self.Opened(self.number))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if line is None:
            return
        self.cursor = line
        if event.chain == 2:
            self.action_enter()
