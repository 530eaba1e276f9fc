"""The facts of the wire format, as data: every message of PostgreSQL 10 to 19, and how to find one.

Layers: ``frontend`` and ``backend`` (the envelope), ``replication`` (inside CopyData), ``pgoutput``
(inside XLogData's data), ``part`` (TupleData). Nobody outside this package knows a tag, a width or
an offset. Source: the PostgreSQL manual's protocol chapter of each release.
"""

from __future__ import annotations

from dissector.catalogue import frontend_backend, outside, pgoutput, replication
from dissector.catalogue.frontend_backend import ERROR_FIELDS
from dissector.catalogue.releases import RELEASES, Release
from dissector.spec import Dialect, Message

__all__ = [
    "ERROR_FIELDS",
    "LAYERS",
    "MESSAGES",
    "OUTSIDE",
    "RELEASES",
    "Release",
    "by_name",
    "in_layer",
    "lookup",
    "lookup_bytes",
    "names",
    "part",
]

MESSAGES: tuple[Message, ...] = (
    *frontend_backend.MESSAGES,
    *replication.MESSAGES,
    *pgoutput.MESSAGES,
    *pgoutput.PARTS,
)
"""Every declared message of every layer, each layer in documented order."""

OUTSIDE: tuple[Message, ...] = outside.MESSAGES
"""What is no message in the manual's lists: one-byte answers, TLS records, GSSAPI packets."""

LAYERS = ("frontend", "backend", "replication", "pgoutput", "part")
"""All layers, outermost first."""


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def _names_of(message: Message) -> tuple[str, ...]:
    return (message.name, *(name for _, name in message.older_names))


_BY_NAME = {
    _plain(name): message for message in (*MESSAGES, *OUTSIDE) for name in _names_of(message)
}
_AS_WRITTEN = {
    name: _BY_NAME[_plain(name)] for message in (*MESSAGES, *OUTSIDE) for name in _names_of(message)
}
_PARTS = {message.name: message for message in MESSAGES if message.layer == "part"}


def in_layer(layer: str, release: int | None = None) -> tuple[Message, ...]:
    """The messages of `layer` in documented order; of one release only when `release` is given.

    A message that both sides send (CopyData, CopyDone) is declared in ``backend`` and belongs to
    ``frontend`` as well.
    """
    return tuple(
        message
        for message in MESSAGES
        if (message.layer == layer or (layer == "frontend" and message.direction == "F & B"))
        and (release is None or message.since <= release <= message.until)
    )


_BY_TAG: dict[str, dict[str, tuple[Message, ...]]] = {}
for _layer in LAYERS[:4]:
    _tags: dict[str, tuple[Message, ...]] = {}
    for _message in in_layer(_layer):
        _tags[_message.tag] = (*_tags.get(_message.tag, ()), _message)
    _BY_TAG[_layer] = _tags

_BACKUP = "backup"


def by_name(name: str, release: int = 18) -> Message:
    """The message called `name` in any release; case, spaces and punctuation do not matter.

    `release` only decides between messages that would share a name. Raises KeyError if there is
    none.
    """
    return _AS_WRITTEN.get(name) or _BY_NAME[_plain(name)]


def names(release: int) -> tuple[str, ...]:
    """The names of all messages and parts that the manual of `release` documents."""
    return tuple(m.name_in(release) for m in MESSAGES if m.since <= release <= m.until)


def part(name: str) -> Message:
    """The declared message part `name` ("TupleData"). Raises KeyError if there is none."""
    return _PARTS[name]


def lookup(layer: str, tag: int | str, release: int, dialect: Dialect) -> Message | None:
    """The message that the first byte `tag` (its number, or the character) means in `layer`.

    None where no release knows the tag, or where more bytes are needed (the backend's R, a startup
    packet: see `lookup_bytes`). A message that `release` does not know yet is found as well: what
    was sent is shown, whatever the release promised.
    """
    letter = tag if isinstance(tag, str) else chr(tag)
    found = _BY_TAG[layer].get(letter, ()) if letter else ()
    if layer == "replication":
        return _in_copy(found, dialect)
    if len(found) > 1:
        if layer == "frontend":
            return frontend_backend.answer_to(dialect.auth)
        return None
    return found[0] if found else None


def _in_copy(found: tuple[Message, ...], dialect: Dialect) -> Message | None:
    """Of the messages with one tag, the one that belongs to what the CopyData stream is."""
    backup = [m for m in found if m.context == "BASE_BACKUP"]
    stream = [m for m in found if m.context != "BASE_BACKUP"]
    if dialect.copy == _BACKUP:
        wanted = backup
    elif dialect.copy:
        wanted = stream
    else:
        wanted = stream or backup
    return wanted[0] if wanted else None


def lookup_bytes(layer: str, data: bytes, start: int, dialect: Dialect) -> Message | None:
    """The message that begins at ``data[start]`` in `layer`; None if nothing is known to begin so.

    Reads the tag, and where a tag is shared the bytes that tell: the code of an authentication
    request or of a startup packet. Never raises on any content.
    """
    if dialect.copy in outside.STATES and layer in LAYERS[:2]:
        return outside.STATES[dialect.copy]
    if layer == "frontend" and dialect.startup:
        return frontend_backend.startup_packet(data, start)
    if start >= len(data):
        return None
    byte = data[start]
    if layer == "backend" and dialect.startup and dialect.auth:
        due = outside.answer(byte, dialect)
        if due is not None:
            return due
    if layer == "backend" and byte == 0x52:
        return frontend_backend.authentication(data, start)
    if layer == "frontend" and byte == 0x70 and not dialect.auth:
        return frontend_backend.guess_response(data, start)
    return lookup(layer, byte, dialect.release, dialect)
