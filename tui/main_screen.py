"""The viewer: message list, field tree, bytes and details, with one selection between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from dissector.node import Node
from dissector.text import visible
from tui import present
from tui.actions import bindings
from tui.details import Details
from tui.dialogs import message_dialog
from tui.field_tree import FieldTree
from tui.hex_view import HexView
from tui.message_list import MessageList
from tui.model import Source, chain_at, path_to
from tui.opened import Opened

PANES = ("list", "tree", "hex", "details")
"""The panes a user can be in, in the order of Tab."""

TITLES = ("Messages", "Fields", "Bytes", "Field")


class MainScreen(Screen[None]):
    """All panes over one source.

    Who selects: the list picks a message; tree or bytes pick a field of it; `_select` shows the
    field in the other one and in the details.
    """

    BINDINGS = bindings("main")

    def __init__(self, source: Source, title: str) -> None:
        super().__init__()
        self._source = source
        self._about = title
        self._view: Opened | None = None
        self._list_lines = 0
        self._showing = ""
        self._led_by: Screen[Any] | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        yield MessageList(self._source, id="list")
        with Horizontal(id="parts"):
            yield FieldTree(id="tree")
            yield HexView(id="hex")
        yield Details(id="details")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        for name, title in zip(PANES, TITLES, strict=True):
            self.query_one(f"#{name}", Widget).border_title = title
        self.messages.focus()
        if not self._source.count:
            self._say_status()
            self.details.show_text("", "No message of PostgreSQL is in this capture.")

    @property
    def messages(self) -> MessageList:
        return self.query_one("#list", MessageList)

    @property
    def fields(self) -> FieldTree:
        return self.query_one("#tree", FieldTree)

    @property
    def octets(self) -> HexView:
        return self.query_one("#hex", HexView)

    @property
    def details(self) -> Details:
        return self.query_one("#details", Details)

    # A message.

    @on(MessageList.Picked)
    def _message_picked(self, event: MessageList.Picked) -> None:
        self.show_message(event.number)

    @on(MessageList.Opened)
    def _message_opened(self) -> None:
        self.fields.focus()

    def show_message(self, number: int) -> None:
        """Open message `number` in tree and bytes. When it cannot be read, say so and go on."""
        if self._view is not None and self._view.row.number == number:
            return
        try:
            self._view = Opened(self._source.message(number), self._source.show_secrets)
        except Exception as error:  # whatever it is: the user must not lose the place and the rest
            self._view = None
            self._cannot_open(number, error)
        self.octets.show_message(self._view)
        self.fields.show_message(self._view)
        self._say_status()

    def lead_to(
        self,
        number: int = 0,
        *,
        expression: str = "",
        numbers: Sequence[int] | None = None,
        label: str = "",
        back: Screen[Any] | None = None,
    ) -> None:
        """Show what another screen leads to: messages by a filter or by number, one of them first.

        label: what `numbers` are, for people. back: the screen that `action_way_back` returns to.
        """
        if expression:
            numbers = self._matching(expression)
        if numbers is not None:
            self._showing = label or expression
            self.messages.show_numbers(numbers)
        if number:
            self.messages.go_to(number)
        self._led_by = back
        self.messages.focus()
        self._say_status()

    def _matching(self, expression: str) -> Sequence[int]:
        from dissector.query import matching

        return list(matching(getattr(self._source, "capture"), expression))  # noqa: B009

    def action_define(self) -> None:
        """The definition of the selected field in the reference."""
        from tui.screens.reference import ReferenceScreen, definition_of

        chosen = self.fields.chain
        found = definition_of(chosen[-1], chosen[:-1]) if chosen else None
        if found is None:
            self.notify("Nothing defines these bytes.", markup=False, timeout=3)
            return
        self.app.action_open_screen("reference")  # type: ignore[attr-defined]
        screen = self.app.screen
        assert isinstance(screen, ReferenceScreen)
        screen.open_at(*found)

    def action_copy(self) -> None:
        """A menu of what can be copied from here."""
        from tui.copying import copy_dialog

        chain = self.fields.chain
        if self._view is not None and chain:
            self.app.push_screen(
                copy_dialog(self._view.view, chain[-1], self._source.show_secrets)
            )

    def action_export(self) -> None:
        """Write the messages that the list shows to a file."""
        from tui.exporting import start

        capture = getattr(self._source, "capture", None)
        if capture is None or not self.messages.line_count:
            self.notify("There is nothing to write.", markup=False, timeout=3)
            return
        numbers = self.messages.numbers
        what = f"{len(numbers):,} messages"
        if self._showing:
            what += f" ({visible(self._showing, 40)})"
        start(self, capture, numbers, what, self._about)

    def action_way_back(self) -> None:
        """All messages again, then the screen that led here."""
        if self._showing:
            self._showing = ""
            self.messages.show_numbers(None)
            self._say_status()
        if self._led_by is not None:
            back, self._led_by = self._led_by, None
            self.app.push_screen(back)

    def _cannot_open(self, number: int, error: Exception) -> None:
        text = visible(str(error) or type(error).__name__, 300)
        self.details.show_text(f"message {number}", f"cannot be opened: {text}")
        advice = "Is the capture file still there and as it was? Open it again to go on."
        self.app.push_screen(
            message_dialog(f"Message {number} cannot be opened", f"{text}\n\n{advice}")
        )

    def _say_status(self) -> None:
        row = self._view.row if self._view is not None else None
        number = row.number if row is not None else 0
        text = present.status(self._about, number, self._source.count, row)
        if self._showing:
            text += f"  ·  only {visible(self._showing, 60)} (Backspace: all)"
        self.query_one("#status", Static).update(Content(text), layout=False)

    # A field.

    @on(FieldTree.Picked)
    def _field_picked(self, event: FieldTree.Picked) -> None:
        self._select(event.node, event.parents)

    @on(HexView.Picked)
    def _byte_picked(self, event: HexView.Picked) -> None:
        self._select_byte(event.offset)

    @on(HexView.Leapt)
    def _field_leapt(self, event: HexView.Leapt) -> None:
        if self._view is None:
            return
        node = chain_at(self._view.tree, path_to(self._view.tree, event.offset))[-1]
        goal = node.end if event.step > 0 else node.start - 1
        if not 0 <= goal < len(self._view.data):
            return
        if event.step < 0:
            goal = chain_at(self._view.tree, path_to(self._view.tree, goal))[-1].start
        self._select_byte(goal)

    def _select_byte(self, offset: int) -> None:
        if self._view is None:
            return
        path = path_to(self._view.tree, offset)
        chain = chain_at(self._view.tree, path)
        self.fields.select_path(path)
        self._select(chain[-1], chain[:-1], offset)

    def _select(self, node: Node, parents: list[Node], at: int | None = None) -> None:
        if self._view is None:
            return
        self.octets.mark(node, parents, at)
        self.details.show_field(self._view, node, parents)

    # Panes.

    def action_next_pane(self) -> None:
        self._turn(1)

    def action_previous_pane(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        now = self.focused.id if self.focused is not None else None
        index = PANES.index(now) + step if now in PANES else 0
        zoomed = self.maximized is not None
        pane = self.query_one(f"#{PANES[index % len(PANES)]}", Widget)
        if zoomed:
            self.minimize()
        pane.focus()
        if zoomed:
            self.maximize(pane)

    def action_step(self, step: int) -> None:
        self.messages.action_move(step)

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    def action_resize(self, step: int) -> None:
        lines = self._list_lines or self.messages.outer_size.height
        self._list_lines = max(4, min(lines + step, self.size.height - 14))
        self.messages.styles.height = self._list_lines

    def action_widen(self, step: int) -> None:
        width = self.octets.outer_size.width + step
        self.octets.styles.width = max(20, min(width, self.size.width - 20))
        self.octets.styles.min_width = 0

    def action_time_mode(self) -> None:
        mode = self.messages.next_time_mode()
        self.notify(f"Time {mode}", markup=False, timeout=2)
