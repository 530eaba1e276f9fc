"""Conditions that need the message itself: its fields, its findings, the columns of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dissector.findings import CODES
from dissector.node import Node
from dissector.spec import Field

from .columns import TEXT_OPERATORS, Held, need_equality
from .errors import QueryError, did_you_mean
from .fieldtests import Test, field_int, field_key, field_test, field_words
from .names import Declared, Names, is_subsequence
from .needs import needed
from .protocols import MessageLike
from .tuples import STATES, TupleColumn, columns_of
from .values import (
    Item,
    Literal,
    Range,
    fold,
    ordered,
    text_test,
)

_NUMERIC_LIMIT = 400
"""Digits of a value that is compared as a number: Decimal's time grows with the length."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?\Z", re.ASCII)

_NUMBERS = frozenset(("int", "lsn", "xid", "full_xid", "oid", "bool", "protocol"))
"""Kinds of fields whose values are compared as whole numbers, and as nothing else."""

Segments = tuple[str, ...]


class Facts:
    """What conditions ask of one message, found out once and only when asked."""

    def __init__(self, message: MessageLike, canonical: Callable[[str], str]) -> None:
        self.message = message
        self._canonical = canonical
        self._fields: dict[str, list[tuple[Segments, Node]]] | None = None
        self._columns: list[TupleColumn] | None = None

    @property
    def encoding(self) -> str:
        """Codec of the message's texts."""
        return self.message.schema.encoding

    def fields(self, name: str) -> list[tuple[Segments, Node]]:
        """The present fields called `name`, each with the names from the outermost message to it."""
        if self._fields is None:
            self._fields = self._walk(self.message.tree)
        return self._fields.get(name, [])

    def columns(self) -> list[TupleColumn]:
        """The values of the message's rows."""
        if self._columns is None:
            self._columns = list(columns_of(self.message))
        return self._columns

    def _walk(self, root: Node) -> dict[str, list[tuple[Segments, Node]]]:
        found: dict[str, list[tuple[Segments, Node]]] = {}
        pending: list[tuple[Segments, Node]] = [((), root)]
        while pending:
            prefix, node = pending.pop()
            if node.absent:
                continue
            name = self._canonical(node.name) if node.is_message else node.name
            path = prefix if node.index < 0 else (*prefix, f"[{node.index}]")
            is_field = isinstance(node.declaration, Field)
            if node.index < 0 or (is_field and node.name != (prefix[-1] if prefix else "")):
                path = (*path, name)
            if is_field:
                found.setdefault(node.name, []).append((path, node))
            for child in reversed(node.children or ()):
                # the carrier of a message stays out of the path of what it carries
                pending.append((prefix if child.is_message else path, child))
        return found


@dataclass(eq=False, slots=True)
class FieldLeaf:
    """A condition on the catalogue fields that a name means; true where any value fits, with "!="
    where there is a value and none is equal. tests None asks whether the field is there.

    meant: (message, names down to the field) of each. exact: what the user wrote, where it names
    carriers or elements, which `meant` has not. needs: what the message's bytes must hold.
    """

    name: str
    meant: frozenset[Segments]
    exact: Segments
    tests: dict[Any, Test] | None
    negated: bool = False
    needs: Held | None = None

    def test(self, facts: Facts) -> bool:
        found = False
        for path, node in facts.fields(self.name):
            if not self._means(path):
                continue
            if self.tests is None:
                return True
            if node.value is None:
                continue
            assert isinstance(node.declaration, Field)
            check = self.tests.get(field_key(node.declaration))
            if check is not None and check(node.value, facts):
                return not self.negated
            found = True
        return found and self.negated

    @property
    def messages(self) -> frozenset[str]:
        """Canonical names of the messages that have such a field."""
        return frozenset(path[0] for path in self.meant)

    def _means(self, path: Segments) -> bool:
        names = tuple(each for each in path if not each.startswith("["))
        if not any(names[-len(each) :] == each for each in self.meant):
            return False
        return not self.exact or is_subsequence(self.exact, path)


@dataclass(eq=False, slots=True)
class FindingLeaf:
    """A condition on the codes of a message's findings."""

    check: Callable[[str], bool]
    negated: bool

    def test(self, facts: Facts) -> bool:
        codes = [finding.code for finding in facts.message.found]
        return bool(codes) and any(map(self.check, codes)) is not self.negated


@dataclass(eq=False, slots=True)
class ColumnTest:
    """A condition on one column of a row; needs: what the row's bytes must hold."""

    name: str
    check: Callable[[str], bool] | None
    negated: bool = False
    needs: Held | None = None

    def holds(self, column: TupleColumn) -> bool:
        text: str | None
        if self.name == "column.name":
            text = column.name
        elif self.name == "column.type":
            text = column.type
        else:
            text = column.state if self.name == "state" else column.value
        if text is None:
            return False
        return self.check is None or self.check(text) is not self.negated


# --- building --------------------------------------------------------------------------------------


def finding_leaf(op: str, items: list[Item], position: int) -> FindingLeaf:
    """``finding op items``: codes are checked against the closed list."""
    need_equality("finding", op, position)
    if op in ("==", "!=", "in"):
        for item in items:
            if isinstance(item, Range) or item.text not in CODES:
                code = item.low if isinstance(item, Range) else item
                raise QueryError(
                    "",
                    code.position,
                    f"no finding has the code {code.text}",
                    did_you_mean(code.text, CODES) or f"codes are {', '.join(CODES)}",
                )
    return FindingLeaf(text_test("==" if op == "!=" else op, items), op == "!=")


def column_test(name: str, op: str, items: list[Item], position: int) -> ColumnTest:
    """A condition on ``column.name``, ``column.type``, ``value`` or ``state``."""
    if op == "exists":
        return ColumnTest(name, None)
    negated, op = op == "!=", "==" if op == "!=" else op
    if name == "state":
        need_equality(name, op, position)
        folded = {fold(state): state for state in STATES}
        for item in items if op in ("==", "in") else ():
            if isinstance(item, Range) or fold(item.text) not in folded:
                literal = item.low if isinstance(item, Range) else item
                raise QueryError(
                    "",
                    literal.position,
                    f"no state is called {literal.text}",
                    did_you_mean(literal.text, STATES) or f"states are {', '.join(STATES)}",
                )
        return ColumnTest(name, text_test(op, items, fold), negated)
    check = text_test(op, items)
    if name == "column.type" and op in ("==", "in"):
        exact = check
        check = lambda text: exact(text) or exact(text.partition("(")[0])  # noqa: E731
    if name == "value" and op not in TEXT_OPERATORS:
        check = _value_test(op, items, check)
    needs = needed(op, items, True) if name == "value" and not negated else None
    return ColumnTest(name, check, negated, needs)


def _number(text: str) -> Decimal | None:
    """`text` as a number, None where it is none (NaN and Infinity are none)."""
    if len(text) > _NUMERIC_LIMIT or not _NUMBER.match(text):
        return None
    return Decimal(text)


def _value_test(
    op: str, items: list[Item], as_text: Callable[[str], bool]
) -> Callable[[str], bool]:
    """Numbers written without quotes are compared as numbers where the value is one."""
    spans: list[tuple[Decimal, Decimal]] = []
    for item in items:
        low, high = (item.low, item.high) if isinstance(item, Range) else (item, item)
        one, two = _number(low.text), _number(high.text)
        if low.quoted or high.quoted or one is None or two is None:
            continue
        spans.append((one, two))
    if not spans:
        return as_text
    if op in ("==", "in"):

        def equal(text: str) -> bool:
            number = _number(text)
            inside = number is not None and any(low <= number <= high for low, high in spans)
            return inside or as_text(text)

        return equal
    compare = ordered(op, spans[0][0], Decimal)

    def order(text: str) -> bool:
        number = _number(text)
        return number is not None and compare(number)

    return order


# --- fields ----------------------------------------------------------------------------------------


def field_leaf(
    declared: list[Declared],
    segments: Segments,
    op: str,
    items: list[Item],
    position: int,
    names: Names,
) -> FieldLeaf:
    """``name op items`` on the fields `declared`. A name can mean fields of several kinds: the literal
    must fit one of them at least; the others never match."""
    canonical = names.canonical
    meant = frozenset((canonical(d.message.name), *d.path) for d in declared)
    outer, own = segments[:-1], segments[-1]
    exact = (*(canonical(each) if names.is_message(each) else each for each in outer), own)
    if not outer:
        exact = ()
    if op == "exists":
        return FieldLeaf(own, meant, exact, None)
    negated, op = op == "!=", "==" if op == "!=" else op
    tests: dict[Any, Test] = {}
    problem: QueryError | None = None
    for field in {field_key(d.field): d.field for d in declared}.values():
        try:
            tests[field_key(field)] = field_test(field, op, items, position)
        except QueryError as error:
            problem = problem or error
    if not tests:
        assert problem is not None
        raise problem
    needs = None
    if not negated:
        kinds = {(d.field.kind.rule, d.field.kind.show) for d in declared}
        as_sent = kinds == {("string", "text")}
        needs = needed(op, items, False) if as_sent else _needed_numbers(declared, op, items)
    return FieldLeaf(own, meant, exact, tests, negated, needs)


def _needed_numbers(declared: list[Declared], op: str, items: list[Item]) -> Held | None:
    """What a message must hold for one of the fields to be one of the numbers: they are sent big-endian.
    None where that is not known, or where the numbers are so short that most messages hold them."""
    literals = [item for item in items if isinstance(item, Literal)]
    if op not in ("==", "in") or len(literals) < len(items):
        return None
    parts = set()
    for field in (d.field for d in declared):
        kind = field.kind
        if kind.rule not in ("fixed", "array") or kind.width < 4 or kind.show not in _NUMBERS:
            return None
        for literal in literals:
            try:
                number = field_int(field, field_words(field), literal)
            except QueryError:  # no such field is equal to it
                continue
            parts.add((number % (1 << 8 * kind.width)).to_bytes(kind.width, "big"))
    return Held(frozenset(parts)) if parts else None
