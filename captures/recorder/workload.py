"""The changes that a recorded server makes, in sections; schema.py has the tables.

Every section leaves no transaction open. A section runs before the walsender starts, or "live":
then ``Run.sync`` waits until the walsender has sent all that was written so far, so that what it
sends does not depend on timing. Changes of definitions are never made live: the walsender gets
word of them through shared memory too, and would send some Relation messages twice, or not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from .schema import EVERY_TYPE_ROWS
from .servers import Server
from .truth import catalog_relations
from .wire import Client, ServerError, lsn_number

Section = Callable[["Run"], None]


class Run:
    """What a section works with: the server, an administrator's connection, more when asked."""

    def __init__(self, server: Server, slot: str, peek: Callable[[], None] | None = None) -> None:
        self.server = server
        self.major = server.major
        self.slot = slot
        self.admin = server.connect()
        self.peek = peek
        self.live = False
        self.open: list[Client] = [self.admin]
        self.snapshots: list[dict[str, object]] = []

    def sql(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own unless it says otherwise."""
        for statement in statements:
            self.admin.query(statement)

    def session(self) -> Client:
        """Another connection."""
        client = self.server.connect()
        self.open.append(client)
        return client

    def sync(self) -> None:
        """Wait until the walsender of the slot has sent all WAL written so far."""
        if not self.live:
            return
        # The commit of a change to an unlogged table makes the WAL writer flush what others wrote.
        target = lsn_number(self.admin.value("SELECT pg_current_wal_insert_lsn()"))
        self.admin.query("INSERT INTO filler VALUES (1)")
        query = (
            "SELECT s.sent_lsn FROM pg_stat_replication s JOIN pg_replication_slots r "
            f"ON r.active_pid = s.pid WHERE r.slot_name = '{self.slot}'"
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            sent = self.admin.rows(query)
            if sent and sent[0][0] and lsn_number(sent[0][0]) >= target:
                return
            time.sleep(0.02)
        raise TimeoutError(f"the walsender did not reach {target:X} within 30 s")

    def before_abort(self) -> None:
        """Let the walsender catch up and keep what a peek shows while a transaction is open."""
        self.sync()
        if self.live and self.peek:
            self.peek()

    def snapshot(self) -> None:
        """Keep how the catalog describes the published tables now."""
        for relation in catalog_relations(self.admin):
            if relation not in self.snapshots:
                self.snapshots.append(relation)

    def close(self) -> None:
        """Close all connections."""
        for client in self.open:
            client.close()


def basics(run: Run) -> None:
    """Inserts, updates and deletes under each replica identity; K, O and N tuples."""
    run.sql(
        "INSERT INTO item VALUES (1, 'first', 10), (2, 'zweite', NULL), (3, '', 0)",
        "UPDATE item SET qty = 11 WHERE id = 1",
        "UPDATE item SET id = 20 WHERE id = 2",
        "DELETE FROM item WHERE id = 3",
        "INSERT INTO full_item VALUES (1, 'full', NULL), (2, 'voll', 'x')",
        "UPDATE full_item SET note = 'now' WHERE id = 1",
        "DELETE FROM full_item WHERE id = 2",
        "INSERT INTO no_identity VALUES (1, 'insert only'), (NULL, NULL)",
        "INSERT INTO by_index VALUES ('a', 1, 'x'), ('b', 2, NULL)",
        "UPDATE by_index SET val = 'y' WHERE code = 'a'",
        "UPDATE by_index SET part = 3 WHERE code = 'b'",
        "DELETE FROM by_index WHERE code = 'a'",
        "INSERT INTO no_columns DEFAULT VALUES",
        """INSERT INTO "Größen"."naïve 表" VALUES (1, 12.50, 'naïve café 表'), (2, -0.01, '😀')""",
        """UPDATE "Größen"."naïve 表" SET "ключ" = 3 WHERE "ключ" = 2""",
    )


def latin(run: Run) -> None:
    """Names and values that LATIN1 has, in tables and types of their own."""
    run.sql(
        "CREATE TYPE größe AS ENUM ('groß', 'klein')",
        'CREATE TABLE "Straße" ("Hausnümmer" integer PRIMARY KEY, "Größe" größe, "café" text)',
        'ALTER PUBLICATION pub ADD TABLE "Straße"',
        """INSERT INTO "Straße" VALUES (1, 'groß', 'crème brûlée £ ¥'), (2, 'klein', NULL)""",
        """UPDATE "Straße" SET "Hausnümmer" = 3, "café" = 'ÿ' WHERE "Hausnümmer" = 2""",
        "INSERT INTO generated (id, a) VALUES (1, 21)",
    )


def types(run: Run) -> None:
    """Values of the common types, custom types, unchanged TOAST values, a table of 300 columns."""
    try:
        run.sql("SELECT xml '<a/>'")
        rows = EVERY_TYPE_ROWS
    except ServerError:  # the PyPI package is built without libxml
        rows = [re.sub("xml '[^']*'", "NULL", row) for row in EVERY_TYPE_ROWS]
    for row in rows:
        run.sql(f"INSERT INTO every_type VALUES ({row})")
    run.sql(
        "UPDATE every_type SET c_bool = NOT c_bool WHERE id = 1",
        "INSERT INTO custom VALUES (1, 'très heureux', (1, 'x,\"y'), 5, 'kurz', '{sad,NULL,ok}', "
        "ARRAY[(1,'a')::pair, (2,NULL)::pair], '{1,2,3}', '{{a,b},{c,\"d e\"}}')",
        "INSERT INTO custom (id, m) VALUES (2, 'sad')",
        "INSERT INTO toasted VALUES (1, 1, repeat('toast ', 400)), (2, 2, 'short')",
        "UPDATE toasted SET n = n + 1",
        "UPDATE toasted SET id = 10 WHERE id = 1",
        "INSERT INTO toasted_full VALUES (1, 1, repeat('bread ', 400))",
        "UPDATE toasted_full SET n = 2",
        "INSERT INTO wide (id, c001, c150, c299) VALUES (1, 1, 150, 299)",
        "UPDATE wide SET c002 = -2 WHERE id = 1",
    )
    if run.major >= 12:
        run.sql("INSERT INTO generated (id, a) VALUES (1, 21)", "UPDATE generated SET a = 4")
    if run.major >= 14:
        run.sql(
            "INSERT INTO ranges VALUES (1, '{[1,3),[5,9)}', '{(,1.5],[2.5,)}'), (2, '{}', NULL)"
        )


def partitions(run: Run) -> None:
    """Changes of partitions, published as the leaf and as the root; a row that changes partition."""
    if run.major >= 11:
        run.sql(
            "INSERT INTO measure VALUES ('2024-05-01', 1), ('2025-05-01', 2)",
            "UPDATE measure SET day = '2025-06-01' WHERE n = 1",
            "INSERT INTO sales VALUES (1, 1), (2, 2)",
            "UPDATE sales SET region = 2 WHERE n = 1",
            "DELETE FROM sales WHERE n = 2",
        )


def truncates(run: Run) -> None:
    """TRUNCATE of one and of two tables, CASCADE, RESTART IDENTITY."""
    run.sql(
        "INSERT INTO parent (name) VALUES ('p1'), ('p2')",
        "INSERT INTO child (parent) VALUES (1), (2)",
        "TRUNCATE no_identity",
        "TRUNCATE no_columns, full_item RESTART IDENTITY",
        "TRUNCATE parent CASCADE",
        "INSERT INTO parent (name) VALUES ('p3')",
        "TRUNCATE parent RESTART IDENTITY CASCADE",
    )


def ddl(run: Run) -> None:
    """A table's definition changes between transactions and inside one."""
    run.sql("INSERT INTO alter_me VALUES (1, 'before')")
    run.snapshot()
    run.sql("ALTER TABLE alter_me ADD COLUMN b numeric(5,1) DEFAULT 1.5")
    run.sql("INSERT INTO alter_me VALUES (2, 'added', 2.5)")
    run.snapshot()
    run.sql("BEGIN", "INSERT INTO alter_me VALUES (3, 'in a transaction', 3.5)")
    run.sql("ALTER TABLE alter_me DROP COLUMN a", 'ALTER TABLE alter_me ADD COLUMN "ä" mood')
    run.sql("INSERT INTO alter_me VALUES (4, 4.5, 'ok')", "COMMIT")
    run.snapshot()
    run.sql("ALTER TABLE alter_me REPLICA IDENTITY FULL", "ALTER TABLE alter_me RENAME TO altered")
    run.sql("UPDATE altered SET b = 5.5 WHERE id = 4", "DELETE FROM altered WHERE id = 1")
    run.snapshot()


def savepoints(run: Run) -> None:
    """Subtransactions, one rolled back; a transaction rolled back; one that changes nothing."""
    run.sql(
        "BEGIN", "INSERT INTO item VALUES (100, 'kept', 1)", "SAVEPOINT a",
        "INSERT INTO item VALUES (101, 'rolled back', 1)", "ROLLBACK TO a",
        "INSERT INTO item VALUES (102, 'after', 2)", "SAVEPOINT b",
        "INSERT INTO item VALUES (103, 'released', 3)", "RELEASE b", "COMMIT",
        "BEGIN", "INSERT INTO item VALUES (104, 'never seen', 4)", "ROLLBACK",
        "INSERT INTO filler VALUES (2)",
    )  # fmt: skip


def origin(run: Run) -> None:
    """Changes that say they came from elsewhere."""
    session = run.session()
    session.query("SELECT pg_replication_origin_create('node ünïcode')")
    session.query("SELECT pg_replication_origin_session_setup('node ünïcode')")
    session.query("BEGIN")
    session.query("SELECT pg_replication_origin_xact_setup('1/AABBCCDD', '2024-02-29 12:00:00+00')")
    session.query("INSERT INTO item VALUES (200, 'from elsewhere', 1)")
    session.query("COMMIT")
    session.query("SELECT pg_replication_origin_session_reset()")


def messages(run: Run) -> None:
    """pg_logical_emit_message, transactional and not, text and bytes."""
    if run.major >= 14:
        run.sql(
            "SELECT pg_logical_emit_message(false, 'note', 'not part of a transaction')",
            "BEGIN",
            "INSERT INTO item VALUES (300, 'with message', 1)",
            "SELECT pg_logical_emit_message(true, 'präfix', 'part of a transaction, é')",
            "SELECT pg_logical_emit_message(false, '', '\\x0001ff'::bytea)",
            "COMMIT",
            "BEGIN",
            "SELECT pg_logical_emit_message(false, 'rolled back', 'yet sent')",
            "SELECT pg_logical_emit_message(true, 'rolled back', 'not sent')",
            "ROLLBACK",
        )


def many(low: int, count: int, group: str = "a") -> str:
    """Some rows for the table that streamed transactions change."""
    return (
        f"INSERT INTO streamed SELECT g, '{group}', g % 7 "
        f"FROM generate_series({low}, {low + count - 1}) g"
    )


BALLAST = "INSERT INTO ballast SELECT repeat('x', 1900) FROM generate_series(1, 40)"
"""More than logical_decoding_work_mem (64 kB), of a table that is not published: whatever the
transaction changed before is streamed, and the capture stays small."""


def large(run: Run) -> None:
    """A large transaction without streaming, and large ones that are rolled back."""
    run.sql(
        "BEGIN", many(1, 30), BALLAST, many(100, 3), "COMMIT",
        "BEGIN", many(2000, 30, "gone"), BALLAST,
    )  # fmt: skip
    run.before_abort()
    run.sql("ROLLBACK", "BEGIN", many(3000, 2), "SAVEPOINT s", many(3100, 2), BALLAST)
    run.before_abort()
    run.sql("ROLLBACK TO s", many(3200, 2), "COMMIT", "DELETE FROM streamed WHERE id < 20")
    # 18 sends a Stream Abort for this one's subtransaction, whatever the protocol version.
    run.sql(
        "BEGIN", "SAVEPOINT s", many(4000, 3), "RELEASE s", many(4100, 3), BALLAST, "ROLLBACK",
        many(4200, 1),
    )  # fmt: skip


def streams(run: Run) -> None:
    """Streamed transactions that interleave; subtransactions; updates, deletes, truncate, DDL."""
    first, second, third = run.session(), run.session(), run.session()
    # The second one has messages, and both roll something back.
    first.query("BEGIN")
    first.query(many(1000, 30, "a"))
    second.query("BEGIN")
    second.query(many(2000, 10, "b"))
    first.query(BALLAST)
    second.query(BALLAST)
    first.query("SAVEPOINT s")
    first.query(many(3000, 10, "sub"))
    second.query("SELECT pg_logical_emit_message(true, 'streamed', 'in a stream')")
    first.query(BALLAST)
    second.query("SELECT pg_logical_emit_message(false, 'between', 'not in a stream')")
    second.query(many(4000, 10, "b"))
    second.query(BALLAST)
    first.query("ROLLBACK TO s")
    first.query("UPDATE streamed SET val = -1 WHERE id < 1010")
    first.query("UPDATE streamed SET id = id + 9000 WHERE id BETWEEN 1010 AND 1014")
    first.query("SAVEPOINT s2")
    first.query("DELETE FROM streamed WHERE id BETWEEN 1015 AND 1025")
    first.query("UPDATE item SET name = 'streamed' WHERE id = 1")
    first.query("RELEASE s2")
    first.query(BALLAST)
    second.query("SAVEPOINT t")
    second.query(many(5000, 5, "t"))
    second.query(BALLAST)
    second.query("SAVEPOINT u")
    second.query(many(5100, 5, "u"))
    first.query("COMMIT")
    second.query(BALLAST)
    second.query("ROLLBACK TO t")
    second.query("COMMIT")
    # A streamed transaction with an origin, a truncate and a change of definition in it.
    third.query("SELECT pg_replication_origin_create('streaming node')")
    third.query("SELECT pg_replication_origin_session_setup('streaming node')")
    third.query("BEGIN")
    third.query("SELECT pg_replication_origin_xact_setup('2/0', '2024-03-01 00:00:00+00')")
    third.query("INSERT INTO custom (id, m) VALUES (50, 'ok')")
    third.query("TRUNCATE streamed, child RESTART IDENTITY")
    third.query(many(6000, 10, "c"))
    third.query(BALLAST)
    third.query("ALTER TABLE child ADD COLUMN extra text")
    third.query("INSERT INTO child (extra) VALUES ('new column')")
    third.query(many(7000, 10, "d"))
    third.query(BALLAST)
    third.query("COMMIT")
    run.snapshot()


def big_stream(run: Run) -> None:
    """A streamed transaction of 2000 rows, and TOAST values in it."""
    run.sql(
        "BEGIN", many(30000, 2000, "big"),
        "INSERT INTO toasted SELECT g, g, repeat('crumb ', 1000) FROM generate_series(50, 55) g",
        "UPDATE toasted SET n = -n WHERE id > 50",
        "DELETE FROM streamed WHERE id BETWEEN 30000 AND 31999 AND id % 5 > 0", "COMMIT",
    )  # fmt: skip


def streamed_aborts(run: Run) -> None:
    """Streamed transactions that are rolled back: one beside another, one with subtransactions."""
    first, second = run.session(), run.session()
    run.sql(many(8000, 3, "warm"))  # loads the caches of whoever decodes: see README, "aborts"
    run.sync()
    first.query("BEGIN")
    first.query(many(20000, 10, "a"))
    first.query(BALLAST)
    second.query("BEGIN")
    second.query(many(21000, 10, "b"))
    first.query("UPDATE streamed SET val = 5 WHERE id BETWEEN 20000 AND 20004")
    first.query(BALLAST)
    run.before_abort()
    first.query("ROLLBACK")
    run.sync()
    # Only now: 18 drops what is known to be rolled back, so a peek would stream this elsewhere.
    second.query(BALLAST)
    second.query("COMMIT")
    first.query("BEGIN")
    first.query(many(22000, 3, "a"))
    first.query(BALLAST)
    first.query("SAVEPOINT s")
    first.query(many(23000, 3, "s"))
    first.query("SAVEPOINT t")
    first.query(many(24000, 3, "t"))
    first.query(BALLAST)
    run.before_abort()
    first.query("ROLLBACK")
    run.sync()


def two_phase(run: Run) -> None:
    """PREPARE TRANSACTION, then commit or rollback; small and, with streaming, large ones."""
    run.sql(
        "BEGIN", "INSERT INTO item VALUES (400, 'prepared', 1)", "PREPARE TRANSACTION 'gid-1'",
        "INSERT INTO item VALUES (401, 'between', 1)", "COMMIT PREPARED 'gid-1'",
        "BEGIN", "UPDATE item SET qty = -1 WHERE id = 1", "PREPARE TRANSACTION 'gid é 2'",
    )  # fmt: skip
    run.before_abort()
    run.sql("ROLLBACK PREPARED 'gid é 2'")
    run.sync()


def streamed_two_phase(run: Run) -> None:
    """Large prepared transactions: Stream Prepare, then commit or rollback."""
    run.sql(many(10000, 3, "warm"))
    run.sync()
    run.sql("BEGIN", many(10100, 10, "p"), BALLAST, "PREPARE TRANSACTION 'stream-1'")
    run.sql("COMMIT PREPARED 'stream-1'")
    run.sync()
    run.sql("BEGIN", many(11100, 10, "q"), BALLAST, "PREPARE TRANSACTION 'stream-2'")
    run.before_abort()
    run.sql("ROLLBACK PREPARED 'stream-2'")
    run.sync()
