"""Find: text, patterns and bytes in the list, the tree and the bytes of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from tui.jobs import NONE, Step
from tui.message_list import Lines
from tui.model import Path, keyed_children
from tui.opened import Opened

MODES = {"list": ("text", "regex"), "tree": ("text", "regex"), "hex": ("text", "hex", "regex")}
"""Pane -> ways to look for something in it."""

WHERE = {"list": "in the messages", "tree": "in the fields", "hex": "in the bytes"}

LIMIT = 4000
"""Characters of a text that are looked through."""

EVERY, MOST, SOON = 256, 1 << 14, 0.1
"""Messages that are looked through at once: at first, and at most; seconds after which a search says how far
it is."""


class UnusableError(Exception):
    """What was typed cannot be looked for; the text says why."""


class Wanted:
    """What to look for. Text takes no account of case unless it has a capital letter.

    mode: text, regex or hex. Raises UnusableError.
    """

    def __init__(self, text: str, mode: str) -> None:
        import regex

        self.text, self.mode = text, mode
        self._bytes = b""
        self._match: Any = None
        self._raw: Any = None
        flags = 0 if any(c.isupper() for c in text) else regex.IGNORECASE
        if mode == "hex":
            digits = re.sub(r"0x|[\s:,\\x-]", "", text, flags=re.IGNORECASE)
            if not digits or len(digits) % 2 or not re.fullmatch(r"[0-9a-fA-F]+", digits):
                raise UnusableError("write pairs of hex digits, for example: 00 0a ff")
            self._bytes = bytes.fromhex(digits)
            self._raw = regex.compile(regex.escape(self._bytes), regex.DOTALL)
            return
        pattern = text if mode == "regex" else regex.escape(text)
        try:
            self._match = regex.compile(pattern, flags)
            encoded = text.encode("utf-8", "replace")
            raw = encoded if mode == "regex" else regex.escape(encoded)
            self._raw = regex.compile(raw, flags | regex.DOTALL)
        except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise UnusableError(f"this pattern cannot be used: {error or 'too large'}") from None

    def within(self, text: str) -> bool:
        """Whether it is in a text. A pattern that takes too long counts as not there."""
        try:
            return self._match.search(text[:LIMIT], timeout=0.05) is not None
        except TimeoutError:
            return False

    def maybe(self, texts: list[str]) -> bool:
        """Whether it may be in one of many texts: a single look tells that it is in none of them."""
        try:
            return self.mode != "text" or (
                self._match.search("\n".join(texts), timeout=1.0) is not None
            )
        except TimeoutError:
            return True

    def in_bytes(self, data: bytes, start: int, step: int) -> tuple[int, int] | None:
        """Start and end of the next place after `start` (before it with step -1); wraps."""
        try:
            if step > 0:
                found = self._raw.search(data, start + 1, timeout=1.0) or self._raw.search(
                    data, 0, min(len(data), start + 1 + max(1, len(self._bytes) or LIMIT)),
                    timeout=1.0,
                )  # fmt: skip
                return found.span() if found and found.end() > found.start() else None
            return self._before(data, start)
        except TimeoutError:
            return None

    def _before(self, data: bytes, start: int) -> tuple[int, int] | None:
        """The last place that begins before `start`, or the last of all; the last in a second of looking."""
        until = monotonic() + 1.0
        before: tuple[int, int] | None = None
        last: tuple[int, int] | None = None
        for match in self._raw.finditer(data, timeout=1.0):
            if match.end() > match.start():
                last = match.span()
                if last[0] < start:
                    before = last
                elif before is not None:
                    break
                if monotonic() > until:
                    break
        return before or last


def field_steps(opened: Opened, wanted: Wanted, now: Path, step: int) -> Iterator[Step]:
    """Looks for the next field (before with step -1) whose name or value has it; wraps.

    Gives one Step with its path as the place, and steps without any before that.
    """
    told = monotonic()
    paths = list(_paths(opened.tree))
    place = next((i for i, (path, _) in enumerate(paths) if path == now), 0)
    count = len(paths)
    for distance in range(1, count + 1):
        path, node = paths[(place + step * distance) % count]
        column = opened.column(node) if node.index >= 0 else None
        if (
            wanted.within(node.name)
            or wanted.within(_value(opened, node))
            or (column is not None and wanted.within(column.name))
        ):
            yield Step(NONE, distance, count, place=path)
            return
        if monotonic() - told > SOON:
            yield Step(NONE, distance, count)
            told = monotonic()


class Span(NamedTuple):
    """Bytes of a message."""

    start: int
    end: int


def bytes_steps(data: bytes, wanted: Wanted, at: int, step: int) -> Iterator[Step]:
    """Looks for the next place in `data` after `at` (before it with step -1); wraps."""
    found = wanted.in_bytes(data, at, step)
    if found is not None:
        yield Step(NONE, 1, 1, place=Span(*found))


def _value(opened: Opened, node: Any) -> str:
    return opened.text(node, LIMIT)


def _paths(root: Any) -> Iterator[tuple[Path, Any]]:
    stack: list[tuple[Path, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        yield path, node
        inside = [((*path, key), child) for key, child in keyed_children(node)]
        inside.reverse()
        stack += inside


def list_steps(list_view: Lines, wanted: Wanted, now: int, step: int) -> Iterator[Step]:
    """Looks through the lines of the list from line `now` on, around its ends, for one that has it.

    Gives one Step with the number found, and steps without any before that.
    """
    count = list_view.line_count
    done, size = 0, EVERY
    known: dict[str, bool] = {}  # paths and relations come again
    while done < count:
        begun = told = monotonic()
        stop = min(done + size, count)
        lines = (now + step * np.arange(done + 1, stop + 1)) % count
        numbers = list_view.numbers_at(lines)
        summaries, *others = list_view.source.said(numbers)
        texts = set(chain(*others))
        for text in texts.difference(known):
            known[text] = wanted.within(text)
            if monotonic() - told > SOON:  # a pattern may be slow: who gave up does not wait
                yield Step(NONE, done, count)
                told = monotonic()
        maybe = wanted.maybe(summaries)
        if maybe or any(known[text] for text in texts):
            for place, (summary, path, relation) in enumerate(zip(summaries, *others, strict=True)):
                if known[path] or known[relation] or (maybe and wanted.within(summary)):
                    yield Step(numbers[place : place + 1], done + place + 1, count)
                    return
                if monotonic() - told > SOON:
                    yield Step(NONE, done + place, count)
                    told = monotonic()
        done = stop
        yield Step(NONE, done, count)
        took = monotonic() - begun
        size = min(size * 2, MOST) if took < SOON else max(EVERY, size // 2)


__all__ = [
    "MODES", "WHERE", "Span", "UnusableError", "Wanted", "bytes_steps", "field_steps", "list_steps",
]  # fmt: skip
