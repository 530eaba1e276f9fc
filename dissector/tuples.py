"""TupleData of many row messages at once: whether all their columns end where the message does.

Source: the manual page ``protocol-logicalrep-message-formats.html``; what stands where comes from the
catalogue.
"""

from __future__ import annotations

import re
from functools import cache
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue
from .capture.frames import member
from .shapes import MOST_COLUMNS, Run, Shape
from .spec import Choice, Repeat, When

Array = NDArray[Any]
_UNIT = Struct(">BI").unpack_from
"""The kind of a column, and the length of its value where it has one."""

Tuples = tuple[Array, Array, Shape]
"""Places of messages in a run, offsets of what follows their heads, and their shape."""

FEW = 24
"""Tuples that still have columns, below which they are walked one by one."""

WIDE, SPARSE = 32, 8
"""Tuples of at least so many columns, of which at most so many can have a value, are walked from value to
value."""


def sound(run: Run, tuples: list[Tuples], columns: Array, release: int) -> Array:
    """Walk the tuples of row messages of a server's release: all old ones, then all new ones.

    Returns a mask of the run's messages: those whose tuples are there and end with the message. Their
    columns are counted in `columns`, int32 of shape (2, messages), for old and new ones.
    """
    chosen = np.concatenate([places for places, _, _ in tuples])
    at = np.concatenate([at for _, at, _ in tuples])
    end = run.ends[chosen]
    good = np.ones(len(chosen), bool)
    wants_old = np.zeros(len(chosen), bool)
    wants_new = np.zeros(len(chosen), bool)
    first = 0
    for places, _, shape in tuples:
        part = slice(first, first + len(places))
        first += len(places)
        wants_new[part] = shape.new >= 0
        if shape.old:
            there = at[part] < end[part]
            olds = member(run.u1[np.minimum(at[part], end[part])], shape.old) & there
            wants_old[part] = olds
            good[part] &= (olds | (not shape.old_required)) & there
    picked = np.flatnonzero(wants_old & good)
    columns[0, chosen[picked]] = _walked(run, picked, at, end, good, release)
    first = 0
    for places, _, shape in tuples:
        part = slice(first, first + len(places))
        first += len(places)
        if shape.new >= 0:
            here = np.minimum(at[part], end[part])
            good[part] &= (at[part] < end[part]) & (run.u1[here] == shape.new)
    picked = np.flatnonzero(wants_new & good)
    columns[1, chosen[picked]] = _walked(run, picked, at, end, good, release)
    good &= at == end
    found = np.zeros(len(run), bool)
    found[chosen] = good
    return found


def _walked(run: Run, picked: Array, at: Array, end: Array, good: Array, release: int) -> Array:
    """Move `at` over the tuples at `picked`, which begin with a letter; returns their column counts."""
    after, count, fine = walk_tuples(run, at[picked] + 1, end[picked], release)
    good[picked] &= fine
    at[picked] = after
    return count


@cache
def alike(release: int, other: int) -> bool:
    """Whether two releases know the same kinds of columns."""
    return bool((_steps(release) == _steps(other)).all())


def kind_letter(name: str) -> str:
    """The kind byte that TupleData's option `name` is sent as ("binary_kind"). Raises KeyError."""
    repeat = next(p for p in catalogue.part("TupleData").parts if isinstance(p, Repeat))
    choice = next(p for p in repeat.parts if isinstance(p, Choice))
    return {option.name: str(option.constant) for option in choice.options}[name]


@cache
def _steps(release: int) -> Array:
    """By TupleData's kind byte: bytes of a column without its value; 1 << 40 for a kind that `release`
    does not know."""
    part = catalogue.part("TupleData")
    repeat = next(p for p in part.parts if isinstance(p, Repeat))
    choice = next(p for p in repeat.parts if isinstance(p, Choice))
    valued = next(p for p in repeat.parts if isinstance(p, When)).condition.partition("=")[2]
    table = np.full(256, 1 << 40, np.int64)
    for option in choice.options:
        if not option.since <= release <= option.until:
            continue
        letter = str(option.constant)
        table[ord(letter)] = 5 if letter in valued else 1
    return table


@cache
def _valued(release: int) -> Array:
    """By TupleData's kind byte: whether a column of it is more than that byte, or unknown."""
    found: Array = _steps(release) != 1
    return found


@cache
def _plain_steps(release: int) -> list[int]:
    return list(_steps(release).tolist())


@cache
def _valueless(release: int) -> re.Pattern[bytes]:
    """Columns without a value, one after the other."""
    letters = bytes(np.flatnonzero(~_valued(release)).tolist())
    return re.compile(b"[" + re.escape(letters) + b"]+")


def walk_tuples(run: Run, at: Array, end: Array, release: int) -> tuple[Array, Array, Array]:
    """Step over a TupleData at each `at` that must end by `end`, and `end` ROOM before the data's end.

    Returns (offsets after the tuples, column counts, mask of those without anything unusual).
    """
    good = at + 2 <= end
    count = run.view(2)[np.minimum(at, end)].astype(np.int64)
    good &= count <= MOST_COLUMNS
    count[~good] = 0
    after = at + 2
    # a value takes five bytes and more, so few bytes for many columns are nearly all NULL
    sparse = (count >= WIDE) & (end - after < count + 4 * SPARSE)
    alone = np.flatnonzero(sparse)
    walked = count
    if len(alone):
        after[alone] = _walk_sparse(run, after[alone], end[alone], count[alone], release)
        walked = np.where(sparse, 0, count)
    _walk_together(run, after, end, walked, release)
    return after, count, good & (after <= end)


def _walk_together(run: Run, at: Array, end: Array, count: Array, release: int) -> None:
    """Move each of `at` over `count` columns, all tuples that have so many column by column."""
    order = np.argsort((MOST_COLUMNS - count).astype(np.uint16), kind="stable")
    least = np.bincount(count)
    more = len(at) - np.cumsum(least)  # item j: how many tuples have more than j columns
    order = order[: int(more[0])] if len(more) else order[:0]
    place, stop = at[order], end[order]
    steps, u1, u4 = _steps(release), run.u1, run.view(4)
    column, top = 0, len(least) - 1
    while column < top and (n := int(more[column])) >= FEW:
        walked = place[:n]  # a tuple that has columns left at its end only moves on beyond it
        here = np.minimum(walked, stop[:n])
        step = steps.take(u1.take(here))
        walked += step
        here += 1
        size = u4[here].astype(np.int64)
        size *= step == 5
        walked += size
        column += 1
    if column < top:
        counts = count[order]
        for i in range(int(more[column])):
            left = int(counts[i]) - column
            place[i] = _walk_one(run.data, int(place[i]), int(stop[i]), left, release)
    at[order] = place


def _walk_sparse(run: Run, at: Array, end: Array, count: Array, release: int) -> Array:
    """Where `count` columns from each `at` end, most of which have no value; something beyond `end` where
    anything is unusual. All tuples step from value to value at once."""
    steps, u4 = _steps(release), run.view(4)
    size = end - at
    stop = np.cumsum(size)
    begin = stop - size  # of each tuple, in all of their bytes side by side
    kinds = run.u1.take(np.repeat(at - begin, size) + np.arange(int(stop[-1])))
    values = np.append(np.flatnonzero(_valued(release).take(kinds)), stop[-1])
    after = end + 1
    active, place, left = np.arange(len(at)), begin, count
    while len(active):
        value = np.minimum(values[values.searchsorted(place)], stop[active])
        without = np.minimum(value - place, left)
        place, left = place + without, left - without
        done = left == 0
        ended = active[done]
        after[ended] = at[ended] + place[done] - begin[ended]
        going = np.flatnonzero(~done & (place < stop[active]))
        active, place, left = active[going], place[going], left[going] - 1
        known = steps.take(kinds.take(place)) == 5
        place += 5 + u4[at[active] + place - begin[active] + 1].astype(np.int64)
        going = np.flatnonzero(known & (place <= stop[active]))
        active, place, left = active[going], place[going], left[going]
    return after


def _walk_one(data: bytes, at: int, stop: int, left: int, release: int) -> int:
    """The same for one tuple: its end, or something beyond `stop` where anything is unusual."""
    steps, valueless = _plain_steps(release), _valueless(release).match
    while left:
        if at >= stop:
            return stop + 1
        kind, size = _UNIT(data, at)  # ROOM bytes follow every tuple
        if steps[kind] == 5:
            at += 5 + size
            left -= 1
            continue
        found = valueless(data, at, min(at + left, stop))
        if found is None:
            return stop + 1
        after = found.end()
        left -= after - at
        at = after
    return at
