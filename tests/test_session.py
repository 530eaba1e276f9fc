"""What a connection's state makes of its messages: the start, encryption, order, COPY, options.

Traffic is made by hand or out of recordings that are changed; expectations come from the manual, from
RFCs, and from the recordings themselves.
"""

from __future__ import annotations

import json
import random
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import recorded
import transforms

from dissector import copying, exchange
from dissector.annotate import annotate, leaves
from dissector.capture import open_capture_files
from dissector.command_check import check
from dissector.commands import parse_command
from dissector.contents import open_contents
from dissector.conversation import Conversation, Request
from dissector.display import display
from dissector.encodings import codec
from dissector.index import Index, Indexer, Options
from dissector.node import Node, find, walk
from dissector.rows import COLUMNS, DECRYPTED
from dissector.schemas import Column, Schema, Tables
from dissector.session import Session
from dissector.spec import Dialect
from dissector.view import Capture, MessageView

OPTIONS = json.loads((Path(__file__).parent / "golden/formats/options.json").read_text("utf-8"))


def message(tag: str, body: bytes = b"") -> bytes:
    return tag.encode() + struct.pack("!i", len(body) + 4) + body


def packet(code: int, body: bytes = b"") -> bytes:
    return struct.pack("!ii", len(body) + 8, code) + body


STARTUP = packet(196608, b"user\0ada\0\0")
REPLICATION = packet(196608, b"user\0ada\0replication\0database\0\0")
SSL, GSSENC = packet(80877103), packet(80877104)
OK, READY = message("R", bytes(4)), message("Z", b"I")
VERSION = message("S", b"server_version\x0018.1\0")
ROW = message("D", b"\0\1\0\0\0\x011")
DESCRIBED = message("T", b"\0\1x\0" + struct.pack("!IhIhih", 0, 0, 23, 4, -1, 0))


def opened(
    tmp_path: Path, packets: list[transforms.Packet], options: Options | None = None
) -> list[MessageView]:
    """The messages of a capture of `packets`."""
    path = tmp_path / "made.pcap"
    path.write_bytes(transforms.pcap(transforms.frames(packets), nano=True))
    found = Capture([str(path)], options).read()
    return [found.message(n) for n in range(1, found.count + 1)]


def talk(tmp_path: Path, *sent: tuple[int, bytes]) -> list[MessageView]:
    return opened(tmp_path, transforms.conversation(sent))


def paths(views: list[MessageView]) -> list[str]:
    return [view.path[-1] for view in views]


def codes(views: list[MessageView]) -> list[str]:
    return [f.code for view in views for f in view.found]


# -- the start of a connection


def test_answers_are_rows(tmp_path: Path) -> None:
    views = talk(
        tmp_path, (0, GSSENC), (1, b"N"), (0, SSL), (1, b"N"), (0, STARTUP), (1, OK + READY)
    )
    assert paths(views) == [
        "GSSENCRequest", "GSSENCResponse", "SSLRequest", "SSLResponse", "StartupMessage",
        "AuthenticationOk", "ReadyForQuery",
    ]  # fmt: skip
    assert codes(views) == []


def test_an_error_for_an_answer(tmp_path: Path) -> None:
    error = message("E", b"SFATAL\0C53300\0Mtoo many clients\0\0")
    views = talk(tmp_path, (0, SSL), (1, error))
    assert paths(views) == ["SSLRequest", "ErrorResponse"]


def test_gssapi_packets_are_shown_as_such(tmp_path: Path) -> None:
    views = talk(
        tmp_path, (0, GSSENC), (1, b"G"), (0, struct.pack("!I", 5) + b"token"),
        (1, struct.pack("!I", 3) + b"one" + struct.pack("!I", 3)), (1, b"two"),
        (0, struct.pack("!I", 0)),
    )  # fmt: skip
    assert paths(views) == ["GSSENCRequest", "GSSENCResponse"] + ["GSSENCPacket"] * 4
    assert [recorded.field(v, "token") for v in views[2:]] == [b"token", b"one", b"two", b""]
    assert views[0].connection.header["encryption"] == "GSSAPI"


def test_plain_text_after_the_servers_consent(tmp_path: Path) -> None:
    """Messages that someone in between puts before the handshake (as in CVE-2021-23214 and 23222)."""
    hello = recorded.views("tls12")[2].data
    injected = message("Q", b"DROP TABLE x\0")
    views = talk(tmp_path, (0, SSL + injected), (1, b"S"), (0, hello))
    assert paths(views) == ["SSLRequest", "Unencrypted", "SSLResponse", "TLSRecord"]
    assert codes(views) == ["not-encrypted"]
    assert views[1].data == injected
    assert views[1].row.severity == 3
    views = talk(tmp_path, (0, SSL), (1, b"S" + message("E", b"SFATAL\0\0")), (0, hello))
    assert sorted(paths(views)) == ["SSLRequest", "SSLResponse", "TLSRecord", "Unencrypted"]
    assert codes(views) == ["not-encrypted"]


def test_direct_tls_of_others_is_not_postgresql(tmp_path: Path) -> None:
    hello = recorded.views("tls-direct")[0].data
    assert hello.count(b"\x0apostgresql") == 1
    other = hello.replace(b"\x0apostgresql", b"\x0ahttp/1.1.x")
    assert talk(tmp_path, (0, other), (1, b"\x15\3\3\0\2\2\x28")) == []
    for size in (1, 100, 1448):
        packets = transforms.resegmented(transforms.conversation([(0, hello)]), size)
        assert paths(opened(tmp_path, packets)) == ["TLSRecord"]


def test_a_client_that_began_tls_unanswered(tmp_path: Path) -> None:
    """The server's side is not in the capture."""
    hello = recorded.views("tls12")[2].data
    both = transforms.conversation([(0, SSL), (1, b"S"), (0, hello)])
    views = opened(tmp_path, [p for p in both if p.sport != 5432])
    assert paths(views) == ["SSLRequest", "TLSRecord"]


# -- order and segments

MIXED = ("login-scram", "query-portals", "query-extended", "copy", "walsender-commands", "physical",
         "tls12", "function-call", "ssl-refused")  # fmt: skip


def told(views: list[MessageView]) -> dict[tuple[int, int, int], list[tuple[object, ...]]]:
    """For each stream: messages, their bytes, and what the state said of them."""
    found: dict[tuple[int, int, int], list[tuple[object, ...]]] = {}
    for v in views:
        if v.path == ("CopyFail",):
            continue
        schema = (v.schema.kind, v.schema.columns, v.schema.copy, v.schema.name)
        key = (v.row.stream, v.row.direction, v.row.flags)
        texts = tuple(display(node) for node in leaves(v.tree))
        found.setdefault(key, []).append((v.path, v.data, v.dialect.copy, schema, texts))
    return found


@pytest.mark.parametrize("name", MIXED)
def test_segments_in_another_order_tell_the_same(name: str, tmp_path: Path) -> None:
    """Answers that come before their requests in the capture wait for them."""
    # what a client sends into a COPY that has failed can be told from other data by its order alone
    may_differ = b"never\t1\n" if name == "copy" else b"\0\0no such bytes"
    wanted = told([v for v in recorded.views(name) if may_differ not in v.data])
    packets = transforms.packets(recorded.path_of(name))
    log = recorded.CONVERSATIONS / f"{name}.keylog"
    options = Options(keylog=str(log) if log.exists() else "")
    before = 0
    for seed in range(4):
        moved = transforms.shuffled(packets, 4, seed)
        before += [p.payload for p in moved] != [p.payload for p in packets]
        views = opened(tmp_path, moved, options)
        assert told([v for v in views if may_differ not in v.data]) == wanted, seed
        assert codes(views) == codes(recorded.views(name))
    assert before


@pytest.mark.parametrize("name", MIXED)
def test_segments_of_any_size_tell_the_same(name: str, tmp_path: Path) -> None:
    wanted = told(recorded.views(name))
    packets = transforms.packets(recorded.path_of(name))
    log = recorded.CONVERSATIONS / f"{name}.keylog"
    options = Options(keylog=str(log) if log.exists() else "")
    draw = random.Random(7)
    for size in (1448, lambda: draw.choice((1, 2, 5, 60))):
        small = [p for p in packets if len(p.payload) < 5000]
        if len(small) < len(packets) and size != 1448:
            continue
        views = opened(tmp_path, transforms.resegmented(packets, size), options)
        assert told(views) == wanted


def test_tls_with_lost_segments(tmp_path: Path) -> None:
    """What is left is a part of what was sent, in order; what is lost is told."""
    packets = transforms.packets(recorded.path_of("tls12-chacha"))
    log = recorded.CONVERSATIONS / "tls12-chacha.keylog"
    every = [v for v in recorded.views("tls12-chacha") if v.row.flags & DECRYPTED]
    small = transforms.resegmented(packets, 1448)
    heavy = [
        i for i, p in enumerate(small) if len(p.payload) == 1448 and p.sport == packets[1].sport
    ]
    for lost in heavy[1:20:3]:
        kept = transforms.without(small, lambda i, _, lost=lost: i == lost)
        views = opened(tmp_path, kept, Options(keylog=str(log)))
        plain = [v for v in views if v.row.flags & DECRYPTED and len(v.data) == v.row.length]
        for direction in "FB":
            rest = iter([v.data for v in every if v.direction == direction])
            mine = [v for v in plain if v.direction == direction]
            assert len(mine) > 4
            assert all(any(v.data == other for other in rest) for v in mine)
        assert "tls-gap" in {f.code for f in views[0].connection.found} | set(codes(views))
        assert {"Terminate", "ReadyForQuery"} <= set(paths(views)[-5:])


def test_one_direction_alone(tmp_path: Path) -> None:
    packets = transforms.packets(recorded.path_of("query-portals"))
    server = recorded.journal("query-portals")["port"]
    for port_is_server in (True, False):
        views = opened(tmp_path, [p for p in packets if (p.sport == server) == port_is_server])
        wanted = [
            v for v in recorded.views("query-portals") if (v.direction == "B") == port_is_server
        ]
        assert [v.data for v in views] == [v.data for v in wanted]
        assert paths(views) == paths(wanted)


def test_copy_both_response_before_its_command(tmp_path: Path) -> None:
    start = b"START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p')\0"
    keepalive = message("d", b"k" + bytes(17))
    begin = message("d", b"w" + bytes(24) + b"B" + bytes(20))
    both = message("W", b"\0\0\0")
    packets = transforms.conversation(
        [(0, REPLICATION), (1, OK + VERSION + READY), (0, message("Q", start)),
         (1, both + keepalive + begin)]
    )  # fmt: skip
    at = next(i for i, p in enumerate(packets) if start in p.payload)
    answer = next(i for i, p in enumerate(packets) if both in p.payload)
    packets[at], packets[answer] = packets[answer], packets[at]
    views = opened(tmp_path, transforms.retimed(packets))
    assert sorted(paths(views)[-4:]) == sorted(
        ["CopyBothResponse", "Primary keepalive message", "Begin", "Query"]
    )
    # the keepalive, and of the Begin both its own time and XLogData's are 0
    assert codes(views) == ["time-unset"] * 3
    assert not any(view.assumed for view in views)


STREAMED = (b"START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '4', publication_names 'p', "
            b"streaming 'parallel')\0")  # fmt: skip


def wal(inside: bytes, lsn: int = 0x1A2B3C4) -> bytes:
    """A CopyData of WAL data, sent in 2025."""
    return message("d", b"w" + struct.pack("!QQQ", lsn, lsn, 800_000_000_000_000) + inside)


@pytest.mark.parametrize("count", [1, 30], ids=["one by one", "many at once"])
def test_what_has_no_oid_describes_no_relation(count: int, tmp_path: Path) -> None:
    """Messages that end before their relation's OID are not of OID 0, nor of one another."""
    cut = wal(b"R") + wal(b"I") * count + wal(b"R\0\0") + wal(b"U\0\0") + wal(b"T\0\0\0\1\0")
    views = talk(
        tmp_path, (0, REPLICATION), (1, OK + VERSION + READY), (0, message("Q", STREAMED)),
        (1, message("W", b"\0\0\0")), (1, cut),
    )[-4 - count :]  # fmt: skip
    assert paths(views) == ["Relation", *["Insert"] * count, "Relation", "Update", "Truncate"]
    assert {view.schema.kind for view in views} == {""}


def test_after_a_loss_every_reading_is_tried() -> None:
    """What was known of the stream before does not stand in the way of what its messages prove."""
    session = Session(Tables())
    asked = [
        ("F", REPLICATION),
        ("B", OK),
        ("B", VERSION),
        ("B", READY),
        ("F", message("Q", STREAMED)),
    ]
    begun = [("B", message("W", b"\0\0\0")), ("B", wal(b"S\0\0\0\7\1")), ("B", wal(b"E"))]
    for direction, data in asked + begun:
        session.feed(direction, data)
    session.lost("B")
    context = session.feed("B", wal(b"A" + struct.pack("!II", 7, 8)))  # as without parallel
    assert (context.path[-1], context.worst()) == ("Stream Abort", 0)
    assert not context.dialect.parallel


# -- SASL

OAUTH = (b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01"
         b"auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01")  # fmt: skip
REFUSED = (b'{"status":"invalid_token","scope":"example_scope",'
           b'"openid-configuration":"https://example.com/.well-known/openid-configuration"}')  # fmt: skip


@pytest.mark.parametrize("unheard", [False, True])
def test_lost_answers_do_not_shift_those_that_come(unheard: bool) -> None:
    """The ReadyForQuery of a query is lost, the next one ends the query after it. Where requests are
    missing as well, ParseComplete can be the answer to one of them, and proves nothing."""
    conversation = Conversation()
    conversation.query("copy t to stdout", None)
    if unheard:
        conversation.lost("F")
    conversation.lost("B")
    conversation.query("select * from t", None)
    conversation.ready()
    conversation.parse("s", "select id from t where id < $1", ())
    conversation.ask(Request("sync"))
    conversation.done("parse")
    if unheard:
        assert [request.kind for request in conversation.queue] == ["query", "parse", "sync"]
        return
    assert [request.kind for request in conversation.queue] == ["sync"]
    conversation.ready()
    assert not conversation.queue
    conversation.bind(Request("bind", target=("P", ""), source="s", formats=(1,)), ())
    conversation.ask(Request("describe", target=("P", "")))
    conversation.ask(Request("execute", target=("P", "")))
    conversation.ask(Request("sync"))
    conversation.done("bind")
    described = Schema("row", (Column("id", 23),))
    conversation.described(described)
    assert conversation.row() is described
    assert conversation.text() == "select id from t where id < $1"


def inner(view: MessageView) -> dict[str, str]:
    data = view.innermost.child("data")
    assert data is not None
    assert (
        b"".join(view.data[n.start : n.end] for n in leaves(data))
        == view.data[data.start : data.end]
    )
    return {n.name: n.value.decode() for n in data.children or () if n.name != "key"}


def test_oauthbearer(tmp_path: Path) -> None:
    """The exchange of RFC 7628, sections 4.1 and 4.3, in PostgreSQL's messages."""
    first = message("p", b"OAUTHBEARER\0" + struct.pack("!i", len(OAUTH)) + OAUTH)
    views = talk(
        tmp_path, (0, STARTUP), (1, message("R", struct.pack("!i", 10) + b"OAUTHBEARER\0\0")),
        (0, first), (1, message("R", struct.pack("!i", 11) + REFUSED)), (0, message("p", b"\x01")),
        (1, message("E", b"SFATAL\0\0")),
    )  # fmt: skip
    assert paths(views)[2:5] == [
        "SASLInitialResponse",
        "AuthenticationSASLContinue",
        "SASLResponse",
    ]
    assert inner(views[2]) == {
        "gs2_header": "n,a=user@example.com,", "host": "server.example.com", "port": "143",
        "authorization": "Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", "end": "\x01\x01",
    }  # fmt: skip
    discovery = '"https://example.com/.well-known/openid-configuration"'
    assert inner(views[3]) == {
        "status": '"invalid_token"', "scope": '"example_scope"', "discovery": discovery, "end": "}",
    }  # fmt: skip
    shown = "".join(row for view in views for row in map(display, leaves(view.tree)))
    assert "vF9dft4" not in shown
    assert views[0].connection.header["authentication"] == "OAUTHBEARER"


def test_scram_of_rfc_7677(tmp_path: Path) -> None:
    """The example of RFC 7677, section 3."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    more = nonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = b"n,,n=user,r=" + nonce.encode()
    final = f"c=biws,r={more},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    challenge = f"r={more},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    verified = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    views = talk(
        tmp_path, (0, STARTUP),
        (1, message("R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")),
        (0, message("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)),
        (1, message("R", struct.pack("!i", 11) + challenge)), (0, message("p", final)),
        (1, message("R", struct.pack("!i", 12) + verified) + OK),
    )  # fmt: skip
    assert inner(views[2]) == {"gs2_header": "n,,", "user": "user", "nonce": nonce}
    assert inner(views[3]) == {
        "nonce": more,
        "salt": "W22ZaJ0SNY7soEsUEjb6gQ==",
        "iterations": "4096",
    }
    assert inner(views[4])["client_proof"] == "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert inner(views[5])["server_signature"] == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


# -- passwords in SQL


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("CREATE ROLE a PASSWORD 'x''y' LOGIN", ["x''y"]),
        ("ALTER USER a WITH ENCRYPTED PASSWORD E'a\\'b'", ["a\\'b"]),
        ("CREATE SUBSCRIPTION s CONNECTION 'host=h password=pw dbname=d' PUBLICATION p", ["pw"]),
        ("CREATE SUBSCRIPTION s CONNECTION 'postgresql://u:pw@h/d' PUBLICATION p", ["pw"]),
        ("CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'u', password 'pw')", ["pw"]),
        ("ALTER ROLE a PASSWORD $$top$$", ["top"]),
        ("ALTER ROLE a PASSWORD 'cut", ["cut"]),
        ("ALTER ROLE a PASSWORD NULL", []),
        ("SELECT password FROM t WHERE x = 'y'", []),
    ],
)
def test_passwords_in_statements(statement: str, wanted: list[str]) -> None:
    data = message("Q", statement.encode() + b"\0")
    tree = annotate(data, "frontend", Dialect())
    open_contents(tree, data, Dialect(), Schema(""))
    query = tree.child("query")
    assert query is not None
    assert b"".join(data[n.start : n.end] for n in leaves(tree)) == data
    found = [n.value.decode() for n in query.children or () if n.name == "password"]
    assert found == wanted
    assert all(word not in display(query) for word in wanted)


# -- COPY


def pieces(data: bytes, seed: int) -> list[bytes]:
    draw, at, found = random.Random(seed), 0, []
    while at < len(data):
        step = draw.choice((1, 2, 3, 7, 20))
        found.append(data[at : at + step])
        at += step
    return found


BINARY = (b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\3\0\0\0\4\0\0\0\7\0\0\0\1x\xff\xff\xff\xff"
          b"\0\2\0\0\0\0\xff\xff\xff\xff\xff\xff")  # fmt: skip


@pytest.mark.parametrize(
    ("command", "binary", "data"),
    [
        ("COPY t FROM STDIN", False, b"1\tx\\\ty\t1.5\n2\ta\\tb\\\\c\t\\N\n3\t\t\n"),
        ("COPY t FROM STDIN (FORMAT csv)", False, b'4,"a,""b""\nc",2.5\n5,,\n6,"",0\n'),
        ("COPY t FROM STDIN CSV QUOTE '|' ESCAPE '\\'", False, b"1,|a\\|\n,|,2\n"),
        ("COPY t FROM STDIN BINARY", True, BINARY),
    ],
)
def test_rows_cut_anywhere_read_as_whole_ones(command: str, binary: bool, data: bytes) -> None:
    begin = copying.command_state(command, binary)
    _, whole = copying.scan(begin, data, 0, len(data))
    for seed in range(30):
        state = begin
        for piece in pieces(data, seed):
            nodes = copying.parts(state, piece, 0, len(piece))
            held = [leaf for node in nodes for leaf in leaves(node)]
            assert b"".join(piece[n.start : n.end] for n in held) == piece
            assert all(a.end == b.start for a, b in pairwise(held))
            _, state = copying.scan(state, piece, 0, len(piece))
        assert state == whole


@pytest.mark.parametrize(
    ("command", "form", "delimiter", "quote", "null"),
    [
        ("COPY t TO STDOUT", "text", b"\t", b'"', b"\\N"),
        ("COPY t TO STDOUT WITH DELIMITER AS '|' NULL AS ''", "text", b"|", b'"', b""),
        ("COPY t TO STDOUT (FORMAT CSV, DELIMITER E'\\t', QUOTE '''')", "csv", b"\t", b"'", b""),
        ("COPY t FROM STDIN WITH CSV HEADER NULL 'x'", "csv", b",", b'"', b"x"),
        ("COPY (SELECT 'csv' AS csv_like) TO STDOUT", "text", b"\t", b'"', b"\\N"),
    ],
)
def test_formats_of_copy_commands(
    command: str, form: str, delimiter: bytes, quote: bytes, null: bytes
) -> None:
    state = copying.command_state(command, False)
    assert (state.form, state.delimiter, state.quote, state.null) == (form, delimiter, quote, null)


# -- replication commands


@pytest.mark.parametrize("release", range(10, 20))
def test_documented_options_are_right_and_others_are_not(release: int) -> None:
    known = OPTIONS[str(release)]["options"]
    every = {name for other in OPTIONS.values() for name in other["options"]}
    newest = max(map(int, OPTIONS[str(release)]["proto_versions"]))
    base = f"proto_version '{newest}', publication_names '\"a\", b'"

    def wrong(options: str) -> list[str]:
        command = parse_command(f"START_REPLICATION SLOT s LOGICAL 0/0 ({options})")
        assert command is not None
        return [f.text for f in check(command, release, pgoutput=True)]

    assert wrong(base) == []
    for name in every - {"proto_version", "publication_names"}:
        values = known.get(name, {}).get("values") or ["on"]
        for value in values:
            assert bool(wrong(f"{base}, {name} '{value}'")) == (name not in known), (name, value)
        if name in known:
            assert len(wrong(f"{base}, {name} 'perhaps'")) == 1
            assert len(wrong(f"{base}, {name} 'on', {name} 'on'")) >= 1
    assert len(wrong("publication_names 'p'")) == 1
    assert len(wrong("proto_version '1'")) == 1
    assert len(wrong(f"proto_version '{newest + 1}', publication_names 'p'")) == 1
    assert len(wrong("proto_version 'x', publication_names 'p'")) == 1
    assert len(wrong(f"{base}, nonsense 'x'")) == 1


@pytest.mark.parametrize(
    ("option", "proto", "need"), [("streaming", 1, 2), ("streaming", 3, 2), ("two_phase", 2, 3)]
)
def test_options_that_need_a_newer_protocol(option: str, proto: int, need: int) -> None:
    text = f"START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '{proto}', publication_names 'p', "
    command = parse_command(f"{text}{option} 'on')")
    assert command is not None
    found = [f.text for f in check(command, 18, pgoutput=True)]
    wanted = f"{option} on needs proto_version {need}, {proto} was asked for"
    assert found == ([wanted] if proto < need else [])


@pytest.mark.parametrize(
    ("text", "release", "count"),
    [
        ("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (TWO_PHASE, SNAPSHOT 'export')", 15, 0),
        ("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (FAILOVER true)", 16, 1),
        ("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (FAILOVER true)", 17, 0),
        ("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (TWO_PHASE)", 14, 1),
        ("CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'perhaps')", 18, 1),
        ("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT", 18, 0),
        ('CREATE_REPLICATION_SLOT "s" PHYSICAL RESERVE_WAL', 12, 0),
        ("READ_REPLICATION_SLOT s", 14, 1),
        ("UPLOAD_MANIFEST", 16, 1),
        ("UPLOAD_MANIFEST", 17, 0),
        ("BASE_BACKUP LABEL 'x' PROGRESS FAST MAX_RATE 100 MANIFEST 'yes'", 13, 0),
        ("BASE_BACKUP LABEL 'x' MANIFEST 'yes'", 12, 1),
        ("BASE_BACKUP (LABEL 'x', COMPRESSION 'gzip', COMPRESSION_DETAIL '9', WAIT false)", 15, 0),
        ("BASE_BACKUP (INCREMENTAL, NONSENSE 3)", 18, 1),
        ("BASE_BACKUP (CHECKPOINT 'later')", 18, 1),
        ("IDENTIFY_SYSTEM", 10, 0),
        ("DROP_REPLICATION_SLOT s WAIT", 11, 0),
        ("START_REPLICATION SLOT s PHYSICAL 0/1000000 TIMELINE 2", 10, 0),
    ],
)
def test_commands_by_release(text: str, release: int, count: int) -> None:
    command = parse_command(text)
    assert command is not None
    assert len(check(command, release, pgoutput=True)) == count


def test_wrong_options_are_findings_of_the_query(tmp_path: Path) -> None:
    start = b"START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p', "
    views = talk(
        tmp_path, (0, REPLICATION), (1, OK + VERSION + READY),
        (0, message("Q", start + b"streaming 'parallel')\0")),
    )  # fmt: skip
    assert [f.text for f in views[-1].found] == [
        "streaming parallel needs proto_version 4, 1 was asked for"
    ]


# -- WAL


def test_a_wal_page_in_the_wrong_place(tmp_path: Path) -> None:
    header = struct.pack("<HHIQI4x", 0xD118, 0, 1, 0x3002000, 0)
    start = b"START_REPLICATION PHYSICAL 0/3000000 TIMELINE 1\0"

    def stream(lsn: int, data: bytes) -> list[MessageView]:
        wal = message("d", b"w" + struct.pack("!QQq", lsn, lsn + len(data), 1) + data)
        return talk(
            tmp_path, (0, REPLICATION), (1, OK + VERSION + READY), (0, message("Q", start)),
            (1, message("W", b"\0\0\0") + wal),
        )  # fmt: skip

    views = stream(0x3002000 - 8, b"recordsx" + header + b"more")
    assert codes(views) == []
    page = find(views[-1].tree, "CopyData.XLogData.data.pages[1]")
    assert page is not None
    assert [(n.name, n.value) for n in page.children or ()] == [
        ("magic", 0xD118), ("info", 0), ("timeline", 1), ("page_lsn", 0x3002000),
        ("remaining_length", 0), ("padding", bytes(4)), ("records", b"more"),
    ]  # fmt: skip
    assert codes(stream(0x3004000 - 8, b"recordsx" + header)) == ["wal-page"]
    assert codes(stream(0x3002000 - 8, b"recordsx" + bytes(24))) == ["wal-page"]


# -- encodings


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("UTF8", "ä", b"\xc3\xa4"),
        ("LATIN1", "ä", b"\xe4"),
        ("iso-8859-15", "ä", b"\xe4"),
        ("LATIN9", "€", b"\xa4"),
        ("WIN1252", "€", b"\x80"),
        ("SJIS", "あ", b"\x82\xa0"),
        ("EUC_JP", "あ", b"\xa4\xa2"),
        ("KOI8R", "я", b"\xd1"),
        ("GB18030", "中", b"\xd6\xd0"),
        ("BIG5", "中", b"\xa4\xa4"),
        ("UHC", "가", b"\xb0\xa1"),
    ],
)
def test_client_encodings(name: str, text: str, data: bytes) -> None:
    assert data.decode(codec(name)) == text


def test_text_follows_the_encoding(tmp_path: Path) -> None:
    latin = message("S", b"client_encoding\0LATIN1\0")
    notice = message("N", b"SNOTICE\0Mf\xfcr\0\0")
    views = talk(
        tmp_path, (0, STARTUP), (1, OK + READY), (0, message("Q", b"SET client_encoding TO LATIN1\0")),
        (1, latin + message("C", b"SET\0") + READY), (0, message("Q", b"SELECT 'f\xfcr'\0")),
        (1, notice),
    )  # fmt: skip
    assert recorded.text(views[-2], "query") == "SELECT 'für'"
    fields = views[-1].innermost.child("fields")
    assert fields is not None
    assert display((fields.children or [])[1], views[-1].context()).endswith("für")


def test_bytes_that_do_not_decode_are_shown(tmp_path: Path) -> None:
    views = talk(tmp_path, (0, STARTUP), (1, OK + READY), (0, message("Q", b"SELECT '\xff\xfe'\0")))
    query = views[-1].innermost.child("query")
    assert isinstance(query, Node)
    assert "\\xff\\xfe" in display(query, views[-1].context())


# -- both lanes


def columns(path: Path, fast: bool, keylog: str = "", frames: int = 16384) -> list[list[object]]:
    """The index's rows, with what their numbers stand for. frames: read at once."""
    index = Index()
    with open_capture_files([str(path)], batch_frames=frames) as files:
        for batch in Indexer(files, Options(keylog=keylog), fast=fast).batches():
            index.extend(batch)
    tables = {"path": index.tables.paths, "dialect": index.tables.dialects,
              "relation": index.tables.schemas}  # fmt: skip
    return [
        [
            tables[name][number] if name in tables else number
            for number in index.rows.column(name).tolist()
        ]
        for name, _ in COLUMNS
    ]


@pytest.mark.parametrize("name", recorded.NAMES)
def test_many_at_once_are_as_one_by_one(name: str) -> None:
    path, log = recorded.path_of(name), recorded.CONVERSATIONS / f"{name}.keylog"
    keylog = str(log) if log.exists() else ""
    assert columns(path, True, keylog) == columns(path, False, keylog)


@pytest.mark.parametrize(("window", "few"), [(1, 24), (3, 24), (3, 0)])
def test_few_at_once_are_as_one_by_one(
    window: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissector.exchange.WINDOW", window)
    monkeypatch.setattr("dissector.exchange.FEW", few)
    monkeypatch.setattr("dissector.exchange.SPAN", 100)
    for name in ("query-extended", "query-portals", "errors", "copy", "psycopg2", "notify"):
        path = recorded.path_of(name)
        assert columns(path, True) == columns(path, False)


def _spoken() -> tuple[list[tuple[int, bytes]], list[str]]:
    """What a client and a server say in turn, and the names of the messages. Rows come in runs of every
    length about the one from which on they are taken together."""
    sent = [(0, STARTUP), (1, OK + VERSION + READY)]
    names = ["StartupMessage", "AuthenticationOk", "ParameterStatus", "ReadyForQuery"]
    for count in range(13, 20):
        text = b"select x from t limit %d\0" % count
        rows = b"".join(message("D", b"\0\1\0\0\0\2%02d" % i) for i in range(count))
        sent += [
            (0, message("Q", text)),
            (1, DESCRIBED + rows + message("C", b"SELECT\0") + READY),
            (0, message("P", b"\0" + text + b"\0\0") + message("S")),
            (1, message("1") + READY),
            (0, message("Q", b"set client_encoding to latin%d\0" % (count % 2 + 1))),
            (1, message("C", b"SET\0") + READY),
        ]
        names += [
            "Query",
            "RowDescription",
            *["DataRow"] * count,
            "CommandComplete",
            "ReadyForQuery",
        ]
        names += ["Parse", "Sync", "ParseComplete", "ReadyForQuery"]
        names += ["Query", "CommandComplete", "ReadyForQuery"]
    return sent, names


@pytest.mark.parametrize("size", [7, 50, 1448])
@pytest.mark.parametrize("reach", [1, 2])
def test_both_sides_in_the_order_in_which_they_spoke(size: int, reach: int, tmp_path: Path) -> None:
    """reach 2: segments overtake their neighbours."""
    sent, names = _spoken()
    packets = transforms.resegmented(transforms.conversation(sent), size)
    if reach > 1:
        packets = transforms.shuffled(packets, reach, 5)
    assert paths(opened(tmp_path, packets)) == names


@pytest.mark.parametrize("frames", [20, 16384])
@pytest.mark.parametrize("reach", [4, 20])
def test_sides_that_overtake_each_other_are_as_one_by_one(
    frames: int, reach: int, tmp_path: Path
) -> None:
    packets = transforms.resegmented(transforms.conversation(_spoken()[0]), 200)
    path = tmp_path / "spoken.pcap"
    path.write_bytes(transforms.pcap(transforms.frames(transforms.shuffled(packets, reach, 1))))
    assert columns(path, True, frames=frames) == columns(path, False, frames=frames)


def test_messages_are_found_once_though_the_encoding_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    head = exchange.HEAD
    monkeypatch.setattr(exchange, "HEAD", lambda *given: found.append(1) or head(*given))
    asked = (message("Q", b"SET client_encoding = '%s'\0" % name) for name in (b"LATIN1", b"UTF8"))
    sent = [(0, b"".join(asked) * 100), (1, (message("C", b"SET\0") + READY) * 200)]
    path = tmp_path / "encodings.pcap"
    packets = transforms.conversation([(0, STARTUP), (1, OK + VERSION + READY), *sent])
    path.write_bytes(transforms.pcap(transforms.frames(packets)))
    fast = columns(path, True)
    assert len(found) < 2 * 600
    assert fast == columns(path, False)


@pytest.mark.parametrize("command", ["COPY t FROM STDIN", "COPY t FROM STDIN CSV"])
def test_whole_and_cut_rows_of_a_client(command: str, tmp_path: Path) -> None:
    draw = random.Random(3)
    odd = (b"17,", b'"x\n', b'y"\n', b"z\\\n", b"")
    for trial in range(4):
        rows = [b"%d,\ta%d\n" % (i, i) if draw.random() > 0.05 else draw.choice(odd)
                for i in range(300)]  # fmt: skip
        sent = [
            (0, STARTUP), (1, OK + VERSION + READY), (0, message("Q", command.encode() + b"\0")),
            (1, message("G", b"\0\0\2\0\0\0\0")), (0, b"".join(message("d", row) for row in rows)),
            (0, message("c")), (1, message("C", b"COPY 1\0") + READY),
        ]  # fmt: skip
        path = tmp_path / f"{trial}.pcap"
        path.write_bytes(transforms.pcap(transforms.frames(transforms.conversation(sent))))
        assert columns(path, True) == columns(path, False)


@pytest.mark.parametrize("command", ["COPY t TO STDOUT", "COPY t TO STDOUT CSV"])
def test_a_row_of_a_server_that_does_not_end(command: str, tmp_path: Path) -> None:
    """Each message of a server begins with a row, whatever was damaged before."""
    rows = [message("d", b'1,"2\n' if i in (3, 60) else b"1,2" if i == 70 else b"1,2\n")
            for i in range(90)]  # fmt: skip
    sent = [
        (0, STARTUP), (1, OK + VERSION + READY), (0, message("Q", command.encode() + b"\0")),
        (1, message("H", b"\0\0\2\0\0\0\0") + b"".join(rows) + message("c")),
        (1, message("C", b"COPY 90\0") + READY),
    ]  # fmt: skip
    views = talk(tmp_path, *sent)
    assert [v.schema.copy.fresh for v in views if v.schema.copy] == [True] * 90
    path = tmp_path / "made.pcap"
    assert columns(path, True) == columns(path, False)


def test_rows_after_the_end_of_a_binary_copy(tmp_path: Path) -> None:
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    row = message("d", struct.pack("!hi", 1, 2) + b"ab")
    end = message("d", b"\xff\xff")
    sent = [
        (0, STARTUP), (1, OK + VERSION + READY),
        (0, message("Q", b"COPY t TO STDOUT (FORMAT binary)\0")),
        (1, message("H", b"\1\0\1\0\1") + message("d", head) + row * 40 + end + row * 40),
    ]  # fmt: skip
    stages = [v.schema.copy.stage for v in talk(tmp_path, *sent)[-81:] if v.schema.copy]
    assert stages == ["column_count"] * 41 + ["end"] * 40
    path = tmp_path / "made.pcap"
    assert columns(path, True) == columns(path, False)


# -- hostile bytes


@pytest.mark.parametrize("name", recorded.NAMES)
def test_changed_bytes_never_raise_and_stay_tiled(name: str) -> None:
    """Every kind of message with some bytes changed, cut or put in, in its own state."""
    draw = random.Random(name)
    kinds = {(v.path, v.dialect, v.schema.kind): v for v in recorded.views(name)}
    for view in kinds.values():
        layer = "backend" if view.direction == "B" else "frontend"
        for _ in range(12):
            data = bytearray(view.data[:4096])
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(len(data))
                data[at : at + draw.randint(0, 2)] = draw.randbytes(draw.randint(0, 2))
                data = data or bytearray(1)
            tree = annotate(bytes(data), layer, view.dialect)
            open_contents(tree, bytes(data), view.dialect, view.schema)
            held = list(leaves(tree))
            assert b"".join(data[n.start : n.end] for n in held) == data
            assert all(a.end == b.start for a, b in pairwise(held))
            assert all(isinstance(display(node), str) for node in walk(tree))


@pytest.mark.parametrize("name", recorded.NAMES)
def test_changed_captures_are_read_to_the_end(name: str, tmp_path: Path) -> None:
    """Payload bytes changed: nothing raises, every row opens, both lanes agree."""
    draw = random.Random(name)
    packets = transforms.packets(recorded.path_of(name))[:400]
    log = recorded.CONVERSATIONS / f"{name}.keylog"
    keylog = str(log) if log.exists() else ""
    for trial in range(2):
        changed = []
        for each in packets:
            payload = bytearray(each.payload)
            if payload and draw.random() < 0.2:
                payload[draw.randrange(len(payload))] = draw.randrange(256)
            changed.append(replace(each, payload=bytes(payload)))
        views = opened(tmp_path, changed, Options(keylog=keylog))
        assert all(v.row.length >= len(v.data) for v in views)
        assert [v.row.number for v in views] == list(range(1, len(views) + 1))
        path = tmp_path / "made.pcap"
        assert columns(path, True, keylog) == columns(path, False, keylog), trial
