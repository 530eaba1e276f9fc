"""The output file of pg_recvlogical: messages of pgoutput, each with a line feed after it.

A message may hold line feeds itself, so where it ends is found by dissecting it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .annotate import annotate
from .findings import Severity
from .node import Node, messages
from .spec import Dialect, Message

LINE_FEED = b"\n"

FIRST_LOOK = 4096
"""Bytes that are dissected first; four times as many while a message does not end within them."""


def is_binary(data: bytes) -> bool:
    """Whether `data` is no text that somebody pasted: it holds control characters or no UTF-8."""
    if any(byte < 32 and byte not in b"\t\n\v\f\r" for byte in data[:65536]):
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def split(data: bytes, dialect: Dialect) -> Iterator[tuple[bytes, Dialect]]:
    """The messages in `data`, in order, each with the Dialect that it reads by.

    In-stream follows Stream Start and Stream Stop; `parallel` is taken up where a Stream Abort fits
    only so. Bytes that are no message up to the next one that is come as one piece. Never raises.
    """
    at = 0
    while at < len(data):
        found = _message(data, at, dialect)
        if found is None:
            end = _next(data, at, dialect)
            yield data[at:end].removesuffix(LINE_FEED), dialect
            at = end
            continue
        end, dialect, name = found
        yield data[at:end], dialect
        if name in _STREAMING:
            dialect = replace(dialect, in_stream=_STREAMING[name])
        at = end + 1


_STREAMING = {"Stream Start": True, "Stream Stop": False}


def _message(data: bytes, at: int, dialect: Dialect) -> tuple[int, Dialect, str] | None:
    """Where the message at `at` ends, the Dialect that reads it, its name; None where none ends well."""
    other = replace(dialect, parallel=not dialect.parallel)
    for one in (dialect, other) if data[at : at + 1] == b"A" else (dialect,):
        look = FIRST_LOOK
        while True:
            stop = min(at + look, len(data))
            tree = annotate(data, "pgoutput", one, at, stop)
            end = _end(tree)
            if end is not None and (end < stop or stop == len(data)):
                if data[end : end + 1] in (b"", LINE_FEED):
                    declared = messages(tree)[0].declaration
                    return end, one, declared.name if isinstance(declared, Message) else ""
                break
            if stop == len(data):
                break
            look *= 4
    return None


def _end(tree: Node) -> int | None:
    """Where the message ends by its own fields; None when an error stopped the reading."""
    rest = None
    for node in tree.children or ():
        if node.name == "unparsed":
            rest = node
    faults = [n for n in _found(tree) if n is not rest]
    if faults:
        return None
    return tree.end if rest is None else rest.start


def _found(tree: Node) -> Iterator[Node]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.finding is not None and node.finding.severity >= Severity.ERROR:
            yield node
        pending.extend(node.children or ())


def _next(data: bytes, at: int, dialect: Dialect) -> int:
    """Where the first message begins, after a line feed, that ends well; the end when there is none."""
    place = data.find(LINE_FEED, at)
    while place >= 0:
        if place + 1 < len(data) and _message(data, place + 1, dialect) is not None:
            return place + 1
        place = data.find(LINE_FEED, place + 1)
    return len(data)
