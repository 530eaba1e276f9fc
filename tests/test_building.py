"""Messages built from values: the bytes are those of the golden cases, or were written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dissector.building import BuildProblem, build
from dissector.errors import UsageProblem
from dissector.spec import Dialect

CASES = {
    case["id"]: case["hex"]
    for case in json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())
}

UNCHANGED = {"unchanged_kind": "u"}

BUILT: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "begin-epoch",
        "Begin",
        {"final_lsn": "0/1E9D450", "commit_time": "2026-11-29 18:53:12.831399 UTC", "xid": 801},
        {},
    ),
    ("begin-epoch", "begin", {"final_lsn": 0x1E9D450, "commit_time": 0x3046D92E925A7, "xid": "0x321"}, {}),
    ("timestamp-infinity", "Begin", {"final_lsn": "0/1E9D450", "commit_time": "infinity", "xid": 801}, {}),
    ("stream-abort-9", "Stream Abort", {"xid": 799, "subxid": 800}, {}),
    (
        "stream-abort-25",
        "StreamAbort",
        {
            "xid": 799,
            "subxid": 800,
            "abort_lsn": "0/19A9670",
            "abort_time": "2026-11-29T19:17:01.108166+00:00",
        },
        {"parallel": True},
    ),
    ("truncate-bits", "Truncate", {"options": "CASCADE | restart identity", "relations": [16522]}, {}),
    ("truncate-unknown-bit", "Truncate", {"options": 0x81, "relations": [{"relation_oid": 16522}]}, {}),
    ("truncate-huge-count", "Truncate", {"relation_count": 2**32 - 1, "relations": [16401]}, {}),
    ("relation-no-columns", "Relation", {"relation_oid": 16414, "namespace": "public",
                                         "relation_name": "z", "replica_identity": "d"}, {}),
    (
        "relation-typmod",
        "Relation",
        {
            "relation_oid": 16417,
            "namespace": "public",
            "relation_name": "gc",
            "columns": [
                {"flags": 1, "name": "id", "type_oid": 23, "type_modifier": -1},
                {"name": b"h", "type_oid": 1043, "type_modifier": 14},
            ],
        },
        {},
    ),
    ("insert-empty-string", "Insert", {"relation_oid": 16424, "new": [""]}, {}),
    ("insert-null", "Insert", {"relation_oid": 16424, "new": [None]}, {}),
    ("insert-binary-int4", "Insert", {"relation_oid": 16401, "new": [b"\0\0\0*"]}, {}),
    ("update-no-old", "Update", {"relation_oid": 16401, "new": ["1", "y", UNCHANGED]}, {}),
    (
        "update-key",
        "Update",
        {"relation_oid": 16401, "old": ["1", None, None], "new": ["2", "y", UNCHANGED]},
        {},
    ),
    ("delete-key", "Delete", {"relation_oid": 16401, "key_tag": "K", "old": ["2", None, None]}, {}),
    (
        "insert-in-stream",
        "Insert",
        {"xid": 801, "relation_oid": 16417, "new": ["100", "200"]},
        {"in_stream": True},
    ),
    (
        "message-in-stream",
        "Message",
        {"xid": 799, "flags": "transactional", "message_lsn": "0/19A9738", "prefix": "in",
         "content": "stream"},
        {},
    ),
    ("type-enum", "Type", {"type_oid": 16396, "namespace": "public", "name": "mood"}, {}),
    ("cancel-key-none", "BackendKeyData", {"process_id": 4242, "secret_key": b""}, {}),
    (
        "negotiate",
        "NegotiateProtocolVersion",
        {"protocol_version": "3.2", "options": ["_pq_.test_protocol_negotiation"]},
        {},
    ),
    (
        "error-fields",
        "ErrorResponse",
        {
            "fields": [
                {"field_type": letter, "value": value}
                for letter, value in (("S", "FATAL"), ("C", "28000"), ("M", "no pg"), ("R", "auth"))
            ]
        },
        {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "name", "values", "dialect"), BUILT)
def test_a_case_is_built(case: str, name: str, values: Any, dialect: Any) -> None:
    assert build(name, values, Dialect(**dialect)).hex() == CASES[case]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("CopyData", {"data": "\\x45"}, "640000000545"),
        ("XLogData", {"start_lsn": "1/2", "data": b"E"},
         "77 0000000100000002 0000000000000000 0000000000000000 45"),
        ("WALData", {"data": b""}, "77" + "00" * 24),
        ("DataRow", {"columns": ["a", None, ""]}, "4400000013 0003 00000001 61 ffffffff 00000000"),
        ("ReadyForQuery", {"status": "T"}, "5a0000000554"),
        ("ReadyForQuery", {"status": "T", "length": 9}, "5a0000000954"),
        ("SSLRequest", {}, "0000000804d2162f"),
        (
            "StartupMessage",
            {"protocol_version": "3.0", "parameters": [{"name": "user", "value": "u"}]},
            "00000010 00030000 7573657200 7500 00",
        ),
        ("AuthenticationMD5Password", {"salt": "\\x01020304"}, "520000000c 00000005 01020304"),
        ("TupleData", {"columns": ["1"]}, "0001 74 00000001 31"),
        ("Bind", {"parameter_formats": [0, 1], "parameters": [b"x"]},
         "4200000015 00 00 0002 0000 0001 0001 00000001 78 0000"),
        ("Origin", {"name": "é"}, "4f 0000000000000000 c3a900"),
    ],
)  # fmt: skip
def test_built_by_hand(name: str, values: Any, expected: str) -> None:
    assert build(name, values) == bytes.fromhex(expected)


def test_text_is_in_the_dialects_encoding() -> None:
    assert build("Origin", {"name": "é"}, Dialect(encoding="latin-1"))[-2:] == b"\xe9\0"
    with pytest.raises(BuildProblem, match=r"Origin\.name: '\\u20ac' does not exist in latin-1"):
        build("Origin", {"name": "€"}, Dialect(encoding="latin-1"))


@pytest.mark.parametrize(
    ("name", "values", "path", "words"),
    [
        ("Begin", {"xd": 1}, "Begin.xd", "did you mean xid?"),
        ("Begin", {"zzz": 1}, "Begin.zzz", "it has tag, final_lsn, commit_time, xid"),
        ("Begin", {"xid": "x"}, "Begin.xid", "'x' is no number"),
        ("Begin", {"xid": 2**32}, "Begin.xid", "does not fit: from 0 to 4294967295"),
        ("Begin", {"xid": -1}, "Begin.xid", "does not fit"),
        ("Begin", {"xid": 1.5}, "Begin.xid", "needs a number, not float"),
        ("Begin", {"final_lsn": "0-1"}, "Begin.final_lsn", "no LSN, such as 0/1E9D450"),
        ("Begin", {"commit_time": "soon"}, "Begin.commit_time", "no time"),
        ("Begin", {"tag": "C"}, "Begin.tag", "must be 'B'"),
        ("Begin", [1], "Begin", "needs a value for each field"),
        ("Origin", {"name": "a\0b"}, "Origin.name", "cannot hold one (byte 1)"),
        ("Origin", {"name": 5}, "Origin.name", "needs bytes or text, not int"),
        ("Relation", {"replica_identity": "dd"}, "Relation.replica_identity", "single character"),
        (
            "Relation",
            {"columns": [{"name": "a"}, {"type_modifier": 2**31}]},
            "Relation.columns[1].type_modifier",
            "from -2147483648 to 2147483647",
        ),
        ("Insert", {"new": [{"valu": 1}]}, "Insert.new.columns[0].valu", "did you mean value?"),
        ("Insert", {"new": 7}, "Insert.new", "not int"),
        ("Truncate", {"relations": "x"}, "Truncate.relations", "needs a list"),
        ("Truncate", {"relations": [1, "y"]}, "Truncate.relations[1].relation_oid", "'y'"),
        ("Truncate", {"options": "FOO"}, "Truncate.options", "none of CASCADE | RESTART IDENTITY"),
        ("CopyData", {"data": "\\x4"}, "CopyData.data", "not hex"),
        (
            "CopyBothResponse",
            {"column_formats": [0, 70000]},
            "CopyBothResponse.column_formats[1]",
            "fit",
        ),
        (
            "AuthenticationMD5Password",
            {"salt": b"12"},
            "AuthenticationMD5Password.salt",
            "4 bytes, not 2",
        ),
    ],
)
def test_an_error_says_which_field_is_wrong(name: str, values: Any, path: str, words: str) -> None:
    with pytest.raises(BuildProblem) as problem:
        build(name, values)
    assert problem.value.path == path
    assert str(problem.value).startswith(f"{path}: ")
    assert words in str(problem.value)


def test_a_message_that_there_is_not() -> None:
    with pytest.raises(UsageProblem, match="did you mean Begin"):
        build("Begn", {})
    with pytest.raises(UsageProblem, match="no message that can be built"):
        build("Error fields", {})
