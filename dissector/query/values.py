"""What stands after an operator: literals, sets of integers, and tests on text.

All numbers, LSNs, xids and times are compared as integers; `IntSet` holds what an operator allows, so
one test serves a numpy column and a single value. Times are nanoseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import regex

from dissector.halting import go_on

from .errors import QueryError, did_you_mean

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
BIG = 1 << 100
"""Stands for infinity on both sides: no 64-bit column, nor a time in nanoseconds, reaches it."""

PATIENCE = 0.05
"""Seconds that one pattern may spend on one value. A pattern with nested repeats can take longer than
the age of the universe on a value that was sent on purpose; such a value counts as not matching, and
`Filter.gave_up` tells how often that was so."""


@dataclass(slots=True)
class Literal:
    """A value as written. text: escapes resolved; raw: as a regular expression wants it; pattern: what
    it was compiled to, if it was used as one."""

    text: str
    position: int
    quoted: bool = False
    raw: str = ""
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """``low..high`` inside ``in {...}``, both ends included."""

    low: Literal
    high: Literal


Item = Literal | Range


class IntSet:
    """A set of integers as sorted disjoint closed intervals."""

    __slots__ = ("highs", "lows")

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self.lows: list[int] = []
        self.highs: list[int] = []
        for low, high in sorted(i for i in intervals if i[0] <= i[1]):
            if self.highs and low <= self.highs[-1] + 1:
                self.highs[-1] = max(self.highs[-1], high)
            else:
                self.lows.append(low)
                self.highs.append(high)

    def __bool__(self) -> bool:
        return bool(self.lows)

    def __contains__(self, value: int) -> bool:
        place = bisect_right(self.lows, value) - 1
        return place >= 0 and value <= self.highs[place]

    def mask(self, array: np.ndarray) -> np.ndarray:
        """Which elements of the integer `array` are in the set: bool, same shape.

        Bounds are cut to the dtype first: 2**40 against a u4 column is false, never an overflow.
        """
        info = np.iinfo(array.dtype)
        least, most = int(info.min), int(info.max)
        kept = [
            (max(low, least), min(high, most))
            for low, high in zip(self.lows, self.highs, strict=True)
            if low <= most and high >= least
        ]
        if not kept:
            return np.zeros(array.shape, bool)
        if len(kept) == 1:
            low, high = kept[0]
            if low == high:
                return array == array.dtype.type(low)
            if low == least:
                return array <= array.dtype.type(high)
            found = array >= array.dtype.type(low)
            if high < most:
                found &= array <= array.dtype.type(high)
            return found
        lows = np.array([low for low, _ in kept], array.dtype)
        highs = np.array([high for _, high in kept], array.dtype)
        place = np.searchsorted(lows, array, side="right")
        found = place > 0
        place[~found] = 1
        found &= array <= highs[place - 1]
        return found


def int_set(op: str, items: list[Item], parse: Callable[[Literal], int]) -> IntSet:
    """The integers that ``op items`` allows. Raises QueryError for a value that `parse` refuses."""
    spans = []
    for item in items:
        if isinstance(item, Range):
            low, high = parse(item.low), parse(item.high)
            if low > high:
                raise QueryError(
                    "", item.low.position, "this range is empty", "write the smaller end first"
                )
        else:
            low = high = parse(item)
        spans.append(_span(op, low, high))
    return IntSet(spans)


def _span(op: str, low: int, high: int) -> tuple[int, int]:
    if op == "<":
        return -BIG, low - 1
    if op == "<=":
        return -BIG, low
    if op == ">":
        return low + 1, BIG
    if op == ">=":
        return low, BIG
    return low, high


# --- numbers -------------------------------------------------------------------------------------

_INT = re.compile(r"[+-]?(\d[\d_]{0,40}|0[xX][0-9a-fA-F]{1,30})\Z", re.ASCII)
_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})\Z")


def parse_int(literal: Literal) -> int:
    """A decimal or 0x number; ``1_000_000`` is allowed."""
    if not _INT.match(literal.text):
        raise QueryError(
            "", literal.position, f"{literal.text} is not a whole number", "771, 0x303"
        )
    digits = literal.text.replace("_", "")
    return int(digits, 16 if "x" in digits.lower() else 10)


def parse_lsn(literal: Literal) -> int:
    """``0/1A2B3C4`` as an integer."""
    match = _LSN.match(literal.text)
    if not match:
        raise QueryError(
            "",
            literal.position,
            f"{literal.text} is not an LSN",
            "an LSN is two hexadecimal numbers with a slash: 0/1A2B3C4",
        )
    return int(match[1], 16) << 32 | int(match[2], 16)


def parse_word(words: dict[str, int], what: str) -> Callable[[Literal], int]:
    """A parser of the names in `words` (keys lower-case without spaces)."""

    def parse(literal: Literal) -> int:
        number = words.get(fold(literal.text))
        if number is None:
            raise QueryError(
                "",
                literal.position,
                f"{literal.text} is not {what}",
                did_you_mean(literal.text, words) or f"it is one of {', '.join(words)}",
            )
        return number

    return parse


def fold(name: str) -> str:
    """A name without case, spaces, underscores and hyphens: ``Stream Abort`` is ``streamabort``."""
    return re.sub(r"[\s_-]+", "", name).lower()


# --- times ---------------------------------------------------------------------------------------

_CLOCK = r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_TIME = re.compile(_CLOCK + r"\Z", re.ASCII)
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ]" + _CLOCK + r"\s?(?:Z|UTC|([+-]\d\d)(?::?(\d\d))?)?)?\Z",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = date(1970, 1, 1).toordinal()


def parse_time(literal: Literal) -> tuple[bool, int]:
    """(True, ns since 1970-01-01 UTC) of a date with or without time, (False, ns since midnight UTC) of
    a time of day. Without an offset a time is UTC. Raises QueryError for anything else."""
    match = _TIME.match(literal.text)
    if match:
        return False, _clock(literal, match.groups())
    match = _DATE.match(literal.text)
    if not match:
        raise QueryError(
            "",
            literal.position,
            f"{literal.text} is not a time",
            "write 12:00:03 (a time of day, UTC) or 2026-11-29T12:00:03.5Z",
        )
    year, month, day, *clock = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise QueryError(
            "", literal.position, f"there is no day {literal.text[:10]}", "2026-11-29"
        ) from None
    offset = 0
    if clock[4]:
        minutes = abs(int(clock[4])) * 60 + int(clock[5] or 0)
        offset = (-minutes if clock[4].startswith("-") else minutes) * 60 * SECOND
    return True, days * DAY + (_clock(literal, clock) if clock[0] else 0) - offset


def _clock(literal: Literal, parts: Any) -> int:
    hour, minute, second = int(parts[0]), int(parts[1]), int(parts[2] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise QueryError(
            "", literal.position, f"there is no time of day {literal.text}", "00:00 to 23:59:59"
        )
    return ((hour * 60 + minute) * 60 + second) * SECOND + int((parts[3] or "0").ljust(9, "0"))


@dataclass(slots=True)
class TimeSet:
    """Instants (`absolute`) and times of day on every day (`daily`): a time is in either."""

    absolute: IntSet
    daily: IntSet

    def __contains__(self, instant: int) -> bool:
        return instant in self.absolute or (bool(self.daily) and instant % DAY in self.daily)

    def mask(self, array: np.ndarray) -> np.ndarray:
        """Which of the int64 nanoseconds in `array` are in the set."""
        if not self.daily:
            return self.absolute.mask(array)
        found = self.daily.mask(array % DAY)
        if self.absolute:
            found |= self.absolute.mask(array)
        return found


def time_set(op: str, items: list[Item]) -> TimeSet:
    """The times that ``op items`` allows. A range of times of day may run over midnight."""
    spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for item in items:
        if not isinstance(item, Range):
            absolute, at = parse_time(item)
            spans[absolute].append(_span(op, at, at))
            continue
        (absolute, low), (other, high) = parse_time(item.low), parse_time(item.high)
        if absolute != other:
            raise QueryError(
                "",
                item.high.position,
                "one end has a date, the other has none",
                "write both with it",
            )
        if low <= high:
            spans[absolute].append((low, high))
        elif absolute:
            raise QueryError("", item.low.position, "this range ends before it begins")
        else:
            spans[False] += [(low, DAY), (0, high)]
    return TimeSet(IntSet(spans[True]), IntSet(spans[False]))


# --- text ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Pattern:
    """A regular expression that gives up on a value after `PATIENCE` seconds, sooner the more often it
    had to: a capture full of such values must not hold the caller up value after value."""

    compiled: Any
    gave_up: int = 0

    def __call__(self, text: str) -> bool:
        go_on()
        patience = max(PATIENCE / (1 + self.gave_up), 0.001)
        try:
            return self.compiled.search(text, timeout=patience) is not None
        except TimeoutError:
            self.gave_up += 1
            return False


def pattern(literal: Literal, ignore_case: bool = False) -> Pattern:
    """Compile `literal`. Raises QueryError that points into the pattern."""
    source = literal.raw if literal.quoted else literal.text
    _check_size(source, literal.position)
    try:
        made = Pattern(regex.compile(source, regex.IGNORECASE if ignore_case else 0))
    except regex.error as problem:
        inside = (getattr(problem, "pos", 0) or 0) + literal.quoted
        raise QueryError(
            "",
            literal.position + inside,
            f"not a regular expression: {problem}",
            "\\ before a sign takes it as it is",
        ) from None
    except (OverflowError, RecursionError, MemoryError, ValueError):
        raise QueryError(
            "", literal.position, "this regular expression is too large", "use contains"
        ) from None
    literal.pattern = made
    return made


_COUNT = re.compile(r"\{(\d*),?(\d*)\}", re.ASCII)
_MOST = 10_000
"""Characters of a pattern, and its counts ``{n,m}`` multiplied: they can be nested, and each multiplies
the time that compiling takes (ten thousand: well under a second; a billion: hours)."""


def _check_size(source: str, position: int) -> None:
    product = 1
    for low, high in _COUNT.findall(source):
        product *= max(int(low[:9] or 0), int(high[:9] or 0), 1)
    if len(source) > _MOST or product > _MOST:
        raise QueryError(
            "", position, "this regular expression is too large", "use smaller counts, or contains"
        )


TextTest = Callable[[str], bool]


def text_test(op: str, items: list[Item], key: Callable[[str], str] = str) -> TextTest:
    """A test of one str. `key` is applied to values and literals alike, but not for ``matches``."""
    first = items[0]
    if op in ("matches", "~*"):
        assert isinstance(first, Literal)
        return pattern(first, op == "~*")
    if op == "contains":
        assert isinstance(first, Literal)
        part = key(first.text)
        return lambda text: part in key(text)
    if op in ("==", "in"):
        exact = frozenset(key(i.text) for i in items if isinstance(i, Literal))
        spans = [(key(i.low.text), key(i.high.text)) for i in items if isinstance(i, Range)]
        if not spans:
            return lambda text: key(text) in exact
        return lambda text: (
            key(text) in exact or any(low <= key(text) <= high for low, high in spans)
        )
    assert isinstance(first, Literal)
    return ordered(op, key(first.text), key)


def ordered(op: str, bound: Any, key: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """``key(value) op bound`` for the four order operators."""
    if op == "<":
        return lambda value: key(value) < bound
    if op == "<=":
        return lambda value: key(value) <= bound
    if op == ">":
        return lambda value: key(value) > bound
    return lambda value: key(value) >= bound
