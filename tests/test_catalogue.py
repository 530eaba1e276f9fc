"""The catalogue against the documented formats of every release, and against itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dissector.catalogue import (
    ERROR_FIELDS,
    MESSAGES,
    RELEASES,
    by_name,
    in_layer,
    lookup,
    lookup_bytes,
    names,
    part,
)
from dissector.catalogue.commands import COMMANDS
from dissector.catalogue.releases import PROTO_VERSIONS, release
from dissector.catalogue.sasl import MECHANISMS, OAUTH, OAUTH_ERROR, SCRAM
from dissector.catalogue.startup import ANSWERS, STARTUP_PARAMETERS
from dissector.catalogue.tour import TOUR, stop_for
from dissector.spec import Choice, Dialect, Field, Message, Part, Repeat, When

FORMATS = Path(__file__).parent / "golden" / "formats"
TABLES: dict[str, dict[str, dict[str, Any]]] = {
    name: json.loads((FORMATS / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("pgoutput", "replication", "frontend_backend")
}
LAYERS_OF = {
    "pgoutput": ("pgoutput", "part"),
    "replication": ("replication",),
    "frontend_backend": ("frontend", "backend"),
}
EVERY = [(table, int(number)) for table in TABLES for number in TABLES[table]]


def documented(table: str, number: int) -> dict[str, list[dict[str, Any]]]:
    return {k: v for k, v in TABLES[table][str(number)].items() if not k.startswith("_")}


def declared(table: str, number: int) -> dict[str, Message]:
    return {
        m.name_in(number): m
        for m in MESSAGES
        if m.layer in LAYERS_OF[table] and m.since <= number <= m.until
    }


def test_the_tables_hold_what_they_should() -> None:
    assert [number for table, number in EVERY if table == "pgoutput"] == list(range(10, 20))
    assert len(EVERY) == 30
    assert len(documented("pgoutput", 18)) == 20
    assert len(documented("frontend_backend", 18)) == 52


@pytest.mark.parametrize(("table", "number"), EVERY)
def test_messages_of_a_release(table: str, number: int) -> None:
    assert set(declared(table, number)) == set(documented(table, number))


@pytest.mark.parametrize(("table", "number"), EVERY)
def test_positions_and_formats(table: str, number: int) -> None:
    for name, message in declared(table, number).items():
        layout = [(p.position, p.format) for p in message.layout(number)]
        assert layout == [(e["pos"], e["format"]) for e in documented(table, number)[name]], name


@pytest.mark.parametrize("table", TABLES)
def test_order_of_the_newest_manual(table: str) -> None:
    newest = documented(table, 19)
    if table != "pgoutput":  # its table lists older messages first
        assert list(declared(table, 19)) == list(newest)
    assert len(declared(table, 19)) == len(newest)


@pytest.mark.parametrize(("table", "number"), EVERY)
def test_tags_directions_and_context(table: str, number: int) -> None:
    facts = TABLES[table][str(number)]
    for name, message in declared(table, number).items():
        if "_direction" in facts:
            assert message.direction == facts["_direction"][name], name
        if "_tag" in facts:
            assert message.tag == (facts["_tag"][name] or ""), name
        if "_context" in facts:
            assert message.context == facts["_context"][name], name
        if message.tag:
            assert message.layout(number)[0].format == f"Byte1('{message.tag}')", name


@pytest.mark.parametrize("number", range(10, 20))
def test_protocol_versions_of_messages(number: int) -> None:
    wanted = TABLES["pgoutput"][str(number)]["_since_proto"]
    got = {n: m.proto for n, m in declared("pgoutput", number).items() if m.proto > 1}
    assert got == wanted


def hints(message: Message, number: int) -> list[dict[str, Any]]:
    """The structure that the declaration gives to every position, in the tables' own words."""
    positions: list[Field] = [p.field for p in message.layout(number)]
    parts = message.parts_in(number)
    choices = {p.name: p for p in walk(parts) if isinstance(p, Choice)}

    def place(name: str, siblings: tuple[Part, ...]) -> int:
        """Position of the field called `name` that stands beside `siblings`."""
        fields = [p for p in siblings if isinstance(p, Field) and p.name == name]
        assert len(fields) == 1, (message.name, name)
        return next(i for i, f in enumerate(positions, 1) if f is fields[0])

    def options(condition: str) -> list[int]:
        name, _, letters = condition.removeprefix("chosen:").partition("=")
        kept = [o for o in choices[name].options if not letters or str(o.constant) in letters]
        return [next(i for i, f in enumerate(positions, 1) if f is o) for o in kept]

    found: list[dict[str, Any]] = []

    def visit(siblings: tuple[Part, ...], about: dict[str, Any]) -> None:
        for item in siblings:
            if isinstance(item, Field):
                hint = dict(about)
                if item.kind.rule == "bytes":
                    if item.size_from:
                        hint["len_pos"] = place(item.size_from, siblings)
                    else:
                        hint["to"] = "end"
                if item.kind.rule == "array":
                    hint["array_count_pos"] = place(item.count_from, siblings)
                found.append(hint)
            elif isinstance(item, Repeat):
                more: dict[str, Any] = (
                    {"repeat_until": "zero byte"}
                    if item.until_zero
                    else {"repeat_count_pos": place(item.count, siblings)}
                )
                visit(item.parts, about | more)
            elif isinstance(item, Choice):
                for place_of, option in enumerate(item.options, 1):
                    alone: dict[str, Any] = {"choice": item.name, "choice_required": item.required}
                    if "repeat_count_pos" in about:  # TupleData: the tables number the alternatives
                        alone = {"alt": [place_of]}
                    visit((option,), about | alone)
            elif item.condition.startswith("chosen:"):
                positions_of = options(item.condition)
                if "repeat_count_pos" in about:
                    first = options("chosen:kind")[0]
                    more = {"alt": [p - first + 1 for p in positions_of]}
                else:
                    more = {"when": "pos:" + "|".join(str(p) for p in positions_of)}
                visit(item.parts, about | more)
            else:
                word = {"in_stream": "in_stream", "parallel": "streaming=parallel"}[item.condition]
                visit(item.parts, about | {"when": word, "since_proto": item.proto})

    visit(parts, {})
    return found


def walk(parts: tuple[Part, ...]) -> Iterator[Part]:
    for item in parts:
        yield item
        if isinstance(item, Repeat | When):
            yield from walk(item.parts)
        elif isinstance(item, Choice):
            yield from walk(item.options)


FIXED_KEY = {"BackendKeyData", "CancelRequest"}


@pytest.mark.parametrize(("table", "number"), EVERY)
def test_structure(table: str, number: int) -> None:
    for name, message in declared(table, number).items():
        wanted = []
        for entry in documented(table, number)[name]:
            hint = dict(entry.get("parse", {}))
            hint.pop("beyond_doc", None)
            hint.pop("also_values", None)
            wanted.append(hint)
        if name in FIXED_KEY and number <= 17:  # declared to the end, for keys of any length
            assert wanted[-1] == {}
            wanted[-1] = {"to": "end"}
        assert hints(message, number) == wanted, name


def test_versions_and_parameters_of_a_startup_message() -> None:
    entries = TABLES["frontend_backend"]["18"]["StartupMessage"]
    named = {n["name"] for n in entries[2]["names"]}
    assert named == set(STARTUP_PARAMETERS)
    version = by_name("StartupMessage").layout(18)[1].field
    assert {196610, *entries[1]["parse"]["also_values"]} <= set(version.values)


@pytest.mark.parametrize("number", range(10, 20))
def test_error_fields(number: int) -> None:
    wanted = TABLES["frontend_backend"][str(number)]["_error_fields"]
    assert {letter: name for letter, (name, _) in ERROR_FIELDS.items()} == wanted


@pytest.mark.parametrize("number", range(10, 20))
def test_envelope_versions(number: int) -> None:
    wanted = TABLES["frontend_backend"][str(number)]["_protocol"]
    assert list(RELEASES[number].protocols) == wanted["server_accepts"]
    assert RELEASES[number].described == wanted["described"]


@pytest.mark.parametrize("number", range(10, 20))
def test_pgoutput_options(number: int) -> None:
    facts = json.loads((FORMATS / "options.json").read_text(encoding="utf-8"))[str(number)]
    options = RELEASES[number].options
    assert list(options) == list(facts["options"])
    for name, wanted in facts["options"].items():
        option = options[name]
        kind = "list" if wanted["type"].endswith("list") else wanted["type"]
        assert option.type == kind, name
        assert list(option.values) == [str(v) for v in wanted["values"] or []], name
        assert list(option.also) == wanted.get("also_accepted", []), name
        assert option.default == wanted.get("default", ""), name
        assert option.required == wanted["required"], name
        needs = wanted.get("min_proto_version", {})
        assert dict(option.proto) == (needs if isinstance(needs, dict) else {"": needs}), name
    versions = facts["proto_versions"]
    assert [str(v) for v in RELEASES[number].proto_versions] == list(versions)
    for version, wanted in versions.items():
        assert PROTO_VERSIONS[int(version)][0] == wanted["since_server"]


def test_an_unknown_release_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"9.*10 to 19"):
        release(9)
    assert release(18).manual_path("x.html") == "/docs/18/x.html"


def test_names_are_unique_and_found_in_any_spelling() -> None:
    for number in range(10, 20):
        plain = [re.sub(r"\W", "", n).casefold() for n in names(number)]
        assert len(plain) == len(set(plain))
        for name in names(number):
            found = by_name(name.upper().replace(" ", ""), number)
            assert found.name_in(number) == name
    assert by_name("streamabort") is by_name("Stream Abort")
    assert by_name("XLogData") is by_name("waldata")
    assert by_name("XLogData").name_in(18) == "XLogData"
    assert by_name("XLogData").name_in(19) == "WALData"
    with pytest.raises(KeyError):
        by_name("Nonsense")


def test_field_names_are_identifiers_and_unique_among_siblings() -> None:
    def check(parts: tuple[Part, ...], where: str) -> None:
        fields = [p.name for p in parts if isinstance(p, Field)]
        assert len(fields) == len(set(fields)), where
        for item in parts:
            if not isinstance(item, When):
                assert item.name.isidentifier() and item.name == item.name.lower(), where
            if isinstance(item, Repeat | When):
                check(item.parts, where)
            elif isinstance(item, Choice):
                check(item.options, where)

    for message in MESSAGES:
        for number in range(message.since, message.until + 1):
            check(message.parts_in(number), message.name)


FIELDS = [
    (message, placed.field, number)
    for message in MESSAGES
    for number in {message.until, message.since}
    for placed in message.layout(number)
]


def meanings() -> Iterator[tuple[str, str]]:
    for message in MESSAGES:
        yield message.name, message.meaning
    for message, field, number in FIELDS:
        yield f"{message.name}.{field.name}", field.meaning_in(number)
    for letter, (_, meaning) in ERROR_FIELDS.items():
        yield f"error field {letter}", meaning


def test_a_meaning_is_one_sentence() -> None:
    for where, text in meanings():
        assert text.endswith(".") and text[0].isupper(), where
        bare = re.sub(r"\d\.\d|_pq_\.|e\.g\.|\.\.\.|pg_\w+\.\w+", "", text)
        assert bare.count(".") == 1, (where, text)
        assert 12 <= len(text) <= 230, (where, len(text))
        assert not re.search(r"\b(\w+) \1\b|  ", text), (where, text)


def test_meanings_say_what_a_reader_needs_to_decode_by_hand() -> None:
    for message, field, number in FIELDS:
        where = f"{message.name}.{field.name} in {number}"
        text = field.meaning_in(number)
        if field.kind.show == "timestamp":
            assert "microseconds since 2000-01-01 00:00:00 UTC, signed" in text, where
        if field.kind.show in ("oid", "xid") or field.kind.name.startswith("count"):
            assert "unsigned" in text, where
        if field.kind.rule == "string":
            assert "zero byte" in text or field.name in ("name", "gid"), where
        if field.kind.signed and field.kind.show == "int" and "length" in field.name:
            assert "bytes" in text and "signed" in text, where
        for bit, name in field.flags.items():
            assert re.search(rf"\b{bit}\b", text), (where, name)
        for value in field.values if field.closed else ():
            assert re.search(rf"\b{value}\b", text), (where, value)
        if isinstance(field.constant, str):
            assert f" {field.constant}" in text, where
        if field.kind.rule == "bytes":
            assert re.search(r"as many bytes as|to the end of the|4 bytes", text) or field.secret


def test_reasons_are_there() -> None:
    for message in MESSAGES:
        for item in walk(message.parts):
            if isinstance(item, When):
                assert item.present.endswith(".") and item.absent.endswith("."), message.name


def test_secrets_are_marked() -> None:
    secret = {(m.name, p.field.name) for m in MESSAGES for p in m.layout(18) if p.field.secret}
    assert secret == {
        ("BackendKeyData", "secret_key"),
        ("CancelRequest", "secret_key"),
        ("PasswordMessage", "password"),
        ("SASLInitialResponse", "data"),
        ("SASLResponse", "data"),
        ("GSSResponse", "data"),
    }


# looking up


def test_lookup_finds_every_message_with_a_tag_of_its_own() -> None:
    for number in range(10, 20):
        for layer in ("frontend", "backend", "replication", "pgoutput"):
            for message in in_layer(layer, number):
                if message.tag and message.tag not in ("R" if layer == "backend" else "p"):
                    assert lookup(layer, message.tag, number, Dialect(number)) is message
    assert in_layer("frontend", 18).count(by_name("CopyData")) == 1
    assert part("TupleData").layer == "part"


def test_a_message_is_found_whatever_the_release() -> None:
    assert lookup("pgoutput", ord("A"), 10, Dialect(10)) is by_name("Stream Abort")
    assert lookup("replication", "s", 18, Dialect(18)) is by_name("Primary status update")
    assert lookup("pgoutput", "z", 18, Dialect()) is None


@pytest.mark.parametrize(
    ("copy", "tag", "name"),
    [
        ("backup", "p", "progress report"),
        ("backup", "d", "archive or manifest data"),
        ("pgoutput", "p", "Request primary status update"),
        ("wal", "w", "XLogData"),
        ("", "n", "new archive"),
        ("", "p", "Request primary status update"),
        ("pgoutput", "n", None),
        ("backup", "w", None),
    ],
)
def test_copy_data_by_what_the_stream_is(copy: str, tag: str, name: str | None) -> None:
    found = lookup("replication", tag, 19, Dialect(19, copy=copy))
    assert found is (by_name(name) if name else None)


@pytest.mark.parametrize(
    ("auth", "name"),
    [
        ("AuthenticationCleartextPassword", "PasswordMessage"),
        ("AuthenticationMD5Password", "PasswordMessage"),
        ("AuthenticationSASL", "SASLInitialResponse"),
        ("AuthenticationSASLContinue", "SASLResponse"),
        ("AuthenticationGSS", "GSSResponse"),
        ("AuthenticationGSSContinue", "GSSResponse"),
        ("AuthenticationSSPI", "GSSResponse"),
    ],
)
def test_p_by_the_authentication_request(auth: str, name: str) -> None:
    data = b"p\0\0\0\x08abc\0"
    assert lookup_bytes("frontend", data, 0, Dialect(auth=auth)) is by_name(name)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"secret\0", "PasswordMessage"),
        (b"SCRAM-SHA-256\0\0\0\0\x03n,,", "SASLInitialResponse"),
        (b"SCRAM-SHA-256\0\xff\xff\xff\xff", "SASLInitialResponse"),
        (b"c=biws,r=x,p=y", "SASLResponse"),
        (b"\x60\x82\x01\x02", "GSSResponse"),
        (b"\x60\x00\x01\x02", "GSSResponse"),
    ],
)
def test_p_by_its_shape_when_the_request_was_not_seen(body: bytes, name: str) -> None:
    data = b"p" + (len(body) + 4).to_bytes(4, "big") + body
    assert lookup_bytes("frontend", data, 0, Dialect()) is by_name(name)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (80877102, "CancelRequest"),
        (80877103, "SSLRequest"),
        (80877104, "GSSENCRequest"),
        (196608, "StartupMessage"),
        (196610, "StartupMessage"),
        (0x0003270F, "StartupMessage"),
    ],
)
def test_startup_packets_by_their_number(code: int, name: str) -> None:
    data = b"xx" + (8).to_bytes(4, "big") + code.to_bytes(4, "big")
    assert lookup_bytes("frontend", data, 2, Dialect(startup=True)) is by_name(name)


def test_authentication_requests_by_their_code() -> None:
    for message in in_layer("backend"):
        if message.tag == "R":
            code = message.layout(message.since)[2].field.constant
            assert isinstance(code, int)
            data = b"R\0\0\0\x08" + code.to_bytes(4, "big")
            assert lookup_bytes("backend", data, 0, Dialect()) is message
    assert lookup_bytes("backend", b"R\0\0\0\x08\0\0\0\x63", 0, Dialect()) is None
    assert lookup_bytes("backend", b"R\0\0\0\x08\0", 0, Dialect()) is None


def test_lookup_never_raises() -> None:
    for layer in ("frontend", "backend", "replication", "pgoutput"):
        for dialect in (Dialect(), Dialect(startup=True), Dialect(auth="?", copy="?")):
            for byte in range(256):
                for tail in (b"", b"\xff\xff", b"\xff" * 4, b"\0" * 8):
                    found = lookup_bytes(layer, bytes([byte]) + tail, 0, dialect)
                    assert found is None or found.tag in ("", chr(byte))
            assert lookup_bytes(layer, b"", 0, dialect) is None or dialect.startup


def test_answers_of_one_byte() -> None:
    assert set(ANSWERS) == {"S", "G", "N"}


# what is told beside the formats


def test_the_tour_tells_about_every_pgoutput_message() -> None:
    known = {m.name_in(18) for m in MESSAGES}
    assert set(TOUR) <= known
    assert {m.name for m in in_layer("pgoutput")} <= set(TOUR)
    for name, stop in TOUR.items():
        assert 20 <= len(stop.happened) <= 200 and 20 <= len(stop.look) <= 320, name
    assert stop_for(("CopyData", "XLogData", "Insert")) is TOUR["Insert"]
    assert stop_for(("CopyData", "WALData")) is TOUR["XLogData"]
    assert stop_for(("CopyData", "XLogData", "no such thing")) is TOUR["XLogData"]
    assert stop_for(()) is None


@pytest.mark.parametrize(
    ("command", "since"),
    [
        ("IDENTIFY_SYSTEM", 10),
        ("SHOW", 10),
        ("TIMELINE_HISTORY", 10),
        ("CREATE_REPLICATION_SLOT", 10),
        ("START_REPLICATION", 10),
        ("DROP_REPLICATION_SLOT", 10),
        ("BASE_BACKUP", 10),
        ("READ_REPLICATION_SLOT", 15),
        ("ALTER_REPLICATION_SLOT", 17),
        ("UPLOAD_MANIFEST", 17),
    ],
)
def test_replication_commands(command: str, since: int) -> None:
    assert COMMANDS[command].since == since
    assert COMMANDS[command].syntax.startswith(command)


def test_options_of_replication_commands_by_release() -> None:
    def options(command: str, number: int) -> set[str]:
        return {o.name for o in COMMANDS[command].options_in(number) if o.form == "option"}

    assert options("CREATE_REPLICATION_SLOT", 14) == set()
    assert options("CREATE_REPLICATION_SLOT", 15) == {"TWO_PHASE", "RESERVE_WAL", "SNAPSHOT"}
    assert options("CREATE_REPLICATION_SLOT", 17) - options("CREATE_REPLICATION_SLOT", 16) == {
        "FAILOVER"
    }
    assert options("ALTER_REPLICATION_SLOT", 17) == {"FAILOVER"}
    assert options("ALTER_REPLICATION_SLOT", 18) == {"FAILOVER", "TWO_PHASE"}
    assert options("BASE_BACKUP", 17) - options("BASE_BACKUP", 16) == {"INCREMENTAL"}
    for command in COMMANDS.values():
        for number in range(10, 20):
            names_there = [o.name for o in command.options_in(number)]
            assert len(names_there) == len(set(names_there)), (command.name, number)


def test_sasl_attributes() -> None:
    assert {k for k, a in SCRAM.items() if a.secret} == {"p", "v"}
    assert {k for k, a in OAUTH.items() if a.secret} == {"auth"}
    tables = {"SCRAM-SHA-256": SCRAM, "SCRAM-SHA-256-PLUS": SCRAM, "OAUTHBEARER": OAUTH}
    for mechanism, steps in MECHANISMS.items():
        for step in steps:
            message = by_name(step.message)
            assert message.direction == step.direction
            table = OAUTH_ERROR if step.name == "server-error" else tables[mechanism]
            assert set(step.attributes) <= set(table)
