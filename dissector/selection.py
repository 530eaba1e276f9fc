"""Which messages a command works on: all of them, or those that a filter expression matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from .holding import holder
from .progress import Progress
from .view import Capture, MessageView

Wanted = str | Iterable[int] | None
"""A filter expression, the numbers of messages themselves, or None for all of them."""


def numbers(capture: Capture, expression: Wanted, limit: int | None = None) -> Iterator[int]:
    """Numbers of the messages that match, at most `limit`; reads the capture as far as it is needed."""
    return chain.from_iterable(part.tolist() for part in parts(capture, expression, limit))


def parts(
    capture: Capture, expression: Wanted, limit: int | None = None
) -> Iterator[NDArray[np.int64]]:
    """The same as arrays, as they are found."""
    left = limit
    for part in _parts(capture, expression, limit):
        if left is not None and len(part) >= left:
            yield part[:left]
            return
        yield part
        left = left - len(part) if left is not None else None


def _parts(capture: Capture, expression: Wanted, limit: int | None) -> Iterator[NDArray[np.int64]]:
    if limit == 0:
        return
    if expression is not None and not isinstance(expression, str):
        if not isinstance(expression, np.ndarray):
            expression = list(map(int, expression))
        yield np.asarray(expression, np.int64)
        return
    if expression:
        from .query import compile as compiled

        chosen = compiled(expression)  # what is wrong in it is told before the capture is read
        capture.read()
        progress, found = capture.progress or Progress(active=False), 0
        try:
            for step in chosen.search(capture.index, capture.message, holding=holder(capture)):
                if len(step.rows):
                    progress.clear()
                    found += len(step.rows)
                yield np.asarray(step.rows, np.int64) + 1
                capture.undecided = chosen.gave_up
                progress.searching(step.done, step.total, found)
        finally:
            progress.clear()
        return
    done = 0
    batches = iter(capture.batches()) if not capture.index.complete else iter(())
    while True:
        yield np.arange(done + 1, capture.count + 1)
        done = capture.count
        try:
            next(batches)
        except StopIteration:
            return


def selected(
    capture: Capture, expression: Wanted, limit: int | None = None
) -> Iterator[MessageView]:
    """The messages that match, opened; at most `limit` of them."""
    return map(capture.message, numbers(capture, expression, limit))
