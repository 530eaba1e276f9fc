"""What changed in a message, or in all of them, from one release to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissector.catalogue import LAYERS
from dissector.reference.pages import PAGES, Row, check_release, documented, find, rows
from dissector.spec import FIRST_RELEASE, LAST_RELEASE, Message


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
