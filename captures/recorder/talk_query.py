"""Conversations of clients that query: extended protocol, COPY, notifications, errors, cancel."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

from .conversation import Scenario, Stage, plain
from .wire import Client, ServerError, error_fields


def _table(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query(
        "CREATE TABLE goods (id integer PRIMARY KEY, name text, price numeric(8,2), "
        "since date, tags text[], raw bytea, ok boolean);"
        "INSERT INTO goods VALUES (1, 'Käse', 4.50, '2024-02-29', '{a,\"b c\"}', '\\x00ff', true),"
        "(2, 'empty', 0, NULL, '{}', '', false), (3, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    admin.close()


def _extended(stage: Stage) -> None:
    import psycopg

    with stage.connect() as connection:
        sql = "SELECT id, name, price, since, tags, raw, ok FROM goods WHERE id >= %s ORDER BY id"
        stage.did("unnamed statement, text results", connection.execute(sql, (1,)).fetchall())
        cursor = connection.cursor(binary=True)
        stage.did("the same, binary results", cursor.execute(sql, (2,)).fetchall())
        sql = "SELECT name FROM goods WHERE id = %s"
        for number in (1, 3):
            rows = connection.execute(sql, (number,), prepare=True).fetchall()
            stage.did(f"prepared statement, parameter {number}", rows)
        got = connection.execute(
            "SELECT %b::int8 + 1, %t::text, %s::date, %s::numeric", (2**40, "té xt", None, "1.5")
        )
        stage.did("binary, text and NULL parameters", got.fetchall())
        with connection.transaction(), connection.cursor(name="walk") as walk:
            walk.itersize = 2
            walk.execute("SELECT id FROM goods ORDER BY id")
            stage.did("server-side cursor, two rows a time", list(walk))
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int4", (n,)) for n in range(4)]
            connection.execute("INSERT INTO goods (id) VALUES (%s)", (10,))
        stage.did("pipeline of four SELECTs and an INSERT", [c.fetchall() for c in cursors])
        try:
            with connection.pipeline():
                connection.execute("SELECT 1")
                connection.execute("SELECT 1 / %s::int4", (0,))
                connection.execute("SELECT 'skipped'")
        except psycopg.Error as error:
            stage.did("pipeline with an error in it", str(error))
        connection.execute("SET client_encoding TO 'LATIN1'")
        rows = connection.execute("SELECT name FROM goods WHERE id = %s", (1,)).fetchall()
        stage.did("SET client_encoding TO LATIN1, then a name", rows)


def _exchange(stage: Stage, client: Client, what: str, *messages: tuple[str, bytes]) -> None:
    """Send messages, read up to ReadyForQuery, note what came (tag and body in hex)."""
    for tag, body in messages:
        client.send(tag, body)
    got: list[Any] = []
    while True:
        tag, body = client.receive()
        got.append([tag, body.hex() if tag != "E" else error_fields(body)])
        if tag == "Z":
            stage.did(what, got)
            return


def _parse(name: bytes, sql: str, *types: int) -> tuple[str, bytes]:
    oids = struct.pack(f"!h{len(types)}I", len(types), *types)
    return "P", name + b"\0" + sql.encode() + b"\0" + oids


def _bind(
    portal: bytes, name: bytes, values: list[bytes | None], formats: list[int], results: list[int]
) -> tuple[str, bytes]:
    body = portal + b"\0" + name + b"\0"
    body += struct.pack(f"!h{len(formats)}hh", len(formats), *formats, len(values))
    for value in values:
        body += b"\xff\xff\xff\xff" if value is None else struct.pack("!i", len(value)) + value
    return "B", body + struct.pack(f"!h{len(results)}h", len(results), *results)


def _execute(portal: bytes, rows: int = 0) -> tuple[str, bytes]:
    return "E", portal + b"\0" + struct.pack("!i", rows)


def _portals(stage: Stage) -> None:
    sync, flush = ("S", b""), ("H", b"")
    client = stage.raw()
    sql = "SELECT id, name, ok FROM goods WHERE id > $1 ORDER BY id"
    _exchange(
        stage,
        client,
        "Parse, Describe statement, Sync",
        _parse(b"s1", sql, 23),
        ("D", b"Ss1\0"),
        sync,
    )
    _exchange(
        stage, client, "Bind (binary parameter, mixed results), Describe portal, Execute 2 rows, the rest",
        _bind(b"p1", b"s1", [struct.pack("!i", 0)], [1], [1, 0, 1]), ("D", b"Pp1\0"),
        _execute(b"p1", 2), _execute(b"p1", 0), ("C", b"Pp1\0"), sync,
    )  # fmt: skip
    _exchange(
        stage, client, "two portals of one statement, executed in turns, all results binary",
        _bind(b"a", b"s1", [b"0"], [], [1]), _bind(b"b", b"s1", [b"1"], [0], []),
        _execute(b"a", 1), _execute(b"b", 1), _execute(b"a", 1), _execute(b"b", 1), sync,
    )  # fmt: skip
    _exchange(
        stage, client, "NULL parameter; empty query; statement without rows",
        _bind(b"", b"s1", [None], [], []), _execute(b""),
        _parse(b"", ""), _bind(b"", b"", [], [], []), ("D", b"P\0"), _execute(b""),
        _parse(b"", "UPDATE goods SET ok = NOT ok"), _bind(b"", b"", [], [], []), ("D", b"P\0"),
        _execute(b""), flush, sync,
    )  # fmt: skip
    _exchange(
        stage, client, "an error: what follows is skipped up to Sync",
        _parse(b"", "SELECT nothing_there"), ("D", b"S\0"), _bind(b"", b"", [], [], []),
        _execute(b""), sync,
    )  # fmt: skip
    _exchange(stage, client, "Close statement that was never there", ("C", b"Snone\0"), sync)
    client.send("Q", b"SELECT 1 AS one; SELECT 'x' AS two, NULL; ;\0")
    stage.did("simple query of several statements", [r.rows for r in client.until_ready()])
    client.close()


def _function(stage: Stage) -> None:
    client = stage.raw()
    two = struct.pack("!i", 2)
    call = struct.pack("!Ihhh", 177, 1, 1, 2) + (struct.pack("!i", 4) + two) * 2 + b"\0\1"
    _exchange(stage, client, "FunctionCall int4pl(2, 2), binary", ("F", call))
    call = struct.pack("!Ihh", 2311, 0, 1) + struct.pack("!i", 3) + b"abc" + b"\0\0"
    _exchange(stage, client, "FunctionCall md5('abc'), text", ("F", call))
    call = struct.pack("!Ihh", 2311, 0, 1) + b"\xff\xff\xff\xff" + b"\0\0"
    _exchange(stage, client, "FunctionCall md5(NULL)", ("F", call))
    call = struct.pack("!Ihhh", 1, 0, 0, 0)
    _exchange(stage, client, "FunctionCall of a function that is not there", ("F", call))
    client.close()


def _copy(stage: Stage) -> None:
    import psycopg

    with stage.connect() as connection:
        connection.execute("CREATE TEMP TABLE t (id integer, word text, n numeric(5,1))")
        cursor = connection.cursor()
        for kind, data in (
            ("", b"1\tt\xc3\xa4glich\t1.5\n2\ta\\tb\\\\c\t\\N\n3\t\\N\t-0.1\n"),
            ("(FORMAT csv, HEADER)", b'id,word,n\n4,"a,""b""\nc",2.5\n5,,\n6,"",0\n'),
        ):
            with cursor.copy(f"COPY t FROM STDIN {kind}") as copy:
                for at in range(0, len(data), 7):  # rows cut anywhere
                    copy.write(data[at : at + 7])
            stage.did(f"COPY t FROM STDIN {kind}", cursor.rowcount)
        with cursor.copy("COPY t FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text", "numeric"])
            copy.write_row((7, "binär", 3))
            copy.write_row((8, None, None))
        stage.did("COPY t FROM STDIN (FORMAT binary)", cursor.rowcount)
        for kind in ("", "(FORMAT csv, HEADER)", "(FORMAT binary)"):
            with cursor.copy(f"COPY (SELECT * FROM t ORDER BY id) TO STDOUT {kind}") as copy:
                stage.did(f"COPY (SELECT * FROM t) TO STDOUT {kind}", b"".join(map(bytes, copy)))
        rows = cursor.execute("SELECT * FROM t ORDER BY id").fetchall()
        stage.did("SELECT * FROM t", rows)
        try:
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write(b"9\tnever\t1\n")
                raise KeyError("the client changed its mind")
        except KeyError:
            stage.did("CopyFail", "sent")
        try:
            with cursor.copy("COPY t FROM STDIN") as copy:
                copy.write(b"not a number\tx\t1\n")
        except psycopg.Error as error:
            stage.did("a row that the server refuses", str(error))


def _notify(stage: Stage) -> None:
    with stage.connect() as listener, stage.connect() as other:
        listener.execute('LISTEN "Kanäle"; LISTEN plain')
        other.execute("NOTIFY plain")
        other.execute("SELECT pg_notify('Kanäle', 'Grüße € 😀')")
        other.execute("BEGIN; NOTIFY plain, 'in a transaction'; COMMIT")
        got = [[n.channel, n.payload, n.pid] for n in listener.notifies(timeout=2, stop_after=3)]
        stage.did("LISTEN on two channels, three NOTIFY of another session", got)
        stage.facts["pids"] = [listener.info.backend_pid, other.info.backend_pid]
        listener.execute("UNLISTEN *")


RAISE_ALL = (
    "DO $$ BEGIN RAISE EXCEPTION 'no % today', 'bread' USING ERRCODE = 'P0042', DETAIL = 'sold out', "
    "HINT = 'come tomorrow', COLUMN = 'c', CONSTRAINT = 'k', DATATYPE = 'd', TABLE = 't', "
    "SCHEMA = 's'; END $$"
)
RAISE_NOTICES = (
    "DO $$ BEGIN RAISE NOTICE 'für % Leute', 3; RAISE WARNING 'careful' USING HINT = 'look'; "
    "RAISE INFO 'just so'; RAISE LOG 'not sent'; RAISE DEBUG 'not sent either'; END $$"
)
ERRORS = (
    "SELECT 1 +",
    "SELECT * FROM no_such_table",
    "INSERT INTO goods (id) VALUES (1)",
    "INSERT INTO goods (id, price) VALUES (77, 99999999)",
    "SELECT 1 / 0",
    RAISE_ALL,
    "DO $$ BEGIN EXECUTE 'SELECT bröken FROM nowhere'; END $$",
)
NOTICES = (
    RAISE_NOTICES,
    "DROP TABLE IF EXISTS never_was",
    "COMMIT",
)


def _errors(stage: Stage) -> None:
    client = stage.raw()
    for sql in ERRORS:
        try:
            client.query(sql)
        except ServerError as error:
            stage.did(sql, error.fields)
    for sql in NOTICES:
        client.notices.clear()
        client.query(sql)
        stage.did(sql, list(client.notices))
    admin = stage.server.connect()
    admin.query(f"SELECT pg_terminate_backend({client.pid})")
    tag, body = client.receive()
    stage.did("pg_terminate_backend by another session", [tag, plain(error_fields(body))])
    client.sock.close()
    admin.close()


def _cancel(stage: Stage) -> None:
    import psycopg

    with stage.connect() as connection:

        def later() -> None:
            while not stage.server.active("SELECT pg_sleep(60)"):
                time.sleep(0.02)
            connection.cancel_safe()

        thread = threading.Thread(target=later)
        thread.start()
        try:
            connection.execute("SELECT pg_sleep(60)")
        except psycopg.Error as error:
            stage.did("SELECT pg_sleep(60), cancelled", str(error))
        thread.join()
        stage.facts["process"] = connection.info.backend_pid
        stage.did("SELECT 'alive'", connection.execute("SELECT 'alive'").fetchall())
    probe = socket.create_connection(("127.0.0.1", stage.server.port))
    probe.sendall(struct.pack("!iiII", 16, 80877102, 4242, 0xDEADBEEF))
    stage.did("CancelRequest with a key of nobody's", probe.recv(10) or "closed")
    probe.close()


SCENARIOS = {
    "query-extended": Scenario(
        "psycopg 3: prepared statements, text and binary, cursor, pipeline, client_encoding changed",
        "18", _extended, _table,
    ),
    "query-portals": Scenario(
        "raw client: named statements and portals, row limits, mixed formats, errors, Flush",
        "14", _portals, _table,
    ),
    "function-call": Scenario("FunctionCall with binary and text arguments", "12", _function),
    "copy": Scenario("COPY in and out: text, CSV and binary, CopyFail, an error", "17", _copy),
    "notify": Scenario("LISTEN and NOTIFY between two sessions", "16", _notify),
    "errors": Scenario(
        "errors and notices with every field that a server sends, a session terminated",
        "18", _errors, _table,
    ),
    "cancel": Scenario("CancelRequest that hits, and one that hits nobody", "15", _cancel),
}  # fmt: skip
