"""A capture of `dissector` in the shape that the interface reads."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dissector.rows import DIRECTIONS, NO_LSN
from dissector.summary import summary
from tui.model import ListRow, MessageView

KEPT = 1024
"""Rows kept after they were made: a few screens, so that scrolling back costs nothing."""


class CaptureSource:
    """The rows and messages of an opened capture (`dissector.view.Capture`)."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        self._made = lru_cache(KEPT)(self._make)

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
        """Row `number`, from 1."""
        return self._made(number)

    def message(self, number: int) -> MessageView:
        """Message `number`, from 1, whole."""
        view: MessageView = self._capture.message(number)
        return view

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
            relation=", ".join(relation) if isinstance(relation, list) else relation,
            severity=row.severity,
            summary=self._summary(number),
        )

    def _summary(self, number: int) -> str:
        try:
            return summary(self._capture.message(number), self.show_secrets)
        except OSError as error:  # the file went away: the row itself is still known
            return f"({error.strerror or error})"
