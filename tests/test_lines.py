"""Lines of lists, written by columns: what they say is what was sent, wherever their cells begin and end."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from test_objects import BEGIN, INT4, OPTIONS, TEXT, change, described, made, message, row, same
from transforms import CAPTURES, conversation, frames, pcap, resegmented

from dissector import export, selection
from dissector.report import list_cells
from dissector.runs import Runs
from dissector.selection import in_blocks, numbers, parts
from dissector.slots import (
    Known,
    Slots,
    Texts,
    decimal,
    ended,
    hexadecimal,
    last_bytes,
    left,
    marked,
)
from dissector.view import Capture, open_capture

OID = 16400
FLOAT8 = 701
WIDTH, VALUE = 160, 40


def lines_of(capture: Capture, wanted: list[int] | None = None) -> list[list[str]]:
    chosen = wanted or range(1, capture.count + 1)
    return [line.split("\t") for block in Runs(capture).lines(chosen) for line in block]


def changes_of(capture: Capture, name: str) -> list[str]:
    return [cells[7] for cells in lines_of(capture) if cells[3].endswith(f".{name}")]


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def said(values: list[bytes | str], names: list[str], numeric: set[int] = frozenset()) -> str:  # type: ignore[assignment]
    """What a summary says of the columns of a tuple that has letters of one byte only."""
    shown = []
    for i, (value, name) in enumerate(zip(values, names, strict=True)):
        if isinstance(value, str):
            shown.append(f"{name}={'NULL' if value == 'n' else 'unchanged TOAST'}")
        elif i in numeric:
            shown.append(f"{name}={value.decode()}")
        else:
            shown.append(f"{name}='{cut(value.decode(), VALUE)}'")
    return ", ".join(shown)


# -- pieces


def test_numbers_as_cells() -> None:
    chance = random.Random(1)
    given = [
        0,
        1,
        9,
        10,
        9999,
        10_000,
        10_001,
        99_999_999,
        100_000_000,
        (1 << 32) - 1,
        65_535,
        65_536,
    ]
    given += [chance.getrandbits(chance.randrange(1, 33)) for _ in range(3000)]
    values = np.array(given, np.uint32)
    for make, wanted in ((decimal, "%d"), (hexadecimal, "%X")):
        cells, counts = make(values)
        texts = left(cells, counts).view(f"S{cells.shape[1]}")
        for value, count, text, cell in zip(given, counts, texts, cells, strict=True):
            assert bytes(text)[:count].decode() == wanted % value
            assert bytes(cell[-count:]).decode() == wanted % value
    cells, counts = decimal(np.array([0, 5], np.uint32), blank=True)
    assert counts.tolist() == [0, 1]
    assert not cells[0].any()


@pytest.mark.parametrize("given", [[0, 15, 0xFFF_FFFF], [0, 0x1000_0000, 0xFFFF_FFFF]])
def test_numbers_with_a_mark_behind_them(given: list[int]) -> None:
    cells, counts = hexadecimal(np.array(given, np.uint32))
    for value, count, end, both in zip(
        given, counts, ended(cells, counts, "/"), marked(cells, "/"), strict=True
    ):
        assert bytes(end)[: count + 1].decode() == f"{value:X}/"
        assert bytes(both)[-count - 1 :].decode() == f"{value:X}/"
    ends = last_bytes(decimal(np.array([1_000_042, 7_654_321], np.uint32))[0], 6)
    assert [bytes(each) for each in ends] == [b"000042", b"654321"]


def test_a_cell_is_written_over_by_what_follows() -> None:
    slots, rows = Slots(3), np.arange(3)
    slots.add(rows, np.array([b"abXX", b"aXXX", b"abcd"]).view("V4"), np.array([2, 1, 4]))
    slots.add_text(rows[::2], "-é")
    slots.add_texts(rows, ["x" * 100, "", "ß"])
    assert slots.size.tolist() == [105, 1, 9]
    assert slots.characters(rows).tolist() == [104, 1, 7]
    begins = np.array([0, 200, 400])
    out = np.zeros(600, np.uint8)
    slots.write(out, begins)
    shown = [bytes(out[b : b + s]).decode() for b, s in zip(begins, slots.size, strict=True)]
    assert shown == ["ab-é" + "x" * 100, "a", "abcd-éß"]


@pytest.mark.parametrize("space", [1000, 1 << 40])
def test_numbers_of_codes_are_asked_for_once(space: int) -> None:
    asked = []

    def find(code: int, place: int) -> int | None:
        asked.append((code, place))
        return {7: 0, 5: -1, 9: 3}.get(code)

    known = Known()
    assert known.of(np.array([5, 7, 7, 8, 5]), space, find).tolist() == [-1, 0, 0, -1, -1]
    assert sorted(asked) == [(5, 0), (7, 1), (8, 3)]
    asked.clear()
    assert known.of(np.array([8, 9, 7, 5]), space + 500, find).tolist() == [-1, 3, 0, -1]
    assert sorted(asked) == [(8, 0), (9, 1)]
    assert known.of(np.array([], np.int64), space, find).tolist() == []


def test_texts_of_codes() -> None:
    texts, slow = Texts(), np.zeros(4, bool)
    shown = {1: b"", 2: b"abc", 3: b"x" * 192, 4: b"y" * 193}
    lengths, cells, which = texts.of(np.array([2, 4, 1, 3]), 10, shown.__getitem__, slow)
    assert slow.tolist() == [False, True, False, False]
    for i, text in ((0, b"abc"), (2, b""), (3, b"x" * 192)):
        assert lengths[i] == len(text)
        assert cells[which[i]].tobytes().endswith(text)


# -- rows


def test_rows_by_hand(tmp_path: Path) -> None:
    chance = random.Random(2)
    names = ["id", "a", "b", "c", "d"]
    sent: list[list[bytes | str]] = []
    for i in range(1500):
        values: list[bytes | str] = [b"%d" % (i - 700)]
        for _ in names[1:]:
            size = chance.choice([0, 1, 3, 14, 15, 16, 17, 38, 39, 40, 41, 42, 90, 300])
            text = bytes(chance.choice(b'abcXYZ 09.,;:!?%{}"') for _ in range(size))
            values.append(chance.choice([text, text, text, "n", "u"]))
        sent.append(values)
    columns = [("id", INT4), *((name, TEXT) for name in names[1:])]
    changes = [b"I" + struct.pack("!I", OID) + b"N" + row(values) for values in sent]
    capture = made(tmp_path, [BEGIN, described(OID, "t", columns), *changes])
    shown = changes_of(capture, "Insert")
    wanted = [cut(f"public.t: {said(values, names, {0})}", WIDTH) for values in sent]
    assert shown == wanted
    assert sum(len(text) == WIDTH and text[-1] == "…" for text in wanted) > 100


def test_floats(tmp_path: Path) -> None:
    """As they are where they read as numbers, else in quotes."""
    plain = [
        "0",
        "-0",
        "1.5",
        "-2.25",
        "123456.789012",
        ".5",
        "5.",
        "-.5",
        "1e+300",
        "-1e-7",
        "NaN",
    ]
    odd = ["", "-", ".", "-.", "1.2.3", "--1", "1-", "1.5-", "abc", "1,5", "1\0"]
    columns = [("a", FLOAT8), ("b", INT4)]
    changes = [
        b"I" + struct.pack("!I", OID) + b"N" + row([text.encode(), b"7"])
        for _ in range(12)
        for text in plain + odd
    ]
    capture = made(tmp_path, [BEGIN, described(OID, "t", columns), *changes])
    same(capture)
    wanted = [f"public.t: a={text}, b=7" for text in plain]
    wanted += [f"public.t: a='{text}', b=7" for text in odd[:-1]]
    shown = changes_of(capture, "Insert")
    assert shown[: len(wanted)] == wanted
    assert shown[len(wanted)] == "public.t: a='1\\x00', b=7"


@pytest.mark.parametrize("letter", ["x", "ü", "€", "😀", "'", "\\"])
def test_summaries_of_every_length_around_the_cut(letter: str, tmp_path: Path) -> None:
    """The last columns are such that a summary ends, or is cut, at every place."""
    columns = [(name, TEXT) for name in "abcdef"]
    sent: list[list[bytes | str]] = []
    for last in range(30):
        for tail in range(3):
            values: list[bytes | str] = [b"x" * 39, b"y" * 41, b"z" * (20 + last)]
            values += [(letter * tail).encode(), (letter * last).encode(), b"n"]
            sent.append(values)
    changes = [b"I" + struct.pack("!I", OID) + b"N" + row(values) for values in sent]
    capture = made(tmp_path, [BEGIN, described(OID, "t", columns), *changes])
    same(capture)
    shown = {"'": "''", "\\": "\\\\"}.get(letter, letter)
    for values, text in zip(sent, changes_of(capture, "Insert"), strict=True):
        parts_ = [v.decode() for v in values if isinstance(v, bytes)]
        told = ", ".join(
            f"{name}='{cut(v, VALUE).replace(letter, shown) if letter != 'x' else cut(v, VALUE)}'"
            for name, v in zip("abcdef", parts_, strict=True)
        )
        assert text == cut(f"public.t: {told}", WIDTH)


def test_old_rows_and_keys(tmp_path: Path) -> None:
    """Tuples before the new one, of full rows and of keys only, of lengths around the cut."""
    names = [f"c{i}" for i in range(6)]
    columns = [(name, INT4 if i == 0 else TEXT) for i, name in enumerate(names)]
    sent: list[tuple[str, list[bytes | str], list[bytes | str]]] = []
    for i in range(240):
        new: list[bytes | str] = [b"%d" % i, b"a" * (i % 41), "u", b"", b"b" * (i % 7), "n"]
        old: list[bytes | str] = [b"-%d" % i, b"o" * (i % 45), "n", "n", b"q" * (i % 3), "n"]
        sent.append(("OKN"[i % 3], old, new))
    changes = []
    for i, (letter, old, new) in enumerate(sent):
        head = b"U" + struct.pack("!I", OID)
        if letter == "K":
            old[1:] = "nnnnn"
        before = b"" if letter == "N" else letter.encode() + row(old)
        changes.append(head + before + b"N" + row(new))
        if letter != "N" and i % 2:
            changes.append(b"D" + struct.pack("!I", OID) + letter.encode() + row(old))
    capture = made(tmp_path, [BEGIN, described(OID, "t", columns), *changes])
    same(capture)
    wanted = []
    for letter, old, new in sent:
        text = said(new, names, {0})
        if letter == "K":
            text = f"c0={old[0].decode()} → {text}"  # type: ignore[union-attr]
        elif letter == "O":
            text = f"{said(old, names, {0})} → {text}"
        wanted.append(cut(f"public.t: {text}", WIDTH))
    assert changes_of(capture, "Update") == wanted


def test_wide_rows_and_altered_tables(tmp_path: Path) -> None:
    """More columns than are shown, keys far behind, and a table that changes between its rows."""
    names = [f"column_{i}" for i in range(70)]
    wide = [(name, TEXT) for name in names]
    rows: list[bytes] = []
    for i in range(16):
        values: list[bytes | str] = ["n"] * 70
        values[i] = values[69 - i] = b"v%d" % i
        rows.append(b"I" + struct.pack("!I", OID) + b"N" + row(values))
        key: list[bytes | str] = ["n"] * 70
        key[40 + i] = b"7"
        rows.append(b"D" + struct.pack("!I", OID) + b"K" + row(key))
    keyed = described(OID, "wide", wide)
    short = [b"I" + struct.pack("!I", OID) + b"N" + row([b"%d" % i, b"ab"]) for i in range(16)]
    narrow = described(OID, "wide", [("x", INT4), ("y", TEXT)])
    other = described(OID, "wide", [("x", TEXT), ("other", FLOAT8)])
    capture = made(tmp_path, [BEGIN, keyed, *rows, narrow, *short, other, *short, keyed, *rows])
    same(capture)
    found = changes_of(capture, "Insert")
    assert found[16:18] == ["public.wide: x=0, y='ab'", "public.wide: x=1, y='ab'"]
    assert found[32] == "public.wide: x='0', other='ab'"
    assert (
        found[0]
        == found[48]
        == cut("public.wide: " + said([b"v0"] + ["n"] * 20, names[:21]), WIDTH)
    )


def test_more_kinds_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too much is known already, rows are opened; the next block begins anew."""
    monkeypatch.setattr("dissector.lines.MOST_ITEMS", 20)
    changes = [BEGIN]
    for i in range(8):
        changes.append(described(OID + i, f"t{i}", [("a", INT4), ("b", TEXT)]))
        for k in range(20):
            body = row([b"%d" % k, b"x"])
            changes.append(b"I" + struct.pack("!I", OID + i) + b"N" + body)
    capture = made(tmp_path, changes)
    wanted = [f"public.t{i}: a={k}, b='x'" for i in range(8) for k in range(20)]
    assert changes_of(capture, "Insert") == wanted
    lines = Runs(capture)._lines
    for _ in range(2):
        text = b"".join(lines.block(np.arange(n, n + 10)) for n in range(1, 161, 10)).decode()
        assert text.splitlines() == ["\t".join(cells) for cells in lines_of(capture)[:160]]


# -- other messages


def test_times_and_numbers_at_their_ends(tmp_path: Path) -> None:
    """Whole seconds, years of other lengths, infinity; xids and LSNs of every length."""
    times = [
        0, 1, 10**6, 10**6 + 1, -1, -(10**15), 252_455_615_999_999_999, 252_455_616_000_000_000,
        2**63 - 1, -(2**63), -(1 << 56), -63_082_281_600_000_001,
    ]  # fmt: skip
    changes = []
    for i in range(200):
        lsn, xid = (1 << (i % 64)) - 1, (1 << (i % 33)) - 1
        changes.append(b"B" + struct.pack("!QqI", lsn, times[i % len(times)], xid))
        changes.append(b"C" + struct.pack("!BQQq", 0, lsn, 1, times[-i % len(times)]))
        changes.append(b"O" + struct.pack("!Q", lsn) + b"origin %d\0" % i)
        content = bytes([65 + i % 60, i % 256]) * (i % 30)
        told = struct.pack("!BQ", i % 2, lsn) + b"prefix\0" + struct.pack("!I", len(content))
        changes.append(b"M" + told + content)
    capture = made(tmp_path, changes)
    same(capture)
    assert changes_of(capture, "Origin")[3] == "origin_lsn=0/7 name=origin 3"
    begins = changes_of(capture, "Begin")
    assert begins[2] == "final_lsn=0/3 commit_time=2000-01-01 00:00:01 UTC xid=3"
    assert begins[1] == "final_lsn=0/1 commit_time=2000-01-01 00:00:00.000001 UTC xid=1"


def test_messages_with_the_same_finding(tmp_path: Path) -> None:
    """Streams that were not asked for: each of these messages has a finding, and its line says so."""
    aborts = [b"A" + struct.pack("!II", 700 + i, 800 + i) for i in range(30)]
    broken = [a + b"more" for a in aborts[:3]]
    capture = made(tmp_path, [*aborts, *broken, *aborts])
    same(capture)
    shown = changes_of(capture, "Stream Abort")
    assert shown[0].startswith("xid=700 subxid=800 [")
    assert shown[29] == shown[0].replace("xid=700 subxid=800", "xid=729 subxid=829")


# -- selections and files


def test_any_selection_in_any_order(tmp_path: Path) -> None:
    """Blocks of other sizes, numbers far apart, out of order and twice: the same lines."""
    names = CAPTURES / "pg16-proto4.pcap", CAPTURES / "tour.pcapng", CAPTURES / "pg18-proto1.pcap"
    chance = random.Random(4)
    with open_capture([str(name) for name in names]) as capture:
        capture.read()
        whole = lines_of(capture)
        count = capture.count
        assert [cells[0] for cells in whole] == [str(n) for n in range(1, count + 1)]
        for number in range(1, count + 1, 23):
            assert tuple(whole[number - 1]) == list_cells(capture, capture.message(number))
        anyhow = [chance.randrange(1, count + 1) for _ in range(900)]
        for wanted in (
            anyhow,
            list(range(count, 0, -1)),
            list(range(5, count, 97)),
            [count],
            [3, 3],
        ):
            assert lines_of(capture, wanted) == [whole[n - 1] for n in wanted]
        lines = Runs(capture)._lines
        for size in (1, 2, 7, 333):
            made_ = b"".join(
                lines.block(np.arange(i, min(i + size, 1001))) for i in range(1, 1001, size)
            )
            assert made_.decode() == "".join("\t".join(cells) + "\n" for cells in whole[:1000])


def test_two_connections_at_once(tmp_path: Path) -> None:
    def talk(port: int, name: str, rows: int) -> list:
        start = b"START_REPLICATION SLOT s LOGICAL 0/0 " + OPTIONS + b"\0"
        startup = struct.pack("!ii", 0, 196608) + b"user\0ada\0replication\0database\0\0"
        startup = struct.pack("!i", len(startup)) + startup[4:]
        answer = message("R", bytes(4)) + message("S", b"server_version\x0018.1\0")
        told = [BEGIN, described(OID, name, [("a", INT4)])]
        told += [b"I" + struct.pack("!I", OID) + b"N" + row([b"%d" % i]) for i in range(rows)]
        sent = [(0, startup), (1, answer + message("Z", b"I")), (0, message("Q", start))]
        sent.append((1, message("W", b"\0\0\0")))
        sent.append((1, b"".join(change(body, i) for i, body in enumerate(told))))
        return resegmented(conversation(sent, client=port), 100)

    one, two = talk(40001, "one", 300), talk(40002, "two", 300)
    mixed = [packet for pair in zip(one, two, strict=True) for packet in pair]
    path = tmp_path / "two.pcap"
    path.write_bytes(pcap(frames(mixed)))
    with open_capture([str(path)]) as capture:
        same(capture.read())
        shown = [c for c in lines_of(capture) if c[3].endswith("Insert")]
    for stream, name in (("0B", "one"), ("1B", "two")):
        mine = [c[7] for c in shown if c[2] == stream]
        assert mine == [f"public.{name}: a={i}" for i in range(300)]


def test_numbers_come_as_arrays_too() -> None:
    path = CAPTURES / "pg16-proto4.pcap"
    for expression in (None, "message == Insert", [5, 3, 9]):
        for limit in (None, 0, 1, 2, 100_000):
            with open_capture([str(path)]) as capture:
                found = [n for part in parts(capture, expression, limit) for n in part.tolist()]
            with open_capture([str(path)]) as capture:
                assert list(numbers(capture, expression, limit)) == found
            if limit is not None:
                assert len(found) <= limit
    assert found == [5, 3, 9]


@pytest.mark.parametrize(
    "wanted",
    [
        range(1, 401),
        [*range(1, 71), *range(131, 191), *range(71, 131)],  # in all as many as from end to end
        [*range(200, 100, -1), *range(7, 90, 2), *range(300, 400), 5, 5],
    ],
)
def test_processes_share_any_selection(
    wanted: range | list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FIRST", 10), ("BLOCK", 20), ("SOON", 10), ("MANY", 50)):
        monkeypatch.setattr(f"dissector.runs.{name}", value)
    for module in ("runs", "parallel"):
        monkeypatch.setattr(f"dissector.{module}.processors", lambda: 3)
    with open_capture([str(CAPTURES / "pg16-proto4.pcap")]) as capture:
        capture.read()
        with (tmp_path / "out").open("wb") as out:
            Runs(capture).write(out, wanted, fields=False)
        shown = (tmp_path / "out").read_text().splitlines()
        assert shown == ["\t".join(list_cells(capture, capture.message(n))) for n in wanted]


def test_strings_of_every_length(tmp_path: Path) -> None:
    """Short and cut ones, longer than a window, with letters that are shown otherwise, of several kinds of
    messages in one block."""
    letters = ["a", "'", '"', "\\", "é", "\n", "\u202e", " "]
    sent, wanted = [], []
    for i in range(120):
        text = "n" * i
        sent.append(b"O" + struct.pack("!Q", i) + text.encode() + b"\0")
        wanted.append(f"origin_lsn=0/{i:X} name={cut(text, VALUE)}" if text else None)
        odd = letters[i % 8] * (i % 50)
        content = odd.encode() * (i % 3)
        told = struct.pack("!BQ", i % 2, i) + odd.encode() + b"\0" + struct.pack("!I", len(content))
        sent.append(b"M" + told + content)
    capture = made(tmp_path, [BEGIN, *sent])
    same(capture)
    shown = changes_of(capture, "Origin")
    assert [line for line, text in zip(shown, wanted, strict=True) if text] == wanted[1:]


def test_names_of_tables_of_every_length(tmp_path: Path) -> None:
    """Names longer than what stands before them in a line, and than is kept."""
    told = [BEGIN]
    for i in range(1, 64):
        name = ("\x01" if i % 9 == 0 else "t") * i
        told += [described(OID + i, name, [("a", INT4)])]
        told += [b"I" + struct.pack("!I", OID + i) + b"N" + row([b"7"])] * 3
        told += [b"T" + struct.pack("!iB2I", 2, 0, OID + i, OID + max(i - 1, 1))]
    capture = made(tmp_path, told)
    same(capture)
    lines = [cells for cells in lines_of(capture) if cells[3].endswith("Insert")]
    assert [cells[6] for cells in lines[::3]] == [
        "public." + ("\\x01" if i % 9 == 0 else "t") * i for i in range(1, 64)
    ]


def test_what_a_search_has_found_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [np.array(some, np.int64) for some in ([1], [], [5, 9], range(20, 25))]
    monkeypatch.setattr(selection, "WAIT", -1)
    assert [b.tolist() for b in in_blocks(iter(parts), 4, 8)] == [
        [1], [5, 9], [20, 21, 22, 23], [24],
    ]  # fmt: skip
    monkeypatch.setattr(selection, "WAIT", 1e9)
    assert [b.tolist() for b in in_blocks(iter(parts), 4, 8)] == [
        [1, 5, 9, 20],
        [21, 22, 23, 24],
    ]


@pytest.mark.parametrize("form", ["list", "ndjson", "csv"])
def test_every_writer_writes_what_a_search_has_found_before_it_goes_on(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search tells how much was written when it goes on."""
    capture = open_capture([str(CAPTURES / "pg18-proto4.pcap")]).read()
    out = BytesIO()
    written = []

    def search(*_: object) -> Iterator[np.ndarray]:
        for number in (5, 6, 7):
            yield np.array([number])
            written.append(len(out.getvalue()))

    monkeypatch.setattr(selection, "WAIT", -1)
    monkeypatch.setattr(selection, "_parts", search)
    if form == "list":
        Runs(capture).write(out, parts(capture, "xid"), fields=False)
    else:
        export._WRITERS[form](capture, out, "xid", True, False)
    assert written == sorted({0, *written} - {0})
    assert len(out.getvalue()) == written[-1]
