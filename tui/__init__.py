"""The terminal user interface: a message list, a field tree and the bytes, over any capture."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tui.marks import Marks
    from tui.model import Source
    from tui.settings import Settings

__all__ = ["run", "show"]

SWITCH = 0.001
"""Seconds after which a thread lets another one run: searches must not make keys wait."""

LONG = 32
"""Characters of a path that are shown whole."""


def run(
    paths: Sequence[str], options: Any, *, follow: bool = False, expression: str = "",
    number: int = 0, title: str = "", marks: bool = True, recorder: Any = None,
) -> int:  # fmt: skip
    """Open captures and show them until the user quits; gives the exit code.

    The index is made by another process while the interface runs. options: as
    `dissector.view.open_capture` takes them. follow: the capture is still written. expression: a
    filter to begin with; number: the message to begin at. recorder: the `dissector.live.Recorder` that
    writes the capture. What cannot be opened, and a filter that is
    wrong, raises its `UserError` or `UsageProblem` before anything is drawn.
    """
    from dissector.capture.sources import STDIN
    from dissector.fed import FedCapture

    if expression:
        from dissector.query import compile

        compile(expression)
    from tui import leaving

    with leaving.in_order(), closing(FedCapture(paths, options, follow=follow)) as capture:
        # What follows is imported while the other process already reads.
        capture.recorder = recorder
        from tui.marks import Marks
        from tui.settings import Settings
        from tui.source import CaptureSource

        if STDIN in paths:
            title = title or "standard input"
            if not os.isatty(0):
                _take_terminal()
        # Where one stands matters more than the folder: at 80 columns a long path would hide it.
        name = paths[0] if len(paths[0]) <= LONG else os.path.basename(paths[0])  # noqa: PTH119
        title = title or (name if len(paths) == 1 else f"{name} and {len(paths) - 1} more")
        kept = Marks("" if STDIN in paths or not marks else paths[0])
        settings = Settings.load()
        code = show(CaptureSource(capture), title, settings, kept, expression, number)
        if capture.failed and not capture.count:
            from dissector.errors import CaptureError

            raise CaptureError(capture.failed)
        return code


def _take_terminal() -> None:
    """Let the keyboard be standard input: the pipe that was there is being read by a thread."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        from dissector.errors import CaptureError

        raise CaptureError(
            "standard input: there is no terminal for the keyboard; try: pgdissect list -"
        ) from error
    os.dup2(terminal, 0)
    os.close(terminal)


def _ask_the_terminal() -> None:
    """Let the terminal say its size: the library would believe COLUMNS and LINES first.

    Shells and programs hand them on (whatever has loaded readline, even where it had no terminal),
    and they stay as they are when the window becomes another size.
    """
    with suppress(OSError):
        if all(os.get_terminal_size(1)):
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)


def show(
    source: Source,
    title: str = "",
    settings: Settings | None = None,
    marks: Marks | None = None,
    expression: str = "",
    number: int = 0,
) -> int:
    """Show anything of the shape of `tui.model.Source` until the user quits; gives the exit code.

    title: what was opened, for people; it may hold anything, it is shown escaped.
    """
    from tui import leaving
    from tui.app import DissectApp

    sys.setswitchinterval(SWITCH)
    _ask_the_terminal()
    app = DissectApp(source, title, settings, marks)
    app.begin_with(expression, number)
    with leaving.by(app.end):
        app.run()
    if settings is not None:
        settings.save()
        if settings.problem:
            print(f"pgdissect: {settings.problem}", file=sys.stderr)
    if app.lost is not None:
        raise app.lost
    return app.return_code or 0
