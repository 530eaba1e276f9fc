"""Rows of queries and of COPY as lines and objects: the fast writers say what was sent, and say it as the
slow ones do; and what comes again is said again."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
import test_objects
import transforms
from test_objects import FLOATS, INTEGERS, TEXTS, message, opened_by

from dissector.records import dumps, record
from dissector.runs import Runs
from dissector.view import Capture, open_capture

BOOL, BYTEA, INT8, INT4, TEXT, FLOAT8, NUMERIC = 16, 17, 20, 23, 25, 701, 1700


def made(tmp_path: Path, parts: list[tuple[int, bytes]]) -> Capture:
    """A capture of a session that goes on with these messages: 0 from the client, 1 from the server."""
    startup = struct.pack("!ii", 33, 196608) + b"user\0ada\0database\0postgres\0\0"
    startup = struct.pack("!i", len(startup)) + startup[4:]
    answer = message("R", bytes(4)) + message("S", b"server_version\x0018.1\0") + message("Z", b"I")
    given = transforms.conversation([(0, startup), (1, answer), *parts])
    path = tmp_path / "made.pcap"
    path.write_bytes(transforms.pcap(transforms.frames(transforms.resegmented(given, 1448))))
    return open_capture([str(path)]).read()


def same(capture: Capture) -> list[dict]:
    """The objects of all messages, once they are what the slow writers say, with less and with more, too."""
    objects = test_objects.same(capture)
    numbers = list(range(1, capture.count + 1))
    given = [record(capture, capture.message(n), fields=True, payload=True) for n in numbers]
    for left_out in ({"fields", "payload"}, {"fields"}, set[str]()):
        runs = Runs(capture, fields="fields" not in left_out, payload="payload" not in left_out)
        written = [text for block in runs.objects(numbers) for text in block]
        for full, text in zip(given, written, strict=True):
            assert text == dumps({k: v for k, v in full.items() if k not in left_out})
    return objects


def description(columns: list[tuple[str, int, int]]) -> bytes:
    """RowDescription: name, type, format of each."""
    body = struct.pack("!h", len(columns))
    for i, (name, kind, form) in enumerate(columns):
        body += name.encode() + b"\0" + struct.pack("!IhIhih", 0, i, kind, -1, -1, form)
    return message("T", body)


def data_row(values: list[bytes | None]) -> bytes:
    body = struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message("D", body)


def query(sql: str, answers: list[bytes]) -> list[tuple[int, bytes]]:
    done = [message("C", b"SELECT 1\0"), message("Z", b"I")]
    return [(0, message("Q", sql.encode() + b"\0")), (1, b"".join([*answers, *done]))]


@pytest.mark.parametrize("width", [1, 5, 21, 22, 40])
def test_rows_of_queries(width: int, tmp_path: Path) -> None:
    chance = random.Random(width)
    pools = {
        TEXT: TEXTS, INT4: INTEGERS, FLOAT8: FLOATS, NUMERIC: [b"1.50", b"NaN", b"x"],
        BOOL: [b"t", b"f", b""],
    }  # fmt: skip
    kinds = [chance.choice(list(pools)) for _ in range(width)]
    columns = [
        (chance.choice([f"c{i}", 'odd "ä"%d\\', "x" * 50]), k, 0) for i, k in enumerate(kinds)
    ]
    sent = [
        [None if chance.random() < 0.2 else chance.choice(pools[k][:26]) for k in kinds]
        for _ in range(120)
    ]
    capture = made(tmp_path, query("select", [description(columns), *map(data_row, sent)]))
    objects = [o for o in same(capture) if o["message"] == "DataRow"]
    assert len(objects) == len(sent)
    for one, values in zip(objects, sent, strict=True):
        fields = [f for f in one["fields"] if "state" in f]
        assert [f["state"] for f in fields] == ["null" if v is None else "text" for v in values]
        lengths = [4 if v is None else len(v) for v in values]  # of NULL its length says so
        assert [f["length"] for f in fields] == lengths
        assert [f["column"] for f in fields] == [name for name, _, _ in columns]


def test_binary_rows_and_rows_that_are_not_as_described(tmp_path: Path) -> None:
    columns = [("id", INT8, 1), ("raw", BYTEA, 1), ("flag", BOOL, 1)]
    rows = [data_row([struct.pack("!q", i), bytes([i]) * (i % 4), b"\1"]) for i in range(40)]
    odd = [
        data_row([b"\1", None, b"\1"]),  # no int8
        data_row([struct.pack("!q", 7)]),  # too few
        data_row([struct.pack("!q", 7), b"", b"", b"more"]),
        message("D", struct.pack("!hi", 3, 900)),  # beyond the end
        message("D", struct.pack("!hi", 3, -2)),
        message("D", b"\0"),
        data_row([struct.pack("!q", 7), None, b"\1"])[:-1] + b"\0",
    ]
    mixed = [part for i, row in enumerate(rows) for part in (row, *odd[i % 8 : i % 8 + 1])]
    capture = made(tmp_path, query("select", [description(columns), *mixed]))
    objects = [o for o in same(capture) if o["message"] == "DataRow"]
    assert len(objects) == len(mixed)
    assert [o["fields"][4]["value"] for o in objects if o["length"] == len(rows[1])][:2] == [1, 5]


def test_what_is_wrong_behind_a_long_summary(tmp_path: Path) -> None:
    """Where only the summary is asked for, too, what stands behind what it shows is not believed."""
    columns = [(f"c{i}", TEXT, 0) for i in range(30)]
    usual = data_row([b"some text"] * 30)
    body = usual[5:]
    odd = [message("D", body + b"more"), message("D", body[:-3])]
    odd.append(message("D", body[:-13] + struct.pack("!i", -7)))
    capture = made(tmp_path, query("select", [description(columns), usual, usual, *odd, usual]))
    rows = [o for o in same(capture) if o["message"] == "DataRow"]
    assert [bool(o["findings"]) for o in rows] == [False, False, True, True, True, False]


def test_rows_without_a_description(tmp_path: Path) -> None:
    """As of statements that were prepared before the capture begins."""
    chance = random.Random(2)
    sent: list[list[bytes | None]] = [
        [chance.choice([*TEXTS, *FLOATS, None, b"\0\1"]) for _ in range(i % 7)] for i in range(150)
    ]
    capture = made(tmp_path, [(1, b"".join(map(data_row, sent)))])
    objects = [o for o in same(capture) if o["message"] == "DataRow"]
    assert len(objects) == len(sent)
    for one, values in zip(objects, sent, strict=True):
        lengths = [f["value"] for f in one["fields"] if ".length" in f["path"]][1:]
        assert lengths == [-1 if v is None else len(v) for v in values]
        assert one["summary"] == f"{one['length']} bytes"


def copied(rows: list[bytes], sql: str = "copy t to stdout") -> list[tuple[int, bytes]]:
    answers = [message("H", b"\0\0\0"), *(message("d", row) for row in rows), message("c")]
    return query(sql, answers)


def test_rows_of_copy(tmp_path: Path) -> None:
    plain = [t for t in TEXTS if t and not set(t) & set(b"\n\t\\")]
    chance = random.Random(9)
    sent = [
        [chance.choice([*plain, b"\\N", b"back\\\\slash", b"tab\\tin"]) for _ in range(1 + i % 15)]
        for i in range(150)
    ]
    capture = made(tmp_path, copied([b"\t".join(values) + b"\n" for values in sent]))
    objects = [o for o in same(capture) if o["message"] == "CopyData"]
    assert len(objects) == len(sent)
    for one, values in zip(objects, sent, strict=True):
        fields = [f for f in one["fields"] if f["name"] == "value"]
        assert [f["length"] for f in fields] == [len(value) for value in values]
        quoted = [f["display"].startswith("'") for f in fields]
        assert quoted == [value != b"\\N" for value in values]


@pytest.mark.parametrize(
    "row",
    [
        b"", b"\n", b"a\t\n", b"\ta\n", b"a\t\tb\n", b"no end", b"two\nrows\n", b"a\tb\n\nc\n", b"\\.\n",
        b"a\\\tb\tc\n", b"a\\\nb\n", b"ends\\\n", b".data.rows[0].\t.data.rows[1].\n", b"x\r\n",
        b"one\t\\N\ntwo\t.data.rows[0].columns[0].\nthree\n", b"\xff\t\x80\n", b"w" * 300 + b"\ty\n",
    ],
)  # fmt: skip
def test_odd_rows_of_copy(row: bytes, tmp_path: Path) -> None:
    """Between usual ones, and alone at first."""
    usual = [b"%d\tname %d\t\\N\n" % (i, i) for i in range(12)]
    for name, rows in (("a", [*usual, row, *usual, row]), ("b", [row, row, *usual])):
        (tmp_path / name).mkdir()
        capture = made(tmp_path / name, copied(rows))
        objects = [o for o in same(capture) if o["message"] == "CopyData"]
        assert [o["length"] for o in objects] == [len(each) + 5 for each in rows]


def test_many_rows_in_one_message(tmp_path: Path) -> None:
    """As clients send them: a line shows three, an object all."""
    chance = random.Random(4)
    texts = [b"1", b"it's", b"\\N", "Zoë".encode(), b"a\\tb", b".data.rows[0].", b"z" * 200]
    blocks = [
        b"".join(b"\t".join(chance.choice(texts) for _ in range(3)) + b"\n" for _ in range(size))
        for size in (1, 2, 3, 4, 50, 400, 3)
    ]
    capture = made(tmp_path, copied(blocks))
    objects = [o for o in same(capture) if o["message"] == "CopyData"]
    for one, sent in zip(objects, blocks, strict=True):
        ends = [f["path"] for f in one["fields"] if f["name"] == "row_end"]
        rows = sent.count(b"\n")
        assert ends == [f"CopyData.data.rows[{i}].row_end" for i in range(rows)]
        assert (" more" in one["summary"]) == (rows > 3 and len(one["summary"]) < 160)


@pytest.mark.parametrize(
    "options",
    ["(delimiter ';', null '-')", "(null '')", "(null '.data.rows[0].')", "csv", "binary"],
)
def test_other_formats_of_copy(options: str, tmp_path: Path) -> None:
    rows = [b"1;-;x\n", b"a\tb;\n", b'"q",\n', b".data.rows[0].\tb\n", b"-\n"] * 4
    same(made(tmp_path, copied(rows, f"copy t to stdout {options}")))


def test_what_comes_again_is_not_opened_again(tmp_path: Path) -> None:
    parts: list[tuple[int, bytes]] = []
    for i in range(40):
        rows = [data_row([b"%d" % (i * 50 + n), b"name"]) for n in range(50)]
        parts += query(
            "select id, name from t", [description([("id", INT4, 0), ("name", TEXT, 0)]), *rows]
        )
    capture = made(tmp_path, parts)
    assert capture.count > 2000
    same(capture)
    assert len(opened_by(capture)) < 60
    assert len(opened_by(capture, fields=False)) < 60


@pytest.mark.parametrize(("fields", "payload"), [(False, False), (False, True), (True, True)])
def test_rows_of_copy_are_not_opened(fields: bool, payload: bool, tmp_path: Path) -> None:
    capture = made(tmp_path, copied([b"%d\tname %d\n" % (i, i) for i in range(900)]))
    same(capture)
    assert len(opened_by(capture, fields, payload)) < 30
