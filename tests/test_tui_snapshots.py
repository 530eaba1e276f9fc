"""Pictures of the screens, looked at by a person when they change (``--snapshot-update``)."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_textual_snapshot
import tui_fake

from tui.app import DissectApp

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def _place(monkeypatch):
    """Keep the pictures in tests/snapshots."""
    monkeypatch.setattr(
        pytest_textual_snapshot.SVGImageExtension,
        "dirname",
        classmethod(
            lambda cls, *, test_location: str(
                Path(test_location.filepath).parent / "snapshots" / test_location.basename
            )
        ),
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("field", ["down", "down", "down", "tab", "down", "down", "down"]),
        ("byte", ["down", "down", "down", "tab", "tab", "end"]),
        ("broken", ["G", "p", "tab", "end"]),
        ("help", ["question_mark"]),
        ("filter", ["slash", *"sev"]),
        ("wrong", ["slash", *"relatio", "escape"]),
        ("follow", ["down", "down", "down", "m", "f"]),
        ("sorted", ["s", "s", "s", "S", "ctrl+f", *"id"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_screen(snap_compare, name, keys, size):
    app = DissectApp(tui_fake.small(), "tour.pcapng")
    assert snap_compare(app, press=keys, terminal_size=size)
