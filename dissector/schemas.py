"""What earlier messages teach about later ones, in tables that index rows point into by number.

A `Schema` describes the columns of a tuple, of a DataRow or of Bind's parameters. A Relation message
makes a new one each time it comes, so a row's number always means the description that was in force
when it was sent, however often the table changed afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .copying import CopyState
from .spec import Dialect


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, type OID (0 unknown), atttypmod (-1 none), whether it belongs to the replica
    identity, and the format of its values (0 text, 1 binary)."""

    name: str
    type_oid: int = 0
    type_modifier: int = -1
    is_key: bool = False
    format: int = 0


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns in force for a message.

    kind: ``relation`` (a Relation message), ``row`` (RowDescription), ``parameters``
        (ParameterDescription), ``relations`` (a Truncate's list: members holds schema numbers),
        ``copy`` (COPY data: copy says how the message begins), ``file`` (a file of a base backup:
        name, and its size in oid).
    oid, namespace, name, replica_identity: of a relation; encoding: Python's name of the codec that
        text values are in; version: 1 for the first description of an OID on a connection, 2 for the
        next, ... types: (OID, name) of the user's types among the columns, as Type messages told.
    """

    kind: str
    columns: tuple[Column, ...] = ()
    oid: int = 0
    namespace: str = ""
    name: str = ""
    replica_identity: str = ""
    encoding: str = "utf-8"
    version: int = 0
    members: tuple[int, ...] = ()
    types: tuple[tuple[int, str], ...] = ()
    copy: CopyState | None = None

    @property
    def full_name(self) -> str:
        """``schema.table``; the empty namespace on the wire stands for pg_catalog."""
        return f"{self.namespace or 'pg_catalog'}.{self.name}" if self.name else ""


T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """An append-only list of distinct hashable things, each known by its number from 0. numbers: those
    that were given."""

    def __init__(self, first: T) -> None:
        self.items: list[T] = [first]
        self.numbers: dict[T, int] = {first: 0}

    def __getitem__(self, number: int) -> T:
        return self.items[number]

    def __len__(self) -> int:
        return len(self.items)

    def number(self, thing: T) -> int:
        """The number of `thing`, new where it was not seen before."""
        known = self.numbers.get(thing)
        if known is None:
            known = self.numbers[thing] = len(self.items)
            self.items.append(thing)
        return known

    def extend(self, things: list[T]) -> None:
        """Append what another process interned, in its order."""
        for thing in things:
            self.numbers.setdefault(thing, len(self.items))
            self.items.append(thing)


Path = tuple[str, ...]


@dataclass(slots=True)
class Tables:
    """The tables that index rows point into. Number 0 is "none" in paths and schemas."""

    paths: Interned[Path] = field(default_factory=lambda: Interned(()))
    dialects: Interned[Dialect] = field(default_factory=lambda: Interned(Dialect()))
    schemas: Interned[Schema] = field(default_factory=lambda: Interned(Schema("")))

    def lengths(self) -> tuple[int, int, int]:
        """How many entries each table has: where the next batch's new entries begin."""
        return len(self.paths), len(self.dialects), len(self.schemas)

    def since(
        self, lengths: tuple[int, int, int]
    ) -> tuple[list[Path], list[Dialect], list[Schema]]:
        """The entries that came after `lengths` was taken."""
        p, d, s = lengths
        return self.paths.items[p:], self.dialects.items[d:], self.schemas.items[s:]

    def extend(self, news: tuple[list[Path], list[Dialect], list[Schema]]) -> None:
        """Take over what `since` gave in another process."""
        paths, dialects, schemas = news
        self.paths.extend(paths)
        self.dialects.extend(dialects)
        self.schemas.extend(schemas)
