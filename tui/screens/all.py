"""Which screens there are, and how each is made for an opened source."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def make_screen(name: str, source: Any) -> Screen[Any]:
    """The screen called `name` over `source` (of the shape of `tui.model.Source`).

    What needs more than messages takes the opened capture of the source, where it has one.
    """
    capture = getattr(source, "capture", None)
    if name == "reference":
        from tui.screens.reference import ReferenceScreen

        return ReferenceScreen(name, capture)
    if name == "workbench":
        from tui.screens.workbench import WorkbenchScreen

        return WorkbenchScreen(name)
    if name == "health":
        from tui.screens.health import HealthScreen

        return HealthScreen(name, capture)
    from tui.screens.table_screen import TableScreen

    title, make = _tables()[name]
    return TableScreen(name, title, capture, make)


def _tables() -> dict[str, tuple[str, Any]]:
    from tui.screens.findings import Findings
    from tui.screens.relations import Relations
    from tui.screens.sessions import Sessions
    from tui.screens.transactions import TransactionList

    return {
        "sessions": ("Sessions", Sessions),
        "transactions": ("Transactions", TransactionList),
        "relations": ("Relations", Relations),
        "findings": ("Findings", Findings),
    }
