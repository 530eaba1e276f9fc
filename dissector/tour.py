"""The tour through a capture, as data: at which messages to stop, and what to tell there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .catalogue.tour import stop_for
from .catalogue.tour_situations import SITUATIONS
from .facts import of_node
from .node import messages
from .opened import Opened
from .spec import Message
from .view import Capture

CAPTURE = Path(__file__).parents[1] / "captures" / "tour.pcapng"
"""The capture that ``pgdissect tour`` walks through; an installation may come without it."""


@dataclass(frozen=True, slots=True)
class TourStop:
    """number: of the message. title: the message's name, and its situation where that is special.
    happened: what just happened on the server or the client. look: what to look at. comment: what the
    capture itself says about the frame, "" for nothing; show it through `dissector.text.visible`."""

    number: int
    title: str
    happened: str
    look: str
    comment: str = ""


def stops(capture: Capture, every: bool = False) -> Iterator[TourStop]:
    """The stops in `capture`, which has been read, in order of the messages.

    Each kind of message and each special situation is a stop the first time; with `every` each message
    that has a text is one.
    """
    seen: set[str] = set()
    known: set[tuple[int, int]] = set()
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        title = title_of(view, known, view.row.stream)
        if not every and title in seen:
            continue
        seen.add(title)
        text = SITUATIONS.get(title) or stop_for(view.path)
        if text is not None:
            comment = next((c for f in view.frames for c in capture.files.comments.get(f, ())), "")
            yield TourStop(number, title, text.happened, text.look, comment)


def text_of(opened: Opened) -> TourStop | None:
    """What to tell about one message, wherever it stands (number 0); None where nothing is known."""
    title = title_of(opened)
    text = SITUATIONS.get(title) or stop_for([node.name for node in messages(opened.tree)])
    return None if text is None else TourStop(0, title, text.happened, text.look)


def title_of(opened: Opened, known: set[tuple[int, int]] | None = None, stream: int = 0) -> str:
    """The message's name, with its situation after a comma where SITUATIONS has one.

    known: (stream, relation OID) of the tables described so far, which a Relation adds itself to.
    """
    inner = opened.innermost
    declared = inner.declaration
    name = declared.name if isinstance(declared, Message) else inner.name
    values = of_node(inner)
    for situation in _situations(name, values, known, stream):
        title = f"{name}, {situation}"
        if title in SITUATIONS:
            return title
    return name


def _situations(
    name: str, values: dict[str, Any], known: set[tuple[int, int]] | None, stream: int
) -> Iterator[str]:
    if name == "Query":
        words = bytes(values.get("query") or b"").split(maxsplit=1)
        yield words[0].decode("ascii", "replace").upper() if words else ""
    if name == "Relation":
        if known is not None:
            place = (stream, int(values.get("relation_oid") or 0))
            if place in known:
                yield "described again"
            known.add(place)
        if values.get("replica_identity") == ord("f"):
            yield "replica identity full"
    if "old_tag" in values:
        yield "with the old row"
    if name == "Update" and "key_tag" in values:
        yield "with the old key"
    columns = (values.get("new") or {}).get("columns") or ()
    kinds = {kind for column in columns if isinstance(column, dict) for kind in column}
    if "unchanged_kind" in kinds:
        yield "with an unchanged value"
    if values.get("xid") and name not in ("Begin", "Stream Start"):
        yield "in a stream"
    if "null_kind" in kinds:
        yield "with NULL"
    if name == "Message" and values.get("flags") == 0:
        yield "not transactional"
    if len(values.get("relations") or ()) > 1:
        yield "of several tables"
    if name == "Stream Start" and values.get("first_segment") == 0:
        yield "not the first"
    if name == "Stream Abort" and values.get("xid") != values.get("subxid"):
        yield "of a subtransaction"
    if values.get("reply_requested") == 1:
        yield "with a request"
