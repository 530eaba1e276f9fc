"""Lines for the reference screen: a page of one release, and two releases side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from dissector.reference import DIRECTIONS, ENCLOSED, Comparison, Page, Row
from tui.present import fit

Pieces = list[tuple[str, str]]

STYLES = (
    "page--title", "page--label", "page--position", "page--quiet", "page--added", "page--removed",
    "page--changed",
)  # fmt: skip

LAYERS = {
    "frontend": "Frontend messages",
    "backend": "Backend messages",
    "replication": "Streaming replication",
    "pgoutput": "Logical replication",
    "part": "Message parts",
}


@dataclass(frozen=True)
class Line:
    """One line. path: of the position that it tells of, "" for none."""

    pieces: Pieces
    path: str = ""


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(8, width), break_on_hyphens=False) or [""]


def _facts(page: Page) -> Iterator[tuple[str, str]]:
    message = page.message
    since = f"since PostgreSQL {message.since}"
    if message.until < 19:
        since += f" until {message.until}"
    if message.proto:
        since += f"; needs protocol version {message.proto} of pgoutput"
    older = ", ".join(f"{name} until {last}" for last, name in message.older_names)
    yield "", message.meaning
    if message.note:
        yield "servers", message.note
    yield "layer", ENCLOSED[page.layer]
    yield "direction", DIRECTIONS[message.direction]
    yield "available", since
    if older:
        yield "other name", older if page.name == message.name else f"{message.name} from 19 on"
    if message.context:
        yield "context", message.context
    yield "manual", page.manual_path
    if page.captures:
        more = f" and {len(page.captures) - 5} more" if len(page.captures) > 5 else ""
        yield "examples", ", ".join(page.captures[:5]) + more
    yield "sha256", page.sha256


def page_lines(page: Page, width: int) -> list[Line]:
    """A page for a pane of `width` cells."""
    lines = [Line([(f"{page.name}  ·  PostgreSQL {page.release}", "page--title")]), Line([])]
    positions = _positions(page.rows, width)
    facts = []
    for label, text in _facts(page):
        head = f"{label}  " if label else ""
        for place, part in enumerate(_wrap(text, width - len(head))):
            lead = head if place == 0 else " " * len(head)
            facts.append(Line([(lead, "page--label"), (part, "")]))
    meaning = len(_wrap(page.message.meaning, width))
    lines += [*facts[:meaning], Line([]), *positions, Line([]), *facts[meaning:], Line([])]
    for name, how in page.legend():
        text = how if how.endswith(".") else f"{name}: {how}."
        lines += [Line([(part, "page--quiet")]) for part in _wrap(text, width)]
    return lines


def _positions(rows: Sequence[Row], width: int) -> Iterator[Line]:
    repeats = choice = ""
    for row in rows:
        if row.repeats != repeats:
            repeats = row.repeats
            if repeats:
                times = f"{repeats}[], {row.times}:"
                yield Line([(part, "page--quiet") for part in _wrap(times, width)[:1]])
        if row.choice != choice:
            choice = row.choice
            if choice:
                yield Line([(f"{choice}: {row.among}", "page--quiet")])
        yield from _position(row, width)


def _position(row: Row, width: int, style: str = "page--position") -> Iterator[Line]:
    """The lines of one position: number, format and name, then what it means."""
    bar = "│ " if row.repeats else "  "
    head = f"{row.position:>3} {bar}{row.format}  "
    named = "page--title" if style == "page--position" else style
    if len(head) + len(row.name) <= width:
        yield Line([(head, style), (row.name, named)], row.path)
    else:
        yield Line([(head, style)], row.path)
        yield Line([("    " + bar, "page--quiet"), (row.name, named)], row.path)
    indent = "    " + bar
    for text in (row.meaning, *_about(row)):
        for place, part in enumerate(_wrap(text, width - len(indent) - 2)):
            quiet = "" if text is row.meaning else "page--quiet"
            dash = "" if text is row.meaning else ("- " if place == 0 else "  ")
            yield Line([(indent, "page--quiet"), (dash + part, quiet)], row.path)


def _about(row: Row) -> Iterator[str]:
    """When the position is there, what its values mean, what servers do."""
    if row.when:
        yield f"{row.when[0].upper()}{row.when[1:]}."
    declared = row.field
    if declared is None:
        return
    if declared.values:
        values = (f"{key}: {meaning}" for key, meaning in declared.values.items())
        yield f"Values: {'; '.join(values)}."
    if declared.flags:
        bits = (f"{bit}: {meaning}" for bit, meaning in declared.flags.items())
        yield f"Bits: {'; '.join(bits)}."
    if declared.secret:
        yield "Secret: masked unless asked for."
    if declared.note:
        yield f"Servers: {declared.note}"


# Two releases side by side.

MARKS = {"same": " ", "added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MARK_STYLES = {
    "added": "page--added", "removed": "page--removed", "changed": "page--changed",
    "moved": "page--changed",
}  # fmt: skip


def pairs(shown: Comparison) -> list[tuple[str, Row | None, Row | None]]:
    """(kind, old row, new row) in an order that keeps both layouts in theirs.

    kind: same, added, removed, changed (format or meaning), moved (another position only).
    """
    old, new = shown.rows_old, shown.rows_new
    paths_old, paths_new = [r.path for r in old], [r.path for r in new]
    found: list[tuple[str, Row | None, Row | None]] = []
    steps = SequenceMatcher(None, paths_old, paths_new, autojunk=False).get_opcodes()
    for kind, a, b, c, d in steps:
        if kind == "equal":
            for before, after in zip(old[a:b], new[c:d], strict=True):
                found.append((_kind(before, after), before, after))
            continue
        found += [("removed", row, None) for row in old[a:b]]
        found += [("added", None, row) for row in new[c:d]]
    return found


def _kind(before: Row, after: Row) -> str:
    if before.format != after.format or before.meaning != after.meaning:
        return "changed"
    return "same" if before.position == after.position else "moved"


def comparison_lines(shown: Comparison, width: int) -> list[Line]:
    """Both layouts side by side, a sign between them where they differ."""
    half = (width - 3) // 2
    none = "does not have this message"
    titles = [
        f"{name or shown.message.name}  ·  PostgreSQL {release}" + ("" if name else f" {none}")
        for name, release in ((shown.name_old, shown.old), (shown.name_new, shown.new))
    ]
    if max(map(len, titles)) > half:
        titles = [title.replace("  ·  PostgreSQL ", " · ") for title in titles]
    lines = [_side_by_side(titles[0], titles[1], " ", half, "page--title", "page--title")]
    count = len(shown.changes)
    said = (
        "The definition is the same."
        if not count
        else f"{count} changes"
        if count > 1
        else "1 change"
    )
    lines += [Line([(said, "page--label")]), Line([])]
    for kind, before, after in pairs(shown):
        style = _MARK_STYLES.get(kind, "page--position")
        cells = [
            list(_position(row, half, style)) if row is not None else [] for row in (before, after)
        ]
        path = (after or before).path if after or before else ""  # type: ignore[union-attr]
        for place in range(max(map(len, cells))):
            left, right = (side[place].pieces if place < len(side) else [] for side in cells)
            mark = MARKS[kind] if place == 0 else " "
            pieces = [*_cut(left, half), (f" {mark} ", style), *_cut(right, half)]
            lines.append(Line(pieces, path))
    return [*lines, Line([]), Line([("+ added   - removed   ~ changed   > moved", "page--quiet")])]


def _side_by_side(left: str, right: str, mark: str, half: int, a: str, b: str) -> Line:
    return Line([(fit(left, half), a), (f" {mark} ", ""), (fit(right, half), b)])


def _cut(pieces: Pieces, width: int) -> Pieces:
    """`pieces` in exactly `width` cells."""
    found, left = [], width
    for text, style in pieces:
        if left <= 0:
            break
        part = text if len(text) <= left else fit(text, left)
        found.append((part, style))
        left -= len(part)
    return [*found, (" " * max(0, left), "")]
