"""A stream as bytes: both directions in the order of the messages, with who sent what."""

from __future__ import annotations

from typing import Any

import numpy as np
from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from dissector.rows import BACKEND
from dissector.text import visible
from tui import present_fields as present
from tui.actions import bindings
from tui.key_line import KeyLine
from tui.lines import LineView, Piece
from tui.opened import Opened

WHO = ("→", "←")
"""From the frontend, from the backend."""

STYLES = ("kind--schema", "kind--change")


class StreamView(LineView):
    """The bytes of all messages of a stream, a new row for each message.

    Rows are counted from the lengths in the index; a message is opened when a row of it is seen.
    """

    BINDINGS = bindings("stream")
    COMPONENT_CLASSES = {  # noqa: RUF012 (Textual's way to declare them)
        "line--cursor",
        "line--cursor-blurred",
        *present.HEX_STYLES,
        *STYLES,
    }

    def __init__(self, source: Any, stream: int, number: int, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source = source
        rows = source.capture.index.rows
        places = rows.where(lambda streams: streams == stream, "stream")
        self.numbers = places + 1
        self._lengths = rows.take("length", places).astype(np.int64)
        self._directions = rows.take("direction", places)
        self._shape = present.hex_shape(0, 0)
        self._ends = self._lengths
        self._begin = number
        self._opened: tuple[int, bytes] = (0, b"")

    @property
    def line_count(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def place(self) -> int:
        """The place in `numbers` of the message under the cursor."""
        return int(np.searchsorted(self._ends, self.cursor, side="right"))

    @property
    def number(self) -> int:
        """The number of the message under the cursor."""
        return int(self.numbers[self.place]) if self.line_count else 0

    def on_resize(self) -> None:
        number = self._begin or self.number
        self._begin = 0
        longest = int(self._lengths.max()) if len(self._lengths) else 0
        self._shape = present.hex_shape(self.scrollable_content_region.width - 12, longest)
        self._ends = np.cumsum(-(-self._lengths // self._shape.per_row))
        self.resize_lines()
        self.go_to(number)

    def go_to(self, number: int) -> None:
        """To the first row of a message."""
        place = int(np.searchsorted(self.numbers, number))
        self.cursor = int(self._ends[place - 1]) if place else 0
        self.scroll_to_line(self.cursor)

    def pieces(self, line: int, width: int) -> list[Piece]:
        place = int(np.searchsorted(self._ends, line, side="right"))
        first = int(self._ends[place - 1]) if place else 0
        number = int(self.numbers[place])
        sent = 1 if int(self._directions[place]) == BACKEND else 0
        head = f"{number:>8} {WHO[sent]} " if line == first else " " * 9 + f"{WHO[sent]} "
        start = (line - first) * self._shape.per_row
        data = self._bytes(number)[start : start + self._shape.per_row]
        if not data:
            return [(head, STYLES[sent]), ("(not in the capture)", "hex--offset")]
        row = present.hex_pieces(data, start, self._shape, [])
        return [(head, STYLES[sent]), *((t, s or STYLES[sent]) for t, s in row)]

    def _bytes(self, number: int) -> bytes:
        if self._opened[0] != number:
            try:
                message = self._source.message(number)
                self._opened = (number, Opened(message, self._source.show_secrets).data)
            except OSError:
                self._opened = (number, b"")
        return self._opened[1]

    def action_message(self, step: int) -> None:
        goal = self.place + step
        if 0 <= goal < len(self.numbers):
            self.go_to(int(self.numbers[goal]))

    def action_enter(self) -> None:
        screen = self.screen
        assert isinstance(screen, StreamScreen)
        screen.leave_for(self.number)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if line is None:
            return
        self.cursor = line
        if event.chain == 2:
            self.action_enter()


class StreamScreen(Screen[None]):
    """All bytes of one stream, at a message."""

    BINDINGS = bindings("stream")

    def __init__(self, source: Any, stream: int, number: int) -> None:
        super().__init__()
        self._source = source
        self._stream = stream
        self._number = number

    def compose(self) -> ComposeResult:
        info = self._source.capture.connection(self._stream)
        about = f"Stream {self._stream} as bytes  ·  {WHO[0]} {visible(info.frontend, 60)}"
        yield Static(Content(f"{about}  ·  {WHO[1]} {visible(info.backend, 60)}"), id="status")
        view = StreamView(self._source, self._stream, self._number, id="stream")
        view.border_title = "Bytes"
        yield view
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(StreamView).focus()

    def leave_for(self, number: int) -> None:
        """To the message that the user looks at."""
        app: Any = self.app
        app.pop_screen()
        main: Any = app.screen
        main.lead_to(number)

    def action_leave(self) -> None:
        self.app.pop_screen()

    def action_enter(self) -> None:
        self.query_one(StreamView).action_enter()

    def action_message(self, step: int) -> None:
        self.query_one(StreamView).action_message(step)
