"""What travels on a connection and is no message: one-byte answers, TLS records, GSSAPI packets.

The manual describes them in its flow ("SSL Session Encryption", "GSSAPI Session Encryption"), not in its
list of message formats, so they stand outside `MESSAGES`. Sources: the manual page
``protocol-flow.html``, RFC 8446 section 5.1 for records.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.kinds import BYTE1, BYTEN, COUNT16, COUNT32, INT8
from dissector.catalogue.startup import ANSWERS
from dissector.spec import Dialect, Field, Message, Part

PAGE = "protocol-flow.html"

CONTENT_TYPES: Mapping[int | str, str] = MappingProxyType(
    {
        20: "change cipher spec",
        21: "alert",
        22: "handshake",
        23: "application data",
        24: "heartbeat",
    }
)
"""The first byte of a TLS record."""

VERSIONS: Mapping[int | str, str] = MappingProxyType(
    {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2"}
)
"""The version in a TLS record's header, which TLS 1.3 freezes."""


def _outside(name: str, direction: str, meaning: str, *parts: Part) -> Message:
    return Message(name, "backend", "", direction, parts, meaning, PAGE)


def _answer(name: str, request: str, letters: str) -> Message:
    values = MappingProxyType({letter: ANSWERS[letter] for letter in letters})
    meaning = f"The server's answer to {request}: one byte without a length."
    answer = Field(
        "answer", BYTE1, f"{letters[0]} to go on encrypted, N to refuse.", values=values, closed=True
    )  # fmt: skip
    return _outside(name, "B", meaning, answer)


HANDSHAKE = 22
"""The content type of handshake messages."""

HANDSHAKES: Mapping[int | str, str] = MappingProxyType(
    {
        1: "ClientHello",
        2: "ServerHello",
        4: "NewSessionTicket",
        11: "Certificate",
        12: "ServerKeyExchange",
        13: "CertificateRequest",
        14: "ServerHelloDone",
        15: "CertificateVerify",
        16: "ClientKeyExchange",
        22: "CertificateStatus",
    }
)
"""Handshake messages that are sent in the clear (RFC 5246 section 7.4, RFC 8446 section 4)."""

SSL_RESPONSE = _answer("SSLResponse", "SSLRequest", "SN")
GSSENC_RESPONSE = _answer("GSSENCResponse", "GSSENCRequest", "GN")

TLS_RECORD = _outside(
    "TLSRecord",
    "F & B",
    "A TLS record that holds no message which could be read: handshake, alert, or bytes that stay "
    "encrypted.",
    Field(
        "content_type",
        INT8,
        "What the record holds; TLS 1.3 calls all that is encrypted application data.",
        values=CONTENT_TYPES,
    ),
    Field("version", COUNT16, "Version of the record layer; TLS 1.3 writes 1.2.", values=VERSIONS),
    Field("record_length", COUNT16, "Length of what follows in bytes."),
    Field("fragment", BYTEN, "What the record holds, encrypted or not.", size_from="record_length"),
)

GSSENC_PACKET = _outside(
    "GSSENCPacket",
    "F & B",
    "A packet of a connection that GSSAPI encrypts: its length and a token.",
    Field("packet_length", COUNT32, "Length of the token in bytes, 16384 at most."),
    Field(
        "token", BYTEN, "A token of the GSSAPI handshake, or encrypted bytes.",
        size_from="packet_length",
    ),
)  # fmt: skip

UNENCRYPTED = _outside(
    "Unencrypted",
    "F & B",
    "Bytes in the clear where encryption was agreed on.",
    Field("data", BYTEN, "The bytes, to where encryption begins."),
)

MESSAGES = (SSL_RESPONSE, GSSENC_RESPONSE, TLS_RECORD, GSSENC_PACKET, UNENCRYPTED)
"""All of them. They have no place in the manual's lists."""

STATES: Mapping[str, Message] = MappingProxyType(
    {"tls": TLS_RECORD, "gssenc": GSSENC_PACKET, "unencrypted": UNENCRYPTED}
)
"""Dialect.copy where a stream is no stream of messages -> what it consists of."""

_BY_REQUEST = {"SSLRequest": SSL_RESPONSE, "GSSENCRequest": GSSENC_RESPONSE}


def answer(byte: int, dialect: Dialect) -> Message | None:
    """The one-byte answer that `byte` is, where the Dialect says that one is due (its auth names the
    request); None where it is the type byte of a message, such as an ErrorResponse."""
    message = _BY_REQUEST.get(dialect.auth)
    if message is None or chr(byte) not in ANSWERS:
        return None
    return message
