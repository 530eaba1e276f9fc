"""A table of lines with a cursor, for the screens beside the viewer: sessions, transactions, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from textual import events
from textual.message import Message

from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.present import (
    KIND_STYLES,
    SEVERITY_SIGNS,
    SEVERITY_STYLES,
    fit,
    severity_style,
    sorted_heading,
)
from tui.present_fields import Fact


@dataclass(frozen=True)
class TableColumn:
    """heading, width in cells, worth: the narrower the screen, the more worth is needed to stay. grow:
    cells it may take beyond its width where there is room; the last column takes all that is left."""

    heading: str
    width: int
    worth: int = 5
    right: bool = False
    grow: int = 0


@dataclass(frozen=True)
class Lead:
    """Where Enter goes: these messages (a filter, or numbers with a name for them), this one of them."""

    number: int = 0
    expression: str = ""
    numbers: Sequence[int] | np.ndarray | None = None
    label: str = ""


class Model:
    """What a table shows. Lines count from 0; texts have gone through `dissector.text.visible`."""

    title = ""
    empty = "There is nothing to show."
    columns: tuple[TableColumn, ...] = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def cells(self, line: int) -> Sequence[str]:
        """The texts of a line, one a column."""
        raise NotImplementedError

    def severity(self, line: int) -> int:
        """The worst severity of what the line stands for, 0 for none."""
        return 0

    def style(self, line: int) -> str:
        """One of KIND_STYLES, or ""."""
        return ""

    def facts(self, line: int) -> list[Fact]:
        """All that is known of what the line stands for."""
        return []

    def lead(self, line: int) -> Lead:
        """Where Enter goes."""
        return Lead()

    def order_by(self, column: int) -> Any:
        """Values to sort the lines by, one a line, or None where the column has no order."""
        return None


def placed(columns: Sequence[TableColumn], width: int) -> list[tuple[int, int]]:
    """(column's place, width in cells) of those that fit; a sign and a space stand before them."""
    chosen = list(range(len(columns)))

    def taken() -> int:
        return 2 + sum(columns[i].width + 1 for i in chosen)

    while len(chosen) > 1 and taken() - 1 > width:
        chosen.remove(min(chosen, key=lambda i: columns[i].worth))
    spare = max(0, width - taken() + 1)
    widths = {i: columns[i].width for i in chosen}
    for i in chosen[:-1]:
        more = min(columns[i].grow, spare // 2)
        widths[i] += more
        spare -= more
    widths[chosen[-1]] += spare
    return [(i, widths[i]) for i in chosen]


class TableView(LineView):
    """The lines of a `Model`. Posts `Picked` when the cursor comes to another line."""

    BINDINGS = bindings("table")
    HEADER_LINES = 1
    COMPONENT_CLASSES = {  # noqa: RUF012 (Textual's way to declare them)
        "line--cursor",
        "line--cursor-blurred",
        "list--header",
        "list--quiet",
        *KIND_STYLES,
        *SEVERITY_STYLES,
    }

    @dataclass
    class Picked(Message):
        """The cursor is on line `line` of the model."""

        line: int

    @dataclass
    class Chosen(Message):
        """The user wants to go where line `line` of the model leads."""

        line: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.model: Model | None = None
        self._order: Any = None
        self._sorted: tuple[int, bool] | None = None

    @property
    def line_count(self) -> int:
        return 0 if self.model is None else len(self.model)

    @property
    def line(self) -> int:
        """The model's line under the cursor; -1 where there is none."""
        if not self.line_count:
            return -1
        return self.cursor if self._order is None else int(self._order[self.cursor])

    def show(self, model: Model) -> None:
        """Show another model; the cursor stays on its line as far as there is one."""
        self.model = model
        self._order, self._sorted = None, None
        self.resize_lines()
        self.cursor = min(self.cursor, max(0, self.line_count - 1))
        self.cursor_moved()

    def header(self, width: int) -> list[Piece]:
        if self.model is None:
            return []
        texts = []
        for i, wide in placed(self.model.columns, width):
            column = self.model.columns[i]
            heading = column.heading
            if self._sorted is not None and self._sorted[0] == i:
                heading = sorted_heading(heading, self._sorted[1], wide)
            texts.append(fit(heading, wide, column.right) + " ")
        return [("  " + "".join(texts), "list--header")]

    def pieces(self, line: int, width: int) -> list[Piece]:
        assert self.model is not None
        place = line if self._order is None else int(self._order[line])
        cells = self.model.cells(place)
        severity, style = self.model.severity(place), self.model.style(place)
        pieces = [(SEVERITY_SIGNS[severity] + " ", severity_style(severity))]
        for i, wide in placed(self.model.columns, width):
            pieces.append((fit(cells[i], wide, self.model.columns[i].right) + " ", style))
        return pieces

    def cursor_moved(self) -> None:
        if self.line >= 0:
            self.post_message(self.Picked(self.line))

    def sort_by(self, column: int) -> bool:
        """Sort by a column, the other way round when it is sorted by that; False where it has no order."""
        if self.model is None:
            return False
        values = self.model.order_by(column)
        if values is None:
            return False
        down = self._sorted == (column, False)
        keep = self.line
        order = np.argsort(np.asarray(values), kind="stable")
        self._order = order[::-1] if down else order
        self._sorted = (column, down)
        self.cursor = int(np.flatnonzero(self._order == keep)[0]) if keep >= 0 else 0
        self.refresh()
        return True

    def action_sort(self) -> None:
        """Sort by the next column that has an order, or the other way round."""
        if self.model is None:
            return
        if self._sorted is not None and not self._sorted[1]:
            self.sort_by(self._sorted[0])
            return
        count = len(self.model.columns)
        begin = 0 if self._sorted is None else self._sorted[0] + 1
        any(self.sort_by((begin + step) % count) for step in range(count))

    def action_enter(self) -> None:
        if self.line >= 0:
            self.post_message(self.Chosen(self.line))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self.model is None:
            return
        if offset.y == 0:
            at = 2
            for i, wide in placed(self.model.columns, self.scrollable_content_region.width):
                if at <= offset.x <= at + wide:
                    self.sort_by(i)
                at += wide + 1
            return
        line = self.line_at(offset.y)
        if line is None:
            return
        self.cursor = line
        if event.chain == 2:
            self.action_enter()
