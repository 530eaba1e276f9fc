"""Messages outside COPY that come again and again, as JSON objects: what is said of them hangs on their
bytes, on what was described before, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import catalogue
from .cells import KEEPER
from .rows import ASSUMED, NO_LSN
from .schemas import Tables

LONG = 1 << 12
"""Longer messages are not remembered."""

KINDS = 1 << 10
"""Kinds of messages that are told apart at a time."""

_SIDE, _MESSAGE = b'"stream":', b',"message":'
"""Where in an object its connection and direction are named, and where that ends: what stands before are
numbers, a time and addresses."""

_COPY_DATA = catalogue.by_name("CopyData").name


class Repeated:
    """What was written of messages, to be written again. write: gives the object of a message by number, as
    one line."""

    def __init__(self, write: Callable[[int], bytes]) -> None:
        self._write = write
        self._sides: dict[int, bytes] = {}
        self._kinds: dict[int, dict[bytes, bytes]] = {}

    @staticmethod
    def may_repeat(c: dict[str, Any], tables: Tables) -> Any:
        """Which of the rows with the columns `c` (see `dissector.runs.Runs.columns`) are of such messages: a
        mask. Those with findings are not among them."""
        paths = [tables.paths[i] for i in range(len(tables.paths))]
        usual = np.array([len(p) == 1 and p[0] != _COPY_DATA for p in paths], bool)
        found = usual[c["path"]] & (c["severity"] == 0) & (c["length"] <= LONG)
        return found & (c["lsn"] == NO_LSN) & (c["xid"] == 0)

    @staticmethod
    def keys(c: dict[str, Any]) -> Any:
        """Numbers of kinds: messages of one kind and with the same bytes are the same."""
        assumed = (c["flags"] & ASSUMED != 0).astype(np.uint64)
        return c["key"] * np.uint64(4) + assumed * np.uint64(2) + c["direction"]

    def text(self, number: int, where: bytes, side: int, kind: int, data: bytes) -> bytes:
        """The object of message `number`, one line. where: its frames and time, as they stand in the
        object; side: its connection and direction; data: its bytes."""
        known = self._kinds.get(kind)
        if known is None:
            if len(self._kinds) >= KINDS:
                self._kinds.clear()
            known = self._kinds[kind] = {}
        rest, place = known.get(data), self._sides.get(side)
        if rest is not None and place is not None:
            return b'{"number":%d%b%b%b' % (number, where, place, rest)
        text = self._write(number)
        at = text.index(_MESSAGE)
        self._sides[side], rest = text[text.index(_SIDE) : at], text[at:]
        KEEPER.keep(known, 256 + len(data) + len(rest))
        known[data] = rest
        return text
