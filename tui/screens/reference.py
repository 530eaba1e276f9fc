"""The reference: definitions by layer, for any release, and two releases side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from dissector.errors import UsageProblem
from dissector.node import Node
from dissector.reference import PAGES, Page, compare, page, pages
from dissector.spec import FIRST_RELEASE, LAST_RELEASE, Field
from dissector.spec import Message as Declared
from tui import present_reference as present
from tui.actions import bindings
from tui.key_line import KeyLine
from tui.lines import LineView, Piece
from tui.screens.table_screen import lead_to
from tui.table import Lead

NEWEST = 18
"""The release that is shown first when no message tells one."""


class Names(LineView):
    """The names of all pages of a release under the headings of their layers."""

    BINDINGS = bindings("names")
    COMPONENT_CLASSES = {"line--cursor", "line--cursor-blurred", *present.STYLES}  # noqa: RUF012

    @dataclass
    class Picked(Message):
        """The cursor is on the page called `name`."""

        name: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[tuple[str, str]] = []
        self._silent = False

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def name_here(self) -> str:
        """The message under the cursor, "" on a heading."""
        return self._lines[self.cursor][1] if self._lines else ""

    def show_release(self, release: int) -> None:
        """Show the pages of `release`; the cursor stays on its message."""
        keep, self._lines, layer = self.name_here, [], ""
        for each in pages(release):
            if each.layer != layer:
                layer = each.layer
                self._lines.append((present.LAYERS[layer], ""))
            self._lines.append((each.name, each.message.name))
        self.resize_lines()
        self.go_to(keep)

    def go_to(self, name: str) -> bool:
        """Put the cursor on a message, without a `Picked`; False where the release has none."""
        places = [i for i, (_, each) in enumerate(self._lines) if each == name]
        self._silent = True
        self.cursor = places[0] if places else min(self.cursor, self.line_count - 1)
        self._silent = False
        return bool(places)

    def pieces(self, line: int, width: int) -> list[Piece]:
        text, name = self._lines[line]
        return [(f" {text}", "")] if name else [(text, "page--label")]

    def cursor_moved(self) -> None:
        if self.name_here and not self._silent:
            self.post_message(self.Picked(self.name_here))

    def action_letter(self, letter: str) -> None:
        """To the next message that begins with `letter`."""
        count = self.line_count
        for step in range(1, count + 1):
            place = (self.cursor + step) % count
            text, name = self._lines[place]
            if name and text[:1].casefold() == letter.casefold():
                self.cursor = place
                return

    def on_key(self, event: events.Key) -> None:
        letter = event.character
        if letter and letter.isupper() and letter != "G":  # G goes to the last line, as everywhere
            self.action_letter(letter)
            event.stop()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if line is not None:
            self.cursor = line


class PageView(LineView):
    """One page, or two releases side by side. The cursor goes line by line."""

    BINDINGS = bindings("page")
    COMPONENT_CLASSES = {"line--cursor", "line--cursor-blurred", *present.STYLES}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[present.Line] = []
        self._make: Any = None
        self._width = 0

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def show(self, make: Any) -> None:
        """Show what ``make(width)`` gives: lines. Called again when the width changes."""
        self._make = make
        path = self.path
        self._fill()
        self.cursor = 0
        self.scroll_to(y=0, animate=False, force=True)
        if path:
            self.go_to_path(path)

    def _fill(self) -> None:
        self._width = self.scrollable_content_region.width
        if self._make is not None and self._width:
            self._lines = self._make(self._width)
        self.resize_lines()

    @property
    def path(self) -> str:
        """The path of the position under the cursor, "" elsewhere."""
        return self._lines[self.cursor].path if self._lines else ""

    def go_to_path(self, path: str) -> None:
        """Put the cursor on a position, its lines in the middle of the pane."""
        for place, line in enumerate(self._lines):
            if line.path == path:
                self.scroll_to(y=max(0, place - self.page_lines // 3), animate=False, force=True)
                self.cursor = place
                return

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._width:
            path = self.path
            self._fill()
            if path:
                self.go_to_path(path)

    def pieces(self, line: int, width: int) -> list[Piece]:
        return self._lines[line].pieces

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if line is not None:
            self.cursor = line


class ReferenceScreen(Screen[None]):
    """Names at the left, the page at the right. `open_at` opens it at a position."""

    BINDINGS = bindings("reference")

    def __init__(self, name: str, capture: Any) -> None:
        super().__init__(name=name)
        self._capture = capture
        self._release = NEWEST
        self._other = 0
        self._comparing = False
        self._shown = "Relation"
        self._wanted: tuple[str, int, int] | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        with Horizontal(id="reference"):
            yield Names(id="names")
            yield PageView(id="page")
        yield KeyLine()

    @property
    def names(self) -> Names:
        return self.query_one("#names", Names)

    @property
    def page(self) -> PageView:
        return self.query_one("#page", PageView)

    def on_mount(self) -> None:
        self.names.border_title = "Messages"
        self.page.border_title = "Definition"
        self.names.focus()
        self.names.show_release(self._release)
        self.call_after_refresh(self._first)

    def _first(self) -> None:
        if self._wanted is None:
            self.names.go_to(self._shown)
            self._show()
        else:
            self._open_wanted()

    def open_at(self, name: str, release: int, position: int) -> None:
        """Open the page of `name` in `release` at a documented position (0: at its beginning)."""
        self._wanted = name, release, position
        if self.is_mounted and self.page.size.width:
            self._open_wanted()

    def _open_wanted(self) -> None:
        assert self._wanted is not None
        (name, release, position), self._wanted = self._wanted, None
        self._comparing = False
        self._shown = name
        self._release = _with_message(name, release)
        self.names.show_release(self._release)
        self.names.go_to(name)
        self._show()
        shown = page(name, self._release)
        path = next((row.path for row in shown.rows if row.position == position), "")
        if path:
            self.page.go_to_path(path)
        self.page.focus()

    @on(Names.Picked)
    def _picked(self, event: Names.Picked) -> None:
        self._shown = event.name
        self._show()

    def _show(self) -> None:
        status = f"Reference  ·  PostgreSQL {self._release}"
        if self._comparing:
            old, new = sorted((self._other, self._release))
            comparison = compare(self._shown, old, new)
            status += f" beside {self._other}"
            self.page.show(lambda width: present.comparison_lines(comparison, width))
        else:
            shown = self._page()
            if shown is None:
                self.page.show(self._not_there)
            else:
                self.page.show(lambda width: present.page_lines(shown, width))
        self.query_one("#status", Static).update(Content(status), layout=False)

    def _page(self) -> Page | None:
        try:
            return page(self._shown, self._release)
        except UsageProblem:
            return None

    def _not_there(self, width: int) -> Sequence[present.Line]:
        text = f"PostgreSQL {self._release} does not have {self._shown}."
        return [present.Line([(text, "page--label")])]

    def action_release(self, step: int) -> None:
        self._release = max(FIRST_RELEASE, min(self._release + step, LAST_RELEASE))
        if self._comparing and self._other == self._release:
            self._other = 0
            self._compare()
        self.names.show_release(self._release)
        self._show()

    def action_other(self, step: int) -> None:
        self._compare()
        other = self._other + step
        other += step if other == self._release else 0
        if FIRST_RELEASE <= other <= LAST_RELEASE:
            self._other = other
        self._show()

    def action_compare(self) -> None:
        if self._comparing:
            self._comparing = False
        else:
            self._compare()
        self._show()

    def _compare(self) -> None:
        """Begin to compare: with the release before, or the one that was compared with last."""
        self._comparing = True
        if self._other in (0, self._release):
            older = self._release - 1
            self._other = older if older >= FIRST_RELEASE else self._release + 1

    def action_next_pane(self) -> None:
        (self.page if self.names.has_focus else self.names).focus()

    def action_users(self) -> None:
        """The messages of the capture that use the definition."""
        expression = users(self._shown)
        if self._capture is None:
            self.notify("There is no capture behind these messages.", markup=False)
            return
        from dissector.holding import holder
        from dissector.query import matching

        first = next(iter(matching(self._capture, expression, holder(self._capture))), 0)
        if not first:
            self.notify(f"No message of this capture uses {self._shown}.", markup=False, timeout=4)
            return
        lead_to(self, Lead(first, expression))

    def action_leave(self) -> None:
        self.app.pop_screen()


def _with_message(name: str, release: int) -> int:
    """`release`, or the nearest one that documents the message."""
    message = next(m for m in PAGES if m.name == name)
    return max(message.since, min(release, message.until))


def users(name: str) -> str:
    """A filter for the messages that use the definition called `name`."""
    if name == "TupleData":
        return "message in {Insert, Update, Delete}"
    if name not in _MESSAGES:
        return "message in {ErrorResponse, NoticeResponse}"
    return f'message == "{name}"'


_MESSAGES = frozenset(m.name for m in PAGES if m.tag or m.layer != "part") - {"TupleData"}


def definition_of(node: Node, parents: Sequence[Node]) -> tuple[str, int, int] | None:
    """(message, release, position) of the definition of `node`, to which `parents` lead; None for bytes
    that nothing declares. Of a node without a position the first one below it counts."""
    for each in reversed([*parents, node]):
        declared = each.declaration
        if each is not node and isinstance(declared, Field) and declared.kind.rule == "part":
            return declared.kind.part, node.place.release, _position(node)
        if isinstance(declared, Declared):
            position = 0 if each is node else _position(node)
            return declared.name, node.place.release or NEWEST, position
    return None


def _position(node: Node) -> int:
    while not node.position and node.children:
        node = node.children[0]
    return node.position
