"""The messages of golden/cases.json come out as the case's ``right`` says, in the product's words.

The expectations were written by hand from ``right`` and from the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dissector.annotate import Node, annotate, find, findings, leaves
from dissector.display import Context, rows
from dissector.spec import Dialect
from dissector.values import type_name, value

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())
}


class Tree:
    """A case's message: raw values, texts and findings by path below the message."""

    def __init__(self, name: str, context: Context | None = None) -> None:
        case = CASES[name]
        dialect = Dialect(
            release=case.get("pg", 18),
            proto_version=case.get("proto_version", 4),
            in_stream=case.get("in_stream", False),
            parallel=case.get("parallel", False),
            auth="AuthenticationSASL" if "auth_state" in case else "",
        )
        self.data = bytes.fromhex(case["hex"])
        self.root = annotate(self.data, case["layer"], dialect)
        self.name = self.root.name
        self.texts = {
            row.path.partition(".")[2]: row.text for row in rows(self.root, context or Context())
        }
        self.found = [(f.code, f.offset) for f in findings(self.root)]
        self.words = [f.text for f in findings(self.root)]

    def node(self, path: str) -> Node:
        node = find(self.root, f"{self.name}.{path}")
        assert node is not None, path
        return node

    def value(self, path: str) -> object:
        return self.node(path).value

    def __getitem__(self, path: str) -> str:
        return self.texts[path]


def begin_epoch() -> None:
    t = Tree("begin-epoch")
    assert t.name == "Begin"
    assert t["final_lsn"] == "0/1E9D450"
    assert t["commit_time"] == "2026-11-29 18:53:12.831399 UTC"
    assert t.value("xid") == 801
    assert t.found == []


def timestamp_zero() -> None:
    t = Tree("timestamp-zero")
    assert t["commit_time"] == "2000-01-01 00:00:00 UTC"
    assert t.found == [("time-unset", 9)]
    assert t.words == ["some servers send 0 for a time that is not set"]


def timestamp_infinity() -> None:
    t = Tree("timestamp-infinity")
    assert t["commit_time"] == "infinity"
    assert t.found == []


def stray_stream_abort() -> None:
    t = Tree("stray-stream-abort")
    assert (t.name, t.value("xid"), t.value("subxid")) == ("Stream Abort", 758, 759)
    assert t.found == [("stream-outside", 0)]
    assert t.words == ["Stream Abort outside a streaming session (protocol version 1)"]


def stream_abort_9() -> None:
    t = Tree("stream-abort-9")
    assert (t.value("xid"), t.value("subxid")) == (799, 800)
    for path, position in (("abort_lsn", 4), ("abort_time", 5)):
        node = t.node(path)
        assert (node.absent, node.position, node.length) == (True, position, 0)
        assert "not parallel" in node.reason
    assert t.found == []


def stream_abort_25() -> None:
    t = Tree("stream-abort-25")
    assert t["abort_lsn"] == "0/19A9670"
    assert t["abort_time"] == "2026-11-29 19:17:01.108166 UTC"
    assert "parallel" in t.node("abort_lsn").reason
    assert t.found == []


def stream_abort_17() -> None:
    t = Tree("stream-abort-17")
    assert t["abort_lsn"] == "0/19A9670"
    assert t.node("abort_time").absent
    assert t.found == [("cut-short", 17)]
    assert t.words == ["abort_time needs 8 bytes, 0 remain"]


def truncate_bits() -> None:
    t = Tree("truncate-bits")
    assert t.value("relation_count") == 1
    assert t["options"] == "CASCADE | RESTART IDENTITY"
    assert t.value("relations[0].relation_oid") == 16522
    assert t.found == []


def truncate_two() -> None:
    t = Tree("truncate-two")
    assert t.value("relations[0].relation_oid") == 16401
    assert t.value("relations[1].relation_oid") == 16424
    assert t["relations"] == "2 relations"


def truncate_unknown_bit() -> None:
    t = Tree("truncate-unknown-bit")
    assert t["options"] == "CASCADE | 0x80"
    assert t.found == [("unknown-flag", 5)]
    assert t.words == ["options has the unknown bit 0x80"]


def truncate_huge_count() -> None:
    t = Tree("truncate-huge-count")
    assert t.found == [("count-too-large", 1)]
    assert t.words == ["4294967295 relations need 17179869180 bytes, 4 remain"]
    assert len(t.node("relations").children or ()) == 1
    assert t.value("relations[0].relation_oid") == 16401


def relation_huge_count() -> None:
    t = Tree("relation-huge-count")
    assert (t["namespace"], t["relation_name"]) == ("public", "t")
    assert t.found == [("count-too-large", 15)]
    # a column takes at least 10 bytes: flags 1, name 1, type 4, modifier 4
    assert t.words == ["65535 columns need at least 655350 bytes, 0 remain"]


def relation_no_columns() -> None:
    t = Tree("relation-no-columns")
    assert (t["namespace"], t["relation_name"], t["columns"]) == ("public", "z", "0 columns")
    assert t.found == []


def relation_full() -> None:
    t = Tree("relation-full")
    assert (t["namespace"], t["relation_name"]) == ("public", "tf")
    assert t.value("replica_identity") == ord("f")
    assert "full" in t["replica_identity"]
    assert t["columns[0]"] == "id integer"
    assert t["columns[1]"] == "big text"
    assert t["columns[0].flags"] == t["columns[1].flags"] == "replica identity"
    assert t.value("columns[1].type_modifier") == -1
    assert "no modifier" in t["columns[1].type_modifier"]
    assert t.node("columns[1].name").position == 9


def relation_typmod() -> None:
    t = Tree("relation-typmod")
    assert (t["namespace"], t["relation_name"]) == ("public", "gc")
    assert t["columns[0]"] == "id integer"
    assert t["columns[1]"] == "h character varying(10)"


def insert_no_columns() -> None:
    t = Tree("insert-no-columns")
    assert t.value("relation_oid") == 16414
    assert t["new"] == "0 columns"
    assert t.found == []


def insert_empty_string() -> None:
    t = Tree("insert-empty-string")
    assert t["new.columns[0]"] == t["new.columns[0].value"] == "''"
    assert t.value("new.columns[0].value") == b""


def insert_null() -> None:
    t = Tree("insert-null")
    assert t["new.columns[0]"] == t["new.columns[0].null_kind"] == "NULL"
    assert t.node("new.columns[0].value").absent


def insert_negative_length() -> None:
    t = Tree("insert-negative-length")
    assert t.found == [("negative-length", 9)]
    assert t.words == ["column length is -2; a length is 0 or more"]
    assert t.value("new.columns[0].length") == -2
    assert t.node("new.columns[0].value").absent


def insert_unknown_kind() -> None:
    t = Tree("insert-unknown-kind")
    assert t.found == [("unknown-tuple-kind", 8)]
    assert t.words == ["unknown tuple kind 'x' at offset 8"]
    rest = t.node("unparsed")
    assert (rest.start, rest.end) == (9, 10)


def insert_binary_int4() -> None:
    t = Tree("insert-binary-int4")
    assert t["new.columns[0]"] == "\\x0000002a"
    assert t.value("new.columns[0]") == "binary"
    raw = t.value("new.columns[0].value")
    assert isinstance(raw, bytes)
    assert value(23, -1, raw, "binary").value == 42
    assert value(99999, -1, raw, "binary").value == b"\x00\x00\x00\x2a"


def update_no_old() -> None:
    t = Tree("update-no-old")
    for path in ("key_tag", "old_tag", "old"):
        assert t.node(path).absent
    assert "no column of it was changed" in t.node("old").reason
    assert t["new.columns[2]"] == "unchanged TOAST"
    assert t.found == []


def update_key() -> None:
    t = Tree("update-key")
    assert t["old.columns[0]"] == "'1'"
    assert t["old.columns[1]"] == t["old.columns[2]"] == "not sent"
    assert "not NULL" in t.node("old.columns[1].null_kind").reason
    shown = [t[f"new.columns[{n}]"] for n in range(3)]
    assert shown == ["'2'", "'y'", "unchanged TOAST"]


def delete_key() -> None:
    t = Tree("delete-key")
    assert [t[f"old.columns[{n}]"] for n in range(3)] == ["'2'", "not sent", "not sent"]
    assert t.found == []


def message_nontransactional() -> None:
    t = Tree("message-nontransactional")
    assert t.value("flags") == 0
    assert t["message_lsn"] == "0/1963498"
    assert (t["prefix"], t["content"]) == ("pfx", "'hi'")
    assert t.node("xid").absent
    assert t.found == []


def message_empty() -> None:
    t = Tree("message-empty")
    assert t["flags"] == "transactional"
    assert (t.value("prefix"), t.value("content")) == (b"", b"")
    assert t.found == []


def message_in_stream() -> None:
    t = Tree("message-in-stream")
    assert t.value("xid") == 799
    assert (t["flags"], t["prefix"], t["content"]) == ("transactional", "in", "'stream'")


def insert_in_stream() -> None:
    t = Tree("insert-in-stream")
    assert (t.value("xid"), t.value("relation_oid")) == (801, 16417)
    assert (t["new.columns[0]"], t["new.columns[1]"]) == ("'100'", "'200'")
    assert t.node("xid").position == 2


def trailing_byte() -> None:
    t = Tree("trailing-byte")
    assert (t["prefix"], t["content"]) == ("pfx", "'hi'")
    assert t.found == [("trailing-bytes", 20)]
    assert t.words == ["1 unexpected trailing byte"]


def type_enum() -> None:
    t = Tree("type-enum")
    assert t.value("type_oid") == 16396
    assert (t["namespace"], t["name"]) == ("public", "mood")
    known = {16396: f"{t['namespace']}.{t['name']}"}
    assert type_name(16396, -1, known) == "public.mood"


def origin_unterminated() -> None:
    t = Tree("origin-unterminated")
    assert (t["origin_lsn"], t["name"]) == ("2/A7F4A880", "Elmer Fud")
    assert t.found == [("unterminated-string", 18)]
    assert t.words[0].startswith("string not terminated")


def unknown_tag() -> None:
    t = Tree("unknown-tag")
    assert t.found == [("unknown-message", 0)]
    assert t.words == ["unknown logical replication message 'z'"]
    assert t.node("unparsed").length == 2


def begin_prepare() -> None:
    t = Tree("begin-prepare")
    assert (t["prepare_lsn"], t["end_lsn"]) == ("0/1964578", "0/1964670")
    assert (t.value("xid"), t["gid"]) == (796, "gid-1")


def prepare() -> None:
    t = Tree("prepare")
    assert t.value("flags") == 0
    assert (t["prepare_lsn"], t["end_lsn"]) == ("0/1964578", "0/1964670")
    assert (t.value("xid"), t["gid"]) == (796, "gid-1")
    assert t.found == []


def commit_prepared() -> None:
    t = Tree("commit-prepared")
    assert (t["commit_lsn"], t["end_lsn"]) == ("0/1964670", "0/19646A8")
    assert (t.value("xid"), t["gid"]) == (796, "gid-1")


def rollback_prepared() -> None:
    t = Tree("rollback-prepared")
    # 0x3046de752ac96 and 0x3046de752ad01: 107 microseconds apart
    assert t.value("prepare_time") == 0x3046DE752AC96
    assert t.value("rollback_time") == 0x3046DE752AD01
    assert t["prepare_time"].endswith("033366 UTC")
    assert t["rollback_time"].endswith("033473 UTC")
    assert (t.value("xid"), t["gid"]) == (797, "gid-2")


def stream_commit() -> None:
    t = Tree("stream-commit")
    assert (t.name, t.value("xid")) == ("Stream Commit", 799)
    assert (t["commit_lsn"], t["end_lsn"]) == ("0/19A9770", "0/19A97A8")


def hot_standby_feedback() -> None:
    t = Tree("hot-standby-feedback")
    assert (t.value("xmin"), t.value("xmin_epoch"), t.value("catalog_xmin")) == (750, 0, 0)


def status_update() -> None:
    t = Tree("status-update")
    assert t["written_lsn"] == t["flushed_lsn"] == "0/16B3748"
    assert t["applied_lsn"] == "0/0"
    assert t.value("reply_requested") == 0
    assert "no reply" in t["reply_requested"]


def primary_status_update() -> None:
    t = Tree("primary-status-update")
    assert t.value("end_lsn") == 0x16B3748
    assert t["end_lsn"] == "0/16B3748"
    assert (t["oldest_xid"], t["next_xid"]) == ("750 (epoch 1)", "751 (epoch 1)")
    assert t.found == []


def negotiate() -> None:
    t = Tree("negotiate")
    assert t["protocol_version"].startswith("3.2")
    assert t["options"] == "1 option"
    assert t["options[0].name"] == "_pq_.test_protocol_negotiation"


def cancel_key_32() -> None:
    t = Tree("cancel-key-32")
    assert t.value("process_id") == 17815
    assert t.node("secret_key").length == 32
    assert t["secret_key"] == "(masked, 32 bytes)"
    assert t.found == []


def cancel_key_none() -> None:
    t = Tree("cancel-key-none")
    assert t.value("process_id") == 4242
    assert t.node("secret_key").length == 0
    assert t.found == [("key-length", 9)]
    assert t.words == ["the key has 0 bytes; the manual allows 4 to 256"]


def datarow_negative() -> None:
    t = Tree("datarow-negative")
    assert t.found == [("negative-length", 7)]
    assert t.words == ["column length is -13619152; -1 alone means NULL"]


def ready_bad_length() -> None:
    t = Tree("ready-bad-length")
    assert t.found == [("bad-frame-length", 1)]
    assert t.node("unparsed").length == 1


def message_length_minus_one() -> None:
    t = Tree("message-length-minus-one")
    assert t.found == [("bad-frame-length", 1)]
    assert t.words[0].startswith("message length -1")


def oauth() -> None:
    t = Tree("oauth")
    assert (t.name, t["mechanism"]) == ("SASLInitialResponse", "OAUTHBEARER")
    assert not any("abc" in text for text in t.texts.values())
    shown = Tree("oauth", Context(show_secrets=True))
    assert "abc" in shown["data"] or b"abc".hex() in shown["data"]


def error_fields() -> None:
    t = Tree("error-fields")
    assert t["fields[0].value"] == "FATAL"
    assert t["fields[1].value"] == "28000"
    assert t["fields[2].value"] == "no pg"
    assert t["fields[3].value"] == "auth"
    assert t.node("fields.terminator").end == len(t.data)
    assert t.found == []


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        begin_epoch, timestamp_zero, timestamp_infinity, stray_stream_abort, stream_abort_9,
        stream_abort_25, stream_abort_17, truncate_bits, truncate_two, truncate_unknown_bit,
        truncate_huge_count, relation_huge_count, relation_no_columns, relation_full,
        relation_typmod, insert_no_columns, insert_empty_string, insert_null,
        insert_negative_length, insert_unknown_kind, insert_binary_int4, update_no_old,
        update_key, delete_key, message_nontransactional, message_empty, message_in_stream,
        insert_in_stream, trailing_byte, type_enum, origin_unterminated, unknown_tag,
        begin_prepare, prepare, commit_prepared, rollback_prepared, stream_commit,
        hot_standby_feedback, status_update, primary_status_update, negotiate, cancel_key_32,
        cancel_key_none, datarow_negative, ready_bad_length, message_length_minus_one, oauth,
        error_fields,
    )
}  # fmt: skip


def test_every_case_has_its_check():
    assert set(CHECKS) == set(CASES)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_case(name):
    CHECKS[name]()


@pytest.mark.parametrize("name", sorted(CASES))
def test_leaves_tile_the_case(name):
    tree = Tree(name)
    position = 0
    for leaf in leaves(tree.root):
        assert leaf.start == position
        position = leaf.end
    assert position == len(tree.data)
