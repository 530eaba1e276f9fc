"""Which shipped captures hold an example of a message."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dissector.spec import Message

CAPTURES = Path(__file__).parents[2] / "captures"
"""Where the shipped captures are; an installation may come without them."""

CONTENTS = "contents.json"
"""In that folder: {capture's path: [names of the messages in it]}, for what the truths do not list."""


def examples(message: Message, folder: Path = CAPTURES) -> tuple[str, ...]:
    """The captures in `folder` that hold `message`, by what the files beside them list."""
    names = {message.name, *(old for _, old in message.older_names)}
    return tuple(capture for capture, held in _held(folder) if names & held)


@cache
def _held(folder: Path) -> tuple[tuple[str, frozenset[str]], ...]:
    """(path of a capture, names of the messages in it) for each one in `folder`, the tour first."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.pca*[pg]"):
        truth = _read(path.parent / f"{path.name.partition('.pcap')[0]}.json")
        held = set(truth.get("messages", ()))
        if truth.get("tuples"):
            held.add("TupleData")
        if truth.get("xlogdata"):
            held |= {"XLogData", "CopyData"}
        found[path.relative_to(folder).as_posix()] = held
    for capture, held_there in _read(folder / CONTENTS).items():
        found.setdefault(capture, set()).update(held_there)
    tour_first = sorted(found.items(), key=lambda one: (not one[0].startswith("tour"), one[0]))
    return tuple((capture, frozenset(held)) for capture, held in tour_first)


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
