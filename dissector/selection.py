"""Which messages a command works on: all of them, or those that a filter expression matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .halting import go_on
from .holding import holder
from .progress import Progress
from .view import Capture, MessageView

if TYPE_CHECKING:
    from .query import Filter

Wanted = str | Iterable[int] | None
"""A filter expression, the numbers of messages themselves, or None for all of them."""

Block = NDArray[np.int64]
Numbers = Iterable[int] | Iterable[Block]
"""Numbers of messages, one by one or as arrays."""

AT_ONCE = 1024
"""Numbers that come one by one and are taken at once."""

WAIT = 0.2
"""Seconds that a message which was found waits for others, to be written with them."""


def numbers(capture: Capture, expression: Wanted, limit: int | None = None) -> Iterator[int]:
    """Numbers of the messages that match, at most `limit`; reads the capture as far as it is needed."""
    return chain.from_iterable(part.tolist() for part in parts(capture, expression, limit))


def parts(capture: Capture, expression: Wanted, limit: int | None = None) -> Iterator[Block]:
    """The same as arrays, as they are found."""
    left = limit
    for part in _parts(capture, expression, limit):
        if left is not None and len(part) >= left:
            yield part[:left]
            return
        yield part
        left = left - len(part) if left is not None else None


def _parts(capture: Capture, expression: Wanted, limit: int | None) -> Iterator[Block]:
    if limit == 0:
        return
    if expression is not None and not isinstance(expression, str):
        if not isinstance(expression, np.ndarray):
            expression = list(map(int, expression))
        yield np.asarray(expression, np.int64)
        return
    if expression:
        from .query import compile as compiled

        yield from _found(
            capture, compiled(expression)
        )  # what is wrong in it is told before reading
        return
    for first, behind in _read_on(capture):
        yield np.arange(first + 1, behind + 1)


def _found(capture: Capture, chosen: Filter) -> Iterator[Block]:
    """The messages that a filter takes: of a whole capture, or of one that comes, as far as it came."""
    stretches = _read_on(capture) if capture.live else [(0, capture.read().count)]
    progress, found = capture.progress or Progress(active=False), 0
    index, opened, holding = capture.index, capture.message, holder(capture)
    try:
        for first, behind in stretches:
            for step in chosen.search(index, opened, first, behind, holding=holding):
                if len(step.rows):
                    progress.clear()
                    found += len(step.rows)
                yield np.asarray(step.rows, np.int64) + 1
                capture.undecided = chosen.gave_up
                progress.searching(first + step.done, behind, found)
        capture.passed = found
    finally:
        progress.clear()


def _read_on(capture: Capture) -> Iterator[tuple[int, int]]:
    """Read to the end: where the messages begin, and end, that are new in the index after each batch, and
    settled, unless they come as someone sends them."""
    done, index = 0, capture.index
    batches = iter(capture.batches(live=True)) if not index.complete else iter(())
    while True:
        stop = capture.count if capture.live else index.settled
        if index.hands_on:
            index.handed_on = stop
        yield done, stop
        done = stop
        try:
            next(batches)
        except StopIteration:
            return


def selected(
    capture: Capture, expression: Wanted, limit: int | None = None
) -> Iterator[MessageView]:
    """The messages that match, opened; at most `limit` of them."""
    return map(capture.message, numbers(capture, expression, limit))


# -- on their way to writers


def _arrays(numbers: Numbers) -> Iterator[Block]:
    if isinstance(numbers, range):
        yield np.arange(numbers.start, numbers.stop, numbers.step)
        return
    source = iter(numbers)
    for each in source:
        if isinstance(each, np.ndarray):
            yield each
        else:
            yield np.array([each, *islice(source, AT_ONCE - 1)], np.int64)


def in_blocks(numbers: Numbers, size: int, most: int, live: bool = False) -> Iterator[Block]:
    """`numbers` in arrays of `size` numbers, each twice as large as the one before, up to `most`. What a
    search has found does not wait longer than WAIT for more; live: nothing waits."""
    held: list[Block] = []
    count, begun = 0, monotonic()
    for part in _arrays(numbers):
        held.append(part)
        count += len(part)
        if count >= size:
            rest = np.concatenate(held)
            while len(rest) >= size:
                yield rest[:size]
                rest = rest[size:]
                size = min(size * 2, most)
            held, count, begun = [rest], len(rest), monotonic()
        if count and monotonic() - begun >= (0 if live else WAIT):
            yield np.concatenate(held)
            held, count, begun = [], 0, monotonic()
    if count:
        yield np.concatenate(held)


def told(capture: Capture, blocks: Iterable[Block], total: int) -> Iterator[Block]:
    """The same blocks, each written before the next one is asked for: tells how far the writing of `total`
    messages or frames is (0: nobody knows how many there are), and ends when nobody waits for it."""
    progress, done = capture.progress or Progress(active=False), 0
    try:
        for block in blocks:
            go_on()
            yield block
            done += len(block)
            if total:
                progress.writing(done, total)
    finally:
        progress.clear()
