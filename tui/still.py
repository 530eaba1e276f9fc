"""An opened capture that stands still, for work in a thread while the index goes on growing."""

from __future__ import annotations

import copy
from typing import Any


def still(capture: Any) -> Any:
    """The capture as it is now: same files, its own place to keep what it opened last.

    While the index still grows its columns get longer; copies of them do not.
    """
    found = copy.copy(capture)
    found._last = None
    index = capture.index
    if not index.complete:
        found.index = copy.copy(index)
        found.index.rows = index.rows.still()
        found.index.connections = dict(index.connections)
        found.index.found = dict(index.found)
        found.index.file_findings = list(index.file_findings)
    return found
