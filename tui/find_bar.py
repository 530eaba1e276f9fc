"""The find bar: what to look for, in which pane, and how."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui.actions import bindings
from tui.finding import MODES, WHERE


class FindInput(Input):
    """The line to type in."""

    BINDINGS = bindings("find")

    @property
    def _bar(self) -> FindBar:
        assert isinstance(self.parent, FindBar)
        return self.parent

    def action_next(self, step: int) -> None:
        self._bar.ask(step)

    def action_mode(self) -> None:
        self._bar.next_mode()

    def action_leave(self) -> None:
        self._bar.post_message(FindBar.Left())


class FindBar(Horizontal):
    """Posts `Wanted` when the user looks for something, `Left` when the user would leave, `Closed` when the
    bar goes."""

    @dataclass
    class Wanted(Message):
        """Look for `text` (mode: text, regex or hex), onwards or back."""

        text: str
        mode: str
        step: int

    class Left(Message):
        """The user would put the bar away."""

    class Closed(Message):
        """The bar went away."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.pane = "list"
        self.mode = "text"

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="find-label")
        yield FindInput(compact=True, select_on_focus=True, id="find-input")
        yield Static(Content(""), id="find-state")

    @property
    def line(self) -> FindInput:
        return self.query_one(FindInput)

    def open(self, pane: str) -> None:
        """Let the user type what to look for in `pane`."""
        self.pane = pane
        if self.mode not in MODES[pane]:
            self.mode = "text"
        self.add_class("-open")
        self._label()
        self.say("Enter finds, ↑ back, Ctrl+T text/pattern" + ("/hex" if pane == "hex" else ""))
        self.screen.set_focus(self.line)  # at once: keys that follow quickly are for it

    def close(self) -> None:
        """Put the bar away."""
        self.remove_class("-open")
        self.post_message(self.Closed())

    def _label(self) -> None:
        words = {"text": "Find", "regex": "Find pattern", "hex": "Find hex"}[self.mode]
        self.query_one("#find-label", Static).update(Content(f"{words} {WHERE[self.pane]}: "))

    def next_mode(self) -> None:
        """The next way to look."""
        modes = MODES[self.pane]
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]
        self._label()

    def say(self, text: str, bad: bool = False) -> None:
        """What stands at the right; what went wrong is told where the bar is put away, too."""
        state = self.query_one("#find-state", Static)
        state.set_class(bad, "-bad")
        state.update(Content(text))
        if bad and not self.has_class("-open"):
            self.notify(text, severity="warning", markup=False, timeout=4)

    def ask(self, step: int) -> None:
        """Look for what is typed."""
        if self.line.value:
            self.post_message(self.Wanted(self.line.value, self.mode, step))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.ask(1)
