"""The scapy layers against truth: documented formats, servers' own lists, hand-written bytes."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import NoPayload, Raw, fuzz

from dissector import catalogue, layers
from dissector.layers import (
    AuthenticationMD5Password,
    Begin,
    CopyData,
    DataRow,
    DataRowColumn,
    Delete,
    ErrorResponse,
    ErrorResponseField,
    HotStandbyFeedbackMessage,
    Insert,
    Origin,
    PasswordMessage,
    PgMessage,
    PgType,
    PostgreSQL,
    Query,
    ReadyForQuery,
    Relation,
    StartupMessage,
    StartupMessageParameter,
    StreamAbort,
    Truncate,
    TupleData,
    TupleDataColumn,
    UnknownMessage,
    Update,
    WALData,
    XLogData,
)
from dissector.layers.fields import Unterminated
from dissector.layers.packets import CLASSES, CataloguePacket
from dissector.spec import Dialect

HERE = Path(__file__).parent
FORMATS = HERE / "golden" / "formats"
CAPTURES = HERE.parent / "captures"
TRUTHS = sorted(p for p in CAPTURES.glob("*.truth.jsonl.gz") if p.stat().st_size < 16_000)
"""The large ones are read and built in test_layers_session.py."""


def whole(pkt: CataloguePacket) -> bool:
    """Every byte of the packet and of what it carries belongs to a field."""
    while not isinstance(pkt, NoPayload):
        if not isinstance(pkt, CataloguePacket) or pkt.stopped is not None:
            return False
        pkt = pkt.payload
    return True


# -- bytes made from the documented formats, by a writer that knows nothing of the catalogue -------


def write(fields: list[dict], tuples: list[dict], seed: int) -> bytes:
    """One message of the documented list `fields`; optional parts come where a condition names them."""
    rng = random.Random(seed)
    number = count(1)
    sizes: dict[int, int] = {}
    out: list[bytes] = []
    chosen: set[int] = set()
    choices: dict[str, list[int]] = {}
    for field in fields:
        if choice := field.get("parse", {}).get("choice"):
            choices.setdefault(choice, []).append(field["pos"])
    for positions in choices.values():
        chosen.add(rng.choice(positions))

    def value(field: dict) -> bytes:
        kind, _, constant = field["format"].partition("(")
        kind = kind.strip()
        constant = constant.rstrip(")")
        if kind == "Byte1":
            return constant.strip("'").encode() if constant else b"S"
        if kind == "Byte4":
            return b"salt"
        if kind == "String":
            return b"text%d\0" % next(number)
        if kind == "TupleData":
            return write_tuple(tuples, rng)
        bits = int(kind.removeprefix("Int"))
        plain = constant.lstrip("-").isdigit()
        return (int(constant) if plain else next(number)).to_bytes(bits // 8, "big")

    i = 0
    while i < len(fields):
        field = fields[i]
        parse = field.get("parse", {})
        pos = field["pos"]
        if parse.get("choice") and pos not in chosen:
            i += 1
            continue
        if str(parse.get("when", "")).startswith("pos:"):
            wanted = {int(each) for each in parse["when"][4:].split("|")}
            if not wanted & chosen:
                i += 1
                continue
        repeats = parse.get("repeat_count_pos") or parse.get("repeat_until")
        if repeats:
            group = [f for f in fields[i:] if _repeats(f) == repeats]
            for _ in range(2):
                lengths = {f.get("parse", {}).get("len_pos") for f in group}
                for each in group:
                    if each["pos"] in lengths:
                        out.append((3).to_bytes(4, "big"))
                    elif each["format"] == "Byten":
                        out.append(b"\0ab")
                    else:
                        out.append(value(each))
            if parse.get("repeat_until"):
                out.append(b"\0")
            i += len(group)
            continue
        later = [f.get("parse", {}) for f in fields[i + 1 :]]
        if any(pos in (p.get("repeat_count_pos"), p.get("array_count_pos")) for p in later):
            width = int(field["format"].partition(" ")[0].removeprefix("Int")) // 8
            out.append((2).to_bytes(width, "big"))
        elif any(p.get("len_pos") == pos for p in later):
            out.append((4).to_bytes(4, "big"))
        elif field["format"] == "Byten":
            out.append(b"\xff\0\xfe\x80")
        elif "array_count_pos" in parse:
            out.append(b"\0\1\0\0")
        else:
            out.append(value(field))
        sizes[pos] = sum(map(len, out))
        i += 1
    return b"".join(out)


def _repeats(field: dict) -> object:
    parse = field.get("parse", {})
    return parse.get("repeat_count_pos") or parse.get("repeat_until")


def write_tuple(tuples: list[dict], rng: random.Random) -> bytes:
    letters = [f["format"][7] for f in tuples if f["format"].startswith("Byte1")]
    out = [(len(letters) + 1).to_bytes(2, "big")]
    for letter in [*letters, rng.choice(letters)]:
        out.append(letter.encode())
        if letter in "tb":
            out.append(b"\0\0\0\2\xc3\xa4")
    return b"".join(out)


def documented() -> list[tuple[str, int, str, bytes, Dialect]]:
    """(layer, release, message, bytes, Dialect) of every message of every release."""
    found = []
    for file in ("pgoutput", "replication", "frontend_backend"):
        table = json.loads((FORMATS / f"{file}.json").read_text())
        for release, messages in table.items():
            tuples = messages.get("TupleData", [])
            for name, fields in messages.items():
                if name.startswith("_") or name == "TupleData":
                    continue
                backup = messages.get("_context", {}).get(name) == "BASE_BACKUP"
                dialect = Dialect(
                    release=int(release),
                    in_stream=int(release) >= 14,
                    parallel=int(release) >= 16,
                    proto_version=1,
                    copy="backup" if backup else "pgoutput",
                )
                data = write(fields, tuples, len(found))
                if file == "frontend_backend":
                    at = 0 if messages["_tag"][name] is None else 1
                    size = (len(data) - at).to_bytes(4, "big")
                    data = data[:at] + size + data[at + 4 :]
                found.append((file, int(release), name, data, dialect))
    return found


@pytest.mark.parametrize("release", range(10, 20))
def test_every_documented_message_is_read_whole_and_built_the_same(release: int) -> None:
    checked = 0
    for _, of, name, data, dialect in documented():
        if of != release:
            continue
        cls = CLASSES[catalogue.by_name(name).name]
        pkt = cls(data, dialect=dialect)
        carrier = name in ("CopyData", "XLogData", "WALData")
        assert whole(pkt) or carrier, (name, data.hex(), repr(pkt))
        assert bytes(pkt) == data, (name, data.hex(), repr(pkt))
        again = cls(**pkt.fields, dialect=dialect)
        if carrier:
            again = again / Raw(bytes(pkt.payload))
        assert bytes(again) == data, name
        assert cls.__name__ in repr(pkt)
        assert pkt.show(dump=True).startswith("###[ ")
        checked += 1
    assert checked > 40


def test_lengths_and_counts_that_are_none_are_computed() -> None:
    """Bytes with every length and count taken out are built as they were."""
    for _, _, name, data, dialect in documented():
        cls = CLASSES[catalogue.by_name(name).name]
        pkt = cls(data, dialect=dialect)
        forget(pkt)
        assert bytes(pkt) == data, (name, data.hex())


def forget(pkt: CataloguePacket) -> None:
    for fld in pkt.fields_desc:
        value = pkt.fields.get(fld.name)
        if getattr(fld, "measures", ()) or fld.name == "length":
            if fld.name in pkt.fields:
                pkt.fields[fld.name] = None
        elif isinstance(value, CataloguePacket):
            forget(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, CataloguePacket):
                    forget(each)


def test_every_declared_message_has_a_class_under_all_its_names() -> None:
    for message in catalogue.MESSAGES:
        assert CLASSES[message.name].declared is message
    assert WALData is XLogData
    assert XLogData.__name__ == "XLogData"
    assert layers.PrimaryKeepaliveMessage._name == "Primary keepalive message"
    assert HotStandbyFeedbackMessage is CLASSES["Hot standby feedback message"]
    assert {PgType, PgMessage} == {CLASSES["Type"], CLASSES["Message"]}


def test_no_name_hides_one_of_scapy_and_no_field_one_of_packet() -> None:
    import scapy.all

    assert not set(layers.__all__) & set(dir(scapy.all))
    for cls in CLASSES.values():
        for fld in cls.fields_desc:
            assert not hasattr(CataloguePacket, fld.name), (cls, fld.name)


def test_import_is_silent_and_loads_neither_textual_nor_all_of_scapy() -> None:
    code = (
        "import sys; from dissector.layers import *; "
        "print(sorted(m for m in ('textual', 'scapy.all', 'scapy.layers.all', 'dissector.capture') "
        "if m in sys.modules), Insert.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[] Insert\n", "")


# -- what servers sent ----------------------------------------------------------------------------


def truth(path: Path) -> list[tuple[bytes, Dialect]]:
    """The server's own list of pgoutput messages, each with the Dialect that the list itself tells."""
    facts = json.loads(path.with_name(path.name.replace(".truth.jsonl.gz", ".json")).read_text())
    options = facts["options"]
    sessions = options if isinstance(options, list) else [options]
    counts = iter(facts.get("xlogdata_by_connection", [facts["xlogdata"]]))
    dialects = iter(
        Dialect(
            release=int(facts["server_version"].split(".")[0]),
            proto_version=int(each["proto_version"]),
            parallel=each.get("streaming") == "parallel",
            copy="pgoutput",
        )
        for each in sessions
    )
    found: list[tuple[bytes, Dialect]] = []
    left = 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if not left:
                left, dialect = next(counts), next(dialects)
            left -= 1
            data = bytes.fromhex(json.loads(line)["data"])
            found.append((data, dialect))
            if data[:1] in b"SE":
                dialect = replace(dialect, in_stream=data[:1] == b"S")
    return found


def test_there_are_captures() -> None:
    assert len(TRUTHS) >= 8


@pytest.mark.parametrize("path", TRUTHS, ids=lambda p: p.name.split(".")[0])
def test_what_servers_sent_is_read_whole_and_built_the_same(path: Path) -> None:
    for data, dialect in truth(path):
        message = catalogue.lookup_bytes("pgoutput", data, 0, dialect)
        assert message is not None
        pkt = CLASSES[message.name](data, dialect=dialect)
        assert whole(pkt), (message.name, data.hex())
        assert bytes(pkt) == data, (message.name, data.hex())


# -- cases by hand --------------------------------------------------------------------------------


def test_insert_by_hand() -> None:
    pkt = Insert(
        relation_oid=16424, new=TupleData(columns=[TupleDataColumn(value=b"hi"), TupleDataColumn()])
    )
    assert bytes(pkt).hex() == "49000040284e00027400000002" + b"hi".hex() + "6e"


def test_a_field_that_is_set_needs_no_dialect() -> None:
    pkt = Insert(xid=801, relation_oid=16417)
    assert bytes(pkt).hex() == "49" + "00000321" + "00004021" + "4e" + "0000"
    assert "xid" in pkt.show(dump=True)
    assert "= 801" in pkt.show2(dump=True)


def test_xid_only_in_a_stream() -> None:
    data = bytes.fromhex("4900000321000040214e000274000000033130307400000003323030")
    pkt = Insert(data, dialect=Dialect(in_stream=True))
    assert (pkt.xid, pkt.relation_oid) == (801, 16417)
    assert [column.value for column in pkt.new.columns] == [b"100", b"200"]
    assert "xid" not in Insert(bytes.fromhex("49000040284e00016e")).fields


def test_the_dialect_goes_into_what_a_packet_carries() -> None:
    inner = Insert(xid=7, relation_oid=5)
    data = bytes(CopyData() / XLogData(start_lsn=1) / inner)
    assert data[1:5] == (len(data) - 1).to_bytes(4, "big")
    pkt = CopyData(data, dialect=Dialect(copy="pgoutput", in_stream=True))
    assert pkt[Insert].xid == 7
    assert bytes(pkt) == bytes(pkt.copy()) == data
    assert pickle.loads(pickle.dumps(pkt))[Insert].xid == 7
    rows = CopyData(data, dialect=Dialect(copy="rows"))
    assert isinstance(rows.payload, Raw)


def test_stream_abort_by_dialect() -> None:
    data = bytes.fromhex("410000031f0000032000000000019a96700003046de80aebc6")
    parallel = StreamAbort(data, dialect=Dialect(parallel=True))
    assert (parallel.xid, parallel.subxid) == (799, 800)
    assert (parallel.abort_lsn, parallel.abort_time) == (0x19A9670, 0x0003046DE80AEBC6)
    plain = StreamAbort(data)
    assert plain.payload.load == data[9:]
    cut = StreamAbort(data[:17], dialect=Dialect(parallel=True))
    assert cut.abort_lsn == 0x19A9670
    assert "abort_time" not in cut.show(dump=True)
    assert bytes(cut) == data[:17]


def test_old_row_by_its_letter() -> None:
    key = bytes.fromhex("55000040114b00037400000001316e6e4e000374000000013274000000017975")
    pkt = Update(key)
    assert (pkt.key_tag, pkt.old_tag) == (b"K", None)
    assert [c.value for c in pkt.old.columns] == [b"1", None, None]
    assert pkt.new.columns[2].unchanged_kind == b"u"
    plain = Update(bytes.fromhex("55000040114e000374000000013174000000017975"))
    assert (plain.key_tag, plain.old_tag, plain.old) == (None, None, None)
    assert bytes(Update(old=TupleData())).hex() == "55" + "00000000" + "4b0000" + "4e0000"
    assert bytes(Update(old_tag="O", old=TupleData())).hex() == "55000000004f00004e0000"
    assert bytes(Update()).hex() == "55000000004e0000"
    assert bytes(Delete()).hex() == "44000000004b0000"


def test_columns_by_what_is_set() -> None:
    assert bytes(TupleDataColumn()) == b"n"
    assert bytes(TupleDataColumn(value=b"")) == b"t\0\0\0\0"
    assert bytes(TupleDataColumn(value="ä")) == b"t\0\0\0\2\xc3\xa4"
    assert bytes(TupleDataColumn(binary_kind="b", value=b"\0")) == b"b\0\0\0\1\0"
    assert bytes(TupleDataColumn(unchanged_kind="u")) == b"u"
    assert bytes(DataRowColumn()) == b"\xff\xff\xff\xff"
    assert bytes(DataRowColumn(value=b"")) == b"\0\0\0\0"


def test_a_change_deep_inside_is_built() -> None:
    pkt = Insert(bytes.fromhex("49000040284e000174000000026869"))
    pkt.new.columns[0].value = b"ho"
    assert bytes(pkt).hex() == "49000040284e000174000000026" + "86f"


def test_envelope_by_hand() -> None:
    assert bytes(Query(query=b"SELECT 1")) == b"Q\0\0\0\x0dSELECT 1\0"
    assert bytes(ReadyForQuery(status="I")) == b"Z\0\0\0\5I"
    row = DataRow(columns=[DataRowColumn(value=b"1"), DataRowColumn()])
    assert bytes(row) == b"D\0\0\0\x0f\0\2" + b"\0\0\0\x011" + b"\xff\xff\xff\xff"
    user = StartupMessageParameter(name_=b"user", value=b"me")
    assert bytes(StartupMessage(protocol_version=196608, parameters=[user])) == (
        b"\0\0\0\x11\0\3\0\0user\0me\0\0"
    )
    assert bytes(AuthenticationMD5Password(salt=b"abcd")) == b"R\0\0\0\x0c\0\0\0\5abcd"


def test_error_fields() -> None:
    data = bytes.fromhex("450000002053464154414c00433238303030004d6e6f2070670052617574680000")
    pkt = ErrorResponse(data)
    fields = pkt.getfieldval("fields_")
    assert all(type(each) is ErrorResponseField for each in fields)
    assert [(f.field_type, f.value) for f in fields] == [
        (b"S", b"FATAL"), (b"C", b"28000"), (b"M", b"no pg"), (b"R", b"auth"),
    ]  # fmt: skip
    assert bytes(pkt) == data


def test_secrets_are_not_printed() -> None:
    pkt = PasswordMessage(password=b"hunter2")
    assert b"hunter2" in bytes(pkt)
    assert pkt.password == b"hunter2"
    assert "hunter2" not in pkt.show(dump=True) + repr(pkt)


def test_numbers_are_shown_as_the_program_shows_them() -> None:
    text = Begin(bytes.fromhex("420000000001e9d4500003046d92e925a700000321")).show(dump=True)
    for line in ("final_lsn = 0/1E9D450", "2026-11-29 18:53:12.831399 UTC", "xid       = 801"):
        assert line in text
    assert "CASCADE | 0x80" in Truncate(bytes.fromhex("5400000001810000408a")).show(dump=True)


def test_fields_that_packet_has_itself_end_with_an_underscore() -> None:
    pkt = Origin(bytes.fromhex("4f00000002a7f4a880") + b"up\0")
    assert (pkt.origin_lsn, pkt.name_, pkt.name) == (0x2A7F4A880, b"up", "Origin")


# -- broken bytes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "data", "read", "rest"),
    [
        (Truncate, "54ffffffff0000004011", {"relation_count": 4294967295}, ""),
        (Relation, "52000040117075626c696300740064ffff", {"column_count": 65535}, ""),
        (Insert, "49000040114e000174fffffffe", {"relation_oid": 16401}, ""),
        (Insert, "49000040114e0002786e", {"relation_oid": 16401}, "786e"),
        (Begin, "420000000001e9d45000", {"final_lsn": 0x1E9D450}, "00"),
        (Delete, "440000401158", {"relation_oid": 16401}, "58"),
        (Begin, "5a01", {}, "5a01"),
        (DataRow, "440000000a0001ff303030", {"column_count": 1}, ""),
    ],
)
def test_what_does_not_go_on_as_declared_is_raw(
    cls: type, data: str, read: dict, rest: str
) -> None:
    pkt = cls(bytes.fromhex(data))
    for name, value in read.items():
        assert getattr(pkt, name) == value
    assert pkt.stopped is not None
    assert bytes(pkt.payload).hex() == rest
    assert bytes(pkt).hex() == data
    assert bytes(pkt.copy()).hex() == data


def test_one_relation_of_four_billion() -> None:
    pkt = Truncate(bytes.fromhex("54ffffffff0000004011"))
    assert [each.relation_oid for each in pkt.relations] == [0x4011]


def test_a_wide_row_of_long_values() -> None:
    columns = [b"t" + (20_000).to_bytes(4, "big") + bytes([i % 251]) * 20_000 for i in range(1600)]
    data = b"I\0\0\0\1N" + (1600).to_bytes(2, "big") + b"".join(columns)
    pkt = Insert(data)
    assert pkt.new.columns[1599].value == bytes([1599 % 251]) * 20_000
    assert bytes(pkt) == data


def test_more_elements_than_become_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissector.layers.fields.MAX_ELEMENTS", 100)
    many = b"T" + (300).to_bytes(4, "big") + b"\0" + b"\0\0\0\1" * 300
    pkt = Truncate(many)
    assert (len(pkt.relations), len(pkt.payload)) == (100, 800)
    assert bytes(pkt) == many


def test_string_without_its_zero_byte() -> None:
    pkt = Origin(bytes.fromhex("4f00000002a7f4a880456c6d657220467564"))
    assert pkt.name_ == b"Elmer Fud"
    assert isinstance(pkt.name_, Unterminated)


def test_trailing_bytes_are_raw() -> None:
    pkt = PgMessage(bytes.fromhex("4d0000000000019634987066780000000002686900"))
    assert (pkt.prefix, pkt.content, pkt.payload.load) == (b"pfx", b"hi", b"\0")


def test_any_bytes_are_built_as_they_were() -> None:
    """Truncations and mutations of every message, under every Dialect: no error, no byte lost."""
    rng = random.Random(20)
    samples = [(name, data) for _, of, name, data, _ in documented() if of in (10, 14, 19)]
    copies = ["", "pgoutput", "backup", "rows", "wal"]
    for name, data in samples:
        cls = CLASSES[catalogue.by_name(name).name]
        for _ in range(12):
            broken = bytearray(data[: rng.randrange(1, len(data) + 1)])
            for _ in range(rng.randrange(3)):
                broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x4B, 0x74, 0x7F, 0x80, 255))
            dialect = Dialect(
                release=rng.choice((10, 14, 18)),
                copy=rng.choice(copies),
                in_stream=rng.random() < 0.5,
                parallel=rng.random() < 0.5,
            )
            pkt = cls(bytes(broken), dialect=dialect)
            assert bytes(pkt) == broken, (name, broken.hex(), dialect)
            assert pkt.show(dump=True)


def test_random_packets_are_well_formed_up_to_their_lengths() -> None:
    random.seed(7)
    for name, cls in CLASSES.items():
        data = bytes(fuzz(cls()))
        pkt = cls(data)
        assert bytes(pkt) == data, name
        if not any(getattr(fld, "measures", ()) for fld in cls.fields_desc):
            assert pkt.stopped is None, (name, data)


# -- the container --------------------------------------------------------------------------------


def test_messages_of_one_direction() -> None:
    stream = [
        bytes(CopyData() / XLogData() / layers.StreamStart(xid=7, first_segment=1)),
        bytes(CopyData() / XLogData() / Insert(xid=8, relation_oid=5)),
        bytes(CopyData() / XLogData() / layers.StreamStop()),
        bytes(CopyData() / XLogData() / Insert(relation_oid=6)),
        b"~\0\0\0\5!",
    ]
    pkt = PostgreSQL(b"".join(stream) + b"d\0\0", sender="B")
    assert [bytes(each) for each in pkt.messages] == stream
    assert (pkt.messages[1][Insert].xid, pkt.messages[3][Insert].relation_oid) == (8, 6)
    assert type(pkt.messages[4]) is UnknownMessage
    assert pkt.payload.load == b"d\0\0"
    assert bytes(pkt) == b"".join(stream) + b"d\0\0"


def test_direction_by_port_and_start_without_a_type_byte() -> None:
    start = bytes(StartupMessage(protocol_version=196608)) + bytes(Query(query=b"x"))
    pkt = Ether(bytes(Ether() / IP() / TCP(sport=4000, dport=5432, flags="PA") / start))
    assert [type(each) for each in pkt[PostgreSQL].messages] == [StartupMessage, Query]
    answer = bytes(ReadyForQuery(status="T"))
    pkt = Ether(bytes(Ether() / IP() / TCP(sport=5432, dport=4000, flags="PA") / answer))
    assert pkt[ReadyForQuery].status == b"T"
    assert (Ether() / IP() / TCP() / PostgreSQL())[TCP].dport == 5432


@pytest.mark.parametrize("data", ["5a0000000349", "5affffffff", "5a7fffffff49", "00000003"])
def test_a_length_that_cannot_be_one_ends_the_list(data: str) -> None:
    for sender in "FB":
        pkt = PostgreSQL(bytes.fromhex(data), sender=sender)
        assert (pkt.messages, pkt.payload.load.hex()) == ([], data)


# -- frames ---------------------------------------------------------------------------------------

FRAMES = [
    (
        1,
        Ether() / Dot1Q(vlan=3) / IP(options=b"\1\1\1\0") / TCP(options=[("MSS", 1460)]) / b"hello",
    ),
    (1, Ether() / IP() / UDP(dport=4789) / VXLAN(vni=9) / Ether() / IPv6() / TCP() / b"abc"),
    (101, IP() / TCP(dport=5432) / b"Q"),
    (229, IPv6() / TCP(sport=5432)),
    (1, Ether() / b"\0\1\2"),
    (9999, Raw(b"whatever")),
]


@pytest.mark.parametrize(("link", "pkt"), FRAMES)
def test_fields_of_a_frame_tile_it(link: int, pkt: object) -> None:
    raw = bytes(pkt)
    for data in (raw, raw + b"\0\0\0", raw[:-9] or raw[:1], raw[: len(raw) // 2]):
        end = 0
        for _, fields in layers.frame_layers(data, link):
            for _, offset, length, _ in fields:
                assert offset <= end < offset + length or offset + length == end
                end = max(end, offset + length)
        assert end == len(data)


def test_fields_of_a_frame_have_places_and_values() -> None:
    raw = bytes(
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.0.0.1", dst="10.0.0.2", flags="DF", ttl=63)
        / TCP(sport=40000, dport=5432, seq=7, flags="PA")
        / b"Q"
    )
    found = {
        (layer, name): (offset, length, text)
        for layer, fields in layers.frame_layers(raw, 1)
        for name, offset, length, text in fields
    }
    assert found["Ethernet", "src"] == (6, 6, "02:00:00:00:00:01")
    assert found["IP", "flags"] == (20, 1, "DF")
    assert found["IP", "dst"] == (30, 4, "10.0.0.2")
    assert found["TCP", "seq"] == (38, 4, "7")
    assert found["Payload", "bytes"] == (54, 1, "1 byte")
    pkt = layers.dissect_frame(raw, 1)
    assert (pkt[TCP].payload.load, type(pkt[TCP].payload)) == (b"Q", Raw)
