"""Replication commands held against what the server's release knows: commands, options, their values.

The facts stand in `dissector.catalogue.commands` and `dissector.catalogue.releases`; what is wrong comes
out as findings of code ``option``.
"""

from __future__ import annotations

from collections.abc import Iterator

from .catalogue.commands import COMMANDS, CommandOption, ReplicationCommand
from .catalogue.releases import RELEASES, Option
from .commands import Command
from .findings import Finding, finding
from .text import visible

TRUE, FALSE = ("on", "true", "1", "yes", "t", "y"), ("off", "false", "0", "no", "f", "n")

_PARENTHESES = 15
"""The first release with options in parentheses for commands other than START_REPLICATION."""


def check(command: Command, release: int, pgoutput: bool) -> list[Finding]:
    """What `release` would find wrong with `command`; pgoutput: START_REPLICATION's options are
    pgoutput's."""
    return [
        finding("option", text=visible(text, 300)) for text in _wrong(command, release, pgoutput)
    ]


def _wrong(command: Command, release: int, pgoutput: bool) -> Iterator[str]:
    spec = COMMANDS.get(command.name)
    if spec is None:
        return
    if release < spec.since:
        yield f"{spec.name} comes with release {spec.since}, this is {release}"
        return
    if command.name == "START_REPLICATION":
        if command.logical and pgoutput:
            yield from _pgoutput(command, release)
        return
    yield from _keywords(command, spec, release)
    if command.options and release < _PARENTHESES:
        yield f"options in parentheses come with release {_PARENTHESES}, this is {release}"
        return
    known = {o.name: o for o in spec.options if o.form == "option"}
    for given in command.options:
        name = given.name.upper()
        option = known.get(name)
        if option is None:
            yield f"{spec.name} has no option {given.name}"
        elif release < option.since:
            yield f"option {name} of {spec.name} comes with release {option.since}, this is {release}"
        elif not _fits(option, given.value):
            yield f"option {name} of {spec.name} takes {_taken(option)}, not {given.value}"


def _keywords(command: Command, spec: ReplicationCommand, release: int) -> Iterator[str]:
    known: dict[str, CommandOption] = {o.name: o for o in spec.options if o.form == "keyword"}
    if not known:
        return
    for word in command.keywords:
        option = known.get(word)
        if option is None:
            yield f"{spec.name} has no keyword {word}"
        elif release < option.since:
            yield f"{word} of {spec.name} comes with release {option.since}, this is {release}"


def _fits(option: CommandOption, value: str | None) -> bool:
    if option.takes == "boolean":
        return value is None or value.lower() in (*TRUE, *FALSE)
    if option.takes == "integer":
        return value is not None and value.isdigit()
    if "|" in option.takes:
        allowed = option.takes.split("|")
        if {"yes", "no"} <= set(allowed):
            allowed += [*TRUE, *FALSE]
        return value is not None and value.lower() in allowed
    return value is not None


def _taken(option: CommandOption) -> str:
    return option.takes.replace("|", ", ") or "no value"


def _pgoutput(command: Command, release: int) -> Iterator[str]:
    facts = RELEASES[release]
    asked = command.option("proto_version")
    proto = int(asked) if asked.isdigit() and len(asked) < 10 else 0
    seen = set()
    for given in command.options:
        name = given.name.lower()
        option = facts.options.get(name)
        if name in seen:
            yield f"option {name} is given twice"
        seen.add(name)
        if option is None:
            since = [r for r, other in RELEASES.items() if name in other.options]
            later = f" before release {min(since)}, this is {release}" if since else ""
            yield f"pgoutput has no option {given.name}{later}"
            continue
        value = "true" if given.value is None else given.value
        plain = _plain(option, value)
        if plain is None:
            yield f"option {name} of pgoutput takes {_values(option)}, not {value}"
        elif name == "proto_version" and proto not in facts.proto_versions:
            most = max(facts.proto_versions)
            yield f"proto_version {value} is not spoken by release {release}: it knows 1 to {most}"
        else:
            need = option.proto.get(plain, option.proto.get("", 1))
            if 0 < proto < need:
                yield f"{name} {value} needs proto_version {need}, {proto} was asked for"
    for name, option in facts.options.items():
        if option.required and name not in seen:
            yield f"pgoutput needs the option {name}, which is missing"


def _plain(option: Option, value: str) -> str | None:
    """The value in the catalogue's words; None where the option does not take it."""
    lower = value.lower()
    switch = "on" if lower in TRUE else "off" if lower in FALSE else None
    if option.type == "integer":
        return lower if lower.isdigit() else None
    if option.type == "boolean":
        return switch
    if option.type == "enum":
        if lower in option.values:
            return lower
        return switch if switch in option.values else None
    return value


def _values(option: Option) -> str:
    if option.type == "integer":
        return "a whole number"
    return ", ".join(option.values) or f"a {option.type}"
