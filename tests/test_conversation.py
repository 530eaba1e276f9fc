"""Every recorded conversation, message by message: what the dissector says is what the client got.

The journals beside the captures were written by the clients; raw streams are read by tests/transforms.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import recorded
import transforms
from recorded import NAMES, capture, error_fields, field, got, journal, of, results, text, views

from dissector.capture.frames import OFFSET
from dissector.node import Node, find, leaves, walk
from dissector.rows import DECRYPTED, DIRECTIONS
from dissector.text import decode_text

DESERVED: dict[str, dict[str, int]] = {
    "base-backup-14": {"stream-ended-early": 1},  # the recorder cut the captures
    "base-backup-15": {"stream-ended-early": 1},
    "tls-alert": {"tls-alert": 2},
    "walsender-commands": {"option": 2},  # proto_version 99, and none at all
    "walsender-commands-10": {"option": 2},
}
"""Findings that the traffic deserves, by code. Everything else deserves none."""


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_those_that_the_traffic_deserves(name: str) -> None:
    opened = capture(name)
    found = Counter(f.code for view in views(name) for f in view.found)
    for info in opened.index.connections.values():
        found.update(f.code for f in info.found)
    assert found == DESERVED.get(name, {})
    assert opened.index.file_findings == []
    worst = [max((f.severity for f in view.found), default=0) for view in views(name)]
    assert worst == opened.index.rows.column("severity").tolist()


def packets(name: str) -> list[transforms.Packet]:
    return transforms.packets(recorded.path_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_belongs_to_a_message(name: str) -> None:
    """The rows' places in the file cover each byte of payload, once in the clear."""
    sent = Counter[tuple[int, bytes]]()
    for (_, sport, _, _), stream in transforms.streams(packets(name)).items():
        sent[sport, stream] += 1
    opened, got_streams = capture(name), Counter[tuple[int, bytes]]()
    for number, info in opened.index.connections.items():
        if not info.postgres:  # told as such: an HTTP request, a client of protocol 2.0
            assert name == "login-refused"
            ports = {int(end.rpartition(":")[2]) for end in (info.frontend, info.backend)}
            foreign = [k for k in sent if k[0] in ports - {journal(name)["port"]}]
            foreign += [k for k in sent if b"unsupported frontend protocol" in k[1]]
            assert sum(len(data) for _, data in foreign) < 150
            for key in foreign:
                del sent[key]
            continue
        for direction, end in enumerate((info.frontend, info.backend)):
            mine = [
                v for v in views(name)
                if (v.row.stream, v.row.direction) == (number, direction)
            ]  # fmt: skip
            seen = {e.position: e for v in mine for e in v.extents}
            places = sorted(seen.items())
            data = b"".join(opened.files.read(at, e.length) for at, e in places)
            if not any(v.row.flags & DECRYPTED for v in mine):
                assert b"".join(v.data for v in mine) == data
                got_streams[int(end.rpartition(":")[2]), data] += 1
            else:
                covered = sorted((e.position & OFFSET, e.length) for e in seen.values())
                assert all(a + n <= b for (a, n), (b, _) in pairwise(covered))
                port = int(end.rpartition(":")[2])
                (stream,) = (s for p, s in sent if p == port and len(s) == len(data))
                got_streams[port, stream] += 1
    kept = [Counter({k: n for k, n in c.items() if k[1]}) for c in (got_streams, sent)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("name", NAMES)
def test_leaves_tile_each_message(name: str) -> None:
    for view in views(name):
        at = 0
        for leaf in leaves(view.tree):
            assert leaf.start == at, (view.path, leaf)
            at = leaf.end
        assert at == len(view.data)


def subsequence(wanted: list[Any], found: list[Any]) -> None:
    rest = iter(found)
    for each in wanted:
        assert any(each == other for other in rest), each


def as_text(value: Any) -> Any:
    """An array as the server writes it."""
    if not isinstance(value, list):
        return value
    return "{" + ",".join(f'"{v}"' if " " in v else v for v in value) + "}"


def table(value: Any) -> list[list[Any]]:
    return [[as_text(cell) for cell in row] for row in value]


# -- queries


def test_extended_queries() -> None:
    steps = dict(got("query-extended"))
    wanted = [
        table(steps["unnamed statement, text results"]),
        table(steps["the same, binary results"]),
        table(steps["prepared statement, parameter 1"]),
        table(steps["prepared statement, parameter 3"]),
        table(steps["binary, text and NULL parameters"]),
        [[1], [2]],
        [[3]],
        *steps["pipeline of four SELECTs and an INSERT"],
        table(steps["SET client_encoding TO LATIN1, then a name"]),
    ]
    subsequence(wanted, results("query-extended"))
    last = [v for v in of("query-extended", "DataRow") if "Käse" in recorded.values(v)][-1]
    assert last.dialect.encoding == "iso8859_1"
    assert b"K\xe4se" in last.data


def test_parameters_of_bind() -> None:
    bound = [recorded.values(v) for v in of("query-extended", "Bind")]
    assert [1] in bound
    assert [2**40, "té xt", None, "1.5"] in bound


def test_portals_message_by_message() -> None:
    backend = [
        [chr(v.data[0]), error_fields(v) if v.path == ("ErrorResponse",) else v.data[5:].hex()]
        for v in views("query-portals")
        if v.direction == "B"
    ]
    for did, messages in got("query-portals")[:-1]:
        size = len(messages)
        assert any(backend[i : i + size] == messages for i in range(len(backend))), did
    rows = [recorded.values(v) for v in of("query-portals", "DataRow")]
    cheese, empty, none = [1, "Käse", True], [2, "empty", False], [3, None, None]
    assert rows[:7] == [cheese, empty, none, cheese, empty, empty, none]
    assert [recorded.values(v) for v in of("query-portals", "Bind")][:4] == [[0], [0], [1], [None]]
    assert results("query-portals")[-2:] == [[[1]], [["x", None]]]


def test_function_calls() -> None:
    answers = [v.data[5:].hex() for v in of("function-call", "FunctionCallResponse")]
    assert answers == [step[1][0][1] for step in got("function-call")[:3]]


def test_notifications() -> None:
    (_, wanted), *_ = got("notify")
    assert [
        [text(v, "channel"), text(v, "payload"), field(v, "process_id")]
        for v in of("notify", "NotificationResponse")
    ] == wanted


def test_errors_and_notices() -> None:
    errors = [error_fields(v) for v in of("errors", "ErrorResponse")]
    notices = [error_fields(v) for v in of("errors", "NoticeResponse")]
    wanted = [value for _, value in got("errors")]
    assert errors == [w for w in wanted if isinstance(w, dict)] + [wanted[-1][1]]
    assert notices == [n for w in wanted[:-1] if isinstance(w, list) for n in w]


def test_cancel_requests_know_their_sessions() -> None:
    headers = {n: i.header for n, i in capture("cancel").index.connections.items()}
    process = journal("cancel")["process"]
    assert headers[0]["process_id"] == process
    assert headers[0]["cancelled_by_connection"] == "1"
    assert (headers[1]["cancels_process"], headers[1]["cancels_connection"]) == (process, 0)
    assert headers[2] == {"encryption": "none", "cancels_process": 4242}
    headers = {n: i.header for n, i in capture("protocol-3.2").index.connections.items()}
    assert headers[0]["protocol"] == "3.2"
    assert headers[3]["cancels_connection"] == 2
    assert {len(field(v, "secret_key")) for v in of("protocol-3.2", "BackendKeyData")} == {32}


# -- logins


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("login-cleartext", "CleartextPassword"),
        ("login-md5", "MD5Password"),
        ("login-scram", "SCRAM-SHA-256"),
        ("tls13", "SCRAM-SHA-256-PLUS"),
    ],
)
def test_authentication_methods(name: str, method: str) -> None:
    header = capture(name).index.connections[0].header
    assert header["authentication"] == method
    assert header["user"] == "ada"
    assert header["release"] == journal(name)["server_version"]


def test_passwords_by_the_state_of_authentication() -> None:
    passwords = [text(v, "password") for v in of("login-cleartext", "PasswordMessage")]
    assert passwords == ["Geheim ü1", "not it"]
    for view in of("login-md5", "PasswordMessage"):
        assert re.fullmatch("md5[0-9a-f]{32}", text(view, "password"))


def test_scram_attribute_by_attribute() -> None:
    """The nonces and the salt go on from message to message, as RFC 5802 wants."""
    for name, stream in (("login-scram", 0), ("login-scram", 1), ("tls13", 0)):
        mine = [v for v in views(name) if v.row.stream == stream and "SASL" in v.path[-1]]
        first, challenge, answer = mine[1:4]
        nonce = text(first, "data.nonce")
        assert text(challenge, "data.nonce").startswith(nonce)
        assert text(answer, "data.nonce") == text(challenge, "data.nonce")
        assert text(challenge, "data.iterations") == "4096"
        assert len(text(answer, "data.client_proof")) == 44
        header = text(first, "data.gs2_header")
        assert header == ("p=tls-server-end-point,," if name == "tls13" else "n,,")
        if stream == 0:
            assert len(text(mine[4], "data.server_signature")) == 44


def test_refused_logins() -> None:
    codes = [error_fields(v)["C"] for v in of("login-refused", "ErrorResponse")]
    assert codes == ["3D000", "28000"]


@pytest.mark.parametrize(("name", "version"), [("negotiate-17", "3.0"), ("negotiate-18", "3.2")])
def test_negotiated_versions(name: str, version: str) -> None:
    step = next(value for did, value in got(name) if "3.9999" in did)
    view = of(name, "NegotiateProtocolVersion")[-1]
    assert field(view, "protocol_version") == step["version"]
    repeat = view.innermost.child("options")
    assert repeat is not None
    names = [e.child("name").value.decode() for e in repeat.children or ()]  # type: ignore[union-attr]
    assert names == step["unknown"]
    assert view.connection.header["protocol"] == version


def test_one_byte_answers() -> None:
    answers = [(v.path[-1], v.data) for v in of("ssl-refused", "SSLResponse", "GSSENCResponse")]
    assert answers == [("SSLResponse", b"N"), ("GSSENCResponse", b"N"), ("SSLResponse", b"N")]
    assert len(of("ssl-refused", "StartupMessage")) == 2


# -- COPY


def copied(name: str, direction: str) -> list[list[Any]]:
    """The messages of each COPY that `direction` sends."""
    found: list[list[Any]] = []
    begins = "CopyInResponse" if direction == "F" else "CopyOutResponse"
    for view in views(name):
        if view.path == (begins,):
            found.append([])
        elif view.path[0] == "CopyData" and view.direction == direction and found:
            found[-1].append(view)
    return found


def cells(messages: list[Any]) -> list[list[tuple[str, bytes]]]:
    """Rows of (state, bytes) out of the trees, values joined that were cut."""
    rows: list[list[tuple[str, bytes]]] = [[]]
    for view in messages:
        for row in walk(view.tree):
            if row.name != "rows" or row.index < 0:
                continue
            columns = row.child("columns")
            for cell in (columns.children or ()) if columns is not None else ():
                value = cell.child("value")
                raw = value.value if value is not None else b""
                if cell.child("separator") is None and rows[-1] and not cell.child("length"):
                    state, before = rows[-1].pop()
                    rows[-1].append((state, before + raw))
                else:
                    rows[-1].append((cell.value, raw))
            if row.child("row_end") is not None or row.child("column_count") is not None:
                rows.append([])
    return [row for row in rows if row]


def plain_cell(state: str, raw: bytes) -> str | None:
    return None if state == "null" else raw.decode()


def test_copy_of_text() -> None:
    data, wanted = copied("copy", "B")[0], got("copy")[3][1]["hex"]
    assert b"".join(field(v, "data") for v in data).hex() == wanted
    lines = bytes.fromhex(wanted).decode().splitlines()
    rows = [[None if c == "\\N" else c for c in line.split("\t")] for line in lines]
    assert [[plain_cell(*c) for c in row] for row in cells(data)] == rows
    cut = cells(copied("copy", "F")[0])
    assert [[plain_cell(*c) for c in row] for row in cut] == rows[:3]


def test_copy_of_csv() -> None:
    data, wanted = copied("copy", "B")[1], bytes.fromhex(got("copy")[4][1]["hex"]).decode()
    rows = list(csv.reader(io.StringIO(wanted)))

    def unquoted(state: str, raw: bytes) -> str:
        return "" if state == "null" else next(csv.reader(io.StringIO(raw.decode())), [""])[0]

    assert [[unquoted(*c) for c in row] for row in cells(data)] == rows
    assert [row[0][0] for row in cells(data)[5:7]] == ["text", "text"]
    cut = cells(copied("copy", "F")[1])  # the recorder's client sends it seven bytes at a time
    sent = 'id,word,n\n4,"a,""b""\nc",2.5\n5,,\n6,"",0\n'
    assert [[unquoted(*c) for c in row] for row in cut] == list(csv.reader(io.StringIO(sent)))


def test_copy_of_binary() -> None:
    data, wanted = copied("copy", "B")[2], got("copy")[5][1]["hex"]
    assert b"".join(field(v, "data") for v in data).hex() == wanted
    rows = cells(data)
    select = dict(got("copy"))["SELECT * FROM t"]
    assert [int.from_bytes(row[0][1], "big") for row in rows] == [row[0] for row in select]
    assert [plain_cell(*row[1]) for row in rows] == [row[1] for row in select]
    assert field(data[0], "data.signature") == b"PGCOPY\n\xff\r\n\0"
    assert field(data[-1], "data.rows[0].column_count") == -1


# -- replication

PUBLISHED = ("subscription-10-18", "subscription-14-15", "subscription-16-18", "subscription-18-16",
             "tls-replication", "tls12-replication", "psycopg2")  # fmt: skip


class Stream(NamedTuple):
    """What one START_REPLICATION brought: messages of pgoutput as hex."""

    slot: str
    messages: list[str]


def replicated(name: str) -> list[Stream]:
    """Each logical stream, in the order of the commands."""
    found: dict[int, Stream] = {}
    every = []
    for view in views(name):
        if view.path == ("Query",) and "START_REPLICATION" in text(view, "query"):
            slot = text(view, "query").split()[2].strip('"')
            found[view.row.stream] = Stream(slot, [])
            every.append(found[view.row.stream])
        elif len(view.path) == 3:
            found[view.row.stream].messages.append(view.payload().hex())
    return every


@pytest.mark.parametrize("name", PUBLISHED)
def test_changes_are_the_servers_own_list(name: str) -> None:
    # before it asks for two_phase, a subscriber streams once without
    *_, stream = [s for s in replicated(name) if not s.slot.startswith("pg_")]
    wanted = [data for _, _, data in journal(name)["peek"]]
    if name == "subscription-18-16":  # the walsender described a table once more than the peek
        sent, wanted = ([m for m in ms if m[:2] != "52"] for ms in (stream.messages, wanted))
        assert sent == wanted
    else:
        assert stream.messages == wanted


@pytest.mark.parametrize("name", PUBLISHED[:4])
def test_subscription(name: str) -> None:
    """Options as the server saw them, and the initial copy."""
    command = journal(name)["start_replication"]
    options = dict(re.findall(r"(\w+) '((?:[^']|'')*)'", command))
    (sent,) = [v for v in of(name, "Query") if text(v, "query") == command]
    header = sent.connection.header
    for option in ("proto_version", "streaming", "two_phase", "binary", "origin"):
        assert header.get(option) == options.get(option)
    assert (header["slot"], header["plugin"], header["publications"]) == (
        "sub",
        "pgoutput",
        '"pub"',
    )
    rows = [row for messages in copied(name, "B") for row in cells(messages)]
    goods = next(value for did, value in got(name) if did.startswith("initial copy"))
    ids = [row[0] for row in goods]
    numbers = [
        str(int.from_bytes(c[0][1], "big")) if c[0][0] == "binary" else c[0][1].decode()
        for c in rows
    ]
    assert [n for n in numbers if n in ids][: len(ids)] == ids


@pytest.mark.parametrize("name", ["walsender-commands", "walsender-commands-10", "timeline"])
def test_walsender_commands(name: str) -> None:
    wanted = [step for _, value in got(name) if isinstance(value, list) for step in value]
    tables = [w["rows"] for w in wanted if isinstance(w, dict) and w.get("rows")]
    found = [
        [[None if c is None else str(c) for c in row] for row in rows]
        for stream in capture(name).index.connections
        for rows in results(name, stream)
    ]
    subsequence(tables, found)
    refused = [value for _, value in got(name) if isinstance(value, dict)]
    assert [e for e in map(error_fields, of(name, "ErrorResponse")) if e in refused] == refused


def test_streams_that_end_by_copy_done_and_by_an_error() -> None:
    for name in ("walsender-commands", "walsender-commands-10"):
        streams = [value for did, value in got(name)
                   if did.startswith("START_REPLICATION") and isinstance(value, list)]  # fmt: skip
        subsequence(streams, [s.messages for s in replicated(name)])


def test_other_plugins_send_text() -> None:
    rows = journal("test-decoding")["rows"]
    sent = of("test-decoding", "XLogData")
    assert [text(v, "data") for v in sent] == [row[2] for row in rows]
    headers = [i.header for i in capture("test-decoding").index.connections.values()]
    assert [h.get("slot") for h in headers] == [None, "td"]


def wal(name: str) -> list[tuple[int, bytes, Node]]:
    return [(field(v, "start_lsn"), field(v, "data"), v.innermost) for v in of(name, "XLogData")]


@pytest.mark.parametrize("name", ["physical", "receivewal", "standby", "timeline"])
def test_raw_wal(name: str) -> None:
    headers = 0
    for lsn, data, node in wal(name):
        pages = find(node, f"{node.name}.data.pages")
        assert pages is not None
        begin = node.child("data").start  # type: ignore[union-attr]
        for page in pages.children or ():
            if page.child("magic") is None:
                assert page.index == 0
                continue
            headers += 1
            at = page.start - begin
            assert (lsn + at) % 8192 == 0
            assert page.child("page_lsn").value == lsn + at  # type: ignore[union-attr]
            # little-endian: magic, flags, timeline, LSN
            assert data[at + 8 : at + 16] == (lsn + at).to_bytes(8, "little")
            assert page.child("timeline").value == 1  # type: ignore[union-attr]
    first = sum(-lsn % 8192 < len(data) for lsn, data, _ in wal(name))
    assert headers >= first
    if name == "receivewal":
        assert headers > 0


def test_wal_positions() -> None:
    def number(text: str) -> int:
        high, low = text.split("/")
        return int(high, 16) << 32 | int(low, 16)

    wanted = [
        [number(start), number(end), size]
        for _, value in got("physical")[1:]
        for start, end, size in value["pieces"]
    ]
    assert [
        [field(v, "start_lsn"), field(v, "end_lsn"), len(field(v, "data"))]
        for v in of("physical", "XLogData")
    ] == wanted


# -- base backups


def archive(name: str) -> bytes:
    if name == "base-backup-14":
        return b"".join(v.data[5:] for v in copied(name, "B")[0])
    inside, data = False, b""
    for view in of(name, "new archive", "manifest", "archive or manifest data"):
        if view.path[-1] == "archive or manifest data":
            data += field(view, "data") if inside else b""
        else:
            inside = view.path[-1] == "new archive"
    return data


@pytest.mark.parametrize("name", ["base-backup-14", "base-backup-15"])
def test_names_and_sizes_in_archives(name: str) -> None:
    """Python's tarfile reads the same names; the captures are cut inside a file."""
    held = archive(name)
    wanted = []
    with tarfile.open(fileobj=io.BytesIO(held), mode="r:") as tar:
        while True:
            try:
                member = tar.next()
            except tarfile.ReadError:
                break
            if member is None:
                break
            wanted.append((member.name, member.size))
    assert len(wanted) > 20
    found = []
    for view in views(name):
        files = next((n for n in walk(view.tree) if n.name == "files" and n.index < 0), None)
        for entry in (files.children or ()) if files is not None else ():
            head = {
                c.name: decode_text(c.value) for c in entry.children or () if c.name != "content"
            }
            found.append((head["file_name"].rstrip("/"), int(head["size"], 8)))
            assert view.schema.name.rstrip("/") == head["file_name"].rstrip("/")
    assert found[: len(wanted)] == wanted
    assert len(found) - len(wanted) <= 1


def test_incremental_backup() -> None:
    steps = got("base-backup-incremental")
    sent = sum(len(v.data) - 5 for v in copied("base-backup-incremental", "F")[0])
    assert sent == steps[0][1]
    told = steps[1][1]
    names = [text(v, "archive_name") for v in of("base-backup-incremental", "new archive")]
    assert names == [a[0] for a in told["archives"]]
    assert len(archive("base-backup-incremental")) == told["archives"][0][2]
    rows = [[None if c is None else str(c) for c in recorded.values(v)]
            for v in of("base-backup-incremental", "DataRow")]  # fmt: skip
    assert rows == told["rows"]


# -- TLS

ENCRYPTED = ("tls-direct", "tls12", "tls12-chacha", "tls13", "tls13-chacha")


@pytest.mark.parametrize("name", ENCRYPTED)
def test_queries_over_tls(name: str) -> None:
    told = journal(name)["tls"]
    header = capture(name).index.connections[0].header
    assert header["TLS version"] == told["version"].replace("TLSv", "TLS ")
    assert header["TLS keys"] == "found"
    assert header["encryption"] == ("TLS (direct)" if name == "tls-direct" else "TLS")
    assert header["TLS server name (SNI)"] == "localhost"
    assert header["TLS ALPN"] == "postgresql (offered: postgresql)" or name.startswith("tls12")
    client, server = (next(v for v in of(name, "TLSRecord") if v.direction == d) for d in "FB")
    assert field(client, "fragment.handshakes[0].handshake_type") == 1  # ClientHello
    assert field(server, "fragment.handshakes[0].handshake_type") == 2  # ServerHello
    rows = [row for result in results(name) for row in result]
    assert ["Verschlüsselt", 42] in rows
    assert any(len(str(row[0])) == 35200 for row in rows)
    for view in views(name):
        if view.row.flags & DECRYPTED:
            assert view.path[0] not in ("TLSRecord", "SSLRequest", "SSLResponse")
            assert view.frames[-1] == view.row.frame


@pytest.mark.parametrize("name", [*ENCRYPTED[:3], "tls13-chacha", "tls-replication"])
def test_tls_without_keys(name: str) -> None:
    opened = capture(name, keys=False)
    info = opened.index.connections[0]
    assert info.postgres
    assert info.header["TLS keys"] == "no key log"
    assert "sslkeylogfile" in info.header["TLS how to get keys"]
    assert info.header["TLS version"] in ("TLS 1.2", "TLS 1.3")
    notes = [f.code for view in views(name, keys=False) for f in view.found]
    assert notes == ["tls-no-keys"]
    sent = transforms.streams(packets(name))
    total = sum(len(stream) for stream in sent.values())
    assert sum(v.row.length for v in views(name, keys=False)) == total
    for view in views(name, keys=False):
        assert view.path[0] in ("SSLRequest", "SSLResponse", "TLSRecord")
    directions = {DIRECTIONS[v.row.direction] for v in views(name, keys=False)}
    assert directions == {"F", "B"}
