"""The terminal user interface: a message list, a field tree and the bytes, over any capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.model import Source

__all__ = ["run", "show"]


def run(paths: Sequence[str], options: Any) -> int:
    """Open captures and show them until the user quits; gives the exit code.

    options: as `dissector.view.open_capture` takes them. What cannot be opened raises its
    `UserError` before anything is drawn.
    """
    from dissector.view import open_capture
    from tui.source import CaptureSource

    title = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    with open_capture(paths, options) as capture:
        capture.read()
        return show(CaptureSource(capture), title)


def show(source: Source, title: str = "") -> int:
    """Show anything of the shape of `tui.model.Source` until the user quits; gives the exit code.

    title: what was opened, for people; it may hold anything, it is shown escaped.
    """
    from tui.app import DissectApp

    app = DissectApp(source, title)
    app.run()
    return app.return_code or 0
