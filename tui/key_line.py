"""The line of keys at the bottom."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widgets import Footer


class KeyLine(Footer):
    """Textual's footer without the palette's key, made anew only where it would look different.

    Textual tells it of each change of focus, and it would take away and make all its widgets for each:
    a fifth of the work of a key that moves the focus. The panes of a screen mostly share their footer.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._made_of: list[tuple[Any, ...]] | None = None

    def bindings_changed(self, screen: Screen[Any]) -> None:
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            made_of = [
                (binding.key, binding.action, binding.description, enabled, tooltip)
                for _, binding, enabled, tooltip in screen.active_bindings.values()
                if binding.show
            ]
            if made_of == self._made_of:
                return
            self._made_of = made_of
        super().bindings_changed(screen)
