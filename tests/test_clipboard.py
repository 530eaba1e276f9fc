"""What can be copied: every form gives the bytes back; a scapy expression builds the message."""

from __future__ import annotations

import ast
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import dissector.layers
from dissector.clipboard import FORMS, c_array, copied
from dissector.errors import UsageProblem
from dissector.hexinput import Given, read_bytes
from dissector.node import Node, find
from dissector.spec import Dialect
from dissector.view import open_capture
from dissector.workbench import Dissected, Workbench

CAPTURES = Path(__file__).parent.parent / "captures"
NAMES = {name: getattr(dissector.layers, name) for name in dissector.layers.__all__}
CASES = json.loads((Path(__file__).parent / "golden" / "cases.json").read_text())


def evaluated(expression: str) -> bytes:
    """As a reader does it who wrote ``from dissector.layers import *``."""
    return bytes(eval(expression, {"__builtins__": {"bytes": bytes}, **NAMES}))


def dissected(data: str | bytes, layer: str = "pgoutput", **dialect: Any) -> Dissected:
    data = bytes.fromhex(data) if isinstance(data, str) else data
    return Workbench(layer, Dialect(copy="pgoutput", **dialect)).dissect(Given(data))


def node(opened: Dissected, path: str) -> Node:
    found = find(opened.tree, path)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "step"), [("tour.pcapng", 1), ("pg18-proto4.pcap", 41)])
def test_expressions_of_captures_build_the_same_bytes(name: str, step: int) -> None:
    kinds = set()
    with open_capture([str(CAPTURES / name)]) as capture:
        capture.read()
        for number in range(1, capture.count + 1, step):
            view = capture.message(number)
            kinds.add(view.path)
            text = copied("scapy", view, show_secrets=True)
            assert evaluated(text) == view.data, text
            # from fields, not from the bytes as they are
            assert not re.match(r"\w+\(b['\"]", text), text
    assert len(kinds) > (30 if step == 1 else 5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_expressions_of_the_cases(case: dict[str, Any]) -> None:
    dialect = {k: case[k] for k in ("in_stream", "parallel", "proto_version") if k in case}
    opened = dissected(case["hex"], case["layer"], **dialect)
    assert evaluated(copied("scapy", opened, show_secrets=True)).hex() == case["hex"]


def test_expressions_read_well() -> None:
    begin = dissected("420000000001e9d4500003046d92e925a700000321")
    assert (
        copied("scapy", begin) == "Begin(final_lsn=32101456, commit_time=849293592831399, xid=801)"
    )
    row = dissected("55000040114b00037400000001316e6e4e000374000000013274000000017975")
    assert copied("scapy", row) == (
        "Update(relation_oid=16401, old=TupleData(columns=[TupleDataColumn(value=b'1'), "
        "TupleDataColumn(), TupleDataColumn()]), new=TupleData(columns=[TupleDataColumn(value=b'2'), "
        "TupleDataColumn(value=b'y'), TupleDataColumn(unchanged_kind=b'u')]))"
    )
    assert copied("scapy", dissected("45")) == "StreamStop()"
    assert copied("scapy", dissected("7a0001")).startswith("b'z")


def test_an_inner_message_is_copied_from_its_own_layer_on() -> None:
    inner = bytes.fromhex("410000031f00000320")
    data = b"d" + (4 + 25 + 9).to_bytes(4, "big") + b"w" + bytes(24) + inner
    opened = dissected(data, "backend", proto_version=4)
    assert copied("scapy", opened) == "CopyData() / XLogData() / StreamAbort(xid=799, subxid=800)"
    path = "CopyData.XLogData.Stream Abort"
    wanted = "StreamAbort(xid=799, subxid=800)"
    assert copied("scapy", opened, opened.innermost) == wanted
    assert copied("scapy", opened, node(opened, f"{path}.subxid")) == wanted
    assert copied("hex", opened, opened.innermost) == inner.hex()
    assert copied("hex", opened, node(opened, f"{path}.subxid")) == "00000320"
    assert copied("value", opened) == "CopyData > XLogData > Stream Abort"


@pytest.mark.parametrize("form", ["hex", "python", "c"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_bytes_come_back(form: str, case: dict[str, Any]) -> None:
    opened = dissected(case["hex"], case["layer"])
    text = copied(form, opened, show_secrets=True)
    assert read_bytes(text) == [bytes.fromhex(case["hex"])]
    if form == "python":
        assert ast.literal_eval(text) == bytes.fromhex(case["hex"])


def test_c_arrays() -> None:
    assert c_array(b"E\0", "Stream Stop") == (
        "const unsigned char stream_stop[2] = {\n    0x45, 0x00\n};"
    )
    assert c_array(bytes(13), "1[0]").splitlines()[0] == "const unsigned char _1_0[13] = {"
    assert len(c_array(bytes(13)).splitlines()) == 4


def test_values_of_fields() -> None:
    bench = Workbench("pgoutput", Dialect())
    bench.dissect(
        Given(bytes.fromhex("52000040047075626c696300740064000201696400000000"
                            "17ffffffff006e0000000019ffffffff"))
    )  # fmt: skip
    row = bench.dissect(Given(bytes.fromhex("49000040044e00027400000002313774000000036f270a")))
    assert copied("value", row, node(row, "Insert.new.columns[0].value")) == "17"
    assert copied("value", row, node(row, "Insert.new.columns[1].value")) == "o'\\n"
    assert copied("value", row, node(row, "Insert.relation_oid")) == "16388 (public.t)"
    assert copied("hex", row, node(row, "Insert.new.columns[1].value")) == "6f270a"
    told = json.loads(copied("json", row, node(row, "Insert.new.columns[0].value")))
    assert (told["column"], told["type"], told["display"]) == ("id", "integer", "17")
    several = json.loads(copied("json", row, node(row, "Insert.new.columns[0]")))
    assert [one["name"] for one in several][-2:] == ["length", "value"]
    whole = json.loads(copied("json", row))
    assert whole["path"] == ["Insert"] and whole["length"] == row.length
    begin = dissected("420000000001e9d4500003046d92e925a700000321")
    assert copied("value", begin, node(begin, "Begin.final_lsn")) == "0/1E9D450"


def test_secrets_stay_masked() -> None:
    case = next(case for case in CASES if case["id"] == "oauth")
    opened = dissected(case["hex"], "frontend")
    data = node(opened, "SASLInitialResponse.data")
    for form in FORMS:
        for place in (None, data):
            text = copied(form, opened, place)
            assert "abc" not in text and b"abc".hex() not in text and "0x61, 0x62" not in text
    assert b"abc".hex() in copied("hex", opened, data, show_secrets=True)


def test_an_unknown_form() -> None:
    with pytest.raises(UsageProblem, match="say one of value, hex, python, scapy, c, json"):
        copied("rtf", dissected("45"))


def test_expressions_of_damaged_messages() -> None:
    chance = random.Random(3)
    for _ in range(600):
        case = chance.choice(CASES)
        data = bytearray.fromhex(case["hex"])
        del data[chance.randrange(len(data)) + 1 :]
        data[chance.randrange(len(data))] = chance.randrange(256)
        opened = dissected(bytes(data), case["layer"], in_stream=chance.random() < 0.5)
        text = copied("scapy", opened, show_secrets=True)
        assert evaluated(text) == bytes(data), (case["layer"], data.hex(), text)
