"""Exports and lists: the fast writers equal the slow ones, CSV, slices of captures."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import sys
from datetime import datetime
from pathlib import Path

import pytest
from transforms import (
    CAPTURES,
    conversation,
    frames,
    joined,
    packets,
    pcap,
    pcapng,
    records,
    resegmented,
    without,
)

from dissector.errors import UserError
from dissector.export import check_export, write_export
from dissector.index import Options
from dissector.records import dumps, record
from dissector.report import list_cells
from dissector.rows import COLUMNS, Rows
from dissector.runs import Runs
from dissector.slices import write_pcap
from dissector.view import open_capture

SHIPPED = sorted([*CAPTURES.glob("*.pca*[pg]"), *CAPTURES.glob("conversation/*.pca*[pg]")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_fast_writers_equal_the_slow_ones(path: Path) -> None:
    with open_capture([str(path)]) as capture:
        capture.read()
        numbers = range(1, capture.count + 1)
        runs = Runs(capture)
        lines = [line for block in runs.lines(numbers) for line in block]
        objects = [text for block in runs.objects(numbers) for text in block]
        step = max(1, capture.count // 250)  # the slow writers take long: of large ones a share
        kinds = {capture.path(capture.row(n)): n for n in reversed(numbers)}
        for number in sorted({*numbers[::step], *kinds.values()}):
            view = capture.message(number)
            assert lines[number - 1] == "\t".join(list_cells(capture, view))
            assert objects[number - 1] == dumps(record(capture, view, fields=True))


@pytest.mark.parametrize("fields, payload", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", ["tour.pcapng", "pg14-proto2.pcap", "conversation/psycopg2.pcap"])
def test_objects_with_and_without_fields_and_payload(
    name: str, fields: bool, payload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fields:
        monkeypatch.setattr(
            "dissector.objectblocks.Block.columns", None
        )  # of rows: not needed then
    with open_capture([str(CAPTURES / name)]) as capture:
        capture.read()
        numbers = range(1, min(capture.count, 400) + 1)
        runs = Runs(capture, fields=fields, payload=payload)
        objects = [text for block in runs.objects(numbers) for text in block]
        for number, text in zip(numbers, objects, strict=True):
            view = capture.message(number)
            assert text == dumps(record(capture, view, fields=fields, payload=payload))
            found = json.loads(text)
            assert ("fields" in found, "payload" in found) == (fields, payload)
            if payload and found["path"][1:2] == ["XLogData"]:
                # type byte, length, and XLogData's letter, two LSNs and time stand before it
                assert len(found["payload"]) // 2 == found["length"] - 1 - 4 - 1 - 8 - 8 - 8


def test_time_of_a_message_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    given = resegmented(packets(CAPTURES / "pg18-proto1.pcap"), 7)
    path.write_bytes(pcap(frames(given))[:20_000])  # microseconds; within a message
    objects = [json.loads(x) for x in exported(path, tmp_path / "o", "ndjson").splitlines()]
    assert [f["code"] for f in objects[-1]["findings"]] == ["stream-ended-early"]
    assert all(re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.[0-9]{6}Z", one["time"]) for one in objects)


def test_fast_writers_after_losses(tmp_path: Path) -> None:
    given = joined(packets(CAPTURES / "pg15-proto3.pcap"), 700)
    path = tmp_path / "lossy.pcap"
    path.write_bytes(pcap(frames(without(given, lambda i, p: i % 9 == 8))))
    with open_capture([str(path)]) as capture:
        capture.read()
        numbers = range(1, capture.count + 1)
        lines = [line for block in Runs(capture).lines(numbers) for line in block]
        objects = [text for block in Runs(capture).objects(numbers) for text in block]
        assert any(capture.row(n).severity for n in numbers)
        for number in numbers:
            view = capture.message(number)
            assert lines[number - 1] == "\t".join(list_cells(capture, view))
            assert objects[number - 1] == dumps(record(capture, view, fields=True))


def exported(
    path: Path, out: Path, form: str, expression: str | None = None, **options: bool
) -> bytes:
    with open_capture([str(path)], Options(**options)) as capture:
        write_export(capture, form, str(out), expression)
    return out.read_bytes()


def test_csv_is_the_rows_of_the_json(tmp_path: Path) -> None:
    path = CAPTURES / "pg16-proto4.pcap"
    text = exported(path, tmp_path / "o.csv", "csv")
    assert b"\r\n" in text
    rows = list(csv.DictReader(io.StringIO(text.decode(), newline="")))
    objects = [json.loads(x) for x in exported(path, tmp_path / "o.json", "ndjson").splitlines()]
    assert len(rows) == len(objects) > 500
    for row, one in zip(rows, objects, strict=True):
        for key in (
            "number",
            "frame",
            "time",
            "stream",
            "direction",
            "source",
            "message",
            "length",
        ):
            assert row[key] == str(one[key])
        assert row["path"] == ".".join(one["path"])
        assert row["lsn"] == (one["lsn"] or "")
        assert row["xid"] == str(one["xid"] or "")
        relation = one["relation"] or ""
        assert row["relation"] == (relation if isinstance(relation, str) else ", ".join(relation))


@pytest.mark.parametrize("name", ["pg16-proto4.pcap", "conversation/copy.pcap", "tour.pcapng"])
def test_parquet_is_the_rows_of_the_json(name: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    exported(CAPTURES / name, tmp_path / "o.parquet", "parquet")
    table = parquet.read_table(tmp_path / "o.parquet")
    found = exported(CAPTURES / name, tmp_path / "o.json", "ndjson")
    objects = [json.loads(line) for line in found.splitlines()]
    times = table.column("time").cast("int64").to_pylist()
    rows = table.drop_columns("time").to_pylist()
    assert len(rows) == len(objects) > 100
    for row, time, one in zip(rows, times, objects, strict=True):
        same = "number", "frame", "stream", "direction", "source", "destination", "message"
        assert {key: row[key] for key in same} == {key: one[key] for key in same}
        second, _, rest = one["time"][:-1].partition(".")
        whole = int(datetime.fromisoformat(f"{second}+00:00").timestamp()) * 10**9
        assert time == whole + int(rest.ljust(9, "0"))
        assert (row["length"], row["xid"], row["lsn"]) == (one["length"], one["xid"], one["lsn"])
        assert row["path"] == ".".join(one["path"])
        high, low = (one["lsn"] or "0/0").split("/")
        assert (row["lsn_number"] or 0) == int(high, 16) << 32 | int(low, 16)
        relation = one["relation"]
        assert row["relation"] == (", ".join(relation) if isinstance(relation, list) else relation)
        worst = [f["severity"] for f in one["findings"]]
        order = ("note", "warning", "error")
        assert row["severity"] == (max(worst, key=order.index) if worst else None)
        assert row["assumed"] == one["assumed"]


def test_names_in_parquet_are_those_of_the_json(tmp_path: Path) -> None:
    """No terminal shows them: what stands in them is not escaped."""
    parquet = pytest.importorskip("pyarrow.parquet")
    data = (CAPTURES / "pg16-proto4.pcap").read_bytes()
    path = tmp_path / "names.pcap"
    path.write_bytes(data.replace(b"public\0parent\0", b'public\0par\\"\xff\0'))
    exported(path, tmp_path / "o.parquet", "parquet")
    found = set(parquet.read_table(tmp_path / "o.parquet").column("relation").to_pylist())
    assert 'public.par\\"\\xff' in found
    objects = map(json.loads, exported(path, tmp_path / "o.json", "ndjson").splitlines())
    names = [each["relation"] for each in objects]
    assert found == {", ".join(name) if isinstance(name, list) else name for name in names}


def test_parquet_of_chosen_messages_and_of_none(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = CAPTURES / "pg18-proto1.pcap"
    for expression, numbers in (("number in {7, 9}", [7, 9]), ("number == 99999", [])):
        exported(path, tmp_path / "o.parquet", "parquet", expression)
        table = parquet.read_table(tmp_path / "o.parquet")
        assert table.column("number").to_pylist() == numbers
        assert "relation" in table.column_names


def test_parquet_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pip install pyarrow"):
        check_export("parquet")


def test_csv_holds_no_formulas() -> None:
    from dissector.slices import _cell

    assert _cell("=cmd()") == "'=cmd()"
    assert _cell("public.t") == "public.t"


def test_a_slice_holds_the_frames_of_the_messages(tmp_path: Path) -> None:
    path = CAPTURES / "pg16-proto4.pcap"
    out = tmp_path / "slice.pcap"
    exported(path, out, "pcap", "message == Truncate")
    whole, part = records(path), records(out)
    assert 0 < len(part) < len(whole)
    assert [r for r in whole if r in part] == part  # same bytes, times and link type, in order
    with open_capture([str(path)]) as capture:
        capture.read()
        wanted = {
            frame
            for n in range(1, capture.count + 1)
            if capture.message(n).path[-1] == "Truncate"
            for frame in capture.message(n).frames
        }
    assert part == [whole[frame - 1] for frame in sorted(wanted)]


def test_several_link_types_make_a_pcapng(tmp_path: Path) -> None:
    given = joined(packets(CAPTURES / "pg11-small.pcap"), 1448)
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    half = len(given) // 2
    first.write_bytes(pcap(frames(given[:half])))
    second.write_bytes(pcapng(frames(given[half:], "raw 101")))
    out = tmp_path / "o.pcapng"
    shown = Options(show_secrets=True)
    with open_capture([str(first), str(second)], shown) as capture:
        write_export(capture, "pcap", str(out), None)
    found = records(out)
    assert {link for _, link, _ in found} == {
        link for p in (first, second) for _, link, _ in records(p)
    }
    assert out.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
    before = {frame for p in (first, second) for _, _, frame in records(p)}
    assert len(found) > 10
    assert all(frame in before for _, _, frame in found)
    assert [time for time, _, _ in found] == sorted(time for time, _, _ in found)


@pytest.mark.parametrize("secrets", [False, True])
def test_a_slice_masks_secrets(tmp_path: Path, secrets: bool) -> None:
    path = CAPTURES / "conversation" / "login-cleartext.pcap"
    password = "Geheim ü1".encode()
    assert password in path.read_bytes()
    made = exported(path, tmp_path / "o.pcap", "pcap", show_secrets=secrets)
    assert (password in made) == secrets
    assert [len(f) for _, _, f in records(tmp_path / "o.pcap")]
    assert (
        struct.unpack_from("<I", made, 20)[0] == struct.unpack_from("<I", path.read_bytes(), 20)[0]
    )


def test_a_slice_of_what_is_read_so_far_masks_what_is_not_known_yet(tmp_path: Path) -> None:
    """A frame may hold the first bytes of a password whose message is not in the index yet."""
    startup = struct.pack("!ii", 0, 196608) + b"user\0ada\0\0"
    startup = struct.pack("!i", len(startup)) + startup[4:]
    password = b"p" + struct.pack("!i", 4 + 8) + b"Geheim1\0"
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames(conversation([(0, startup + password)]))))
    with open_capture([str(path)]) as capture:
        rows = capture.read().index.rows
        assert capture.count == 2
        first = Rows()
        first.extend({name: rows.part(name, 0, 1) for name, _ in COLUMNS})
        capture.index.rows, capture.index.complete = first, False
        out = io.BytesIO()
        write_pcap(capture, out, [1])
    assert startup in out.getvalue()
    assert b"Geheim1" not in out.getvalue()
