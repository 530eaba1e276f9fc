"""What every message of the frontend/backend protocol begins with: a type byte and a length."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.kinds import BYTE1, BYTEN, FORMATS_C, FORMATS_N, FORMATS_R, INT32
from dissector.spec import (
    FIRST_RELEASE,
    LAST_RELEASE,
    Field,
    Message,
    Older,
    Part,
)

PAGE = "protocol-message-formats.html"

LENGTH = (
    "Length of the message in bytes (signed, at least 4), counting itself but not the type byte "
    "before it"
)


def message(
    name: str,
    tag: str,
    direction: str,
    meaning: str,
    *parts: Part,
    fixed: int | None = None,
    older_length: Older = (),
    since: int = FIRST_RELEASE,
    until: int = LAST_RELEASE,
) -> Message:
    """A message with a type byte. fixed: its length when it always has the same."""
    says = f"{LENGTH}." if fixed is None else f"{LENGTH}: always {fixed}."
    first = (
        Field("tag", BYTE1, f"The type byte {tag}, which {_marks(tag)}.", tag),
        Field("length", INT32, says, fixed, includes_self=True, older=older_length),
    )
    layer = "frontend" if direction == "F" else "backend"
    return Message(
        name, layer, tag, direction, (*first, *parts), meaning, PAGE, since=since, until=until
    )


_SHARED = {
    "R": "marks an authentication request; the code after the length tells which",
    "p": "marks an answer to an authentication request; which one the request before it tells",
}


def _marks(tag: str) -> str:
    return _SHARED.get(tag, "marks this kind of message in its direction")


def packet(name: str, meaning: str, *parts: Part, since: int = FIRST_RELEASE) -> Message:
    """A message without a type byte, such as a client sends before the server has answered."""
    return Message(name, "frontend", "", "F", parts, meaning, PAGE, since=since)


FORMAT_CODES: Mapping[int | str, str] = MappingProxyType({0: "text", 1: "binary"})


def format_codes(name: str, kind_of: str, count: str) -> Field:
    kind = {"C": FORMATS_C, "R": FORMATS_R, "N": FORMATS_N}[kind_of]
    what = {
        "C": "Format code of each value sent, one for all if there is only one",
        "R": "Format code of each result column, one for all if there is only one",
        "N": "Format code of each column of the copy",
    }[kind_of]
    return Field(
        name,
        kind,
        f"{what}: 0 text, 1 binary.",
        count_from=count,
        values=FORMAT_CODES,
        closed=True,
    )


def sized_value(length: str, name: str, of: str) -> tuple[Field, Field]:
    return (
        Field(
            length,
            INT32,
            f"Length of {of} in bytes (signed, 0 or more), or -1 for NULL, with no bytes after it.",
            values={-1: "NULL"},
        ),
        Field(
            name,
            BYTEN,
            f"{of.capitalize()}, as many bytes as the length says, in the form of its format code.",
            size_from=length,
        ),
    )
