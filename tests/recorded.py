"""The recorded conversations, opened once for all tests, and what their journals say was done."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dissector.columns import column_values
from dissector.index import Options
from dissector.node import Node, find, walk
from dissector.view import Capture, MessageView

CONVERSATIONS = Path(__file__).parent.parent / "captures" / "conversation"
NAMES = sorted(path.stem for path in CONVERSATIONS.glob("*.json"))


def path_of(name: str) -> Path:
    """The capture of a conversation."""
    return next(p for p in sorted(CONVERSATIONS.glob(f"{name}.pca*[pg]")))


@cache
def journal(name: str) -> dict[str, Any]:
    """What was done and what the client got."""
    found: dict[str, Any] = json.loads((CONVERSATIONS / f"{name}.json").read_text("utf-8"))
    return found


def got(name: str) -> list[tuple[str, Any]]:
    """(what was done, what the client got for it), in order."""
    return [(step["did"], step.get("got")) for step in journal(name)["steps"]]


@cache
def capture(name: str, keys: bool = True) -> Capture:
    """The capture, read to its end; with its key log where it has one and `keys` is true."""
    log = CONVERSATIONS / f"{name}.keylog"
    options = Options(keylog=str(log) if keys and log.exists() else "")
    return Capture([str(path_of(name))], options).read()


@cache
def views(name: str, keys: bool = True) -> list[MessageView]:
    """All messages, opened, in the order of the list."""
    opened = capture(name, keys)
    return [opened.message(number) for number in range(1, opened.count + 1)]


def of(name: str, *wanted: str, stream: int | None = None) -> list[MessageView]:
    """The messages whose innermost name is among `wanted`."""
    return [
        view
        for view in views(name)
        if view.path[-1] in wanted and stream in (None, view.row.stream)
    ]


def field(view: MessageView, path: str) -> Any:
    """The raw value at `path` below the innermost message."""
    node = find(view.innermost, f"{view.innermost.name}.{path}")
    assert node is not None, (view.path, path)
    return node.value


def text(view: MessageView, path: str) -> str:
    """The text at `path`, in the connection's encoding."""
    found: str = field(view, path).decode(view.dialect.encoding)
    return found


def values(view: MessageView) -> list[Any]:
    """The columns of a row: null, numbers, truth values, bytes as hex; all else as text."""
    return [_plain(each.state, each.typed) for each in column_values(view.tree, view.schema)]


def _plain(state: str, typed: Any) -> Any:
    if state == "null":
        return None
    if isinstance(typed.value, bytes):
        return {"hex": typed.value.hex()}
    if isinstance(typed.value, bool | int):
        return typed.value
    return typed.text


def results(name: str, stream: int = 0) -> list[list[list[Any]]]:
    """The rows of each result of a connection, in order."""
    found: list[list[list[Any]]] = []
    rows: list[list[Any]] = []
    for view in views(name):
        if view.row.stream != stream:
            continue
        if view.path == ("DataRow",):
            rows.append(values(view))
        elif view.path[-1] in ("CommandComplete", "PortalSuspended", "EmptyQueryResponse"):
            found.append(rows)
            rows = []
        elif view.path[-1] == "ErrorResponse":
            rows = []
    return found


def error_fields(view: MessageView) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse by their letters."""
    repeat = view.innermost.child("fields")
    assert repeat is not None
    found = {}
    for element in repeat.children or ():
        letter, value = element.child("field_type"), element.child("value")
        if letter is not None and value is not None:
            found[chr(letter.value)] = value.value.decode()
    return found


def nodes(view: MessageView) -> list[Node]:
    """All nodes of a message."""
    return list(walk(view.tree))
