"""The annotator: layouts by the formats tables, layers inside layers, hostile counts and lengths."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path

import pytest

from dissector import catalogue
from dissector.annotate import (
    MAX_ELEMENTS,
    annotate,
    at,
    find,
    findings,
    inner_layer,
    leaves,
    messages,
    tuple_columns,
    walk,
    walk_paths,
)
from dissector.display import Context, display, rows
from dissector.spec import Dialect

FORMATS = json.loads((Path(__file__).parent / "golden" / "formats" / "pgoutput.json").read_text())
PGOUTPUT = Dialect(proto_version=4, copy="pgoutput")
BEGIN = bytes.fromhex("420000000001e9d4500003046d92e925a700000321")


def tiles(node, start, end):
    position = start
    for leaf in leaves(node):
        assert leaf.start == position <= leaf.end
        position = leaf.end
    assert position == end


def copy_data(payload: bytes) -> bytes:
    return b"d" + struct.pack(">I", len(payload) + 4) + payload


def xlog_data(payload: bytes, start_lsn: int = 0x1E9D450) -> bytes:
    return b"w" + struct.pack(">QQq", start_lsn, start_lsn, 849293592831399) + payload


@pytest.mark.parametrize("release", range(10, 20))
def test_positions_and_formats_are_the_documented_ones(release):
    for name, table in FORMATS[str(release)].items():
        if name.startswith("_") or name == "TupleData":
            continue
        message = catalogue.by_name(name, release)
        proto = max(message.proto, 1)
        dialect = Dialect(release=release, proto_version=proto, in_stream=True, parallel=True)
        tree = annotate(message.tag.encode(), "pgoutput", dialect)
        placed = [(n.position, n.format) for n in walk(tree) if n.position]
        once = [row for row in table if "repeat_count_pos" not in row.get("parse", {})]
        wanted = [(row["pos"], row["format"]) for row in once]
        assert placed == wanted, name


def test_layers_inside_layers():
    data = copy_data(xlog_data(BEGIN))
    tree = annotate(data, "backend", PGOUTPUT)
    assert [m.name for m in messages(tree)] == ["CopyData", "XLogData", "Begin"]
    xid = find(tree, "CopyData.XLogData.Begin.xid")
    assert (xid.value, xid.start, xid.end) == (801, 47, 51)
    assert messages(tree)[2].layer_start == 30
    assert findings(tree) == []
    tiles(tree, 0, len(data))


def test_names_follow_the_release():
    data = copy_data(xlog_data(BEGIN))
    names = [m.name for m in messages(annotate(data, "backend", Dialect(19, 4, copy="pgoutput")))]
    assert names == ["CopyData", "WALData", "Begin"]


@pytest.mark.parametrize(
    ("copy", "names"),
    [
        ("pgoutput", ["CopyData", "XLogData", "Begin"]),
        ("plugin", ["CopyData", "XLogData"]),
        ("wal", ["CopyData", "XLogData"]),
        ("rows", ["CopyData"]),
        ("rows-binary", ["CopyData"]),
        ("tar", ["CopyData"]),
        ("", ["CopyData"]),
    ],
)
def test_the_state_tells_what_copy_data_holds(copy, names):
    data = copy_data(xlog_data(BEGIN))
    tree = annotate(data, "backend", Dialect(proto_version=1, copy=copy))
    assert [m.name for m in messages(tree)] == names
    tiles(tree, 0, len(data))


def test_backup_messages():
    data = copy_data(b"nbase.tar\0/spc\0")
    tree = annotate(data, "backend", Dialect(copy="backup"))
    assert [m.name for m in messages(tree)] == ["CopyData", "new archive"]
    assert find(tree, "CopyData.new archive.archive_name").value == b"base.tar"
    progress = annotate(
        copy_data(b"p" + (77).to_bytes(8, "big")), "backend", Dialect(copy="backup")
    )
    assert find(progress, "CopyData.progress report.bytes_done").value == 77


def test_startup_packets_have_no_tag():
    body = struct.pack(">I", 196608) + b"user\0joe\0database\0d\0\0"
    data = struct.pack(">I", len(body) + 4) + body
    tree = annotate(data, "frontend", Dialect(startup=True))
    assert tree.name == "StartupMessage"
    texts = {row.path: row.text for row in rows(tree)}
    assert texts["StartupMessage.parameters[0].value"] == "joe"
    assert find(tree, "StartupMessage.parameters[1].name").value == b"database"
    assert findings(tree) == []
    tiles(tree, 0, len(data))
    ssl = annotate(struct.pack(">II", 8, 80877103), "frontend", Dialect(startup=True))
    assert ssl.name == "SSLRequest"


def test_offsets_of_a_part_of_the_data():
    data = b"???" + BEGIN[:-2] + b"###"
    tree = annotate(data, "pgoutput", PGOUTPUT, 3, 3 + 19)
    tiles(tree, 3, 22)
    assert [(f.code, f.offset) for f in findings(tree)] == [("cut-short", 19)]
    assert tree.child("xid").partial


def test_unknown_messages_keep_tag_length_and_bytes():
    data = b"?" + struct.pack(">I", 7) + b"abc"
    tree = annotate(data, "backend", PGOUTPUT)
    assert [(n.name, n.start, n.end) for n in leaves(tree)] == [
        ("tag", 0, 1),
        ("length", 1, 5),
        ("unparsed", 5, 8),
    ]
    assert [f.text for f in findings(tree)] == ["unknown backend message '?'"]
    inner = annotate(copy_data(xlog_data(b"zab")), "backend", PGOUTPUT)
    assert [m.name for m in messages(inner)] == ["CopyData", "XLogData", "Unknown"]
    assert [(f.code, f.offset) for f in findings(inner)] == [("unknown-message", 30)]


def test_a_frame_that_holds_less_than_its_length_says():
    data = copy_data(xlog_data(BEGIN))
    for stop in range(6, len(data)):
        tree = annotate(data[:stop], "backend", PGOUTPUT)
        assert "cut-short" in [f.code for f in findings(tree)], stop
        tiles(tree, 0, stop)


def test_a_frame_that_holds_more_than_its_length_says():
    data = b"Z" + struct.pack(">I", 5) + b"IXX"
    tree = annotate(data, "backend", PGOUTPUT)
    assert [(f.code, f.offset, f.text) for f in findings(tree)] == [
        ("trailing-bytes", 6, "2 unexpected trailing bytes")
    ]


def test_empty_input():
    for layer in ("frontend", "backend", "replication", "pgoutput"):
        tree = annotate(b"", layer, PGOUTPUT)
        assert [f.code for f in findings(tree)] == ["cut-short"]
        assert list(leaves(tree)) == []


def test_null_and_empty_in_data_row():
    data = b"D" + struct.pack(">IHii", 14, 2, -1, 0)
    tree = annotate(data, "backend", PGOUTPUT)
    null, empty = (find(tree, f"DataRow.columns[{n}].value") for n in (0, 1))
    assert null.absent
    assert display(null) == "NULL"
    assert (empty.absent, empty.value, display(empty)) == (False, b"", "''")
    assert findings(tree) == []


def test_columns_by_state():
    data = b"U\0\0\0\1O\0\2n" + b"t\0\0\0\0" + b"N\0\3nu" + b"b\0\0\0\1\x2a"
    tree = annotate(data, "pgoutput", PGOUTPUT)
    assert [state for state, _ in tuple_columns(tree.child("old"))] == ["null", "text"]
    assert [state for state, _ in tuple_columns(tree.child("new"))] == [
        "null",
        "unchanged",
        "binary",
    ]
    texts = {row.path: row.text for row in rows(tree)}
    shown = [texts[f"Update.new.columns[{n}]"] for n in range(3)]
    assert shown == ["NULL", "unchanged TOAST", "\\x2a"]
    assert texts["Update.old.columns[1].value"] == "''"


def test_text_null_is_no_null():
    data = b"I\0\0\0\1N\0\1t\0\0\0\4NULL"
    tree = annotate(data, "pgoutput", PGOUTPUT)
    assert {row.path: row.text for row in rows(tree)}["Insert.new.columns[0].value"] == "'NULL'"


def test_hostile_text_is_escaped():
    hostile = "\x1b[2J\u202e[bold]x".encode()
    data = b"O" + bytes(8) + hostile + b"\0"
    tree = annotate(data, "pgoutput", PGOUTPUT)
    text = display(tree.child("name"))
    assert text == "\\x1b[2J\\u202e[bold]x"
    element = b"R\0\0\0\1p\0" + hostile + b"\0d\0\1\0" + hostile + b"\0\0\0\0\x17\xff\xff\xff\xff"
    for row in rows(annotate(element, "pgoutput", PGOUTPUT)):
        assert "\x1b" not in row.text
        assert "\u202e" not in row.text


def test_unexpected_byte_instead_of_a_tuple():
    tree = annotate(b"I\0\0\0\1X\0\1n", "pgoutput", PGOUTPUT)
    assert [(f.code, f.offset) for f in findings(tree)] == [("unexpected-byte", 5)]
    assert [n.name for n in leaves(tree)][-1] == "unparsed"
    tree = annotate(b"D\0\0\0\1X\0\1n", "pgoutput", PGOUTPUT)
    assert [f.text for f in findings(tree)] == ["'X' where 'K' or 'O' is expected"]


@pytest.mark.parametrize("stop", range(len(BEGIN)))
def test_a_cut_message_keeps_what_it_has(stop):
    tree = annotate(BEGIN[:stop], "pgoutput", PGOUTPUT)
    tiles(tree, 0, stop)
    assert [(f.code, f.offset) for f in findings(tree)] == [("cut-short", stop)]
    if stop >= 9:
        assert tree.child("final_lsn").value == 0x1E9D450


def test_counts_and_lengths_allocate_nothing():
    hostile = [
        b"T\xff\xff\xff\xff\0\0\0\0\1",
        b"R\0\0\0\1a\0b\0d\xff\xff",
        b"I\0\0\0\1N\xff\xff",
        b"I\0\0\0\1N\0\1t\x7f\xff\xff\xffx",
        b"M\0" + bytes(8) + b"p\0\x7f\xff\xff\xffx",
    ]
    trees = []
    tracemalloc.start()
    for data in hostile:
        trees.append(annotate(data, "pgoutput", PGOUTPUT))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    for data, tree in zip(hostile, trees, strict=True):
        assert findings(tree), data
        tiles(tree, 0, len(data))


def test_very_many_elements_are_bounded_and_kept():
    count = MAX_ELEMENTS + 3
    data = b"T" + struct.pack(">IB", count, 0) + struct.pack(">I", 5) * count
    tree = annotate(data, "pgoutput", PGOUTPUT)
    assert len(tree.child("relations").children) == MAX_ELEMENTS
    assert [f.code for f in findings(tree)] == ["too-many"]
    assert list(leaves(tree))[-1].length == 12
    tiles(tree, 0, len(data))


def test_wide_row_and_large_value():
    wide = b"I\0\0\0\1N" + struct.pack(">H", 1600) + b"t\0\0\0\4abcd" * 1600
    tree = annotate(wide, "pgoutput", PGOUTPUT)
    assert len(tuple_columns(tree.child("new"))) == 1600
    assert find(tree, "Insert.new.columns[1599].value").value == b"abcd"
    large = b"I\0\0\0\1N\0\1t" + struct.pack(">I", 4_000_000) + b"x" * 4_000_000
    tree = annotate(large, "pgoutput", PGOUTPUT)
    value = find(tree, "Insert.new.columns[0].value")
    assert value.length == 4_000_000
    assert len(display(value, Context(limit=80), "text")) < 100


def test_byte_to_leaf():
    data = copy_data(xlog_data(BEGIN))
    tree = annotate(data, "backend", PGOUTPUT)
    for offset in range(len(data)):
        leaf = at(tree, offset)
        assert leaf.start <= offset < leaf.end
        assert leaf.children is None
    assert at(tree, len(data)) is None
    assert at(tree, 30).format == "Byte1('B')"


def test_paths_are_unique():
    tree = annotate(copy_data(xlog_data(BEGIN)), "backend", PGOUTPUT)
    paths = [path for path, _ in walk_paths(tree)]
    assert len(paths) == len(set(paths))


def test_inner_layer():
    assert inner_layer("backend", Dialect(copy="wal")) == "replication"
    assert inner_layer("replication", Dialect(copy="wal")) == ""
    assert inner_layer("replication", Dialect(copy="pgoutput", proto_version=0)) == ""
