"""What can be followed from a message: its stream, transaction, relation, or one row by its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from dissector.columns import column_values
from dissector.text import visible
from tui.jobs import NONE, Step
from tui.model import ListRow

PAUSE = 0.1
"""Seconds after which a search tells how far it is."""

CHANGES = ("Insert", "Update", "Delete")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """Something to follow. key: of the keyboard. text: for people. Either an expression of the filter
    language, or steps for a job; with neither, the bytes of the stream."""

    key: str
    text: str
    label: str
    expression: str = ""
    steps: Callable[[], Iterator[Step]] | None = None


def ways(capture: Any, row: ListRow) -> list[Way]:
    """What can be followed from `row`."""
    found = [
        Way("s", f"Stream {row.stream}, both directions", f"stream {row.stream}",
            f"stream == {row.stream}"),
        Way("b", f"Stream {row.stream} as bytes", f"stream {row.stream}"),
    ]  # fmt: skip
    if row.xid:
        expression = f"xid == {row.xid} and stream == {row.stream}"
        found.append(Way("t", f"Transaction {row.xid}", f"transaction {row.xid}", expression))
    if row.relation:
        name = row.relation.split(", ")[0]
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        shown = visible(name, 60)
        found.append(Way("r", f"Relation {shown}", shown, f'relation == "{quoted}"'))
    found += _row_way(capture, row)
    return found


def _row_way(capture: Any, row: ListRow) -> Iterator[Way]:
    if capture is None or not row.path or row.path[-1] not in CHANGES:
        return
    view = capture.message(row.number)
    before, after = keys_of(view)
    key = after or before
    if key is None:
        return
    names = [c.name for c in view.schema.columns if c.is_key]
    text = ", ".join(f"{visible(n, 30)}={visible(v, 40)}" for n, v in zip(names, key, strict=True))
    relation = visible(view.schema.full_name, 60)
    yield Way(
        "k",
        f"Row of {relation} with {text}",
        f"{relation} {text}",
        steps=lambda: row_steps(capture, row.number),
    )


def keys_of(view: Any) -> tuple[Key | None, Key | None]:
    """The row's key before and after a change, as texts; None where the message does not tell it.

    An Update that sends no old tuple leaves the key as it is.
    """
    schema = view.schema
    places = [i for i, column in enumerate(schema.columns) if column.is_key]
    if schema.kind != "relation" or not places:
        return None, None
    parts: dict[str, dict[int, str]] = {}
    for each in column_values(view.tree, schema):
        if each.state in ("text", "binary") and not each.missing:
            parts.setdefault(each.part, {})[each.index] = each.typed.text
    keys: dict[str, Key] = {}
    for part, known in parts.items():
        if all(place in known for place in places):
            keys[part] = tuple(known[place] for place in places)
    name = view.path[-1] if view.path else ""
    old, new = keys.get("old"), keys.get("new")
    if name == "Update" and old is None:
        old = new
    return (None if name == "Insert" else old), (None if name == "Delete" else new)


def row_steps(capture: Any, number: int) -> Iterator[Step]:
    """The changes of one row: from message `number` on, then back from it, as its key changes.

    Relations are told apart by name, so that a change of columns does not end the trace. A row that
    was deleted and inserted again with the same key is the same row here.
    """
    index = capture.index
    tables = index.tables
    schema = tables.schemas[capture.row(number).relation]
    same = [i for i, s in enumerate(tables.schemas.items)
            if s.kind == "relation" and s.full_name == schema.full_name]  # fmt: skip
    changes = [i for i, path in enumerate(tables.paths.items) if path and path[-1] in CHANGES]
    rows = index.rows
    found_at = rows.where(
        lambda relation, path: np.isin(relation, same) & np.isin(path, changes), "relation", "path"
    )
    places = (found_at + 1).tolist()
    start = places.index(number)
    before, after = keys_of(capture.message(number))
    yield Step(np.array([number], np.int64), 1, len(places))
    done = 1
    key = after or before
    for backwards, way in ((False, places[start + 1 :]), (True, reversed(places[:start]))):
        if backwards:
            key = before or after
        found: list[int] = []
        last = monotonic()
        for each in way:
            done += 1
            old, new = keys_of(capture.message(each))
            if key is not None and key in (old, new):
                found.append(each)
                key = (old or new) if backwards else (new or old)
            if monotonic() - last > PAUSE:
                last = monotonic()
                yield Step(_in_order(found, backwards), done, len(places), backwards)
                found = []
        yield Step(_in_order(found, backwards), done, len(places), backwards)
    yield Step(NONE, len(places), len(places))


def _in_order(found: list[int], backwards: bool) -> Any:
    return np.array(found[::-1] if backwards else found, np.int64)
