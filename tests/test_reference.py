"""Reference pages and comparisons, against the documented formats and the contract of the
output."""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import re
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest

from dissector import reference
from dissector.errors import UsageProblem
from dissector.spec import Message

FORMATS = Path(__file__).parent / "golden" / "formats"
RELEASES = range(10, 20)
NEW_NAMES = {
    "XLogData": "WALData",
    "Hot Standby feedback message": "Hot standby feedback message",
}


def load() -> dict[int, dict[str, list[dict[str, Any]]]]:
    """release -> newest name of a message -> its documented entries, over all three tables."""
    every: dict[int, dict[str, list[dict[str, Any]]]] = {number: {} for number in RELEASES}
    for table in ("pgoutput", "replication", "frontend_backend"):
        facts = json.loads((FORMATS / f"{table}.json").read_text(encoding="utf-8"))
        for number in RELEASES:
            for name, entries in facts[str(number)].items():
                if not name.startswith("_"):
                    every[number][NEW_NAMES.get(name, name)] = entries
    return every


DOCUMENTED = load()
NAMES = sorted({name for messages in DOCUMENTED.values() for name in messages})


def tokens(entries: list[dict[str, Any]]) -> list[str]:
    """What identifies an entry whatever the release: its plain format and its structure."""
    found = []
    for entry in entries:
        plain = entry["format"]
        if not plain.startswith(("Byte1('", "Int16[")):
            plain = re.sub(r" ?\(.*\)", "", plain)
        hint = entry.get("parse", {})
        kept = {k: v for k, v in hint.items() if k in ("choice", "repeat_until")}
        kept |= {"in": hint["when"]} if hint.get("when") in ("in_stream",) else {}
        kept |= {"again": True} if "repeat_count_pos" in hint else {}
        found.append(plain + json.dumps(kept, sort_keys=True))
    return found


def expected(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """(kind, old position, new position, old format, new format) by aligning the two tables."""
    found: set[tuple[Any, ...]] = set()

    def pair(was: dict[str, Any], now: dict[str, Any]) -> None:
        facts = (was["pos"], now["pos"], was["format"], now["format"])
        if was["pos"] != now["pos"]:
            found.add(("moved", *facts))
        if was["format"] != now["format"]:
            found.add(("format", *facts))

    match = difflib.SequenceMatcher(None, tokens(old), tokens(new), autojunk=False)
    for op, i1, i2, j1, j2 in match.get_opcodes():
        if op == "equal" or (op == "replace" and i2 - i1 == j2 - j1):
            for was, now in zip(old[i1:i2], new[j1:j2], strict=True):
                pair(was, now)
        else:
            found |= {("removed", e["pos"], None, e["format"], None) for e in old[i1:i2]}
            found |= {("added", None, e["pos"], None, e["format"]) for e in new[j1:j2]}
    return found


def told(comparison: reference.Comparison) -> set[tuple[Any, ...]]:
    return {
        (c.kind, c.position_old, c.position_new, c.old, c.new)
        for c in comparison.changes
        if c.kind not in ("meaning", "renamed")
    }


@pytest.mark.parametrize(("old", "new"), list(permutations(RELEASES, 2)))
def test_comparisons_over_all_pairs(old: int, new: int) -> None:
    differing = set()
    for name in NAMES:
        wanted = expected(DOCUMENTED[old].get(name, []), DOCUMENTED[new].get(name, []))
        comparison = reference.compare(name, old, new)
        assert told(comparison) == wanted, name
        assert (comparison.name_old is None) == (name not in DOCUMENTED[old])
        assert (comparison.name_new is None) == (name not in DOCUMENTED[new])
        if wanted:
            differing.add(name)
    every = reference.compare_all(old, new)
    assert {c.message.name for c in every if told(c)} == differing
    assert all(not c.same for c in every)


def test_the_alignment_of_this_test_sees_what_changed() -> None:
    old, new = DOCUMENTED[13]["Insert"], DOCUMENTED[14]["Insert"]
    assert expected(old, new) == {
        ("added", None, 2, None, "Int32"),
        ("moved", 2, 3, "Int32", "Int32"),
        ("moved", 3, 4, "Byte1('N')", "Byte1('N')"),
        ("moved", 4, 5, "TupleData", "TupleData"),
    }


def test_a_release_with_itself_is_the_same() -> None:
    for number in RELEASES:
        assert reference.compare_all(number, number) == ()


def test_renamed_messages_are_told() -> None:
    one = reference.compare("XLogData", 18, 19)
    assert (one.name_old, one.name_new, one.same) == ("XLogData", "WALData", False)
    assert [(c.kind, c.old, c.new) for c in one.changes] == [("renamed", "XLogData", "WALData")]
    assert reference.compare("XLogData", 10, 18).same


def test_stream_abort_as_the_manual_changed_it() -> None:
    out = io.StringIO()
    reference.write_compare(out, "stream abort", 15, 16, as_json=True)
    assert json.loads(out.getvalue()) == {
        "message": "Stream Abort",
        "layer": "pgoutput",
        "old": 15,
        "new": 16,
        "name_old": "Stream Abort",
        "name_new": "Stream Abort",
        "same": False,
        "changes": [
            {
                "kind": "added",
                "position_old": None,
                "position_new": 4,
                "old": None,
                "new": "Int64 (XLogRecPtr)",
                "name": "abort_lsn",
            },
            {
                "kind": "added",
                "position_old": None,
                "position_new": 5,
                "old": None,
                "new": "Int64 (TimestampTz)",
                "name": "abort_time",
            },
        ],
    }
    out = io.StringIO()
    reference.write_compare(out, "Stream Abort", 15, 16)
    assert "added    position 4: Int64 (XLogRecPtr) abort_lsn" in out.getvalue()


def test_a_message_that_one_release_lacks() -> None:
    gone = reference.compare("AuthenticationSCMCredential", 15, 16)
    assert [c.kind for c in gone.changes] == ["removed"] * 3
    assert "Gone: 16 does not have this message." in reference.comparison_text(gone)
    new = reference.compare("Truncate", 10, 11)
    assert [c.kind for c in new.changes] == ["added"] * 4
    assert "New: 10 does not have this message." in reference.comparison_text(new)
    neither = reference.compare("Truncate", 10, 10)
    assert neither.same
    assert "Neither 10 nor 10" in reference.comparison_text(neither)
    same = reference.compare("Begin", 16, 17)
    assert "The definition is the same." in reference.comparison_text(same)


@pytest.mark.parametrize(("old", "new"), list(combinations(RELEASES, 2)))
def test_every_comparison_renders(old: int, new: int) -> None:
    found = reference.compare_all(old, new)
    text = reference.changes_text(found, old, new, 80)
    assert text.startswith(f"What changed from PostgreSQL {old} to {new}")
    for one in found:
        assert str(one.name_new or one.name_old) in text
    assert ("Nothing" in text) == (not found)


def test_history_tells_each_release_in_which_something_changed() -> None:
    for name in NAMES:
        steps = reference.history(name)
        assert [(s.old, s.new) for s in steps] == [(n - 1, n) for n in range(11, 20)]
        text = reference.history_text(steps, 80)
        for step in steps:
            wanted = expected(
                DOCUMENTED[step.old].get(name, []), DOCUMENTED[step.new].get(name, [])
            )
            assert told(step) == wanted
            if wanted:
                assert f"\n{step.new}  {len(DOCUMENTED[step.new].get(name, []))} positions" in text


# pages


@pytest.mark.parametrize("number", RELEASES)
def test_every_page_of_a_release(number: int) -> None:
    shown = reference.pages(number)
    names = {NEW_NAMES.get(p.name, p.name) for p in shown}
    assert names == {*DOCUMENTED[number], "Error fields"}
    for one in shown:
        text = reference.page_text(one, 100)
        assert max(len(line) for line in text.splitlines()) <= 100, one.name
        assert text.startswith(f"{one.name}: ")
        assert one.manual_path in text and one.sha256 in text
        for row in one.rows:
            assert re.search(
                rf"^ [ |]{row.position} +{re.escape(row.format)} +{row.name} ", text, re.MULTILINE
            ), (one.name, row)
            assert row.meaning.split()[-1] in text
        for condition in ("in_stream", "parallel"):
            if any(row.condition == condition for row in one.rows):
                assert "from protocol version" in " ".join(text.split())


def test_the_page_of_relation_has_what_its_readers_know() -> None:
    shown = reference.page("relation", 18)
    assert shown.first_field == "Byte1('R')"
    assert shown.manual_path == "/docs/18/protocol-logicalrep-message-formats.html"
    assert [(r.position, r.format) for r in shown.rows] == [
        (1, "Byte1('R')"),
        (2, "Int32 (TransactionId)"),
        (3, "Int32 (Oid)"),
        (4, "String"),
        (5, "String"),
        (6, "Int8"),
        (7, "Int16"),
        (8, "Int8"),
        (9, "String"),
        (10, "Int32 (Oid)"),
        (11, "Int32"),
    ]
    text = " ".join(reference.page_text(shown, 120).split())
    for word in (
        "logical replication payload",
        "distinct from the frontend/backend envelope",
        "from the backend (server)",
        "Signature Relation",
        "since PostgreSQL 10",
        "10 11 12 13 14 15 16 17 [18] 19",
        "Only between Stream Start and Stream Stop, from protocol version 2 on.",
        "columns[]: positions 8 to 11 come column_count times",
        "Int32: four bytes as an integer, the high byte first.",
        "Source: PostgreSQL 18",
    ):
        assert word in text, word


def test_choices_and_conditions_are_visible() -> None:
    text = " ".join(reference.explain_text("Update", 18, 100).split())
    assert "old: either K or O, or none of them, positions 4 to 5" in text
    assert "Only after K or O." in text
    text = " ".join(reference.explain_text("TupleData", 13, 100).split())
    assert "kind: either n, u or t, positions 2 to 4" in text
    assert "Only after t." in text


def test_explain_json_is_the_contract() -> None:
    told_ = reference.explain_json("streamabort", 18)
    assert isinstance(told_, dict)
    assert told_["message"] == "Stream Abort"
    assert told_["layer"] == "pgoutput"
    assert told_["pg"] == 18
    assert told_["manual_path"] == "/docs/18/protocol-logicalrep-message-formats.html"
    assert told_["first_field"] == "Byte1('A')"
    assert told_["direction"] == "B"
    assert told_["since"] == {"server": 14, "proto_version": 2}
    assert told_["source"] == "PostgreSQL 18"
    assert {tuple(f) for f in told_["fields"]} == {
        ("position", "format", "name", "meaning", "repeats", "condition", "choice")
    }
    assert [f["condition"] for f in told_["fields"]] == [None, None, None, "parallel", "parallel"]
    canonical = json.dumps(told_["fields"], sort_keys=True, separators=(",", ":"))
    assert told_["sha256"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert canonical.isascii()


def test_explain_json_of_every_release_has_the_documented_positions() -> None:
    for number in RELEASES:
        every = reference.explain_json(None, number)
        assert isinstance(every, list)
        json.dumps(every)
        by_name = {NEW_NAMES.get(one["message"], one["message"]): one for one in every}
        for name, entries in DOCUMENTED[number].items():
            got = [(f["position"], f["format"]) for f in by_name[name]["fields"]]
            assert got == [(e["pos"], e["format"]) for e in entries], name
            for field, entry in zip(by_name[name]["fields"], entries, strict=True):
                hint = entry.get("parse", {})
                again = {"repeat_count_pos", "repeat_until"} & set(hint)
                assert bool(field["repeats"]) == bool(again), name


def test_the_hash_changes_when_the_definition_does() -> None:
    def sha(name: str, number: int) -> str:
        told_ = reference.explain_json(name, number)
        assert isinstance(told_, dict)
        return str(told_["sha256"])

    assert sha("Begin", 14) != sha("Begin", 15)
    assert sha("Begin", 15) == sha("Begin", 19)
    hashes = {one.sha256 for one in reference.pages(18)}
    assert len(hashes) == len(reference.pages(18))


def test_the_manual_pages_of_all_layers() -> None:
    def path(name: str, number: int) -> str:
        return reference.page(name, number).manual_path

    assert path("Bind", 16) == "/docs/16/protocol-message-formats.html"
    assert path("Standby status update", 12) == "/docs/12/protocol-replication.html"
    assert path("TupleData", 10) == "/docs/10/protocol-logicalrep-message-formats.html"
    assert path("error fields", 19) == "/docs/19/protocol-error-fields.html"


def test_the_page_of_the_error_fields() -> None:
    facts = json.loads((FORMATS / "frontend_backend.json").read_text(encoding="utf-8"))
    letters = list(facts["18"]["_error_fields"])
    shown = reference.page("Error fields", 18)
    assert [r.format for r in shown.rows] == [*(f"Byte1('{x}')" for x in letters), "String"]
    assert len({r.name for r in shown.rows}) == len(shown.rows)


# what is not known


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Relatoin", "Relation"),
        ("strem abort", "Stream Abort"),
        ("keepalive", "Primary keepalive message"),
        ("commandcomplet", "CommandComplete"),
    ],
)
def test_an_unknown_message_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageProblem, match=near):
        reference.page(name)


def test_a_name_like_nothing() -> None:
    with pytest.raises(UsageProblem, match="explain without a name lists all"):
        reference.page("xyzzyxyzzy")


@pytest.mark.parametrize("number", [9, 20, -1, 1800])
def test_an_unknown_release_names_the_known_ones(number: int) -> None:
    for ask in (
        lambda: reference.page("Begin", number),
        lambda: reference.compare("Begin", number, 18),
        lambda: reference.compare_all(18, number),
        lambda: reference.pages(number),
        lambda: reference.write_explain(io.StringIO(), None, number),
    ):
        with pytest.raises(UsageProblem, match="from 10 to 19"):
            ask()


def test_a_message_that_the_release_does_not_have() -> None:
    with pytest.raises(UsageProblem, match="documented from release 14 on, not in 10: say --pg 14"):
        reference.page("Stream Abort", 10)
    with pytest.raises(UsageProblem, match="documented until release 15, not in 18"):
        reference.page("AuthenticationSCMCredential", 18)


def test_history_needs_a_message() -> None:
    with pytest.raises(UsageProblem, match="--history needs a message"):
        reference.write_explain(io.StringIO(), None, 18, history=True)


# examples


def test_captures_that_hold_a_message(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.pcap").touch()
    (tmp_path / "a.json").write_text('{"messages": {"Begin": 2}, "tuples": {"N": 1}}')
    (tmp_path / "tour.pcapng").touch()
    (tmp_path / "tour.json").write_text('{"messages": {"Begin": 1}, "xlogdata": 3}')
    (tmp_path / "sub" / "login.pcap").touch()
    (tmp_path / "bad.pcap").touch()
    (tmp_path / "bad.json").write_text("[not json")
    (tmp_path / "contents.json").write_text('{"sub/login.pcap": ["AuthenticationOk"]}')

    def holding(name: str) -> tuple[str, ...]:
        return reference.examples(reference.find(name), tmp_path)

    assert holding("Begin") == ("tour.pcapng", "a.pcap")
    assert holding("TupleData") == ("a.pcap",)
    assert holding("WALData") == ("tour.pcapng",)
    assert holding("AuthenticationOk") == ("sub/login.pcap",)
    assert holding("Origin") == ()
    assert reference.examples(reference.find("Begin"), tmp_path / "missing") == ()


def test_shipped_captures_hold_every_message_of_pgoutput() -> None:
    everything: list[Message] = [m for m in reference.PAGES if m.layer in ("pgoutput", "part")]
    for message in everything:
        if message.name != "Error fields":
            assert reference.examples(message), message.name


def test_a_letter_alone_names_the_messages_that_it_marks() -> None:
    with pytest.raises(UsageProblem, match=r"the letter marks Query"):
        reference.page("Q")
    with pytest.raises(UsageProblem, match=r"the letter marks .*Stream Commit"):
        reference.page("c")


def test_a_comparison_tells_what_an_added_position_means() -> None:
    text = " ".join(
        reference.comparison_text(reference.compare("Stream Abort", 15, 16), 80).split()
    )
    assert (
        "added position 5: Int64 (TimestampTz) abort_time Time of the abort in microseconds since "
        "2000-01-01 00:00:00 UTC, signed. Only when streaming is parallel, from protocol version 4 on."
    ) in text


def test_the_page_of_an_error_spells_out_its_letters() -> None:
    text = " ".join(reference.explain_text("ErrorResponse", 18, 100).replace("|", " ").split())
    for words in (
        "S = Severity",
        "C = Code",
        "M = Message",
        "R = Routine",
        "a zero byte in its place",
    ):
        assert words in text


def test_options_of_commands_are_since_the_release_whose_server_takes_them() -> None:
    """What servers 10 to 18 answered to each option: the first and the last that took it."""
    from dissector.catalogue.commands import COMMANDS

    taken = {
        ("CREATE_REPLICATION_SLOT", "TWO_PHASE", "option"): (15, 19),
        ("CREATE_REPLICATION_SLOT", "SNAPSHOT", "option"): (15, 19),
        ("CREATE_REPLICATION_SLOT", "FAILOVER", "option"): (17, 19),
        ("ALTER_REPLICATION_SLOT", "FAILOVER", "option"): (17, 19),
        ("ALTER_REPLICATION_SLOT", "TWO_PHASE", "option"): (18, 19),
        ("DROP_REPLICATION_SLOT", "WAIT", "keyword"): (10, 19),
        ("BASE_BACKUP", "NOVERIFY_CHECKSUMS", "keyword"): (11, 14),
        ("BASE_BACKUP", "MANIFEST", "keyword"): (13, 14),
        ("BASE_BACKUP", "LABEL", "keyword"): (10, 14),
        ("BASE_BACKUP", "TARGET", "option"): (15, 19),
        ("BASE_BACKUP", "COMPRESSION", "option"): (15, 19),
        ("BASE_BACKUP", "INCREMENTAL", "option"): (17, 19),
    }
    declared = {
        (command.name, option.name, option.form): (option.since, option.until)
        for command in COMMANDS.values()
        for option in command.options
    }
    assert {key: declared[key] for key in taken} == taken
    assert [COMMANDS[n].since for n in ("READ_REPLICATION_SLOT", "UPLOAD_MANIFEST", "SHOW")] == [
        15,
        17,
        10,
    ]


def test_values_that_are_sentences_stand_one_by_one() -> None:
    lines = [
        line.strip(" |") for line in reference.explain_text("StartupMessage", 18, 140).splitlines()
    ]
    for start in (
        "- Value user = name",
        "- Value replication = true or on",
        "- Value database = name",
    ):
        assert any(line.startswith(start) for line in lines), start
    text = " ".join(reference.explain_text("ReadyForQuery", 18, 100).split())
    assert "Values: I = idle; T = in a transaction; E = in a failed transaction." in text
