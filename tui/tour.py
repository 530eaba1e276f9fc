"""``pgdissect tour``: finds the capture of the tour and walks through it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from dissector.errors import UserError
from dissector.tour import CAPTURE


def tour_capture() -> Path:
    """The capture of the tour: a checkout's, else the one that was installed beside the package.

    Raises UserError that says what to try when there is neither.
    """
    if CAPTURE.is_file():
        return CAPTURE
    installed = _installed()
    if installed is not None and installed.is_file():
        return installed
    raise UserError(
        f"the capture of the tour is not here: it was looked for at {CAPTURE} and among the installed "
        "files; install pgdissect anew, or name a capture: pgdissect tour CAPTURE"
    )


def _installed() -> Path | None:
    """Where the installation put it, by its own list of files."""
    try:
        found = files("pgdissect") or ()
    except PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in found if f.name == CAPTURE.name), None)


def run_tour(name: str | None = None) -> int:
    """Walk through the tour's capture, or another one, until the user quits; gives the exit code."""
    from dissector.view import open_capture
    from tui import leaving
    from tui.screens.tour import open_tour

    with leaving.in_order(), open_capture([name or str(tour_capture())]) as capture:
        app = open_tour(capture.read())
        with leaving.by(app.end):
            app.run()
        return app.return_code or 0
