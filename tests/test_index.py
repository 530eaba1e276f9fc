"""The index: the lane that takes many messages at once says what the lane of single ones says."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transforms import (
    CAPTURES,
    Packet,
    duplicated,
    frames,
    interleaved,
    joined,
    overlapped,
    packets,
    pcap,
    resegmented,
    shuffled,
    without,
)

from dissector import index as indexing
from dissector import reads
from dissector.capture import open_capture_files
from dissector.framing import Framer
from dissector.index import Index, Indexer, Options
from dissector.rows import COLUMNS
from dissector.view import open_capture

SHIPPED = sorted([*CAPTURES.glob("*.pca*[pg]"), *CAPTURES.glob("conversation/*.pca*[pg]")])
LOGICAL = sorted(CAPTURES.glob("pg*-*.pcap"))
DAMAGED = ("pg16-proto4.pcap", "pg10-proto1.pcap", "pg14-proto2.pcap", "pg18-proto1.pcap")


def index_of(path: Path, fast: bool, far: bool = False) -> Index:
    """far: a second process reads the files."""
    index = Index()
    with open_capture_files([str(path)]) as files, pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "may_be_far", lambda files: far)
        for batch in Indexer(files, Options(), fast=fast).batches():
            index.extend(batch)
    return index


def resolved(index: Index) -> list[tuple[Any, ...]]:
    """Rows with table numbers replaced by what they stand for."""
    tables = index.tables

    def schema(number: int) -> Any:
        found = tables.schemas[number]
        return found, tuple(tables.schemas[n] for n in found.members)

    look = {"path": tables.paths.__getitem__, "dialect": tables.dialects.__getitem__,
            "relation": schema}  # fmt: skip
    columns = []
    for name, _ in COLUMNS:
        values = index.rows.column(name).tolist()
        columns.append([look[name](v) for v in values] if name in look else values)
    return list(zip(*columns, strict=True))


def assert_same(path: Path) -> Index:
    fast, exact = index_of(path, True), index_of(path, False)
    theirs = resolved(exact)
    for other in (fast, index_of(path, True, far=True)):
        ours = resolved(other)
        assert len(ours) == len(theirs)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True), start=1):
            if a != b:
                named = [(n, x, y) for (n, _), x, y in zip(COLUMNS, a, b, strict=True) if x != y]
                pytest.fail(f"message {number}, frame {a[0]}, path {a[6]}: {named}")
        assert other.found == exact.found
        assert other.subxids == exact.subxids
        assert other.connections == exact.connections
        assert other.file_findings == exact.file_findings
        assert other.facts == exact.facts
        assert (other.read, other.size, other.frames) == (exact.read, exact.size, exact.frames)
    return fast


def written(tmp_path: Path, given: Sequence[Packet]) -> Path:
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(frames(given)))
    return path


def damaged(given: Sequence[Packet], seed: int, share: float) -> list[Packet]:
    """Random bytes inside CopyData payloads changed; the envelope's tag and length stay."""
    source = random.Random(seed)
    rest: dict[Any, int] = {}
    began: set[Any] = set()
    result = []
    for packet in given:
        data = bytearray(packet.payload)
        at = rest.get(packet.flow, 0)
        if not began.issuperset([packet.flow]):
            at = len(data)
            if data[:1] == b"W" or b"W\0\0\0\7\0\0\0" in data or b"W\0\0\0\7" in data:
                began.add(packet.flow)
                at = data.index(b"W\0\0\0\7") + 8
        inside = range(min(rest.get(packet.flow, 0), len(data)))
        spans = [inside]
        while at + 5 <= len(data):
            end = at + 1 + struct.unpack_from(">I", data, at + 1)[0]
            if data[at : at + 1] == b"d":
                spans.append(range(at + 5, min(end, len(data))))
            at = end
        rest[packet.flow] = max(at - len(data), 0)
        for span in spans:
            if len(span) and source.random() < share:
                data[source.choice(span)] = source.choice([0, 1, 0x7F, 0xFF, source.randrange(256)])
        result.append(Packet(**{**_fields(packet), "payload": bytes(data)}))
    return result


def _fields(packet: Packet) -> dict[str, Any]:
    return {name: getattr(packet, name) for name in packet.__dataclass_fields__}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_lanes_agree_on_shipped_captures(path: Path) -> None:
    assert len(assert_same(path)) > 0


@pytest.mark.parametrize("path", LOGICAL, ids=lambda p: p.stem)
def test_lanes_agree_in_long_runs(path: Path, tmp_path: Path) -> None:
    made = written(tmp_path, joined(packets(path), 60_000))
    count = len(assert_same(made))
    assert count == len(index_of(path, True))


@pytest.mark.parametrize("seed", range(6))
def test_lanes_agree_on_damaged_payloads(seed: int, tmp_path: Path) -> None:
    path = CAPTURES / DAMAGED[seed % len(DAMAGED)]
    given = joined(packets(path), 20_000)
    made = written(tmp_path, joined(damaged(given, seed, 0.3), 20_000))
    fast = assert_same(made)
    assert len(fast) == len(index_of(path, True))  # framing comes from the envelope alone
    assert (fast.rows.column("severity") > 0).any()


@pytest.mark.parametrize("kind", ["shuffled", "duplicated", "overlapped", "interleaved", "small"])
def test_lanes_agree_on_transformations(kind: str, tmp_path: Path) -> None:
    given = joined(packets(CAPTURES / "pg15-proto3.pcap"), 1448)
    changed = {
        "shuffled": lambda: shuffled(given, 5, 3),
        "duplicated": lambda: duplicated(given, 0.2, 4, 3),
        "overlapped": lambda: overlapped(given, 5),
        "interleaved": lambda: interleaved(given, joined(packets(LOGICAL[0]), 700)),
        "small": lambda: resegmented(given, lambda: 61),
    }[kind]()
    assert_same(written(tmp_path, changed))


def test_any_message_in_any_order(tmp_path: Path) -> None:
    path = str(CAPTURES / "pg14-proto2.pcap")
    with open_capture([path]) as first, open_capture([path]) as second:
        first.read()
        second.read()
        order = list(range(1, first.count + 1))
        straight = [(v.path, v.data, v.found, v.dialect) for v in map(first.message, order)]
        random.Random(1).shuffle(order)
        for number in order:
            view = second.message(number)
            assert (view.path, view.data, view.found, view.dialect) == straight[number - 1]


def _from_the_middle(given: list[Packet]) -> list[Packet]:
    return given[len(given) // 3 :]


def _answers_only(given: list[Packet]) -> list[Packet]:
    client = next(packet.flow for packet in given if packet.payload)
    return [packet for packet in given if packet.flow != client]


def _with_losses(given: list[Packet]) -> list[Packet]:
    return without(given, lambda i, packet: i % 17 == 16)


def _with_other_bytes(given: list[Packet]) -> list[Packet]:
    """Every ninth segment's last byte is another: in SQL, in values, in lengths."""
    return [
        replace(packet, payload=packet.payload[:-1] + b"\1")
        if i % 9 == 8 and packet.payload
        else packet
        for i, packet in enumerate(given)
    ]


CHANGES: dict[str, Callable[[list[Packet]], list[Packet]]] = {
    "as recorded": list,
    "shuffled": lambda given: shuffled(given, 4, 7),
    "from the middle": _from_the_middle,
    "answers only": _answers_only,
    "with losses": _with_losses,
    "with other bytes": _with_other_bytes,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("conversation/*.pca*[pg]")), ids=lambda p: p.stem
)
def test_messages_in_turn_are_those_taken_one_by_one(
    path: Path, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken without asking whose turn it is, and read once for all, is no other."""
    if change != "as recorded":
        if path.suffix != ".pcap":
            pytest.skip("made from pcap files only")
        path = written(tmp_path, CHANGES[change](packets(path)))
    index = index_of(path, True)
    found, facts = resolved(index), index.connections
    monkeypatch.setattr(Framer, "_turns", Framer._one)
    monkeypatch.setattr(reads, "SHORT", -1)
    one_by_one = index_of(path, True)
    assert resolved(one_by_one) == found
    assert one_by_one.connections == facts
    assert one_by_one.found == index.found
