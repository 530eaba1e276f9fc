"""The filter language: against a small capture made by hand, row by row, whose content is known."""

from __future__ import annotations

import gzip
import json
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dissector import catalogue, query
from dissector.annotate import annotate
from dissector.findings import Finding, finding
from dissector.node import Node
from dissector.query import QueryError, complete
from dissector.query.values import IntSet, Literal, pattern
from dissector.rows import COLUMNS, NO_LSN, Rows
from dissector.schemas import Column, Schema, Tables
from dissector.spec import Dialect

# --- a capture of twelve messages ------------------------------------------------------------------

DAY = 1_795_910_400 * 10**9
"""2026-11-29 00:00:00 UTC in ns: 20786 days after 1970-01-01."""

SECOND = 10**9


def clock(hour: int, minute: int, second: int = 0, ns: int = 0) -> int:
    return DAY + ((hour * 60 + minute) * 60 + second) * SECOND + ns


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def t(value: str) -> bytes:
    return b"t" + struct.pack(">I", len(value.encode())) + value.encode()


def row(*columns: bytes) -> bytes:
    return struct.pack(">H", len(columns)) + b"".join(columns)


def frame(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack(">I", len(body) + 4) + body


def wal(inner: bytes, lsn: int = 0) -> bytes:
    return frame(b"d", b"w" + struct.pack(">QQq", lsn, lsn, 0) + inner)


USERS = Schema(
    "relation",
    (Column("id", 23), Column("email", 1043, 44), Column("note", 25)),
    oid=16391,
    namespace="public",
    name="users",
    replica_identity="d",
)
ORDERS = Schema(
    "relation", (Column("id", 23), Column("email", 25)), oid=16400, namespace="app", name="orders"
)
PG_2000 = (10_957 * 86_400) * SECOND
"""2000-01-01 in ns since 1970: 10,957 days."""


def pg_time(instant: int) -> bytes:
    return struct.pack(">q", (instant - PG_2000) // 1000)


@dataclass
class Line:
    """One message of the capture."""

    path: tuple[str, ...]
    data: bytes
    time: int
    stream: int = 0
    direction: str = "B"
    lsn: int = NO_LSN
    xid: int = 0
    relation: int = 0
    severity: int = 0
    flags: int = 0
    found: tuple[Finding, ...] = ()


X = ("CopyData", "XLogData")
RELATION = (
    b"R" + struct.pack(">I", 16391) + text("public") + text("users") + b"d" + struct.pack(">H", 3)
)
for _name, _flag, _oid, _mod in (("id", 1, 23, -1), ("email", 0, 1043, 44), ("note", 0, 25, -1)):
    RELATION += bytes([_flag]) + text(_name) + struct.pack(">Ii", _oid, _mod)

LINES = (
    Line(("Query",), frame(b"Q", text("select 1")), clock(11, 59, 59), direction="F"),  # 1
    Line(  # 2
        (*X, "Begin"),
        wal(b"B" + struct.pack(">Q", 0x1A2B9C) + pg_time(clock(12, 0, 2)) + struct.pack(">I", 771)),
        clock(12, 0, 3),
        lsn=0x1A2B3C,
        xid=771,
    ),
    Line((*X, "Relation"), wal(RELATION), clock(12, 0, 3, 1), lsn=0, xid=771, relation=1),  # 3
    Line(  # 4
        (*X, "Insert"),
        wal(b"I" + struct.pack(">I", 16391) + b"N" + row(t("1"), t("ann@example.org"), b"n")),
        clock(12, 0, 4),
        lsn=0x1A2B40,
        xid=771,
        relation=1,
    ),
    Line(  # 5
        (*X, "Update"),
        wal(
            b"U"
            + struct.pack(">I", 16391)
            + b"K"
            + row(t("1"), b"n", b"n")
            + b"N"
            + row(t("200"), t("bob"), b"u")
        ),
        clock(12, 0, 5),
        lsn=0x1A2B50,
        xid=771,
        relation=1,
    ),
    Line(  # 6: public.users and app.orders, CASCADE
        (*X, "Truncate"),
        wal(b"T" + struct.pack(">IBII", 2, 1, 16391, 16400)),
        clock(12, 0, 6),
        lsn=0x1A2B60,
        xid=771,
        relation=3,
    ),
    Line(  # 7
        ("CopyData", "Primary keepalive message"),
        frame(b"d", b"k" + struct.pack(">Qq", 0x200000000, 0) + b"\1"),
        clock(12, 0, 7),
        stream=1,
        lsn=0x200000000,
        severity=1,
        flags=1,
        found=(finding("time-unset", 14),),
    ),
    Line(  # 8: the next day
        (*X, "Stream Abort"),
        wal(b"A" + struct.pack(">II", 780, 781)),
        DAY + 86_400 * SECOND + 600 * SECOND,
        stream=1,
        lsn=0x1A2B70,
        xid=780,
        severity=2,
        flags=1,
    ),
    Line(  # 9: the next day, cut inside the second column
        (*X, "Insert"),
        wal(b"I" + struct.pack(">I", 16400) + b"N" + row(t("7"), t("example"))[:-3]),
        DAY + 86_400 * SECOND + 601 * SECOND,
        stream=1,
        lsn=0x1A2B80,
        xid=780,
        relation=2,
        severity=3,
        found=(finding("cut-short", 50, name="value", need=7, left=4),),
    ),
    Line(  # 10
        (*X, "Begin Prepare"),
        wal(b"b" + struct.pack(">QQqI", 0x1A2B90, 0x1A2B98, 0, 790) + text("batch-7")),
        DAY + 86_400 * SECOND + 602 * SECOND,
        stream=1,
        lsn=0x1A2B90,
        xid=790,
    ),
    Line(  # 11: release 19
        ("CopyData", "WALData", "Message"),
        wal(
            b"M"
            + struct.pack(">BQ", 1, 0x1A2BA0)
            + text("app")
            + struct.pack(">I", 2)
            + b"\xca\xfe"
        ),
        DAY + 86_400 * SECOND + 603 * SECOND,
        stream=1,
        lsn=0x1A2BA0,
        xid=790,
    ),
    Line(  # 12
        ("DataRow",),
        frame(b"D", struct.pack(">H", 2) + struct.pack(">I", 2) + b"42" + b"\xff\xff\xff\xff"),
        DAY + 86_400 * SECOND + 604 * SECOND,
        relation=4,
    ),
)


@dataclass
class Connection:
    frontend: str
    backend: str


@dataclass
class Index:
    rows: Rows = field(default_factory=Rows)
    tables: Tables = field(default_factory=Tables)
    connections: dict[int, Connection] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Number:
    number: int


@dataclass
class View:
    row: Number
    tree: Node
    found: tuple[Finding, ...]
    schema: Schema


def make_index() -> Index:
    index = Index()
    schemas = index.tables.schemas
    assert [schemas.number(s) for s in (USERS, ORDERS)] == [1, 2]
    assert schemas.number(Schema("relations", members=(1, 2))) == 3
    answer = Schema("row", (Column("answer", 23), Column("email", 25)))
    assert schemas.number(answer) == 4
    columns: dict[str, list[int]] = {name: [] for name, _ in COLUMNS}
    for number, line in enumerate(LINES, start=1):
        values = {
            "frame": number * 10,
            "time": line.time,
            "stream": line.stream,
            "direction": "FB".index(line.direction),
            "offset": 0,
            "length": len(line.data),
            "path": index.tables.paths.number(line.path),
            "lsn": line.lsn,
            "xid": line.xid,
            "relation": line.relation,
            "dialect": 0,
            "severity": line.severity,
            "flags": line.flags,
        }
        for name, value in values.items():
            columns[name].append(value)
    index.rows.extend({name: np.array(columns[name], dtype) for name, dtype in COLUMNS})
    index.connections = {
        0: Connection("10.0.0.1:40000", "10.0.0.2:5432"),
        1: Connection("[::1]:50000", "[::1]:5433"),
    }
    return index


INDEX = make_index()


def open_message(number: int) -> View:
    line = LINES[number - 1]
    release = 19 if "WALData" in line.path else 18
    layer = "frontend" if line.direction == "F" else "backend"
    tree = annotate(line.data, layer, Dialect(release=release, proto_version=3, copy="pgoutput"))
    return View(Number(number), tree, line.found, INDEX.tables.schemas[line.relation])


def select(text: str) -> list[int]:
    """Numbers of the messages that pass, found in all ways, which must agree."""
    chosen = query.compile(text)
    rows = [int(r) + 1 for step in chosen.search(INDEX, open_message) for r in step.rows]
    tested = [n for n in range(1, len(LINES) + 1) if chosen.test(open_message(n), INDEX)]
    assert rows == tested
    mask = (np.flatnonzero(chosen.mask(INDEX)) + 1).tolist()
    if chosen.columns_only:
        assert mask == rows
    else:
        assert set(mask) >= set(rows)
    return rows


ALL = list(range(1, 13))


def without(*numbers: int) -> list[int]:
    return [n for n in ALL if n not in numbers]


def test_the_capture_is_what_it_says() -> None:
    for number, line in enumerate(LINES, start=1):
        names = [m.name for m in annotate_chain(open_message(number).tree)]
        assert tuple(names) == line.path
    assert clock(0, 0) == int(np.datetime64("2026-11-29", "ns").astype(np.int64))


def annotate_chain(tree: Node) -> list[Node]:
    from dissector.node import messages

    return messages(tree)


# --- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ALL),
        ("   ", ALL),
        ('message == Insert and relation == "public.users"', [4]),
        ("Insert", [4, 9]),
        ("insert", [4, 9]),
        ('"Stream Abort"', [8]),
        ("streamabort || STREAM_ABORT", [8]),
        ('message in {Insert, "stream abort"}', [4, 8, 9]),
        ("message == CopyData", without(1, 12)),
        ("message != CopyData", [1, 12]),
        ("message matches '^(Begin|Commit)'", [2, 10]),
        # one message under the names of two releases
        ("XLogData", [2, 3, 4, 5, 6, 8, 9, 10, 11]),
        ("message == WALData", [2, 3, 4, 5, 6, 8, 9, 10, 11]),
        ("path == CopyData.XLogData.Insert", [4, 9]),
        ('path contains "keepalive"', [7]),
        # Message is a message of pgoutput, relation a column, Relation a message
        ("Message", [11]),
        ("message", [11]),
        ("relation", [3, 4, 5, 6, 9]),
        ("Relation", [3]),
        ("xid == 771", [2, 3, 4, 5, 6]),
        ("xid = 771", [2, 3, 4, 5, 6]),
        ("xid in {771, 785..790}", [2, 3, 4, 5, 6, 10, 11]),
        ("xid in (780)", [8, 9]),
        ("lsn >= 0/1A2B70", [7, 8, 9, 10, 11]),
        ("lsn > 0/1A2B70 and lsn <= 2/0", [7, 9, 10, 11]),
        ("lsn == 2/00000000", [7]),
        ("lsn == 0/0", [3]),
        ("lsn in {0/1A2B40..0/1a2b60}", [4, 5, 6]),
        ("stream == 1 and direction == B", [7, 8, 9, 10, 11]),
        ("direction == F", [1]),
        ("direction != frontend", without(1)),
        ("number in {1..3, 12}", [1, 2, 3, 12]),
        ("frame > 110", [12]),
        ("length > 4294967296", []),
        ("length < 99999999999999999999999", ALL),
        ("stream >= -5", ALL),
        ("stream == -1", []),
        ("severity >= warning", [8, 9]),
        ("severity", [7, 8, 9]),
        ("finding", [7, 8, 9]),
        ("severity != error", [7, 8]),
        ("severity in {note..warning}", [7, 8]),
        ("assumed", [7, 8]),
        ("assumed == false", without(7, 8)),
        ("not assumed", without(7, 8)),
        ("relation == users", [3, 4, 5, 6]),
        ("relation == app.orders", [6, 9]),
        ("relation != public.users", [9]),
        ('relation matches "^app\\."', [6, 9]),
        ('relation contains "USERS"', []),
        ('relation ~* "USERS"', [3, 4, 5, 6]),
        ("source == 10.0.0.1", [1]),
        ("source == 10.0.0.2:5432", [2, 3, 4, 5, 6, 12]),
        ("destination == '::1'", [7, 8, 9, 10, 11]),
        ("destination == [::1]:50000", [7, 8, 9, 10, 11]),
        ("port == 40000", [1, 2, 3, 4, 5, 6, 12]),
        ("port != 5432", [7, 8, 9, 10, 11]),
        ("port in {5433, 5434}", [7, 8, 9, 10, 11]),
    ],
)
def test_columns(text: str, numbers: list[int]) -> None:
    assert query.compile(text).columns_only
    assert select(text) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        # message 2 is at 12:00:03 exactly, message 3 one nanosecond later
        ("time > 12:00:03", [3, 4, 5, 6, 7]),
        ("time == 12:00:03", [2]),
        ("time > 12:00:03.000000000", [3, 4, 5, 6, 7]),
        ("time >= 12:00:03.000000001 and time < 12:00:04", [3]),
        ("time >= 2026-11-29T12:00:07Z", without(1, 2, 3, 4, 5, 6)),
        ("time >= 2026-11-29 12:00:07 UTC", without(1, 2, 3, 4, 5, 6)),
        ("time >= 2026-11-29T14:00:07+02:00", without(1, 2, 3, 4, 5, 6)),
        ("time < 2026-11-29T06:30:00-05:30", [1]),
        ("time >= 2026-11-30", [8, 9, 10, 11, 12]),
        # a time of day is meant on both days
        ("time < 11:00", [8, 9, 10, 11, 12]),
        ("time in {12:00:05..12:00:06}", [5, 6]),
        ("time in {23:00..00:10:01}", [8, 9]),
        ("time in {2026-11-29T12:00:04..2026-11-29T12:00:05}", [4, 5]),
        ("not time in {11:00..13:00}", [8, 9, 10, 11, 12]),
    ],
)
def test_times(text: str, numbers: list[int]) -> None:
    assert select(text) == numbers


def test_comparing_what_is_not_there_is_false() -> None:
    has_xid = [2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert select("xid") == has_xid
    assert select("xid != 5") == has_xid
    assert select("xid < 5") == select("xid in {0..5}") == []
    assert select("xid < 5 or xid >= 5") == has_xid
    assert select("not (xid == 5)") == select("!(xid == 5)") == ALL
    assert select("not xid") == [1, 7, 12]
    assert select("lsn < 0/1") == [3]
    assert select("not lsn") == [1, 12]
    assert select("severity < error") == [7, 8]
    assert select("not relation == public.users") == without(3, 4, 5, 6)


def test_logic() -> None:
    assert select("xid == 771 or xid == 780 and severity == error") == [2, 3, 4, 5, 6, 9]
    assert select("(xid == 771 or xid == 780) and severity == error") == [9]
    assert select("not xid == 771 and lsn") == [7, 8, 9, 10, 11]
    assert select("NOT not Insert AND XID EQ 780") == [9]
    assert select("xid not in {771} && relation") == [9]
    assert select("!Insert&&relation") == [3, 5, 6]


KNOWN: list[tuple[str, set[int]]] = [
    ("xid == 771", {2, 3, 4, 5, 6}),
    ("severity", {7, 8, 9}),
    ("direction == F", {1}),
    ("relation == orders", {6, 9}),
    ("relation_oid == 16391", {3, 4, 5, 6}),
    ("gid", {10}),
    ("finding == cut-short", {9}),
    ("state == null", {4, 12}),
    ("time < 11:00", {8, 9, 10, 11, 12}),
    ("XLogData.start_lsn == 0/0", {2, 3, 4, 5, 6, 8, 9, 10, 11}),
]
"""Conditions whose answers are known from the capture; at most one speaks of a row's columns."""


def some_filter(dice: random.Random, depth: int) -> tuple[str, set[int]]:
    kind = dice.random()
    if depth == 0 or kind < 0.2:
        return dice.choice(KNOWN)
    left, those = some_filter(dice, depth - 1)
    if kind < 0.4:
        return f"not ({left})", set(ALL) - those
    right, these = some_filter(dice, depth - 1)
    if kind < 0.7:
        return f"({left}) and ({right})", those & these
    return f"({left} or {right})", those | these


def test_any_combination_is_set_algebra() -> None:
    dice = random.Random(6)
    for _ in range(150):
        text, numbers = some_filter(dice, 4)
        # two conditions on a row's columns would speak of one column, also if they are the same
        if text.count("state") < 2:
            assert select(text) == sorted(numbers), text


def test_mask_takes_a_stretch_and_a_growing_index() -> None:
    index = Index()
    index.tables = INDEX.tables
    index.connections = INDEX.connections
    chosen = query.compile("Insert or xid == 771 and not relation")
    assert chosen.mask(index).tolist() == []
    columns = {name: INDEX.rows.column(name) for name, _ in COLUMNS}
    index.rows.extend({name: values[:5] for name, values in columns.items()})
    assert chosen.mask(index).tolist() == [False, True, False, True, False]
    index.rows.extend({name: values[5:] for name, values in columns.items()})
    assert chosen.mask(index, 3, 5).tolist() == [True, False]
    assert chosen.mask(index, 8).tolist() == [True, False, False, False]
    assert chosen.mask(index, 40, 50).tolist() == []
    number = query.compile("number == 9")
    assert number.mask(index, 8, 9).tolist() == [True]


def test_tables_may_grow_between_two_masks() -> None:
    index = make_index()
    chosen = query.compile("relation == app.late")
    assert not chosen.mask(index).any()
    late = index.tables.schemas.number(Schema("relation", namespace="app", name="late"))
    one = {name: INDEX.rows.column(name)[:1].copy() for name, _ in COLUMNS}
    one["relation"][0] = late
    index.rows.extend(one)
    assert np.flatnonzero(chosen.mask(index)).tolist() == [12]


# --- fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("insert.relation_oid == 16391", [4]),
        ("relation_oid == 16391", [3, 4, 5, 6]),
        # a Truncate has several: any may be equal, all must differ
        ("truncate.relation_oid == 16400", [6]),
        ("relation_oid != 16391", [9]),
        ("relation_oid in {16392..16400}", [6, 9]),
        ("Relation.columns.name == note", [3]),
        ("Relation.columns[2].name == note", [3]),
        ("Relation.columns[1].name == note", []),
        ("columns.type_modifier == 44", [3]),
        ("type_modifier == -1", [3]),
        ("CopyData.XLogData.Relation.columns.name", [3]),
        ("replica_identity == d", [3]),
        ("replica_identity == default", [3]),
        ("gid", [10]),
        ('gid matches "^batch-[0-9]+$"', [10]),
        ("gid != 'batch-8'", [10]),
        ("not gid == 'batch-7'", without(10)),
        ("final_lsn == 0/1A2B9C", [2]),
        ("final_lsn > 0/1A2B9C", []),
        ("commit_time == 2026-11-29T12:00:02", [2]),
        ("commit_time > 12:00:01 and commit_time < 12:00:03", [2]),
        ("begin.xid == 771", [2]),
        ("StreamAbort.subxid == 781", [8]),
        ("stream_abort.xid == 780", [8]),
        ("reply_requested == true", [7]),
        ("Truncate.options == 1", [6]),
        ("Truncate.options contains CASCADE", [6]),
        ("Truncate.options contains 2", []),
        ("query contains 'select'", [1]),
        ("Query.query > 'r' and query < 't'", [1]),
        ("content == 0xcafe", [11]),
        ("content contains 0xfe", [11]),
        ("content contains 0xfd", []),
        ("prefix == app", [11]),
        ("XLogData.start_lsn == 0/0", [2, 3, 4, 5, 6, 8, 9, 10, 11]),
        ("WALData.start_lsn", [2, 3, 4, 5, 6, 8, 9, 10, 11]),
        ("DataRow.columns.length == -1", [12]),
        ("insert.new.columns.value contains example", [4]),
        ("Insert.value contains example", [4]),
        ("insert.value contains exam and stream == 1", [9]),
        ("new.column_count == 2", [9]),
        ("TupleData.column_count == 3", [4, 5]),
        ("update.old", [5]),
        ("Update.key_tag == K", [5]),
        ("Update.old_tag", []),
        ("finding == cut-short", [9]),
        ("finding != cut-short", [7]),
        ("finding in {time-unset, stream-gap}", [7]),
        ('finding contains "short"', [9]),
        ("not finding == cut-short", without(9)),
    ],
)
def test_fields(text: str, numbers: list[int]) -> None:
    assert not query.compile(text).columns_only
    assert select(text) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('column.name == "email" and value contains "example"', [4]),
        ('value contains "example" && column.name == "email"', [4]),
        # note's value never contains it, email's does: one column is meant
        ('column.name == "note" and value contains "example"', []),
        ("value == 1", [4, 5]),
        ("value == 1.0", [4, 5]),
        ('value == "1.0"', []),
        ("value > 100", [5]),
        ("value > 3 and value < 100", [9, 12]),
        ("value in {5..8}", [9]),
        ("column.name == id and value in {199..201}", [5]),
        ("state == null", [4, 12]),
        ('state == "not sent"', [5]),
        ("state == notsent and column.name == id", []),
        ("state == unchanged", [5]),
        ("column.name == email and not state == text", [5, 12]),
        ("not (column.name == note)", without(4, 5)),
        ("not column.name == note and Update", []),
        ("column.name == email and (value == bob or value contains '@')", [4, 5]),
        # two columns, each in its own parenthesis
        (
            "(column.name == id and value == 1) and (column.name == email and value contains ann)",
            [4],
        ),
        ("column.name == id and column.name == email", []),
        ("relation == users and column.name == email and value", [4, 5]),
        ("column.name == answer and value == 42", [12]),
        ("value matches '^b.b$' or state == null", [4, 5, 12]),
        ("column.name == email and value contains example and xid == 780", []),
        ("not not value == bob", [5]),
    ],
)
def test_columns_of_rows(text: str, numbers: list[int]) -> None:
    assert select(text) == numbers


def test_types_of_columns() -> None:
    pytest.importorskip("dissector.values")
    assert select("column.type == 'character varying(40)'") == [4, 5]
    assert select("column.type == 'character varying'") == [4, 5]
    assert select("column.type == integer and value == 7") == [9]


def test_columns_decide_before_messages_are_opened() -> None:
    opened: list[int] = []

    def opening(number: int) -> View:
        opened.append(number)
        return open_message(number)

    def run(text: str) -> list[int]:
        opened.clear()
        steps = list(query.compile(text).search(INDEX, opening))
        assert steps[-1].done == steps[-1].total == len(LINES)
        assert steps[-1].opened == len(opened)
        return [int(r) + 1 for step in steps for r in step.rows]

    assert run("xid == 771 and relation_oid == 16391") == [3, 4, 5, 6]
    assert opened == [3, 4, 5, 6]  # Begin has no such field
    assert run("gid == nothing") == []
    assert opened == [10]
    assert run("xid == 771 or gid == 'batch-7'") == [2, 3, 4, 5, 6, 10]
    assert opened == [10]  # what the columns accept is not opened
    assert run("not (xid == 771 or not gid)") == [10]
    assert opened == [10]
    assert run("finding == cut-short") == [9]
    assert opened == [7, 8, 9]
    assert run("value contains example and stream == 0") == [4]
    assert opened == [4, 5, 12]
    assert run("Insert or xid == 780") == [4, 8, 9]
    assert opened == []


def test_numbers_of_a_capture() -> None:
    capture = SimpleNamespace(index=INDEX, message=open_message)
    assert list(query.matching(capture, "relation_oid == 16391 or xid == 780")) == [
        3,
        4,
        5,
        6,
        8,
        9,
    ]
    with pytest.raises(QueryError):
        query.matching(capture, "xid ==")


def test_a_search_can_be_left() -> None:
    opened: list[int] = []

    def opening(number: int) -> View:
        opened.append(number)
        return open_message(number)

    steps = query.compile("relation_oid > 0").search(INDEX, opening)
    assert opened == []
    steps.close()
    assert opened == []
    stretch = list(query.compile("relation_oid > 0").search(INDEX, opening, 4, 6))
    assert opened == [5, 6]
    assert [r for step in stretch for r in step.rows.tolist()] == [4, 5]
    assert [step.total for step in stretch] == [2]
    assert [s.done for s in query.compile("Insert").search(INDEX, opening, 3, 3)] == [0]


def test_messages_that_a_server_sent() -> None:
    """What the server's own decoding function returned, and the recorder's count by message."""
    folder = Path(__file__).parent.parent / "captures"
    with gzip.open(folder / "pg18-proto1.truth.jsonl.gz", "rt") as lines:
        sent = [bytes.fromhex(json.loads(line)["data"]) for line in lines]
    counts = json.loads((folder / "pg18-proto1.json").read_text())["messages"]
    names = {m.tag: m.name for m in catalogue.in_layer("pgoutput")}
    index = Index()
    paths = [index.tables.paths.number((*X, names[chr(data[0])])) for data in sent]
    index.rows.extend(
        {name: np.array(paths if name == "path" else [0] * len(sent), d) for name, d in COLUMNS}
    )

    def opening(number: int) -> View:
        tree = annotate(wal(sent[number - 1]), "backend", Dialect(proto_version=1, copy="pgoutput"))
        return View(Number(number), tree, (), Schema(""))

    def found(text: str) -> list[int]:
        steps = query.compile(text).search(index, opening)
        return [place for step in steps for place in step.rows.tolist()]

    for name, count in counts.items():
        assert len(found(f'message == "{name}"')) == count
    oids = {data[1:5] for data in sent if data[:1] == b"I"}
    assert len(oids) > 3
    for oid in oids:
        wanted = [i for i, data in enumerate(sent) if data[:1] == b"I" and data[1:5] == oid]
        assert found(f"insert.relation_oid == {int.from_bytes(oid)}") == wanted
    begins = [(i, data) for i, data in enumerate(sent) if data[:1] == b"B"]
    middle = struct.unpack(">QqI", begins[len(begins) // 2][1][1:])
    lsn = f"{middle[0] >> 32:X}/{middle[0] & 0xFFFFFFFF:X}"
    later = [i for i, data in begins if struct.unpack(">Q", data[1:9])[0] > middle[0]]
    assert later and found(f"final_lsn > {lsn}") == later
    assert found(f"Begin.xid == {middle[2]}") == [begins[len(begins) // 2][0]]
    keys = [i for i, data in enumerate(sent) if data[:1] in b"UD" and data[5:6] == b"K"]
    assert keys and found("key_tag") == keys


# --- every name ------------------------------------------------------------------------------------


def declared(parts: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Paths of all fields below `parts`, walked anew here."""
    found = []
    for part in parts:
        if hasattr(part, "options"):
            found += [(*path, option.name) for option in part.options]
        elif hasattr(part, "kind"):
            found.append((*path, part.name))
            if part.kind.part:
                found += declared(catalogue.part(part.kind.part).parts, (*path, part.name))
        else:
            inner = path if hasattr(part, "condition") else (*path, part.name)
            found += declared(part.parts, inner)
    return found


def test_every_field_of_the_catalogue_is_a_name() -> None:
    count = 0
    for message in catalogue.MESSAGES:
        name = "".join(message.name.split())
        for path in declared(message.parts, ()):
            assert query.compile(f"{name}.{'.'.join(path)}").text
            assert query.compile(path[-1]).text
            count += 1
    assert count > 300


def test_every_message_is_a_name() -> None:
    for message in catalogue.MESSAGES:
        if message.layer != "part":
            for spelling in (message.name, message.name.upper(), "".join(message.name.split())):
                assert query.compile(f'message == "{spelling}"').columns_only
                assert query.compile(f'"{spelling}"').columns_only


def test_other_declarations_give_other_names() -> None:
    only = [m for m in catalogue.MESSAGES if m.name in ("Begin", "Insert", "TupleData")]
    assert query.compile("final_lsn", only).text
    with pytest.raises(QueryError):
        query.compile("gid", only)


# --- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "message", "suggestion"),
    [
        ("xdi == 5", 0, "xdi", "xid"),
        ("xid == 5 and relatoin == a", 13, "relatoin", "relation"),
        ("message == Insrt", 11, "Insrt", "Insert"),
        ("message in {Insert, Updte}", 20, "Updte", "Update"),
        ('"Strem Abort"', 0, "Strem Abort", "Stream Abort"),
        ("Stream Abort", 7, "quotes", '"Stream Abort"'),
        ("message == Stream Abort", 18, "quotes", '"Stream Abort"'),
        ("insert.relaton_oid == 1", 0, "insert.relaton_oid", "Insert.relation_oid"),
        ("commit_lns > 0/0", 0, "commit_lns", "commit_lsn"),
        ("xid == abc", 7, "abc", "771"),
        ("xid == 1.5", 7, "1.5", "771"),
        ("lsn > 12", 6, "12", "0/1A2B3C4"),
        ("lsn > 0/123456789", 6, "LSN", "0/1A2B3C4"),
        ("final_lsn == x", 13, "x", "0/1A2B3C4"),
        ("time > noon", 7, "noon", "12:00:03"),
        ("time > 24:00", 7, "24:00", "23:59"),
        ("time > 2026-02-30", 7, "2026-02-30", ""),
        ("time > 12:00:03.1234567890", 7, "not a time", ""),
        ("commit_time > noon", 14, "noon", "12:00:03"),
        ("severity > warnig", 11, "warnig", "warning"),
        ("direction == X", 13, "X", "frontend"),
        ("finding == cutshort", 11, "cutshort", "cut-short"),
        ("state == nul", 9, "nul", "null"),
        ("xid contains 5", 4, "contains", "=="),
        ("relation_oid contains 5", 13, "contains", "=="),
        ("message < Insert", 8, "order", "contains"),
        ("new == 5", 4, "row", "column.name"),
        ("xid ==", 6, "ends", ""),
        ("xid == == 5", 7, "value", "one operator"),
        ("xid 5", 4, "operator", "=="),
        ("xid containz 5", 4, "containz", "contains"),
        ("(xid == 1", 9, "ends", "parenthesis"),
        ("xid == 1)", 8, ")", ""),
        ("xid == 1 lsn", 9, "lsn", "and"),
        ("xid == 1 adn lsn", 9, "adn", "and"),
        ("xid == 1 & lsn", 9, "&", "and"),
        ("xid in {1, 2", 12, "set", "{1, 2"),
        ("xid in {}", 8, "value", ""),
        ("xid in {5..1}", 8, "empty", "smaller"),
        ("message in {Begin..Commit}", 12, "order", ""),
        ('value contains "abc', 15, "end", "close"),
        ('relation matches "ab("', 21, "regular expression", ""),
        ("and", 0, "and", ""),
        ("== 5", 0, "name", ""),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, message: str, suggestion: str) -> None:
    with pytest.raises(QueryError) as caught:
        query.compile(text)
    error = caught.value
    assert error.text == text
    assert error.position == position
    assert message in error.message
    assert error.suggestion and suggestion in error.suggestion
    filter_line, caret, *rest = error.render().split("\n")
    assert filter_line == text.replace("\\", "\\\\")
    assert caret == " " * position + "^"
    assert error.message in rest[0]


def test_the_caret_stands_under_the_place_of_wide_and_hostile_text() -> None:
    with pytest.raises(QueryError) as caught:
        query.compile('value == "日本" and \x1b[2J')
    lines = caught.value.render().split("\n")
    assert lines[0] == 'value == "日本" and \\x1b[2J'
    assert lines[1] == " " * (len('value == "" and ') + 4) + "^"
    assert not any("\x1b" in line for line in [*lines, str(caught.value)])
    with pytest.raises(QueryError) as caught:
        query.compile("xid == 1 or " * 3000 + "nothing")
    line, caret, *_ = caught.value.render().split("\n")
    assert len(line) < 140
    assert line[len(caret) - 1 :] == "nothing"


# --- hostile filters and values ----------------------------------------------------------------------


def test_deep_and_long_filters_are_refused_or_work() -> None:
    assert select("(" * 5000 + "xid == 771" + ")" * 5000) == [2, 3, 4, 5, 6]
    assert select("!" * 1001 + "Insert") == without(4, 9)
    deep = "not (Insert or " * 500 + "Insert" + ")" * 500
    with pytest.raises(QueryError, match="nested"):
        query.compile(deep)
    assert select(" or ".join(["xid == 780"] * 500)) == [8, 9]
    assert select(f"xid in {{{','.join(map(str, range(1, 8000, 2)))}}}") == [2, 3, 4, 5, 6]
    with pytest.raises(QueryError, match="characters"):
        query.compile("x" * 100_001)
    with pytest.raises(QueryError):
        query.compile("(" * 5000)


@pytest.mark.parametrize("source", ["((a{1000}){1000}){1000}", "a" * 20_000, "(a{9999999999}){99}"])
def test_regular_expressions_of_impossible_size_are_refused(source: str) -> None:
    with pytest.raises(QueryError, match="too large"):
        query.compile(f'relation matches "{source}"')


def test_a_pattern_gives_up_on_a_value_that_would_take_for_ever() -> None:
    slow = pattern(Literal(r"^(\w+\s?)*$", 0))
    assert not slow("a" * 5000 + "!")
    assert slow.gave_up == 1
    assert slow("a b")
    chosen = query.compile(r'value matches "^(\w+\s?)*$" and column.name == email')
    index = make_index()
    hostile = annotate(
        wal(b"I" + struct.pack(">I", 16391) + b"N" + row(t("1"), t("a" * 5000 + "!"), b"n")),
        "backend",
        Dialect(copy="pgoutput"),
    )
    assert chosen.gave_up == 0
    assert not chosen.test(View(Number(4), hostile, (), USERS), index)
    assert chosen.gave_up == 1


def test_numbers_in_values_are_taken_from_sane_text_only() -> None:
    from dissector.query.fields import _number

    assert _number("1e4") == 10_000
    assert [_number(x) for x in ("NaN", "Infinity", "1_0", "1e99999", "9" * 1000, "", "٣")] == [
        None
    ] * 7


def test_messages_cut_anywhere_are_no_trouble() -> None:
    chosen = [
        query.compile(text)
        for text in (
            "column.name == email and value",
            "relation_oid > 0",
            "not gid",
            "state == text",
        )
    ]
    for number, line in enumerate(LINES, start=1):
        for size in range(len(line.data)):
            tree = annotate(line.data[:size], "backend", Dialect(copy="pgoutput"))
            view = View(Number(number), tree, (), INDEX.tables.schemas[line.relation])
            assert all(each.test(view, INDEX) in (True, False) for each in chosen)


# --- sets of integers --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int64, np.uint64])
def test_integer_sets_agree_between_arrays_and_numbers(dtype: Any) -> None:
    info = np.iinfo(dtype)
    values = sorted({int(info.min), int(info.max), 0, 1, 2, 3, 5, 8, 9, 100, int(info.max) - 1})
    array = np.array(values, dtype)
    for spans in (
        [],
        [(3, 3)],
        [(2, 1)],
        [(-(1 << 90), 4)],
        [(5, 1 << 90)],
        [(1, 2), (3, 5), (9, 9)],
        [(8, 100), (-5, 0), (1 << 70, 1 << 71)],
        [(-9, -1)],
    ):
        expected = [any(low <= v <= high for low, high in spans) for v in values]
        chosen = IntSet(spans)
        assert [v in chosen for v in values] == expected
        assert chosen.mask(array).tolist() == expected


# --- completion ------------------------------------------------------------------------------------


def offered(text: str, cursor: int | None = None) -> list[str]:
    return [each.text for each in complete(text, cursor, INDEX)]


def test_completion_of_names() -> None:
    assert offered("xi")[0] == "xid"
    assert "relation" in offered("rel") and "relation_oid" in offered("rel")
    assert "StreamAbort" in offered("stream")
    assert offered("xid == 5 and commit_l")[0] == "commit_lsn"
    assert "Insert.relation_oid" in offered("insert.rel")
    assert "not" in offered("")
    assert "column.name" in offered("column.n")
    assert offered("nothinglikeit") == []


def test_completion_of_operators_and_values() -> None:
    assert offered("xid ") == ["==", "!=", "<", "<=", ">", ">=", "in", "and", "or"]
    assert "contains" in offered("relation ") and "<" not in offered("relation ")
    assert offered("message == ins") == ["Insert"]
    assert '"Stream Abort"' in offered("message == str")
    assert offered("message in {Insert, upd")[0] == "Update"
    assert offered("severity >= ") == ["note", "warning", "error"]
    assert offered("direction == ") == ["F", "B"]
    assert offered("relation == ") == ['"app.orders"', '"public.users"']
    assert offered('relation == "pub') == ['"public.users"']
    assert offered("finding == cut")[0] == "cut-short"
    assert '"not sent"' in offered("state == ")
    assert offered("xid == 5 ") == ["and", "or"]
    assert offered("xid == 5 a")[0] == "and"


def test_completion_says_what_it_replaces() -> None:
    text = "xid == 5 and seve >= warning"
    [first, *_] = complete(text, 17)
    assert (first.text, first.start, first.end) == ("severity", 13, 17)
    assert (
        text[: first.start] + first.text + text[first.end :] == "xid == 5 and severity >= warning"
    )
    quoted = complete('relation == "pub', None, INDEX)[0]
    assert (quoted.start, quoted.end) == (12, 16)


def test_what_is_offered_is_understood() -> None:
    texts = ("", "s", "message == ", "severity == ", "finding == ", "state == ", "relation == ")
    for before in texts:
        for each in complete(before, None, INDEX):
            whole = before[: each.start] + each.text
            if each.text not in ("not",) and not each.text.endswith("."):
                assert query.compile(whole).text == whole


def test_completion_never_raises_and_offers_nothing_unsafe() -> None:
    index = make_index()
    index.tables.schemas.number(Schema("relation", namespace="public", name='evil\x1b[2J"'))
    index.tables.schemas.number(Schema("relation", namespace="public", name='quo"te'))
    texts = [each.text for each in complete("relation == ", None, index)]
    assert not any("\x1b" in each for each in texts)
    assert '"public.quo\\"te"' in texts
    assert query.compile('relation == "public.quo\\"te"').mask(index).tolist() == [False] * 12
    sample = 'not (a.b == "c d" and x in {1..2, 0/1}) || lsn > 0/0 ) \x00 \' ~'
    for cursor in range(-1, len(sample) + 2):
        assert isinstance(complete(sample, cursor, index), list)
    assert complete("x" * 200_000) == []
