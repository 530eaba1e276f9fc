"""States that clients and servers bring each other into: refusals, errors in pipelines, failed copies,
captures begun at any frame, and secrets in every place where one can stand.

Messages are made by hand from the manual's "Message Flow" and "Message Formats"; what is expected is what
a PostgreSQL 18 server was seen to answer to the same requests.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
import recorded
import transforms
from test_secrets import forms, run
from test_session import (
    DESCRIBED,
    GSSENC,
    OK,
    READY,
    REPLICATION,
    SSL,
    STARTUP,
    VERSION,
    codes,
    message,
    opened,
    packet,
    paths,
    talk,
)

from dissector import reads
from dissector.annotate import annotate
from dissector.contents import open_contents
from dissector.index import Options
from dissector.node import Node
from dissector.records import mask, secret_ranges
from dissector.rows import DECRYPTED
from dissector.schemas import Schema
from dissector.spec import Dialect
from dissector.sql import passwords
from dissector.statements import copy_statement, divide, encoding_set
from dissector.view import Capture, MessageView

BEGUN = [(0, STARTUP), (1, OK + VERSION + READY)]
SYNC = message("S")
PARSED, BOUND, CLOSED = message("1"), message("2"), message("3")
ERROR = message("E", b"SERROR\0C22012\0Mdivision by zero\0\0")


def described(*columns: tuple[bytes, int]) -> bytes:
    body = b"".join(n + b"\0" + struct.pack("!IhIhih", 0, 0, oid, 4, -1, 0) for n, oid in columns)
    return message("T", struct.pack("!h", len(columns)) + body)


def row(*values: bytes) -> bytes:
    cells = b"".join(struct.pack("!i", len(v)) + v for v in values)
    return message("D", struct.pack("!h", len(values)) + cells)


def query(text: str, encoding: str = "utf-8") -> bytes:
    return message("Q", text.encode(encoding) + b"\0")


def parse(name: bytes, text: bytes) -> bytes:
    return message("P", name + b"\0" + text + b"\0\0\0")


def bind(portal: bytes, name: bytes, *results: int) -> bytes:
    formats = struct.pack(f"!h{len(results)}h", len(results), *results)
    return message("B", portal + b"\0" + name + b"\0\0\0\0\0" + formats)


def describe(kind: bytes, name: bytes) -> bytes:
    return message("D", kind + name + b"\0")


def execute(portal: bytes = b"", most: int = 0) -> bytes:
    return message("E", portal + b"\0" + struct.pack("!i", most))


def close(kind: bytes, name: bytes) -> bytes:
    return message("C", kind + name + b"\0")


def complete(tag: str) -> bytes:
    return message("C", tag.encode() + b"\0")


def rows(views: list[MessageView]) -> list[list[tuple[str, object]]]:
    """Names and values of each DataRow."""
    return [
        list(zip((c.name for c in v.schema.columns), recorded.values(v), strict=True))
        for v in views
        if v.path == ("DataRow",)
    ]


PREPARED = [
    *BEGUN,
    (0, parse(b"s1", b"SELECT id, name FROM g") + describe(b"S", b"s1") + SYNC),
    (1, PARSED + message("t", b"\0\0") + described((b"id", 23), (b"name", 25)) + READY),
]
ASKED = (0, bind(b"", b"s1", 1, 0) + execute() + SYNC)
GIVEN = (1, BOUND + row(struct.pack("!i", 7), b"n7") + complete("SELECT 1") + READY)
WANTED = [[("id", 7), ("name", "n7")]]


# -- extended queries


def test_a_refused_parse_leaves_the_old_statement(tmp_path: Path) -> None:
    again = (0, parse(b"s1", b"SELECT ok FROM g") + bind(b"", b"s1") + execute() + SYNC)
    views = talk(tmp_path, *PREPARED, again, (1, ERROR + READY), ASKED, GIVEN)
    assert rows(views) == WANTED
    assert codes(views) == []


def test_a_skipped_close_closes_nothing(tmp_path: Path) -> None:
    failing = parse(b"", b"SELECT 1/0") + bind(b"", b"") + execute()
    skipped = close(b"S", b"s1") + parse(b"s1", b"SELECT 'x'")
    together = (0, failing + skipped + SYNC + ASKED[1])
    views = talk(tmp_path, *PREPARED, together, (1, PARSED + BOUND + ERROR + READY + GIVEN[1]))
    assert rows(views) == WANTED


def test_what_is_sent_before_the_client_knows_is_skipped_too(tmp_path: Path) -> None:
    failing = (0, parse(b"", b"SELECT 1/0") + bind(b"", b"") + execute() + message("H"))
    late = (0, close(b"S", b"s1") + parse(b"s1", b"SELECT 'x'") + bind(b"", b"s1") + SYNC)
    views = talk(
        tmp_path, *PREPARED, failing, (1, PARSED + BOUND + ERROR), late, (1, READY), ASKED, GIVEN
    )
    assert rows(views) == WANTED


def test_a_close_that_was_answered_closes(tmp_path: Path) -> None:
    closing = [(0, close(b"S", b"s1") + SYNC), (1, CLOSED + READY)]
    views = talk(tmp_path, *PREPARED, *closing, ASKED, GIVEN)
    assert [v.schema.columns for v in views if v.path == ("DataRow",)] == [()]


@pytest.mark.parametrize(
    "text", ["DEALLOCATE s1", 'DEALLOCATE PREPARE "s1"', "deallocate all", "DISCARD ALL;"]
)
def test_sql_takes_statements_away(tmp_path: Path, text: str) -> None:
    views = talk(
        tmp_path, *PREPARED, (0, query(text)), (1, complete("DEALLOCATE") + READY), ASKED, GIVEN
    )
    assert [v.schema.columns for v in views if v.path == ("DataRow",)] == [()]


def test_statements_and_portals_made_by_sql(tmp_path: Path) -> None:
    columns = described((b"id", 23), (b"name", 25))
    views = talk(
        tmp_path, *BEGUN,
        (0, describe(b"S", b"s1") + SYNC), (1, message("t", b"\0\0") + columns + READY), ASKED, GIVEN,
        (0, describe(b"P", b"cursor") + execute(b"cursor", 1) + SYNC),
        (1, columns + row(b"1", b"a") + message("s") + READY),
        (0, execute(b"cursor", 1) + SYNC), (1, row(b"2", b"b") + message("s") + READY),
    )  # fmt: skip
    assert rows(views)[1:] == [[("id", 1), ("name", "a")], [("id", 2), ("name", "b")]]
    assert rows(views)[:1] == WANTED


# -- COPY

SEVERAL = (
    "SELECT ';'; COPY a FROM STDIN (FORMAT csv); /* ; */ COPY b FROM STDIN; -- ;\n;;"
    "COPY a TO STDOUT (DELIMITER '|'); DO $x$ ; $x$; COPY \"b;\" TO STDOUT (FORMAT csv)"
)


def test_statements_are_divided() -> None:
    assert list(divide(SEVERAL)) == [
        "SELECT ';'", "COPY a FROM STDIN (FORMAT csv)", "COPY b FROM STDIN",
        "COPY a TO STDOUT (DELIMITER '|')", "DO $x$ ; $x$", 'COPY "b;" TO STDOUT (FORMAT csv)',
    ]  # fmt: skip
    assert copy_statement(SEVERAL, 2, "F") == "COPY b FROM STDIN"
    assert copy_statement(SEVERAL, 5, "B") == 'COPY "b;" TO STDOUT (FORMAT csv)'
    assert encoding_set("SET client_encoding TO 'LATIN1'", 0) == "LATIN1"
    assert encoding_set("SELECT 1; SET NAMES sjis", 1) == "sjis"
    assert encoding_set("SELECT 1; SET NAMES sjis", 0) == ""


def cell(view: MessageView, column: Node) -> bytes:
    """The value of a column, which comes after the separator."""
    value = (column.children or [column])[-1]
    return view.data[value.start : value.end]


def test_each_copy_of_a_query_has_its_own_format(tmp_path: Path) -> None:
    into, out, text = (
        message("G", b"\0\0\2\0\0\0\0"),
        message("H", b"\0\0\2\0\0\0\0"),
        complete("COPY 1"),
    )
    views = talk(
        tmp_path, *BEGUN, (0, query(SEVERAL)), (1, DESCRIBED + row(b"1") + complete("SELECT 1") + into),
        (0, message("d", b"1,\"x,y\"\n") + message("c")), (1, text + into),
        (0, message("d", b"5,\tq\n") + message("c")),
        (1, text + out + message("d", b"1|x,y\n") + message("c") + text + complete("DO") + out
         + message("d", b"5|,q\n") + message("c") + text + READY),
    )  # fmt: skip
    cells = [
        [cell(v, c)
         for n in recorded.nodes(v) if n.name == "columns" and n.index < 0 for c in n.children or []]
        for v in views if v.path == ("CopyData",)
    ]  # fmt: skip
    assert cells == [[b"1", b'"x,y"'], [b"5,", b"q"], [b"1", b"x,y"], [b"5|", b"q"]]
    assert codes(views) == []


def test_rows_sent_after_a_copy_failed_are_rows(tmp_path: Path) -> None:
    data = message("d", b"1\tone\n")
    views = talk(
        tmp_path, *BEGUN, (0, query("COPY t FROM STDIN")), (1, message("G", b"\0\0\2\0\0\0\0")),
        (0, data), (1, ERROR + READY), (0, data + data + message("c")),
        (0, query("SELECT 1")), (1, DESCRIBED + row(b"1") + complete("SELECT 1") + READY),
    )  # fmt: skip
    assert [v.dialect.copy for v in views if v.path[0] == "CopyData"] == ["rows"] * 3
    assert paths(views)[-4:] == ["RowDescription", "DataRow", "CommandComplete", "ReadyForQuery"]
    assert codes(views) == []


# -- encodings


def test_set_client_encoding_before_its_parameter_status(tmp_path: Path) -> None:
    described_text = described((b"\xf6", 25))
    status = message("S", b"client_encoding\0LATIN1\0")
    begun = [(0, STARTUP), (1, OK + VERSION + message("S", b"client_encoding\0UTF8\0") + READY)]
    views = talk(
        tmp_path, *begun, (0, query("SET client_encoding TO latin1; SELECT 'é'")),
        (1, complete("SET") + described_text + row(b"\xe9") + complete("SELECT 1") + status + READY),
        (0, query("BEGIN; SET NAMES 'SJIS'; SELECT 1/0")),
        (1, complete("BEGIN") + complete("SET") + ERROR + READY),  # the server takes it back, silently
        (0, query("SELECT 'é'", "latin1")),
        (1, described_text + row(b"\xe9") + complete("SELECT 1") + READY),
    )  # fmt: skip
    assert rows(views) == [[("ö", "é")]] * 2


# -- captures begun in the middle


def cut(packets: list[transforms.Packet], before: bytes) -> list[transforms.Packet]:
    """The packets from the first on that carries `before`."""
    first = next(i for i, p in enumerate(packets) if p.payload == before)
    return packets[first:]


def test_a_refusal_whose_request_is_not_captured(tmp_path: Path) -> None:
    talked = transforms.conversation(
        [(0, GSSENC), (1, b"N"), (0, SSL), (1, b"N"), (0, STARTUP), (1, OK + VERSION + READY)]
    )
    views = opened(tmp_path, cut(talked, b"N"))
    start = ["GSSENCResponse", "SSLRequest", "SSLResponse", "StartupMessage", "AuthenticationOk"]
    assert paths(views)[:5] == start
    assert (views[0].assumed, codes(views)) == (True, [])
    after = [p for p in cut(talked, SSL) if p.payload != SSL]
    assert paths(opened(tmp_path, after))[:2] == ["SSLResponse", "StartupMessage"]


def test_tls_whose_request_is_not_captured(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    talked = transforms.packets(recorded.path_of("tls13-chacha"))
    first = next(i for i, p in enumerate(talked) if p.payload == b"S")
    path.write_bytes(transforms.pcap(transforms.frames(talked[first:]), nano=True))
    keys = recorded.path_of("tls13-chacha").with_suffix(".keylog")
    whole = [v.path for v in recorded.views("tls13-chacha") if v.row.flags & DECRYPTED]
    with Capture([str(path)], Options(keylog=str(keys))) as found:
        found.read()
        views = [found.message(n) for n in range(1, found.count + 1)]
        assert [v.path for v in views if v.row.flags & DECRYPTED] == whole
        assert views[0].path == ("SSLResponse",)
        assert codes(views) == []


def test_a_wrong_guess_is_taken_back(tmp_path: Path) -> None:
    keepalive = message("d", b"k" + bytes(16) + b"\0")  # or a row of 18 bytes
    lines = [message("d", b"%d\tword %d\n" % (i, i)) for i in range(40)]
    sent = [(1, keepalive + b"".join(lines)), (0, query("SELECT 1")), (1, message("c") + READY)]
    views = opened(tmp_path, transforms.conversation(sent, handshake=False))
    wrong = [v for v in views if v.path[0] == "CopyData" and len(v.path) > 1]
    assert len(wrong) <= 1
    assert {v.assumed for v in wrong} <= {True}
    assert not {"unknown-message", "cut-short"} & set(codes(views))


def test_a_key_log_with_the_handshake_alone(tmp_path: Path) -> None:
    source = recorded.path_of("tls13-chacha")
    lines = source.with_suffix(".keylog").read_text().splitlines()
    keys = tmp_path / "keys"
    keys.write_text("\n".join(x for x in lines if "TRAFFIC_SECRET_0" not in x) + "\n")
    with Capture([str(source)], Options(keylog=str(keys))) as found:
        found.read()
        views = [found.message(n) for n in range(1, found.count + 1)]
        assert not any(v.row.flags & DECRYPTED for v in views)
        told = codes(views) + [f.code for i in found.index.connections.values() for f in i.found]
        assert "tls-no-keys" in told


def test_the_protocol_is_told_where_it_was_said(tmp_path: Path) -> None:
    views = talk(tmp_path, (0, SSL), (1, b"N"))
    assert "protocol" not in views[0].connection.header
    assert talk(tmp_path, *BEGUN)[0].connection.header["protocol"] == "3.0"
    assert talk(tmp_path, (0, REPLICATION), BEGUN[1])[0].connection.header["protocol"] == "3.0"


# -- secrets

STATEMENTS = (
    "ALTER ROLE u PASSWORD 'geheim'",
    "ALTER ROLE u ENCRYPTED PASSWORD U&'geheim'",
    "ALTER ROLE u PASSWORD E'\\'geheim'",
    "ALTER ROLE u PASSWORD /* why */ 'geheim'",
    "ALTER ROLE u PASSWORD -- why\n $$geheim$$",
    "ALTER ROLE u PASSWORD 'part'\n 'geheim'",
    "ALTER ROLE u PASSWORD 'geheim",
    "DO $$BEGIN EXECUTE 'ALTER ROLE u PASSWORD ''geheim'''; END$$",
    "DO $a$BEGIN ALTER ROLE u PASSWORD 'geheim'; END$a$",
    "CREATE SUBSCRIPTION s CONNECTION 'host=h password=geheim' PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION 'host=h password=''a geheim''' PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION $$host=h sslpassword=geheim$$ PUBLICATION p",
    "CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (sslpassword 'geheim')",
    "SELECT dblink('postgresql://u:geheim@h/db', 'SELECT 1')",
    "SELECT dblink('postgresql://h/db?password=geheim&user=u', 'SELECT 1')",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_passwords_are_found_in_sql(statement: str) -> None:
    text = statement.encode()
    shown = mask(text, iter(passwords(text)))
    assert b"geheim" not in shown
    assert len(shown) == len(text)
    assert shown[:12] == text[:12]


def test_what_is_no_password_stays() -> None:
    for text in (b"SELECT password FROM t WHERE name = 'x'", b"SELECT 'password'", b"PASSWORD NULL",
                 b"SELECT $1 FROM password WHERE a = 'x'"):  # fmt: skip
        assert passwords(text) == []


def test_hostile_sql_is_walked_once() -> None:
    for text in (b"password " + b"'" * 200_001, b"password " + b"$" * 100_000, b"E'\\" * 30_000 + b"secret",
                 b"password" + b" /*" * 100_000, b"'secret $a$" * 20_000):  # fmt: skip
        for low, high in passwords(text):
            assert 0 <= low < high <= len(text)


@pytest.mark.parametrize(
    ("auth", "body"),
    [("CleartextPassword", b"a\0topsecret\0"), ("MD5Password", b"PLAIN\0\0\0\0\ttopsecret"),
     ("SASL", b"topsecret\0"), ("SASL", b"PLAIN\0\xff\xff\xff\xfftopsecret"),
     ("SASLContinue", b"topsecret\0"), ("GSS", b"topsecret"), ("", b"topsecret\0")],
)  # fmt: skip
def test_an_answer_that_does_not_read_is_masked_whole(auth: str, body: bytes) -> None:
    data = message("p", body)
    dialect = Dialect(auth=f"Authentication{auth}" if auth else "")
    tree = open_contents(annotate(data, "frontend", dialect), data, dialect, Schema(""))
    assert b"topsecret" not in mask(data, secret_ranges(tree))


def test_no_secret_in_errors_and_frames_sent_again(tmp_path: Path) -> None:
    """The server repeats a statement; TCP repeats a part of a password in the frame of a query."""
    asked = message("R", struct.pack("!i", 3))
    answer = message("p", b"vertraulich\0")
    told = message(
        "E", b"SERROR\0C42704\0Mno role\0WSQL statement \"ALTER ROLE u PASSWORD 'geheim'\"\0\0"
    )
    harmless = query("SELECT 'public'")
    talked = transforms.conversation(
        [
            (0, STARTUP),
            (1, asked),
            (0, answer),
            (1, OK + VERSION + READY),
            (0, harmless),
            (1, told + READY),
        ]
    )
    last = next(i for i, p in enumerate(talked) if p.payload == harmless)
    first = next(p for p in talked if p.payload == answer)
    again = answer[7:] + harmless  # from the password's third letter on
    talked[last] = replace(talked[last], seq=first.seq + 7, payload=again)
    views = opened(tmp_path, talked)
    assert paths(views).count("Query") == 1
    path, target = tmp_path / "made.pcap", tmp_path / "slice.pcap"
    only = ["--filter", "message in {Query, ErrorResponse}"]
    run(["export", str(path), "--format", "pcap", "--output", str(target), *only])
    fields = ["export", str(path), "--format", "ndjson", "--fields", "--payload"]
    shown = [run(["show", str(path), "--number", str(n)]) for n in range(1, len(views) + 1)]
    for output in (target.read_bytes(), run(["list", str(path)]), run(fields), b"".join(shown)):
        assert not any(form in output for word in (b"geheim", b"raulich") for form in forms(word))
        assert any(form in output for form in forms(b"public"))
    with Capture([str(target)]) as found:
        assert found.read().count >= 2


def test_the_rest_of_a_cut_statement_is_masked(tmp_path: Path) -> None:
    """A segment in the middle is missing: nobody knows what the end of the statement is."""
    whole = query("ALTER ROLE u PASSWORD" + " " * 50 + "'geheim'")
    after = query("SELECT 'public'")
    pieces = [(0, whole[:20]), (0, whole[20:40]), (0, whole[40:] + after)]
    talked = transforms.conversation([*BEGUN, *pieces, (1, complete("ALTER ROLE") + READY)])
    talked = [p for p in talked if p.payload != whole[20:40]]
    assert "message-in-gap" in codes(opened(tmp_path, talked))
    target = tmp_path / "slice.pcap"
    run(["export", str(tmp_path / "made.pcap"), "--format", "pcap", "--output", str(target)])
    assert b"geheim" not in target.read_bytes()
    assert b"public" in target.read_bytes()


def test_the_packet_helper_is_the_manuals() -> None:
    assert packet(80877103) == bytes.fromhex("0000000804d2162f")  # SSLRequest, as the manual has it


def test_what_connections_with_a_dialect_each_read_is_not_all_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client names any minor version; each makes another dialect, whose messages are kept apart."""
    monkeypatch.setattr(reads, "MOST", 50)
    kept = [reads.reads_of("backend", Dialect(protocol=0x30000 + i)) for i in range(40)]
    for i in range(20):
        for each in kept:
            data = message("C", b"SELECT %d\0" % i)
            assert each.read(data).path == ("CommandComplete",)
            assert each.kept[data].path == ("CommandComplete",)
        assert sum(len(each.kept) for each in kept) <= 50
