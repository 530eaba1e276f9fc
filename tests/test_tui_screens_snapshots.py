"""Pictures of the screens beside the viewer, looked at by a person when they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tui_snapshots import SIZES, _place  # noqa: F401 (a fixture that is used by being here)

from dissector.view import open_capture
from tui.app import DissectApp
from tui.screens.tour import open_tour
from tui.source import CaptureSource

TOUR = Path(__file__).parent.parent / "captures" / "tour.pcapng"


@pytest.fixture(scope="module")
def tour():
    with open_capture([str(TOUR)]) as capture:
        yield capture.read()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("sessions", ["f2", "down"]),
        ("transactions", ["f3", "end", "up", "up"]),
        ("relations", ["f4", "down"]),
        ("reference", ["f7", "left_square_bracket", "left_square_bracket", "c"]),
        ("workbench", ["f8", "tab", "down", "down"]),
        ("copy", ["end", "up", "tab", "y"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_screen(snap_compare, tour, name, keys, size):
    app = DissectApp(CaptureSource(tour), "tour.pcapng")
    assert snap_compare(app, press=keys, terminal_size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_tour(snap_compare, tour, size):
    assert snap_compare(open_tour(tour), press=["full_stop"] * 16, terminal_size=size)
