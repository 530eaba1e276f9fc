"""Text for people: the wording of values, and that nothing unsafe or secret gets through."""

from __future__ import annotations

import struct

import pytest

from dissector import display as shown
from dissector.annotate import annotate, find
from dissector.display import Context, display, rows
from dissector.spec import Dialect

UTC_DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0/0"),
        (0x1A2B3C4, "0/1A2B3C4"),
        (0x2A7F4A880, "2/A7F4A880"),
        (2**64 - 1, "FFFFFFFF/FFFFFFFF"),
    ],
)
def test_lsn(value, text):
    assert shown.lsn(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "2000-01-01 00:00:00 UTC"),
        (849293592831399, "2026-11-29 18:53:12.831399 UTC"),
        (500_000, "2000-01-01 00:00:00.500000 UTC"),
        (-1, "1999-12-31 23:59:59.999999 UTC"),
        (2**63 - 1, "infinity"),
        (-(2**63), "-infinity"),
        (59 * UTC_DAY, "2000-02-29 00:00:00 UTC"),
        # 146,097 days are 400 years of the calendar
        (20 * 146_097 * UTC_DAY, "10000-01-01 00:00:00 UTC"),
        (-5 * 146_097 * UTC_DAY, "0001-01-01 00:00:00 UTC BC"),
    ],
)
def test_timestamp(value, text):
    assert shown.timestamp(value) == text


def test_flags():
    names = {1: "CASCADE", 2: "RESTART IDENTITY"}
    texts = [shown.flags(value, names) for value in (0, 1, 3, 0x83)]
    assert texts == [
        "0",
        "CASCADE",
        "CASCADE | RESTART IDENTITY",
        "CASCADE | RESTART IDENTITY | 0x80",
    ]


def test_numbers_with_parts():
    assert shown.full_xid((1 << 32) | 750) == "750 (epoch 1)"
    assert shown.protocol(196610) == "3.2"


def test_five_states_and_text_that_looks_like_them():
    texts = [
        shown.column("null", None),
        shown.column("text", b""),
        shown.column("unchanged", None),
        shown.column("not sent", None),
        shown.column("binary", b"NULL"),
        shown.column("text", b"NULL"),
        shown.column("text", b"it's"),
        shown.column("text", b"\\x2a"),
        shown.column("binary", b"\x2a"),
    ]
    assert texts == [
        "NULL",
        "''",
        "unchanged TOAST",
        "not sent",
        "\\x4e554c4c",
        "'NULL'",
        "'it''s'",
        "'\\\\x2a'",
        "\\x2a",
    ]
    assert len(set(texts)) == len(texts)


def test_bytes_of_unknown_kind():
    assert shown.content(b"hi") == "'hi'"
    assert shown.content("Grüße\n".encode()) == "'Grüße\\n'"
    assert shown.content(b"\x00\x01") == "\\x0001"
    assert shown.content(b"\xff\xfe") == "\\xfffe"


def test_large_values_are_cut():
    context = Context(limit=20)
    assert shown.content(b"x" * 5_000_000, context) == "'" + "x" * 19 + "…'"
    assert shown.binary(b"\x01" * 5_000_000, 20) == "\\x" + "01" * 10 + "… (5000000 bytes)"
    assert shown.content("ä".encode() * 1000, context) == "'" + "ä" * 19 + "…'"


def test_bytes_that_do_not_decode_are_seen():
    assert shown.quoted(b"a\xffb") == "'a\\xffb'"
    assert shown.quoted(b"Gr\xfc\xdfe", Context(encoding="latin-1")) == "'Grüße'"


def test_secrets_are_masked_until_asked_for():
    data = b"p" + struct.pack(">I", 11) + b"secret\0"
    tree = annotate(data, "frontend", Dialect(auth="AuthenticationCleartextPassword"))
    node = find(tree, "PasswordMessage.password")
    assert display(node) == "(masked, 6 bytes)"
    assert display(node, Context(show_secrets=True)) == "secret"
    assert all("secret" not in row.text for row in rows(tree))


def test_names_of_relations_and_types():
    context = Context(relations={5: "public.t"}, types={16396: "public.mood"})
    tree = annotate(b"I\0\0\0\x05N\0\0", "pgoutput", Dialect())
    assert display(find(tree, "Insert.relation_oid"), context) == "5 (public.t)"
    column = b"\1m\0" + struct.pack(">Ii", 16396, -1)
    relation = b"R\0\0\0\x05public\0t\0f\0\1" + column
    tree = annotate(relation, "pgoutput", Dialect())
    assert display(find(tree, "Relation.columns[0]"), context) == "m public.mood"
    assert display(find(tree, "Relation.columns[0].type_oid"), context) == "16396 (public.mood)"
    assert display(find(tree, "Relation.columns[0].type_oid")) == "16396"
