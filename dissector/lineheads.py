"""What stands before the summaries of many lines: number, time, connection, path, LSN, xid, relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .rows import DIRECTIONS, NO_LSN
from .slots import Array, decimal, hexadecimal, packed, windows
from .times import SECOND, iso_time

if TYPE_CHECKING:
    from .lines import Lines

DENSE = 1 << 20
"""Numbers below this are counted in a table."""


def distinct(values: Array, space: int) -> tuple[Array, Array]:
    """The different values, all below `space`, and for each value its place among them."""
    if space > DENSE:
        found, places = np.unique(values, return_inverse=True)
        return found, places
    table = np.zeros(space, np.int32)
    table[values] = 1
    found = np.flatnonzero(table)
    table[found] = np.arange(len(found))
    return found, table[values]


class LineHeads:
    """The heads of a block with columns `c`. slow: lines that are written otherwise; records: of the
    frame that holds each message's last byte."""

    def __init__(self, lines: Lines, c: dict[str, Any], slow: Array, records: Array) -> None:
        self.lines, self.c, self.slow, self.records = lines, c, slow, records
        self.count = len(slow)

    def cells(self) -> list[tuple[str, Array, Any]]:
        """The cells before the summary from the first to the last: how each is written, lengths, data."""
        c, lines = self.c, self.lines
        numbers = c["number"]
        times, lengths, which = self._times()
        heads: list[tuple[str, Array, Any]] = [
            ("right", *_swapped(decimal(numbers))),
            ("exact", lengths, (times, which)),
        ]
        paths = self.lines.capture.index.tables.paths
        stream, sides = distinct(c["stream"], int(c["stream"].max(initial=0)) + 1)
        code = (sides.astype(np.int64) * 2 + c["direction"]) * len(paths) + c["path"]
        found, which = distinct(code, len(stream) * 2 * len(paths))
        texts = []
        for each in found.tolist():
            side, path = divmod(each, len(paths))
            where = f"{stream[side >> 1]}{DIRECTIONS[side & 1]}"
            texts.append(f"\t{where}\t{'.'.join(paths[path])}\t".encode())
        heads.append(
            ("exact", np.array([len(t) for t in texts], np.int64)[which], (packed(texts), which))
        )
        lsn = c["lsn"]
        none = lsn == NO_LSN
        high, low = (
            (lsn >> np.uint64(32)).astype(np.int64),
            (lsn & np.uint64(0xFFFFFFFF)).astype(np.int64),
        )
        for number, end in ((high, "/"), (low, "\t")):
            cells = np.empty((self.count, 9), np.uint8)
            cells[:, :8], counts = hexadecimal(number)
            cells[:, 8] = ord(end)
            counts += 1
            counts[none] = end == "\t"
            heads.append(("right", counts, cells))
        xid = c["xid"]
        heads.append(("right", *_swapped(decimal(xid, blank=True))))
        found, which = distinct(c["relation"], len(self.lines.capture.index.tables.schemas))
        texts = [lines.relation(each) for each in found.tolist()]
        heads.append(
            ("exact", np.array([len(t) for t in texts], np.int64)[which], (packed(texts), which))
        )
        return heads

    def _times(self) -> tuple[Array, Array, Array]:
        """Texts of the frames' times; their lengths by message, and which one each message has."""
        time, record = self.c["time"], self.records
        known = np.flatnonzero(~self.slow)
        new = np.ones(self.count, bool)
        new[1:] = time[1:] != time[:-1]
        if self.lines.constant_digits() and len(known):
            at, which = np.flatnonzero(new), np.cumsum(new) - 1
            cells = self._even_times(time[at], int(record[known[0]]))
            if cells is not None:
                return cells, np.full(self.count, cells.itemsize), which
        new[1:] |= record[1:] != record[:-1]
        new[1:] |= self.slow[1:] != self.slow[:-1]  # their records are not always known
        at, which = np.flatnonzero(new), np.cumsum(new) - 1
        text = self.lines.runs.time_text
        texts = [
            f"\t{text(t, r)}" if not slow else ""
            for t, r, slow in zip(
                time[at].tolist(), record[at].tolist(), self.slow[at].tolist(), strict=True
            )
        ]
        lengths = np.array([len(t) for t in texts], np.int64)
        return packed([t.encode() for t in texts]), lengths[which], which

    def _even_times(self, time: Array, record: int) -> Array | None:
        """Texts of times with as many decimals as the frame at `record` has; None where they are not
        all equally long."""
        digits = len(self.lines.runs.time_text(0, record).partition(".")[2]) - 1
        seconds, rest = np.divmod(time, SECOND)
        found, which = np.unique(seconds, return_inverse=True)
        texts = [f"\t{iso_time(second * SECOND, 0)[:-1]}".encode() for second in found.tolist()]
        width = len(texts[0])
        if digits < 1 or any(len(t) != width for t in texts):
            return None
        cells = np.empty((len(time), width + digits + 2), np.uint8)
        cells[:, :width] = packed(texts, width)[which].view(np.uint8).reshape(-1, width)
        cells[:, width] = ord(".")
        cells[:, width + 1 : -1] = decimal(rest // 10 ** (9 - digits) + 10**digits)[0][:, -digits:]
        cells[:, -1] = ord("Z")
        return cells.view(f"V{cells.shape[1]}")[:, 0]

    @staticmethod
    def one(heads: list[tuple[str, Array, Any]], row: int) -> bytes:
        """The head of one line by itself."""
        parts = []
        for _, lengths, given in heads:
            length = int(lengths[row])
            if isinstance(given, tuple):
                texts, which = given
                parts.append(texts[which[row]].tobytes()[:length])
            else:
                cells = given[row].tobytes()
                parts.append(cells[len(cells) - length :])
        return b"".join(parts)

    def write(
        self, out: Array, heads: list[tuple[str, Array, Any]], ends: Array, rows: Array
    ) -> None:
        """From the last to the first: what is before a text in its cell is written over by the next.

        ends: where the head of each line ends. rows: the lines that get one."""
        ends = ends[rows]
        if not len(rows):
            return
        for number, (how, lengths, given) in reversed(list(enumerate(heads))):
            lengths = lengths[rows]
            if how == "exact" or number == 0:
                self._write_exact(out, lengths, given, ends, rows)
            else:
                cells = given[rows].view(f"V{given.shape[1]}")[:, 0]
                windows(out, cells.itemsize)[ends - cells.itemsize] = cells
            ends = ends - lengths

    def _write_exact(
        self, out: Array, lengths: Array, given: Any, ends: Array, rows: Array
    ) -> None:
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            which = np.flatnonzero(lengths == length)
            if not length:
                continue
            if isinstance(given, tuple):
                texts, at = given
                cells = _first(texts, length)[at[rows[which]]]
            else:
                cells = np.ascontiguousarray(given[rows[which], -length:]).view(f"V{length}")[:, 0]
            windows(out, length)[ends[which] - length] = cells


def _first(texts: Array, length: int) -> Array:
    """The first `length` bytes of each text."""
    cells = texts.view(np.uint8).reshape(len(texts), -1)[:, :length]
    return np.ascontiguousarray(cells).view(f"V{length}")[:, 0]


def _swapped(pair: tuple[Array, Array]) -> tuple[Array, Array]:
    return pair[1], pair[0]
