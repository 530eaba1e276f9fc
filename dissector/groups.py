"""Steps that hold other steps: message parts, repeats, choices, and what hangs on a choice."""

from __future__ import annotations

from dissector.node import ABSENT, Node, Place
from dissector.spec import Choice, Field, Repeat, When
from dissector.steps import (
    NOT_REACHED,
    Cursor,
    FieldStep,
    Scope,
    Step,
    byte_text,
    run,
    too_many,
)

MAX_ELEMENTS = 65_536
"""Elements of one repeat that get nodes: all that an Int16 can count; an Int32 counts gigabytes."""

TUPLE_STATES = {
    "null_kind": "null",
    "unchanged_kind": "unchanged",
    "text_kind": "text",
    "binary_kind": "binary",
}
NOT_SENT = "not sent"
"""State of a column that a key tuple leaves out: on the wire it looks like NULL."""

KEY_REASON = "a key holds only the replica identity: this column was not sent, it is not NULL"


class PartStep(FieldStep):
    """A declared message part: TupleData. A key tuple's columns of kind n are ``not sent``."""

    __slots__ = ("choice", "steps")

    def __init__(
        self, place: Place, field: Field, reason: str, steps: tuple[Step, ...], choice: str
    ) -> None:
        super().__init__(place, field, False, reason, sum(s.min_size for s in steps))
        self.steps = steps
        self.choice = choice

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        node = Node(self.place, cursor.pos, cursor.pos, None, [], self.reason)
        out.append(node)
        if cursor.pos == cursor.end:
            cursor.cut(node, self.min_size)
            node.children = None
            return
        assert node.children is not None
        inner: Scope = {}
        if self.choice:
            inner["key"] = scope.get(self.choice) == "key_tag"
        run(self.steps, cursor, node.children, inner)
        node.end = cursor.pos


class RepeatStep(Step):
    """Parts that come again: counted, up to a zero byte, or to the end."""

    __slots__ = ("element", "repeat", "steps", "terminator", "tuple_columns")

    def __init__(
        self,
        place: Place,
        element: Place,
        repeat: Repeat,
        steps: tuple[Step, ...],
        terminator: Place,
        tuple_columns: bool,
    ) -> None:
        super().__init__(place, 1 if repeat.until_zero else 0, False)
        self.repeat = repeat
        self.steps = steps
        self.terminator = terminator
        self.element = element
        self.tuple_columns = tuple_columns

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        total: int | None = None
        if self.repeat.count:
            counted = scope.get(self.repeat.count)
            if not isinstance(counted, int):
                self.skip(cursor, out, NOT_REACHED)
                return
            total = max(counted, 0)
            size = sum(s.min_size for s in self.steps)
            fixed = all(s.fixed for s in self.steps)
            too_many(cursor, out, self.repeat.count, counted, self.repeat.name, size, fixed)
        node = Node(self.place, cursor.pos, cursor.pos, None, [])
        out.append(node)
        self._elements(cursor, node, total, scope)
        node.end = cursor.pos
        if total == 0:
            node.reason = f"{self.repeat.count} is 0"

    def _elements(self, cursor: Cursor, node: Node, total: int | None, scope: Scope) -> None:
        assert node.children is not None
        data, number = cursor.data, 0
        key = bool(scope.get("key"))
        while number != total and not cursor.stop:
            if total is None:
                if self.repeat.until_zero and cursor.pos < cursor.end and not data[cursor.pos]:
                    node.children.append(Node(self.terminator, cursor.pos, cursor.pos + 1, 0))
                    cursor.pos += 1
                    return
                if cursor.pos >= cursor.end:
                    if self.repeat.until_zero:
                        missing = Node(self.terminator, cursor.pos, cursor.pos)
                        node.children.append(missing)
                        cursor.cut(missing, 1)
                    return
            if cursor.pos >= cursor.end and cursor.short:
                cursor.stop = True
                return
            if number == MAX_ELEMENTS:
                more = (total or 0) - number if total else "some"
                cursor.found(
                    node, "too-many", cursor.pos, count=more, what=self.repeat.name, shown=number
                )
                cursor.stop = True
                return
            before = cursor.pos
            children: list[Node] = []
            element = Node(self.element, before, before, None, children, "", 0, number)
            node.children.append(element)
            own: Scope = {}
            run(self.steps, cursor, children, own)
            element.end = cursor.pos
            if self.tuple_columns:
                chosen = TUPLE_STATES.get(str(own.get("kind")))
                if key and chosen == "null":
                    chosen = NOT_SENT
                    children[0].reason = KEY_REASON
                element.value = chosen
            number += 1
            if total is None and cursor.pos == before:
                return


class ChoiceStep(Step):
    """Alternatives told apart by the next byte; the others are absent."""

    __slots__ = ("choice", "either", "letters", "options", "part")

    def __init__(
        self, choice: Choice, options: tuple[FieldStep, ...], either: Place, part: bool
    ) -> None:
        super().__init__(either, 1 if choice.required else 0, choice.required)
        self.choice = choice
        self.options = options
        self.either = either
        self.part = part
        self.letters = {ord(str(o.field.constant)): o for o in options}
        for option in options:
            option.reason = f"{option.field.constant!r} stands here"

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        at_end = cursor.pos >= cursor.end
        byte = -1 if at_end else cursor.data[cursor.pos]
        taken = self.letters.get(byte)
        if taken is None and self.choice.required:
            node = Node(self.either, cursor.pos, cursor.pos)
            out.append(node)
            if at_end:
                cursor.cut(node, 1)
                return
            self._unknown(cursor, node, byte)
            return
        if taken is None:
            letters = " or ".join(repr(chr(b)) for b in self.letters)
            self._absent(cursor, out, self.options, f"the next byte is not {letters}")
            return
        start = cursor.pos
        end = start + 1
        scope[self.choice.name] = taken.field.name
        passed = start
        for option in self.options:
            if option is taken:
                out.append(Node(option.place, start, end, byte))
                passed = end
            else:
                out.append(Node(option.place, passed, passed, None, None, taken.reason, ABSENT))
        cursor.pos = end

    def _absent(
        self, cursor: Cursor, out: list[Node], options: tuple[FieldStep, ...], reason: str
    ) -> None:
        for option in options:
            out.append(Node(option.place, cursor.pos, cursor.pos, None, None, reason, ABSENT))

    def _unknown(self, cursor: Cursor, node: Node, byte: int) -> None:
        node.end = cursor.pos + 1
        node.value = byte
        if self.part:
            cursor.found(
                node,
                "unknown-tuple-kind",
                cursor.pos,
                kind=byte_text(byte),
            )
        else:
            cursor.found(
                node,
                "unexpected-byte",
                cursor.pos,
                got=byte_text(byte),
                expected=" or ".join(repr(chr(b)) for b in self.letters),
            )
        cursor.pos += 1
        cursor.stop = True

    def skip(self, cursor: Cursor, out: list[Node], reason: str) -> None:
        self._absent(cursor, out, self.options, reason)


class WhenStep(Step):
    """Parts that hang on a choice; what the dialect decides was decided before."""

    __slots__ = ("choice", "letters", "names", "steps", "when")

    def __init__(
        self, when: When, steps: tuple[Step, ...], choice: str, options: tuple[Field, ...]
    ) -> None:
        super().__init__(steps[0].place, 0, False)
        self.when = when
        self.steps = steps
        self.choice = choice
        self.names = frozenset(o.name for o in options)
        self.letters = frozenset(ord(str(o.constant)) for o in options)

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        if scope.get(self.choice) in self.names:
            run(self.steps, cursor, out, scope)
        else:
            self.skip(cursor, out, self.when.absent)

    def skip(self, cursor: Cursor, out: list[Node], reason: str) -> None:
        for step in self.steps:
            step.skip(cursor, out, reason)


class AbsentStep(Step):
    """A part that the dialect rules out."""

    __slots__ = ("reason",)

    def __init__(self, place: Place, reason: str) -> None:
        super().__init__(place, 0, True)
        self.reason = reason

    def read(self, cursor: Cursor, out: list[Node], scope: Scope) -> None:
        self.skip(cursor, out, self.reason)

    def skip(self, cursor: Cursor, out: list[Node], reason: str) -> None:
        super().skip(cursor, out, self.reason)
