"""The reference pages and comparisons as text for a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dissector.reference.comparison import Change, Comparison
from dissector.reference.pages import DIRECTIONS, ENCLOSED, Page, Row, page, pages
from dissector.spec import FIRST_RELEASE, LAST_RELEASE

MOST_EXAMPLES = 8
"""Captures that a page names; the JSON form names all."""

_LAYER_NAMES = {
    "frontend": "frontend message",
    "backend": "backend message",
    "replication": "streaming replication message",
    "pgoutput": "logical replication message",
    "part": "message part",
}


def _width() -> int:
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 140))


def _wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def explain_text(name: str | None, release: int = 18, width: int = 0) -> str:
    """The page of one message, or of all of them, as text."""
    shown = pages(release) if name is None else (page(name, release),)
    line = width or _width()
    return f"\n{'-' * line}\n\n".join(page_text(one, line) for one in shown)


def page_text(shown: Page, width: int = 100) -> str:
    """A page as text, at most `width` columns wide where its words allow."""
    message = shown.message
    lines = [f"{shown.name}: {_LAYER_NAMES[shown.layer]}, PostgreSQL {shown.release}", ""]
    lines += _wrapped(message.meaning, width)
    if message.note:
        lines += _wrapped(f"Servers: {message.note}", width)
    lines.append("")
    lines += _facts(shown, width)
    lines += ["", "Fields in documented order", ""]
    lines += _table(shown.rows, width)
    legend = shown.legend()
    if legend:
        lines += ["", "How to read them", ""]
        for format_, how in legend:
            how_text = how if how.endswith(".") else f"{format_}: {how}."
            lines += _wrapped(how_text, width, "  ", "    ")
    if shown.captures:
        lines += ["", "Examples in captures/", ""]
        more = len(shown.captures) - MOST_EXAMPLES
        named = ", ".join(shown.captures[:MOST_EXAMPLES])
        lines += _wrapped(f"{named} and {more} more" if more > 0 else named, width, "  ")
    lines += ["", f"Source: PostgreSQL {shown.release}, {shown.manual_path}"]
    lines.append(f"sha256: {shown.sha256}")
    return "\n".join(lines) + "\n"


def _facts(shown: Page, width: int) -> Iterator[str]:
    message = shown.message
    since = f"since PostgreSQL {message.since}"
    if message.until < LAST_RELEASE:
        since += f" until {message.until}"
    if message.proto:
        since += f"; needs protocol version {message.proto} of pgoutput"
    releases = " ".join(
        f"[{r}]" if r == shown.release else str(r)
        for r in range(max(FIRST_RELEASE, message.since), message.until + 1)
    )
    older = ", ".join(f"{name} until {last}" for last, name in message.older_names)
    if older and shown.name != message.name:
        older = f"{message.name} from {message.older_names[-1][0] + 1} on"
    facts = (
        ("Layer", ENCLOSED[shown.layer]),
        ("Direction", DIRECTIONS[message.direction]),
        ("Signature", shown.name),
        ("First field", shown.first_field),
        ("Context", message.context),
        ("Available", since),
        ("Releases", releases),
        ("Other name", older),
        ("Manual path", shown.manual_path),
    )
    for name, text in facts:
        if text:
            yield from _wrapped(text, width, f"{name:<13}")


def _table(rows: Sequence[Row], width: int) -> Iterator[str]:
    formats = max([len(row.format) for row in rows] + [6])
    names = max([len(row.name) for row in rows] + [4])
    indent = 2 + 4 + formats + 2 + names + 2
    yield f"  {'#':<4}{'Format':<{formats}}  {'Name':<{names}}  Meaning"
    for repeats, group in groupby(rows, key=lambda row: row.repeats):
        members = list(group)
        if repeats:
            yield f"  {repeats}[]: positions {_span(members)} come {members[0].times}"
        for place, row in enumerate(members):
            mark = "|" if repeats else " "
            if row.choice and (place == 0 or members[place - 1].choice != row.choice):
                options = [m for m in members if m.choice == row.choice]
                yield f" {mark}{row.choice}: {row.among}, positions {_span(options)}"
            first = f" {mark}{row.position:<4}{row.format:<{formats}}  {row.name:<{names}}  "
            rest = f" {mark}" + " " * (indent - 2)
            yield from _wrapped(row.meaning, width, first, rest)
            for about in _about(row):
                yield from _wrapped(about, width, rest + "- ", rest + "  ")


def _span(members: list[Row]) -> str:
    first, last = members[0].position, members[-1].position
    return str(first) if first == last else f"{first} to {last}"


def _about(row: Row) -> Iterator[str]:
    """What stands below a position: when it is there, its values, what servers do."""
    if row.when:
        yield f"{row.when[0].upper()}{row.when[1:]}."
    declared = row.field
    if declared is None:
        return
    values = [f"{key} = {meaning}" for key, meaning in declared.values.items()]
    if any(";" in value for value in values):
        yield from (f"Value {value}." for value in values)
    elif values:
        yield f"Values: {'; '.join(values)}."
    if declared.flags:
        bits = "; ".join(f"{bit} = {meaning}" for bit, meaning in declared.flags.items())
        yield f"Bits: {bits}."
    if declared.secret:
        yield "Secret: masked unless asked for."
    if declared.note:
        yield f"Servers: {declared.note}"


def comparison_text(shown: Comparison, width: int = 0) -> str:
    """A comparison as text: what changed, then both layouts."""
    lines = [*_heading(shown), ""]
    lines += _change_lines(shown, width or _width())
    return "\n".join(lines) + "\n"


def _heading(shown: Comparison) -> Iterator[str]:
    name = shown.name_new or shown.name_old or shown.message.name
    yield f"{name}: PostgreSQL {shown.old} and {shown.new}"


def _presence(shown: Comparison) -> str:
    if shown.name_old is None and shown.name_new is None:
        return f"Neither {shown.old} nor {shown.new} has this message."
    if shown.name_old is None:
        return f"New: {shown.old} does not have this message."
    if shown.name_new is None:
        return f"Gone: {shown.new} does not have this message."
    return "" if shown.changes else "The definition is the same."


def _change_lines(shown: Comparison, width: int) -> Iterator[str]:
    said = _presence(shown)
    if said:
        yield f"  {said}"
    places = {row.path: row for row in shown.rows_new}
    for change in shown.changes:
        yield from _wrapped(_say(change), width, "  ", " " * 11)
        row = places.get(change.name)
        if change.kind == "added" and row is not None:
            about = (
                f"{row.meaning} {row.when[0].upper()}{row.when[1:]}." if row.when else row.meaning
            )
            yield from _wrapped(about, width, " " * 11)


def _say(change: Change) -> str:
    if change.kind == "renamed":
        return f"renamed  from {change.old} to {change.new}"
    if change.kind == "added":
        return f"added    position {change.position_new}: {change.new} {change.name}"
    if change.kind == "removed":
        return f"removed  position {change.position_old}: {change.old} {change.name}"
    if change.kind == "moved":
        return (
            f"moved    {change.name} from position {change.position_old} to {change.position_new}"
        )
    where = f"{change.kind:<8} position {change.position_new}, {change.name}"
    if change.kind == "format":
        return f"{where}: {change.old} is now written {change.new}"
    return f"{where}: was: {change.old} Now: {change.new}"


def changes_text(comparisons: Iterable[Comparison], old: int, new: int, width: int = 0) -> str:
    """Everything that changed between two releases as text."""
    line = width or _width()
    lines = [f"What changed from PostgreSQL {old} to {new}", ""]
    for one in comparisons:
        name = one.name_new or one.name_old or one.message.name
        lines.append(f"{name} ({_LAYER_NAMES[one.message.layer]})")
        lines += [*_change_lines(one, line), ""]
    if len(lines) == 2:
        lines += ["Nothing: the definitions are the same.", ""]
    return "\n".join(lines)


def history_text(steps: Sequence[Comparison], width: int = 0) -> str:
    """A message over all releases as text: each release in which something changed."""
    line = width or _width()
    message = steps[0].message
    lines = [f"{message.name} in PostgreSQL {FIRST_RELEASE} to {LAST_RELEASE}", ""]
    first = steps[0]
    if first.name_old:
        lines.append(f"{first.old}  {len(first.rows_old)} positions, called {first.name_old}")
    for one in steps:
        if one.same:
            continue
        lines.append(f"{one.new}  {len(one.rows_new)} positions")
        lines += _change_lines(one, line)
    quiet = [str(one.new) for one in steps if one.same and one.name_new]
    if quiet:
        lines += ["", f"Unchanged in {', '.join(quiet)}."]
    return "\n".join(lines) + "\n"
