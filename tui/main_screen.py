"""The viewer: message list, field tree, bytes and details, with one selection between them."""

from __future__ import annotations

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from dissector.node import Node
from dissector.text import visible
from tui import present
from tui.actions import bindings
from tui.details import Details
from tui.dialogs import message_dialog
from tui.field_tree import FieldTree
from tui.filter_bar import Completions, FilterBar
from tui.find_bar import FindBar
from tui.hex_view import HexView
from tui.key_line import KeyLine
from tui.lines import LineView
from tui.main_below import Below
from tui.marks import Marks
from tui.message_list import MessageList
from tui.model import Source, chain_at, path_to
from tui.narrowing import Narrowing
from tui.opened import Opened
from tui.settings import Settings

PANES = ("list", "tree", "hex", "details")
"""The panes a user can be in, in the order of Tab."""

TITLES = ("Messages", "Fields", "Bytes", "Field")

TICK = 0.05
"""Seconds between looks at what threads and the index have brought."""


class MainScreen(Below):
    """All panes over one source.

    Who selects: the list picks a message; tree or bytes pick a field of it; `_select` shows the
    field in the other one and in the details. What the list shows is `narrowing`'s to say.
    """

    BINDINGS = bindings("main")
    AUTO_FOCUS = "#list"

    def __init__(
        self,
        source: Source,
        title: str,
        settings: Settings | None = None,
        marks: Marks | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._about = title
        self.settings = settings or Settings()
        self.marks = Marks() if marks is None else marks
        self._view: Opened | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        yield FilterBar(id="filter")
        yield MessageList(self._source, id="list")
        with Horizontal(id="parts"):
            yield FieldTree(id="tree")
            yield HexView(id="hex")
        yield Details(id="details")
        yield FindBar(id="find")
        yield Static(Content(""), id="progress")
        yield KeyLine()
        yield Completions(id="completions")

    def on_mount(self) -> None:
        for name, title in zip(PANES, TITLES, strict=True):
            self.query_one(f"#{name}", Widget).border_title = title
        self.messages.marked = self.marks
        self.narrowing = Narrowing(self.messages, self._source, self._say_status)
        self._restore_layout()
        self.messages.focus()
        self._prepare_search()
        if not self._source.count:
            self._say_status()
            self._say_empty()
        self._ticker = self.set_interval(TICK, self.tick)

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
        self.narrowing.user_moved(event.number)
        self.show_message(event.number)

    @on(MessageList.Opened)
    def _message_opened(self) -> None:
        self.fields.focus()

    def show_message(self, number: int) -> None:
        """Open message `number` in tree and bytes. When it cannot be read, say so and go on."""
        if self._view is not None and self._view.row.number == number:
            return
        try:
            view = self._source.message(number)
            self._view = Opened(view, self._source.show_secrets)
        except Exception as error:  # whatever it is: the user must not lose the place and the rest
            self._view = None
            self._cannot_open(number, error)
        self.octets.show_message(self._view)
        self.fields.show_message(self._view, self._below_of(number))
        self._say_status()

    def show_nothing(self) -> None:
        """No message is shown: the list is empty."""
        self._view = None
        self.octets.show_message(None)
        self.fields.show_message(None)

    def _cannot_open(self, number: int, error: Exception) -> None:
        text = visible(str(error) or type(error).__name__, 300)
        self.details.show_text(f"message {number}", f"cannot be opened: {text}")
        advice = "Is the capture file still there and as it was? Open it again to go on."
        self.app.push_screen(
            message_dialog(f"Message {number} cannot be opened", f"{text}\n\n{advice}")
        )

    def on_resize(self) -> None:
        self._say_status()

    def _say_status(self) -> None:
        text = self._status_of(self._about)
        if cell_len(text) > self.size.width - 2:  # where one stands matters more than the folder
            text = self._status_of(self._about.rpartition("/")[2])
        self.query_one("#status", Static).update(Content(text), layout=False)
        self._say_search()
        self.wake()

    def _status_of(self, title: str) -> str:
        row = self._view.row if self._view is not None and self.messages.line_count else None
        number = row.number if row is not None else 0
        text = present.status(title, number, self._source.count, row)
        if row is not None and number in self.marks:
            note = self.marks.notes[number]
            text += f"  ·  {present.MARK} {visible(note, 40)}" if note else f"  ·  {present.MARK}"
        selection = self.narrowing.now
        if selection.chosen is not None:
            shown = f"{self.messages.line_count:,} shown"
            if selection.filter is None:
                shown += f": {visible(selection.label, 50)}"
            text += f"  ·  {shown}"
        return text

    # A field.

    @on(FieldTree.Picked)
    def _field_picked(self, event: FieldTree.Picked) -> None:
        self._select(event.node, event.parents)

    @on(HexView.Picked)
    def _byte_picked(self, event: HexView.Picked) -> None:
        self._select_byte(event.offset)

    @on(HexView.Leapt)
    def _field_leapt(self, event: HexView.Leapt) -> None:
        if self._view is None or self.octets.below is not None:
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
        if self.octets.below is not None:
            self._select_below(offset)
            return
        path = path_to(self._view.tree, offset)
        chain = chain_at(self._view.tree, path)
        self.fields.select_path(path)
        self._select(chain[-1], chain[:-1], offset)

    def _select(self, node: Node, parents: list[Node], at: int | None = None) -> None:
        if self._view is None:
            return
        if self._select_frame(node, parents, at):
            return
        self.octets.show_below(None)
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
        self._set_list_lines(self.messages.outer_size.height + step)

    def action_widen(self, step: int) -> None:
        self._set_hex_width(self.octets.outer_size.width + step)

    @on(LineView.Dragged)
    def _edge_dragged(self, event: LineView.Dragged) -> None:
        """The user drags an edge between panes: above the fields, above the details, beside bytes."""
        if event.edge == "left":
            self._set_hex_width(self.octets.region.right - event.x)
        elif event.view is self.details:
            self._set_details_lines(self.details.region.bottom - event.y)
        elif event.view is not self.messages:
            self._set_list_lines(event.y - self.messages.region.y)

    def _set_list_lines(self, lines: int) -> None:
        room = self.size.height - self.details.outer_size.height - 8
        self.settings.list_lines = max(4, min(lines, max(4, room)))
        self.messages.styles.height = self.settings.list_lines

    def _set_hex_width(self, width: int) -> None:
        self.settings.hex_width = max(20, min(width, self.size.width - 20))
        self.octets.styles.width = self.settings.hex_width
        self.octets.styles.min_width = 0

    def _set_details_lines(self, lines: int) -> None:
        room = self.size.height - self.messages.outer_size.height - 8
        self.settings.details_lines = max(3, min(lines, max(3, room)))
        self.details.styles.height = self.settings.details_lines

    def _restore_layout(self) -> None:
        kept, width, height = self.settings, self.app.size.width, self.app.size.height
        if 4 <= kept.list_lines <= height - 14:
            self.messages.styles.height = kept.list_lines
        if 20 <= kept.hex_width <= width - 20:
            self.octets.styles.width = kept.hex_width
            self.octets.styles.min_width = 0
        if 3 <= kept.details_lines <= height - 18:
            self.details.styles.height = kept.details_lines
        if kept.time in present.Clock.MODES:
            self.messages.clock.mode = kept.time

    def action_time_mode(self) -> None:
        mode = self.messages.next_time_mode()
        self.settings.time = mode
        self.notify(f"Time {mode}", markup=False, timeout=2)
