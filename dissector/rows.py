"""The index's rows: one per message, in typed columns that grow batch by batch.

A row holds numbers only. Text is made when a row is shown, from the tables that the numbers point
into (`dissector.schemas.Tables`, the connections) and from the message's own bytes. Rows are kept in
blocks; a full block is packed (`dissector.packed`) and read in parts: a capture has millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .packed import Packed, pack

NO_LSN = (1 << 64) - 1
"""lsn: the message has none. No WAL position can be this high."""

FRONTEND, BACKEND = 0, 1
"""direction: who sent the message. The machine output writes "F" and "B"."""

DIRECTIONS = "FB"

ASSUMED, DECRYPTED, INCOMPLETE = 1, 2, 4
"""flags: the dialect rests on an assumption; the bytes came out of TLS; not all bytes are there."""

COLUMNS: tuple[tuple[str, Any], ...] = (
    ("frame", np.uint32),
    ("time", np.int64),
    ("stream", np.uint32),
    ("direction", np.uint8),
    ("offset", np.uint64),
    ("length", np.uint32),
    ("path", np.uint16),
    ("lsn", np.uint64),
    ("xid", np.uint32),
    ("relation", np.uint32),
    ("dialect", np.uint16),
    ("severity", np.uint8),
    ("flags", np.uint8),
)
"""name, dtype: 45 bytes a message as they are, 10 to 25 in most packed blocks.

frame: number of the frame that holds the message's last byte, from 1 over all files. time: of that
frame, nanoseconds since 1970-01-01 UTC. stream: connection number from 0. offset: of the first byte
in the direction's byte stream. length: bytes on the wire, type byte included. path, dialect: numbers
in Tables. relation: a Schema's number: the Relation, RowDescription or ParameterDescription in force
(kind ``relations`` for a Truncate), 0 for none. severity: worst finding, 0 for none.
"""

RECORD = np.dtype([("arrival", np.int64), *COLUMNS])
"""A row as it is taken: its columns side by side, and the frame that made it whole by its place in the
capture, which orders rows of several connections."""

_CODES = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i8": "q"}

pack_record = Struct(
    "=" + "".join(_CODES[RECORD[name].str[1:]] for name in RECORD.names or ())
).pack
"""The bytes of a row, from its numbers in the order of RECORD."""

_SPECIAL: dict[str, tuple[int, ...]] = {"lsn": (NO_LSN, 0), "xid": (0,), "relation": (0,)}
"""Numbers that are no places, ids or numbers: far from the others, and no reason for wider ones."""

BLOCK = 1 << 16
"""Rows of a block."""

Columns = dict[str, NDArray[Any]]


def columns_of(records: bytes | bytearray) -> Columns:
    """The columns of packed rows, "arrival" among them."""
    table = np.frombuffer(records, RECORD)
    return {name: table[name].copy() for name in RECORD.names or ()}


def empty_columns() -> Columns:
    """Columns of no rows."""
    return {name: np.empty(0, dtype) for name, dtype in COLUMNS}


class Growing:
    """An array that is appended to in batches; reading gives one contiguous array."""

    __slots__ = ("_data", "size")

    def __init__(self, dtype: Any) -> None:
        self._data = np.empty(1024, dtype)
        self.size = 0

    def extend(self, values: NDArray[Any]) -> None:
        """Append `values`; amortised: capacity grows by an eighth."""
        need = self.size + len(values)
        if need > len(self._data):
            room = max(need, len(self._data) + len(self._data) // 8)
            # in place where the allocator can: no second copy at the peak
            self._data.resize(room, refcheck=False)
        self._data[self.size : need] = values
        self.size = need

    @property
    def values(self) -> NDArray[Any]:
        """A view of what was appended; take it anew after `extend`."""
        return self._data[: self.size]


@dataclass(frozen=True, slots=True)
class Row:
    """One row, as Python numbers; `number` counts from 1."""

    number: int
    frame: int
    time: int
    stream: int
    direction: int
    offset: int
    length: int
    path: int
    lsn: int
    xid: int
    relation: int
    dialect: int
    severity: int
    flags: int


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows at one moment: `full` packed blocks of the list, `open` filled up to `filled`."""

    blocks: list[dict[str, Packed]]
    full: int
    open: Columns
    filled: int


class Rows:
    """All rows of an index so far.

    Arrays that were taken stay what they are while rows are added, also for other threads (but for
    what `worsen` does). Do not write into them.
    """

    def __init__(self) -> None:
        self._held = _Held([], 0, {name: np.empty(0, dtype) for name, dtype in COLUMNS}, 0)

    def __len__(self) -> int:
        held = self._held
        return held.full * BLOCK + held.filled

    def extend(self, columns: Columns) -> None:
        """Append a batch: a dict with an array of one length for every name of COLUMNS."""
        done, count = 0, len(columns["frame"])
        while done < count:
            held = self._held
            take = min(BLOCK - held.filled, count - done)
            stop = held.filled + take
            room = held.open
            if stop > len(room["frame"]):
                # Nobody has touched a page of the rest: it costs nothing until it is filled.
                wide = BLOCK if len(self) or count > 1024 else max(1024, stop)
                room = {name: np.empty(wide, dtype) for name, dtype in COLUMNS}
                for name, values in room.items():
                    values[: held.filled] = held.open[name][: held.filled]
            for name, values in room.items():
                values[held.filled : stop] = columns[name][done : done + take]
            done += take
            if stop < BLOCK:
                self._held = _Held(held.blocks, held.full, room, stop)
                continue
            packed = {name: pack(values, _SPECIAL.get(name, ())) for name, values in room.items()}
            held.blocks.append(packed)
            empty = {name: np.empty(0, dtype) for name, dtype in COLUMNS}
            self._held = _Held(held.blocks, held.full + 1, empty, 0)

    def close(self) -> None:
        """No more rows come, most probably: the room for them is given back."""
        held = self._held
        filled = {name: values[: held.filled].copy() for name, values in held.open.items()}
        self._held = _Held(held.blocks, held.full, filled, held.filled)

    def still(self) -> Rows:
        """The rows as they are now; what is added here later is not in it. Shares all memory."""
        found, held = Rows(), self._held
        found._held = _Held(held.blocks[: held.full], held.full, held.open, held.filled)
        return found

    def column(self, name: str) -> NDArray[Any]:
        """The whole column `name`, dtype as in COLUMNS: made anew each time, a million rows take about
        2 ms. Whoever can work on parts should: memory."""
        return self.part(name, 0, len(self))

    def part(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop (places from 0, clipped) of the column `name`, dtype as in COLUMNS."""
        held = self._held
        stop = min(stop, held.full * BLOCK + held.filled)
        start = min(start, stop)
        first, last = start // BLOCK, max(start, stop - 1) // BLOCK
        if first == last:
            return _of_block(held, name, first, start - first * BLOCK, stop - first * BLOCK)
        found = np.empty(stop - start, _DTYPES[name])
        for block in range(first, last + 1):
            base = block * BLOCK
            low, high = max(start, base), min(stop, base + BLOCK)
            found[low - start : high - start] = _of_block(
                held, name, block, low - base, high - base
            )
        return found

    def parts(
        self, *names: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """Rows start..stop block by block: (place of the first, the columns `names` from there)."""
        stop = len(self) if stop is None else min(stop, len(self))
        while start < stop:
            high = min(stop, (start // BLOCK + 1) * BLOCK)
            yield start, [self.part(name, start, high) for name in names]
            start = high

    def take(self, name: str, places: NDArray[Any]) -> NDArray[Any]:
        """The column `name` at `places` (from 0), in any order; only these are made."""
        held = self._held
        if not len(places):
            return np.empty(0, _DTYPES[name])
        blocks = places // BLOCK
        order = None
        if (blocks[1:] < blocks[:-1]).any():
            order = np.argsort(blocks, kind="stable")
            places, blocks = places[order], blocks[order]
        edges = np.concatenate(([0], np.flatnonzero(blocks[1:] != blocks[:-1]) + 1, [len(blocks)]))
        found = np.empty(len(places), _DTYPES[name])
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            block, inside = int(blocks[low]), places[low:high] % BLOCK
            if block < held.full:
                found[low:high] = held.blocks[block][name].take(inside)
            else:
                found[low:high] = held.open[name][: held.filled][inside]
        if order is None:
            return found
        put_back = np.empty_like(found)
        put_back[order] = found
        return put_back

    def where(self, test: Callable[..., NDArray[Any]], *names: str) -> NDArray[np.int64]:
        """Places (from 0) of the rows where `test`, given parts of the columns `names`, says True."""
        found = [np.flatnonzero(test(*part)) + start for start, part in self.parts(*names)]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def first_numbers(self) -> dict[int, int]:
        """Connection -> number (from 1) of its first row."""
        found: dict[int, int] = {}
        for start, (streams,) in self.parts("stream"):
            each, first = np.unique(streams, return_index=True)
            for stream, place in zip(each.tolist(), first.tolist(), strict=True):
                found.setdefault(stream, start + place + 1)
        return found

    def last_at(self, stream: int, direction: int, offset: int) -> Row | None:
        """The last row of a direction, not out of TLS, that begins at or before a stream offset."""
        stop = len(self)
        while stop:
            start = (stop - 1) // BLOCK * BLOCK
            names = ("stream", "direction", "offset", "flags")
            streams, directions, offsets, flags = (self.part(name, start, stop) for name in names)
            here = (streams == stream) & (directions == direction) & (offsets <= offset)
            mine = np.flatnonzero(here & (flags & DECRYPTED == 0))
            if len(mine):
                return self.row(start + int(mine[-1]) + 1)
            stop = start
        return None

    def row(self, number: int) -> Row:
        """Row `number`, from 1. Raises IndexError outside."""
        held = self._held
        if not 1 <= number <= held.full * BLOCK + held.filled:
            raise IndexError(number)
        block, at = divmod(number - 1, BLOCK)
        if block < held.full:
            return Row(number, *[column.one(at) for column in held.blocks[block].values()])
        return Row(number, *[column.item(at) for column in held.open.values()])

    def worsen(self, place: int, severity: int) -> None:
        """A finding came later: row `place` (from 0) is at least as bad as `severity`."""
        held = self._held
        block, at = divmod(place, BLOCK)
        if block < held.full:
            packed = held.blocks[block]
            if packed["severity"].one(at) < severity:
                values = packed["severity"].part(0, BLOCK)
                values[at] = severity
                packed["severity"] = pack(values)
        elif held.open["severity"][at] < severity:
            held.open["severity"][at] = severity


_DTYPES = {name: np.dtype(dtype) for name, dtype in COLUMNS}


def _of_block(held: _Held, name: str, block: int, start: int, stop: int) -> NDArray[Any]:
    if block < held.full:
        return held.blocks[block][name].part(start, stop)
    return held.open[name][: held.filled][start:stop]
