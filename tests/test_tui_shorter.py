"""A capture that becomes shorter while the interface shows it."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from textual import events

from dissector.view import open_capture
from tui.app import DissectApp
from tui.source import CaptureSource

CAPTURE = Path(__file__).parent.parent / "captures" / "pg18-proto1.pcap"


async def test_what_is_gone_ends_the_interface_with_one_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    shutil.copy(CAPTURE, path)
    with open_capture([str(path)]) as capture:
        app = DissectApp(CaptureSource(capture.read()))
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            os.truncate(path, 1000)
            app.post_message(events.Key("G", "G"))
            for _ in range(250):
                if app.lost is not None:
                    break
                await asyncio.sleep(0.02)
        assert "cut.pcap: became shorter while it was read" in str(app.lost)
        assert app.return_code == 1
