"""SASL data taken apart: SCRAM's attributes, OAUTHBEARER's pairs, the server's JSON.

What the attributes are stands in `dissector.catalogue.sasl`; this module finds them in the bytes. Data that
does not read as its mechanism's stays whole, and as secret as the field that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .catalogue import sasl
from .catalogue.sasl import Attribute
from .inside import leaf, named
from .node import Node
from .spec import Field

_GS2 = re.compile(rb"(?:[ny]|p=[A-Za-z0-9.-]+),(?:a=[^,\x01]*)?,")
_SCRAM = re.compile(rb"(,?)([A-Za-z])=([^,]*)")
_PAIR = re.compile(rb"(\x01)([A-Za-z]+)=([^\x01]*)")
_JSON = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\]\s]+)')

_HEADER = named(
    "gs2_header",
    "Whether the client binds the exchange to the TLS channel (n: it cannot, y: it thinks that the "
    "server cannot, p: it does), and whom it wants to act as.",
    text=True,
)
_KEY = named("key", "Which attribute follows.", text=True)
_END = named("end", "Ends the exchange.")


def parts(message: str, mechanism: bytes, data: bytes, start: int, end: int) -> list[Node]:
    """The nodes that tile ``data[start:end]``, the SASL data of `message`; [] where it does not read so.

    mechanism: where the message names it, else b"".
    """
    held = data[start:end]
    if message == "SASLInitialResponse":
        header = _GS2.match(held)
        if header is None:
            return []
        if mechanism == b"OAUTHBEARER":
            return _first(data, start, end, header, _PAIR, sasl.OAUTH)
        if mechanism.startswith(b"SCRAM-"):
            return _first(data, start, end, header, _SCRAM, sasl.SCRAM)
        return []
    if held == bytes([sasl.OAUTH_SEPARATOR]):
        return [leaf(_END, data, start, end)]
    if held.startswith(b"{") and message == "AuthenticationSASLContinue":
        return _run(data, start, end, 0, _JSON, sasl.OAUTH_ERROR)
    first = {"AuthenticationSASLContinue": b"r", "SASLResponse": b"c"}.get(message, b"v")
    if held[:2] not in (first + b"=", b"e="):
        return []
    return _run(data, start, end, 0, _SCRAM, sasl.SCRAM)


def _first(
    data: bytes, start: int, end: int, header: re.Match[bytes], pattern: re.Pattern[bytes],
    known: Mapping[str, Attribute],
) -> list[Node]:  # fmt: skip
    """The header and what follows it; [] where what follows does not read."""
    rest = _run(data, start, end, header.end(), pattern, known)
    return [leaf(_HEADER, data, start, start + header.end()), *rest] if rest else []


def _run(
    data: bytes, start: int, end: int, at: int, pattern: re.Pattern[bytes],
    known: Mapping[str, Attribute],
) -> list[Node]:  # fmt: skip
    """Keys and values from offset `at` of the data on; [] where something is neither."""
    found: list[Node] = []
    held = data[start:end]
    strict = pattern is not _JSON
    for match in pattern.finditer(held, at):
        if strict and match.start() != at:
            break
        key, (low, high) = match[len(match.groups()) - 1], match.span(len(match.groups()))
        if not _fits(key, held[low:high], known):
            return []
        found.append(leaf(_KEY, data, start + at, start + low))
        found.append(leaf(_field(key, known), data, start + low, start + high))
        at = match.end()
    if not found:
        return []
    if at < len(held):
        if strict and held[at:].strip(b"\x01"):
            return []
        found.append(leaf(_END, data, start + at, end))
    return found


_FORMS = {
    "base64": re.compile(rb"[A-Za-z0-9+/=]*\Z"),
    "nonce": re.compile(rb"[\x21-\x2b\x2d-\x7e]+\Z"),
    "number": re.compile(rb"[0-9]+\Z"),
}


def _fits(key: bytes, value: bytes, known: Mapping[str, Attribute]) -> bool:
    """Whether a value has its attribute's form: what has not may be a secret in a wrong place."""
    attribute = known.get(key.decode("ascii", "replace"))
    form = _FORMS.get(attribute.form) if attribute is not None else None
    return form is None or form.match(value) is not None


def _field(key: bytes, known: Mapping[str, Attribute]) -> Field:
    attribute = known.get(key.decode("ascii", "replace"))
    if attribute is None:  # not known: it may be a secret
        return named("unknown_attribute", "An attribute that is not known.", True, True)
    name = attribute.name.replace(" ", "_").replace("-", "_")
    return named(name, attribute.meaning, True, attribute.secret)
