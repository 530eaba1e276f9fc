"""Transactions against what the recorder knows: its lists of messages, and what SELECT showed at the end."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dissector.changes import changes, facts, relation_counts, subxid_reader
from dissector.rows import COLUMNS, Rows
from dissector.schemas import Tables
from dissector.transactions import State, Transactions, transactions
from dissector.view import Capture, open_capture

FOLDER = Path(__file__).parent.parent / "captures"
NAMES = sorted(p.name.removesuffix(".truth.jsonl.gz") for p in FOLDER.glob("*.truth.jsonl.gz"))


@pytest.fixture(scope="module", params=NAMES)
def opened(request: pytest.FixtureRequest) -> tuple[str, Capture, Transactions]:
    path = next(FOLDER.glob(f"{request.param}.pca*[pg]"))
    capture = open_capture([str(path)]).read()
    return request.param, capture, transactions(capture.index, subxid_reader(capture))


def manifest(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


def truth(name: str) -> list[bytes]:
    with gzip.open(FOLDER / f"{name}.truth.jsonl.gz", "rt") as file:
        return [bytes.fromhex(json.loads(line)["data"]) for line in file]


def test_there_are_captures() -> None:
    assert len(NAMES) >= 9


def test_ends_are_counted_as_the_recorder_counted_the_messages(opened) -> None:
    name, _, table = opened
    sent = Counter(manifest(name)["messages"])
    states = Counter(t.state for t in table)
    streamed = Counter(t.streamed for t in table)
    decided = sum(t.decided > 0 for t in table)
    assert decided == sent["Commit Prepared"] + sent["Rollback Prepared"]
    assert states[State.ROLLED_BACK] == sent["Rollback Prepared"]
    committed = sum(t.state == State.COMMITTED for t in table)
    assert committed == sent["Commit"] + sent["Stream Commit"]
    assert streamed[False] == sent["Begin"] + sent["Begin Prepare"]
    assert sum(len(t.segments) for t in table if t.streamed) == sent["Stream Start"]
    aborts = sum(len(t.subaborts) for t in table) + states[State.ABORTED]
    assert aborts == sent["Stream Abort"]
    assert states[State.OPEN] == states[State.CUT] == 0


def test_changes_are_counted_as_the_recorder_counted_the_messages(opened) -> None:
    name, capture, table = opened
    sent = Counter(manifest(name)["messages"])
    counted: Counter[str] = Counter()
    for place in range(len(table)):
        for each in relation_counts(capture.index, table.rows(place)):
            counted["Insert"] += each.inserts
            counted["Update"] += each.updates
            counted["Delete"] += each.deletes
    for kind in ("Insert", "Update", "Delete"):
        assert counted[kind] == sent[kind]
    known = sent["Insert"] + sent["Update"] + sent["Delete"] + sent["Truncate"]
    assert known <= sum(t.changes for t in table) <= known + sent["Message"]


def test_xids_and_lsns_are_those_of_the_servers_list(opened) -> None:
    """Hand-read from the truth: Begin is B, LSN(8), time(8), xid(4); Commit is C, flags, LSN(8), LSN(8)."""
    name, capture, table = opened
    data = truth(name)
    begins = [d for d in data if d[:1] == b"B"]
    commits = [d for d in data if d[:1] == b"C"]
    plain = [t for t in table if not t.streamed and t.state == State.COMMITTED]
    assert [t.xid for t in plain] == [int.from_bytes(d[17:21], "big") for d in begins]
    told = [facts(capture, t) for t in plain]
    assert [f["final_lsn"].value for f in told] == [int.from_bytes(d[1:9], "big") for d in begins]
    assert [f["end_lsn"].value for f in told] == [int.from_bytes(d[10:18], "big") for d in commits]


def test_every_logical_message_of_a_transaction_belongs_to_exactly_one(opened) -> None:
    _, capture, table = opened
    rows = [table.rows(place) for place in range(len(table))]
    joined = np.concatenate(rows)
    assert len(np.unique(joined)) == len(joined)
    inside = {
        n
        for n in range(1, capture.count + 1)
        if len(capture.path(capture.row(n))) == 3
        and (capture.row(n).xid or capture.path(capture.row(n))[2] != "Message")
    }
    assert set(joined.tolist()) == inside
    for place in range(0, len(table), 7):
        assert table[place].messages == len(rows[place])
        assert table.of(int(rows[place][0])) == table.of(int(rows[place][-1])) == place


def test_the_origin_and_the_gid_are_told() -> None:
    capture = open_capture([str(FOLDER / "tour.pcapng")]).read()
    table = transactions(capture.index, subxid_reader(capture))
    told = [facts(capture, t) for t in table]
    assert [f["origin"].value for f in told if "origin" in f] == [b"elsewhere"]
    gids = [d.split(b"\0")[-2] for d in truth("tour") if d[:1] in b"Kr"]
    decided = [t for t in table if t.decided]
    found = [facts(capture, t)["gid"].value for t in sorted(decided, key=lambda t: t.decided)]
    assert [g[-len(f) :] for g, f in zip(gids, found, strict=True)] == found


# The contents of the tables, made from the changes alone.


UNKNOWN = "in a binary form that only its server knows (a regclass is an OID)"


def text(each) -> str | None:
    if each.state == "null":
        return None
    return each.typed.text if each.typed.known else UNKNOWN


def replayed(capture: Capture, table: Transactions) -> tuple[dict[int, list[dict]], set[int]]:
    """Apply what was committed, in the order of the decisions: {OID: rows}, OIDs where a row was missing.

    Rows are found by the key that the change sent.
    """
    tables: dict[int, dict[tuple, list[dict]]] = {}
    missing = set()
    visible = [place for place in range(len(table)) if table[place].state.made_visible]
    visible.sort(key=lambda place: table[place].decided or table[place].end)
    for place in visible:
        for change in changes(capture, table.rows(place), table[place].subaborts):
            if change.rolled_back or change.kind == "Message":
                continue
            if change.kind == "Truncate":
                for member in change.members:
                    tables.get(member.oid, {}).clear()
                continue
            rows = tables.setdefault(change.schema.oid, {})
            row = {}
            if change.kind != "Insert":
                found = rows.get(tuple(text(v) for v in change.key()), [])
                if not found:
                    missing.add(change.schema.oid)
                    continue
                row = found.pop(0)
            if change.kind != "Delete":
                row.update({v.name: text(v) for v in change.new if v.state != "unchanged"})
                names = [c.name for c in change.schema.columns if c.is_key]
                rows.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return {
        oid: [r for each in rows.values() for r in each] for oid, rows in tables.items()
    }, missing


def test_tables_made_from_the_changes_are_what_select_showed(opened) -> None:
    name, capture, table = opened
    wanted = manifest(name).get("tables", {})
    made, missing = replayed(capture, table)
    described = Counter(r["oid"] for r in manifest(name)["relations"])
    oids = {f"{r['schema']}.{r['name']}": r["oid"] for r in manifest(name)["relations"]}
    checked = 0
    for relation, contents in wanted.items():
        oid = oids.get(relation, 0)
        if oid not in made or described[oid] > 1:
            continue  # a definition that changed gave old rows values that no message told
        assert oid not in missing, relation
        # Generated columns are not sent before 18, nor without the option.
        sent = {name for row in made[oid] for name in row}
        sent -= {name for row in made[oid] for name in row if row[name] == UNKNOWN}
        kept = [i for i, column in enumerate(contents["columns"]) if column in sent]
        rows = [[row.get(contents["columns"][i]) for i in kept] for row in made[oid]]
        shown = [[row[i] for i in kept] for row in contents["rows"]]
        assert sorted(map(repr, rows)) == sorted(map(repr, shown)), relation
        checked += 1
    assert checked >= len(wanted) / 2


# Transactions that are cut, by hand.


def made_index(parts: list[tuple[int, str, int]]):
    """An index of (stream, pgoutput message or envelope message, xid), frame times in seconds."""
    tables, rows = Tables(), Rows()
    paths = [
        ("CopyData", "XLogData", name) if name != "CopyBothResponse" else (name,)
        for _, name, _ in parts
    ]
    columns = {name: np.zeros(len(parts), dtype) for name, dtype in COLUMNS}
    columns["stream"][:] = [stream for stream, _, _ in parts]
    columns["xid"][:] = [xid for _, _, xid in parts]
    columns["path"][:] = [tables.paths.number(path) for path in paths]
    columns["direction"][:] = 1
    columns["length"][:] = 10
    columns["time"][:] = np.arange(len(parts)) * 1_000_000_000
    rows.extend(columns)
    return SimpleNamespace(rows=rows, tables=tables)


def summary(index, subxid=lambda number: None):
    table = transactions(index, subxid)
    return [(t.xid, t.state.name, t.begin, t.end, t.changes) for t in table]


def test_a_transaction_without_its_end_is_open_or_cut() -> None:
    parts = [(0, "Begin", 7), (0, "Insert", 7), (0, "Begin", 8), (0, "Insert", 8)]
    assert summary(made_index(parts)) == [(7, "CUT", 1, 0, 1), (8, "OPEN", 3, 0, 1)]


def test_a_transaction_without_its_beginning() -> None:
    parts = [
        (0, "Insert", 0), (0, "Insert", 0), (0, "Commit", 0), (0, "Begin", 9), (0, "Commit", 9),
        (0, "Delete", 0), (0, "Commit", 0),
    ]  # fmt: skip
    assert summary(made_index(parts)) == [
        (0, "COMMITTED", 0, 3, 2), (9, "COMMITTED", 4, 5, 0), (0, "COMMITTED", 0, 7, 1),
    ]  # fmt: skip


def test_streamed_transactions_interleave_and_connections_do_not_mix() -> None:
    parts = [
        (0, "Stream Start", 5), (1, "Begin", 5), (0, "Insert", 5), (0, "Stream Stop", 5),
        (1, "Insert", 5), (0, "Stream Start", 6), (0, "Insert", 6), (0, "Stream Stop", 6),
        (0, "Stream Start", 5), (0, "Delete", 5), (0, "Stream Stop", 5), (1, "Commit", 5),
        (0, "Stream Abort", 6), (0, "Stream Commit", 5), (0, "Stream Start", 5),
        (0, "Insert", 5), (0, "Stream Stop", 5),
    ]  # fmt: skip
    assert summary(made_index(parts)) == [
        (5, "COMMITTED", 1, 14, 2), (5, "COMMITTED", 2, 12, 1), (6, "ABORTED", 6, 13, 1),
        (5, "OPEN", 15, 0, 1),
    ]  # fmt: skip
    table = transactions(made_index(parts), lambda number: None)
    assert table.rows(0).tolist() == [1, 3, 4, 9, 10, 11, 14]
    assert table.rows(2).tolist() == [6, 7, 8, 13]
    assert (table[0].first, table[0].last) == (0, 13_000_000_000)
    assert table[0].bytes == 60


def test_a_subtransaction_is_rolled_back_and_the_rest_is_not() -> None:
    parts = [
        (0, "Stream Start", 5), (0, "Insert", 5), (0, "Insert", 6), (0, "Stream Stop", 5),
        (0, "Stream Abort", 5), (0, "Stream Commit", 5),
    ]  # fmt: skip
    table = transactions(made_index(parts), lambda number: {5: 6}[number])
    assert [(t.state, t.subaborts) for t in table] == [(State.COMMITTED, ((5, 6),))]
    assert table.rows(0).tolist() == [1, 2, 3, 4, 5, 6]
    assert table[0].messages == 6


def test_a_message_that_was_sent_at_once_belongs_to_no_transaction() -> None:
    parts = [
        (0, "Begin", 5),
        (0, "Message", 0),
        (0, "Message", 5),
        (0, "Commit", 5),
        (0, "Message", 0),
    ]
    table = transactions(made_index(parts), lambda number: None)
    assert [table.rows(i).tolist() for i in range(len(table))] == [[1, 3, 4]]
    assert table[0].changes == 1
    assert table.of(2) is None


def test_a_stream_that_begins_anew_forgets_what_was_open() -> None:
    parts = [
        (0, "CopyBothResponse", 0), (0, "Stream Start", 5), (0, "Insert", 5), (0, "Stream Stop", 5),
        (0, "CopyBothResponse", 0), (0, "Stream Start", 5), (0, "Insert", 5), (0, "Stream Stop", 5),
        (0, "Stream Commit", 5),
    ]  # fmt: skip
    assert summary(made_index(parts)) == [(5, "OPEN", 2, 0, 1), (5, "COMMITTED", 6, 9, 1)]


def test_the_decision_about_a_prepared_transaction_may_come_later_or_alone() -> None:
    parts = [
        (0, "Begin Prepare", 5), (0, "Insert", 5), (0, "Prepare", 5), (0, "CopyBothResponse", 0),
        (0, "Rollback Prepared", 5), (0, "Commit Prepared", 6),
    ]  # fmt: skip
    table = transactions(made_index(parts), lambda number: None)
    assert [(t.xid, t.state, t.begin, t.end, t.decided) for t in table] == [
        (5, State.ROLLED_BACK, 1, 3, 5), (6, State.COMMIT_PREPARED, 0, 0, 6),
    ]  # fmt: skip


def test_nothing_gives_nothing() -> None:
    assert summary(made_index([])) == []
    assert summary(made_index([(0, "CopyBothResponse", 0)])) == []


def test_a_hundred_thousand_transactions_need_no_objects() -> None:
    count = 400_000
    index = made_index([(0, "Begin", 1), (0, "Insert", 1), (0, "Insert", 1), (0, "Commit", 1)])
    columns = {n: np.tile(index.rows.column(n), count // 4) for n, _ in COLUMNS}
    columns["xid"] = np.repeat(np.arange(1, count // 4 + 1, dtype=np.uint32), 4)
    rows = Rows()
    rows.extend(columns)
    table = transactions(SimpleNamespace(rows=rows, tables=index.tables), lambda number: None)
    assert len(table) == count // 4
    assert table[50_000].xid == 50_001
    assert table.rows(50_000).tolist() == [200_001, 200_002, 200_003, 200_004]
