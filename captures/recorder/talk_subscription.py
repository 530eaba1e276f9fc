"""Conversations of real subscriptions: initial copy, apply, streams, prepared transactions."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import truth
from .conversation import Scenario, Stage
from .servers import RecorderError, running
from .talk_wal import until
from .wire import Client
from .workload import BALLAST

TABLES = """
CREATE TABLE goods (id integer PRIMARY KEY, name text, price numeric(8,2), tags text[]);
CREATE TABLE log (id integer, entry varchar(40));
ALTER TABLE log REPLICA IDENTITY FULL;
"""


def _publisher(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query(TABLES + "CREATE TABLE ballast (b text);")
    admin.query(
        "INSERT INTO goods VALUES (1, 'Käse', 4.50, '{a,b}'), (2, E'tab\\t back\\\\slash', NULL, '{}'),"
        "(3, NULL, -1, NULL); INSERT INTO log SELECT g, 'before ' || g FROM generate_series(1, 4) g;"
        "CREATE PUBLICATION pub FOR TABLE goods, log"
    )
    admin.close()


def _changes(stage: Stage, admin: Client, options: dict[str, str]) -> None:
    def run(*statements: str) -> None:
        for statement in statements:
            admin.query(statement)
            short = statement if statement != BALLAST else "(ballast: the transaction is streamed)"
            stage.did(short)

    run(
        "INSERT INTO goods VALUES (4, 'new', 1.5, '{x}')",
        "UPDATE goods SET id = 5, price = 2 WHERE id = 4",
        "UPDATE log SET entry = 'changed' WHERE id = 2", "DELETE FROM log WHERE id = 1",
    )  # fmt: skip
    if stage.server.major >= 11:
        run("TRUNCATE log")
    if "streaming" in options:
        run(
            "BEGIN", "INSERT INTO log SELECT g, 'streamed' FROM generate_series(10, 15) g", BALLAST,
            "SAVEPOINT s", "INSERT INTO log VALUES (20, 'rolled back')", BALLAST, "ROLLBACK TO s",
            "UPDATE goods SET name = 'streamed' WHERE id = 1", "COMMIT",
        )  # fmt: skip
    if options.get("two_phase") == "on":
        run(
            "BEGIN", "INSERT INTO log VALUES (30, 'prepared')", "PREPARE TRANSACTION 'one'",
            "COMMIT PREPARED 'one'",
            "BEGIN", "INSERT INTO log VALUES (31, 'prepared')", "PREPARE TRANSACTION 'two'",
            "ROLLBACK PREPARED 'two'",
            "BEGIN", "INSERT INTO log VALUES (32, 'streamed, prepared')", BALLAST,
            "PREPARE TRANSACTION 'three'", "COMMIT PREPARED 'three'",
        )  # fmt: skip


def _subscribe(subscriber_major: str, settings: str) -> Callable[[Stage], None]:
    def scenario(stage: Stage) -> None:
        admin = stage.server.connect()
        with running(subscriber_major, stage.cache) as other:
            subscriber = other.connect()
            stage.facts["subscriber_version"] = other.version()
            subscriber.query(TABLES)
            conninfo = f"host=127.0.0.1 port={stage.server.port} user=postgres dbname=postgres"
            conninfo += " sslmode=disable gssencmode=disable" if other.major >= 12 else ""
            with_options = f" WITH ({settings})" if settings else ""
            subscriber.query(
                f"CREATE SUBSCRIPTION sub CONNECTION '{conninfo}' PUBLICATION pub{with_options}"
            )
            stage.did(f"CREATE SUBSCRIPTION sub CONNECTION '...' PUBLICATION pub{with_options}")
            ready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'"
            until(lambda: subscriber.value(ready) == "2", "the initial copy of two tables")
            copied = subscriber.rows("SELECT * FROM goods ORDER BY id")
            stage.did("initial copy of goods and log", copied)
            walsender = (
                "SELECT query FROM pg_stat_activity a JOIN pg_stat_replication r USING (pid) "
                "WHERE r.application_name = 'sub' AND r.state = 'streaming'"
            )
            until(lambda: bool(admin.rows(walsender)), "the stream of changes")
            command = admin.value(walsender)
            stage.facts["start_replication"] = command
            options = dict(re.findall(r"(\w+) '((?:[^']|'')*)'", command))
            extra = ", false, true" if options.get("two_phase") == "on" else ""
            admin.query(f"SELECT pg_create_logical_replication_slot('truth', 'pgoutput'{extra})")
            _changes(stage, admin, options)
            end = admin.value("SELECT pg_current_wal_lsn()")
            caught = f"SELECT replay_lsn >= '{end}' FROM pg_stat_replication"
            until(lambda: admin.value(caught) == "t", "replay of all changes")
            rows = truth.peek(admin, "truth", options)
            tables = {}
            for table in ("goods", "log"):
                query = f"SELECT * FROM {table} ORDER BY 1, 2"
                tables[table] = subscriber.rows(query)
                if tables[table] != admin.rows(query):
                    raise RecorderError(f"{table} differs between publisher and subscriber")
            stage.facts["peek"] = [[lsn, xid, data.hex()] for lsn, xid, data in rows]
            stage.facts["tables"] = tables
            subscriber.query("DROP SUBSCRIPTION sub")
            stage.did("DROP SUBSCRIPTION sub")
            subscriber.close()
        admin.close()

    return scenario


def _scenario(about: str, publisher: str, subscriber: str, settings: str = "") -> Scenario:
    run = _subscribe(subscriber, settings)
    return Scenario(
        f"subscription of {subscriber} to {publisher}: {about}", publisher, run, _publisher
    )


SCENARIOS = {
    "subscription-10-18": _scenario("initial copy and changes, protocol 1", "10", "18"),
    "subscription-14-15": _scenario(
        "initial copy, streaming on, binary", "14", "15", "streaming = on, binary = true"
    ),
    "subscription-16-18": _scenario(
        "initial copy, streaming parallel, two-phase", "16", "18",
        "streaming = parallel, two_phase = true",
    ),
    "subscription-18-16": _scenario(
        "initial copy in binary, streaming parallel, two-phase, binary", "18", "16",
        "streaming = parallel, two_phase = true, binary = true, origin = none",
    ),
}  # fmt: skip
