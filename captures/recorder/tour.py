"""The tour: each pgoutput message once, in an order that teaches, as pcapng with comments."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import truth
from .servers import Server, running
from .sniff import sniffing, write_pcapng
from .wire import Client, Replication
from .workload import Run

MAJOR = "18"
ABOUT = "tour: each of the 19 messages of pgoutput, keepalives and status updates, with comments"
PLAIN = {"proto_version": "3", "publication_names": "tour", "messages": "true", "two_phase": "on"}
STREAMING = {**PLAIN, "proto_version": "4", "streaming": "parallel"}

COMMENTS = {
    "B": "Begin: a transaction arrives whole, after its commit.",
    "R": "Relation: the table's columns, sent before its first change.",
    "Y": "Type: a type that is not built in, sent before the Relation that uses it.",
    "I": "Insert: one new row.",
    "U": "Update: the new row; the old key before it, only if that was changed.",
    "D": "Delete: the old key, or with REPLICA IDENTITY FULL the old row.",
    "T": "Truncate: one message for all tables of the statement.",
    "C": "Commit: ends what Begin began.",
    "O": "Origin: the transaction was replicated to this server from another one.",
    "M": "Message: text of an application; this one is not part of a transaction.",
    "b": "Begin Prepare: a prepared transaction, sent before it is committed.",
    "P": "Prepare: ends what Begin Prepare began; its fate is still open.",
    "K": "Commit Prepared: the prepared transaction is committed.",
    "r": "Rollback Prepared: the prepared transaction is rolled back.",
    "S": "Stream Start: a part of a transaction that is still running.",
    "E": "Stream Stop: the part ends; other messages may follow before the next part.",
    "A": "Stream Abort: a subtransaction (or all) of what was streamed is rolled back.",
    "c": "Stream Commit: all parts of the streamed transaction become valid.",
    "p": "Stream Prepare: a streamed transaction is prepared instead of committed.",
}

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE UNLOGGED TABLE filler (n integer);
CREATE TABLE city (id integer PRIMARY KEY, name text, population bigint);
CREATE TABLE person (id integer PRIMARY KEY, name varchar(20), feels mood);
CREATE TABLE diary (day date, entry text);
ALTER TABLE diary REPLICA IDENTITY FULL;
CREATE TABLE page (id integer PRIMARY KEY, visits integer, body text);
ALTER TABLE page ALTER body SET STORAGE EXTERNAL;
CREATE PUBLICATION tour FOR TABLE city, person, diary, page;
"""


def _plain(run: Run) -> None:
    pause = run.sync
    run.sql("INSERT INTO city VALUES (1, 'Zürich', 443000), (2, 'Atlantis', NULL)")
    pause()
    run.sql("UPDATE city SET population = 450000 WHERE id = 1")
    pause()
    run.sql("UPDATE city SET id = 3 WHERE id = 2")
    pause()
    run.sql("DELETE FROM city WHERE id = 3")
    pause()
    run.sql("INSERT INTO person VALUES (1, 'Ada', 'happy')")
    run.sql("INSERT INTO diary VALUES ('2024-02-29', 'leap day'), (NULL, '')")
    pause()
    run.sql("UPDATE diary SET entry = 'a leap day' WHERE day = '2024-02-29'")
    run.sql("DELETE FROM diary WHERE day IS NULL")
    pause()
    run.sql("INSERT INTO page VALUES (1, 0, repeat('TOAST ', 350))")
    run.sql("UPDATE page SET visits = 1")
    pause()
    run.sql("SELECT pg_logical_emit_message(false, 'tour', 'outside of a transaction')")
    run.sql("BEGIN", "SELECT pg_logical_emit_message(true, 'tour', 'inside of one')", "COMMIT")
    run.sql("TRUNCATE person, diary RESTART IDENTITY")
    pause()
    origin = run.session()
    origin.query("SELECT pg_replication_origin_create('elsewhere')")
    origin.query("SELECT pg_replication_origin_session_setup('elsewhere')")
    origin.query("BEGIN")
    origin.query("SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2024-02-29 12:00:00+00')")
    origin.query("INSERT INTO city VALUES (4, 'København', 660000)")
    origin.query("COMMIT")
    pause()
    run.sql("BEGIN", "INSERT INTO person VALUES (2, 'Grace', 'sad')", "PREPARE TRANSACTION 'g1'")
    pause()
    run.sql("COMMIT PREPARED 'g1'")
    run.sql("BEGIN", "DELETE FROM person WHERE id = 2", "PREPARE TRANSACTION 'g2'")
    run.before_abort()
    run.sql("ROLLBACK PREPARED 'g2'")
    pause()


def _streaming(run: Run) -> None:
    first, second = run.session(), run.session()
    first.query("BEGIN")
    first.query("INSERT INTO city VALUES (10, 'streamed', 1)")
    run.sync()
    second.query("BEGIN")
    second.query("INSERT INTO person VALUES (10, 'other', 'happy')")
    run.sync()
    first.query("SAVEPOINT s")
    first.query("INSERT INTO city VALUES (11, 'rolled back', 2)")
    run.sync()
    first.query("ROLLBACK TO s")
    first.query("UPDATE city SET population = 12 WHERE id = 10")
    first.query("COMMIT")
    run.before_abort()
    second.query("ROLLBACK")
    run.sync()
    run.sql("BEGIN", "INSERT INTO city VALUES (20, 'prepared', 3)", "PREPARE TRANSACTION 'g3'")
    run.sync()
    run.sql("COMMIT PREPARED 'g3'")
    run.sync()


def _session(
    server: Server, number: int, options: dict[str, str], changes: Callable[[Run], None]
) -> tuple[list[dict[str, str]], list[bytes], Run]:
    slot, other = f"tour_{number}", f"truth_{number}"
    client = Client("127.0.0.1", server.port, {
        "user": "postgres", "database": "postgres", "replication": "database",
        "application_name": f"tour {number}",
    })  # fmt: skip
    client.query("IDENTIFY_SYSTEM")
    client.query(f"CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput (TWO_PHASE, SNAPSHOT 'nothing')")
    peeker = server.connect()
    peeker.query(f"SELECT pg_create_logical_replication_slot('{other}', 'pgoutput', false, true)")
    peeks: list[list[truth.Row]] = []
    run = Run(server, slot, lambda: peeks.append(truth.peek(peeker, other, options)))
    run.snapshot()
    listed = ", ".join(f"{k} '{v}'" for k, v in options.items())
    stream = Replication(client, f"START_REPLICATION SLOT {slot} LOGICAL 0/0 ({listed})")
    run.live = True
    run.sync()
    changes(run)
    stream.hot_standby_feedback()
    time.sleep(0.2)
    stream.status(reply=True)
    time.sleep(0.2)
    wire = stream.finish()
    client.close()
    rows, _ = truth.compare(wire, truth.peek(peeker, other, options), peeks)
    peeker.close()
    return rows, [m for _, _, m in wire], run


def commenter() -> Callable[[int, bytes], str | None]:
    """A function that comments the first packet of each kind (Ethernet, IPv4)."""
    seen: set[str] = set()

    def comment(number: int, packet: bytes) -> str | None:
        ip = 14
        tcp = ip + (packet[ip] & 15) * 4
        payload = packet[tcp + (packet[tcp + 12] >> 4) * 4 :]
        found = []
        if payload[4:8] == b"\0\3\0\0" and len(payload) == int.from_bytes(payload[:4], "big"):
            found.append("StartupMessage: replication=database asks for a walsender.")
        elif payload[:1] == b"Q" and b"START_REPLICATION" in payload:
            found.append("START_REPLICATION: its options decide the layout of what follows.")
        at = 0
        while at + 5 <= len(payload) and not found:
            length = int.from_bytes(payload[at + 1 : at + 5], "big") + 1
            body = payload[at + 5 : at + length]
            tag, key = payload[at : at + 1], ""
            if tag == b"W":
                key, text = "W", "CopyBothResponse: from here both sides send CopyData."
            elif tag == b"d" and body[:1] == b"k":
                key, text = "keepalive", "Primary keepalive: how far the server's WAL is."
            elif tag == b"d" and body[:1] == b"r":
                key, text = "status", "Standby status update: what the client has received."
            elif tag == b"d" and body[:1] == b"h":
                key, text = "feedback", "Hot standby feedback: rows that the client still needs."
            elif tag == b"d" and body[:1] == b"w" and len(body) > 25:
                key = "w" + chr(body[25])
                text = COMMENTS.get(chr(body[25]), "")
            if key and key not in seen:
                seen.add(key)
                found.append(text)
                break
            at += length
        return found[0] if found else None

    return comment


def record(name: str, out: Path, cache: Path) -> None:
    """Record the tour: two connections, the second one with every change streamed at once."""
    with tempfile.TemporaryDirectory() as folder, running(MAJOR, cache, port=5432) as server:
        raw = Path(folder) / "tour.pcap"
        admin = server.connect()
        admin.query(SCHEMA)
        with sniffing(raw, server.port, "--time-stamp-precision=nano"):
            rows, data, run = _session(server, 1, PLAIN, _plain)
            # A developer's setting: stream each change at once, not only past 64 kB.
            admin.query("ALTER SYSTEM SET debug_logical_replication_streaming = immediate")
            admin.query("SELECT pg_reload_conf()")
            time.sleep(0.2)
            more, data2, second = _session(server, 2, STREAMING, _streaming)
        write_pcapng(raw, out / f"{name}.pcapng", commenter(), "A tour of logical replication")
        truth.write_truth(out / f"{name}.truth.jsonl.gz", rows + more)
        counted = truth.contents(data + data2)
        missing = set(truth.NAMES.values()) - set(counted["messages"])
        if missing:
            raise truth.MismatchError(f"the tour lacks {', '.join(sorted(missing))}")
        truth.write_description(
            out / f"{name}.json",
            {
                "about": ABOUT,
                "recorded_by": f"python captures/record.py {name}",
                "server_version": admin.value("SHOW server_version"),
                "port": server.port,
                "options": [PLAIN, STREAMING],
                "xlogdata": len(data) + len(data2),
                "xlogdata_by_connection": [len(data), len(data2)],
                **counted,
                "relations": run.snapshots,
                "types": truth.custom_types(admin),
                "tables": truth.final_tables(admin),
            },
        )
        for each in (run, second):
            each.close()
        admin.close()
    print(f"{name}: {len(data) + len(data2)} messages equal the server's own list")
