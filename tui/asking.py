"""Small dialogs that ask: choose one line, or type one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.actions import bindings
from tui.lines import LineView, Piece


class Choices(LineView):
    """The lines to choose from. Posts `Chosen`."""

    BINDINGS = bindings("choices")
    COMPONENT_CLASSES = {"line--cursor", "line--cursor-blurred", "page--label"}  # noqa: RUF012

    @dataclass
    class Chosen(Message):
        """The user chose line `place`."""

        place: int

    def __init__(self, texts: list[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._texts = texts

    @property
    def line_count(self) -> int:
        return len(self._texts)

    def pieces(self, line: int, width: int) -> list[Piece]:
        number = f"{line + 1} " if line < 9 else "  "
        return [(number, "page--label"), (self._texts[line], "")]

    def action_enter(self) -> None:
        self.post_message(self.Chosen(self.cursor))

    def on_key(self, event: events.Key) -> None:
        digit = event.character or ""
        if len(digit) == 1 and digit in "123456789" and int(digit) <= len(self._texts):
            event.stop()
            self.post_message(self.Chosen(int(digit) - 1))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        line = None if offset is None else self.line_at(offset.y)
        if line is not None:
            self.cursor = line
            self.action_enter()


class ChooseDialog(ModalScreen[Any]):
    """A box with lines, one of which is chosen. A subclass says what then happens."""

    BINDINGS = bindings("asking")

    def __init__(self, title: str, texts: list[str]) -> None:
        super().__init__()
        self._title = title
        self._texts = texts

    def compose(self) -> ComposeResult:
        with Vertical(id="asking") as box:
            box.border_title = Content(self._title).markup
            box.border_subtitle = "Enter or a digit chooses, Esc leaves"
            choices = Choices(self._texts, id="choices")
            choices.styles.height = len(self._texts)
            yield choices

    def on_mount(self) -> None:
        self.query_one("#choices").focus()

    @on(Choices.Chosen)
    def _chosen(self, event: Choices.Chosen) -> None:
        self.chosen(event.place)

    def chosen(self, place: int) -> None:
        """Called with the chosen line."""
        self.dismiss(place)

    def action_give_up(self) -> None:
        self.dismiss(None)


class AskDialog(ModalScreen[str | None]):
    """A box with one line to type; gives the text, or None when the user gave up."""

    BINDINGS = bindings("asking")

    def __init__(self, title: str, value: str, hint: str) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(id="asking") as box:
            box.border_title = Content(self._title).markup
            box.border_subtitle = "Enter goes on, Esc leaves"
            yield Input(self._value, id="asked", select_on_focus=False)
            yield Static(Content(self._hint), id="hint")

    def on_mount(self) -> None:
        self.query_one("#asked").focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        self.dismiss(None)
