"""The reference: every definition, for one release, compared over two, over all of them.

Everything here comes from the declarations in `dissector.catalogue`. Pages and comparisons are data;
``text`` prints them for people, ``machine`` as JSON.
"""

from __future__ import annotations

from dissector.reference.comparison import Change, Comparison, compare, compare_all, history
from dissector.reference.held import examples
from dissector.reference.machine import (
    comparison_json,
    explain_json,
    page_json,
    write_compare,
    write_explain,
)
from dissector.reference.pages import (
    DIRECTIONS,
    ENCLOSED,
    PAGES,
    Page,
    Row,
    check_release,
    documented,
    find,
    page,
    pages,
    rows,
    suggest,
)
from dissector.reference.text import (
    changes_text,
    comparison_text,
    explain_text,
    history_text,
    page_text,
)

__all__ = [
    "DIRECTIONS", "ENCLOSED", "PAGES", "Change", "Comparison", "Page", "Row", "changes_text",
    "check_release", "compare", "compare_all", "comparison_json", "comparison_text", "documented",
    "examples", "explain_json", "explain_text", "find", "history", "history_text", "page",
    "page_json", "page_text", "pages", "rows", "suggest", "write_compare", "write_explain",
]  # fmt: skip
