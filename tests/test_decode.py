"""The generated decoder says what the annotator says, on everything.

The sample: golden/cases.json, and the servers' own lists of messages beside the captures. Of it every
truncated prefix and seeded single-byte mutations.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissector import catalogue
from dissector.annotate import annotate, findings, leaves, messages
from dissector.decode import decode, decoder, probes, values
from dissector.spec import Dialect

HERE = Path(__file__).parent
CASES = json.loads((HERE / "golden" / "cases.json").read_text())
TRUTHS = sorted((HERE.parent / "captures").rglob("*.truth.jsonl.gz"))
SEED = 20261129
PGOUTPUT = Dialect(proto_version=4, copy="pgoutput")


def agree(data: bytes, layer: str, dialect: Dialect) -> list[str]:
    """Both engines on `data`; the codes of what they found."""
    tree = annotate(data, layer, dialect)
    flat = [(n.place, n.start, n.end, n.value) for n in leaves(tree)]
    decoded = decode(data, layer, dialect)
    assert decoded.leaves == flat, data.hex()
    assert decoded.findings == findings(tree), data.hex()
    assert decoded.path == tuple(m.name for m in messages(tree)), data.hex()
    position = 0
    for _, start, end, _ in flat:
        assert start == position <= end, data.hex()
        position = end
    assert position == len(data), data.hex()
    assert values(data, layer, dialect).findings == decoded.findings
    return [f.code for f in decoded.findings]


def mutations(data: bytes, layer: str, dialect: Dialect, chance: random.Random, each: int) -> None:
    """Every prefix, and `each` changed bytes at every place (at most 60 places)."""
    stops = range(len(data)) if len(data) <= 60 else chance.sample(range(len(data)), 60)
    for at in stops:
        agree(data[:at], layer, dialect)
        for _ in range(each):
            byte = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            agree(data[:at] + bytes((byte,)) + data[at + 1 :], layer, dialect)


def case_dialect(case: dict) -> Dialect:
    return Dialect(
        release=case.get("pg", 18),
        proto_version=case.get("proto_version", 4),
        in_stream=case.get("in_stream", False),
        parallel=case.get("parallel", False),
        auth="AuthenticationSASL" if "auth_state" in case else "",
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_cases_with_prefixes_and_mutations(case):
    data, layer, dialect = bytes.fromhex(case["hex"]), case["layer"], case_dialect(case)
    agree(data, layer, dialect)
    mutations(data, layer, dialect, random.Random(SEED), 4)


def options_in_force(facts: dict) -> Iterator[dict]:
    """START_REPLICATION's options for each message: one set, or one a connection."""
    if isinstance(facts["options"], dict):
        yield from itertools.repeat(facts["options"])
    for asked, count in zip(facts["options"], facts.get("xlogdata_by_connection", ()), strict=True):
        yield from itertools.repeat(asked, count)


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda path: path.name.partition(".")[0])
def test_every_message_of_the_captures(truth):
    facts = json.loads(truth.with_name(truth.name.replace(".truth.jsonl.gz", ".json")).read_text())
    release = int(str(facts["server_version"]).partition(".")[0])
    options = iter(options_in_force(facts))
    chance = random.Random(SEED)
    in_stream = False
    with gzip.open(truth, "rt") as lines:
        for number, line in enumerate(lines):
            data = bytes.fromhex(json.loads(line)["data"])
            asked = next(options)
            parallel = asked.get("streaming") == "parallel"
            dialect = Dialect(release, int(asked["proto_version"]), in_stream, parallel)
            codes = agree(data, "pgoutput", dialect)
            # PostgreSQL 18 may send Stream Abort to a client that did not ask for streaming
            assert set(codes) <= {"stream-outside"}, (number, codes)
            if chance.random() < 0.01:
                mutations(data, "pgoutput", dialect, chance, 2)
            if data[:1] == b"S":
                in_stream = True
            elif data[:1] == b"E":
                in_stream = False


def test_there_is_truth_to_check_against():
    assert len(TRUTHS) >= 5


def wrapped(payload: bytes) -> bytes:
    inner = b"w" + struct.pack(">QQq", 5, 5, 5) + payload
    return b"d" + struct.pack(">I", len(inner) + 4) + inner


def test_through_all_layers():
    chance = random.Random(SEED)
    for case in CASES:
        if case["layer"] == "pgoutput":
            dialect = Dialect(
                proto_version=case.get("proto_version", 4),
                in_stream=case.get("in_stream", False),
                parallel=case.get("parallel", False),
                copy="pgoutput",
            )
            data = wrapped(bytes.fromhex(case["hex"]))
            agree(data, "backend", dialect)
            mutations(data, "backend", dialect, chance, 1)


def frame(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack(">I", len(body) + 4) + body


ENVELOPE = [
    ("backend", frame(b"R", struct.pack(">I", 0)), {}),
    ("backend", frame(b"R", struct.pack(">I", 5) + b"salt"), {}),
    ("backend", frame(b"R", struct.pack(">I", 10) + b"SCRAM-SHA-256\0\0"), {}),
    ("backend", frame(b"S", b"server_version\x0018.4\0"), {}),
    ("backend", frame(b"W", b"\0\0\0"), {}),
    ("backend", frame(b"G", b"\0\0\2\0\0\0\1"), {}),
    ("backend", frame(b"D", struct.pack(">Hi", 3, -1) + b"\0\0\0\0" + b"\0\0\0\1x"), {}),
    ("backend", frame(b"T", b"\0\1id\0" + bytes(18)), {}),
    ("backend", frame(b"t", b"\0\2" + struct.pack(">II", 23, 25)), {}),
    ("backend", frame(b"V", struct.pack(">i", -1)), {}),
    ("backend", frame(b"A", b"\0\0\0\7chan\0payload\0"), {}),
    ("frontend", frame(b"Q", b"select 1\0"), {}),
    ("frontend", frame(b"P", b"s\0select $1\0\0\1\0\0\0\x17"), {}),
    ("frontend", frame(b"B", b"\0s\0\0\1\0\1\0\1\0\0\0\4\0\0\0\x2a\0\0"), {}),
    ("frontend", frame(b"F", struct.pack(">IHHHi", 7, 1, 0, 1, -1) + b"\0\0"), {}),
    ("frontend", frame(b"p", b"secret\0"), {"auth": "AuthenticationCleartextPassword"}),
    ("frontend", frame(b"p", b"n,,n=,r=abc"), {"auth": "AuthenticationSASLContinue"}),
    ("frontend", frame(b"", struct.pack(">I", 196608) + b"user\0joe\0\0"), {"startup": True}),
    ("frontend", frame(b"", struct.pack(">I", 80877103)), {"startup": True}),
    ("frontend", frame(b"", struct.pack(">III", 80877102, 9, 8)), {"startup": True}),
    ("backend", frame(b"d", b"nbase.tar\0\0"), {"copy": "backup"}),
]


@pytest.mark.parametrize("release", [10, 14, 18, 19])
def test_envelope_messages(release):
    chance = random.Random(SEED)
    for layer, data, state in ENVELOPE:
        dialect = Dialect(release=release, **state)
        assert agree(data, layer, dialect) in ([], ["newer-than-release"]), data
        mutations(data, layer, dialect, chance, 3)


def test_random_bytes():
    chance = random.Random(SEED)
    tags = sorted({m.tag for m in catalogue.MESSAGES if m.tag})
    for _ in range(2500):
        layer = chance.choice(("frontend", "backend", "replication", "pgoutput"))
        dialect = Dialect(
            release=chance.randrange(10, 20),
            proto_version=chance.randrange(5),
            in_stream=chance.random() < 0.5,
            parallel=chance.random() < 0.5,
            copy=chance.choice(("", "pgoutput", "plugin", "wal", "rows", "backup", "tar")),
            auth=chance.choice(("", "AuthenticationSASL", "AuthenticationGSS")),
            startup=chance.random() < 0.2,
        )
        noise = chance.randbytes(chance.randrange(40))
        agree(chance.choice(tags).encode() + noise.replace(b"\xff", b"\0"), layer, dialect)


def test_values_by_name():
    insert = bytes.fromhex("49000040214e000274000000033130307400000003323030")
    found = values(wrapped(insert), "backend", PGOUTPUT)
    assert found.path == ("CopyData", "XLogData", "Insert")
    assert found.fields["data"]["start_lsn"] == 5
    row = found.fields["data"]["data"]
    assert row["relation_oid"] == 16417
    assert [column["value"] for column in row["new"]["columns"]] == [b"100", b"200"]
    bind = values(ENVELOPE[13][1], "frontend", PGOUTPUT).fields
    assert bind["statement"] == b"s"
    assert bind["parameter_formats"] == (1,)
    assert bind["parameters"][0]["value"] == b"\0\0\0\x2a"
    null = values(ENVELOPE[6][1], "backend", PGOUTPUT).fields["columns"]
    assert [column["value"] for column in null] == [None, b"", b"x"]


def test_values_of_a_broken_message_keep_what_was_read():
    cut = bytes.fromhex("420000000001e9d4500003046d92")
    found = values(cut, "pgoutput", PGOUTPUT)
    assert found.fields["final_lsn"] == 0x1E9D450
    assert "xid" not in found.fields
    assert [f.code for f in found.findings] == ["cut-short"]


def test_decoder_of_one_message():
    begin = bytes.fromhex("420000000001e9d4500003046d92e925a700000321")
    read = decoder("pgoutput", "Begin", PGOUTPUT)
    assert read(b"##" + begin, 2, 23) == (0x42, 0x1E9D450, 849293592831399, 801)
    assert read(begin[:-1], 0, 20) is None
    assert read(begin, 0, 99) is None
    with pytest.raises(KeyError):
        decoder("pgoutput", "No Such Message", PGOUTPUT)


def test_probes_are_the_documented_offsets():
    assert probes("pgoutput", "Begin", PGOUTPUT) == {
        "tag": (0, 1, False),
        "final_lsn": (1, 8, False),
        "commit_time": (9, 8, True),
        "xid": (17, 4, False),
    }
    streamed = Dialect(proto_version=2, in_stream=True)
    assert probes("pgoutput", "Insert", streamed)["relation_oid"] == (5, 4, False)
    assert probes("pgoutput", "Insert", PGOUTPUT)["relation_oid"] == (1, 4, False)
    assert "abort_lsn" not in probes("pgoutput", "Stream Abort", PGOUTPUT)
    parallel = Dialect(proto_version=4, parallel=True)
    assert probes("pgoutput", "Stream Abort", parallel)["abort_time"] == (17, 8, True)
    assert probes("replication", "XLogData", PGOUTPUT)["send_time"] == (17, 8, True)
    assert set(probes("pgoutput", "Origin", PGOUTPUT)) == {"tag", "origin_lsn"}
