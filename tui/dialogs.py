"""Screens that lie over the viewer: help, and a message of the program."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import ACTIONS, HELP, PLACES, bindings, key_names


class Dialog(ModalScreen[None]):
    """A box with a title and a text that scrolls. Any of the usual keys closes it."""

    BINDINGS = bindings("dialog")

    def __init__(self, title: str, text: Content) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as box:
            box.border_title = Content(self._title).markup
            box.border_subtitle = "Esc closes"
            yield Static(self._text, id="dialog-text")

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss(result)


def help_dialog(screen: str = "") -> Dialog:
    """The help of a screen (the name of its class; "" for all), made from the table of actions."""
    lines: list[Content] = []
    wanted = HELP.get(screen, tuple(PLACES))
    for where, heading in PLACES.items():
        if where not in (*wanted, "everywhere", "dialog"):
            continue
        if lines:
            lines.append(Content(""))
        lines.append(Content.styled(heading, "bold"))
        lines += [
            Content(f"  {key_names(action.keys):<18} {action.help}")
            for action in ACTIONS
            if action.where == where
        ]
    lines += [
        Content(""),
        Content.styled("Mouse", "bold"),
        Content("  A click selects a message, a field or a byte; the wheel scrolls."),
        Content("  A click on ▶ or ▼ opens or closes a field, as a double click does."),
        Content("  A click on a column's name sorts by it; the edges of panes can be dragged."),
        Content(""),
        Content.styled("Signs before a message or a value", "bold"),
        Content("  !  error      ?  warning      i  note      ◆  marked"),
    ]
    return Dialog("Help", Content("\n").join(lines))


def message_dialog(title: str, text: str) -> Dialog:
    """A message of the program. The caller has made captured text in it visible."""
    return Dialog(title, Content(text))
