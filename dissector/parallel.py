"""The same work on many blocks in several processes, with the results in order.

Children are forked, so they see what was read already and nothing has to be sent to them. Where a
process cannot be forked, or one processor is all there is, the blocks are worked on here: the result is
the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Block = TypeVar("Block")

MOST = 4
"""Processes at most."""


def processors() -> int:
    """How many processes are worth starting."""
    if not hasattr(os, "fork"):
        return 1
    try:
        return min(len(os.sched_getaffinity(0)), MOST)
    except AttributeError:  # not on every system
        return min(os.cpu_count() or 1, MOST)


def in_order(
    blocks: Sequence[Block], work: Callable[[Block], bytes], workers: int | None = None
) -> Iterator[bytes]:
    """``work(block)`` for each block, in their order. Raises RuntimeError where a process died."""
    count = min(workers or processors(), len(blocks))
    if count < 2:
        yield from map(work, blocks)
        return
    sys.stdout.flush()
    pipes: list[int] = []
    children: list[int] = []
    try:
        for number in range(count):
            source, sink = os.pipe()
            child = os.fork()
            if not child:
                for other in (source, *pipes):
                    os.close(other)
                _child(blocks[number::count], work, sink)
            os.close(sink)
            pipes.append(source)
            children.append(child)
        for i in range(len(blocks)):
            size = int.from_bytes(_exactly(pipes[i % count], 8), "big")
            yield _exactly(pipes[i % count], size)
    finally:
        for pipe in pipes:
            os.close(pipe)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def _child(blocks: Sequence[Block], work: Callable[[Block], bytes], sink: int) -> None:
    """Work, write, and end without what the parent would do at its end."""
    code = 1
    try:
        for block in blocks:
            data = work(block)
            rest = memoryview(len(data).to_bytes(8, "big") + data)
            while rest:
                rest = rest[os.write(sink, rest) :]
        code = 0
    except BrokenPipeError:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _exactly(pipe: int, size: int) -> bytes:
    """`size` bytes from `pipe`."""
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        got = os.readv(pipe, [rest])
        if not got:
            raise RuntimeError("a process that wrote messages ended early")
        rest = rest[got:]
    return bytes(data)
