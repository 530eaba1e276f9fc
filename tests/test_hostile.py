"""Hostile content, wrong states and wrong use: no traceback, no escape on the terminal, the right exit code.

Every fault that these look for was once there; each stands for its whole kind.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from transforms import CAPTURES, conversation, frames, pcap

from dissector.annotate import annotate
from dissector.cli import main
from dissector.contents import open_contents
from dissector.node import leaves
from dissector.query import QueryError
from dissector.query import compile as compiled
from dissector.records import dumps, record
from dissector.report import list_cells, write_message
from dissector.runs import Runs
from dissector.schemas import Schema
from dissector.spec import Dialect
from dissector.stats import write_stats
from dissector.view import Capture, open_capture

TOUR = CAPTURES / "tour.pcapng"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal would obey or hide; tab and newline are the writers' own."""

HOSTILE = b"\x1b[31m\x1b]0;t\x07\xe2\x80\xae\r\n\t[b]x[/b]\xff\xed\xa0\x80\\'\"\xc2\x9b"
TIME = 800_000_000_000_000


# -- what servers and clients say


def say(tag: bytes, body: bytes = b"") -> bytes:
    return tag + struct.pack(">I", len(body) + 4) + body


def startup(**parameters: bytes) -> bytes:
    pairs = b"".join(name.encode() + b"\0" + value + b"\0" for name, value in parameters.items())
    return struct.pack(">II", len(pairs) + 9, 196608) + pairs + b"\0"


def status(name: bytes, value: bytes) -> bytes:
    return say(b"S", name + b"\0" + value + b"\0")


READY = say(b"R", bytes(4)) + status(b"server_version", b"18.1") + say(b"Z", b"I")
LOGIN = [(0, startup(user=b"u", replication=b"database")), (1, READY)]
START = say(
    b"Q", b"START_REPLICATION SLOT \"s\" LOGICAL 0/0 (proto_version '1', publication_names 'p')\0"
)
BOTH = say(b"W", b"\0\0\0")


def xlog(payload: bytes) -> bytes:
    return say(b"d", b"w" + struct.pack(">QQq", 256, 256, TIME) + payload)


def begin(xid: int = 7) -> bytes:
    return xlog(b"B" + struct.pack(">QqI", 256, TIME, xid))


def relation(namespace: bytes, name: bytes, columns: Sequence[bytes]) -> bytes:
    told = b"".join(b"\0" + c + b"\0" + struct.pack(">Ii", 25, -1) for c in columns)
    head = struct.pack(">I", 5) + namespace + b"\0" + name + b"\0d"
    return xlog(b"R" + head + struct.pack(">H", len(columns)) + told)


def insert(*values: bytes) -> bytes:
    told = b"".join(b"t" + struct.pack(">I", len(v)) + v for v in values)
    return xlog(b"I" + struct.pack(">I", 5) + b"N" + struct.pack(">H", len(values)) + told)


def opened(tmp_path: Path, sent: Sequence[tuple[int, bytes]], **how: bool) -> Capture:
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames(conversation(sent, **how))))
    return open_capture([str(path)]).read()


def paths(capture: Capture) -> list[str]:
    return [capture.message(n).path[-1] for n in range(1, capture.count + 1)]


def codes(capture: Capture, number: int) -> list[str]:
    return [f.code for f in capture.message(number).found]


def shown_safely(capture: Capture) -> None:
    """All messages through all writers: safe text, leaves that tile, both lanes of the same word."""
    numbers = range(1, capture.count + 1)
    lines = [line for block in Runs(capture).lines(numbers) for line in block]
    objects = [line for block in Runs(capture).objects(numbers) for line in block]
    for number in numbers:
        view = capture.message(number)
        line = "\t".join(list_cells(capture, view))
        assert line == lines[number - 1]
        assert line.count("\t") == 7
        out = io.StringIO()
        write_message(capture, number, out, False)
        assert not OBEYED.search(line + out.getvalue())
        text = dumps(record(capture, view, fields=True))
        assert text == objects[number - 1]
        assert not OBEYED.search(text)
        at = 0
        for field in json.loads(text)["fields"]:
            assert field["offset"] == at or not field["length"]
            at += field["length"]
        assert at == len(view.data)
    for as_json in (False, True):
        out = io.StringIO()
        write_stats(capture, out, as_json)
        assert not OBEYED.search(out.getvalue())


# -- content


def test_hostile_text_in_every_field(tmp_path: Path) -> None:
    text = HOSTILE
    tuples = insert(text, text), insert(b"\x1b[31m", b"\\x1b")
    capture = opened(
        tmp_path,
        [
            (0, startup(user=text, database=text, replication=b"database", application_name=text)),
            (1, READY + status(text, text)),
            (0, START),
            (1, BOTH + say(b"N", b"SERROR\0C" + text + b"\0M" + text + b"\0\x1b" + text + b"\0\0")),
            (1, begin() + xlog(b"O" + bytes(8) + text + b"\0")),
            (1, xlog(b"Y" + struct.pack(">I", 99999) + text + b"\0" + text + b"\0")),
            (1, relation(text, text, [text, text]) + b"".join(tuples)),
            (1, xlog(b"M\1" + bytes(8) + text + b"\0" + struct.pack(">I", len(text)) + text)),
            (1, xlog(b"T" + struct.pack(">IBI", 1, 0, 5)) + xlog(b"\x1b" + text)),
            (1, say(b"A", b"\0\0\0\1" + text + b"\0" + text + b"\0") + say(b"\x1b", text)),
        ],
    )
    assert "Insert" in paths(capture)
    shown_safely(capture)


def test_names_that_do_not_decode_in_statistics(tmp_path: Path) -> None:
    sent = [*LOGIN, (0, START), (1, BOTH + begin() + relation(b"s", b"\xff", [b"a"]))]
    out = io.StringIO()
    write_stats(opened(tmp_path, sent), out, True)
    told = json.loads(out.getvalue().splitlines()[0])
    assert told["relations"] == [{"relation": "s.\\xff", "messages": 1, "bytes": 30 + 23}]


@pytest.mark.parametrize("seed", range(4))
def test_mutations_of_captures(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    names = ("pg12-latin1.pcap", "conversation/login-scram.pcap", "conversation/copy.pcap",
             "pg11-small.pcap")  # fmt: skip
    data = bytearray((CAPTURES / names[seed % len(names)]).read_bytes())
    for _ in range(rng.choice([3, 20, 60])):
        at = rng.randrange(24, len(data))
        data[at] = rng.choice([data[at] ^ 1 << rng.randrange(8), 0x1B, 0xFF, 0, 0x80])
    path = tmp_path / "mutated.pcap"
    path.write_bytes(data)
    with open_capture([str(path)]) as capture:
        shown_safely(capture.read())


@pytest.mark.parametrize("data", [b"n,,n=,r=abc,?", b"n,,\x01x", b"y,a=b,"])
def test_sasl_data_that_stops_reading_stays_whole(data: bytes) -> None:
    body = b"SCRAM-SHA-256\0" + struct.pack(">I", len(data)) + data
    message = say(b"p", body)
    dialect = Dialect(auth="AuthenticationSASL")
    tree = open_contents(annotate(message, "frontend", dialect), message, dialect, Schema(""))
    assert sum(leaf.length for leaf in leaves(tree)) == len(message)


def test_bytes_after_the_end_of_a_binary_copy(tmp_path: Path) -> None:
    rows = [b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff", b"more", b"and more"]
    sent = [*LOGIN, (0, say(b"Q", b"COPY t TO STDOUT (FORMAT binary)\0")),
            (1, say(b"H", b"\1\0\1\0\1") + b"".join(say(b"d", row) for row in rows))]  # fmt: skip
    capture = opened(tmp_path, sent)
    last = record(capture, capture.message(capture.count), fields=True)["fields"][-1]
    assert (last["name"], last["length"]) == ("after_end", len(b"and more"))
    shown_safely(capture)


def test_lists_of_nothing_and_long_summaries_in_both_lanes(tmp_path: Path) -> None:
    most = struct.pack(">QQQq", *[(1 << 63) - 1] * 3, 7)
    capture = opened(
        tmp_path,
        [*LOGIN, (0, START), (1, BOTH), (0, say(b"d", b"r" + most + b"\0") * 40),
         (1, begin() + xlog(b"T" + bytes(5)) * 40)],
    )  # fmt: skip
    assert paths(capture).count("Truncate") == 40
    shown_safely(capture)


# -- states


def test_the_server_of_a_client_whose_beginning_is_cut(tmp_path: Path) -> None:
    capture = opened(tmp_path, [(0, LOGIN[0][1][:12]), (1, READY)], fin=False)
    assert paths(capture) == [
        "StartupMessage",
        "AuthenticationOk",
        "ParameterStatus",
        "ReadyForQuery",
    ]
    assert codes(capture, 1) == ["stream-ended-early"]


def test_copydata_without_a_copy_is_shown_and_told(tmp_path: Path) -> None:
    capture = opened(tmp_path, [*LOGIN, (1, begin() + insert(b"x"))])
    assert paths(capture)[-2:] == ["CopyData", "CopyData"]
    assert codes(capture, capture.count) == ["unexpected-here"]


def test_copydata_after_an_error_ended_the_copy(tmp_path: Path) -> None:
    error = say(b"E", b"SERROR\0C57P01\0Mbye\0\0")
    capture = opened(tmp_path, [*LOGIN, (0, START), (1, BOTH + begin() + error + insert(b"y"))])
    assert paths(capture)[-3:] == ["Begin", "ErrorResponse", "CopyData"]
    assert codes(capture, capture.count) == ["unexpected-here"]


def test_rows_that_look_like_wal_stay_rows(tmp_path: Path) -> None:
    sent = [*LOGIN, (0, say(b"Q", b"COPY t TO STDOUT\0")), (1, say(b"H", b"\0\0\1\0\0") + begin())]
    assert paths(opened(tmp_path, sent))[-1] == "CopyData"


def test_a_lost_copybothresponse_costs_only_itself(tmp_path: Path) -> None:
    given = conversation([*LOGIN, (0, START), (1, BOTH), *[(1, begin() + insert(b"x"))] * 4])
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames([p for p in given if p.payload != BOTH])))
    capture = open_capture([str(path)]).read()
    assert paths(capture)[5:] == ["Begin", "Insert"] * 4
    assert codes(capture, 6)[0] == "stream-gap"


def test_a_capture_is_read_once(tmp_path: Path) -> None:
    capture = opened(tmp_path, [*LOGIN, (0, START), (1, BOTH + begin() * 3)])
    count = capture.count
    assert (capture.read().count, count) == (count, 9)
    with open_capture([str(TOUR)]) as begun:
        next(begun.batches())
        first = begun.count
        assert (begun.read().count, first > 0) == (run_count(TOUR), True)


def run_count(path: Path) -> int:
    with open_capture([str(path)]) as capture:
        return capture.read().count


# -- wrong use


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    """The command, in this process: what it wrote and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(words))
    code = ended.value.code
    assert isinstance(code, int)
    told = [stream.buffer.getvalue() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code, *told)


def shell(script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script in which "$0" is the command and "$1".. are `words`."""
    env = {**os.environ, "PYTHONPATH": str(CAPTURES.parent), **environment}
    command = [
        "bash",
        "-c",
        script.replace("PGDISSECT", f'"{sys.executable}" -m dissector'),
        "-",
        *words,
    ]
    return subprocess.run(command, capture_output=True, env=env, timeout=60, check=False)


def one_line(error: bytes) -> str:
    text = error.decode()
    assert text.startswith("pgdissect: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert not OBEYED.search(text[:-1])
    return text


@pytest.mark.parametrize("verb", ["list", "stats", "export --format ndjson", "show --number 2"])
def test_a_full_disk_is_one_line(verb: str) -> None:
    done = shell(f'PGDISSECT {verb} "$1" >/dev/full', str(TOUR))
    assert done.returncode == 1
    assert "No space left on device" in one_line(done.stderr)


def test_closed_outputs_and_inputs() -> None:
    done = shell('PGDISSECT list "$1" >&-', str(TOUR))
    assert (done.returncode, "closed" in one_line(done.stderr)) == (1, True)
    done = shell("PGDISSECT hex - <&-")
    assert (done.returncode, "closed" in one_line(done.stderr)) == (2, True)


@pytest.mark.parametrize("verb", ["show --number 3", "list", "--help", "explain --help"])
def test_a_closed_pipe_ends_quietly(verb: str) -> None:
    capture = "" if "help" in verb else '"$1"'
    script = f"{{ sleep 0.2; PGDISSECT {verb} {capture}; echo $? >&2; }} | true"
    assert shell(script, str(TOUR)).stderr == b"0\n"


def test_a_terminal_that_knows_only_ascii() -> None:
    script = 'PGDISSECT show "$1" --number 3'
    done = shell(script, str(TOUR), PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"127.0.0.1:5432 \\u2192 127.0.0.1" in done.stdout


def test_output_into_the_input_is_refused(tmp_path: Path) -> None:
    mine, link = tmp_path / "mine.pcapng", tmp_path / "link"
    shutil.copy(TOUR, mine)
    link.symlink_to(mine)
    for output in (mine, link, tmp_path / "." / "mine.pcapng"):
        done = run("export", str(mine), "--format", "ndjson", "--output", str(output))
        assert (done.returncode, "is the input" in one_line(done.stderr)) == (2, True)
    assert mine.read_bytes() == TOUR.read_bytes()


def test_a_wrong_filter_empties_no_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"kept")
    done = run("export", str(TOUR), "--format", "ndjson", "--output", str(kept), "--filter", "(")
    assert (done.returncode, kept.read_bytes()) == (2, b"kept")


def test_input_without_end_that_is_no_capture() -> None:
    done = run("stats", "/dev/zero")
    assert done.returncode == 1
    assert "not a capture" in one_line(done.stderr)


def test_numbers_out_of_any_range() -> None:
    assert run("list", str(TOUR), "--limit", "9" * 30).returncode == 2
    assert run("show", str(TOUR), "--number", "9" * 30).returncode == 2
    assert run("compare", "Relation", "\u00b25", "16").returncode == 2


def test_strict_counts_what_is_behind_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    sent = [*LOGIN, (0, START), (1, BOTH + xlog(b"I"))]
    path.write_bytes(pcap(frames(conversation(sent))))
    for limit in ("0", "1", "99"):
        assert run("list", str(path), "--strict", "--limit", limit).returncode == 3


def test_without_a_terminal_the_interface_is_a_list() -> None:
    done = run(str(TOUR))
    assert (done.returncode, done.stdout) == (0, run("list", str(TOUR)).stdout)
    assert done.stderr.startswith(b"no terminal")


def test_hostile_names_of_files_and_options() -> None:
    done = run("list", "a\x1b[31m\n\u202e\udcff.pcap")
    assert (done.returncode, one_line(done.stderr).split(":")[1]) == (
        1,
        r" a\x1b[31m\n\u202e\xff.pcap",
    )
    for words in (["--\x1b[31m"], ["list", str(TOUR), "--filter", "\x1b[31m"], ["hex", "\x1b[31m"],
                  ["explain", "\x1b[31m"]):  # fmt: skip
        done = run(*words)
        assert done.returncode in (1, 2)
        assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("text", ["insert.new.value contains \ud800", "value == \ud800", "\ud800"])
def test_half_characters_in_a_filter(text: str) -> None:
    try:
        found = compiled(text)
    except QueryError as problem:
        assert not OBEYED.search(problem.render().replace("\n", ""))
        return
    with open_capture([str(TOUR)]) as capture:
        capture.read()
        assert not sum(len(step.rows) for step in found.search(capture.index, capture.message))
