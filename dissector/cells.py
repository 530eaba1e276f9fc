"""Texts of values for the fast writers, kept by value within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from . import display
from .summary import VALUE

KEPT = 4096
"""Seconds whose text is kept."""

SHORT = 64
"""Bytes of a value that is kept in a cache."""

is_safe = re.compile(rb"[ !#-&(-\[\]-~]*\Z").match
"""Bytes that JSON, a terminal and quotes leave as they are."""


_NUMBER = re.compile(rb"-?[0-9]+\Z").match

Texts = tuple[str, str, str]
"""JSON of the value, JSON of the display, and what the summary shows."""


class _Keeper:
    """Bounds what all caches of the fast writers hold together: memory stays flat, whatever comes. Several
    threads may write at once, as a search and an export in the interface do."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.used: dict[int, dict[Any, Any]] = {}
        self._lock = Lock()

    def keep(self, cache: dict[Any, Any], weight: int = 512) -> None:
        """Call before `cache` gets one entry more, of about `weight` bytes."""
        with self._lock:
            if self.count >= self.most:
                for each in self.used.values():
                    each.clear()
                self.used.clear()
                self.count = 0
            self.used[id(cache)] = cache
            self.count += weight


KEEPER = _Keeper(8 << 20)


@dataclass(slots=True)
class Cell:
    """Texts of one leaf's or column's values, kept by value. `make` is the slow way."""

    make: Callable[[Any], Texts]
    plain: str = ""
    known: dict[Any, Texts] = field(default_factory=dict)

    def texts(self, value: Any) -> Texts:
        found = self.known.get(value)
        if found is None:
            found = self.make(value)
            if not isinstance(value, bytes) or len(value) <= SHORT:
                KEEPER.keep(self.known, 256 + sum(map(len, found)))
                self.known[value] = found
        return found


class NumberCell(Cell):
    """Texts of numbers that seldom come twice; `make` is quick."""

    def texts(self, value: Any) -> Texts:
        return self.make(value)


def _lsn_texts(value: int) -> Texts:
    text = display.lsn(value)
    return str(value), f'"{text}"', text


def _number_texts(value: int) -> Texts:
    text = str(value)
    return text, f'"{text}"', text


class _Times(dict[int, str]):
    """Microseconds since 2000 by the second: the text up to the fraction."""

    def __missing__(self, second: int) -> str:
        if len(self) >= KEPT:
            self.clear()
        text = self[second] = display.timestamp(second * 1_000_000 + 1)[: -len("000001 UTC")]
        return text


SECONDS = _Times()
LOW, HIGH = -(1 << 54), 20 * 146_097 * 86_400_000_000
"""Times between these are years of four digits, without BC: up to the year 9999."""


def _time_texts(value: int) -> Texts:
    second, micros = divmod(value, 1_000_000)
    usual = micros and LOW < value < HIGH
    text = f"{SECONDS[second]}{micros:06} UTC" if usual else display.timestamp(value)
    return str(value), f'"{text}"', text


_QUICK_TEXTS = {
    "lsn": _lsn_texts, "timestamp": _time_texts, "int": _number_texts, "xid": _number_texts,
}  # fmt: skip


class ColumnCell(Cell):
    """The same for values of a column, whose summaries are made by others; the usual ones need no cache."""

    __slots__ = ("numeric", "quotes")

    def __init__(self, make: Callable[[Any], Texts], numeric: bool, quotes: bool) -> None:
        super().__init__(make)
        self.numeric = numeric
        self.quotes = quotes

    def texts(self, value: Any) -> Texts:
        if len(value) <= VALUE:
            if self.numeric:
                if _NUMBER(value):
                    text = value.decode()
                    return f'"{text}"', f'"{text}"', ""
            elif self.quotes and is_safe(value):
                text = value.decode()
                return f'"{text}"', f"\"'{text}'\"", ""
        return super().texts(value)
