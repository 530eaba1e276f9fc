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
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, NoReturn, TypeVar

from .errors import UserError
from .patience import patiently, write_all

Block = TypeVar("Block")

Text = bytes | memoryview


class Pieces(list[bytes]):
    """The pieces of a part; own: bytes of those that it shares with no other."""

    own = 0


Part = Text | Pieces
"""Text, or the pieces that it is made of: these need not be put together to be written."""

Work = Callable[[Iterable[Block]], Iterator[Part]]
"""Gives the results of blocks in their order, each in one or more parts; b"" ends one."""

MOST = 4
"""Processes at most."""

HELD = 2 << 20
"""Bytes of results that a process holds before it waits for its turn to write: less than a block of lines."""


PIECE = 64
"""Bytes that a piece is taken for, beside those that are its part's own."""

AT_ONCE = 1000
"""Pieces that a system takes at once (IOV_MAX)."""


def processors() -> int:
    """How many processes are worth starting. One beside other threads: a fork may copy a lock that one
    of them holds."""
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return 1
    try:
        return min(len(os.sched_getaffinity(0)), MOST)
    except AttributeError:  # not on every system
        return min(os.cpu_count() or 1, MOST)


def is_file(out: IO[bytes]) -> bool:
    """Whether `out` is a file on a disk, or os.devnull: nobody waits for the first of what is written."""
    try:
        mode = os.fstat(out.fileno()).st_mode
        return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not out.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def joined(part: Part) -> Text:
    """The text of a part."""
    return b"".join(part) if isinstance(part, Pieces) else part


def in_order(
    blocks: Sequence[Block], work: Work[Block], workers: int | None = None
) -> Iterator[Text]:
    """The parts of the results of all blocks, in their order. Raises what `work` raised of UserError,
    OSError and MemoryError; UserError where a process died."""
    count = min(workers or processors(), len(blocks))
    if count < 2:
        yield from map(joined, work(blocks))
        return
    sys.stdout.flush()
    children: dict[int, int] = {}

    def begin(number: int) -> None:
        mine = blocks[number::count]
        _start(lambda sink: _sending(mine, work, sink), children)

    try:
        if not _all_started(count, begin):
            yield from map(joined, work(blocks))
            return
        pipes = list(children)
        for i in range(len(blocks)):
            while data := _received(pipes[i % count]):
                yield data
    finally:
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
    out: IO[bytes], blocks: Sequence[Block], work: Work[Block], workers: int | None = None,
    *, held: int = HELD,
) -> None:  # fmt: skip
    """Write the results of all blocks to `out`, in their order. held: bytes of them that a process may
    hold.

    Where `out` is a file of the system, this process and its children write to it themselves, one after
    the other: a token goes round, and who has it writes. Raises OSError where one could not write, and what
    `in_order` raises.
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
    if not _written_together(target, blocks, work, count, held):
        for part in work(blocks):
            out.write(joined(part))


def _written_together(
    target: int, blocks: Sequence[Block], work: Work[Block], count: int, most: int
) -> bool:
    """Write the results of all blocks to the file `target` in `count` processes, of which this is one: it
    holds most of the memory that each needs. False: nothing was written, since there are not enough
    processes or files. Raises what `write_in_order` raises."""
    tokens: list[tuple[int, int]] = []
    children: dict[int, int] = {}
    life = alive = -1

    def write(number: int, watched: set[int], told: Callable[[int], None]) -> None:
        turn = _Turn(tokens[number][0], tokens[(number + 1) % count][1], watched, told)
        _writing(blocks[number::count], work, target, turn, most)

    def begin(number: int) -> None:
        def run(sink: int) -> None:
            write(number + 1, {life}, _orphaned)
            os.write(sink, bytes(8))

        _start(run, children, alive)

    collects = gc.isenabled()
    gc.collect()
    gc.freeze()  # children leave the pages of what is there already alone
    gc.disable()
    try:
        try:
            life, alive = os.pipe()  # nothing is written: it ends when this process does
            tokens.extend(os.pipe() for _ in range(count))
        except OSError:
            return False
        if not _all_started(count - 1, begin):
            return False
        running = set(children)

        def told(pipe: int) -> None:
            running.discard(pipe)
            _received(pipe)

        os.write(tokens[0][1], b".")
        write(0, running, told)
        while running:
            for pipe in _readable(running, None):
                told(pipe)
        return True
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()
        for pipe in (life, alive, *chain.from_iterable(tokens)):
            if pipe >= 0:
                os.close(pipe)
        _stop(children)


def _readable(pipes: Iterable[int], wait: int | None) -> list[int]:
    """Those of `pipes` that have bytes or have ended; waits so many ms for one, None: for ever."""
    poll = select.poll()  # unlike select, of any number: thousands of captures may be open
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    return [pipe for pipe, _ in poll.poll(wait)]


class _OrphanedError(Exception):
    """The process that began the work is gone: nobody wants the rest."""


def _orphaned(life: int) -> None:
    raise _OrphanedError


class _Turn:
    """The turn of a process to write: it takes the token from one pipe and gives it to another.

    watched: pipes that tell something meanwhile, to `told`, which may raise: a child's that ends with the
    process that began the work, or those of the children.
    """

    def __init__(
        self, token: int, following: int, watched: set[int], told: Callable[[int], None]
    ) -> None:
        self.token, self.following = token, following
        self.watched, self.told = watched, told
        self.mine = False

    def ready(self, wait: bool) -> bool:
        """Whether the token is here."""
        while True:
            pipes = [*self.watched] if self.mine else [*self.watched, self.token]
            found = _readable(pipes, None if wait and not self.mine else 0)
            for pipe in self.watched.intersection(found):
                self.told(pipe)
            if self.token in found:
                os.read(self.token, 1)
                self.mine = True
            if self.mine or not wait:
                return self.mine

    def over(self) -> None:
        """Give the token away."""
        os.write(self.following, b".")
        self.mine = False


def _writing(
    blocks: Sequence[Block], work: Work[Block], target: int, turn: _Turn, most: int
) -> None:
    """Work ahead while others write, but not far; who has the token writes what is there, and passes it
    on at the end of a block."""
    held: deque[Part] = deque()
    size = 0
    for data in chain(work(blocks), (None,)):
        last = data is None
        if data is not None:
            held.append(data)
            size += _weight(data)
        data = None  # what was written is not kept while the next is made
        while held and turn.ready(wait=last or size > most):
            part = held.popleft()
            size -= _weight(part)
            if not part:
                turn.over()
            elif isinstance(part, Pieces):
                _write_pieces(target, part)
            else:
                write_all(target, part)
            part = b""


def _weight(part: Part) -> int:
    return part.own + len(part) * PIECE if isinstance(part, Pieces) else len(part)


def _write_pieces(target: int, pieces: list[bytes]) -> None:
    for i in range(0, len(pieces), AT_ONCE):
        some = pieces[i : i + AT_ONCE]
        done = patiently(os.writev, target, some)
        if done < sum(map(len, some)):
            write_all(target, b"".join(some)[done:])


def _sending(blocks: Sequence[Block], work: Work[Block], sink: int) -> None:
    for data in work(blocks):
        text = joined(data)
        write_all(sink, len(text).to_bytes(8, "big") + text)


# -- one child


FAILED = 1 << 63
"""A child sends the size of each part in eight bytes, 0 at the end of a result. With this bit it ends: then
come the number of an error of the system, and a text and its size."""


def _start(run: Callable[[int], None], children: dict[int, int], *parents: int) -> None:
    """Begin a child: `run` gets the pipe that it writes to. children: pipe to read from -> child, of all;
    parents: other pipes that are not for a child. Raises OSError."""
    source, sink = os.pipe()
    try:
        child = os.fork()
        if not child:
            for pipe in (source, *parents, *children):
                os.close(pipe)
            _run(run, sink)
        children[source] = child
    except OSError:
        os.close(source)
        raise
    finally:
        os.close(sink)


def _run(run: Callable[[int], None], sink: int) -> NoReturn:
    """In the child: run, tell what went wrong, and end without what the parent would do at its end."""
    try:
        try:
            run(sink)
        except OSError as error:
            _tell(sink, error.errno or errno.EIO)
        except MemoryError:
            _tell(sink, errno.ENOMEM)
        except UserError as error:
            _tell(sink, 0, str(error))
    except (_OrphanedError, BrokenPipeError, KeyboardInterrupt):
        pass  # the one who would be told is gone, or is asked to end itself
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(0)


def _tell(sink: int, code: int, text: str = "") -> None:
    told = text.encode("utf-8", "backslashreplace")
    write_all(sink, (FAILED | code).to_bytes(8, "big") + len(told).to_bytes(8, "big") + told)


def _received(pipe: int) -> bytes:
    """The next part of what a child sends, b"" at the end of a result. Raises what ended the child."""
    size = int.from_bytes(_exactly(pipe, 8), "big")
    if not size & FAILED:
        return _exactly(pipe, size)
    text = _exactly(pipe, int.from_bytes(_exactly(pipe, 8), "big")).decode()
    if text:
        raise UserError(text)
    if (code := size ^ FAILED) == errno.ENOMEM:
        raise MemoryError
    raise OSError(code, os.strerror(code))


def _stop(children: dict[int, int]) -> None:
    for pipe in children:
        os.close(pipe)
    for child in children.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


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
