"""Rows of messages as a Parquet file (https://parquet.apache.org/docs/file-format/): one row a message, in
typed columns, from the index alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .again import install
from .capture.frames import grouped
from .digits import lsns
from .errors import UserError
from .records import json_text
from .rows import ASSUMED, COLUMNS, DIRECTIONS, NO_LSN
from .selection import Numbers, in_blocks, told
from .slices import SEVERITIES
from .view import Capture, one_text

Array = NDArray[Any]

BLOCK = 1 << 16
"""Rows that are written together: a row group."""


def needed() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises UserError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(f"Parquet needs an extra package; try: {install('pyarrow')}") from error
    return pyarrow, pyarrow.parquet


def write_parquet(capture: Capture, out: IO[bytes], numbers: Numbers, total: int = 0) -> None:
    """Write the rows of the messages `numbers`. total: how many there are, 0 where that is not known.

    Columns are named as the keys of the JSON objects, and mean the same; time is a timestamp in ns, UTC;
    path is joined by dots, and the names of several relations by commas; lsn_number is the LSN as a
    number, offset the stream offset of the first byte, severity that of the worst finding.
    """
    arrow, parquet = needed()
    table = _Table(capture, arrow)
    with parquet.ParquetWriter(out, table.schema, compression="zstd") as writer:
        for block in told(capture, in_blocks(numbers, BLOCK, BLOCK), total):
            writer.write_batch(table.batch(block))


class _Table:
    """Makes batches of rows."""

    def __init__(self, capture: Capture, arrow: Any) -> None:
        self.capture, self.arrow = capture, arrow
        text, wide, number = arrow.string(), arrow.uint64(), arrow.uint32()
        self.schema = arrow.schema(
            {
                "number": wide, "frame": number, "time": arrow.timestamp("ns", "UTC"),
                "stream": number, "direction": text, "source": text, "destination": text,
                "message": text, "path": text, "offset": wide, "length": number, "lsn": text,
                "lsn_number": wide, "xid": number, "relation": text, "severity": text,
                "assumed": arrow.bool_(),
            }
        )  # fmt: skip

    def batch(self, numbers: Array) -> Any:
        """One batch."""
        rows, at = self.capture.index.rows, np.asarray(numbers, np.int64) - 1
        c = {name: rows.take(name, at) for name, _ in COLUMNS}
        array, tables = self.arrow.array, self.capture.index.tables
        side = c["stream"].astype(np.int64) * 2 + c["direction"]
        no_lsn = c["lsn"] == NO_LSN
        columns = {
            "number": numbers, "frame": c["frame"], "time": c["time"], "stream": c["stream"],
            "direction": self._texts(c["direction"], lambda code: DIRECTIONS[code]),
            "source": self._texts(side, lambda code: self._end(code, 0)),
            "destination": self._texts(side, lambda code: self._end(code, 1)),
            "message": self._texts(c["path"], lambda code: ".".join(tables.paths[code][:1])),
            "path": self._texts(c["path"], lambda code: ".".join(tables.paths[code])),
            "offset": c["offset"], "length": c["length"],
            "lsn": array(lsns(c["lsn"].tolist()), mask=no_lsn).cast(self.arrow.string()),
            "lsn_number": array(c["lsn"], mask=no_lsn),
            "xid": array(c["xid"], mask=c["xid"] == 0),
            "relation": self._texts(c["relation"], self._relation),
            "severity": self._texts(c["severity"], lambda code: SEVERITIES[code] or None),
            "assumed": (c["flags"] & ASSUMED) != 0,
        }  # fmt: skip
        made = [
            array(column, field.type) if isinstance(column, np.ndarray) else column
            for field, column in ((field, columns[field.name]) for field in self.schema)
        ]
        return self.arrow.record_batch(made, self.schema)

    def _texts(self, codes: Array, text: Callable[[int], str | None]) -> Any:
        """The text of each code, each made once."""
        first, which = grouped(codes)
        texts = self.arrow.array(list(map(text, codes[first].tolist())), self.arrow.string())
        return texts.take(self.arrow.array(which))

    def _end(self, code: int, other: int) -> str:
        info = self.capture.connection(code >> 1)
        return (info.frontend, info.backend)[code & 1 ^ other]

    def _relation(self, code: int) -> str | None:
        relation = self.capture.relation_of(code)
        return None if relation is None else json_text(one_text(relation))
