"""Lines of SQL sessions, written many at once: they say what was sent, and say it as the slow writer does."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import test_objects
from test_lines import cut, lines_of
from test_objects import FLOATS, INTEGERS, TEXTS, message
from test_row_objects import BOOL, FLOAT8, INT4, TEXT, data_row, description, made
from transforms import CAPTURES

from dissector.index import Options
from dissector.report import list_cells
from dissector.runs import Runs
from dissector.view import Capture, open_capture

VALUE, WIDTH = 40, 160
LETTERS = ["a", "'", '"', "\\", "é", "\n", "\u202e", "~", " ", "€"]
READY = message("Z", b"I")
HEAD = b"\0\0\2\0\0\0\0"


def checked(capture: Capture, sizes: tuple[int, ...] = (10_000, 90)) -> list[list[str]]:
    """The lines, once they are what the slow writer says, in blocks of any size."""
    wanted = [list_cells(capture, capture.message(n)) for n in range(1, capture.count + 1)]
    for size in sizes:
        lines = Runs(capture)._lines
        text = b"".join(
            bytes(lines.block(np.arange(n, min(n + size, capture.count + 1))))
            for n in range(1, capture.count + 1, size)
        )
        assert text.decode().splitlines() == ["\t".join(cells) for cells in wanted]
    return lines_of(capture)


def said(capture: Capture, name: str) -> list[str]:
    return [cells[7] for cells in checked(capture) if cells[3] == name]


def string(text: str | bytes) -> bytes:
    return (text.encode() if isinstance(text, str) else text) + b"\0"


def sized(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value


def bind(
    values: list[bytes | None], formats: tuple[int, ...] = (), portal: str = "", name: str = ""
) -> bytes:
    body = string(portal) + string(name) + struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    body += struct.pack("!h", len(values)) + b"".join(map(sized, values))
    return message("B", body + struct.pack("!hh", 1, 1))


def parse(query: str | bytes, name: str = "", kinds: tuple[int, ...] = ()) -> bytes:
    types = struct.pack(f"!h{len(kinds)}I", len(kinds), *kinds)
    return message("P", string(name) + string(query) + types)


def plain(text: str) -> str:
    return cut(text, VALUE) if text else "''"


# -- by hand


def test_strings_of_every_length(tmp_path: Path) -> None:
    """Empty, cut, longer than a window and than what is read at once; of several kinds in one block."""
    client, server, wanted = [], [], []
    targets = "'S' (prepared statement)", "'P' (portal)"
    for i in [*range(100), 163, 164, 165, 200, 1000]:
        text = "".join("select '$1\" x"[k % 13] for k in range(i))
        kinds = tuple(range(23, 23 + i % 3))
        client.append(message("Q", string(text)) + parse(text, "s" * (i % 50), kinds))
        client.append(message("E", string("p" * i) + struct.pack("!i", i % 3)))
        client.append(message("D", b"SP"[i % 2 :][:1] + string("n" * i)) + message("S"))
        server.append(message("C", string(text)) + message("1") + READY)
        server.append(message("S", string("name") + string(text)))
        told = struct.pack("!I", i) + string("chan" * (i % 5)) + string(text)
        server.append(message("A", told))
        words = f"parameter_type_count={len(kinds)} parameter_types={len(kinds)} parameter type"
        wanted += [
            f"query={plain(text)}",
            f"statement={plain('s' * (i % 50))} query={plain(text)} {words}{'s'[: len(kinds) != 1]}",
            f"portal={plain('p' * i)} max_rows={i % 3}{' (no limit)' if i % 3 == 0 else ''}",
            f"target={targets[i % 2]} name={plain('n' * i)}",
            "",
            f"command_tag={plain(text)}",
            "",
            "status='I' (idle)",
            f"name=name value={plain(text)}",
            f"process_id={i} channel={plain('chan' * (i % 5))} payload={plain(text)}",
        ]
    capture = made(tmp_path, [(0, b"".join(client)), (1, b"".join(server))])
    cells = checked(capture)
    front = [c[7] for c in cells if c[2] == "0F"][1:]
    back = [c[7] for c in cells if c[2] == "0B"][3:]
    assert front == [text for i, text in enumerate(wanted) if i % 10 < 5]
    assert back == [text for i, text in enumerate(wanted) if i % 10 >= 5]


def test_rows_by_hand(tmp_path: Path) -> None:
    """Values of every length, NULL and empty ones, numbers of all kinds; more columns than are shown."""
    columns = [("id", INT4, 0), ("ok", BOOL, 0), ("f", FLOAT8, 0), ("t", TEXT, 0)]
    wide = [(f"c{i}", INT4, 0) for i in range(30)]
    sent, wanted = [description(columns)], []
    for i in range(300):
        text = "x" * (i % 90)
        values = [b"%d" % (i - 150), b"tf"[i % 2 :][:1], None if i % 7 else b"", text.encode()]
        sent.append(data_row(values))
        empty = "NULL" if i % 7 else "''"
        shown = f"id={i - 150}, ok='{'tf'[i % 2]}', f={empty}, t='{cut(text, VALUE)}'"
        wanted.append(shown)
    sent += [message("C", b"SELECT 300\0"), READY, description(wide)]
    for i in range(40):
        sent.append(data_row([b"%d" % i] * 30))
        wanted.append(cut(", ".join(f"c{k}={i}" for k in range(21)), WIDTH))
    capture = made(tmp_path, [(0, message("Q", b"select\0")), (1, b"".join(sent))])
    assert said(capture, "DataRow") == wanted
    assert said(capture, "RowDescription")[0] == "id, ok, f, t"


def test_numbers_and_texts_in_binary(tmp_path: Path) -> None:
    """Whole numbers around the ends of what is written at once, of the right size and of others."""
    edges = [0, 1, 9, 10, 9999, (1 << 15) - 1, -1, -(1 << 15)]
    larger = [1 << 15, 99_999, (1 << 31) - 1, -(1 << 31), 123_456_789]
    largest = [1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63)]
    columns = [("s", 21, 1), ("i", INT4, 1), ("l", 20, 1), ("o", 26, 1), ("t", TEXT, 1)]
    sent, wanted = [description(columns)], []
    for i in range(200):
        s, k = edges[i % 8], (edges + larger)[i % 13]
        long, oid = (edges + larger + largest)[i % 18], (larger + largest)[i % 7] & 0xFFFFFFFF
        text = "x" * (i % 90)
        row = [struct.pack("!h", s), struct.pack("!i", k), struct.pack("!q", long)]
        sent.append(data_row([*row, struct.pack("!I", oid), text.encode()]))
        wanted.append(f"s={s}, i={k}, l={long}, o={oid}, t='{cut(text, VALUE)}'")
    sent += [data_row([b"\0" * (i % 10)] * 5) for i in range(60)]
    capture = made(tmp_path, [(0, message("Q", b"select\0")), (1, b"".join(sent))])
    assert said(capture, "DataRow")[:200] == wanted


def test_descriptions_and_what_servers_tell(tmp_path: Path) -> None:
    sent: list[bytes] = []
    names, told = [], []
    for i in range(60):
        columns = ["n" * (k * i % 60) for k in range(i)]
        sent.append(description([(name, INT4, 0) for name in columns]))
        names.append(cut(", ".join(map(plain, columns[:20])), WIDTH))
        fields = {"S": "NOTICE", "V": "NOTICE", "C": f"{i:05}", "M": "m" * i, "F": "f" * (i % 70)}
        if i % 5 == 0:
            del fields["M"]
        body = b"".join(letter.encode() + string(text) for letter, text in fields.items())
        sent.append(message("EN"[i % 2], body + b"\0"))
        told.append(" ".join(plain(fields[k]) for k in "SCM" if k in fields))
    capture = made(tmp_path, [(0, message("Q", b"select\0")), (1, b"".join(sent))])
    assert said(capture, "RowDescription") == names
    assert said(capture, "ErrorResponse") == told[::2]
    assert said(capture, "NoticeResponse") == told[1::2]


def test_what_is_bound(tmp_path: Path) -> None:
    """Parameters by their description, in text and in binary; none; and such as nothing describes."""
    types = struct.pack("!hII", 2, INT4, TEXT)
    start = [(0, parse("x", "one") + message("D", b"Sone\0") + message("S"))]
    start.append((1, message("1") + message("t", types) + message("n") + READY))
    start.append((0, parse("y", "none") + message("D", b"Snone\0") + message("S")))
    start.append((1, message("1") + message("t", struct.pack("!h", 0)) + message("n") + READY))
    client, wanted = [], []
    for i in range(90):
        text = b"v" * i if i % 4 else None
        shown = f"'{cut('v' * i, VALUE)}'" if i % 4 else "NULL"
        portal = "p" * (i % 80)
        client.append(bind([b"%d" % i, text], (), portal, "one"))
        client.append(bind([struct.pack("!i", -i), text], (1, 0), portal, "one"))
        client.append(bind([], (), portal, "none") + bind([b"1"], (), portal, "unknown"))
        wanted += [f"$1={i}, $2={shown}", f"$1={-i}, $2={shown}", "", "$1='1'"]
    capture = made(tmp_path, [*start, (0, b"".join(client))])
    assert said(capture, "Bind") == wanted


def test_passwords_stay_hidden(tmp_path: Path) -> None:
    """Wherever a hint at one stands among messages that have none."""
    client, server = [], []
    for i in range(120):
        text = f"alter role r{'r' * (i % 50)} password 'geheim'" if i % 8 == 3 else f"select {i}"
        text = text.replace("password", "PassWord") if i % 16 == 3 else text
        client.append(message("Q", string(text)) + parse(text) + parse("://" * (i % 3)))
        server.append(message("N", b"SNOTICE\0M" + string(f'running "{text}"') + b"\0"))
    parts = [(0, b"".join(client)), (1, b"".join(server))]
    capture = made(tmp_path, parts)
    lines = checked(capture)
    assert sum("(masked, 6 bytes)" in cells[7] for cells in lines) == 3 * 15
    assert not any("geheim" in cells[7] for cells in lines)
    numbers = np.repeat(np.arange(1, capture.count + 1), 3)
    assert b"geheim" not in bytes(Runs(capture)._lines.block(numbers))  # each asked for again
    path = tmp_path / "made.pcap"
    with open_capture([str(path)], Options(show_secrets=True)) as shown:
        lines = checked(shown.read())
    assert sum("geheim" in cells[7] for cells in lines) >= 30


def test_rows_of_copy_by_hand(tmp_path: Path) -> None:
    """Values of every length, empty and NULL; more columns than are shown, and such as are cut."""
    sent, wanted = [], []
    for i in range(120):
        values = [f"{i}", "v" * i, "\\N" if i % 3 else "x", "", f"n{i}"] + ["7"] * (i % 12)
        sent.append(message("d", "\t".join(values).encode() + b"\n"))
        quoted = ["NULL" if v == "\\N" else f"'{v}'" for v in values]
        wanted.append(cut(", ".join(quoted[:12]), WIDTH))
    start = [(0, message("Q", b"copy t to stdout\0")), (1, message("H", HEAD))]
    capture = made(tmp_path, [*start, (1, b"".join(sent))])
    assert said(capture, "CopyData") == wanted


# -- as the slow writer


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SHIFT_JIS_2004"])
def test_texts_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    texts = [letter * (i % 90) for i in range(12) for letter in LETTERS]
    texts += ["x" * (30 + i) + letter + "y" * 20 for i in range(14) for letter in LETTERS]
    raw = [text.encode() for text in texts] + [t for t in TEXTS if len(t) < 300]
    columns = [(text or "c", TEXT, 0) for text in texts[:25]]
    sent = [message("S", b"client_encoding\0" + string(encoding)), description(columns)]
    sent += [data_row(raw[i : i + 25]) for i in range(0, len(raw) - 25, 3)]
    sent.append(description([("a", TEXT, 0), ("b", INT4, 0)]))
    sent += [data_row([text, b"1"]) for text in raw] + [data_row([b"", t]) for t in raw]
    raw = [text.replace(b"\0", b"") for text in raw]
    sent += [message("C", text + b"\0") for text in raw]
    sent += [message("E", b"SERROR\0C" + t + b"\0M" + t + b"\0\0") for t in raw]
    sent += [message("A", b"\0\0\0\1" + t + b"\0" + t + b"\0") for t in raw]
    client = b"".join(message("Q", t + b"\0") + parse(t, "n" * len(t)) for t in raw)
    checked(made(tmp_path, [(0, client), (1, b"".join(sent))]), (10_000,))


@pytest.mark.parametrize("form", [0, 1])
def test_values_of_many_kinds(form: int, tmp_path: Path) -> None:
    """Described, and not; of more and of fewer columns than are described; in text and in binary."""
    chance = random.Random(form)
    kinds = [BOOL, INT4, FLOAT8, TEXT, 21, 20, 26, 1700, 17, 1114, 3802, 16999]
    pool = [*TEXTS[:20], *INTEGERS[:6], *FLOATS[:9], bytes(1), bytes(2), bytes(4), bytes(8)]
    pool += [struct.pack("!i", -7), struct.pack("!q", 1 << 50), struct.pack("!d", 1.5), None]
    columns = [(f"c{k}", kind, form) for k, kind in enumerate(kinds)]
    sent = []
    for some in (12, 3, 1):
        sent.append(description(columns[:some]))
        for _ in range(150):
            count = some if chance.random() < 0.9 else chance.randrange(0, 30)
            sent.append(data_row(chance.choices(pool, k=count)))
        sent += [message("C", b"SELECT\0"), READY]
    sent += [data_row(chance.choices(pool, k=chance.randrange(5))) for _ in range(60)]
    checked(made(tmp_path, [(0, message("Q", b"x\0")), (1, b"".join(sent))]))


COPIES = {
    "text": ("", "\t", "\\N"),
    "other letters": ("delimiter '|' null ''", "|", ""),
    "long null": ("null 'NOTHING'", "\t", "NOTHING"),
    "csv": ("csv", ",", ""),
    "csv of other letters": ("csv delimiter ';' quote '''' escape '\\' null '-'", ";", "-"),
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("case", COPIES)
def test_rows_of_copy(case: str, side: int, tmp_path: Path) -> None:
    """Quoted, escaped, cut anywhere, of many rows, of none; in two encodings, one after the other."""
    options, delimiter, null = COPIES[case]
    chance = random.Random(case)
    pieces = [null, null, "", "1", "two words", "x" * 39, "y" * 41, "z" * 170, "é€", "~\x01", '"']
    pieces += ["'", "\\", "\\\\", "\\n", f"\\{delimiter}", f'"{delimiter}"', f"'{delimiter}'"]
    pieces += ['"\n"', "\\\n"]
    parts = []
    for encoding in ("UTF8", "LATIN1"):
        command = f"copy t {'to stdout' if side else 'from stdin'} {options}"
        parts += [(1, message("S", b"client_encoding\0" + string(encoding)))]
        parts += [(0, message("Q", string(command))), (1, message("GH"[side], HEAD))]
        sent = []
        for _ in range(200):
            usual = pieces[: chance.choice([7, 7, 12, len(pieces)])]
            row = delimiter.join(chance.choices(usual, k=chance.choice([1, 3, 5, 14])))
            end = chance.choice(["\n"] * 9 + ["", "\n1\n", "\n\n", "\\.\n"])
            sent.append(message("d", (row + end).encode()))
        parts += [(side, b"".join(sent)), (side, message("c"))]
        parts.append((1, message("C", b"COPY 200\0") + READY))
    checked(made(tmp_path, parts), (10_000,))


def damaged(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 40)):
        at = chance.randrange(len(data))
        if chance.random() < 0.8:
            data[at] = chance.choice([0, 1, 255, chance.randrange(256), data[at] ^ 1])
        else:
            del data[at : at + chance.randrange(1, 9)]
    return bytes(data)


def session(chance: random.Random) -> tuple[bytes, bytes]:
    """What a client and a server say in a session of small commands."""
    client, server = [], [description([("a", INT4, 0), ("b", TEXT, 0)])]
    for i in range(150):
        text = chance.choice(["select 1", "", "x" * chance.randrange(120)])
        client.append(parse(text, text[:9], (23,) * (i % 3)) + bind([b"1", None], (0, 1)))
        client.append(message("D", b"P\0") + message("E", b"\0\0\0\0\1") + message("S"))
        server.append(message("1") + message("2") + data_row([b"%d" % i, text.encode()]))
        server.append(message("t", struct.pack("!hI", 1, 25)) + message("C", string(text)))
        server.append(message("N", b"SLOG\0M" + string(text) + b"\0") + READY)
    return b"".join(client), b"".join(server)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_and_cut_sessions(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    client, server = (bytearray(part) for part in session(chance))
    parts = [(0, damaged(client, chance)), (1, damaged(server, chance))]
    checked(made(tmp_path, parts), (10_000,))


def opened_by(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages are opened for the lines of all."""
    opened = []
    message_of = capture.message
    monkeypatch.setattr(capture, "message", lambda n: opened.append(n) or message_of(n))
    block = Runs(capture)._lines.block(np.arange(1, capture.count + 1))
    assert bytes(block).count(b"\n") == capture.count
    monkeypatch.undo()
    return len(opened)


ODD = {
    "status that is not known": ([], [message("Z", bytes([i])) for i in range(60, 90)]),
    "cut rows": ([], [message("D", struct.pack("!h", i % 9) + b"\0" * (i % 5)) for i in range(60)]),
    "COPY data without a COPY": ([], [message("d", b"%d\n" % i * (i % 3)) for i in range(60)]),
    "COPY data of nothing": ([(1, message("H", HEAD))], [message("d")] * 5),
    "cut COPY text": (
        [(0, message("Q", b"copy t to stdout\0")), (1, message("H", HEAD))],
        [message("d", b"%d\t\\" % i + b"x\ty"[: i % 4]) for i in range(50)],
    ),
    "CSV": (
        [(0, message("Q", b"copy t to stdout csv\0")), (1, message("H", HEAD))],
        [message("d", b'%d,"a""%d' % (i, i) + b'"\n' * (i % 4 < 3)) for i in range(50)],
    ),
    "no binary COPY data": (
        [
            (0, message("Q", b"copy t to stdout (format binary)\0")),
            (1, message("H", b"\1" + HEAD[1:])),
        ],
        [message("d", b"PGCOPY"[: i % 7] + bytes(i % 3)) for i in range(50)],
    ),
    "what a server tells": ([], [message("N", b"SLOG\0M" + b"m" * i) for i in range(60)]),
}


@pytest.mark.parametrize("case", ODD)
def test_many_odd_messages(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them is told in blocks, too: none costs what opening it costs."""
    before, some = ODD[case]
    chance = random.Random(1)
    server = b"".join(chance.choice(some) for _ in range(700))
    capture = made(tmp_path, [*before, (1, server)])
    assert capture.count > 700
    checked(capture, (10_000,))
    assert opened_by(capture, monkeypatch) < 100


@pytest.mark.parametrize("options", [test_objects.OPTIONS, b"", test_objects.STREAMING])
def test_many_odd_messages_of_replication(
    options: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty ones, of kinds that are not known, cut ones, rows of no relation or with too few columns."""
    relation = test_objects.described(16400, "t", [("a", INT4), ("b", TEXT)])
    insert = b"I" + struct.pack("!I", 16400) + b"N"
    some = [message("d"), message("d", b"?"), message("d", b"k123"), message("d", b"w" + bytes(23))]
    for i in range(20):
        some += [test_objects.change(b"", i), test_objects.change(b"?%d" % i, i)]
        some.append(test_objects.change(insert + test_objects.row([b"%d" % i]), i))
        some.append(test_objects.change(insert.replace(b"@", b"A") + test_objects.row(["n"]), i))
        some.append(test_objects.change(insert + test_objects.row([b"%d" % i, "u"])[:-1], i))
        some.append(test_objects.change(b"T" + struct.pack("!iBI", 2, 4, i), i))
    chance = random.Random(2)
    sent = [test_objects.change(relation, 0), *(chance.choice(some) for _ in range(700))]
    capture = test_objects.made_of(tmp_path, sent, options)
    assert capture.count > 700
    checked(capture, (10_000,))
    assert opened_by(capture, monkeypatch) < 150


def names_of(directory: Path) -> list[str]:
    return [str(p.relative_to(CAPTURES)) for p in sorted(directory.glob("*.pcap*"))]


@pytest.mark.parametrize("name", names_of(CAPTURES / "conversation"))
@pytest.mark.parametrize("secrets", [False, True])
def test_recorded_sessions(name: str, secrets: bool) -> None:
    """Many at once even where there are few: what is learned of the first ones is used for the others."""
    with open_capture([str(CAPTURES / name)], Options(show_secrets=secrets)) as capture:
        capture.read()
        wanted = [
            "\t".join(list_cells(capture, capture.message(n + 1))) for n in range(capture.count)
        ]
        numbers = np.resize(np.arange(1, capture.count + 1), capture.count * 9)
        assert bytes(Runs(capture)._lines.block(numbers)).decode().splitlines() == wanted * 9


def test_short_lines_after_long_windows(tmp_path: Path) -> None:
    """The first lines of a capture have the shortest heads: what a line before one leaves there is gone."""

    def closing(i: int) -> bytes:
        return message("C", b"P" + b"p" * (i % 3) * 7 + b"\0")

    make: list[Callable[[int], bytes]] = [
        closing, lambda i: message("Q", string("q" * (i % 3))), lambda i: message("S"),
    ]  # fmt: skip
    client = b"".join(make[i % 3](i // 3) for i in range(6)) + message("Q", string("long" * 9))
    capture = made(tmp_path, [(0, client)])
    wanted = ["\t".join(list_cells(capture, capture.message(n + 1))) for n in range(capture.count)]
    chance = random.Random(5)
    numbers = np.array([chance.randrange(capture.count) for _ in range(900)])
    text = bytes(Runs(capture)._lines.block(numbers + 1)).decode()
    assert text.splitlines() == [wanted[n] for n in numbers]
