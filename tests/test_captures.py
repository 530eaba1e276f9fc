"""Every shipped capture against what its server said: message by message, byte for byte, in order."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from dissector.annotate import annotate
from dissector.columns import column_values
from dissector.decode import decode
from dissector.findings import Severity
from dissector.node import leaves, messages
from dissector.records import record
from dissector.rows import DIRECTIONS, INCOMPLETE
from dissector.view import Capture, open_capture

FOLDER = Path(__file__).parent.parent / "captures"
WITH_TRUTH = sorted(p.name.removesuffix(".truth.jsonl.gz") for p in FOLDER.glob("*.truth.jsonl.gz"))
ALL = sorted(p for p in FOLDER.rglob("*.pca*[pg]") if p.suffix in (".pcap", ".pcapng"))


def capture_path(name: str) -> Path:
    return next(p for p in FOLDER.glob(f"{name}.pca*[pg]"))


def truth(name: str) -> list[dict[str, str]]:
    with gzip.open(FOLDER / f"{name}.truth.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def facts(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


@pytest.fixture(scope="module", params=WITH_TRUTH)
def opened(request: pytest.FixtureRequest) -> tuple[str, Capture]:
    return request.param, open_capture([str(capture_path(request.param))]).read()


def logical(capture: Capture) -> list:
    views = (capture.message(n) for n in range(1, capture.count + 1))
    return [view for view in views if len(view.path) == 3]


def test_there_are_captures_with_truth() -> None:
    assert len(WITH_TRUTH) >= 9


def test_every_message_equals_the_servers_own_list(opened: tuple[str, Capture]) -> None:
    name, capture = opened
    sent = [view.payload().hex() for view in logical(capture)]
    assert sent == [row["data"] for row in truth(name)]


def test_kinds_and_tuple_states_are_counted_as_the_recorder_counted_them(
    opened: tuple[str, Capture],
) -> None:
    name, capture = opened
    views = logical(capture)
    kinds = Counter(view.path[-1] for view in views)
    counted = dict(facts(name)["messages"])
    in_stream = counted.pop("in a stream", 0)
    assert kinds == Counter(counted)
    assert (
        sum(view.dialect.in_stream and view.path[-1] != "Stream Stop" for view in views)
        == in_stream
    )
    states: Counter[str] = Counter()
    letters = {"text": "t", "binary": "b", "null": "n", "not sent": "n", "unchanged": "u"}
    for view in views:
        if view.path[-1] not in ("Insert", "Update", "Delete"):
            continue
        inner = view.innermost
        old = "K" if inner.child("key_tag") is not None else "O"
        for each in column_values(view.tree, view.schema):
            states[(old if each.part == "old" else "N") + letters[each.state]] += 1
    wanted = {k: v for k, v in facts(name)["tuples"].items() if len(k) == 2}
    assert states == Counter(wanted)


def test_a_state_is_that_of_a_value_and_comes_with_its_column(opened: tuple[str, Capture]) -> None:
    """RowDescription and Relation describe columns; they hold none."""
    _, capture = opened
    holders = {"Insert", "Update", "Delete", "DataRow", "Bind"}
    kinds = set()
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        stated = [f for f in record(capture, view, fields=True)["fields"] if "state" in f]
        assert not stated or view.path[-1] in holders
        assert all({"column", "type"} <= set(each) for each in stated)
        kinds.update(view.path[-1:] if stated else ())
    assert {"Insert", "Update"} <= kinds


def test_columns_have_the_names_and_types_of_the_servers_catalog(
    opened: tuple[str, Capture],
) -> None:
    name, capture = opened
    wanted = {r["oid"]: r for r in facts(name).get("relations", [])}
    seen = 0
    for schema in capture.index.tables.schemas.items:
        if schema.kind != "relation" or schema.oid not in wanted:
            continue
        catalog = wanted[schema.oid]
        known = {c["name"] for c in catalog["columns"]}
        if (schema.namespace, schema.name) != (catalog["schema"], catalog["name"]):
            continue  # described before or after it was renamed
        assert schema.replica_identity in "dnfi"
        if known == {c.name for c in schema.columns}:
            seen += 1
    assert seen


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_leaves_tile_the_bytes_and_both_engines_agree(path: Path) -> None:
    capture = open_capture([str(path)]).read()
    assert capture.count
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        at = 0
        for leaf in leaves(view.tree):
            assert leaf.start == at, (number, leaf)
            at = leaf.end
        assert at == len(view.data)
        assert at == view.row.length or view.row.flags & INCOMPLETE  # the recording was cut there
        layer = "backend" if DIRECTIONS[view.row.direction] == "B" else "frontend"
        fast = decode(view.data, layer, view.dialect)
        slow = annotate(view.data, layer, view.dialect)
        flat = [(n.place, n.start, n.end, n.value) for n in leaves(slow)]
        assert fast.leaves == flat, number
        assert fast.path == tuple(m.name for m in messages(slow))


DESERVED = {"pg18-proto1": {"stream-outside"}}
"""18 sends Stream Abort, for a subtransaction rolled back, to a client that never asked to stream."""


@pytest.mark.parametrize("path", [p for p in ALL if p.parent == FOLDER], ids=lambda p: p.stem)
def test_real_servers_give_no_finding_that_they_do_not_deserve(path: Path) -> None:
    capture = open_capture([str(path)]).read()
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        bad = {f.code for f in view.found if f.severity > Severity.NOTE}
        assert bad <= DESERVED.get(path.stem, set()), (number, view.path, view.found)
