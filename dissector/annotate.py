"""Bytes and declarations make a tree of annotated nodes. Total: it never raises and loses no byte.

Each message is compiled once per dialect into steps (`dissector.steps`): marks of other releases
dropped, conditions that the dialect settles settled, positions numbered as `Message.layout` numbers
them. Reading runs the steps. A fault stops the reading of its message: what was read stays, the rest is
``unparsed``, positions not reached are absent with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import count as counting

from dissector import catalogue
from dissector.findings import finding
from dissector.node import (
    Node,
    Place,
    at,
    carried,
    find,
    findings,
    leaves,
    messages,
    walk,
    walk_paths,
)
from dissector.spec import Choice, Dialect, Field, Message, Part, Repeat, When
from dissector.steps import (
    MAX_ELEMENTS,
    NOT_SENT,
    AbsentStep,
    ArrayStep,
    BytesStep,
    ChoiceStep,
    Cursor,
    FieldStep,
    NumberStep,
    PartStep,
    RepeatStep,
    Scope,
    Step,
    StringStep,
    WhenStep,
    byte_text,
    run,
)

__all__ = [
    "MAX_ELEMENTS",
    "NOT_SENT",
    "Node",
    "annotate",
    "at",
    "carried",
    "find",
    "findings",
    "inner_layer",
    "leaves",
    "messages",
    "tuple_columns",
    "walk",
    "walk_paths",
]

LAYER_NAMES = {"pgoutput": "logical replication"}
ENVELOPES = ("frontend", "backend")
UNKNOWN = "Unknown"
"""Name of a message whose first byte no release declares."""

_UNPARSED = Place(None, "unparsed", 0, meaning="Bytes that no declaration claims.")


def annotate(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Node:
    """The tree of the one message of `layer` in ``data[start:end]``.

    layer: frontend, backend, replication or pgoutput. Never raises on content. Node offsets count in
    `data`; offsets of findings from `start`. The leaves tile ``[start, end)``.
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    size = len(data)
    start = min(max(start, 0), size)
    stop = size if end is None else min(max(end, start), size)
    return _message(data, layer, dialect, start, stop, start)


def inner_layer(outer: str, dialect: Dialect) -> str:
    """The layer of the message that a layer field of an `outer` message carries; "" for plain bytes.

    A CopyData holds replication messages only in the copy modes that have them. XLogData's bytes are
    pgoutput unless the session knows better.
    """
    if outer in ENVELOPES:
        return "replication" if dialect.copy in ("pgoutput", "plugin", "wal", "backup") else ""
    if outer == "replication" and dialect.proto_version and dialect.copy in ("", "pgoutput"):
        return "pgoutput"
    return ""


def tuple_columns(node: Node) -> list[tuple[str, Node]]:
    """Of a TupleData field's node: (state, leaf) of each column that was read, in wire order.

    state: text, binary, null, unchanged or "not sent" ("" when the kind is unknown or missing); leaf:
    the value where there is one, else the kind byte.
    """
    repeat = node.child("columns")
    found = []
    for element in (repeat.children if repeat else None) or ():
        present = [n for n in element.children or () if not n.absent]
        if present:
            found.append((element.value or "", present[-1]))
    return found


# -- one message ----------------------------------------------------------------------------------


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
_recent: tuple[Dialect | None, dict[int, Plan]] = (None, {})


def plan_of(message: Message, dialect: Dialect) -> Plan:
    """The compiled `message`; the same object for the same message and an equal dialect."""
    global _recent
    if _recent[0] is not dialect:
        _recent = (dialect, _plans.setdefault(dialect, {}))
    plan = _recent[1].get(id(message))
    if plan is None or plan.message is not message:
        plan = _recent[1][id(message)] = _compile(message, dialect)
    return plan


def _message(data: bytes, layer: str, dialect: Dialect, start: int, end: int, base: int) -> Node:
    message = catalogue.lookup_bytes(layer, data, start, dialect) if start < end else None
    if message is None:
        return _unknown(data, layer, dialect, start, end, base)
    plan = plan_of(message, dialect)
    cursor = Cursor(data, dialect, start, end, base)
    children: list[Node] = []
    node = Node(plan.place, start, end, None, children)
    if plan.code:
        node.finding = finding(plan.code, start - base, **plan.facts)
    run(plan.steps, cursor, children, {})
    _close(cursor, children, end)
    return node


def _close(cursor: Cursor, children: list[Node], end: int) -> None:
    """What is left after the last step is unparsed; a length that promised more gets its finding."""
    if cursor.pos < end:
        rest = Node(_UNPARSED, cursor.pos, end, cursor.data[cursor.pos : end])
        children.append(rest)
        if not cursor.stop:
            count = end - cursor.pos
            noun = "byte" if count == 1 else "bytes"
            cursor.found(rest, "trailing-bytes", cursor.pos, count=count, noun=noun)
    told = cursor.declared
    if told is not None and told.finding is None and not cursor.short:
        promised = told.start + told.value
        if promised > end:
            need, left = promised - cursor.frame, end - cursor.frame
            cursor.found(told, "cut-short", end, name="the message", need=need, left=left)


def _unknown(data: bytes, layer: str, dialect: Dialect, start: int, end: int, base: int) -> Node:
    """A message that no declaration knows: its tag, an envelope's length, and the rest unparsed."""
    shown = LAYER_NAMES.get(layer, layer)
    message, steps = _unknown_plan(layer, dialect.release, dialect.startup and layer == "frontend")
    cursor = Cursor(data, dialect, start, end, base)
    children: list[Node] = []
    node = Node(Place(message, UNKNOWN, dialect.release), start, end, None, children)
    if start == end:
        cursor.found(node, "cut-short", end, name=f"a {shown} message", need=1, left=0)
        return node
    run(steps, cursor, children, {})
    if not (cursor.stop or cursor.short):
        first = children[0]
        tag = byte_text(first.value) if first.length == 1 else f"code {children[-1].value}"
        cursor.found(node, "unknown-message", start, layer=shown, tag=tag)
        cursor.stop = True
    _close(cursor, children, end)
    return node


@lru_cache(maxsize=64)
def _unknown_plan(layer: str, release: int, untagged: bool) -> tuple[Message, tuple[Step, ...]]:
    """The envelope that all messages of `layer` share, taken from one of them."""
    model = next(m for m in catalogue.MESSAGES if m.layer == layer and (not m.tag) == untagged)
    wanted = ("tag", "length") if layer in ENVELOPES and not untagged else ("tag",)
    parts: list[Part] = []
    for part in model.parts_in(release):
        if isinstance(part, Field) and (untagged or part.name in wanted):
            known = part.name == "tag"
            meaning = "The first byte, which no known message has." if known else part.meaning
            parts.append(
                replace(part, constant=None, also=(), older=(), values={}, meaning=meaning)
            )
        if len(parts) == (2 if untagged else len(wanted)):
            break
    meaning = "A message that the catalogue does not know."
    message = Message(UNKNOWN, layer, "", model.direction, tuple(parts), meaning, model.page)
    builder = _Builder(message, Dialect(release=release))
    return message, builder.steps(message.parts, "")


# -- compiling ------------------------------------------------------------------------------------


def _compile(message: Message, dialect: Dialect) -> Plan:
    release = dialect.release
    if message.since > release:
        release = message.since
    elif message.until < release:
        release = message.until
    builder = _Builder(message, replace(dialect, release=release))
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


class _Builder:
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
            names = frozenset(
                o.name for o in picked.options if not letters or str(o.constant) in letters
            )
            inner: list[Step] = []
            for each in part.parts:
                inner += self._part(each, siblings, wanted, part.present, around, name)
            yield WhenStep(inner[0].place, part, tuple(inner), name, names)

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
            opener = self._open_layer if field.layer else None
            step = BytesStep(
                place, field, reason, siblings.get(field.size_from), opener, self.owner
            )
        elif rule == "array":
            step = ArrayStep(place, field, reason)
        elif rule == "part":
            part = catalogue.part(field.kind.part)
            inner = _Builder(part, self.dialect).steps(part.parts_in(self.release), "")
            step = PartStep(place, field, reason, inner, choice)
        else:
            step = NumberStep(place, field, keep, reason)
        step.check = _check(field, self.message)
        return step

    def _open_layer(self, cursor: Cursor, start: int, end: int) -> Node | None:
        inner = inner_layer(self.message.layer, cursor.dialect)
        if not inner:
            return None
        return _message(cursor.data, inner, cursor.dialect, start, end, cursor.base)

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


# -- what a value can be wrong about --------------------------------------------------------------


def _check(field: Field, message: Message) -> object:
    """The check of a field's value, or None where any value is right."""
    if field.includes_self and message.layer in ENVELOPES:
        return _check_length
    if isinstance(field.constant, str):
        return _check_letter
    if field.constant is not None:
        return _check_constant
    if field.flags:
        return _check_flags
    if field.kind.show == "timestamp":
        return _check_time
    if field.closed and field.values:
        return _check_values
    return _check_size if field.sizes else None


def _check_length(cursor: Cursor, node: Node, field: Field) -> None:
    value = node.value
    if value < field.kind.width:
        cursor.found(node, "bad-frame-length", node.start, value=value)
        cursor.stop = True
        return
    if field.constant is not None:
        _check_constant(cursor, node, field)
    promised = node.start + value
    cursor.declared = node
    if promised < cursor.end:
        cursor.end = promised


def _check_letter(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value != ord(str(field.constant)):
        expected = repr(field.constant)
        got = byte_text(node.value)
        cursor.found(node, "unexpected-byte", node.start, got=got, expected=expected)
        cursor.stop = True


def _check_constant(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value != field.constant and node.value not in field.also:
        name, got = field.name.replace("_", " "), node.value
        cursor.found(
            node, "constant-differs", node.start, name=name, got=got, expected=field.constant
        )


def _check_flags(cursor: Cursor, node: Node, field: Field) -> None:
    unknown = node.value
    for bit in field.flags:
        unknown &= ~bit
    if unknown:
        name = field.name.replace("_", " ")
        cursor.found(node, "unknown-flag", node.start, name=name, bit=f"0x{unknown:02x}")


def _check_time(cursor: Cursor, node: Node, field: Field) -> None:
    if node.value == 0:
        cursor.found(node, "time-unset", node.start)


def _check_values(cursor: Cursor, node: Node, field: Field) -> None:
    known: object = chr(node.value) if field.kind.show == "char" else node.value
    if known not in field.values:
        name = field.name.replace("_", " ")
        shown = byte_text(node.value) if field.kind.show == "char" else node.value
        cursor.found(node, "unknown-value", node.start, name=name, value=shown)


def _check_size(cursor: Cursor, node: Node, field: Field) -> None:
    fewest, most = field.sizes or (0, 0)
    if not fewest <= node.length <= most:
        allowed = f"{fewest} to {most}"
        cursor.found(node, "key-length", node.start, length=node.length, allowed=allowed)
