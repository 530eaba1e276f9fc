"""What may be a PostgreSQL message, and whether two byte streams are a PostgreSQL connection at all.

Everything here is judged by what is said, not by the port: a start-up packet, an answer, a chain of
messages that each make sense. The bounds of a message come from its declaration in the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import unpack_from

import numpy as np
from numpy.typing import NDArray

from . import catalogue
from .annotate import annotate
from .findings import Severity
from .node import findings, messages
from .spec import Choice, Dialect, Field, Message, Part, Repeat

HEADER = 5
"""Type byte and length: the envelope of every message after the start-up packet."""

LARGEST = 0x3FFFFFFF
"""PostgreSQL's own bound for a message (MaxAllocSize): a longer one cannot have been sent."""

LARGEST_STARTUP = 10_000
"""The server refuses a start-up packet that is longer (MAX_STARTUP_PACKET_LENGTH)."""

HIGHEST_MAJOR = 9
"""No client asks for a higher major version of the protocol; what reads as one is text or a number."""

STARTUP_NAMES = ("StartupMessage", "SSLRequest", "GSSENCRequest", "CancelRequest")
SHORT_WALK = 64
"""Messages of a chain that are looked at: more would prove nothing more."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest value of a message's length field by its declarations."""

    least: int
    greatest: int


@cache
def bounds(layer: str) -> dict[int, Bounds]:
    """Type byte -> Bounds, over all messages of `layer` and all releases."""
    found: dict[int, Bounds] = {}
    for message in catalogue.in_layer(layer):  # CopyData and CopyDone are in both layers
        if not message.tag:
            continue
        least, fixed = _size(message.parts)
        least -= 1  # the type byte is not counted by the length
        greatest = least if fixed and not message.older_names else LARGEST
        known = found.get(ord(message.tag))
        if known is not None:
            least, greatest = min(known.least, least), max(known.greatest, greatest)
        found[ord(message.tag)] = Bounds(max(least, 4), greatest)
    return found


def _size(parts: tuple[Part, ...]) -> tuple[int, bool]:
    """Fewest bytes of `parts`, and whether they can never be more."""
    least, fixed = 0, True
    for part in parts:
        marked = part.since > 10 or part.until < 19
        if isinstance(part, Field):
            if part.kind.rule == "fixed" and not marked:
                least += part.kind.width
            else:
                least += 1 if part.kind.rule == "string" and not marked else 0
                fixed = False
        elif isinstance(part, Choice):
            least += 1 if part.required and not marked else 0
            fixed = fixed and part.required and not marked
        else:
            least += 1 if isinstance(part, Repeat) and part.until_zero and not marked else 0
            fixed = False
    return least, fixed


def plausible_header(layer: str, data: bytes, at: int) -> int:
    """The whole length of the message that seems to begin at `at`; 0 where it cannot be one.

    Needs the five bytes of the header; -1 when they are not all there.
    """
    if at + HEADER > len(data):
        return -1
    known = bounds(layer).get(data[at])
    if known is None:
        return 0
    (length,) = unpack_from(">I", data, at + 1)
    return length + 1 if known.least <= length <= known.greatest else 0


def makes_sense(layer: str, data: bytes, start: int, end: int, dialect: Dialect) -> bool:
    """Whether a whole message can be read without an error and without a value that nobody knows (a
    DataRow reads as a Describe of one), and whether what it carries is the side's to send (CopyData is
    in both layers, XLogData is the server's)."""
    if end - start > 1 << 16:  # long ones are judged by header and neighbours: reading costs time
        return True
    tree = annotate(data, layer, dialect, start, end)
    side = "F" if layer == "frontend" else "B"
    carried = (node.declaration for node in messages(tree))
    if any(isinstance(m, Message) and m.direction and side not in m.direction for m in carried):
        return False
    found = findings(tree)
    return all(f.severity < Severity.ERROR and f.code != "unknown-value" for f in found)


def chain(
    layer: str, data: bytes, at: int, dialect: Dialect, wanted: int = SHORT_WALK
) -> tuple[int, bool]:
    """Count the messages that follow each other from `at`; stop at `wanted`.

    Returns (whole messages that make sense, whether the chain broke before the data ended).
    """
    count = 0
    while count < wanted:
        size = plausible_header(layer, data, at)
        if size == -1:
            return count, False
        if size == 0:
            return count, True
        if at + size > len(data):
            return count, False
        if not makes_sense(layer, data, at, at + size, dialect):
            return count, True
        count += 1
        at += size
    return count, False


def startup_packet(data: bytes, at: int = 0) -> Message | bool | None:
    """The start-up packet at `at`: its Message, False where it is none, None where more is needed."""
    have = len(data) - at
    if have < 8:
        if have >= 4:
            (length,) = unpack_from(">I", data, at)
            return None if 8 <= length <= LARGEST_STARTUP else False
        return None if not any(data[at : at + have][:2]) else False
    (length,) = unpack_from(">I", data, at)
    if not 8 <= length <= LARGEST_STARTUP:
        return False
    message = catalogue.lookup_bytes("frontend", data, at, Dialect(startup=True))
    if message is None or message.name not in STARTUP_NAMES:
        return False
    if message.name == "StartupMessage":
        if unpack_from(">I", data, at + 4)[0] >> 16 > HIGHEST_MAJOR:
            return False
        body = data[at + 8 : at + length]
        first = body.split(b"\0", 1)[0]
        if have >= length and (not body.endswith(b"\0") or (first and not _is_name(first))):
            return False
        if have > 8 and first and not _is_name(first[:63]):
            return False
    return message


def _is_name(name: bytes) -> bool:
    return all(0x20 < c < 0x7F for c in name)


def is_tls_record(data: bytes) -> bool:
    """Whether the bytes begin with a TLS handshake record (RFC 8446, 5.1)."""
    return len(data) >= 3 and data[0] == 0x16 and data[1] == 3 and data[2] <= 4


PROOF = 3
"""Messages in a row that prove a stream whose beginning was not seen."""


RESYNC_LARGEST = 1 << 24
"""While looking for a boundary, longer messages are not believed: text would look like lengths."""

DATED = 64
"""Bytes from a message's first one in which the time of a replication message stands."""

RESYNC_TRIES = 20_000
"""Candidates that are read in full in one search."""


def candidates(layer: str, data: bytes) -> NDArray[np.int64]:
    """Offsets in `data` where a type byte of `layer` and a length that it allows stand, ascending."""
    count = len(data) - HEADER + 1
    if count <= 0:
        return np.empty(0, np.int64)
    raw = np.frombuffer(data, np.uint8)
    known = bounds(layer)
    least, greatest = np.full(256, 1, np.int64), np.zeros(256, np.int64)
    for tag, bound in known.items():
        least[tag], greatest[tag] = bound.least, min(bound.greatest, RESYNC_LARGEST)
    tags = raw[:count]
    length = np.zeros(count, np.int64)
    for i in range(1, HEADER):
        length = (length << 8) | raw[i : count + i]
    return np.flatnonzero((length >= least[tags]) & (length <= greatest[tags]))


NEAR = 86_400_000_000
"""Microseconds by which clocks of the server and of the capture may differ in what proves a boundary."""


def boundary(
    layer: str, data: bytes, dialects: tuple[Dialect, ...], final: bool, now: int | None = None
) -> int | None:
    """Offset of the first message boundary in `data` that proves itself; None where there is none.

    Proof is a chain of PROOF messages that each make sense, or a chain that ends exactly where the
    data ends when nothing more comes (`final`); or, where `now` (microseconds since 2000-01-01 UTC) is
    given, the header of a replication message that was sent about then, by its own time.
    """
    for at in candidates(layer, data)[:RESYNC_TRIES].tolist():
        for dialect in dialects:
            count, broken = chain(layer, data, at, dialect, PROOF)
            if count >= PROOF or (final and count and not broken and _ends(layer, data, at)):
                return int(at)
            if now is not None and (count or not broken) and _dated(layer, data, at, dialect, now):
                return int(at)
    return None


def _dated(layer: str, data: bytes, at: int, dialect: Dialect, now: int) -> bool:
    """Whether what begins at `at` is a replication message, whole or in part, that says that it was sent
    about `now`: eight bytes that are no time say so once in a hundred million."""
    if plausible_header(layer, data, at) <= 0:
        return False
    end = min(at + DATED, len(data))
    carried = messages(annotate(data, layer, dialect, at, end))[1:2]
    side = "F" if layer == "frontend" else "B"
    for node in carried:
        sent, declared = node.child("send_time"), node.declaration
        if sent is None or sent.absent or not isinstance(sent.value, int):
            return False
        return (
            isinstance(declared, Message)
            and side in declared.direction
            and abs(sent.value - now) < NEAR
        )
    return False


def _ends(layer: str, data: bytes, at: int) -> bool:
    """Whether the chain of messages from `at` ends with the last byte of `data`."""
    while at < len(data):
        size = plausible_header(layer, data, at)
        if size <= 0:
            return False
        at += size
    return at == len(data)


def seek(layer: str, data: bytes, dialects: tuple[Dialect, ...], final: bool) -> int:
    """How well `data`, which may begin anywhere, reads as a stream of `layer`: messages in a row."""
    at = boundary(layer, data, dialects, final)
    if at is None:
        return 0
    return max(chain(layer, data, at, dialect)[0] for dialect in dialects)


def is_postgres_hello(data: bytes) -> bool:
    """Whether the bytes are a TLS ClientHello whose ALPN is "postgresql" (direct TLS, release 17)."""
    return is_tls_record(data) and b"\x0apostgresql" in data[: 1 << 14]
