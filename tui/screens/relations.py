"""Relations: each version of each table's description, and what changed from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from dissector.schemas import Column, Schema
from dissector.text import visible
from dissector.values import type_name
from tui.present_fields import Fact
from tui.table import Lead, Model, TableColumn

IDENTITIES = {
    "d": "primary key",
    "n": "nothing",
    "f": "full row",
    "i": "unique index",
}

_COUNTED = ("Insert", "Update", "Delete", "Truncate")


class Relations(Model):
    """One line a version of a relation. Enter: the messages to which it applied."""

    title = "Relations"
    empty = "No Relation message is in this capture."
    columns = (
        TableColumn("Relation", 20, 10, grow=30),
        TableColumn("Version", 7, 7, right=True),
        TableColumn("OID", 8, 4, right=True),
        TableColumn("Columns", 7, 5, right=True),
        TableColumn("Inserts", 8, 6, right=True),
        TableColumn("Updates", 8, 6, right=True),
        TableColumn("Deletes", 8, 6, right=True),
        TableColumn("Truncates", 9, 3, right=True),
        TableColumn("Identity", 12, 5),
    )

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        index = capture.index
        schemas = index.tables.schemas
        found = [i for i in range(len(schemas)) if schemas[i].kind == "relation"]
        self._numbers = sorted(
            found, key=lambda i: (schemas[i].oid, schemas[i].full_name, schemas[i].version, i)
        )
        self._schemas = [schemas[i] for i in self._numbers]
        self._counts = {n: self._count(*c) for n, c in zip(_COUNTED, self._columns(), strict=True)}

    def _columns(self) -> list[tuple[Any, Any]]:
        """For each counted kind: (relation numbers, how many rows have each)."""
        index = self._capture.index
        names = index.tables.paths
        found = []
        for kind in _COUNTED:
            wanted = [
                i for i in range(len(names)) if names[i][-1:] == (kind,) and len(names[i]) == 3
            ]
            counts = np.zeros(len(index.tables.schemas), np.int64)
            for _, (path, relation) in index.rows.parts("path", "relation"):
                counts += np.bincount(relation[np.isin(path, wanted)], minlength=len(counts))
            found.append((np.flatnonzero(counts), counts[counts > 0]))
        return found

    def _count(self, relations: Any, counts: Any) -> dict[int, int]:
        schemas = self._capture.index.tables.schemas
        total: dict[int, int] = {}
        for number, count in zip(relations.tolist(), counts.tolist(), strict=True):
            for each in schemas[number].members or (number,):
                total[each] = total.get(each, 0) + count
        return total

    def __len__(self) -> int:
        return len(self._schemas)

    def cells(self, line: int) -> list[str]:
        schema = self._schemas[line]
        number = self._numbers[line]
        return [
            visible(schema.full_name, 120),
            str(schema.version),
            str(schema.oid),
            str(len(schema.columns)),
            *(f"{self._counts[kind].get(number, 0):,}" for kind in _COUNTED),
            IDENTITIES.get(schema.replica_identity, visible(schema.replica_identity, 10)),
        ]

    def style(self, line: int) -> str:
        return "kind--schema" if self._schemas[line].version > 1 else ""

    def order_by(self, column: int) -> Any:
        if column == 0:
            return [s.full_name for s in self._schemas]
        if column == 2:
            return [s.oid for s in self._schemas]
        if 4 <= column <= 7:
            counts = self._counts[_COUNTED[column - 4]]
            return [counts.get(n, 0) for n in self._numbers]
        return None

    def _before(self, line: int) -> Schema | None:
        """The version before, of the same OID."""
        schema = self._schemas[line]
        if not line or schema.version < 2:
            return None
        return next(
            (
                s
                for s in reversed(self._schemas[:line])
                if s.oid == schema.oid and s.version == schema.version - 1
            ),
            None,
        ) or next(
            (s for s in self._schemas if s.oid == schema.oid and s.version == schema.version - 1),
            None,
        )

    def facts(self, line: int) -> list[Fact]:
        schema = self._schemas[line]
        title = f"{schema.full_name}, OID {schema.oid}, version {schema.version}"
        identity = IDENTITIES.get(schema.replica_identity, "undocumented")
        told = [
            Fact("", visible(title, 200), "detail--path"),
            Fact("replica identity", f"{visible(schema.replica_identity, 4)}: {identity}"),
        ]
        before = self._before(line)
        if before is not None:
            told += [
                Fact("changed", text, "severity--note") for text in differences(before, schema)
            ]
        types = dict(schema.types)
        for place, column in enumerate(schema.columns, 1):
            key = "  ·  key" if column.is_key else ""
            told.append(
                Fact(f"{place:>3}", f"{visible(column.name, 120)}  ·  {_type(column, types)}{key}")
            )
        if not schema.columns:
            told.append(Fact("", "It has no columns."))
        return told

    def lead(self, line: int) -> Lead:
        number, schema = self._numbers[line], self._schemas[line]
        schemas = self._capture.index.tables.schemas
        with_it = [number, *(i for i in range(len(schemas)) if number in schemas[i].members)]
        index = self._capture.index
        rows = index.rows.where(lambda relation: np.isin(relation, with_it), "relation") + 1
        label = f"{schema.full_name} as version {schema.version}"
        return Lead(int(rows[0]) if len(rows) else 0, numbers=rows, label=label)


def _type(column: Column, types: dict[int, str]) -> str:
    name = type_name(column.type_oid, column.type_modifier, types)
    return f"{visible(name, 120)} (OID {column.type_oid})"


def differences(old: Schema, new: Schema) -> list[str]:
    """What changed from one description of a relation to another, in sentences."""
    told = []
    if old.full_name != new.full_name:
        told.append(f"renamed from {visible(old.full_name, 120)}")
    if old.replica_identity != new.replica_identity:
        told.append(f"replica identity was {visible(old.replica_identity, 4)}")
    types_old, types_new = dict(old.types), dict(new.types)
    before = {c.name: c for c in old.columns}
    after = {c.name: c for c in new.columns}
    for name, column in after.items():
        shown, was = visible(name, 120), before.get(name)
        if was is None:
            told.append(f"column {shown} added, {_type(column, types_new)}")
            continue
        if _type(was, types_old) != _type(column, types_new):
            now = _type(column, types_new)
            told.append(f"column {shown} was {_type(was, types_old)}, is {now}")
        if was.is_key != column.is_key:
            told.append(f"column {shown} {'joined' if column.is_key else 'left'} the key")
    told += [f"column {visible(name, 120)} removed" for name in before if name not in after]
    kept_old = [name for name in before if name in after]
    kept_new = [name for name in after if name in before]
    if kept_old != kept_new:
        told.append("columns stand in another order")
    return told or ["described again without a visible change"]
