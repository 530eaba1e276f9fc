"""The closed list of things that can be wrong in a capture or a message: code, severity, wording.

Errors are data: nothing raises on what a capture holds. A finding says what is wrong and where;
`CODES` is the only place that knows codes and severities, and every text is made by `finding`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How bad it is. 0 in an index row means that nothing was found."""

    NOTE = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    code: a key of CODES. offset: the first bad byte, counted from the first byte of the message (of
    the innermost layer's data where no envelope is known); -1 when it has no place in a message.
    """

    code: str
    severity: Severity
    text: str
    offset: int = -1


N, W, E = Severity.NOTE, Severity.WARNING, Severity.ERROR

CODES: dict[str, tuple[Severity, str]] = {
    # one message
    "cut-short": (E, "{name} needs {need} bytes, {left} remain"),
    "count-too-large": (E, "{count} {what} need {least}{need} bytes, {left} remain"),
    "too-many": (N, "only the first {shown} {what} are taken apart, {count} more are not"),
    "negative-length": (E, "{name} is {value}; {allowed}"),
    "unterminated-string": (
        E,
        "string not terminated: no zero byte in the {left} bytes that remain",
    ),
    "unknown-message": (E, "unknown {layer} message {tag}"),
    "unknown-tuple-kind": (E, "unknown tuple kind {kind} at offset {offset}"),
    "unexpected-byte": (E, "{got} where {expected} is expected"),
    "trailing-bytes": (W, "{count} unexpected trailing {noun}"),
    "constant-differs": (W, "{name} is {got}; the manual gives {expected}"),
    "unknown-value": (N, "{name} has the undocumented value {value}"),
    "unknown-flag": (W, "{name} has the unknown bit {bit}"),
    "time-unset": (N, "some servers send 0 for a time that is not set"),
    "key-length": (W, "the key has {length} bytes; the manual allows {allowed}"),
    # framing and stream
    "bad-frame-length": (E, "message length {value}; a length counts itself and is at least 4"),
    "huge-message": (N, "only the first {shown} of {need} bytes of this message are taken apart"),
    "stream-gap": (E, "{bytes} bytes are missing from the capture before this message{about}"),
    "message-in-gap": (E, "{have} of {need} bytes of this message are in the capture"),
    "resynchronised": (W, "{bytes} bytes skipped to the next message boundary that proves itself"),
    "began-mid-session": (N, "the capture begins inside the connection: {what} assumed"),
    "retransmission-differs": (
        E,
        "frame {frame} repeats bytes of frame {first} with other content",
    ),
    "out-of-window": (
        W,
        (
            "{bytes} bytes of frame {frame} have no place in the stream: before its start, too late after "
            "a gap, or beyond any window"
        ),
    ),
    "stream-ended-early": (W, "the stream ends after {have} of {need} bytes of this message"),
    # state
    "stream-outside": (W, "{message} outside a streaming session (protocol version {proto})"),
    "unexpected-here": (W, "{message} is not expected {where}"),
    "newer-than-release": (W, "{message} is documented from release {since} on, this is {release}"),
    "newer-than-proto": (W, "{message} needs protocol version {need}, {have} was asked for"),
    "unknown-relation": (W, "relation {oid} was not described before this message"),
    "column-count": (W, "the tuple has {got} columns, the relation {expected}"),
    "option": (W, "{text}"),
    "wal-page": (W, "{text}"),
    "not-encrypted": (
        E,
        "{bytes} bytes in the clear from the {side} after encryption was agreed on: an injection?",
    ),
    "tls-no-keys": (N, "encrypted with TLS, and {why}: {advice}"),
    "tls-wrong-key": (
        E,
        "the {side}'s first encrypted record does not open with the key log's secrets; {advice}",
    ),
    "tls-gap": (E, "{bytes} bytes are missing from the TLS stream: {about}"),
    "tls-damaged": (E, "{what}; {action}"),
    "tls-ended": (W, "the stream ends after {have} of {need} bytes of a TLS record, which is lost"),
    "tls-unsupported": (W, "{what} cannot be opened; {action}"),
    "tls-alert": (W, "TLS alert from the {side}, {alert}"),
    "foreign-gap": (
        N,
        "not recognised as PostgreSQL, and of its first bytes {bytes} are missing; is it? Try --port N",
    ),
    # files
    "file-cut": (E, "{file}: cut at byte {offset} ({what}); everything before it was read"),
    "file-damaged": (E, "{file}: {what} at byte {offset}; {action}"),
    "snap-length": (W, "{count} packets hold fewer bytes than were sent (snap length)"),
    "link-type": (W, "{count} packets of link type {link} are not understood"),
}
"""code -> (severity, wording). The wording's names are the arguments of `finding`."""


def finding(code: str, offset: int = -1, **facts: Any) -> Finding:
    """Make the finding `code`; `facts` fill its wording. Raises KeyError for a code not in CODES."""
    severity, wording = CODES[code]
    return Finding(code, severity, wording.format(offset=offset, **facts), offset)
