"""Command lines that say the same again: for hints that can be pasted, and for programs to start."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .index import Options

STDIN = "-"


def words(captures: Sequence[str], options: Options) -> list[str]:
    """The options and captures of a command line."""
    assumed = options.assumptions
    found: list[str] = []
    for port in assumed.ports:
        found += ["--port", str(port)]
    if assumed.release:
        found += ["--pg", str(assumed.release)]
    if assumed.proto_version:
        found += ["--proto-version", str(assumed.proto_version)]
    if assumed.streaming:
        found += ["--streaming", assumed.streaming]
    if options.keylog:
        found += ["--keylog", options.keylog]
    if options.show_secrets:
        found.append("--show-secrets")
    dashed = any(name.startswith("-") and name != STDIN for name in captures)
    return [*found, *["--"][: int(dashed)], *captures]


def command(verb: Sequence[str], captures: Sequence[str], options: Options) -> str:
    """A line that a shell takes: ``pgdissect VERB... OPTIONS... CAPTURES...``."""
    return shlex.join(["pgdissect", *verb, *words(captures, options)])


def install(package: str) -> str:
    """The line that installs `package` beside this program, wherever and however that was installed."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", package])
