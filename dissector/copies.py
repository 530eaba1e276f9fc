"""What a connection's COPY operations carry, and how far each has come.

CopyData means nothing by itself: what it holds follows from the command that began the copy. A mode (as
in `Dialect.copy`) stands for each direction; row formats and archives are followed through the
messages so that each can say where in them it begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import wal
from .annotate import annotate
from .archives import Entry, TarReader
from .commands import Command
from .copying import END, CopyState, command_state, scan
from .node import Node, findings, messages
from .schemas import Schema, Tables
from .spec import Dialect

MOST_STATES = 50_000
"""Different states of one connection's rows that are kept: a client that cuts rows at random makes
many, and each costs memory."""

WAL_LEAST, WAL_AHEAD = 24, 1 << 40
"""Bytes of WAL that a guess needs, and how far a server can be ahead of a standby that keeps up."""

CENTURY = 100 * 366 * 86_400 * 1_000_000
"""Microseconds."""

NEWLINE, BACKSLASH = 10, 92
EMPTY = 5
"""Bytes of a CopyData without data."""

Array = NDArray[Any]

PACKED = (".gz", ".lz4", ".zst")
"""Endings of archives that the server compressed."""


class Copies:
    """Modes by direction ("F", "B"), and the state of what is copied."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.mode = {"F": "", "B": ""}
        self._rows: dict[str, CopyState | None] = {"F": None, "B": None}
        self._numbers: dict[CopyState, int] = {}
        self._tar: TarReader | None = None
        self._archive = ""
        self.broken = False

    def clear(self) -> None:
        """No copy is going on, but for what the client still sends of a failed one."""
        if not (self.mode["F"] or self.mode["B"]):
            return
        self._end("B")
        if not self.broken:
            self._end("F")

    def failed(self) -> None:
        """The server broke off: what the client sends until it knows still belongs to the copy."""
        self.broken = bool(self.mode["F"])
        self._end("B")

    def over(self) -> None:
        """The client has begun something else."""
        if self.broken:
            self.broken = False
            self._end("F")

    def _end(self, direction: str) -> None:
        if self.mode[direction]:
            self.mode[direction] = ""
            self._rows[direction] = None
            if direction == "B":
                self._tar = None

    def begin(
        self, direction: str, command: Command | None, sql: str, binary: bool, old: bool
    ) -> None:
        """CopyInResponse ("F") or CopyOutResponse ("B") came. old: the server is before release 15."""
        self.broken = False
        name = command.name if command is not None else ""
        if direction == "F" and name == "UPLOAD_MANIFEST":
            self.mode["F"] = "manifest"
        elif direction == "B" and name == "BASE_BACKUP":
            self.mode["B"] = "tar" if old else "backup"
            self._tar = TarReader()
            self._archive = ""
        else:
            self.mode[direction] = "rows-binary" if binary else "rows"
            self._rows[direction] = command_state(sql, binary)

    def lane(self, direction: str) -> tuple[str, int]:
        """("copy", schema number) where messages of `direction` may be alike and change nothing."""
        mode, state = self.mode[direction], self._rows[direction]
        if mode == "manifest":
            return "copy", 0
        if state is None or not _at_row(state) or (direction == "F" and state.form == "binary"):
            return "", 0
        return "copy", self._number(state)

    def steady(self, direction: str, data: bytes, begins: Array, ends: Array) -> int:
        """How many of the messages ``data[begins[i]:ends[i]]``, from the first on, hold whole rows, or
        nothing. A server sends one row a message, and what ends binary ones; what a client sends is looked
        at."""
        state = self._rows[direction]
        if state is None or (direction == "B" and state.form != "binary"):
            return len(ends)
        raw = np.frombuffer(data, np.uint8)
        if direction == "B":
            at = np.flatnonzero(ends - begins[: len(ends)] >= EMPTY + 2)
            inside = begins[at] + EMPTY
            over = at[(raw[inside] == END[0]) & (raw[inside + 1] == END[1])]
            return int(over[0]) if len(over) else len(ends)
        whole = raw[ends - 1] == NEWLINE
        count = len(ends)
        if state.form == "text":
            whole &= raw[ends - 2] != BACKSLASH
        else:
            first = data.find(state.quote, int(begins[0]), int(ends[-1]))
            if first >= 0:
                count = int(np.searchsorted(ends, first, side="right"))
        whole |= ends - begins[: len(ends)] <= EMPTY  # what holds nothing changes nothing
        cut = np.flatnonzero(~whole)
        return min(count, int(cut[0])) if len(cut) else count

    def data(self, direction: str, data: bytes, tree: Node) -> int:
        """A CopyData that holds no replication message; returns the schema number of its row."""
        node = tree.child("data")
        if node is None:
            return 0
        mode, state = self.mode[direction], self._rows[direction]
        if mode == "tar":
            return self._file(data[node.start : node.end])
        if state is None:
            return 0
        number = self._number(state)
        over = state.form == "binary" and data.startswith(END, node.start)
        if direction == "F" or not _at_row(state) or over:  # a server sends a row in one message
            _, self._rows[direction] = scan(state, data, node.start, node.end)
        return number

    def backup(self, tree: Node) -> int:
        """A CopyData of a base backup of 15 or later; returns the schema number of its row."""
        inner = messages(tree)[-1]
        kind = getattr(inner.declaration, "name", "")
        if kind == "new archive":
            name = inner.child("archive_name")
            raw = name.value if name is not None and isinstance(name.value, bytes) else b""
            self._archive = raw.decode("utf-8", "replace")
            packed = self._archive.endswith(PACKED)
            self._tar = None if packed else TarReader()
        elif kind == "manifest":
            self._tar = None
        elif kind == "archive or manifest data":
            node = inner.child("data")
            if node is not None and isinstance(node.value, bytes):
                return self._file(node.value)
        return 0

    def is_tar(self) -> None:
        """The backup whose first CopyData came now has raw archives: the server is before release 15."""
        self.mode["B"] = "tar"

    def at_beginning(self) -> bool:
        """Whether no archive of the backup was named yet."""
        return not self._archive

    def _file(self, data: bytes) -> int:
        if self._tar is None or self._tar.lost:
            return 0
        begun = self._tar.feed(data)
        entry: Entry | None = begun[-1] if begun else self._tar.current
        if entry is None or self._tar.lost:
            return 0
        schema = Schema("file", name=entry.name, namespace=self._archive, oid=entry.size)
        return self.tables.schemas.number(schema)

    def _number(self, state: CopyState) -> int:
        known = self._numbers.get(state)
        if known is None:
            if len(self._numbers) >= MOST_STATES:
                return 0
            known = self.tables.schemas.number(Schema("copy", copy=state))
            self._numbers[state] = known
        return known


def _at_row(state: CopyState) -> bool:
    if state.form == "binary":
        return (state.stage, state.left) == ("column_count", 2)
    return not (state.column or state.inside or state.escaped)


def guess_copy(direction: str, data: bytes) -> str:
    """What CopyData seems to hold where its beginning was not seen; "" when nothing fits well."""
    layer = "frontend" if direction == "F" else "backend"
    outside = Dialect(copy="pgoutput", proto_version=4)  # the newest reads most
    for dialect in (outside, replace(outside, in_stream=True)):
        tree = annotate(data, layer, dialect)
        if len(messages(tree)) >= 2 and not findings(tree):
            return "pgoutput"
    return "wal" if direction == "B" and _is_wal(annotate(data, layer, outside), data) else ""


def _is_wal(tree: Node, data: bytes) -> bool:
    """Whether XLogData holds raw WAL: its end runs ahead of what it carries, as only physical streaming
    sends it, its time is one of this century, and its page headers are where they belong."""
    chain = messages(tree)
    inner = chain[1] if len(chain) > 1 else tree
    numbers = [inner.child(name) for name in ("start_lsn", "end_lsn", "send_time")]
    held = inner.child("data")
    if held is None or held.length < WAL_LEAST or not all(n is not None for n in numbers):
        return False
    start, end, time = (n.value for n in numbers if n is not None)
    if not all(isinstance(value, int) for value in (start, end, time)):
        return False
    sane = 0 < start < start + held.length <= end < start + held.length + WAL_AHEAD
    return sane and 0 < time < CENTURY and not wal.check(start, data, held.start, held.end)
