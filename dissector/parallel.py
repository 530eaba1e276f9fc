"""The same work on many blocks in several processes, with the results in order.

Children are forked, so they see what was read already and nothing has to be sent to them. Where a
process cannot be forked, or one processor is all there is, the blocks are worked on here: the result is
the same.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, TypeVar

Block = TypeVar("Block")

Work = Callable[[Iterable[Block]], Iterator[bytes]]
"""Gives the results of blocks in their order, each in one or more parts; b"" ends one."""

MOST = 4
"""Processes at most."""

HELD = 8 << 20
"""Bytes of results that a process holds before it waits for its turn to write."""


def processors() -> int:
    """How many processes are worth starting. One beside other threads: a fork may copy a lock that one
    of them holds."""
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return 1
    try:
        return min(len(os.sched_getaffinity(0)), MOST)
    except AttributeError:  # not on every system
        return min(os.cpu_count() or 1, MOST)


def in_order(
    blocks: Sequence[Block], work: Work[Block], workers: int | None = None
) -> Iterator[bytes]:
    """The parts of the results of all blocks, in their order. Raises RuntimeError where a process
    died."""
    count = min(workers or processors(), len(blocks))
    if count < 2:
        yield from work(blocks)
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
            while size := int.from_bytes(_exactly(pipes[i % count], 8), "big"):
                yield _exactly(pipes[i % count], size)
    finally:
        for pipe in pipes:
            os.close(pipe)
        _stop(children)


def write_in_order(
    out: IO[bytes], blocks: Sequence[Block], work: Work[Block], workers: int | None = None
) -> None:
    """Write the results of all blocks to `out`, in their order.

    Where `out` is a file of the system, the children write to it themselves, one after the other: a
    token goes round, and who has it writes. Raises OSError where one could not write, RuntimeError
    where one died.
    """
    count = min(workers or processors(), len(blocks))
    try:
        target = out.fileno()
    except (AttributeError, OSError, ValueError):
        target = -1
    if count < 2 or target < 0:
        for data in in_order(blocks, work, workers):
            out.write(data)
        return
    out.flush()
    sys.stdout.flush()
    tokens = [os.pipe() for _ in range(count)]
    children: dict[int, int] = {}  # by the pipe that tells how one ended
    gc.collect()
    gc.freeze()  # children leave the pages of what is there already alone
    try:
        for number in range(count):
            source, sink = os.pipe()
            child = os.fork()
            if not child:
                for other in (source, *children):
                    os.close(other)
                mine, following = tokens[number][0], tokens[(number + 1) % count][1]
                _end(lambda: _writing(blocks[number::count], work, target, mine, following), sink)  # noqa: B023
            os.close(sink)
            children[source] = child
        os.write(tokens[0][1], b".")
        running = set(children)
        while running:
            for source in select.select(list(running), [], [])[0]:
                told = _exactly(source, 4)
                running.discard(source)
                code = int.from_bytes(told, "big")
                if code:
                    raise OSError(code, os.strerror(code))
    finally:
        gc.unfreeze()
        for pipe in (*children, *chain.from_iterable(tokens)):
            os.close(pipe)
        _stop(children.values())


def _writing(
    blocks: Sequence[Block], work: Work[Block], target: int, token: int, following: int
) -> None:
    """Work ahead while others write, but not far; who has the token writes what is there, and passes it
    on at the end of a block."""
    gc.disable()
    held: deque[bytes] = deque()
    size, mine = 0, False
    for data in chain(work(blocks), (None,)):
        if data is not None:
            held.append(data)
            size += len(data)
        while held and (
            mine or data is None or size > HELD or select.select([token], [], [], 0)[0]
        ):
            if not mine:
                os.read(token, 1)
                mine = True
            part = held.popleft()
            size -= len(part)
            if not part:
                os.write(following, b".")
                mine = False
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(target, rest) :]


def _end(work: Callable[[], None], sink: int) -> None:
    """Run `work` in a child, tell `sink` the number of the error (0 for none) in four bytes, and end.
    Where it is no error of the system, nothing is told."""
    try:
        try:
            work()
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        os.write(sink, code.to_bytes(4, "big"))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(0)


def _stop(children: Iterable[int]) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _child(blocks: Sequence[Block], work: Work[Block], sink: int) -> None:
    """Work, write, and end without what the parent would do at its end."""
    code = 1
    try:
        for data in work(blocks):
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
