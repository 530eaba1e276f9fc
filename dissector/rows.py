"""The index's rows: one per message, in typed columns that grow batch by batch.

A row holds numbers only. Text is made when a row is shown, from the tables that the numbers point
into (`dissector.schemas.Tables`, the connections) and from the message's own bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
"""name, dtype: 45 bytes a message.

frame: number of the frame that holds the message's last byte, from 1 over all files. time: of that
frame, nanoseconds since 1970-01-01 UTC. stream: connection number from 0. offset: of the first byte
in the direction's byte stream. length: bytes on the wire, type byte included. path, dialect: numbers
in Tables. relation: a Schema's number: the Relation, RowDescription or ParameterDescription in force
(kind ``relations`` for a Truncate), 0 for none. severity: worst finding, 0 for none.
"""

Columns = dict[str, NDArray[Any]]


def empty_columns() -> Columns:
    """Columns of no rows."""
    return {name: np.empty(0, dtype) for name, dtype in COLUMNS}


class Growing:
    """One column that is appended to in batches; reading gives one contiguous array."""

    __slots__ = ("_data", "lasting", "size")

    def __init__(self, dtype: Any, lasting: bool = False) -> None:
        self._data = np.empty(1024, dtype)
        self.size = 0
        self.lasting = lasting

    def extend(self, values: NDArray[Any]) -> None:
        """Append `values`; amortised: capacity grows by an eighth."""
        need = self.size + len(values)
        if need > len(self._data):
            room = max(need, len(self._data) + len(self._data) // 8)
            if self.lasting:
                larger = np.empty(room, self._data.dtype)
                larger[: self.size] = self._data[: self.size]
                self._data = larger
            else:  # in place where the allocator can: no second copy at the peak
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


class Rows:
    """All rows of an index so far.

    lasting: views of columns stay what they are while rows are added, also for other threads.
    """

    def __init__(self, lasting: bool = False) -> None:
        self._columns = {name: Growing(dtype, lasting) for name, dtype in COLUMNS}

    def __len__(self) -> int:
        return self._columns["frame"].size

    def extend(self, columns: Columns) -> None:
        """Append a batch: a dict with an array of one length for every name of COLUMNS."""
        for name, column in self._columns.items():
            if name != "frame":
                column.extend(columns[name])
        self._columns["frame"].extend(columns["frame"])  # the last one: its size is the length

    def still(self) -> Rows:
        """The rows as they are now; what is added here later is not in it. Shares what is lasting."""
        found = Rows()
        for name, column in self._columns.items():
            kept = Growing(column.values.dtype)
            kept._data = column.values if column.lasting else column.values.copy()
            kept.size = len(kept._data)
            found._columns[name] = kept
        return found

    def column(self, name: str) -> NDArray[Any]:
        """The column `name`, dtype as in COLUMNS; a view that later batches do not grow."""
        return self._columns[name].values

    def row(self, number: int) -> Row:
        """Row `number`, from 1. Raises IndexError outside."""
        if not 1 <= number <= len(self):
            raise IndexError(number)
        at = number - 1
        return Row(number, *(int(self._columns[name].values[at]) for name, _ in COLUMNS))
