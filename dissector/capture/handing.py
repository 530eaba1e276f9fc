"""What one process hands to another: objects through a pipe, their arrays and other bytes in memory that both
share, in slots. So the one who gives can be ahead by as many objects as there are slots: a pipe alone holds
64 KiB, and who writes more has to wait for the reader."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import struct
from typing import Any

from dissector.patience import write_all

ROOM = 6 << 20
"""Bytes of a slot: the usual batch has 4 MB, and a sixth of that for what was found in it."""

MOST, LEAST, LASTS = 8, 2, 6
"""Slots at first, while the rest of the program is loaded and the index is small; slots in the end; and
objects until there is one less: in about that time an index grows by as much as a slot holds."""

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<2Q")
_PIPED = (1 << 64) - 1
"""The place of what is not in shared memory."""


class Slots:
    """One process's side of the memory. pipe: who takes objects writes the number of each slot that may be
    used again into it, a byte; who gives them reads these. view: the bytes of all slots."""

    def __init__(self, memory: mmap.mmap, pipe: int) -> None:
        self.view = memoryview(memory)
        self.pipe = pipe
        self._memory = memory
        self._count = MOST
        self._unused = list(range(MOST))

    @staticmethod
    def memory() -> mmap.mmap:
        """Memory for all slots, for processes that are forked from now on. Raises OSError."""
        return mmap.mmap(-1, MOST * ROOM)

    def take(self) -> int | None:
        """Of the one who gives: the next slot to fill, waited for; None where nobody wants more."""
        self._unused = self._unused or list(os.read(self.pipe, MOST))
        return self._unused.pop(0) if self._unused else None

    def release(self, slot: int, before: int) -> None:
        """Of the one who takes: what lay in a slot is not needed any more, and `before` objects came before
        it. It is used again, or its memory is given back."""
        if self._count <= max(LEAST, MOST - before // LASTS):
            with contextlib.suppress(BrokenPipeError):  # it has ended, all was sent
                os.write(self.pipe, bytes([slot]))
            return
        self._count -= 1
        page = mmap.PAGESIZE
        low, high = -(-slot * ROOM // page) * page, (slot + 1) * ROOM // page * page
        if low < high and hasattr(mmap, "MADV_REMOVE"):
            with contextlib.suppress(OSError):  # then it stays until the end
                self._memory.madvise(mmap.MADV_REMOVE, low, high - low)


def received(incoming: Any, view: memoryview) -> Any:
    """The next object that the other process sent, None at a sudden end. view: of the shared memory."""
    head = incoming.read(_COUNT.size)
    if len(head) < _COUNT.size:
        return None
    size = _COUNT.unpack(head)[0] * _ENTRY.size
    table = incoming.read(size)
    if len(table) < size:
        return None
    parts = []
    for size, place in _ENTRY.iter_unpack(table):
        if place != _PIPED:
            parts.append(bytearray(view[place : place + size]))
            continue
        data = bytearray(size)
        if incoming.readinto(data) < size:
            return None
        parts.append(data)
    return pickle.loads(parts[0], buffers=parts[1:])  # what our own process wrote


def send(sink: int, what: Any, view: memoryview, at: int, end: int) -> None:
    """Send an object; its arrays lie in `view` from `at` to `end`, as far as they fit there. Raises
    BrokenPipeError where nobody reads any more."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(what, protocol=5, buffer_callback=buffers.append)
    piped, table = [memoryview(head)], [(len(head), _PIPED)]
    for data in (buffer.raw() for buffer in buffers):
        if at + data.nbytes <= end:
            view[at : at + data.nbytes] = data
            table.append((data.nbytes, at))
            at += data.nbytes
        else:
            piped.append(data)
            table.append((data.nbytes, _PIPED))
    sizes = _COUNT.pack(len(table)) + b"".join(_ENTRY.pack(*entry) for entry in table)
    write_all(sink, sizes)
    for each in piped:
        write_all(sink, each)
