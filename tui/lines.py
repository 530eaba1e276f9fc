"""What list, tree and bytes have in common: lines drawn only when seen, and a cursor among them.

Textual's Line API: the widget is asked for one line of the screen at a time, so ten million lines
cost what the visible ones cost.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

Piece = tuple[str, str]
"""(text, name of a component class of the widget; "" is the widget's own style)."""


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """A scrolling view of `line_count` lines with a cursor.

    A subclass gives `line_count`, `pieces` and, where it has one, `header`. Lines count from 0. The
    cursor moves without repainting more than two lines.
    """

    HEADER_LINES = 0
    """Lines at the top that do not scroll."""

    @dataclass
    class Dragged(Message):
        """The user drags an edge of `view` ("top" or "left") to this place of the screen."""

        view: LineView
        edge: str
        x: int
        y: int

    cursor: reactive[int] = reactive(0, repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._look: dict[str, Style] = {}
        self._edge = ""

    # What a subclass gives.

    @property
    def line_count(self) -> int:
        """How many lines there are, the header not counted."""
        raise NotImplementedError

    def pieces(self, line: int, width: int) -> list[Piece]:
        """The text of a line; it may be longer than `width`, and is cut where it is."""
        raise NotImplementedError

    def header(self, width: int) -> list[Piece]:
        """The text of the header line."""
        return []

    def cursor_style(self, line: int) -> str:
        """The component class that lies over the whole line; "" for none."""
        if line != self.cursor:
            return ""
        return "line--cursor" if self.has_focus else "line--cursor-blurred"

    def content_width(self) -> int:
        """The width of the widest line in cells when it can be scrolled sideways, else 0."""
        return 0

    # Drawing.

    def resize_lines(self, draw: bool = True) -> None:
        """To be called when the number of lines or their width has changed.

        draw: whether lines that are seen may look different.
        """
        wide = self.content_width() or self.scrollable_content_region.width
        size = Size(wide, self.line_count + self.HEADER_LINES)
        if size != self.virtual_size:
            # Setting the reactive as usual would lay out the whole screen, for every message that
            # the cursor passes. Only this view's scrollbar has to know.
            self.set_reactive(LineView.virtual_size, size)
            self._scroll_update(size)
        if draw:
            self.refresh()

    def on_resize(self) -> None:
        self.resize_lines()
        self.scroll_to_line(self.cursor)

    def notify_style_update(self) -> None:
        self._look.clear()
        super().notify_style_update()

    def look(self, name: str) -> Style:
        """The style of a component class, remembered until the theme changes."""
        style = self._look.get(name)
        if style is None:
            style = self.get_component_rich_style(name) if name else self.rich_style
            self._look[name] = style
        return style

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y < self.HEADER_LINES:
            pieces, over = self.header(width), ""
        else:
            line = y - self.HEADER_LINES + self.scroll_offset.y
            if line >= self.line_count:
                return Strip.blank(width, self.look(""))
            pieces, over = self.pieces(line, width), self.cursor_style(line)
        return self._strip(pieces, over, width)

    def _strip(self, pieces: list[Piece], over: str, width: int) -> Strip:
        if over:
            base = self.look(over)
            # Meaning by colour stays readable under the cursor: only bold and the like is kept.
            segments = [
                Segment(text, base + Style(bold=self.look(name).bold)) for text, name in pieces
            ]
        else:
            base = self.look("")
            segments = [Segment(text, self.look(name)) for text, name in pieces]
        left = self.scroll_offset.x
        strip = Strip(segments)
        return strip.crop_extend(left, left + width, base).simplify()

    # Dragging an edge.

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.y == 0 and self.styles.border_top[0]:
            self._edge = "top"
        elif event.x == 0 and self.styles.padding.left:
            self._edge = "left"
        if self._edge:
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._edge:
            place = event.screen_offset
            self.post_message(self.Dragged(self, self._edge, place.x, place.y))

    def on_mouse_up(self) -> None:
        if self._edge:
            self._edge = ""
            self.release_mouse()

    # Moving.

    def validate_cursor(self, line: int) -> int:
        return max(0, min(line, self.line_count - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        if before != now:
            self.refresh_line(before + self.HEADER_LINES)
            self.refresh_line(now + self.HEADER_LINES)
        self.scroll_to_line(now)
        self.cursor_moved()

    def cursor_moved(self) -> None:
        """Called after the cursor came to a line (for the subclass)."""

    def on_focus(self) -> None:
        self.refresh_line(self.cursor + self.HEADER_LINES)

    def on_blur(self) -> None:
        self.refresh_line(self.cursor + self.HEADER_LINES)

    @property
    def page_lines(self) -> int:
        """Lines that are seen at once."""
        return max(1, self.scrollable_content_region.height - self.HEADER_LINES)

    def scroll_to_line(self, line: int) -> None:
        """Scroll as little as is needed to see `line`."""
        top = self.scroll_offset.y
        if line < top:
            self.scroll_to(y=line, animate=False, force=True)
        elif line >= top + self.page_lines:
            self.scroll_to(y=line - self.page_lines + 1, animate=False, force=True)

    def line_at(self, y: int) -> int | None:
        """The line at row `y` of the content; None on the header or below the last line."""
        line = y - self.HEADER_LINES + self.scroll_offset.y
        return line if y >= self.HEADER_LINES and line < self.line_count else None

    def action_move(self, step: int) -> None:
        self.cursor += step

    def action_page(self, step: int) -> None:
        self.cursor += step * max(1, self.page_lines - 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = self.line_count - 1

    def action_side(self, step: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + 8 * step, animate=False, force=True)
