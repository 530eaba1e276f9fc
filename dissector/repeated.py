"""Messages outside replication as JSON objects: what is said of them hangs on their bytes, on what was
described before, and on nothing else. Most come again and again; rows do not, but are all alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from . import catalogue
from .cells import KEEPER
from .decode import probes
from .rowobjects import RowObjects
from .rows import ASSUMED, BACKEND, NO_LSN
from .schemas import Tables
from .spec import Dialect
from .taken import UnusualError
from .view import MessageView

LONG = 1 << 12
"""Longer messages are not remembered."""

KINDS = 1 << 10
"""Kinds of messages that are told apart at a time."""

_SIDE, _MESSAGE = b'"stream":', b',"message":'
"""Where in an object its connection and direction are named, and where that ends: what stands before are
numbers, a time and addresses."""

_DATA_ROW, _COPY_DATA = (str(catalogue.by_name(n).tag).encode() for n in ("DataRow", "CopyData"))

_AT, _WIDTH, _ = probes("backend", "DataRow", Dialect())["column_count"]
_COUNT = slice(_AT, _AT + _WIDTH)
"""How many columns a DataRow has: those with as many are alike, where nothing describes them, too."""


class Repeated:
    """What was written of messages, to be written again. write: gives the object of a message by number, as
    one line; learn: of a row by number and the object's text from _MESSAGE on, what writes others."""

    def __init__(
        self, write: Callable[[int], bytes],
        learn: Callable[[int, bytes], RowObjects | None],
        opened: Callable[[int], MessageView],
    ) -> None:  # fmt: skip
        self._write, self._learn, self._opened = write, learn, opened
        self._rows: dict[tuple[int, bytes], RowObjects | None] = {}
        self._sides: dict[int, bytes] = {}
        self._kinds: dict[int, dict[bytes, bytes]] = {}

    @staticmethod
    def may_repeat(c: dict[str, Any], tables: Tables) -> Any:
        """Which of the rows with the columns `c` (see `dissector.runs.Runs.columns`) are of such messages: a
        mask. Those with findings are not among them."""
        paths = [tables.paths[i] for i in range(len(tables.paths))]
        usual = np.array([len(p) == 1 for p in paths], bool)
        found = usual[c["path"]] & (c["severity"] == 0)
        return found & (c["lsn"] == NO_LSN) & (c["xid"] == 0)

    @staticmethod
    def keys(c: dict[str, Any]) -> Any:
        """Numbers of kinds: messages of one kind and with the same bytes are the same."""
        assumed = (c["flags"] & ASSUMED != 0).astype(np.uint64)
        return c["key"] * np.uint64(4) + assumed * np.uint64(2) + c["direction"]

    def text(self, number: int, where: bytes, side: int, kind: int, data: bytes) -> bytes:
        """The object of message `number`, one line. where: its frames and time, as they stand in the
        object; side: its connection and direction; data: its bytes."""
        place = self._sides.get(side)
        if data[:1] == _COPY_DATA or (data[:1] == _DATA_ROW and kind & 1 == BACKEND):
            alike = kind, data[_COUNT] if data[:1] == _DATA_ROW else b""
            rows = self._rows.get(alike)
            if rows is not None and place is not None:
                with suppress(UnusualError):
                    rest = rows.text(data, lambda: self._opened(number))
                    return b'{"number":%d%b%b%b' % (number, where, place, rest)
            text, rest = self._written(number, side)
            if alike not in self._rows:
                if len(self._rows) >= KINDS:
                    self._rows.clear()
                self._rows[alike] = self._learn(number, rest)
            return text
        known = self._kinds.get(kind)
        if known is None:
            if len(self._kinds) >= KINDS:
                self._kinds.clear()
            known = self._kinds[kind] = {}
        found = known.get(data)
        if found is not None and place is not None:
            return b'{"number":%d%b%b%b' % (number, where, place, found)
        text, rest = self._written(number, side)
        if len(data) <= LONG:
            KEEPER.keep(known, 256 + len(data) + len(rest))
            known[data] = rest
        return text

    def _written(self, number: int, side: int) -> tuple[bytes, bytes]:
        """The whole object, and its text from _MESSAGE on."""
        text = self._write(number)
        at = text.index(_MESSAGE)
        self._sides[side] = text[text.index(_SIDE) : at]
        return text, text[at:]
