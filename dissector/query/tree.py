"""A filter as a tree of conditions, and what can be known of it from columns alone.

For rows [start, stop) an expression has two bounds: the rows where it may hold and the rows where it
holds for certain. A condition on columns has equal bounds; one that looks into messages may hold where
the row's path has a message with that field, and is never certain. "and", "or" and "not" combine the
bounds, so any mixture is cut down by its columns before a message is opened, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from .columns import Held, Leaf, Mask
from .errors import QueryError
from .fields import ColumnTest, Facts, FieldLeaf, FindingLeaf
from .protocols import IndexLike
from .tuples import TupleColumn

MAX_DEPTH = 100
"""Levels of parentheses and "not": evaluating is recursive, and nobody reads deeper filters."""

Bounds = tuple[Mask, Mask]
Masks = Callable[[Leaf], Mask]


@dataclass(eq=False, slots=True)
class Expr:
    """A node. depth: levels below and with it; columns_only: the index alone can answer."""

    depth: int = field(default=1, kw_only=True)
    columns_only: bool = field(default=False, kw_only=True)

    @property
    def per_column(self) -> bool:
        """Whether it still speaks of one column of a row (see `AnyColumn`)."""
        return False

    def bounds(self, masks: Masks) -> Bounds:
        """(may hold, holds for certain) as new arrays; `masks` evaluates a leaf."""
        raise NotImplementedError

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        """Whether it holds for an opened message; `row` answers conditions on columns."""
        raise NotImplementedError

    def holds(self, column: TupleColumn) -> bool:
        """Whether it holds for one column of a row; for `per_column` expressions only."""
        raise NotImplementedError


@dataclass(eq=False, slots=True)
class OnColumns(Expr):
    """A condition on columns of the index."""

    condition: Leaf

    def bounds(self, masks: Masks) -> Bounds:
        mask = masks(self.condition).copy()
        return mask, mask

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        return row(self.condition)


def _may_hold(masks: Masks, where: Leaf, needs: Held | None) -> Bounds:
    """The bounds of what needs the message: rows that have what it asks for, and maybe the bytes."""
    possible = masks(where).copy()
    if needs is not None:
        possible &= masks(needs)
    return possible, np.zeros(len(possible), bool)


@dataclass(eq=False, slots=True)
class OnMessage(Expr):
    """A condition that needs the message. where: rows that can have what it asks for."""

    condition: FieldLeaf | FindingLeaf
    where: Leaf

    def bounds(self, masks: Masks) -> Bounds:
        needs = self.condition.needs if isinstance(self.condition, FieldLeaf) else None
        return _may_hold(masks, self.where, needs)

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        return self.condition.test(facts)


@dataclass(eq=False, slots=True)
class OnColumn(Expr):
    """A condition on one column of a row, before it is known what else speaks of that column."""

    condition: ColumnTest
    scoped: bool = False

    @property
    def per_column(self) -> bool:
        return True

    def holds(self, column: TupleColumn) -> bool:
        return self.condition.holds(column)


@dataclass(eq=False, slots=True)
class AnyColumn(Expr):
    """True where one column of the row fulfils everything in `inner`."""

    inner: Expr
    where: Leaf
    needs: Held | None

    def bounds(self, masks: Masks) -> Bounds:
        return _may_hold(masks, self.where, self.needs)

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        return any(map(self.inner.holds, facts.columns()))


@dataclass(eq=False, slots=True)
class Several(Expr):
    """ "and" (every) or "or" of two or more."""

    members: list[Expr]
    every: bool
    scoped: bool = False

    @property
    def per_column(self) -> bool:
        return all(each.per_column for each in self.members)

    def bounds(self, masks: Masks) -> Bounds:
        first, *rest = self.members
        possible, certain = first.bounds(masks)
        combine = np.logical_and if self.every else np.logical_or
        for each in rest:
            more, surely = each.bounds(masks)
            if certain is possible and surely is not more:
                certain = possible.copy()
            combine(possible, more, out=possible)
            if certain is not possible:
                combine(certain, surely, out=certain)
        return possible, certain

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        # what the columns answer costs nothing: ask it first
        ordered = sorted(self.members, key=lambda each: not each.columns_only)
        answers = (each.test(facts, row) for each in ordered)
        return all(answers) if self.every else any(answers)

    def holds(self, column: TupleColumn) -> bool:
        answers = (each.holds(column) for each in self.members)
        return all(answers) if self.every else any(answers)


@dataclass(eq=False, slots=True)
class Not(Expr):
    """The rows where `inner` does not hold, those without a value among them."""

    inner: Expr

    @property
    def per_column(self) -> bool:
        return self.inner.per_column

    def bounds(self, masks: Masks) -> Bounds:
        possible, certain = self.inner.bounds(masks)
        if certain is possible:
            np.logical_not(possible, out=possible)
            return possible, possible
        return ~certain, ~possible

    def test(self, facts: Facts, row: Callable[[Leaf], bool]) -> bool:
        return not self.inner.test(facts, row)

    def holds(self, column: TupleColumn) -> bool:
        return not self.inner.holds(column)


def _needs(expr: Expr) -> Held | None:
    """What the bytes of a row must hold for one of its columns to fulfil `expr`; None: not known."""
    if isinstance(expr, OnColumn):
        return expr.condition.needs
    if not isinstance(expr, Several):
        return None
    members = [_needs(each) for each in expr.members]
    known = [each for each in members if each is not None]
    if expr.every:  # the longest is the rarest
        return max(known, key=lambda each: min(map(len, each.parts)), default=None)
    return reduce(Held.either, known) if len(known) == len(members) else None


# --- building --------------------------------------------------------------------------------------


def negate(inner: Expr, position: int) -> Expr:
    """`inner` negated; two negations cancel out."""
    if isinstance(inner, Not):
        return inner.inner
    return Not(inner, depth=_deeper([inner], position), columns_only=inner.columns_only)


def combine(members: list[Expr], every: bool, where: Leaf, position: int) -> Expr:
    """ "and" / "or" of `members`. In an "and" the conditions on a row's column join: they speak of the
    same column. A parenthesis that names a column of its own stays apart from another's."""
    if every and any(each.per_column for each in members):
        members = _join(members, where)
    elif not all(each.per_column for each in members):
        members = [close(each, where) for each in members]
    if len(members) == 1:
        return members[0]
    only = all(each.columns_only for each in members)
    return Several(members, every, depth=_deeper(members, position), columns_only=only)


def _join(members: list[Expr], where: Leaf) -> list[Expr]:
    naming = sum(_names_a_column(each) for each in members)
    joined: list[Expr] = []
    apart: list[Expr] = []
    for each in members:
        if not each.per_column or (naming > 1 and getattr(each, "scoped", False)):
            apart.append(close(each, where))
        else:
            joined.append(each)
    if not apart:
        return joined
    if not joined:
        return apart
    together = joined[0]
    if len(joined) > 1:
        together = Several(joined, True, depth=1 + max(each.depth for each in joined))
    return [*apart, close(together, where)]


def group(inner: Expr) -> Expr:
    """`inner` in parentheses."""
    if isinstance(inner, Several) and inner.every and _names_a_column(inner):
        inner.scoped = True
    return inner


def close(expr: Expr, where: Leaf) -> Expr:
    """Turn what speaks of one column into what speaks of the row: some column fulfils it."""
    if not expr.per_column:
        return expr
    if isinstance(expr, Not):
        return Not(close(expr.inner, where), depth=expr.depth + 1)
    if isinstance(expr, Several) and not (expr.every and any(map(_positive, expr.members))):
        members = [close(each, where) for each in expr.members]
        return Several(members, expr.every, depth=expr.depth + 1)
    return AnyColumn(expr, where, _needs(expr), depth=expr.depth + 1)


def _positive(expr: Expr) -> bool:
    if isinstance(expr, Not):
        return False
    if isinstance(expr, Several):
        return any(map(_positive, expr.members))
    return True


def _names_a_column(expr: Expr) -> bool:
    """Whether it is a condition on column.name, or holds one that is not negated."""
    if not expr.per_column or isinstance(expr, Not):
        return False
    if isinstance(expr, OnColumn):
        return expr.condition.name == "column.name"
    return isinstance(expr, Several) and any(map(_names_a_column, expr.members))


def _deeper(members: list[Expr], position: int) -> int:
    depth = 1 + max(each.depth for each in members)
    if depth > MAX_DEPTH:
        raise QueryError(
            "", position, f"nested more than {MAX_DEPTH} levels deep", "leave out some parentheses"
        )
    return depth


def row_masks(
    index: IndexLike, start: int, stop: int, held: Callable[[Held], Mask] | None = None
) -> Masks:
    """Evaluate leaves over the rows [start, stop), each once; held: answers for what messages hold,
    asked each time."""
    known: dict[int, Mask] = {}

    def masks(leaf: Leaf) -> Mask:
        if held is not None and isinstance(leaf, Held):
            return held(leaf)
        mask = known.get(id(leaf))
        if mask is None:
            mask = known[id(leaf)] = leaf.mask(index, start, stop)
        return mask

    return masks
