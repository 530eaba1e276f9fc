"""Column values: every expected text and type name was given by a PostgreSQL 18.4 server.

golden/values.json: an SQL expression, its type, and its value as the server sent it in text and in
binary format (TimeZone UTC, DateStyle ISO, lc_monetary C). golden/type_names.json: column definitions,
what pg_attribute holds for them, and format_type's answer.
"""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissector.binary import guess_binary
from dissector.catalogue.types import TYPES
from dissector.moments import civil, date_text, timestamp_text
from dissector.values import type_name, value

GOLDEN = Path(__file__).parent / "golden"
VALUES = json.loads((GOLDEN / "values.json").read_text())
TYPE_NAMES = json.loads((GOLDEN / "type_names.json").read_text())


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row["sql"])
def test_binary_reads_as_the_server_writes_text(row):
    found = value(row["oid"], row["typmod"], bytes.fromhex(row["binary"]), "binary")
    assert (found.text, found.type, found.known) == (row["text"], row["type"], True)


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row["sql"])
def test_text_is_kept_and_its_value_is_the_binary_ones(row):
    found = value(row["oid"], row["typmod"], row["text"].encode(), "text")
    assert (found.text, found.type) == (row["text"], row["type"])
    if row["oid"] in (16, 17, 20, 21, 23, 26, 1700) and "NaN" not in row["text"]:
        binary = value(row["oid"], row["typmod"], bytes.fromhex(row["binary"]), "binary")
        assert found.value == binary.value
        assert type(found.value) is type(binary.value)


@pytest.mark.parametrize("row", TYPE_NAMES, ids=lambda row: row["declared"])
def test_type_names_are_format_types(row):
    assert type_name(row["oid"], row["typmod"]) == row["name"]


def test_user_types_by_name_or_number():
    types = {16396: "public.mood", 16400: "pg_catalog.int4"}
    assert type_name(16396, -1, types) == "public.mood"
    assert type_name(16397, -1, types) == "type 16397"
    enum = value(16396, -1, b"ok", "text", types=types)
    assert (enum.value, enum.text, enum.type) == ("ok", "ok", "public.mood")
    unknown = value(16396, -1, b"\x01\x02", "binary", types=types)
    assert (unknown.value, unknown.text, unknown.known) == (b"\x01\x02", "\\x0102", False)
    label = value(16396, -1, b"sad", "binary", types=types)
    assert (label.value, label.text, label.known) == ("sad", "sad", False)
    moods = bytes.fromhex("00000001 00000001 0000400c 00000002 00000001 00000003 736164 ffffffff")
    assert value(16397, -1, moods, "binary").text == "{sad,NULL}"
    domain = value(16400, -1, b"\x00\x00\x00\x2a", "binary", types=types)
    assert (domain.value, domain.text) == (42, "42")


def test_states_do_not_blur():
    texts = {
        value(25, -1, None, "null").text,
        value(25, -1, b"", "text").text,
        value(25, -1, None, "unchanged").text,
        value(25, -1, None, "not sent").text,
    }
    assert texts == {"NULL", "", "unchanged TOAST", "not sent"}
    assert value(25, -1, None, "null").value is None
    assert value(25, -1, b"", "text").value == ""


def test_typed_values():
    assert value(1700, -1, b"1.50").value == Decimal("1.50")
    assert value(23, -1, b"-7").value == -7
    assert value(23, -1, b"seven").value == "seven"
    assert value(16, -1, b"t").value is True
    assert value(17, -1, b"\\x00ff").value == b"\x00\xff"
    assert value(1007, -1, bytes.fromhex(VALUES_BY_SQL["'{1,2,NULL}'::int[]"]), "binary").value == [
        1,
        2,
        None,
    ]


VALUES_BY_SQL = {row["sql"]: row["binary"] for row in VALUES}


def test_latin1_text():
    assert value(25, -1, b"Gr\xfc\xdfe", "text", "latin-1").text == "Grüße"


def test_labels_in_an_encoding_that_python_reads_otherwise():
    """Servers take these bytes of Shift-JIS-2004 for ASCII letters."""
    assert guess_binary(b"a\\b~c", "shift_jis_2004") == ("a\\b~c", "a\\b~c")
    assert guess_binary(b"\x81\xff", "shift_jis_2004") is None


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row["sql"])
def test_cut_binary_is_shown_as_hex_or_as_a_shorter_value(row):
    raw = bytes.fromhex(row["binary"])
    for stop in range(len(raw)):
        found = value(row["oid"], row["typmod"], raw[:stop], "binary")
        assert found.known or found.text == "\\x" + raw[:stop].hex()


def test_hostile_binary_never_raises():
    deep = b"\x00\x00\x00\x01" + (2249).to_bytes(4, "big")
    record = b"\x00\x00\x00\x00"
    for _ in range(5000):
        record = deep + len(record).to_bytes(4, "big") + record
    assert not value(2249, -1, record, "binary").known
    assert not value(16396, -1, record, "binary").known
    nots = b"\x02\x01" * 5000
    assert not value(3615, -1, struct.pack(">i", 5000) + nots, "binary").known
    huge_array = bytes.fromhex("00000001 00000000 00000017 7fffffff 00000001")
    assert not value(1007, -1, huge_array, "binary").known
    assert not value(1700, -1, bytes.fromhex("ffff 7fff 0000 0000"), "binary").known


@settings(max_examples=300)
@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=64))
def test_any_bytes_of_any_type(oid, raw):
    found = value(oid, -1, raw, "binary")
    assert found.known or found.text == "\\x" + raw.hex()


def test_calendar_edges():
    # by the rules of the Gregorian calendar: 2000 and 2400 are leap years, 1900 and 2100 are not
    assert civil(0) == (2000, 1, 1)
    assert civil(-1) == (1999, 12, 31)
    assert civil(59) == (2000, 2, 29)
    assert civil(366 + 365 * 99 + 24 + 59) == (2100, 3, 1)
    assert date_text(-730_119) == "0001-01-01"
    assert date_text(-730_120) == "0001-12-31 BC"
    assert timestamp_text(-1) == "1999-12-31 23:59:59.999999"
