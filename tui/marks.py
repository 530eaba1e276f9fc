"""Marks on messages with notes, kept in a JSON file beside the capture.

    {"program": "pgdissect", "marks": [{"number": 12, "frame": 40, "note": "here it begins"}]}

Where the capture's folder cannot be written the file goes to the user's data folder instead. The frame
tells whether a number still means the same message when the capture is opened in another way.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.settings import data_folder, small_text

LARGEST = 8 << 20
"""A file of marks that is larger is not one of ours."""

LONGEST = 250
"""Bytes of a file's name, with room for ``.new``: file systems take 255."""

MOST = 1 << 40
"""No capture has so many messages."""


class Marks:
    """Message number -> note ("" for none). `kept` is the file, None where nothing is kept.

    capture: the path of the first capture, "" where marks are not kept. told: what to say to the user
    about the file, "" for nothing.
    """

    def __init__(self, capture: str = "") -> None:
        self.notes: dict[int, str] = {}
        self.frames: dict[int, int] = {}
        self.told = ""
        self.kept: Path | None = None
        self._other: dict[str, Any] = {}
        if capture:
            self._find(Path(capture))

    def __contains__(self, number: object) -> bool:
        return number in self.notes

    def __len__(self) -> int:
        return len(self.notes)

    @property
    def numbers(self) -> list[int]:
        """The marked messages, ascending."""
        return sorted(self.notes)

    def _find(self, capture: Path) -> None:
        beside = capture.with_name(capture.name + ".marks.json")
        mine = hashlib.sha256(str(capture.absolute()).encode("utf-8", "surrogateescape"))
        away = data_folder() / f"{capture.name}.{mine.hexdigest()[:12]}.marks.json"
        writable = os.access(capture.absolute().parent, os.W_OK) or os.access(beside, os.W_OK)
        if len(os.fsencode(away.name)) > LONGEST:
            away = away.with_name(f"{mine.hexdigest()}.marks.json")
        fits = len(os.fsencode(beside.name)) <= LONGEST
        self.kept = beside if writable and fits else away
        for path in (self.kept, beside):
            if os.path.exists(path):  # noqa: PTH110 (of a Path it raises where nothing may be asked)
                self._read(path)
                break

    def _read(self, path: Path) -> None:
        try:
            found = json.loads(small_text(path, LARGEST))
            marks = [(int(m["number"]), int(m.get("frame", 0)), str(m.get("note", "")))
                     for m in found["marks"]]  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError, AttributeError,
                OverflowError, RecursionError) as error:  # fmt: skip
            # Never write over what is not understood: it may be somebody's work.
            self.told = f"marks are not kept: {path.name} is not understood ({error})"
            self.kept = None
            return
        self._other = {k: v for k, v in found.items() if k not in ("program", "marks")}
        for number, frame, note in marks:
            if 0 < number <= MOST:
                self.notes[number], self.frames[number] = note, frame

    def set(self, number: int, frame: int, note: str | None) -> None:
        """Mark message `number` with a note; None takes the mark away. Writes the file."""
        if note is None:
            self.notes.pop(number, None)
            self.frames.pop(number, None)
        else:
            self.notes[number], self.frames[number] = note, frame
        self._write()

    def moved(self, frame_of: Callable[[int], int]) -> list[int]:
        """Numbers of marks whose message is now in another frame (frame_of gives 0 for unknown)."""
        return [n for n, f in self.frames.items() if f and frame_of(n) not in (0, f)]

    def _write(self) -> None:
        if self.kept is None:
            return
        marks = [
            {"number": n, "frame": self.frames[n], "note": self.notes[n]} for n in self.numbers
        ]
        text = json.dumps({"program": "pgdissect", **self._other, "marks": marks}, indent=1)
        try:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.kept.with_name(self.kept.name + ".new")
            fresh.write_text(text + "\n", "utf-8")
            fresh.replace(self.kept)
        except OSError as error:
            self.told = f"marks are not kept: {self.kept}: {error.strerror}"
            self.kept = None
