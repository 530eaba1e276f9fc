"""The definition of every message as a page of one release.

Everything here comes from the declarations in `dissector.catalogue`; nothing is written twice.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dissector.catalogue import LAYERS, MESSAGES, by_name
from dissector.catalogue.errors import ERROR_PAGE
from dissector.catalogue.kinds import FORMATS, SHOWN
from dissector.catalogue.releases import RELEASES
from dissector.errors import UsageProblem
from dissector.reference.held import examples
from dissector.spec import FIRST_RELEASE, LAST_RELEASE, Choice, Field, Message, Part, Repeat, When

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


def _base(format_: str) -> str:
    if format_.startswith("Int16["):
        return format_
    return format_.partition("(")[0].strip()


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
        if marked := [m.name for m in PAGES if m.tag and m.tag == name]:
            hint = f"the letter marks {', '.join(marked)}"
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
        early = release < message.since
        known = message.since if early else message.until
        raise UsageProblem(
            f"{message.name} is documented {'from' if early else 'until'} release {known}"
            f"{' on' if early else ''}, not in {release}: say --pg {known}"
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
