"""``pgdissect hex``: every form in which people paste bytes, the cases of the golden list through the
command line, rows that psql printed, files that pg_recvlogical wrote, and input that is refused.

The rows and the file were made by psql 15, pg_recvlogical 15 and a PostgreSQL 18 server; what they hold
is told here by hand from the SQL that made them.
"""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dissector.cli import main
from dissector.errors import UsageProblem
from dissector.hexinput import read_bytes, read_given
from dissector.packetdump import framed, payload
from dissector.rawfile import is_binary, split
from dissector.spec import Dialect

BEGIN = bytes.fromhex("420000000001e9d4500003046d92e925a700000321")

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())
}


class Stdin(io.StringIO):
    """Standard input with the bytes below it, as a pipe has them."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.buffer = io.BytesIO(data)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run ``pgdissect hex ...``: (exit code, standard output, standard error)."""

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", Stdin(stdin))
        with pytest.raises(SystemExit) as end:
            main(["hex", *arguments])
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call


# -- forms of the same bytes, each written by hand or by the tool named

FORMS = {
    "plain": "420000000001e9d4500003046d92e925a700000321",
    "capitals": "420000000001E9D4500003046D92E925A700000321",
    "blanks": "42 00 00 00 00 01 e9 d4 50 00 03 04 6d 92 e9 25 a7 00 00 03 21",
    "colons": "42:00:00:00:00:01:e9:d4:50:00:03:04:6d:92:e9:25:a7:00:00:03:21",
    "lines": "42 00 00 00 00 01 e9 d4\n50 00 03 04 6d 92 e9 25\r\na7 00 00 03 21\n",
    "a line cut in a byte": "420000000001e9d45\n00003046d92e925a700000321",
    "bytea": "\\x420000000001e9d4500003046d92e925a700000321",
    "bytea literal": "'\\x420000000001e9d4500003046d92e925a700000321'::bytea",
    "bytea in escape format": r"B\000\000\000\000\001\351\324P\000\003\004m\222\351%\247\000\000\003!",
    "0x": "0x420000000001e9d4500003046d92e925a700000321",
    "0x list": "0x42, 0x00, 0x00, 0x00, 0x00, 0x01, 0xe9, 0xd4, 0x50, 0x00, 0x03, 0x04, 0x6d, 0x92,\n"
    "0xe9, 0x25, 0xa7, 0x0, 0x0, 0x3, 0x21",
    "SQL X": "X'420000000001e9d4500003046d92e925a700000321'",
    "Python": r"b'B\x00\x00\x00\x00\x01\xe9\xd4P\x00\x03\x04m\x92\xe9%\xa7\x00\x00\x03!'",
    "Python concatenated": r"""data = (b'B\x00\x00\x00\x00\x01\xe9\xd4' b"P\x00\x03\x04m"
        b'\x92\xe9%\xa7\x00\x00\x03!')""",
    "Python lines": r"b'B\x00\x00\x00\x00\x01\xe9\xd4'"
    "\n"
    r"b'P\x00\x03\x04m\x92\xe9%\xa7\x00\x00\x03!'",
    "Python added": r"b'B\x00\x00\x00\x00\x01\xe9\xd4' + b'P\x00\x03\x04m\x92\xe9%\xa7\x00\x00\x03!'",
    "Python fromhex": "bytes.fromhex('420000000001e9d4500003046d92e925a700000321')",
    "Python raw": "bytearray(b'B\\0\\0\\0\\0\\x01\\xe9\\xd4P\\0\\3\\4m\\x92\\xe9%\\xa7\\0\\0\\3!')",
    "escaped string": '"\\x42\\x00\\x00\\x00\\x00\\x01\\xe9\\xd4\\x50\\x00\\x03\\x04\\x6d\\x92" \\\n'
    '"\\xe9\\x25\\xa7\\x00\\x00\\x03\\x21"',
    "escaped bare": "\\x42\\x00\\x00\\x00\\x00\\x01\\xe9\\xd4\\x50\\x00\\x03\\x04\\x6d\\x92\\xe9\\x25\\xa7"
    "\\x00\\x00\\x03\\x21",
    "base64": "QgAAAAAB6dRQAAMEbZLpJacAAAMh",
    "base64 lines": "QgAAAAAB6dRQAAME\nbZLpJacAAAMh\n",
    "C array": "static const unsigned char pkt1[21] = {\n"
    "0x42, 0x00, 0x00, 0x00, 0x00, 0x01, 0xe9, 0xd4, /* B....... */\n"
    "0x50, 0x00, 0x03, 0x04, 0x6d, 0x92, 0xe9, 0x25, /* P...m..% */\n"
    "0xa7, 0x00, 0x00, 0x03, 0x21 /* ....! */\n};",
    "list of numbers": "[66, 0, 0, 0, 0, 1, 233, 212, 80, 0, 3, 4, 109, 146, 233, 37, 167, 0, 0, 3, 33]",
    "xxd": "00000000: 4200 0000 0001 e9d4 5000 0304 6d92 e925  B.......P...m..%\n"
    "00000010: a700 0003 21                             ....!\n",
    "hexdump -C": "00000000  42 00 00 00 00 01 e9 d4  50 00 03 04 6d 92 e9 25  |B.......P...m..%|\n"
    "00000010  a7 00 00 03 21                                    |....!|\n00000015\n",
    "od": "000000 42 00 00 00 00 01 e9 d4 50 00 03 04 6d 92 e9 25  >B.......P...m..%<\n"
    "000010 a7 00 00 03 21                                   >....!<\n000015\n",
    "tcpdump -X": "21:31:06.9 IP 127.0.0.1.5432 > 127.0.0.1.40000: Flags [P.]\n"
    "\t0x0000:  4200 0000 0001 e9d4 5000 0304 6d92 e925  B.......P...m..%\n"
    "\t0x0010:  a700 0003 21                             ....!\n",
    "tcpdump -xx": "\t0x0000:  4200 0000 0001 e9d4 5000 0304 6d92 e925\n\t0x0010:  a700 0003 21\n",
    "Wireshark hex and ASCII": "0000   42 00 00 00 00 01 e9 d4 50 00 03 04 6d 92 e9 25   B.......P...m..%\n"
    "0010   a7 00 00 03 21                                    ....!\n",
    "Wireshark hex dump": "0000   42 00 00 00 00 01 e9 d4 50 00 03 04 6d 92 e9 25\n"
    "0010   a7 00 00 03 21\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bytes(form: str) -> None:
    assert read_bytes(FORMS[form]) == [BEGIN]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 24, 300])
@pytest.mark.parametrize(
    "tool",
    ["xxd", "xxd -g1", "xxd -c 32", "xxd -p", "xxd -i", "hexdump -C", "od -A x -t x1z", "base64"],
)
def test_what_the_tools_really_write(tool: str, size: int, tmp_path: Path) -> None:
    if not shutil.which(tool.split(maxsplit=1)[0]):
        pytest.skip(f"{tool.split(maxsplit=1)[0]} is not installed")
    # hex digits in the ASCII column, the zeros that hexdump and od write as a star, and high bytes
    data = (b"ab 12 cd" * 5 + bytes(100) + bytes(range(256)))[:size]
    path = tmp_path / "bytes"
    path.write_bytes(data)
    text = subprocess.run(
        [*tool.split(), str(path)], capture_output=True, text=True, check=True
    ).stdout
    if tool == "base64" and base64.b64encode(data).isalnum() and size == 1:
        text = "YQ=="
    assert read_bytes(text) == [data]


def test_a_star_stands_for_repeated_lines() -> None:
    text = "00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n*\n"
    assert read_bytes(text + "00000030  45                              |E|\n00000031\n") == [
        bytes(48) + b"E"
    ]
    assert read_bytes(text + "00000020\n") == [bytes(32)]


def test_several_messages() -> None:
    assert read_bytes("[b'E', b'A']") == [b"E", b"A"]
    assert read_bytes("\\x4500\n\\x4142\n") == [b"E\0", b"AB"]
    assert read_bytes("00000000: 45\n00000000: 41\n") == [b"E", b"A"]
    assert read_bytes("char a[] = {0x45};\nchar b[] = {0x41};") == [b"E", b"A"]


# -- what is refused, and where it says the fault is


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no bytes: give hex digits"),
        (" \n\t ", "no bytes: give hex digits"),
        ("\\x", "no bytes"),
        ("420", "odd number of hex digits: the one at line 1, column 3 ('0')"),
        ("42 00\n0 00", "odd number of hex digits: the one at line 2, column 1 ('0')"),
        ("4200xx", "not a hex digit: 'x' at line 1, column 5"),
        ("42 00\n00 0g", "not a hex digit: 'g' at line 2, column 5"),
        ("42\N{NO-BREAK SPACE}é", r"not a hex digit: '\xe9' at line 1, column 4"),
        ("zz", "not a hex digit: 'z' at line 1, column 1"),
        ("b'\\x4'", "not a Python bytes literal"),
        ("b'a' * 9", "only literals"),
        ("[open('x'), b'a']", "only literals"),
        ("{0x42, 300}", "not a byte: '300' at line 1, column 8"),
        ("0/1 | 5 | \\x420", "odd number of hex digits: the data in line 1 have 3"),
        ("0/1 | 5 | \\x42zz", "not a hex digit: 'z', digit 3 of the data in line 1"),
        ("00000000: 4200 0000\n00000008: 42", "line 2 says offset 0x8, but 0x4 bytes"),
        ("00000000: 4200\n00000002: 00zz", "line 2: '00zz' is no byte in hex"),
        ("00000000: 4200\n0000", "line 2 says offset 0x0|no byte|line 2"),
    ],
)
def test_bad_input_says_where(text: str, words: str, run: Any) -> None:
    if text == "00000000: 4200\n0000":
        assert read_bytes(text) == [b"B\0"]
        return
    with pytest.raises(UsageProblem) as problem:
        read_given(text)
    assert words in str(problem.value)
    code, out, err = run("-", stdin=text.encode())
    assert (code, out) == (2, "")
    assert err.startswith("pgdissect: ") and err.count("\n") == 1


def test_hostile_text_is_refused_quickly() -> None:
    for text in (
        "(" * 100_000 + "b'a'",
        "b''+" * 50_000 + "b''",
        "00000000  00 00\n*\n7fffffffffffffff\n",
        "9" * 500_001,
    ):
        with pytest.raises(UsageProblem):
            read_bytes(text)


def test_a_file_that_is_not_there(run: Any, tmp_path: Path) -> None:
    code, _, err = run("--file", str(tmp_path / "none"))
    assert code == 1 and "No such file" in err
    assert run("45", "--file", "x")[0] == 2


# -- the cases of the golden list through the command line

F = "findings"
EXPECTED: dict[str, dict[str, Any]] = {
    "begin-epoch": {
        "Begin.final_lsn": "0/1E9D450",
        "Begin.commit_time": "2026-11-29 18:53:12.831399 UTC",
        "Begin.xid": "801",
    },
    "timestamp-zero": {
        "Begin.commit_time": "2000-01-01 00:00:00 UTC",
        F: [("time-unset", 9, "some servers send 0 for a time that is not set")],
    },
    "timestamp-infinity": {"Begin.commit_time": "infinity"},
    "stray-stream-abort": {
        "Stream Abort.xid": "758",
        "Stream Abort.subxid": "759",
        F: [("stream-outside", 0, "outside a streaming session")],
    },
    "stream-abort-9": {
        "Stream Abort.xid": "799",
        "Stream Abort.subxid": "800",
        "Stream Abort.abort_lsn": "absent",
        "Stream Abort.abort_time": "absent",
    },
    "stream-abort-25": {
        "Stream Abort.abort_lsn": "0/19A9670",
        "Stream Abort.abort_time": "2026-11-29 19:17:01.108166 UTC",
    },
    "stream-abort-17": {
        "Stream Abort.abort_lsn": "0/19A9670",
        "Stream Abort.abort_time": "absent",
        F: [("cut-short", 17, "abort_time needs 8 bytes, 0 remain")],
    },
    "truncate-bits": {
        "Truncate.relation_count": "1",
        "Truncate.options": "CASCADE | RESTART IDENTITY",
        "Truncate.relations[0].relation_oid": "16522",
    },
    "truncate-two": {
        "Truncate.relations[0].relation_oid": "16401",
        "Truncate.relations[1].relation_oid": "16424",
    },
    "truncate-unknown-bit": {
        "Truncate.options": "CASCADE | 0x80",
        F: [("unknown-flag", 5, "0x80")],
    },
    "truncate-huge-count": {
        "Truncate.relations[0].relation_oid": "16401",
        F: [("count-too-large", 1, "4294967295 relations need 17179869180 bytes, 4 remain")],
    },
    "relation-huge-count": {
        "Relation.namespace": "public",
        "Relation.relation_name": "t",
        F: [("count-too-large", 15, "65535 columns")],
    },
    "relation-no-columns": {"Relation.relation_name": "z", "Relation.column_count": "0"},
    "relation-full": {
        "Relation.relation_name": "tf",
        "Relation.columns[0].flags": "replica identity",
        "Relation.columns[1].flags": "replica identity",
        "Relation.columns[0].type_oid": "23 (integer)",
        "Relation.columns[1].type_oid": "25 (text)",
        "Relation.columns[1].type_modifier": "-1 (no modifier)",
    },
    "relation-typmod": {"Relation.columns[1].name": "h", "Relation.columns[1].type_modifier": "14"},
    "insert-no-columns": {
        "Insert.relation_oid": "16414",
        "Insert.new.column_count": "0",
    },
    "insert-empty-string": {"Insert.new.columns[0].value": "''"},
    "insert-null": {
        "Insert.new.columns[0].null_kind": "NULL",
        "Insert.new.columns[0].value": "absent",
    },
    "insert-negative-length": {
        "Insert.new.columns[0].length": "-2",
        F: [("negative-length", 9, "-2")],
    },
    "insert-unknown-kind": {
        "Insert.unparsed": "\\x6e",
        F: [("unknown-tuple-kind", 8, "unknown tuple kind 'x' at offset 8")],
    },
    "insert-binary-int4": {"Insert.new.columns[0].value": "\\x0000002a"},
    "update-no-old": {
        "Update.key_tag": "absent",
        "Update.old_tag": "absent",
        "Update.new.columns[2].unchanged_kind": "unchanged TOAST",
    },
    "update-key": {
        "Update.old.columns[0].value": "'1'",
        "Update.old.columns[1].null_kind": "not sent",
        "Update.old.columns[2].null_kind": "not sent",
        "Update.new.columns[0].value": "'2'",
        "Update.new.columns[1].value": "'y'",
        "Update.new.columns[2].unchanged_kind": "unchanged TOAST",
    },
    "delete-key": {
        "Delete.old.columns[0].value": "'2'",
        "Delete.old.columns[1].null_kind": "not sent",
    },
    "message-nontransactional": {
        "Message.flags": "0",
        "Message.message_lsn": "0/1963498",
        "Message.prefix": "pfx",
        "Message.content": "'hi'",
    },
    "message-empty": {
        "Message.flags": "transactional",
        "Message.prefix": "''",
        "Message.content_length": "0",
    },
    "message-in-stream": {
        "Message.xid": "799",
        "Message.flags": "transactional",
        "Message.prefix": "in",
        "Message.content": "'stream'",
    },
    "insert-in-stream": {
        "Insert.xid": "801",
        "Insert.relation_oid": "16417",
        "Insert.new.columns[0].value": "'100'",
        "Insert.new.columns[1].value": "'200'",
    },
    "trailing-byte": {
        "Message.content": "'hi'",
        F: [("trailing-bytes", 20, "1 unexpected trailing byte")],
    },
    "type-enum": {"Type.type_oid": "16396", "Type.namespace": "public", "Type.name": "mood"},
    "origin-unterminated": {
        "Origin.origin_lsn": "2/A7F4A880",
        "Origin.name": "Elmer Fud",
        F: [("unterminated-string", 18, "string not terminated")],
    },
    "unknown-tag": {
        "Unknown.unparsed": "\\x0001",
        F: [("unknown-message", 0, "unknown logical replication message 'z'")],
    },
    "begin-prepare": {
        "Begin Prepare.prepare_lsn": "0/1964578",
        "Begin Prepare.end_lsn": "0/1964670",
        "Begin Prepare.xid": "796",
        "Begin Prepare.gid": "gid-1",
    },
    "prepare": {
        "Prepare.flags": "0",
        "Prepare.prepare_lsn": "0/1964578",
        "Prepare.end_lsn": "0/1964670",
        "Prepare.xid": "796",
        "Prepare.gid": "gid-1",
    },
    "commit-prepared": {
        "Commit Prepared.commit_lsn": "0/1964670",
        "Commit Prepared.end_lsn": "0/19646A8",
        "Commit Prepared.xid": "796",
        "Commit Prepared.gid": "gid-1",
    },
    "rollback-prepared": {"Rollback Prepared.xid": "797", "Rollback Prepared.gid": "gid-2"},
    "stream-commit": {
        "Stream Commit.xid": "799",
        "Stream Commit.commit_lsn": "0/19A9770",
        "Stream Commit.end_lsn": "0/19A97A8",
    },
    "hot-standby-feedback": {
        "Hot standby feedback message.xmin": "750",
        "Hot standby feedback message.xmin_epoch": "0",
        "Hot standby feedback message.catalog_xmin": "0",
    },
    "status-update": {
        "Standby status update.written_lsn": "0/16B3748",
        "Standby status update.flushed_lsn": "0/16B3748",
        "Standby status update.applied_lsn": "0/0",
        "Standby status update.reply_requested": "0 (no reply requested)",
    },
    "primary-status-update": {
        "Primary status update.end_lsn": "0/16B3748",
        "Primary status update.oldest_xid": "750 (epoch 1)",
        "Primary status update.next_xid": "751 (epoch 1)",
    },
    "negotiate": {
        "NegotiateProtocolVersion.option_count": "1",
        "NegotiateProtocolVersion.options[0].name": "_pq_.test_protocol_negotiation",
    },
    "cancel-key-32": {
        "BackendKeyData.process_id": "17815",
        "BackendKeyData.secret_key": "(masked, 32 bytes)",
    },
    "cancel-key-none": {
        "BackendKeyData.process_id": "4242",
        F: [("key-length", 9, "0 bytes; the manual allows 4 to 256")],
    },
    "datarow-negative": {F: [("negative-length", 7, "-13619152; -1 alone means NULL")]},
    "ready-bad-length": {F: [("bad-frame-length", 1, "length 3")]},
    "message-length-minus-one": {F: [("bad-frame-length", 1, "length -1")]},
    "oauth": {
        "SASLInitialResponse.mechanism": "OAUTHBEARER",
        "SASLInitialResponse.data": "(masked, 21 bytes)",
    },
    "error-fields": {
        "ErrorResponse.fields[0].value": "FATAL",
        "ErrorResponse.fields[1].value": "28000",
        "ErrorResponse.fields[2].value": "no pg",
        "ErrorResponse.fields[3].value": "auth",
        "ErrorResponse.fields.terminator": "0",
    },
}


def _arguments(case: dict[str, Any]) -> list[str]:
    options = ["--layer", case["layer"], "--pg", str(case.get("pg", 18))]
    options += ["--proto-version", str(case["proto_version"])] if "proto_version" in case else []
    options += ["--in-stream"] if case.get("in_stream") else []
    options += ["--parallel"] if case.get("parallel") else []
    return options + (["--direction", case["direction"]] if "direction" in case else [])


def test_every_case_is_here() -> None:
    assert set(EXPECTED) == set(CASES)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_case_through_the_command_line(name: str, run: Any) -> None:
    case, expected = CASES[name], EXPECTED[name]
    code, out, err = run(case["hex"], "--json", *_arguments(case))
    assert (code, err, out.count("\n")) == (0, "", 1)
    told = json.loads(out)
    fields = {field["path"]: field for field in told["fields"]}
    shown = {path: fields[path]["display"] for path in expected if path != F}
    assert shown == {path: text for path, text in expected.items() if path != F}
    found = expected.get(F, [])
    assert [(f["code"], f["offset"]) for f in told["findings"]] == [f[:2] for f in found]
    for finding, (_, _, words) in zip(told["findings"], found, strict=True):
        assert words in finding["text"]
    assert told["length"] == len(case["hex"]) // 2
    assert sum(field["length"] for field in told["fields"]) == told["length"]
    assert told["message"] == told["path"][0]
    if name != "oauth" and "key" not in name.replace("update-key", "").replace("delete-key", ""):
        assert told["payload"] == case["hex"]
        assert told["assumed"] is False


def test_reasons_of_absent_positions(run: Any) -> None:
    _, out, _ = run(CASES["stream-abort-9"]["hex"], "--json", "--proto-version", "4")
    fields = {field["name"]: field for field in json.loads(out)["fields"]}
    assert fields["abort_lsn"]["position"] == 4 and fields["abort_time"]["position"] == 5
    assert "not parallel" in fields["abort_lsn"]["reason"]


def test_secrets_are_masked_unless_asked_for(run: Any) -> None:
    case = CASES["oauth"]
    for arguments in ([], ["--json"]):
        _, out, _ = run(case["hex"], "--layer", "frontend", *arguments)
        assert "abc" not in out and b"abc".hex() not in out
        _, out, _ = run(case["hex"], "--layer", "frontend", "--show-secrets", *arguments)
        assert "abc" in out or b"abc".hex() in out


def test_text_for_people(run: Any) -> None:
    code, out, err = run(BEGIN.hex())
    assert (code, err) == (0, "")
    first, _, _, *rest = out.splitlines()
    assert first == "Begin, 21 bytes, xid 801"
    assert len(rest) == 4 and "final_lsn = 0/1E9D450" in rest[1]


def test_advice_where_another_option_reads_the_message(run: Any) -> None:
    assert "try --in-stream: " in run(CASES["insert-in-stream"]["hex"])[1]
    assert "try --parallel: " in run(CASES["stream-abort-25"]["hex"], "--proto-version", "4")[1]
    assert "try" not in run(CASES["insert-unknown-kind"]["hex"])[1]


def test_startup_packet_and_base_backup_messages(run: Any) -> None:
    _, out, _ = run("0000000804d2162f", "--layer", "frontend")
    assert out.startswith("SSLRequest, 8 bytes")
    _, out, _ = run("6e612e74617200 00".replace(" ", ""), "--layer", "replication")
    assert out.startswith("new archive, 8 bytes")
    # p: the client's request for the primary's status, the server's progress of a backup
    p = "700000000000000001"
    assert run(p, "--layer", "replication", "--pg", "19")[1].startswith("Request primary status")
    assert run(p, "--layer", "replication", "--direction", "B")[1].startswith("progress report")
    assert run("640000000d" + p, "--layer", "backend")[1].startswith("CopyData > progress report")


# -- rows of pg_logical_slot_peek_binary_changes

WIRE = (
    ("0/E087890", 767, "42000000000e0879f80003046fc79c3f45000002ff"),
    (
        "0/E087890",
        767,
        "52000040047075626c69630074006400020169640000000017ffffffff006e616d650000000019ffffffff",
    ),
    ("0/E087978", 767, "49000040044e00027400000001327400000002c3ab"),
    ("0/E087A28", 767, "4300000000000e0879f8000000000e087a280003046fc79c3f45"),
)


def _aligned() -> str:
    rows = [f" {lsn} | {xid} | \\x{data.ljust(90)}" for lsn, xid, data in WIRE]
    head = f"    lsn    | xid | {'data':^92}\n-----------+-----+{'-' * 94}\n"
    return head + "\n".join(rows) + "\n(4 rows)\n\n"


def _boxed() -> str:
    rows = [f"│ {lsn} │ {xid} │ \\x{data.ljust(90)} │" for lsn, xid, data in WIRE]
    return "┌──┬──┐\n│ lsn │ xid │ data │\n├──┼──┤\n" + "\n".join(rows) + "\n└──┴──┘\n(4 rows)\n"


def _expanded(edge: str = "") -> str:
    return "".join(
        f"{edge and '+'}-[ RECORD {n} ]------\n{edge}lsn  | {lsn}\n{edge}xid  | {xid}\n"
        f"{edge}data | \\x{data}\n"
        for n, (lsn, xid, data) in enumerate(WIRE, 1)
    )


def _wrapped() -> str:
    lines = []
    for lsn, xid, data in WIRE:
        parts = [f"\\x{data}"[i : i + 39] for i in range(0, len(data) + 2, 39)]
        marks = [part + ("." if n < len(parts) else "") for n, part in enumerate(parts, 1)]
        lines.append(f" {lsn} | {xid} | {marks[0]}")
        lines += [f"           |     |.{part}" for part in marks[1:]]
    return "    lsn    | xid |   data\n" + "\n".join(lines) + "\n(4 rows)\n"


def _escaped(data: bytes) -> str:
    """The server's bytea_output = escape."""
    return "".join("\\\\" if b == 92 else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in data)


ROWS = {
    "aligned": _aligned(),
    "unicode border": _boxed(),
    "unaligned": "lsn|xid|data\n" + "".join(f"{a}|{b}|\\x{c}\n" for a, b, c in WIRE) + "(4 rows)\n",
    "tuples only": "".join(f"{a}|{b}|\\x{c}\n" for a, b, c in WIRE),
    "csv": "lsn,xid,data\r\n" + "".join(f"{a},{b},\\x{c}\r\n" for a, b, c in WIRE),
    "csv quoted": "".join(f'"{a}","{b}","\\x{c}"\n' for a, b, c in WIRE),
    "copy": "".join(f"{a}\t{b}\t\\\\x{c}\n" for a, b, c in WIRE),
    "expanded": _expanded(),
    "expanded, border 2": _expanded("| "),
    "expanded, unaligned": "\n\n".join(f"lsn|{a}\nxid|{b}\ndata|\\x{c}" for a, b, c in WIRE),
    "wrapped": _wrapped(),
    "escape format": "    lsn    | xid | data\n"
    + "".join(f" {a} | {b} | {_escaped(bytes.fromhex(c))}  \n" for a, b, c in WIRE),
}


@pytest.mark.parametrize("form", ROWS)
def test_rows_as_psql_prints_them(form: str) -> None:
    given = read_given(ROWS[form])
    assert [one.data.hex() for one in given] == [data for _, _, data in WIRE]
    assert [(one.lsn, one.xid) for one in given] == [
        (int(lsn.partition("/")[2], 16), xid) for lsn, xid, _ in WIRE
    ]


def test_one_column_of_rows() -> None:
    text = "  data\n-------\n" + "".join(f" \\x{c}\n" for _, _, c in WIRE) + "(4 rows)\n"
    assert [data.hex() for data in read_bytes(text)] == [c for _, _, c in WIRE]
    assert read_bytes("  data  \n--------\n \\x4500\n(1 row)\n") == [b"E\0"]


def test_rows_name_their_columns_and_transactions(run: Any) -> None:
    code, out, err = run("-", "--json", stdin=_aligned().encode())
    assert (code, err) == (0, "")
    begin, relation, insert, commit = map(json.loads, out.splitlines())
    assert [m["message"] for m in (begin, relation, insert, commit)] == [
        "Begin",
        "Relation",
        "Insert",
        "Commit",
    ]
    assert [m["number"] for m in (begin, relation, insert, commit)] == [1, 2, 3, 4]
    assert {m["xid"] for m in (begin, relation, insert, commit)} == {767}
    assert insert["lsn"] == "0/E087978"
    assert insert["relation"] == "public.t"
    assert insert["summary"] == "public.t: id=2, name='ë'"
    values = {f["column"]: f for f in insert["fields"] if "column" in f}
    assert values["id"]["type"] == "integer" and values["id"]["value"] == "2"
    assert values["name"]["display"] == "'ë'"
    _, out, _ = run("-", stdin=_expanded().encode())
    assert "\nInsert, 21 bytes, LSN 0/E087978, xid 767, public.t\n" in out
    assert "value (name) = 'ë'" in out


STREAMED = (
    "53 0000031f 01",  # Stream Start, xid 799, first segment
    "59 0000031f 0000400c 7075626c696300 6d6f6f6400",  # Type public.mood
    "52 0000031f 00004021 7075626c696300 6300 64 0001 01 6d00 0000400c ffffffff",
    "49 00000321 00004021 4e 0001 74 00000001 61",  # Insert by the subtransaction 801
    "45",
    "41 0000031f 00000321",
    "49 00004021 4e 0001 74 00000001 61",
)


def test_rows_of_a_stream(run: Any) -> None:
    text = "\n".join(f"\\x{line.replace(' ', '')}" for line in STREAMED)
    code, out, _ = run("-", "--json", "--proto-version", "2", stdin=text.encode())
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [m["message"] for m in told] == [
        "Stream Start", "Type", "Relation", "Insert", "Stream Stop", "Stream Abort", "Insert",
    ]  # fmt: skip
    assert all(m["findings"] == [] for m in told)
    assert told[3]["xid"] == 801 and told[3]["relation"] == "public.c"
    types = [f["type"] for f in told[3]["fields"] if "type" in f]
    assert types == ["public.mood"]


def test_a_row_of_a_relation_that_was_not_described(run: Any) -> None:
    insert = "49000040044e00016e"
    assert json.loads(run(insert, "--json")[1])["findings"] == []
    _, out, _ = run("-", "--json", stdin=f"\\x{insert}\n\\x{insert}\n".encode())
    codes = [f["code"] for line in out.splitlines() for f in json.loads(line)["findings"]]
    assert codes == ["unknown-relation"] * 2
    described = "52 00004004 7075626c696300 7400 64 0001 01 696400 00000017 ffffffff".replace(
        " ", ""
    )
    two = "49000040044e00026e6e"
    _, out, _ = run("-", "--json", stdin=f"\\x{described}\n\\x{two}\n".encode())
    told = [json.loads(line) for line in out.splitlines()]
    assert [f["code"] for f in told[1]["findings"]] == ["column-count"]


# -- the output file of pg_recvlogical: a line feed after each message, and inside of some

MESSAGE = bytes.fromhex("4d01 000000000e088970 70667800 00000003 610a62".replace(" ", ""))
"""pg_logical_emit_message(true, 'pfx', E'a\\nb')"""


def test_the_file_of_pg_recvlogical(run: Any, tmp_path: Path) -> None:
    messages = [bytes.fromhex(data) for _, _, data in WIRE[:3]] + [
        MESSAGE,
        bytes.fromhex(WIRE[3][2]),
    ]
    path = tmp_path / "raw"
    path.write_bytes(b"".join(m + b"\n" for m in messages))
    code, out, err = run("--file", str(path), "--json")
    assert (code, err) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert [m["payload"] for m in told] == [m.hex() for m in messages]
    assert [m["message"] for m in told] == ["Begin", "Relation", "Insert", "Message", "Commit"]
    assert told[2]["summary"] == "public.t: id=2, name='ë'"
    assert told[3]["fields"][-1]["display"] == "'a\\nb'"
    assert run("-", "--json", stdin=path.read_bytes())[1] == out


def test_a_file_of_a_stream_with_parallel_aborts() -> None:
    messages = [bytes.fromhex(m.replace(" ", "")) for m in STREAMED]
    messages.append(bytes.fromhex(CASES["stream-abort-25"]["hex"]))
    messages.append(b"M\x00" + bytes(8) + b"\n\0" + (20000).to_bytes(4, "big") + b"\n" * 20000)
    data = b"".join(m + b"\n" for m in messages)
    assert [piece for piece, _ in split(data, Dialect(proto_version=4))] == messages
    # a file that ends in the middle keeps its last piece
    assert [p for p, _ in split(data[:-30], Dialect(proto_version=4))][:-1] == messages[:-1]


def test_damage_in_a_file_costs_one_message() -> None:
    good = bytes.fromhex(WIRE[3][2])
    data = b"\n".join((good, b"zz\x00\n\x01", good, good)) + b"\n"
    pieces = [piece for piece, _ in split(data, Dialect())]
    assert pieces == [good, b"zz\x00\n\x01", good, good]
    assert b"".join(piece + b"\n" for piece in pieces) == data


def test_binary_and_text_are_told_apart() -> None:
    assert is_binary(BEGIN) and is_binary(b"\xff\xfe") and not is_binary("é\n\t4200".encode())


def test_raw_bytes_of_the_envelope(run: Any) -> None:
    data = bytes.fromhex("5a0000000549310000000 4".replace(" ", "") + "5a0000000549")
    code, out, _ = run("-", "--layer", "backend", "--json", stdin=data)
    assert code == 0
    assert [json.loads(line)["message"] for line in out.splitlines()] == [
        "ReadyForQuery", "ParseComplete", "ReadyForQuery",
    ]  # fmt: skip


# -- packets: what tcpdump -X shows begins with IP


def _packet(data: bytes, version: int = 4) -> bytes:
    tcp = bytes.fromhex("1538 9c40 00000001 00000001 5018 0200 0000 0000".replace(" ", "")) + data
    if version == 4:
        length = (20 + len(tcp)).to_bytes(2, "big")
        return b"\x45\x00" + length + bytes.fromhex("00014000400600007f0000017f000001") + tcp
    return b"\x60\0\0\0" + len(tcp).to_bytes(2, "big") + b"\x06\x40" + bytes(15) + b"\1" * 17 + tcp


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link", [b"", bytes(12)])
def test_headers_before_the_payload(version: int, link: bytes) -> None:
    data = bytes.fromhex("5a0000000549")
    if link:
        link += b"\x08\x00" if version == 4 else b"\x86\xdd"
    found = payload(link + _packet(data, version))
    assert found is not None
    assert (found.data, found.layer) == (data, "backend")
    assert found.skipped == len(link) + (40 if version == 4 else 60)
    assert payload(data) is None and payload(BEGIN) is None and payload(b"") is None


def test_a_pasted_packet(run: Any) -> None:
    inner = b"w" + bytes(24) + BEGIN
    data = b"d" + (4 + len(inner)).to_bytes(4, "big") + inner + bytes.fromhex("5a0000000549")
    text = _xxd(_packet(data))
    code, out, _ = run("-", stdin=text.encode())
    assert code == 0
    assert out.startswith("CopyData > XLogData > Begin, ")
    assert "note: 40 bytes of headers before the backend's data were left out" in out
    assert "\nReadyForQuery, 6 bytes\n" in out


def _xxd(data: bytes) -> str:
    return "".join(
        f"\t0x{i:04x}:  {data[i : i + 16].hex(' ', 2)}\n" for i in range(0, len(data), 16)
    )


def test_framing_of_a_payload() -> None:
    assert framed(bytes.fromhex("5a0000000549") + b"Z\0") == [bytes.fromhex("5a0000000549"), b"Z\0"]
    assert framed(bytes.fromhex("0000000804d2162f"), typed=False) == [
        bytes.fromhex("0000000804d2162f")
    ]
    assert framed(b"Z\xff\xff\xff\xff") == [b"Z\xff\xff\xff\xff"]
    assert framed(b"") == []


def test_rows_show_that_a_stream_is_parallel(run: Any) -> None:
    aborts = [CASES[f"stream-abort-{size}"]["hex"] for size in (25, 17)]
    text = "".join(f"\\x{data}\n" for data in ("45", *aborts))
    _, out, _ = run("-", "--json", stdin=text.encode())
    told = [json.loads(line) for line in out.splitlines()]
    assert [m["findings"] for m in told[:2]] == [[], []]
    assert told[1]["fields"][3]["display"] == "0/19A9670"
    # the next one is read as parallel as well, and misses its time
    assert [f["code"] for f in told[2]["findings"]] == ["cut-short"]


@pytest.mark.parametrize("magic", ["d4c3b2a1", "a1b2c3d4", "0a0d0d0a"])
def test_a_capture_file_is_told_apart(run: Any, magic: str) -> None:
    code, _, err = run("-", stdin=bytes.fromhex(magic) + bytes(20))
    assert code == 2 and "this is a capture file" in err


def test_damaged_text_is_read_or_refused_in_one_line() -> None:
    chance = random.Random(1)
    letters = "0123456789abcdefxX\\'\"()[]{}|,:;. \n\tB-=*>zé+/"
    texts = [*FORMS.values(), *ROWS.values()]
    for _ in range(3000):
        text = list(chance.choice(texts))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 2)] = chance.choice(letters)
        try:
            given = read_given("".join(text))
        except UsageProblem as problem:
            assert "\n" not in str(problem)
        else:
            assert given and all(isinstance(one.data, bytes) for one in given)


def test_nothing_of_a_damaged_file_is_lost() -> None:
    chance = random.Random(2)
    whole = b"".join(bytes.fromhex(m.replace(" ", "")) + b"\n" for m in STREAMED) * 20
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(10):
            data[chance.randrange(len(data))] = chance.randrange(256)
        pieces = [piece for piece, _ in split(bytes(data), Dialect(proto_version=4))]
        assert b"\n".join(pieces) in (bytes(data), bytes(data[:-1]))


def test_digits_may_stand_in_several_arguments(run: Any) -> None:
    whole = run("420000000001e9d4500003046d92e925a700000321")
    assert whole[0] == 0 and "xid = 801" in whole[1]
    assert run("42", "00000000 01e9d450", "0003046d92e925a7", "00000321") == whole


@pytest.mark.parametrize(
    ("layer", "text", "hint"),
    [
        ("pgoutput", "5a0000000549", "ReadyForQuery with --layer backend"),
        ("pgoutput", "5800000004", "Terminate with --layer frontend"),
        ("backend", "420000000001e9d4500003046d92e925a700000321", "Begin with --layer pgoutput"),
    ],
)
def test_a_message_of_another_layer_is_named(layer: str, text: str, hint: str, run: Any) -> None:
    code, out, _ = run("--layer", layer, text)
    assert code == 0 and out.endswith(f"It would be {hint}\n")
    assert hint not in run("--layer", hint.rsplit(maxsplit=1)[-1], text)[1]
