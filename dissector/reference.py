"""The definition of every message as a page: for one release, compared over two, over all of them.

Everything here comes from the declarations in `dissector.catalogue`; nothing is written twice.
Pages are data (`Page`, `Comparison`); ``dissector.reference_text`` prints them.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from dissector.catalogue import LAYERS, MESSAGES, by_name
from dissector.catalogue.errors import ERROR_PAGE
from dissector.catalogue.kinds import FORMATS, SHOWN
from dissector.catalogue.releases import RELEASES
from dissector.errors import UsageProblem
from dissector.spec import (
    FIRST_RELEASE,
    LAST_RELEASE,
    Choice,
    Field,
    Message,
    Part,
    Repeat,
    When,
)

ENCLOSED = {
    "frontend": "frontend/backend protocol: the envelope of everything that a connection carries",
    "backend": "frontend/backend protocol: the envelope of everything that a connection carries",
    "replication": "streaming replication: stands in the data of a CopyData message",
    "pgoutput": "logical replication payload: stands in the data of an XLogData message, inside "
    "CopyData; its letters are distinct from the frontend/backend envelope's",
    "part": "message part: stands inside other messages and has no envelope of its own",
}
"""Layer -> what it is, and what encloses its messages."""

DIRECTIONS = {
    "F": "from the frontend (client)",
    "B": "from the backend (server)",
    "F & B": "from the frontend (client) and from the backend (server)",
}


PAGES = (*MESSAGES, ERROR_PAGE)
"""Everything that has a page: all messages, TupleData, the error fields."""


@dataclass(frozen=True, slots=True)
class Row:
    """One documented position of a page.

    path: its name with those of the repeated parts before it, which identifies it over releases.
    repeats, condition, choice: names in the declaration, "" where there is none; times, when,
    among: the same in words. proto: the protocol version that the position needs, 0 for any.
    """

    position: int
    format: str
    name: str
    path: str
    meaning: str
    repeats: str = ""
    condition: str = ""
    choice: str = ""
    times: str = ""
    when: str = ""
    among: str = ""
    proto: int = 0
    field: Field | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The definition of a message in one release."""

    message: Message
    release: int
    name: str
    rows: tuple[Row, ...]
    captures: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        return self.message.layer

    @property
    def manual_path(self) -> str:
        return RELEASES[self.release].manual_path(self.message.page)

    @property
    def first_field(self) -> str:
        return self.rows[0].format if self.rows else ""

    @property
    def sha256(self) -> str:
        """SHA-256 in hex of the canonical JSON (sorted keys, no spaces, ASCII) of the fields."""
        text = json.dumps(fields_json(self.rows), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(format or show rule, how to read it) for what stands on the page."""
        bases = dict.fromkeys(_base(row.format) for row in self.rows)
        shows = dict.fromkeys(row.field.kind.show for row in self.rows if row.field)
        formats = [(base, FORMATS[base]) for base in bases if base in FORMATS]
        return (*formats, *((show, SHOWN[show]) for show in shows if show in SHOWN))


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. kind: added, removed, format, meaning, moved, or renamed (the message)."""

    kind: str
    name: str
    position_old: int | None
    position_new: int | None
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A message in two releases. name_old / name_new are None where a release does not have it."""

    message: Message
    old: int
    new: int
    name_old: str | None
    name_new: str | None
    rows_old: tuple[Row, ...] = field(default=(), repr=False)
    rows_new: tuple[Row, ...] = field(default=(), repr=False)
    changes: tuple[Change, ...] = ()

    @property
    def same(self) -> bool:
        return not self.changes


def _base(format_: str) -> str:
    if format_.startswith("Int16["):
        return format_
    return format_.partition("(")[0].strip()


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def check_release(number: int) -> int:
    """`number` if the catalogue has that release. Raises UsageProblem that names the known ones."""
    if number not in RELEASES:
        raise UsageProblem(
            f"PostgreSQL {number} is not known: say a release from {FIRST_RELEASE} to "
            f"{LAST_RELEASE}, for example --pg 18"
        )
    return number


def find(name: str) -> Message:
    """The message, part or page called `name` in any release, case and spaces ignored.

    Raises UsageProblem with the nearest names when there is none.
    """
    plain = _plain(name)
    if plain in ("errorfields", "errorfield"):
        return ERROR_PAGE
    try:
        return by_name(name)
    except KeyError:
        near = suggest(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "explain without a name lists all"
        raise UsageProblem(f"no message is called {name!r}: {hint}") from None


def suggest(name: str, count: int = 3) -> list[str]:
    """The names nearest to `name`, best first, at most `count`."""
    plain = _plain(name)
    names = {_plain(n): n for m in PAGES for n in (m.name, *(old for _, old in m.older_names))}
    close = difflib.get_close_matches(plain, names, count, 0.6)
    inside = sorted((n for n in names if len(plain) > 2 and plain in n), key=len)
    return [names[n] for n in dict.fromkeys((*close, *inside))][:count]


def documented(message: Message, release: int) -> bool:
    """Whether the manual of `release` has `message`."""
    return message.since <= release <= message.until


@cache
def rows(message: Message, release: int) -> tuple[Row, ...]:
    """The documented positions of `message` in `release`; none if that release does not have it."""
    if not documented(message, release):
        return ()
    flat = _walk(message.parts_in(release), Row(0, "", "", "", ""), release, {})
    return tuple(replace(row, position=number) for number, row in enumerate(flat, 1))


def _walk(
    parts: tuple[Part, ...], about: Row, release: int, choices: dict[str, Choice]
) -> Iterator[Row]:
    for part in parts:
        if isinstance(part, Field):
            yield replace(
                about,
                format=part.format_in(release),
                name=part.name,
                path=f"{about.path}{part.name}",
                meaning=part.meaning_in(release),
                field=part,
            )
        elif isinstance(part, Repeat):
            times = (
                "again and again until a zero byte" if part.until_zero else f"{part.count} times"
            )
            inner = replace(
                about, path=f"{about.path}{part.name}[].", repeats=part.name, times=times
            )
            yield from _walk(part.parts, inner, release, choices)
        elif isinstance(part, When):
            inner = replace(
                about, condition=part.condition, when=_when(part, choices), proto=part.proto
            )
            yield from _walk(part.parts, inner, release, choices)
        else:
            choices[part.name] = part
            inner = replace(about, choice=part.name, among=_among(part))
            yield from _walk(part.options, inner, release, choices)


def _letters(choice: Choice, among: str = "") -> str:
    letters = [str(o.constant) for o in choice.options if not among or str(o.constant) in among]
    return " or ".join((", ".join(letters[:-1]), letters[-1]) if len(letters) > 1 else letters)


def _among(choice: Choice) -> str:
    if len(choice.options) > 5:
        return "one of these letters"
    return f"either {_letters(choice)}" + ("" if choice.required else ", or none of them")


def _when(part: When, choices: dict[str, Choice]) -> str:
    words = {
        "in_stream": "only between Stream Start and Stream Stop",
        "parallel": "only when streaming is parallel",
    }
    if part.condition in words:
        return f"{words[part.condition]}, from protocol version {part.proto} on"
    name, _, letters = part.condition.removeprefix("chosen:").partition("=")
    return f"only after {_letters(choices[name], letters)}"


def page(name: str, release: int = 18) -> Page:
    """The page of the message called `name` as `release` documents it.

    Raises UsageProblem for an unknown name or release, and where the release does not have it.
    """
    check_release(release)
    message = find(name)
    if not documented(message, release):
        what = "from" if release < message.since else "until"
        known = message.since if release < message.since else message.until
        raise UsageProblem(
            f"{message.name} is documented {what} release {known}, not in {release}: "
            f"say --pg {known}"
        )
    return _page(message, release)


def _page(message: Message, release: int) -> Page:
    called = message.name_in(release)
    return Page(message, release, called, rows(message, release), examples(message))


def pages(release: int = 18) -> tuple[Page, ...]:
    """Every page of `release`, by layer, in documented order."""
    check_release(release)
    return tuple(
        _page(message, release)
        for layer in LAYERS
        for message in PAGES
        if message.layer == layer and documented(message, release)
    )


def compare(name: str, old: int, new: int) -> Comparison:
    """What changed in a message from release `old` to `new`. Raises UsageProblem as `page` does."""
    check_release(old)
    check_release(new)
    return _compare(find(name), old, new)


def _compare(message: Message, old: int, new: int) -> Comparison:
    before, after = rows(message, old), rows(message, new)
    name_old = message.name_in(old) if documented(message, old) else None
    name_new = message.name_in(new) if documented(message, new) else None
    changes = tuple(_changes(before, after))
    if name_old and name_new and name_old != name_new:
        changes = (Change("renamed", message.name, None, None, name_old, name_new), *changes)
    return Comparison(message, old, new, name_old, name_new, before, after, changes)


def _changes(before: tuple[Row, ...], after: tuple[Row, ...]) -> Iterator[Change]:
    old_rows = {row.path: row for row in before}
    new_paths = {row.path for row in after}
    for row in before:
        if row.path not in new_paths:
            yield Change("removed", row.path, row.position, None, row.format, None)
    for row in after:
        was = old_rows.get(row.path)
        if was is None:
            yield Change("added", row.path, None, row.position, None, row.format)
            continue
        where = (row.path, was.position, row.position)
        if was.position != row.position:
            yield Change("moved", *where, was.format, row.format)
        if was.format != row.format:
            yield Change("format", *where, was.format, row.format)
        if was.meaning != row.meaning:
            yield Change("meaning", *where, was.meaning, row.meaning)


def compare_all(old: int, new: int) -> tuple[Comparison, ...]:
    """Everything that changed from release `old` to `new`, by layer, in documented order."""
    check_release(old)
    check_release(new)
    everything = (_compare(m, old, new) for layer in LAYERS for m in PAGES if m.layer == layer)
    return tuple(c for c in everything if not c.same)


def history(name: str) -> tuple[Comparison, ...]:
    """A message over all releases: one comparison for each release with the one before it."""
    message = find(name)
    return tuple(_compare(message, r - 1, r) for r in range(FIRST_RELEASE + 1, LAST_RELEASE + 1))


_history = history  # `write_explain` has a parameter of that name


def examples(message: Message, folder: Path | None = None) -> tuple[str, ...]:
    """The shipped captures that hold `message`, by what the file beside each one lists."""
    return tuple(
        name
        for name, held in _held(folder or Path(__file__).parent.parent / "captures")
        if message.name in held or any(old in held for _, old in message.older_names)
    )


@cache
def _held(folder: Path) -> tuple[tuple[str, frozenset[str]], ...]:
    """(capture's name, names of the messages in it), those with the most kinds of messages last."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            held = set(facts.get("messages", ()))
            if facts.get("tuples"):
                held.add("TupleData")
            if facts.get("xlogdata"):
                held |= {"WALData", "CopyData", "CopyBothResponse"}
        except (OSError, ValueError, AttributeError, TypeError):
            continue
        captures = sorted(p for p in path.parent.glob(f"{path.stem}.pcap*") if p.is_file())
        if captures:
            found.append((captures[0].relative_to(folder).as_posix(), frozenset(held)))
    found.sort(key=lambda one: (not one[0].startswith("tour"), one[0]))
    return tuple(found)


# JSON


def fields_json(of: tuple[Row, ...]) -> list[dict[str, Any]]:
    """The definition itself: what the hash covers."""
    return [
        {
            "position": row.position,
            "format": row.format,
            "name": row.name,
            "meaning": row.meaning,
            "repeats": row.repeats or None,
            "condition": row.condition or None,
            "choice": row.choice or None,
        }
        for row in of
    ]


def _details(row: Row) -> dict[str, Any]:
    declared = row.field
    assert declared is not None
    facts = {
        "path": row.path,
        "times": row.times,
        "when": row.when,
        "among": row.among,
        "proto_version": row.proto,
        "values": {str(k): v for k, v in declared.values.items()},
        "flags": {str(k): v for k, v in declared.flags.items()},
        "secret": declared.secret,
        "note": declared.note,
    }
    return {"position": row.position, **{k: v for k, v in facts.items() if v}}


def page_json(shown: Page) -> dict[str, Any]:
    """A page as the object that ``explain --json`` prints."""
    message = shown.message
    return {
        "message": shown.name,
        "layer": shown.layer,
        "pg": shown.release,
        "manual_path": shown.manual_path,
        "signature": shown.name,
        "first_field": shown.first_field,
        "direction": message.direction,
        "since": {"server": message.since, "proto_version": message.proto or None},
        "until": message.until if message.until < LAST_RELEASE else None,
        "fields": fields_json(shown.rows),
        "source": f"PostgreSQL {shown.release}",
        "sha256": shown.sha256,
        "meaning": message.meaning,
        "note": message.note or None,
        "details": [_details(row) for row in shown.rows],
        "captures": list(shown.captures),
    }


def explain_json(name: str | None, release: int = 18) -> dict[str, Any] | list[dict[str, Any]]:
    """The definition called `name` with its evidence; without a name a list of all of `release`."""
    if name is None:
        return [page_json(one) for one in pages(release)]
    return page_json(page(name, release))


def comparison_json(shown: Comparison) -> dict[str, Any]:
    """A comparison as the object that ``compare --json`` prints."""
    return {
        "message": shown.name_new or shown.name_old or shown.message.name,
        "layer": shown.message.layer,
        "old": shown.old,
        "new": shown.new,
        "name_old": shown.name_old,
        "name_new": shown.name_new,
        "same": shown.same,
        "changes": [
            {
                "kind": change.kind,
                "position_old": change.position_old,
                "position_new": change.position_new,
                "old": change.old,
                "new": change.new,
                "name": change.name,
            }
            for change in shown.changes
        ],
    }


# for the command line


def write_explain(
    out: TextIO, name: str | None, release: int, *, history: bool = False, as_json: bool = False
) -> None:
    """Print a page, all pages, or with `history` a message over all releases. Raises
    UsageProblem."""
    from dissector import reference_text as text

    check_release(release)
    if history:
        if name is None:
            raise UsageProblem("--history needs a message, for example: explain Relation --history")
        over = _history(name)
        data: Any = [comparison_json(one) for one in over]
        shown = text.history_text(over) if not as_json else ""
    else:
        data = explain_json(name, release) if as_json else None
        shown = "" if as_json else text.explain_text(name, release)
    out.write(json.dumps(data, indent=2) + "\n" if as_json else shown)


def write_compare(
    out: TextIO, name: str | None, old: int, new: int, *, as_json: bool = False
) -> None:
    """Print a comparison; without a name everything that changed. Raises UsageProblem."""
    from dissector import reference_text as text

    if name is None:
        all_of_it = compare_all(old, new)
        data: Any = [comparison_json(one) for one in all_of_it]
        shown = text.changes_text(all_of_it, old, new)
    else:
        one = compare(name, old, new)
        data = comparison_json(one)
        shown = text.comparison_text(one)
    out.write(json.dumps(data, indent=2) + "\n" if as_json else shown)
