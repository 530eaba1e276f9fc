"""A capture of `dissector` in the shape that the interface reads."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dissector.rows import DIRECTIONS, NO_LSN
from dissector.summary import summary
from dissector.text import visible
from dissector.view import one_text
from tui.model import ListRow, MessageView

if TYPE_CHECKING:
    from dissector.runs import Runs

KEPT = 1024
"""Rows kept after they were made: a few screens, so that scrolling back costs nothing."""

LARGE = 8192
"""Bytes of a message from which on its summary takes so long that the list does not wait for it."""

LATE = "…"


class CaptureSource:
    """The rows and messages of an opened capture (`dissector.view.Capture`)."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        self._made = lru_cache(KEPT)(self._make)
        self._late: dict[int, str] = {}
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._runs: Runs | None = None
        self._running = Lock()

    @property
    def count(self) -> int:
        """Messages so far."""
        return int(self._capture.count)

    @property
    def capture(self) -> Any:
        """The opened capture itself, for the screens that show more than messages."""
        return self._capture

    @property
    def show_secrets(self) -> bool:
        """As the user asked when the capture was opened."""
        return bool(self._capture.options.show_secrets)

    def row(self, number: int) -> ListRow:
        """Row `number`, from 1. The summary of a large message comes with `make_late`."""
        row = self._made(number)
        if row.summary != LATE:
            return row
        summary = self._late.get(number)
        if summary is None:
            self._waiting[number] = None
            return row
        return replace(row, summary=summary)

    @property
    def late(self) -> bool:
        """Whether there are summaries that were asked for and not made."""
        return bool(self._waiting)

    def make_late(self, seconds: float = 0.02) -> None:
        """Make summaries that were asked for, the last ones first, for about that time."""
        until = perf_counter() + seconds
        while self._waiting:
            number, _ = self._waiting.popitem()
            self._late[number] = self.summary_of(number)
            if perf_counter() > until:
                break
        while len(self._waiting) > KEPT:
            self._waiting.popitem(last=False)
        while len(self._late) > KEPT:
            del self._late[next(iter(self._late))]

    def message(self, number: int) -> MessageView:
        """Message `number`, from 1, whole."""
        view: MessageView = self._capture.message(number)
        return view

    def said(self, numbers: NDArray[np.int64]) -> tuple[list[str], list[str], list[str]]:
        """Summaries, paths and relations of messages, as the list shows them, without opening each where
        all is read. May run in a thread. Raises CaptureError where the file is gone."""
        capture = self._capture
        if not capture.index.complete:
            found = [self._said(number) for number in numbers.tolist()]
            return [s for s, _, _ in found], [p for _, p, _ in found], [r for _, _, r in found]
        tables = capture.index.tables
        paths = capture.index.rows.take("path", numbers - 1).tolist()
        shown = {path: visible(" ".join(tables.paths[path])) for path in set(paths)}
        relations, summaries = self._told(numbers)
        return summaries, [shown[path] for path in paths], relations

    def _told(self, numbers: NDArray[np.int64]) -> tuple[list[str], list[str]]:
        from dissector.runs import Runs  # not needed before something is looked for

        with self._running:
            if self._runs is None:
                self._runs = Runs(self._capture)
            return self._runs.told(numbers)

    def _said(self, number: int) -> tuple[str, str, str]:
        row = self.row(number)
        summary = self.summary_of(number) if row.summary == LATE else row.summary
        return summary, visible(" ".join(row.path)), visible(row.relation or "")

    def _make(self, number: int) -> ListRow:
        capture = self._capture
        row = capture.row(number)
        relation = capture.relation(row)
        return ListRow(
            number=row.number,
            frame=row.frame,
            time=row.time,
            stream=row.stream,
            direction=DIRECTIONS[row.direction],
            path=tuple(capture.path(row)),
            length=row.length,
            lsn=None if row.lsn == NO_LSN else row.lsn,
            xid=row.xid or None,
            relation=one_text(relation) or None,
            severity=row.severity,
            summary=LATE if row.length > LARGE else self.summary_of(number),
        )

    def summary_of(self, number: int) -> str:
        """The summary of message `number`, however long that takes."""
        try:
            return summary(self._capture.message(number), self.show_secrets)
        except OSError as error:  # the file went away: the row itself is still known
            return f"({error.strerror or error})"
