"""A live server for tests: PostgreSQL 18 of the PyPI package, recorded as captures/record.py does.

Nothing here imports the dissector: what it returns is the truth that tests compare with.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "captures"))

from recorder.recipes import RECIPES, record_recipe
from recorder.servers import default_cache

LIVE_MAJOR = "18pip"
"""Fetched with pip alone, so that CI needs no npm."""


@dataclass(frozen=True)
class Recording:
    """A capture made just now, its description, and the server's own list of messages."""

    capture: Path
    about: dict[str, Any]
    truth: list[dict[str, str]]


def why_not() -> str:
    """Why this machine cannot record (for pytest.skip), or an empty string."""
    if not sys.platform.startswith("linux"):
        return "recording needs Linux"
    if os.geteuid() != 0:
        return "no right to sniff: recording needs root"
    missing = [name for name in ("tcpdump", "setpriv") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


def record_live(folder: Path, like: str = "pg15-proto3", major: str = LIVE_MAJOR) -> Recording:
    """Start a server, run the workload of a recipe, sniff it; the recorder checks it by itself.

    ``like`` names a recipe of captures/record.py. Raises recorder.servers.RecorderError when the
    server cannot be fetched or started, recorder.truth.MismatchError when wire and server differ.
    """
    recipe = replace(RECIPES[like], major=major, host="127.0.0.1", port=0)
    record_recipe("live", recipe, folder, default_cache())
    with gzip.open(folder / "live.truth.jsonl.gz", "rt", encoding="utf-8") as rows:
        truth = [json.loads(row) for row in rows]
    about = json.loads((folder / "live.json").read_text(encoding="utf-8"))
    return Recording(folder / "live.pcap", about, truth)
