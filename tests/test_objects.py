"""Objects with all fields of rows that are unlike the recorded ones: the fast writer says what was sent,
and says it as the slow one does."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path
from threading import Thread

import pytest
import transforms

from dissector import display
from dissector.cells import HIGH, _Keeper
from dissector.digits import lsns, times
from dissector.objects import Objects
from dissector.parallel import HELD, Pieces, in_order, joined, write_in_order
from dissector.records import dumps, record
from dissector.report import list_cells
from dissector.rowcolumns import CELLS, FEW
from dissector.runs import Runs
from dissector.view import Capture, open_capture

BOOL, INT4, FLOAT8, TEXT, NUMERIC, JSONB = 16, 23, 701, 25, 1700, 3802
OPTIONS = b"(proto_version '1', publication_names 'p')"
STREAMING = b"(proto_version '2', publication_names 'p', streaming 'on')"
Row = list[bytes | str]
"""Columns of a tuple: text values as bytes; "n" and "u" for those without."""

TEXTS = [
    b"", b" ", b"plain words", "Zoë — Ünï".encode(), "日本語 😀".encode(), b"it's", b'say "x"',
    b"back\\slash", b"tab\there", b"new\nline", b"nul\0in", b"\x1b[31mred", b"\x7f", b"\xff\xfe",
    "\u202eoverride\u2066".encode(), "\u034f\u200b".encode(), "\x85\x9f".encode(), b"a" * 39,
    b"a" * 40, b"a" * 41, b"b" * 255, b"c" * 4095, b"d" * 4096, b"e" * 5000, b"f'" * 3000,
    "ä".encode() * 2048, b"%d %s %%", b"{0} {x}", b"\\u0001 \\u0002", b"columns[3]",
]  # fmt: skip
INTEGERS = [
    b"0", b"1", b"-1", b"2147483647", b"-2147483648", b"", b"-", b"+1", b" 1", b"1_0", b"9" * 1001,
    b"9" * 4096, b"9" * 5000, b"-" + b"9" * 4301, b"one", b"1.5", "٣".encode(), b"'1'",
]  # fmt: skip
FLOATS = [
    b"0", b"1.5", b"-2.25e-07", b"1e+300", b"1e400", b"NaN", b"Infinity", b"-Infinity", b"", b"1_0.5",
    b".5", b"5.", b"abc", b"1e5", b"9" * 400, b"1.5\n", b"0x10", b"-0",
]  # fmt: skip
OTHERS = {
    BOOL: [b"t", b"f", b"", b"true"],
    NUMERIC: [b"1.50", b"-3", b"NaN", b"1e5", b"x", b"9" * 5000],
    JSONB: [b'{"a": "it\'s", "b": [1, 2]}', b'"\\u00e9\\n"', b"null", '{"ü": 1}'.encode()],
}


def message(tag: str, body: bytes = b"") -> bytes:
    return tag.encode() + struct.pack("!i", len(body) + 4) + body


def change(body: bytes, number: int) -> bytes:
    at = 0x1_0000_0000 + number * 64
    return message("d", b"w" + struct.pack("!QQq", at, at + number % 2, 10**15 + number) + body)


def described(oid: int, name: str, columns: list[tuple[str, int]], key: int = 1) -> bytes:
    body = b"R" + struct.pack("!I", oid) + b"public\0" + name.encode() + b"\0d"
    body += struct.pack("!h", len(columns))
    for i, (column, kind) in enumerate(columns):
        body += bytes([i < key]) + column.encode() + b"\0" + struct.pack("!Ii", kind, -1)
    return body


def row(values: Row) -> bytes:
    body = struct.pack("!h", len(values))
    for value in values:
        if isinstance(value, str):
            body += value.encode()
        else:
            body += b"t" + struct.pack("!i", len(value)) + value
    return body


def made(tmp_path: Path, changes: list[bytes], options: bytes = OPTIONS) -> Capture:
    """A capture of a replication that sends `changes`."""
    parts = [change(body, number) for number, body in enumerate(changes)]
    return made_of(tmp_path, parts, options)


def made_of(tmp_path: Path, parts: list[bytes], options: bytes) -> Capture:
    """The same of whole messages."""
    start = b"START_REPLICATION SLOT s LOGICAL 0/0 " + options + b"\0"
    startup = struct.pack("!ii", 43, 196608) + b"user\0ada\0replication\0database\0\0"
    startup = struct.pack("!i", len(startup)) + startup[4:]
    answer = message("R", bytes(4)) + message("S", b"server_version\x0018.1\0") + message("Z", b"I")
    sent = [(0, startup), (1, answer), (0, message("Q", start)), (1, message("W", b"\0\0\0"))]
    given = transforms.conversation([*sent, (1, b"".join(parts))])
    path = tmp_path / "made.pcap"
    path.write_bytes(transforms.pcap(transforms.frames(transforms.resegmented(given, 1448))))
    capture = open_capture([str(path)])
    capture.read()
    return capture


BEGIN = b"B" + struct.pack("!QqI", 1, 0, 700)


def same(capture: Capture, order: list[int] | None = None) -> list[dict]:
    """The objects of all messages, once they are what the slow writers say."""
    numbers = order or list(range(1, capture.count + 1))
    runs = Runs(capture)
    objects = [text for block in runs.objects(numbers) for text in block]
    lines = [line for block in runs.lines(numbers) for line in block]
    for number, text, line in zip(numbers, objects, lines, strict=True):
        view = capture.message(number)
        assert text == dumps(record(capture, view, fields=True))
        assert line == "\t".join(list_cells(capture, view))
    return [json.loads(text) for text in objects]


def column_fields(one: dict, part: str = "new") -> list[dict]:
    return [f for f in one["fields"] if "state" in f and f".{part}.columns[" in f["path"]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [(TEXT, TEXTS), (INT4, INTEGERS), (FLOAT8, FLOATS), *OTHERS.items()],
    ids=lambda v: str(v) if isinstance(v, int) else "",
)
def test_values_of_one_type(kind: int, values: list[bytes], tmp_path: Path) -> None:
    columns = [("id", INT4), ('odd "näme"%d\\', kind), ("last", TEXT)]
    changes = [BEGIN, described(16400, "tab%s", columns)]
    sent: list[bytes] = []
    for _ in range(12):  # often enough that nothing is new any more
        for value in values:
            sent.append(value)
            changes.append(b"I" + struct.pack("!I", 16400) + b"N" + row([b"7", value, b"end"]))
    capture = made(tmp_path, changes)
    objects = [o for o in same(capture) if o["path"][-1] == "Insert"]
    assert len(objects) == len(sent)
    for one, value in zip(objects, sent, strict=True):
        first, field, last = column_fields(one)
        assert (first["value"], last["value"]) == ("7", "end")
        assert field["length"] == len(value)
        assert field["column"] == 'odd "näme"%d\\'
        try:
            assert field["value"] == value.decode()
        except UnicodeDecodeError:
            assert field["value"] == value.decode("latin-1").replace("\xff", "\\xff").replace(
                "\xfe", "\\xfe"
            )


@pytest.mark.parametrize(("few", "cells"), [(FEW, CELLS), (1, 50), (1 << 20, 1000)])
def test_states_mixed_at_random(
    few: int, cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of several widths, some wide, with columns that have values, none, and unchanged ones; keys
    and old rows before the new ones; rows in any order; all by columns, and each by itself."""
    monkeypatch.setattr("dissector.rowcolumns.FEW", few)
    monkeypatch.setattr("dissector.rowcolumns.CELLS", cells)
    chance = random.Random(3)
    tables: dict[int, list[tuple[str, int]]] = {}
    changes = [BEGIN]
    for oid, width in ((16401, 1), (16402, 5), (16403, 21), (16404, 40), (16405, 64)):
        kinds = [chance.choice([TEXT, INT4, FLOAT8, NUMERIC, BOOL]) for _ in range(width)]
        tables[oid] = [(f"c{i}", kind) for i, kind in enumerate(kinds)]
        changes.append(described(oid, f"t{width}", tables[oid]))
    pools = {TEXT: TEXTS, INT4: INTEGERS, FLOAT8: FLOATS, **OTHERS}
    wanted: list[tuple[str, Row]] = []

    def values(oid: int, states: str) -> Row:
        share = chance.random()
        return [
            chance.choice(states) if chance.random() < share else chance.choice(pools[kind][:16])
            for _, kind in tables[oid]
        ]

    for _ in range(160):
        oid = chance.choice(list(tables))
        head = struct.pack("!I", oid)
        key: Row = [b"1", *["n"] * (len(tables[oid]) - 1)]
        new = values(oid, "nu")
        changes.append(chance.choice([
            b"I" + head + b"N" + row(new),
            b"U" + head + b"N" + row(new),
            b"U" + head + b"K" + row(key) + b"N" + row(new),
            b"U" + head + b"O" + row(values(oid, "n")) + b"N" + row(new),
        ]))  # fmt: skip
        wanted.append(("new", new))
        if chance.random() < 0.2:
            old = values(oid, "n")
            changes.append(b"D" + head + chance.choice([b"K" + row(key), b"O" + row(old)]))
            wanted.append(("old", old if changes[-1][5:6] == b"O" else key))
    capture = made(tmp_path, changes)
    objects = [o for o in same(capture) if o["path"][-1] in ("Insert", "Update", "Delete")]
    assert len(objects) == len(wanted)
    for one, (part, sent) in zip(objects, wanted, strict=True):
        found = column_fields(one, part)
        assert len(found) == len(sent)
        for field, value in zip(found, sent, strict=True):
            if isinstance(value, bytes):
                assert (field["state"], field["length"]) == ("text", len(value))
            else:
                assert field["state"] in {"n": ("null", "not sent"), "u": ("unchanged",)}[value]
    backwards = list(range(capture.count, 0, -7))
    same(capture, backwards)


def opened_by(capture: Capture, fields: bool = True, payload: bool = False) -> set[int]:
    """Numbers of the messages that the objects' writer opens."""
    runs, found = Runs(capture, fields=fields, payload=payload), set()
    message = runs.message

    def counted(number: int):
        found.add(number)
        return message(number)

    runs.message = counted  # type: ignore[method-assign]
    list(runs.objects(list(range(1, capture.count + 1))))
    return found


def test_all_of_a_kind_have_the_same_finding(tmp_path: Path) -> None:
    """Messages that the client's protocol version does not have, some with more that is wrong."""
    sent: list[tuple[bytes, str]] = []  # with the code of what else is wrong
    for i in range(1, 40):
        begin = b"b" + struct.pack("!QQ", i, i + 8)
        rollback = b"r" + struct.pack("!BQQqqI", 0, i, i, 10**15, 10**15 + i, i)
        usual = [
            b"S" + struct.pack("!IB", i, 1),
            b"E",
            b"A" + struct.pack("!II", i, i + 1),
            b"c" + struct.pack("!IBQQq", i, 0, i, i + 8, 10**15 + i),
            begin + struct.pack("!qI", 10**15 + i, i) + b'gid "%d\0' % i,
            rollback + b"g\\%d\0" % i,
            rollback + b"\xff%d\0" % i,
        ]
        wrong = [
            (b"S" + struct.pack("!IB", i, 7), "unknown-value"),
            (b"E" + bytes(i), "trailing-bytes"),
            (b"A" + struct.pack("!II", i, i + 1) + b"more", "trailing-bytes"),
            (b"A" + struct.pack("!I", i), "cut-short"),
            (b"c" + struct.pack("!IBQQq", i, 4, i, i + 8, 10**15 + i), "constant-differs"),
            (b"c" + struct.pack("!IBQQq", i, 0, i, i + 8, 0), "time-unset"),
            (begin + struct.pack("!qI", 10**15 + i, i) + b"not ended", "unterminated-string"),
            (begin + struct.pack("!qI", 0, i) + b"gid\0", "time-unset"),
        ]
        sent += [(body, "") for body in usual]
        sent.append(wrong[i % len(wrong)])
    capture = made(tmp_path, [body for body, _ in sent])
    objects = [o for o in same(capture) if "XLogData" in o["path"]]
    names = {"S": "Stream Start", "E": "Stream Stop", "A": "Stream Abort", "c": "Stream Commit"}
    for one, (body, code) in zip(objects, sent, strict=True):
        first, *others = one["findings"]
        # behind tag and length of CopyData, and the 25 bytes of XLogData
        assert (first["severity"], first["offset"]) == ("warning", 5 + 25)
        name = names.get(chr(body[0]))
        assert first["code"] == ("stream-outside" if name else "newer-than-proto")
        assert name is None or first["text"].startswith(f"{name} outside a streaming session")
        assert code in [f["code"] for f in others] if code else not others
        if body == b"E":
            assert one["summary"] == first["text"]
        elif not others:
            assert one["summary"].endswith(f" [{first['text']}]") or one["summary"][-1] == "…"
    usual_ones = {o["number"] for o, (_, code) in zip(objects, sent, strict=True) if not code}
    # one of each kind, and a Stream Start in a stream
    assert len(opened_by(capture) & usual_ones) <= 6 + 1
    same(capture, list(range(capture.count, 0, -3)))


def test_descriptions_in_streams_come_again(tmp_path: Path) -> None:
    """The same table described in transaction after transaction: only the xid in front differs."""
    columns = [("id", INT4), ("name", TEXT)]
    one, two = described(16400, "one", columns), described(16401, "t" * 60, columns)
    changes: list[bytes] = []
    sent: list[int] = []
    for i in range(60):
        xid = 7 ** (i % 11) + i
        sent.append(xid)
        mark = struct.pack("!I", xid)
        changes.append(b"S" + mark + bytes([i < 11]))
        changes += [each[:1] + mark + each[1:] for each in (one, two)]
        changes.append(b"T" + mark + struct.pack("!IBII", 2, 1 + i % 2, 16400, 16401))
        changes.append(b"E")
    capture = made(tmp_path, changes, STREAMING)
    objects = same(capture)
    for name in ("Relation", "Truncate"):
        found = [o for o in objects if o["path"][-1] == name]
        number = 2 if name == "Relation" else 1
        assert [o["xid"] for o in found] == [xid for xid in sent for _ in range(number)]
        for each in found:
            (xid,) = (f for f in each["fields"] if f["path"].endswith(f"{name}.xid"))
            assert (xid["value"], xid["display"]) == (each["xid"], str(each["xid"]))
            assert (f"xid={each['xid']} " in each["summary"]) == (name == "Truncate")
        opened = opened_by(capture) & {o["number"] for o in found}
        assert len(opened) <= 2 * 2 + 2


@pytest.mark.parametrize("held", [HELD, 1000])
@pytest.mark.parametrize("file", [True, False])
def test_parts_of_blocks_come_in_order(held: int, file: bool, tmp_path: Path) -> None:
    """Results larger than what a process may hold, in several parts, and empty ones."""
    blocks = list(range(23))

    def work(some):
        for block in some:
            for part in range(block % 4):
                yield b"%d.%d;" % (block, part) * 400
            yield b""

    wanted = b"".join(b"%d.%d;" % (b, p) * 400 for b in blocks for p in range(b % 4))
    if not file:
        assert b"".join(in_order(blocks, work, 3)) == wanted
        return
    with (tmp_path / "out").open("wb") as out:
        write_in_order(out, blocks, work, 3, held=held)
    assert (tmp_path / "out").read_bytes() == wanted


@pytest.mark.parametrize(("name", "most"), [("PIECES", 20), ("OWN", 1000)])
def test_parts_of_a_block_are_whole_objects(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"dissector.objects.{name}", most)
    with open_capture([str(transforms.CAPTURES / "pg16-proto4.pcap")]) as capture:
        capture.read()
        numbers = [list(range(1, 101)), list(range(101, 131))]
        parts = list(Objects(Runs(capture)).blocks(numbers))
    assert parts.count(b"") == 2
    first = b"".join(map(joined, parts[: parts.index(b"")]))
    found = [json.loads(line)["number"] for line in first.splitlines()]
    assert found == numbers[0]
    assert [joined(part)[-1:] for part in parts if part] == [b"\n"] * (len(parts) - 2)
    assert len(parts) > 10


def test_an_unknown_message_is_named_by_its_own_byte(tmp_path: Path) -> None:
    """Messages of one byte are alike in all but that."""
    sent = [0xA5, 0x0A, 0xA5, 0x0B]
    objects = same(made(tmp_path, [bytes([tag]) for tag in sent]))
    found = [o["findings"][0]["text"] for o in objects if o["path"][-1] == "Unknown"]
    assert [text.split()[-1] for text in found] == [f"0x{tag:02x}" for tag in sent]


def test_bytes_that_a_part_shares_with_no_other_are_counted() -> None:
    """With payloads, all of an object's bytes are its own: so much is held until it is written."""
    with open_capture([str(transforms.CAPTURES / "pg16-proto4.pcap")]) as capture:
        capture.read()
        runs = Runs(capture)
        for fields in (True, False):
            objects = Objects(runs, fields=fields, payload=True)
            parts = list(filter(None, objects.blocks([list(range(1, capture.count + 1))])))
            assert [part.own for part in parts] == [len(joined(part)) for part in parts]


@pytest.mark.parametrize("most", [None, 7, 5000])
def test_pieces_come_in_order_whatever_is_taken_at_once(
    most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pieces than a system takes in one call, and calls that write only a part of them."""
    if most is not None:
        monkeypatch.setattr(os, "writev", lambda to, some: os.write(to, b"".join(some)[:most]))
    blocks = list(range(9))

    def work(some):
        for block in some:
            yield Pieces(b"%d.%d;" % (block, i) for i in range(block * 400))
            yield b"text;" * block
            yield b""

    wanted = b"".join(
        b"".join(b"%d.%d;" % (b, i) for i in range(b * 400)) + b"text;" * b for b in blocks
    )
    assert b"".join(in_order(blocks[1:], work, 3)) == wanted
    with (tmp_path / "out").open("wb") as out:
        write_in_order(out, blocks[1:], work, 3)
    assert (tmp_path / "out").read_bytes() == wanted


def test_numbers_of_any_size_as_text() -> None:
    """LSNs are two hexadecimal numbers without zeros in front; times are microseconds since 2000."""
    assert lsns([0, 0x1_0000_0000, 0xFFFF_FFFF, 0xF_0000_000A, 2**64 - 1, 0xABC_0012_3400]) == [
        b"0/0", b"1/0", b"0/FFFFFFFF", b"F/A", b"FFFFFFFF/FFFFFFFF", b"ABC/123400",
    ]  # fmt: skip
    chance = random.Random(2)
    many = [chance.getrandbits(chance.choice([4, 31, 32, 33, 36, 63, 64])) for _ in range(3000)]
    assert lsns(many) == [b"%X/%X" % divmod(value, 1 << 32) for value in many]
    assert lsns([]) == times([]) == []
    day = 86_400_000_000
    assert times([1, day - 1, day + 1_000_000, 31 * day + 10]) == [
        b"2000-01-01 00:00:00.000001 UTC", b"2000-01-01 23:59:59.999999 UTC",
        b"2000-01-02 00:00:01 UTC", b"2000-02-01 00:00:00.000010 UTC",
    ]  # fmt: skip
    odd = [0, -1, 999_999, 1_000_000, 1_000_001, HIGH - 1, HIGH, HIGH + 1, 2**63 - 1, -(2**63)]
    odd += [chance.randrange(-(2**63), 2**63) for _ in range(300)]
    assert times(odd) == [display.timestamp(value).encode() for value in odd]


def test_heads_of_messages_of_one_kind_that_differ(tmp_path: Path) -> None:
    """Numbers that are the same in all, in some, or that change how long the text is; LSNs that are not
    what the header says."""
    changes, sent = [], []
    for i in range(60):
        start = [0, 1 << 32, 0xFFFF_FFFF, 2**64 - 1, 77][i % 5]
        times_ = [1, 10**15, 10**15 + 1, -5, 2**62][i % 5] if i % 2 else 10**15
        end = start if i % 3 else start ^ 255
        body = b"B" + struct.pack("!QqI", i % 4, 10**15 + i % 3, [1, 2**32 - 1][i % 2])
        changes.append(message("d", b"w" + struct.pack("!QQq", start, end, times_) + body))
        sent.append((start, end, times_, i % 4, 10**15 + i % 3))
    capture = made_of(tmp_path, changes, OPTIONS)
    objects = [o for o in same(capture) if o["path"][-1] == "Begin"]
    assert len(objects) == len(sent)
    names = ("start_lsn", "end_lsn", "send_time", "final_lsn", "commit_time")
    for one, values in zip(objects, sent, strict=True):
        fields = {f["name"]: f["value"] for f in one["fields"]}
        assert tuple(fields[name] for name in names) == values
    same(capture, list(range(capture.count, 0, -2)))


def test_rows_of_many_tables_are_made_together(tmp_path: Path) -> None:
    """Tables whose names and numbers are all that differs, in turn; xids that are numbers of tables."""
    names = [
        "plain",
        "100%",
        "%s %d %b",
        'say "x"',
        "it's",
        "Z\u00f6e",
        "back\\slash",
        "columns[3]",
    ]
    tables = {16400 + i: name for i, name in enumerate(names)}
    rng = random.Random(7)
    changes: list[bytes] = []
    sent: list[tuple[str, int, int, bytes]] = []
    for xid in (16400, 16403, 9, 16400):
        mark = struct.pack("!I", xid)
        changes.append(b"S" + mark + b"\1")
        for oid, name in tables.items():
            body = described(oid, name, [("id", INT4)])
            changes.append(b"R" + mark + body[1:])
        for i in range(60):
            oid = rng.choice(list(tables))
            letter, value = rng.choice("ID"), b"%d" % rng.choice([7, i])
            tuples = (b"N" if letter == "I" else b"K") + row([value])
            changes.append(letter.encode() + mark + struct.pack("!I", oid) + tuples)
            sent.append((letter, xid, oid, value))
        changes += [b"E"]
    capture = made(tmp_path, changes, STREAMING)
    objects = [o for o in same(capture) if o["path"][-1] in ("Insert", "Delete")]
    for one, (letter, xid, oid, value) in zip(objects, sent, strict=True):
        fields = {f["name"]: f for f in one["fields"]}
        assert one["path"][-1][0] == letter
        assert one["relation"] == f"public.{tables[oid]}"
        assert (fields["xid"]["value"], fields["xid"]["display"]) == (xid, str(xid))
        assert fields["relation_oid"]["value"] == oid
        assert tables[oid] in fields["relation_oid"]["display"].replace("\\\\", "\\")
        assert fields["value"]["value"] == value.decode()
    same(capture, list(range(capture.count, 0, -3)))


def test_caches_are_bounded_while_two_threads_fill_them() -> None:
    """As a search and an export in the interface do."""
    keeper = _Keeper(1)

    class Cache(dict):
        def clear(self) -> None:
            other = Thread(target=keeper.keep, args=({},))
            other.start()
            other.join(0.02)  # it may wait until this is over
            super().clear()

    full = Cache(a=1)
    for cache in (full, {}, {}):
        keeper.keep(cache)
    assert not full
    keeper.keep(full)
    full["b"] = 2  # what came in while all were emptied
    keeper.keep(full)
    keeper.keep({})
    assert not full
