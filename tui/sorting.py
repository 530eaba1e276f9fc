"""The order of the list's lines by one of its columns: stable, ties stay as in the capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissector.rows import NO_LSN
from tui.model import ListRow, Source

SORTABLE = ("severity", "number", "time", "stream", "message", "lsn", "xid", "relation", "length")
"""Columns that have an order. A summary has none: it is made only for the lines that are seen."""

FEW = 200_000
"""Rows of a source without columns that may be read one by one."""

_DOWN_FIRST = ("severity",)
"""Columns whose largest values come first."""

Array = NDArray[Any]


def order_of(
    source: Source, column: str, down: bool, numbers: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """Places (from 0) of the shown messages in the order of `column`; None where it has none.

    numbers: the messages that are shown, ascending; None for all of them. Lines without a value come
    last, both ways.
    """
    if column not in SORTABLE:
        return None
    if column == "number" and not down:
        return None
    made = _from_index(source, column, numbers)
    if made is None:
        made = _from_rows(source, column, numbers)
    if made is None:
        return None
    values, empty = made
    if down != (column in _DOWN_FIRST):
        values = ~values  # turns the order round, for signed and unsigned, without any overflow
    order = np.argsort(values, kind="stable")
    if empty is not None:
        late = empty[order]
        order = np.concatenate((order[~late], order[late]))
    return order.astype(np.int64, copy=False)


def _from_index(
    source: Source, column: str, numbers: NDArray[np.int64] | None
) -> tuple[Array, Array | None] | None:
    """(values, which rows have none) from the index's columns; None where there is no index."""
    capture: Any = getattr(source, "capture", None)
    if capture is None:
        return None
    count = source.count
    rows, tables = capture.index.rows, capture.index.tables

    def take(name: str) -> Array:
        if numbers is None:
            part: Array = rows.part(name, 0, count)
            return part
        some: Array = rows.take(name, numbers - 1)
        return some

    if column == "number":
        return (np.arange(1, count + 1) if numbers is None else numbers), None
    if column == "stream":
        return take("stream").astype(np.int64) * 2 + take("direction"), None
    if column == "message":
        names = [path[-1] if path else "" for path in tables.paths.items]
        return _ranks(names)[take("path")], None
    if column == "relation":
        schemas = tables.schemas.items
        names = [s.full_name if s.kind == "relation" else "" for s in schemas]
        ranks = _ranks(names)[take("relation")]
        return ranks, ranks == 0
    values = take(column)
    if column == "lsn":
        return values, values == NO_LSN
    return values, (values == 0 if column in ("xid", "severity") else None)


def _ranks(names: Sequence[str]) -> Array:
    """For each name its place among all of them; 0 for the empty one."""
    places = {name: i for i, name in enumerate(sorted({"", *names}))}
    return np.array([places[name] for name in names] or [0], np.int64)


_KEYS: dict[str, Any] = {
    "number": lambda row: row.number,
    "time": lambda row: row.time,
    "stream": lambda row: row.stream * 2 + (row.direction == "B"),
    "lsn": lambda row: row.lsn if row.lsn is not None else -1,
    "xid": lambda row: row.xid or -1,
    "severity": lambda row: row.severity or -1,
    "length": lambda row: row.length,
}


def _from_rows(
    source: Source, column: str, numbers: NDArray[np.int64] | None
) -> tuple[Array, Array | None] | None:
    wanted = range(1, source.count + 1) if numbers is None else numbers.tolist()
    if len(wanted) > FEW:
        return None
    rows: list[ListRow] = [source.row(number) for number in wanted]
    if column in ("message", "relation"):
        texts = [
            (row.path[-1] if row.path else "") if column == "message" else (row.relation or "")
            for row in rows
        ]
        ranks = _ranks(texts)
        return ranks, ranks == 0
    values = np.array([_KEYS[column](row) for row in rows], np.int64)
    return values, values == -1
