"""Lines of the list for many messages: what `dissector.report.list_cells` gives, written in blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiled import PADDING, Summary, summary_of
from .quick import Kind, UnusualError
from .rows import DIRECTIONS, NO_LSN
from .text import visible
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs, Stream

KINDS = 256
"""Kinds of messages whose heads are kept for one connection and direction."""


class _Head:
    """What is the same in the lines of one kind, and how the summary is made.

    three: the function, the text between time and LSN, and that between xid and summary.
    """

    __slots__ = ("kind", "learned", "three")

    def __init__(self, kind: Kind | None, where: str, relation: str) -> None:
        self.kind = kind
        self.learned = kind.learned if kind is not None else 0
        self.three = (_made(kind), where, relation)

    def summary(self, data: bytes, start: int, end: int, opened: Callable[[], MessageView]) -> str:
        """What the function did not cover. Raises UnusualError."""
        assert self.kind is not None
        summary = self.kind.summary(data, start, end, opened)
        if self.kind.learned != self.learned:
            self.learned = self.kind.learned
            self.three = (_made(self.kind), *self.three[1:])
        return summary


def _made(kind: Kind | None) -> Summary:
    """The function of a kind, made once for what is known of it."""
    if kind is None:
        return _nothing
    if kind.made is None or kind.made[0] != kind.learned:
        kind.made = (kind.learned, summary_of(kind) or _nothing)
    return kind.made[1]


def _nothing(data: bytes, text: str, start: int, end: int) -> str | None:
    return None


class Lines:
    """Writes lines of the messages of a capture by number."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._heads: dict[int, dict[int, _Head]] = {}

    def block(self, numbers: list[int]) -> bytes:
        """A block of lines."""
        made = self._lines_of(numbers, careful=False)
        seen = np.frombuffer(made, np.uint8)
        # whatever a line holds is printable, but for what stands between its cells and at its end
        if np.count_nonzero(seen < 32) != 8 * len(numbers) or np.any(seen == 127):
            made = self._lines_of(numbers, careful=True)
        return made

    def _lines_of(self, numbers: list[int], careful: bool) -> bytes:
        """careful: each summary is looked at for control characters."""
        c = self.runs.columns(numbers)
        out = [""] * len(numbers)
        for side in self.runs.sides(c):
            self._lines_in(*side, c, out, careful)
        for i, line in enumerate(out):
            if not line:
                out[i] = self._slow_line(numbers[i]) + "\n"
        return "".join(out).encode()

    def _lines_in(
        self, side: int, stream: Stream, mine: Any, first: Any, last: Any, c: dict[str, Any],
        out: list[str], careful: bool,
    ) -> None:  # fmt: skip
        """Lines of the messages at `mine`, which all lie in `stream`."""
        data = stream.data + bytes(PADDING)
        text = data.decode("latin-1")
        begin = c["offset"][mine].astype(np.int64) - stream.base
        heads = self._heads.setdefault(side, {})
        known = heads.get
        found = self.runs.capture.index.found
        for i, number, key, start, stop, time, lsn, xid in zip(
            mine.tolist(), c["number"][mine].tolist(), c["key"][mine].tolist(), begin.tolist(),
            (begin + c["length"][mine]).tolist(), self.runs.times(c["time"][mine], stream.records[last]),
            c["lsn"][mine].tolist(), c["xid"][mine].tolist(), strict=True,
        ):  # fmt: skip
            head = known(key) or self._head(heads, key, number)
            make, where, relation = head.three
            summary = make(data, text, start, stop)
            if summary is None or (careful and not summary.isprintable()):
                if head.kind is None or number in found:
                    continue
                try:
                    summary = head.summary(
                        data, start, stop, partial(self.runs.capture.message, number)
                    )
                except UnusualError:
                    continue
            elif number in found:
                continue
            shown = "" if lsn == NO_LSN else f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
            out[i] = f"{number}\t{time}{where}{shown}\t{xid or ''}{relation}{summary}\n"

    def _head(self, heads: dict[int, _Head], key: int, number: int) -> _Head:
        row = self.runs.capture.row(number)
        relation = self.runs.capture.relation(row)
        names = ", ".join(relation) if isinstance(relation, list) else relation or ""
        path = ".".join(self.runs.capture.path(row))
        if len(heads) >= KINDS:
            heads.clear()
        head = heads[key] = _Head(
            self.runs.kind(number), f"\t{row.stream}{DIRECTIONS[row.direction]}\t{path}\t",
            f"\t{visible(names)}\t",
        )  # fmt: skip
        return head

    def _slow_line(self, number: int) -> str:
        from .report import list_cells

        return "\t".join(list_cells(self.runs.capture, self.runs.capture.message(number)))
