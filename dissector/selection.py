"""Which messages a command works on: all of them, or those that a filter expression matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from .view import Capture, MessageView

Wanted = str | Iterable[int] | None
"""A filter expression, the numbers of messages themselves, or None for all of them."""


def numbers(capture: Capture, expression: Wanted, limit: int | None = None) -> Iterator[int]:
    """Numbers of the messages that match, at most `limit`; reads the capture as far as it is needed."""
    return islice(_numbers(capture, expression), limit)


def _numbers(capture: Capture, expression: Wanted) -> Iterator[int]:
    if expression is not None and not isinstance(expression, str):
        yield from map(int, expression)
        return
    if expression:
        from .query import compile as compiled

        chosen = compiled(expression)  # what is wrong in it is told before the capture is read
        capture.read()
        for step in chosen.search(capture.index, capture.message):
            yield from (place + 1 for place in step.rows.tolist())
            capture.undecided = chosen.gave_up
        return
    if capture.index.complete:
        yield from range(1, capture.count + 1)
        return
    done = capture.count
    yield from range(1, done + 1)
    for _ in capture.batches():
        yield from range(done + 1, capture.count + 1)
        done = capture.count


def selected(
    capture: Capture, expression: Wanted, limit: int | None = None
) -> Iterator[MessageView]:
    """The messages that match, opened; at most `limit` of them."""
    return map(capture.message, numbers(capture, expression, limit))
