"""``pgdissect tour``: finds the capture of the tour and walks through it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from dissector.errors import UserError
from dissector.tour import CAPTURE

INSTALLED = Path("share", "pgdissect", "tour.pcapng")
"""Where an installation has it, below the environment's folder for data."""


def tour_capture() -> Path:
    """The capture of the tour: a checkout's, else an installation's.

    Raises UserError that says what to try when neither is there.
    """
    installed = Path(sysconfig.get_path("data")) / INSTALLED
    for path in (CAPTURE, installed):
        if path.is_file():
            return path
    raise UserError(
        f"the capture of the tour is neither at {CAPTURE} nor at {installed}; install pgdissect "
        "anew, or name a capture: pgdissect tour CAPTURE"
    )


def run_tour(name: str | None = None) -> int:
    """Walk through the tour's capture, or another one, until the user quits; gives the exit code."""
    from dissector.view import open_capture
    from tui.screens.tour import open_tour

    with open_capture([name or str(tour_capture())]) as capture:
        app = open_tour(capture.read())
        app.run()
        return app.return_code or 0
