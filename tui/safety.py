"""The net under everything that is drawn: no control character leaves the program.

Captured text is made visible by `dissector.text` before it comes to a widget. Should a widget of
the library or of ours ever forget it, this filter still drops what could steer the terminal.
"""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_BAD = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


class NoControls(LineFilter):
    """Drops control, bidi and invisible characters from every line that goes to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """`segments` without such characters; the segments that have none stay the same objects."""
        return [
            Segment(_BAD.sub("", segment.text), segment.style, segment.control)
            if _BAD.search(segment.text)
            else segment
            for segment in segments
        ]
