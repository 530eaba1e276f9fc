"""Replication commands of a walsender, taken apart.

The grammar is small: words, quoted identifiers, quoted strings, LSNs, numbers, and options in
parentheses. What a command or an option means stands in `dissector.catalogue.commands`; this module
only says what was written. Source: the manual's "Streaming Replication Protocol".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>'(?:[^']|'')*'?)
      | (?P<quoted>"(?:[^"]|"")*"?)
      | (?P<lsn>[0-9A-Fa-f]+/[0-9A-Fa-f]+)
      | (?P<word>[^\s'"(),;=/]+)
      | (?P<mark>[(),;=/])
    )""",
    re.VERBOSE,
)

COMMANDS = (
    "IDENTIFY_SYSTEM", "SHOW", "TIMELINE_HISTORY", "CREATE_REPLICATION_SLOT",
    "READ_REPLICATION_SLOT", "DROP_REPLICATION_SLOT", "ALTER_REPLICATION_SLOT",
    "START_REPLICATION", "BASE_BACKUP", "UPLOAD_MANIFEST",
)  # fmt: skip

_LIMIT = 65536
"""Characters of a command that are looked at; a longer one is hostile and its rest is not needed."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option in parentheses; value is None where only the name was written."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A replication command: its name in capitals, the words after it, and its options.

    slot, plugin, lsn, timeline are filled where the command has them; logical is True for
    ``LOGICAL``, False for physical (also by default of START_REPLICATION), None where neither applies.
    keywords: the bare words among `words`, in capitals, without names and numbers.
    """

    name: str
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    slot: str = ""
    plugin: str = ""
    lsn: str = ""
    timeline: str = ""
    logical: bool | None = None
    keywords: tuple[str, ...] = ()
    given: dict[str, str | None] = field(default_factory=dict, compare=False)

    def option(self, name: str, default: str = "") -> str:
        """The value of option `name` (case ignored); "true" where it was written without one."""
        for option in self.options:
            if option.name.lower() == name:
                return "true" if option.value is None else option.value
        return default


def parse_command(text: str) -> Command | None:
    """The replication command in `text`, or None where it is not one (SQL, nonsense)."""
    first = _TOKEN.match(text)
    name = (first["word"] or "").upper() if first is not None else ""
    if name not in COMMANDS:
        return None
    tokens = _tokens(text[:_LIMIT])
    words: list[tuple[str, str]] = []
    options: list[Option] = []
    at = 1
    while at < len(tokens):
        kind, value = tokens[at]
        if (kind, value) == ("mark", "("):
            at = _options(tokens, at + 1, options)
            continue
        if kind != "mark":
            words.append((kind, value))
        at += 1
    return _named(name, words, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        kind = str(match.lastgroup)
        value = match[kind]
        if kind in ("string", "quoted"):
            quote = value[0]
            value = value[1:-1] if len(value) > 1 and value.endswith(quote) else value[1:]
            value = value.replace(quote * 2, quote)
        found.append((kind, value))
    return found


def _options(tokens: list[tuple[str, str]], at: int, options: list[Option]) -> int:
    """Read ``name [=] [value], ...`` up to the closing parenthesis; returns where to go on."""
    name: str | None = None
    value: str | None = None
    while at < len(tokens):
        kind, text = tokens[at]
        at += 1
        if kind == "mark" and text in ",)":
            if name is not None:
                options.append(Option(name, value))
            name = value = None
            if text == ")":
                return at
        elif kind != "mark":
            if name is None:
                name = text
            else:
                value = text if value is None else f"{value} {text}"
    if name is not None:
        options.append(Option(name, value))
    return at


def _named(name: str, words: list[tuple[str, str]], options: list[Option]) -> Command:
    texts = tuple(value for _, value in words)
    upper = [value.upper() if kind == "word" else "" for kind, value in words]
    slot = plugin = lsn = timeline = ""
    logical: bool | None = None
    if name in ("CREATE_REPLICATION_SLOT", "READ_REPLICATION_SLOT", "DROP_REPLICATION_SLOT",
                "ALTER_REPLICATION_SLOT"):  # fmt: skip
        slot = texts[0] if texts else ""
    elif name == "START_REPLICATION":
        logical = "LOGICAL" in upper
        if upper[:1] == ["SLOT"] and len(texts) > 1:
            slot = texts[1]
        lsn = next((value for kind, value in words if kind == "lsn"), "")
        if "TIMELINE" in upper[:-1]:
            timeline = texts[upper.index("TIMELINE") + 1]
    elif name == "TIMELINE_HISTORY":
        timeline = texts[0] if texts else ""
    if name == "CREATE_REPLICATION_SLOT":
        logical = "LOGICAL" in upper
        if logical and upper.index("LOGICAL") + 1 < len(texts):
            plugin = texts[upper.index("LOGICAL") + 1]
    named = {0} if slot and name != "START_REPLICATION" else set()
    if plugin:
        named.add(upper.index("LOGICAL") + 1)
    keywords = tuple(w for i, w in enumerate(upper) if w and i not in named and not w.isdigit())
    return Command(
        name, texts, tuple(options), slot, plugin, lsn, timeline, logical, keywords,
        {option.name: option.value for option in options},
    )  # fmt: skip
