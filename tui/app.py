"""The application: its screens, its look, and the net under what it draws."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.filter import LineFilter
from textual.screen import Screen

from dissector.errors import ShorterError
from tui.actions import ACTIONS, HELP, bindings
from tui.dialogs import help_dialog
from tui.leaving import can_suspend, go_on_in_order
from tui.main_screen import MainScreen
from tui.marks import Marks
from tui.model import Source
from tui.safety import NoControls
from tui.settings import Settings
from tui.typed import KeysInOrder


class DissectApp(KeysInOrder):
    """The program on one source. title: what was opened, for people."""

    CSS_PATH: ClassVar[Any] = "tui.tcss"
    BINDINGS = bindings("everywhere")
    TITLE = "pgdissect"
    ENABLE_COMMAND_PALETTE = True
    # From these widths and heights on the screen has the class, which tui.tcss gives more room.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (116, "-wide"), (220, "-ultra")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]  # noqa: RUF012

    def __init__(
        self,
        source: Source,
        title: str = "",
        settings: Settings | None = None,
        marks: Marks | None = None,
    ) -> None:
        super().__init__()
        self.lost: ShorterError | None = None
        """Why the program ended, where what it showed is gone."""
        self._source = source
        self._opened_title = title
        self.settings = settings or Settings()
        self.marks = Marks() if marks is None else marks
        self._begin = ("", 0)
        if self.settings.theme in self.available_themes:
            self.theme = self.settings.theme

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(self._source, self._opened_title, self.settings, self.marks)

    def begin_with(self, expression: str, number: int) -> None:
        """What to show first: messages that pass a filter, and one of them."""
        self._begin = (expression, number)

    async def on_ready(self) -> None:
        screen = self.screen
        if any(self._begin) and isinstance(screen, MainScreen):
            screen.begin_with(*self._begin)
        await self.keys_may_come()

    def on_mount(self) -> None:
        go_on_in_order(self._driver, self._draw_anew)
        self.theme_changed_signal.subscribe(self, lambda theme: self._keep_theme(theme.name))

    def _draw_anew(self) -> None:
        """The terminal is empty: after a while in which the program was stopped."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(partial(self.refresh, layout=True))

    def _keep_theme(self, name: str) -> None:
        self.settings.theme = name

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), NoControls()]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        place = HELP.get(type(screen).__name__, ("main",))[0]
        wanted = {place, "main"} if isinstance(screen, MainScreen) else {place}
        for action in ACTIONS:
            screens = action.name.startswith("open_screen")
            if action.where in wanted or screens:
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

    def _handle_exception(self, error: Exception) -> None:
        """Bytes that are gone (a file that became shorter) end the program in one line."""
        if isinstance(error, ShorterError):
            self.lost = self.lost or error
            self.end(1)
        else:
            super()._handle_exception(error)

    def end(self, code: int) -> None:
        """Leave with an exit code; may be called from a signal's handler."""
        loop = self._loop
        if loop is None:  # not yet, or not any more
            raise SystemExit(code)
        loop.call_soon_threadsafe(self.exit, None, code)

    def action_suspend_process(self) -> None:
        """Back to the shell until ``fg``, where there is one."""
        if can_suspend():
            super().action_suspend_process()
        else:
            self.notify("There is no shell to go back to.", markup=False, timeout=3)

    def action_help(self) -> None:
        self.push_screen(help_dialog(type(self.screen).__name__))
