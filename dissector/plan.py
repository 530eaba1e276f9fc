"""A message compiled for a dialect: marks of other releases dropped, settled conditions resolved.

Positions are numbered as `Message.layout` numbers them. Plans are kept: a message and a dialect are
compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count as counting

from dissector import catalogue
from dissector.checks import check_of
from dissector.groups import AbsentStep, ChoiceStep, PartStep, RepeatStep, WhenStep
from dissector.node import Place
from dissector.spec import Choice, Dialect, Field, Message, Part, Repeat, When
from dissector.steps import (
    ENVELOPES,
    ArrayStep,
    BytesStep,
    FieldStep,
    NumberStep,
    Step,
    StringStep,
)


class Plan:
    """A message compiled for a dialect: its place, its steps, and what is wrong with it there."""

    __slots__ = ("code", "facts", "message", "place", "steps")

    def __init__(self, message: Message, place: Place, steps: tuple[Step, ...]) -> None:
        self.message = message
        self.place = place
        self.steps = steps
        self.code = ""
        self.facts: dict[str, object] = {}


_plans: dict[Dialect, dict[int, Plan]] = {}
_recent: list[tuple[Dialect | None, dict[int, Plan]]] = [(None, {})]
"""The dialect asked for last: looking it up by identity spares hashing it for each message."""


def plan_of(message: Message, dialect: Dialect) -> Plan:
    """The compiled `message`; the same object for the same message and an equal dialect."""
    known, plans = _recent[0]
    if known is not dialect:
        plans = _plans.setdefault(dialect, {})
        _recent[0] = (dialect, plans)
    plan = plans.get(id(message))
    if plan is None or plan.message is not message:
        plan = plans[id(message)] = _compile(message, dialect)
    return plan


def inner_layer(outer: str, dialect: Dialect) -> str:
    """The layer of the message that a layer field of an `outer` message carries; "" for none.

    A CopyData holds replication messages only in the copy modes that have them. XLogData's bytes
    are pgoutput unless the session knows better.
    """
    if outer in ENVELOPES:
        return "replication" if dialect.copy in ("pgoutput", "plugin", "wal", "backup") else ""
    if outer == "replication" and dialect.proto_version and dialect.copy in ("", "pgoutput"):
        return "pgoutput"
    return ""


def _compile(message: Message, dialect: Dialect) -> Plan:
    release = dialect.release
    if message.since > release:
        release = message.since
    elif message.until < release:
        release = message.until
    builder = Builder(message, replace(dialect, release=release))
    place = Place(message, message.name_in(release), release, meaning=message.meaning)
    plan = Plan(message, place, builder.steps(message.parts_in(release), ""))
    if message.layer == "pgoutput" and 0 < dialect.proto_version < message.proto:
        name, proto = message.name, dialect.proto_version
        if name.startswith("Stream"):
            plan.code, plan.facts = "stream-outside", {"message": name, "proto": proto}
        else:
            plan.code = "newer-than-proto"
            plan.facts = {"message": name, "need": message.proto, "have": proto}
    elif message.since > dialect.release:
        plan.code = "newer-than-release"
        plan.facts = {"message": message.name, "since": message.since, "release": dialect.release}
    return plan


class Builder:
    """Makes the steps of one message; positions are numbered in the order of `Message.layout`."""

    def __init__(self, message: Message, dialect: Dialect) -> None:
        self.message = message
        self.dialect = dialect
        self.release = dialect.release
        self.positions = counting(1)
        self.owner = ""

    def steps(self, parts: Iterable[Part], reason: str) -> tuple[Step, ...]:
        """The steps of sibling `parts`."""
        parts = tuple(parts)
        siblings = {p.name: p for p in _fields(parts)}
        wanted = {f.size_from or f.count_from for f in siblings.values()}
        wanted |= {r.count for r in parts if isinstance(r, Repeat)}
        made: list[Step] = []
        for part in parts:
            made += self._part(part, siblings, wanted, reason, parts)
        return tuple(made)

    def _part(
        self,
        part: Part,
        siblings: dict[str, Field],
        wanted: set[str],
        reason: str,
        around: tuple[Part, ...],
        choice: str = "",
    ) -> Iterator[Step]:
        if isinstance(part, Field):
            yield self._field(part, siblings, part.name in wanted, reason, choice)
        elif isinstance(part, Repeat):
            yield self._repeat(part)
        elif isinstance(part, Choice):
            yield self._choice(part)
        else:
            name, _, letters = part.condition.removeprefix("chosen:").partition("=")
            if not part.condition.startswith("chosen:"):
                holds = bool(getattr(self.dialect, part.condition, True))
                why = part.present if holds else part.absent
                for each in part.parts:
                    for step in self._part(each, siblings, wanted, why, around):
                        yield step if holds else AbsentStep(step.place, why)
                return
            picked = next(p for p in around if isinstance(p, Choice) and p.name == name)
            options = tuple(o for o in picked.options if not letters or str(o.constant) in letters)
            inner: list[Step] = []
            for each in part.parts:
                inner += self._part(each, siblings, wanted, part.present, around, name)
            if inner:
                yield WhenStep(part, tuple(inner), name, options)

    def _place(self, field: Field) -> Place:
        shown, meaning = field.format_in(self.release), field.meaning_in(self.release)
        return Place(field, field.name, self.release, next(self.positions), shown, meaning)

    def _field(
        self, field: Field, siblings: dict[str, Field], keep: bool, reason: str, choice: str = ""
    ) -> FieldStep:
        place = self._place(field)
        rule = field.kind.rule
        step: FieldStep
        if rule == "string":
            step = StringStep(place, field, keep, reason)
        elif rule == "bytes":
            layer = inner_layer(self.message.layer, self.dialect) if field.layer else ""
            sized = siblings.get(field.size_from)
            step = BytesStep(place, field, reason, sized, layer, self.owner)
        elif rule == "array":
            step = ArrayStep(place, field, reason)
        elif rule == "part":
            part = catalogue.part(field.kind.part)
            inner = Builder(part, self.dialect).steps(part.parts_in(self.release), "")
            step = PartStep(place, field, reason, inner, choice)
        else:
            step = NumberStep(place, field, keep, reason)
        step.check = check_of(field, self.message)
        return step

    def _repeat(self, repeat: Repeat) -> RepeatStep:
        place = Place(repeat, repeat.name, self.release)
        outer, self.owner = self.owner, repeat.name.removesuffix("s").replace("_", " ")
        inner = self.steps(repeat.parts, "")
        self.owner = outer
        element = Place(repeat, repeat.name, self.release)
        meaning = "The zero byte that ends the list."
        terminator = Place(None, "terminator", self.release, meaning=meaning)
        columns = self.message.layer == "part"
        return RepeatStep(place, element, repeat, inner, terminator, columns)

    def _choice(self, choice: Choice) -> ChoiceStep:
        options = tuple(self._field(o, {}, False, "") for o in choice.options)
        first = options[0]
        either = replace(
            first.field,
            name=choice.name,
            constant=None,
            meaning="One of " + ", ".join(str(o.field.constant) for o in options) + ".",
            note="",
        )
        place = Place(
            either, choice.name, self.release, first.place.position, either.kind.documented
        )
        place.meaning = either.meaning
        return ChoiceStep(choice, options, place, self.message.layer == "part")


def _fields(parts: tuple[Part, ...]) -> Iterator[Field]:
    for part in parts:
        if isinstance(part, Field):
            yield part
        elif isinstance(part, When):
            yield from _fields(part.parts)
