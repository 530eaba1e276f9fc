"""A screen with a table and the facts of its line, over one capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from dissector.text import visible
from tui.actions import bindings
from tui.details import Details
from tui.key_line import KeyLine
from tui.present_fields import Fact
from tui.still import still
from tui.table import Model, TableView

LARGE = 300_000
"""Messages from which on a table is made in a thread, while the screen stays alive."""

Maker = Callable[[Any], Model]
"""Makes the model from a capture that stands still."""


class TableScreen(Screen[None]):
    """A table of what is in a capture. Enter goes to its messages, Escape back to the viewer."""

    BINDINGS = bindings("screen")

    def __init__(self, name: str, title: str, capture: Any, make: Maker) -> None:
        super().__init__(name=name)
        self._titled = title
        self._capture = capture
        self._make = make
        self._shown_of = -1

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        yield TableView(id="table")
        yield Details(id="facts")
        yield KeyLine()

    @property
    def table(self) -> TableView:
        return self.query_one("#table", TableView)

    @property
    def about(self) -> Details:
        return self.query_one("#facts", Details)

    def on_mount(self) -> None:
        self.table.border_title = self._titled
        self.about.border_title = "About it"
        self.table.focus()
        self.action_reload()

    def on_screen_resume(self) -> None:
        """Shown again: with what came meanwhile."""
        if self._capture is not None and self._shown_of not in (-1, self._capture.count):
            self.action_reload()

    def action_reload(self) -> None:
        """Make the table anew from what the capture holds now."""
        if self._capture is None:
            self._say("")
            self.about.show_text("", "There is no capture behind these messages.")
            return
        self._shown_of = self._capture.count
        quiet = still(self._capture)
        if self._capture.count < LARGE:
            self._show(self._make(quiet))
        else:
            self._say("reading…")
            self._make_behind(quiet)

    @work(thread=True, exclusive=True)
    def _make_behind(self, quiet: Any) -> None:
        model = self._make(quiet)
        self.app.call_from_thread(self._show, model)

    def _show(self, model: Model) -> None:
        self.table.show(model)
        so_far = "" if self._capture.index.complete else "  ·  so far (r reads again)"
        self._say(f"{len(model):,}{so_far}")
        if not len(model):
            self.about.show_text("", model.empty)

    def _say(self, text: str) -> None:
        parts = [self._titled, text] if text else [self._titled]
        self.query_one("#status", Static).update(Content("  ·  ".join(parts)), layout=False)

    @on(TableView.Picked)
    def _picked(self, event: TableView.Picked) -> None:
        model = self.table.model
        if model is None:
            return
        try:
            facts = model.facts(event.line)
        except OSError as error:  # the capture's file went away
            facts = [Fact("", visible(str(error), 300), "severity--error")]
        self.about.show_facts(facts)

    @on(TableView.Chosen)
    def _chosen(self, event: TableView.Chosen) -> None:
        if self.table.model is not None:
            lead_to(self, self.table.model.lead(event.line))

    def action_next_pane(self) -> None:
        (self.about if self.table.has_focus else self.table).focus()

    def action_leave(self) -> None:
        self.app.pop_screen()


def lead_to(screen: Screen[Any], lead: Any) -> None:
    """Leave `screen` for the message list, which shows what `lead` says and knows the way back."""
    app = screen.app
    if not lead.number and not lead.expression and lead.numbers is None:
        screen.notify("No message of this capture belongs to it.", markup=False, timeout=4)
        return
    back = screen
    while len(app.screen_stack) > 1:
        app.pop_screen()
    main: Any = app.screen
    main.lead_to(
        lead.number,
        expression=lead.expression,
        numbers=lead.numbers,
        label=lead.label,
        back=back,
    )
