"""Makes the pictures of the README from the shipped captures: ``python tests/benchmarks/screenshots.py``.

Each is what the interface draws after some keys, as SVG, in captures/pictures.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from dissector.view import open_capture  # noqa: E402
from tui.app import DissectApp  # noqa: E402
from tui.screens.tour import open_tour  # noqa: E402
from tui.source import CaptureSource  # noqa: E402

FOLDER = ROOT / "captures" / "pictures"

SIZE = (118, 32)

FONT = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def viewer(capture: Any) -> Any:
    return DissectApp(CaptureSource(capture), "captures/tour.pcapng")


PICTURES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "viewer": (viewer, "go:Update tab down down down down down down down down down down down down"),
    "transactions": (viewer, "f3 end up up"),
    "reference": (viewer, "go:Stream_Abort d left_square_bracket left_square_bracket c tab"),
    "tour": (open_tour, ". . . . . . . . . . . . . . . ."),
}  # fmt: skip
"""Name -> (makes the application, keys; ``go:NAME`` goes to the first message of that name)."""


async def picture(make: Callable[[Any], Any], keys: str, capture: Any) -> str:
    """The SVG of the screen after `keys`."""
    app = make(capture)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for key in keys.split():
            if key.startswith("go:"):
                name = key[3:].replace("_", " ")
                numbers = range(1, capture.count + 1)
                wanted = next(n for n in numbers if capture.path(capture.row(n))[-1] == name)
                app.screen.messages.go_to(wanted)
            else:
                await pilot.press("full_stop" if key == "." else key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        drawn: str = app.export_screenshot(title="pgdissect")
    return plain(drawn)


def plain(drawn: str) -> str:
    """Without fonts from elsewhere: a picture in a README may not load any."""
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    return re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONT}", drawn)


def main() -> None:
    """Make all pictures, or those that are named."""
    FOLDER.mkdir(exist_ok=True)
    names = sys.argv[1:] or list(PICTURES)
    with open_capture([str(ROOT / "captures" / "tour.pcapng")]) as capture:
        capture.read()
        for name in names:
            make, keys = PICTURES[name]
            drawn = asyncio.run(picture(make, keys, capture))
            (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
            print(f"{FOLDER / name}.svg, {len(drawn):,} bytes")


if __name__ == "__main__":
    main()
