"""What transactions say of themselves and what they changed: read from their messages when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .columns import ColumnValue, column_values
from .node import Node, messages
from .schemas import Schema
from .transactions import IndexLike, Transaction

Array = NDArray[Any]

CHANGES = ("Insert", "Update", "Delete", "Truncate", "Message")
"""Messages that are a change, or a note of an application, in a transaction."""


class CaptureLike(Protocol):
    """`dissector.view.Capture`."""

    @property
    def index(self) -> Any: ...
    def message(self, number: int, /) -> Any: ...


def subxid_reader(capture: CaptureLike) -> Callable[[int], int | None]:
    """Tells the subtransaction of a Stream Abort, by its number."""
    known: dict[int, int] = capture.index.subxids
    return known.get


FACTS = (
    "final_lsn", "prepare_lsn", "commit_lsn", "end_lsn", "abort_lsn", "prepare_end_lsn",
    "rollback_end_lsn", "commit_time", "prepare_time", "rollback_time", "abort_time", "gid",
)  # fmt: skip
"""Fields of opening and closing messages that tell about the transaction."""


def facts(capture: CaptureLike, transaction: Transaction) -> dict[str, Node]:
    """LSNs, times, GID and origin by field name, as nodes that `dissector.display` shows.

    Of names that come twice the later message counts, the decision last. The origin's name and LSN
    are ``origin`` and ``origin_lsn``.
    """
    found: dict[str, Node] = {}
    for number in (transaction.begin, transaction.end, transaction.decided):
        if not number:
            continue
        inner = messages(capture.message(number).tree)[-1]
        for name in FACTS:
            node = inner.child(name)
            if node is not None and node.value is not None:
                found[name] = node
    if transaction.segments:
        first, last = transaction.segments[0]
        for number in range(
            first + 1, min(first + 3, last) + 1
        ):  # it comes right after the opening
            view = capture.message(number)
            if view.path[-1:] == ("Origin",):
                inner = messages(view.tree)[-1]
                for name, called in (("name", "origin"), ("origin_lsn", "origin_lsn")):
                    node = inner.child(name)
                    if node is not None and node.value is not None:
                        found[called] = node
    return found


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change of rows, or one message that an application wrote.

    number: of the message. kind: Insert, Update, Delete, Truncate or Message. xid: the subtransaction's
    where one is named. schema: the relation as it was described then; members: of a Truncate, all of
    them. old, new: column values in order, None where the message has none. rolled_back: undone by the
    abort of its subtransaction.
    """

    number: int
    kind: str
    xid: int
    schema: Schema
    members: tuple[Schema, ...]
    old: tuple[ColumnValue, ...] | None
    new: tuple[ColumnValue, ...] | None
    rolled_back: bool

    def key(self) -> tuple[ColumnValue, ...]:
        """The values by which the row is found: of the old row where it was sent, else of the new."""
        return tuple(
            value
            for value in self.old or self.new or ()
            if value.column is not None and value.column.is_key and value.state != "not sent"
        )


def changes(
    capture: CaptureLike, numbers: Iterable[int], subaborts: Iterable[tuple[int, int]] = ()
) -> Iterator[RowChange]:
    """The row changes among messages `numbers`, opened one by one as they are asked for.

    subaborts: as in Transaction. Only what was sent before an abort is undone by it.
    """
    undone = [(number, xid) for number, xid in subaborts]
    for number in numbers:
        view = capture.message(int(number))
        if len(view.path) != 3 or view.path[2] not in CHANGES:
            continue
        inner = messages(view.tree)[-1]
        own = inner.child("xid")
        xid = own.value if own is not None and own.value else view.row.xid
        # A table without columns has rows without values: there, and empty.
        parts: dict[str, list[ColumnValue]] = {
            part: [] for part in ("old", "new") if inner.child(part) is not None
        }
        for value in column_values(view.tree, view.schema):
            parts.setdefault(value.part, []).append(value)
        yield RowChange(
            int(number), view.path[2], xid, view.schema, view.members,
            tuple(parts["old"]) if "old" in parts else None,
            tuple(parts["new"]) if "new" in parts else None,
            any(at > number and sub == xid for at, sub in undone),
        )  # fmt: skip


@dataclass(slots=True)
class RelationCount:
    """How often a relation was changed; a Truncate counts for each relation of its list."""

    name: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    bytes: int = 0

    @property
    def total(self) -> int:
        return self.inserts + self.updates + self.deletes + self.truncates


_COUNTED = {"Insert": "inserts", "Update": "updates", "Delete": "deletes", "Truncate": "truncates"}


def relation_counts(index: IndexLike, numbers: Array) -> list[RelationCount]:
    """Changes by relation among messages `numbers` (from 1), most changed first; from columns alone."""
    at = np.asarray(numbers, np.int64) - 1
    rows, tables = index.rows, index.tables
    relation = rows.take("relation", at).astype(np.int64)
    path = rows.take("path", at).astype(np.int64)
    lengths = rows.take("length", at).astype(np.int64)
    size = len(tables.paths)
    pairs, inverse = np.unique(relation * size + path, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(pairs))
    sums = np.bincount(inverse, weights=lengths, minlength=len(pairs))
    found: dict[str, RelationCount] = {}
    for pair, count, total in zip(pairs.tolist(), counts.tolist(), sums.tolist(), strict=True):
        schema, names = tables.schemas[pair // size], tables.paths[pair % size]
        attribute = _COUNTED.get(names[2]) if len(names) == 3 else None
        if attribute is None:
            continue
        members = [tables.schemas[n] for n in schema.members] if schema.members else [schema]
        for member in members:
            name = member.full_name
            entry = found.setdefault(name, RelationCount(name))
            setattr(entry, attribute, getattr(entry, attribute) + count)
            entry.bytes += int(total)
    return sorted(found.values(), key=lambda entry: (-entry.total, entry.name))
