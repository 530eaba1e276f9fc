"""All that is known of the selected field, always in sight."""

from __future__ import annotations

from dissector.node import Node
from tui import present_fields as present
from tui.actions import bindings
from tui.lines import LineView, Piece
from tui.opened import Opened
from tui.present import KIND_STYLES, SEVERITY_STYLES


class Details(LineView):
    """Path, offset, length, format, position, value, meaning, reason and finding of one field."""

    BINDINGS = bindings("details")
    COMPONENT_CLASSES = {*present.DETAIL_STYLES, *KIND_STYLES, *SEVERITY_STYLES}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._facts: list[present.Fact] = []
        self._lines: list[list[Piece]] = []

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def pieces(self, line: int, width: int) -> list[Piece]:
        return self._lines[line]

    def cursor_style(self, line: int) -> str:
        return ""

    def show_field(self, view: Opened, node: Node, parents: list[Node]) -> None:
        """Show `node`, to which `parents` lead from the root."""
        self._show(present.facts(view, node, parents))

    def show_text(self, label: str, text: str) -> None:
        """Show a sentence of the program in place of a field."""
        self._show([present.Fact(label, text, "severity--error")])

    def show_facts(self, facts: list[present.Fact]) -> None:
        """Show what is known of something else than a field."""
        self._show(facts)

    def _show(self, facts: list[present.Fact]) -> None:
        self._facts = facts
        self._wrap()
        self.scroll_to(y=0, animate=False, force=True)

    def _wrap(self) -> None:
        self._lines = present.wrap_facts(self._facts, self.scrollable_content_region.width)
        self.resize_lines()

    def on_resize(self) -> None:
        self._wrap()

    # There is nothing to choose here: the keys that move a cursor elsewhere scroll.

    def _scroll(self, line: float) -> None:
        self.scroll_to(y=line, animate=False, force=True)

    def action_move(self, step: int) -> None:
        self._scroll(self.scroll_offset.y + step)

    def action_page(self, step: int) -> None:
        self._scroll(self.scroll_offset.y + step * self.page_lines)

    def action_first(self) -> None:
        self._scroll(0)

    def action_last(self) -> None:
        self._scroll(self.line_count)
