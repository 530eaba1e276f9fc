"""What stands before the summaries of many lines: number, time, connection, path, LSN, xid, relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .rows import DIRECTIONS, NO_LSN
from .slots import (
    Array,
    decimal,
    distinct,
    ending,
    hexadecimal,
    last_bytes,
    marked,
    packed,
    windows,
)
from .times import SECOND, iso_time

if TYPE_CHECKING:
    from .lines import Lines

Cells = tuple[Array, Array, Array | None]
"""Lengths of texts by line, and windows that end with them: one for each line, or a table and which of
them each line has."""


class LineHeads:
    """The heads of a block with columns `c`. slow: lines that are written otherwise, to which those with
    very long texts are added; records: of the frame that holds each message's last byte."""

    def __init__(self, lines: Lines, c: dict[str, Any], slow: Array, records: Array) -> None:
        self.lines, self.c, self.slow, self.records = lines, c, slow, records
        self.count = len(slow)
        tables = lines.capture.index.tables
        relation = lines.relations.of(c["relation"], len(tables.schemas), lines.relation, slow)
        side = c["stream"].astype(np.int64) * 2 + c["direction"]
        path = lines.places.of(
            side * len(tables.paths) + c["path"],
            (int(c["stream"].max(initial=0)) + 1) * 2 * len(tables.paths),
            self._place,
            slow,
        )
        self.cells: list[Cells] = [
            _whole(decimal(c["number"])), self._times(), path, *self._lsns(),
            _whole(decimal(c["xid"], blank=True)), relation,
        ]  # fmt: skip
        self.size = np.zeros(self.count, np.int64)
        for lengths, *_ in self.cells:
            self.size += lengths

    def _place(self, code: int) -> bytes:
        """The cells of the connection and the path, with tabs around them."""
        paths = self.lines.capture.index.tables.paths
        side, path = divmod(code, len(paths))
        return f"\t{side >> 1}{DIRECTIONS[side & 1]}\t{'.'.join(paths[path])}\t".encode()

    def _lsns(self) -> list[Cells]:
        lsn = self.c["lsn"]
        none = lsn == NO_LSN
        found: list[Cells] = []
        for half, end in ((lsn >> np.uint64(32), "/"), (lsn, "\t")):
            cells, counts = hexadecimal(half.astype(np.uint32))
            counts += 1
            counts[none] = end == "\t"
            found.append((counts, marked(cells, end), None))
        return found

    def _times(self) -> Cells:
        """The frames' times, with a tab before them."""
        time, record = self.c["time"], self.records
        known = np.flatnonzero(~self.slow)
        new = np.ones(self.count, bool)
        new[1:] = time[1:] != time[:-1]
        if self.lines.capture.files.digits() is not None and len(known):
            at, which = np.flatnonzero(new), np.cumsum(new) - 1
            cells = self._even_times(time[at], int(record[known[0]]))
            if cells is not None:
                return np.full(self.count, cells.itemsize), cells, which
        new[1:] |= record[1:] != record[:-1]
        new[1:] |= self.slow[1:] != self.slow[:-1]  # their records are not always known
        at, which = np.flatnonzero(new), np.cumsum(new) - 1
        text = self.lines.runs.time_text
        texts = [
            f"\t{text(t, r)}".encode() if not slow else b""
            for t, r, slow in zip(
                time[at].tolist(), record[at].tolist(), self.slow[at].tolist(), strict=True
            )
        ]
        lengths, cells = ending(texts)
        return lengths.take(which), cells, which

    def _even_times(self, time: Array, record: int) -> Array | None:
        """Texts of times with as many decimals as the frame at `record` has; None where they are not
        all equally long."""
        digits = len(self.lines.runs.time_text(0, record).partition(".")[2]) - 1
        seconds = time // SECOND
        rest = time - seconds * SECOND
        least = int(seconds.min())
        found, which = distinct(seconds - least, int(seconds.max()) - least + 1)
        texts = [
            f"\t{iso_time((second + least) * SECOND, 0)[:-1]}".encode() for second in found.tolist()
        ]
        width = len(texts[0])
        if digits < 1 or any(len(t) != width for t in texts):
            return None
        parts = np.dtype([("second", f"V{width}"), ("rest", f"V{digits + 1}"), ("zone", np.uint8)])
        cells = np.empty(len(time), parts)
        cells["second"] = packed(texts, width)[which]
        scaled = rest // 10 ** (9 - digits) + 10**digits
        cells["rest"] = last_bytes(decimal(scaled)[0], digits + 1)
        cells.view(np.uint8).reshape(len(time), -1)[:, width] = ord(".")
        cells["zone"] = ord("Z")
        return cells.view(f"V{parts.itemsize}")

    def write(self, out: Array, begins: Array) -> None:
        """Write the heads of the lines that are not slow, which begin at `begins` in `out`: from the last
        cell to the first, since what is before a text in its window is written over by the next."""
        rows: Any = np.flatnonzero(~self.slow) if self.slow.any() else slice(None)
        ends = (begins + self.size)[rows]
        begins = begins[rows]
        for lengths, cells, which in reversed(self.cells):
            lengths = lengths[rows]
            cells = cells[rows] if which is None else cells.take(which[rows])
            at = ends - cells.itemsize
            ends = ends - lengths
            beyond = at < begins
            if beyond.any():  # what is before the line is another one
                self._write_exactly(out, lengths[beyond], cells[beyond], ends[beyond])
                at, cells = at[~beyond], cells[~beyond]
            windows(out, cells.itemsize)[at] = cells

    @staticmethod
    def _write_exactly(out: Array, lengths: Array, cells: Array, begins: Array) -> None:
        seen = cells.view(np.uint8).reshape(len(cells), -1)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            which = np.flatnonzero(lengths == length)
            if length:
                exact = np.ascontiguousarray(seen[which, -length:]).view(f"V{length}")[:, 0]
                windows(out, length)[begins[which]] = exact


def _whole(pair: tuple[Array, Array]) -> Cells:
    cells, lengths = pair
    return lengths, cells.view(f"V{cells.shape[1]}")[:, 0], None
