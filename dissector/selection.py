"""Which messages a command works on: all of them, or those that a filter expression matches."""

from __future__ import annotations

from collections.abc import Iterator

from .view import Capture, MessageView


def numbers(capture: Capture, expression: str | None) -> Iterator[int]:
    """Numbers of the messages that match, ascending; reads the capture as far as it is needed."""
    if expression:
        capture.read()
        from .query import matching

        yield from matching(capture, expression)
        return
    done = 0
    for _ in capture.batches():
        while done < capture.count:
            done += 1
            yield done


def selected(
    capture: Capture, expression: str | None, limit: int | None = None
) -> Iterator[MessageView]:
    """The messages that match, opened; at most `limit` of them."""
    if limit == 0:
        return
    count = 0
    for number in numbers(capture, expression):
        yield capture.message(number)
        count += 1
        if count == limit:
            return
