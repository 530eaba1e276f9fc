"""The message list: a window on the index, as many rows read as the screen has lines."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from dissector.rows import Growing
from tui import present
from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.model import Source
from tui.sorting import SORTABLE, order_of

Numbers = NDArray[np.int64]

LATER = 0.04
"""Seconds after which summaries of large messages begin to be made: keys come first."""


@dataclass(frozen=True)
class Lines:
    """Lines of a list at one moment. order: of the first of them, if they are sorted; chosen: numbers of the
    messages, None for all."""

    source: Source
    line_count: int
    order: Numbers | None
    chosen: Numbers | None

    def numbers_at(self, lines: Numbers) -> Numbers:
        """The numbers of the messages in these lines."""
        if self.order is not None:
            inside = lines < len(self.order)
            lines = np.where(inside, self.order[np.where(inside, lines, 0)], lines)
        return lines + 1 if self.chosen is None else self.chosen[lines]


class MessageList(LineView):
    """All messages of a source, or the chosen ones among them, in columns.

    Posts `Picked` when the cursor comes to another message. What the source or the choice has more
    later comes at the end; sorted lines stay as they are until `sort_again`.
    """

    BINDINGS = bindings("list")
    HEADER_LINES = 1
    COMPONENT_CLASSES = {  # noqa: RUF012 (Textual's way to declare them)
        "line--cursor",
        "line--cursor-blurred",
        "list--header",
        "list--quiet",
        "list--mark",
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

    @dataclass
    class SortWanted(Message):
        """The user wants the lines by this column; "" for the order of the capture."""

        column: str
        down: bool

    def __init__(self, source: Source, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source = source
        self.marked: Container[int] = ()
        self.chosen: Growing | None = None
        self.order: Numbers | None = None
        self.sorted: tuple[str, bool] = ("", False)
        self.clock = present.Clock()
        self._columns: list[present.Placed] = []
        self._placed_for: tuple[Any, ...] = ()
        self._filling = False

    @property
    def line_count(self) -> int:
        return self.source.count if self.chosen is None else self.chosen.size

    @property
    def number(self) -> int:
        """The number of the message under the cursor; 0 where there is none."""
        return self.number_at(self.cursor) if self.line_count else 0

    def number_at(self, line: int) -> int:
        """The number of the message in a line."""
        if self.order is not None and line < len(self.order):
            line = int(self.order[line])
        return line + 1 if self.chosen is None else int(self.chosen.values[line])

    def still(self) -> Lines:
        """The lines as they are now, for a thread: what is chosen may grow or be other lines meanwhile."""
        chosen = None if self.chosen is None else self.chosen.values.copy()
        return Lines(self.source, self.line_count, self.order, chosen)

    def line_of(self, number: int) -> int:
        """The line of a message, or of the next one after it that is shown, or of the last."""
        last = self.line_count - 1
        place = number - 1
        if self.chosen is not None:
            place = int(np.searchsorted(self.chosen.values, number))
        place = max(0, min(place, last))
        if self.order is not None and place < len(self.order):
            return int(np.flatnonzero(self.order == place)[0])
        return place

    def on_mount(self) -> None:
        self.refresh_rows()

    def refresh_rows(self) -> None:
        """To be called when the source has grown or changed."""
        if self.clock.first is None and self.source.count:
            self.clock.first = self.source.row(1).time
            self.resize_lines()
            self.cursor_moved()
            return
        self.resize_lines()

    # Which messages.

    def show_numbers(self, numbers: Sequence[int] | Numbers | None) -> None:
        """Show these messages only (ascending numbers), or all of them with None.

        The cursor stays on its message, or goes to the next one that is left.
        """
        chosen = None
        if numbers is not None:
            chosen = Growing(np.int64)
            chosen.extend(np.asarray(numbers, np.int64))
        self.show_chosen(chosen)

    def show_chosen(self, chosen: Growing | None, keep: int = 0) -> None:
        """As `show_numbers`; `chosen` may be extended later, see `refresh_rows`."""
        keep = keep or self.number
        self.chosen = chosen
        self.order, self.sorted = None, ("", False)
        self.refresh_rows()
        if self.line_count:
            self.go_to(keep)

    def go_to(self, number: int) -> None:
        """Put the cursor on message `number`, or on the nearest one after it that is shown."""
        before = self.cursor
        self.cursor = self.line_of(number)
        if self.cursor == before:
            self.cursor_moved()

    def in_middle(self) -> None:
        """Scroll so that the cursor's line has others above and below it."""
        top = self.cursor - self.page_lines // 3
        self.scroll_to(y=max(0, top), animate=False, force=True)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of all messages that are shown, ascending."""
        if self.chosen is None:
            return range(1, self.source.count + 1)
        return np.sort(self.chosen.values).tolist()

    def rows_added(self) -> None:
        """To be called when the source has grown at its end: draws only what is seen of it."""
        full = self.scroll_offset.y + self.page_lines < self.virtual_size.height - 1
        if self.clock.first is None or not full or self._stale():
            self.refresh_rows()
        else:
            self.resize_lines(draw=False)

    def _stale(self) -> bool:
        return self._placed_for[1:2] != (len(str(self.source.count)),)

    # Sorting.

    def make_order(self, column: str, down: bool) -> Numbers | None:
        """The order for `set_order`; takes long for millions of lines, may run in a thread."""
        numbers = None if self.chosen is None else self.chosen.values.copy()
        return order_of(self.source, column, down, numbers)

    def set_order(self, column: str, down: bool, order: Numbers | None) -> None:
        """Show the lines in `order` (None: as in the capture); the cursor stays on its message."""
        keep = self.number
        self.order = None if order is None or len(order) > self.line_count else order
        self.sorted = (column, down) if self.order is not None else ("", False)
        self.refresh()
        if keep:
            self.go_to(keep)

    def action_sort(self, step: int) -> None:
        """By the next column that is seen and has an order (step 0: the other way round)."""
        column, down = self.sorted
        if step == 0:
            self.post_message(self.SortWanted(*self._turned(column or "number", down)))
            return
        seen = [p.column.name for p in self._columns]
        names = ["", *(name for name in seen if name in SORTABLE and name != "number")]
        place = names.index(column) if column in names else 0
        self.post_message(self.SortWanted(names[(place + step) % len(names)], False))

    def _turned(self, column: str, down: bool) -> tuple[str, bool]:
        """The other way round; upwards by number is the order of the capture."""
        return ("", False) if column == "number" and down else (column, not down)

    def _sort_click(self, x: int) -> None:
        column = present.column_at(self._columns, x)
        if column not in SORTABLE:
            return
        if self.sorted == (column, False) or (column == "number" and not self.sorted[1]):
            self.post_message(self.SortWanted(column, True))
        elif self.sorted == (column, True):
            self.post_message(self.SortWanted("", False))
        else:
            self.post_message(self.SortWanted(column, False))

    # Drawing.

    def next_time_mode(self) -> str:
        """Show times in the next way; gives its name."""
        self.clock.next_mode()
        self.refresh()
        return self.clock.mode

    def _placed(self, width: int) -> list[present.Placed]:
        """The columns for `width` cells, laid out anew when that, the count or the clock changed."""
        state = (width, len(str(self.source.count)), self.clock.mode, self.sorted)
        if state != self._placed_for:
            self._placed_for = state
            self._columns = present.place_columns(width, self.source.count, self.clock, self.sorted)
        return self._columns

    def header(self, width: int) -> list[Piece]:
        return [(text, "list--header") for text in present.headings(self._placed(width))]

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        if not self._filling and getattr(self.source, "late", False):
            self._filling = True
            self.set_timer(LATER, self._fill)
        return strips

    def _fill(self) -> None:
        """Make some of the summaries that were left out, and draw them."""
        self._filling = False
        source: Any = self.source
        source.make_late()
        self.refresh()

    def pieces(self, line: int, width: int) -> list[Piece]:
        number = self.number_at(line)
        row = self.source.row(number)
        before = None
        if line and self.clock.needs_previous:
            before = self.source.row(self.number_at(line - 1)).time
        return present.row_pieces(
            row, self._placed(width), self.clock, before, marked=number in self.marked
        )

    # Doing.

    def cursor_moved(self) -> None:
        if self.line_count:
            self.post_message(self.Picked(self.number))

    def action_enter(self) -> None:
        if self.line_count:
            self.post_message(self.Opened(self.number))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < self.HEADER_LINES:
            self._sort_click(offset.x)
            return
        line = self.line_at(offset.y)
        if line is None:
            return
        self.cursor = line
        if event.chain == 2:
            self.action_enter()
