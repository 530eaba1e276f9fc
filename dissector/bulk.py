"""Many messages at once: the index's fast lane, equal to the session's message by message.

A run is a stretch of one direction's stream in which nothing can change the connection's state but what
the lane follows itself: CopyData of a logical replication stream (`dissector.copyboth`), DataRows, COPY
rows. Messages in which anything is unusual are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ahead import Ahead
from .annotate import annotate
from .capture.marks import marks_of
from .node import findings
from .recognise import HEADER, LARGEST
from .rows import NO_LSN
from .schemas import Tables
from .shapes import MOST_COLUMNS, ROOM, Run
from .spec import Dialect

Array = NDArray[Any]

FIRST_WINDOW, LAST_WINDOW = 1 << 12, 1 << 18
"""Bytes of a stream in which messages are looked for at once, growing: most runs are short or long."""

SHORT = 16
"""Runs of fewer messages are not worth the arrays."""

FEW_KEYS = 10
"""Groups that are picked one by one: more are sorted."""


def walk(
    data: bytes, at: int, tag: int, limit: int, ahead: Ahead | None = None
) -> tuple[Array, int, list[tuple[int, slice | None]]]:
    """Starts of the whole messages with the type byte `tag` that follow each other from `at`.

    ahead: messages with this type byte that were found in `data` before. Returns (starts, where the walk
    stopped, how many of them in turn are which of `ahead`, None for none of them): it stops at the first
    message that is not whole, has another type byte or a length that none can have, or when about
    `limit` messages were found.
    """
    parts: list[Array] = []
    known: list[tuple[int, slice | None]] = []
    count, size, window = 0, len(data), FIRST_WINDOW
    raw = np.frombuffer(data, np.uint8)
    lengths = (
        np.ndarray((max(size - 4, 0),), ">u4", data, strides=(1,), offset=1) if size > 4 else raw
    )
    while count < limit and at + HEADER <= size and raw[at] == tag:
        which = ahead.follow(at, limit - count) if ahead is not None else None
        found, after = 0, at
        if ahead is not None and which is not None:
            parts.append(ahead.starts[which] + np.int64(ahead.base))
            found, last = len(parts[-1]), int(parts[-1][-1])
            after = last + 1 + int(lengths[last])
        else:
            stop = at + window
            if ahead is None:
                window = min(window * 4, LAST_WINDOW)
            elif at < ahead.base:
                stop = min(stop, ahead.base)
            places = marks_of(raw[at : stop + 1], tag) + np.int64(at)
            found, after = _chained(raw, lengths, at, places, parts)
        if not found:  # a long one, or the end of them
            after = at + 1 + int(lengths[at])
            if after > size or not at + HEADER <= after <= at + 1 + LARGEST:
                break
            parts.append(np.array([at]))
            found = 1
        known.append((found, which))
        count += found
        at = after
    return (np.concatenate(parts) if parts else np.empty(0, np.int64)), at, known


def _chained(
    raw: Array, lengths: Array, at: int, places: Array, parts: list[Array]
) -> tuple[int, int]:
    """The messages that begin at `places`, from `at` on: how many, and where they stopped.

    Every place that has the type byte and a zero behind it may be a message. Most are: so nearly
    always each one ends where the next begins, and only the exceptions are looked at one by one.
    """
    places = places[: int(places.searchsorted(len(lengths)))]
    if not len(places) or places[0] != at:
        return 0, at
    length = lengths[places].astype(np.int64)
    after = places + 1 + length
    after[(length < 4) | (after > len(raw))] = -1
    breaks = np.flatnonzero(after[:-1] != places[1:]).tolist()
    breaks.append(len(places) - 1)
    i = found = 0
    for k in breaks:
        if k < i:
            continue
        target = int(after[k])
        end = k if target < 0 else k + 1
        if end > i:
            parts.append(places[i:end])
            found += end - i
        if target < 0:
            return found, int(places[k])
        i = int(places.searchsorted(target))
        if i == len(places) or places[i] != target:
            return found, target
    return found, at


@dataclass(slots=True)
class Answers:
    """What the fast lane says of a run's messages, one item each.

    subxids: (places, subtransactions that are rolled back there).
    """

    path: Array
    lsn: Array
    xid: Array
    relation: Array
    dialect: Array
    severity: Array
    subxids: list[tuple[Array, Array]] = field(default_factory=list)

    @classmethod
    def blank(cls, count: int) -> Answers:
        return cls(
            np.zeros(count, np.uint16), np.full(count, NO_LSN, np.uint64),
            np.zeros(count, np.uint32), np.zeros(count, np.uint32),
            np.zeros(count, np.uint16), np.zeros(count, np.uint8),
        )  # fmt: skip


def grouped(keys: Array) -> Iterator[tuple[int, Array]]:
    """(key, ascending places) for each value of `keys`, an array of uint8 or uint16."""
    present = np.flatnonzero(np.bincount(keys)).tolist()
    if len(present) <= FEW_KEYS:
        for key in present:
            yield key, np.arange(len(keys)) if len(present) == 1 else np.flatnonzero(keys == key)
        return
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    bounds = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1], [True])))
    for first, after in pairwise(bounds.tolist()):
        yield int(ranked[first]), order[first:after]


def copy_rows(count: int, tables: Tables, dialect: Dialect) -> Answers:
    """CopyData that holds rows, WAL or text: nothing inside to follow."""
    answers = Answers.blank(count)
    answers.dialect[:] = tables.dialects.number(dialect)
    answers.path[:] = tables.paths.number(("CopyData",))
    return answers


def data_rows(run: Run, schema: int, tables: Tables, dialect: Dialect) -> Answers:
    """DataRows of one result: `schema` is its description's number."""
    answers = copy_rows(len(run), tables, dialect)
    answers.path[:] = tables.paths.number(("DataRow",))
    answers.relation[:] = schema
    at = run.starts + HEADER
    safe = run.ends <= len(run.data) - ROOM
    good = (at + 2 <= run.ends) & safe
    chosen = np.flatnonzero(good)
    good[chosen] = _step_over(run, at[chosen], run.ends[chosen])
    for i in np.flatnonzero(~good).tolist():
        tree = annotate(run.data, "backend", dialect, int(run.starts[i]), int(run.ends[i]))
        answers.severity[i] = max((f.severity for f in findings(tree)), default=0)
    return answers


def _step_over(run: Run, at: Array, end: Array) -> Array:
    """Whether the columns of each DataRow (count, then length and value) end with the message."""
    left = run.view(2)[at].astype(np.int64)
    good = left <= MOST_COLUMNS
    at = at + 2
    active = np.flatnonzero(left * good)
    u4 = run.view(4)
    while len(active):
        here, stop = at[active], end[active]
        ok = here + 4 <= stop
        size = u4[np.minimum(here, stop)].astype(np.int64)
        size[size == 0xFFFFFFFF] = 0
        here += 4 + size
        ok &= here <= stop
        good[active[~ok]] = False
        at[active] = here
        left[active] -= 1
        active = active[ok & (left[active] > 0)]
    return good & (at == end)
