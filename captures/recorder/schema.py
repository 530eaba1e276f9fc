"""The types, tables and publications that the workload changes."""

from __future__ import annotations

from .wire import Client

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
    xml '<a href="x">é &amp; b</a>', 'x', 'pg_class', '[(0,0),(1,2)]', '((0,0),(1,0),(1,1))',
    '<(1,2),3>', '(1,2)', 'fat & rat'""",
    """2, false, 32767, -9223372036854775808, 'NaN', '-Infinity', 'NaN', -0.01, '', '', '', '',
    'infinity', '00:00', '24:00:00', '00:00:00-12', 'infinity', '-infinity', '0044-03-15 00:00:00 BC',
    '-00:00:00.000001', '00000000-0000-0000-0000-000000000000', 'null', '[]', '::1',
    '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', '00000', '', '0', '', '(Infinity,-0)', '((2,2),(2,2))',
    0, '', NULL, '0/0', 'empty', 'empty', '(,)', '{}', '[0:1]={7,8}', '{}', xml '', '', NULL,
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


def _each(client: Client, *statements: str) -> None:
    for statement in statements:
        client.query(statement)


def create(client: Client, major: int) -> None:
    """Types, tables and publications."""
    _each(client, SCHEMA, VALUES_TABLE)
    columns = ", ".join(f"c{n:03} integer" for n in range(1, 300))
    _each(client, f"CREATE TABLE wide (id integer PRIMARY KEY, {columns})")
    if major >= 11:
        _each(
            client,
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
    if major >= 12:
        _each(
            client,
            "CREATE TABLE generated (id integer PRIMARY KEY, a integer, "
            "twice integer GENERATED ALWAYS AS (a * 2) STORED)",
        )
    if major >= 14:
        _each(
            client,
            "CREATE TABLE ranges (id integer PRIMARY KEY, m int4multirange, n nummultirange)",
        )
    extra = ", publish_generated_columns = stored" if major >= 18 else ""
    publish = "insert, update, delete" + (", truncate" if major >= 11 else "")
    names = client.value(
        "SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid) FROM pg_class WHERE relnamespace "
        "IN ('public'::regnamespace, '\"Größen\"'::regnamespace) AND relkind = 'r' "
        "AND relpersistence = 'p' AND relname <> 'ballast'"
    )
    _each(client, f"CREATE PUBLICATION pub FOR TABLE {names} WITH (publish = '{publish}'{extra})")
    if major >= 13:
        _each(
            client,
            "CREATE PUBLICATION pub_root FOR TABLE sales WITH (publish_via_partition_root = true"
            f"{extra})",
        )
    else:
        _each(client, "CREATE PUBLICATION pub_root FOR TABLE item")
