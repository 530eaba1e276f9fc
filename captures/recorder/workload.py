"""The SQL that a recorded server runs: schema first, then the changes, in sections.

Every section leaves no transaction open. A section runs before the walsender starts, or "live":
then ``Run.sync`` waits until the walsender has sent all that was written so far, so that what it
sends does not depend on timing. Changes of definitions are never made live: the walsender gets
word of them through shared memory too, and would send some Relation messages twice, or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .servers import Server
from .wire import Client, lsn_number

Section = Callable[["Run"], None]

SCHEMA = """
CREATE SCHEMA "Größen";
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'très heureux');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN short_text AS varchar(12);
CREATE UNLOGGED TABLE filler (n integer);
CREATE TABLE ballast (b text);
CREATE TABLE item (id integer PRIMARY KEY, name text NOT NULL, qty integer);
CREATE TABLE full_item (id integer, name text, note text);
ALTER TABLE full_item REPLICA IDENTITY FULL;
CREATE TABLE no_identity (id integer, what varchar(20));
ALTER TABLE no_identity REPLICA IDENTITY NOTHING;
CREATE TABLE by_index (code text NOT NULL, part integer NOT NULL, val text);
CREATE UNIQUE INDEX by_index_key ON by_index (code, part);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_key;
CREATE TABLE no_columns ();
CREATE TABLE toasted (id integer PRIMARY KEY, n integer, big text);
ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL;
CREATE TABLE toasted_full (id integer, n integer, big text);
ALTER TABLE toasted_full ALTER big SET STORAGE EXTERNAL;
ALTER TABLE toasted_full REPLICA IDENTITY FULL;
CREATE TABLE custom (id integer PRIMARY KEY, m mood, p pair, d positive, s short_text,
    ms mood[], ps pair[], ia integer[], ta text[][]);
CREATE TABLE "Größen"."naïve 表" ("ключ" integer PRIMARY KEY, "prix €" numeric(10,2),
    "we""ird[b]" text);
CREATE TABLE streamed (id integer PRIMARY KEY, grp text, val integer);
CREATE TABLE parent (id serial PRIMARY KEY, name text);
CREATE TABLE child (id serial PRIMARY KEY, parent integer REFERENCES parent);
CREATE TABLE alter_me (id integer PRIMARY KEY, a text);
"""

VALUES_TABLE = """
CREATE TABLE every_type (id integer PRIMARY KEY, c_bool boolean, c_int2 smallint, c_int8 bigint,
    c_float4 real, c_float8 double precision, c_numeric numeric, c_num102 numeric(10,2),
    c_text text, c_varchar varchar(30), c_char char(6), c_bytea bytea, c_date date, c_time time,
    c_time3 time(3), c_timetz timetz, c_ts timestamp, c_tstz timestamptz, c_ts0 timestamp(0),
    c_interval interval, c_uuid uuid, c_json json, c_jsonb jsonb, c_inet inet, c_cidr cidr,
    c_mac macaddr, c_bit bit(5), c_varbit bit varying(9), c_money money, c_tsvector tsvector,
    c_point point, c_box box, c_oid oid, c_name name, c_aclitem aclitem, c_lsn pg_lsn,
    c_range int4range, c_tsrange tstzrange, c_numrange numrange, c_arr integer[],
    c_matrix integer[], c_textarr text[], c_xml xml, c_qchar "char", c_regclass regclass,
    c_path path, c_polygon polygon, c_circle circle, c_tid tid, c_tsquery tsquery);
"""

EVERY_TYPE_ROWS = [
    """1, true, -32768, 9223372036854775807, 1.5, 0.1, 12345678901234567890.123456789, 99999999.99,
    'plain', 'vierzig €', 'ab', '\\x00ff10', '2024-02-29', '23:59:59.999999', '12:00:00.125',
    '04:05:06.789+05:30', '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789012+02',
    '2001-01-01 00:00:00.5', '1 year 2 mons -3 days 04:05:06.7',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a" :  [1, null]}', '{"b": {"c": 1.50}, "a": "é"}',
    '192.168.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '10101', '110', '-1234.56',
    'a:1A fat:2B,4C cat:5', '(1.5,-2)', '((0,0),(1,1))', 4294967295, 'a_name',
    'postgres=r/postgres', '16/B374D848', '[1,10)', '[2024-01-01 00:00:00+00,)', '(,5.5]',
    '{1,NULL,3}', '{{1,2},{3,4}}', '{"a,b","quote \\" here",NULL,"NULL",""}',
    '<a href="x">é &amp; b</a>', 'x', 'pg_class', '[(0,0),(1,2)]', '((0,0),(1,0),(1,1))',
    '<(1,2),3>', '(1,2)', 'fat & rat'""",
    """2, false, 32767, -9223372036854775808, 'NaN', '-Infinity', 'NaN', -0.01, '', '', '', '',
    'infinity', '00:00', '24:00:00', '00:00:00-12', 'infinity', '-infinity', '0044-03-15 00:00:00 BC',
    '-00:00:00.000001', '00000000-0000-0000-0000-000000000000', 'null', '[]', '::1',
    '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', '00000', '', '0', '', '(Infinity,-0)', '((2,2),(2,2))',
    0, '', NULL, '0/0', 'empty', 'empty', '(,)', '{}', '[0:1]={7,8}', '{}', '', '', NULL,
    '((0,0),(1,2))', '((0,0))', '<(0,0),0>', '(0,0)', '!a | b:*'""",
    """3, NULL, 0, 0, '-0', 1e300, 1e-20, 0, E'esc \\x1b[31mred\\x1b[0m bell \\x07 tab \\t nl \\n cr \\r',
    E'[bold]x[/bold]', 'é', '\\x5c78', '4713-01-01 BC', '12:00', NULL, '12:00+00',
    '294276-12-31 23:59:59.999999', '4713-01-01 00:00:00+00 BC', '1999-12-31 23:59:59.5',
    '178000000 years', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '"\\u202e"', '1e5',
    'fe80::1/64', '0.0.0.0/0', '00:00:00:00:00:00', '11111', '101010101',
    '92233720368547758.07', 'é', '(0.1,0.2)', '((-1,-1),(-2,-2))', 1, 'ünïcode', NULL,
    'FFFFFFFF/FFFFFFFF', '[-5,5]', NULL, '[0.1,0.2)', NULL, NULL,
    E'{"\\u202ertl\\u202c", "zero\\u200bwidth"}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL""",
]


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
        from .truth import catalog_relations

        for relation in catalog_relations(self.admin):
            if relation not in self.snapshots:
                self.snapshots.append(relation)

    def close(self) -> None:
        """Close all connections."""
        for client in self.open:
            client.close()


def setup(run: Run) -> None:
    """Types, tables and publications."""
    run.sql(SCHEMA, VALUES_TABLE)
    columns = ", ".join(f"c{n:03} integer" for n in range(1, 300))
    run.sql(f"CREATE TABLE wide (id integer PRIMARY KEY, {columns})")
    if run.major >= 11:
        run.sql(
            "CREATE TABLE measure (day date NOT NULL, n integer NOT NULL, PRIMARY KEY (day, n)) "
            "PARTITION BY RANGE (day)",
            "CREATE TABLE measure_24 PARTITION OF measure "
            "FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
            "CREATE TABLE measure_25 PARTITION OF measure "
            "FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
            "CREATE TABLE sales (region integer NOT NULL, n integer NOT NULL, "
            "PRIMARY KEY (region, n)) PARTITION BY LIST (region)",
            "CREATE TABLE sales_1 PARTITION OF sales FOR VALUES IN (1)",
            "CREATE TABLE sales_2 PARTITION OF sales FOR VALUES IN (2)",
        )
    if run.major >= 12:
        run.sql(
            "CREATE TABLE generated (id integer PRIMARY KEY, a integer, "
            "twice integer GENERATED ALWAYS AS (a * 2) STORED)"
        )
    if run.major >= 14:
        run.sql("CREATE TABLE ranges (id integer PRIMARY KEY, m int4multirange, n nummultirange)")
    extra = ", publish_generated_columns = stored" if run.major >= 18 else ""
    publish = "insert, update, delete" + (", truncate" if run.major >= 11 else "")
    names = run.admin.value(
        "SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid) FROM pg_class WHERE relnamespace "
        "IN ('public'::regnamespace, '\"Größen\"'::regnamespace) AND relkind = 'r' "
        "AND relpersistence = 'p' AND relname <> 'ballast'"
    )
    run.sql(f"CREATE PUBLICATION pub FOR TABLE {names} WITH (publish = '{publish}'{extra})")
    if run.major >= 13:
        run.sql(
            "CREATE PUBLICATION pub_root FOR TABLE sales WITH (publish_via_partition_root = true"
            f"{extra})"
        )
    else:
        run.sql("CREATE PUBLICATION pub_root FOR TABLE item")


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
    for row in EVERY_TYPE_ROWS:
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
