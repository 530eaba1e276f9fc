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

from .errors import UserError

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
    """The parts of the results of all blocks, in their order. Raises UserError where a process
    died, MemoryError where one had no memory left."""
    count = min(workers or processors(), len(blocks))
    if count < 2:
        yield from work(blocks)
        return
    sys.stdout.flush()
    pipes: list[int] = []
    children: list[int] = []

    def start(number: int) -> None:
        source, sink = os.pipe()
        pipes.append(source)
        try:
            child = os.fork()
            if not child:
                for pipe in pipes:
                    os.close(pipe)
                _child(blocks[number::count], work, sink)
        finally:
            os.close(sink)
        children.append(child)

    try:
        if not _all_started(count, start):
            yield from work(blocks)
            return
        for i in range(len(blocks)):
            while size := int.from_bytes(_exactly(pipes[i % count], 8), "big"):
                yield _exactly(pipes[i % count], size)
    finally:
        for pipe in pipes:
            os.close(pipe)
        _stop(children)


def _all_started(count: int, start: Callable[[int], None]) -> bool:
    """Whether the system has processes and files for all."""
    try:
        for number in range(count):
            start(number)
    except OSError:
        return False
    return True


def write_in_order(
    out: IO[bytes], blocks: Sequence[Block], work: Work[Block], workers: int | None = None
) -> None:
    """Write the results of all blocks to `out`, in their order.

    Where `out` is a file of the system, the children write to it themselves, one after the other: a
    token goes round, and who has it writes. Raises OSError where one could not write, MemoryError
    where one had no memory left, UserError where one died.
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
    if not _written_by_children(target, blocks, work, count):
        for data in work(blocks):
            out.write(data)


def _written_by_children(
    target: int, blocks: Sequence[Block], work: Work[Block], count: int
) -> bool:
    """Write the results of all blocks to the file `target`. False: nothing was written, since there
    are not enough processes or files for the children. Raises what `write_in_order` raises."""
    tokens: list[tuple[int, int]] = []
    others: list[int] = []  # pipes to close at the end
    told: dict[int, int] = {}  # the pipe that tells how a child ended -> the child

    def start(number: int) -> None:
        source, sink = os.pipe()
        others.append(source)
        try:
            child = os.fork()
            if not child:
                for pipe in (alive, *others):
                    os.close(pipe)
                turn = _Turn(tokens[number][0], tokens[(number + 1) % count][1], life)
                _end(lambda: _writing(blocks[number::count], work, target, turn), sink)
        finally:
            os.close(sink)
        told[source] = child

    gc.collect()
    gc.freeze()  # children leave the pages of what is there already alone
    life = alive = -1
    try:
        try:
            life, alive = os.pipe()  # nothing is written: it ends when this process does
            tokens.extend(os.pipe() for _ in range(count))
        except OSError:
            return False
        if not _all_started(count, start):
            return False
        os.write(tokens[0][1], b".")
        running = set(told)
        while running:
            for source in _readable(running, None):
                ended = _exactly(source, 4)
                running.discard(source)
                code = int.from_bytes(ended, "big")
                if code == errno.ENOMEM:
                    raise MemoryError
                if code:
                    raise OSError(code, os.strerror(code))
        return True
    finally:
        gc.unfreeze()
        for pipe in (life, alive, *others, *chain.from_iterable(tokens)):
            if pipe >= 0:
                os.close(pipe)
        _stop(told.values())


def _readable(pipes: Iterable[int], wait: int | None) -> list[int]:
    """Those of `pipes` that have bytes or have ended; waits so many ms for one, None: for ever."""
    poll = select.poll()  # unlike select, of any number: thousands of captures may be open
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    return [pipe for pipe, _ in poll.poll(wait)]


class _OrphanedError(Exception):
    """The process that began the work is gone: nobody wants the rest."""


class _Turn:
    """A child's turn to write: it takes the token from one pipe and gives it to another. life: a pipe
    that ends with the process that began the work."""

    def __init__(self, token: int, following: int, life: int) -> None:
        self.token, self.following, self.life = token, following, life
        self.mine = False

    def ready(self, wait: bool) -> bool:
        """Whether the token is here. Raises _OrphanedError."""
        pipes = [self.life] if self.mine else [self.life, self.token]
        found = _readable(pipes, None if wait and not self.mine else 0)
        if self.life in found:
            raise _OrphanedError
        if found:
            os.read(self.token, 1)
            self.mine = True
        return self.mine

    def over(self) -> None:
        """Give the token away."""
        os.write(self.following, b".")
        self.mine = False


def _writing(blocks: Sequence[Block], work: Work[Block], target: int, turn: _Turn) -> None:
    """Work ahead while others write, but not far; who has the token writes what is there, and passes it
    on at the end of a block."""
    gc.disable()
    held: deque[bytes] = deque()
    size = 0
    for data in chain(work(blocks), (None,)):
        if data is not None:
            held.append(data)
            size += len(data)
        while held and turn.ready(wait=data is None or size > HELD):
            part = held.popleft()
            size -= len(part)
            if not part:
                turn.over()
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
        except MemoryError:
            code = errno.ENOMEM
        os.write(sink, code.to_bytes(4, "big"))
    except (_OrphanedError, BrokenPipeError, KeyboardInterrupt):
        pass  # the one who would be told is gone, or is asked to end itself
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
    except (BrokenPipeError, KeyboardInterrupt, MemoryError):
        pass  # who waits for it tells that it ended
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
            raise UserError(
                "a process that wrote messages ended early; is there memory left? "
                "With one processor (taskset -c 0 pgdissect ...) there is only one process"
            )
        rest = rest[got:]
    return bytes(data)
