"""The one error of the filter language: what is wrong, where, and which name was probably meant."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from dissector.errors import UsageProblem
from dissector.text import visible

_WINDOW = 60
"""Characters of the filter shown on each side of the place: a line fits on a terminal."""


class QueryError(UsageProblem, ValueError):
    """A filter that cannot be understood.

    text: the whole filter. position: index of the first character of the part that is wrong, in
    characters from 0. message: one sentence. suggestion: what to try, or "".
    """

    def __init__(self, text: str, position: int, message: str, suggestion: str = "") -> None:
        super().__init__(text, position, message, suggestion)
        self.text = text
        self.position = max(0, min(position, len(text))) if text else max(0, position)
        self.message = message
        self.suggestion = suggestion

    def within(self, text: str) -> QueryError:
        """The same error in `text`, for those who raise it knowing only a token's position."""
        return QueryError(text, self.position, self.message, self.suggestion)

    def render(self) -> str:
        """Three lines, or four: the filter, a caret under the place, the message, the suggestion."""
        start = max(0, self.position - _WINDOW)
        before = ("…" if start else "") + visible(self.text[start : self.position])
        rest = self.text[self.position : self.position + _WINDOW]
        after = visible(rest) + ("…" if self.position + _WINDOW < len(self.text) else "")
        lines = [before + after, " " * _cells(before) + "^", visible(self.message)]
        if self.suggestion:
            lines.append(visible(self.suggestion))
        return "\n".join(lines)

    def __str__(self) -> str:
        place = f" (at character {self.position + 1})"
        tail = f"; {self.suggestion}" if self.suggestion else ""
        return visible(self.message + place + tail)


def _cells(text: str) -> int:
    """Terminal cells that `text` takes: wide characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that looks most like `word`, or ""."""
    names = list(dict.fromkeys(known))
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.lower(), name)
    found = difflib.get_close_matches(word.lower()[:80], folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "did you mean NAME?", or "" where nothing is near."""
    found = nearest(word, known)
    return f"did you mean {found}?" if found else ""
