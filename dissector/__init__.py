"""pgdissect: PostgreSQL traffic, down to every byte of logical replication.

The public names; none of them needs scapy or textual. Names are loaded when they are first used, so that
``import dissector`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Node": "node",
    "leaves": "node",
    "walk": "node",
    "walk_paths": "node",
    "Finding": "findings",
    "Severity": "findings",
    "Dialect": "spec",
    "Message": "spec",
    "Field": "spec",
    "Capture": "view",
    "MessageView": "view",
    "open_capture": "view",
    "Options": "index",
    "Index": "index",
    "Batch": "index",
    "Assumptions": "session",
    "CaptureError": "errors",
    "UsageProblem": "errors",
    "visible": "text",
}
"""Public name -> the module of this package that has it."""

__all__ = sorted(_NAMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
