"""The application: its screens, its look, and the net under what it draws."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import App, SystemCommand
from textual.filter import LineFilter
from textual.screen import Screen

from tui.actions import ACTIONS, bindings
from tui.dialogs import help_dialog
from tui.main_screen import MainScreen
from tui.model import Source
from tui.safety import NoControls


class DissectApp(App[None]):
    """The program on one source. title: what was opened, for people."""

    CSS_PATH = "tui.tcss"
    BINDINGS = bindings("everywhere")
    TITLE = "pgdissect"
    ENABLE_COMMAND_PALETTE = True
    # From these widths and heights on the screen has the class, which tui.tcss gives more room.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (116, "-wide"), (220, "-ultra")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]  # noqa: RUF012

    def __init__(self, source: Source, title: str = "") -> None:
        super().__init__()
        self._source = source
        self._opened_title = title

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(self._source, self._opened_title)

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), NoControls()]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for action in ACTIONS:
            if action.where == "main":
                yield SystemCommand(
                    action.label, action.help, lambda name=action.name: self._run_on(screen, name)
                )

    def _run_on(self, screen: Screen[object], name: str) -> None:
        self.call_later(self.run_action, name, screen)

    def action_open_screen(self, name: str) -> None:
        """Show one of the screens beside the viewer, in the state in which it was left."""
        from tui.screens.all import make_screen

        if self.screen.name == name:
            return
        if self.screen.is_modal:
            return
        if not self.is_screen_installed(name):
            self.install_screen(make_screen(name, self._source), name)
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(name)

    def action_help(self) -> None:
        self.push_screen(help_dialog())
