"""What is kept between runs: theme, layout, how times are shown, filters that were used.

One small JSON file in the user's configuration folder (``$XDG_CONFIG_HOME/pgdissect/settings.json``).
A file that cannot be read counts as empty, one that cannot be written is told once: settings never
keep anybody from working.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

HISTORY = 50
"""Filters kept."""

LONGEST = 10_000
"""Characters of a filter that is kept."""

LARGEST = 4 << 20
"""Bytes of a file of settings; what is larger is not one of ours."""


def small_text(path: Path, most: int) -> str:
    """The text of a file that people may have changed. Raises OSError, and ValueError for what is no
    file (reading a pipe would wait for ever), too large, or no text."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no file")
    if found.st_size > most:
        raise ValueError("it is too large")
    return path.read_text("utf-8")


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and a user whom the system does not know: containers have them
        return Path("/nonexistent")


def config_folder() -> Path:
    """The program's folder for configuration (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else _home() / ".config") / "pgdissect"


def data_folder() -> Path:
    """The program's folder for what the user made (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else _home() / ".local" / "share") / "pgdissect"


@dataclass
class Settings:
    """theme: a name of Textual's, "" for its own. list_lines, hex_width, details_lines: sizes of panes
    that the user set, 0 for none. time: a name of `present.Clock.MODES`. filters: the last one first.

    path: the file, None where nothing is kept. problem: why it could not be written, "" for nothing.
    """

    theme: str = ""
    list_lines: int = 0
    hex_width: int = 0
    details_lines: int = 0
    time: str = ""
    filters: list[str] = field(default_factory=list)
    path: Path | None = None
    problem: str = ""

    @classmethod
    def load(cls, path: Path | None = None) -> Settings:
        """Settings of `path` (the user's own file when None); what it lacks is as at first."""
        path = path or config_folder() / "settings.json"
        found: Any = None
        try:
            found = json.loads(small_text(path, LARGEST))
        except (OSError, ValueError, RecursionError):
            found = {}
        kept = cls(path=path)
        if isinstance(found, dict):
            for name in KEPT:
                value = found.get(name)
                usable = isinstance(value, type(getattr(kept, name)))
                if usable and not isinstance(value, bool):
                    setattr(kept, name, value)
        usable_filters = (f for f in kept.filters if isinstance(f, str) and len(f) <= LONGEST)
        kept.filters = list(usable_filters)[:HISTORY]
        return kept

    def used(self, expression: str) -> None:
        """Put a filter first in the history."""
        rest = [each for each in self.filters if each != expression]
        self.filters = [expression, *rest][:HISTORY]

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        values = asdict(self)
        text = json.dumps({name: values[name] for name in KEPT}, indent=1, ensure_ascii=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.path.with_suffix(".new")
            fresh.write_text(text, "utf-8", "backslashreplace")
            fresh.replace(self.path)
        except OSError as error:
            self.problem = f"settings are not kept: {self.path}: {error.strerror}"


KEPT = tuple(f.name for f in fields(Settings) if f.name not in ("path", "problem"))
