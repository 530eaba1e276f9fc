"""The packets that begin a connection, and what the server tells about keys and versions.

Source: the manual pages ``protocol-message-formats.html`` of releases 10 to 19 and
``protocol-flow.html`` for the start-up parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.envelope import message, packet
from dissector.catalogue.kinds import BYTEN, COUNT32, INT32, STRING, VERSION32
from dissector.spec import Field, Message, Older, Repeat

KEYS_FIXED = 17
"""The last release in which a cancel key is always an Int32."""

CANCEL_CODE, SSL_CODE, GSSENC_CODE = 80877102, 80877103, 80877104

STARTUP_PARAMETERS: Mapping[int | str, str] = MappingProxyType(
    {
        "user": "name of the database user; the only parameter that must be given",
        "database": "name of the database; the user's name if it is not given",
        "options": "command-line arguments for the server process; use the setting's name instead",
        "replication": "true or on: physical replication; database: logical replication; "
        "false or off: an ordinary session",
    }
)
"""Start-up parameters that are no settings -> meaning. All others are names of server settings, or
protocol options when they begin with ``_pq_.``."""

TLS_ANSWER, GSS_ANSWER, REFUSAL = "S", "G", "N"

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        TLS_ANSWER: "the server is willing to begin TLS (the answer to SSLRequest)",
        GSS_ANSWER: "the server is willing to begin GSSAPI encryption (the answer to GSSENCRequest)",
        REFUSAL: "the server does not encrypt; the client may go on in the clear",
    }
)
"""The one-byte answers to SSLRequest and GSSENCRequest, which are no messages of their own."""

PROTOCOLS: Mapping[int | str, str] = MappingProxyType(
    {
        0x00030000: "protocol 3.0",
        0x00030002: "protocol 3.2, with cancel keys of variable length",
        0x0003270F: "protocol 3.9999, reserved to test version negotiation",
    }
)
"""Protocol version numbers -> meaning: major version << 16 | minor version."""

_PROCESS = Field("process_id", INT32, "Process ID of the server process that serves the session.")

BACKEND_KEY_DATA = message(
    "BackendKeyData",
    "K",
    "B",
    "Gives the client what it needs to cancel a query later: a process ID and a key.",
    _PROCESS,
    Field(
        "secret_key",
        BYTEN,
        "The secret key for CancelRequest: 4 to 256 bytes, to the end of the message.",
        older=((KEYS_FIXED, "Int32"),),
        older_meaning=((KEYS_FIXED, "The secret key for CancelRequest: 4 bytes."),),
        secret=True,
        sizes=(4, 256),
        note=(
            "4 bytes with protocol 3.0, 32 bytes with 3.2 on releases 18 and 19; connection "
            "poolers may send an empty key, or no BackendKeyData at all."
        ),
    ),
    older_length=((KEYS_FIXED, "Int32(12)"),),
)


def _packet_length(fixed: int | None = None, older: Older = ()) -> Field:
    always = "" if fixed is None else f": always {fixed}"
    meaning = f"Length of the packet in bytes (signed, at least 8), counting itself{always}."
    return Field("length", INT32, meaning, fixed, includes_self=True, older=older)


CANCEL_REQUEST = packet(
    "CancelRequest",
    "Asks the server, on a connection of its own, to cancel what another session is doing.",
    _packet_length(older=((KEYS_FIXED, "Int32(16)"),)),
    Field(
        "code",
        INT32,
        "The number 80877102 (1234 << 16 | 5678), which no protocol version has.",
        CANCEL_CODE,
    ),
    Field("process_id", INT32, "Process ID from the BackendKeyData of the session to cancel."),
    Field(
        "secret_key",
        BYTEN,
        "The secret key from that session's BackendKeyData: 4 to 256 bytes, to the end of the "
        "packet.",
        older=((KEYS_FIXED, "Int32"),),
        older_meaning=(
            (KEYS_FIXED, "The secret key from that session's BackendKeyData: 4 bytes."),
        ),
        secret=True,
        sizes=(4, 256),
    ),
)

SSL_REQUEST = packet(
    "SSLRequest",
    "Asks for TLS before anything else is said; the server answers with one byte, S or N.",
    _packet_length(8),
    Field(
        "code",
        INT32,
        "The number 80877103 (1234 << 16 | 5679), which no protocol version has.",
        SSL_CODE,
    ),
)

GSSENC_REQUEST = packet(
    "GSSENCRequest",
    "Asks for GSSAPI encryption before anything else is said; the server answers with one byte, G "
    "or N.",
    _packet_length(8),
    Field(
        "code",
        INT32,
        "The number 80877104 (1234 << 16 | 5680), which no protocol version has.",
        GSSENC_CODE,
    ),
    since=12,
)

STARTUP_MESSAGE = packet(
    "StartupMessage",
    "Begins a session: the client names its protocol version and its parameters.",
    _packet_length(),
    Field(
        "protocol_version",
        VERSION32,
        "Protocol version that the client asks for: major in the high 16 bits, minor in the low 16 "
        "bits; 196608 is 3.0 and 196610 is 3.2.",
        values=PROTOCOLS,
        older=((17, "Int32(196608)"), (18, "Int32(196610)")),
        note=(
            "Release 18 and 19 accept 3.0 and 3.2 alike, and libpq asks for 3.0 unless told "
            "otherwise."
        ),
    ),
    Repeat(
        "parameters",
        (
            Field(
                "name",
                STRING,
                "Name of a parameter, ended by a zero byte, in any order; a further zero byte "
                "ends the list; names that begin with _pq_. are options of the protocol.",
                values=STARTUP_PARAMETERS,
            ),
            Field("value", STRING, "Value of the parameter, ended by a zero byte."),
        ),
        until_zero=True,
    ),
)

NEGOTIATE_PROTOCOL_VERSION = message(
    "NegotiateProtocolVersion",
    "v",
    "B",
    "Tells that the server knows only an older minor version, or not all protocol options.",
    Field(
        "protocol_version",
        VERSION32,
        "The protocol version up to which the server understands the major version asked for.",
        values=PROTOCOLS,
        note="Servers send the whole version number, major in the high 16 bits: 0x00030002 is 3.2.",
    ),
    Field(
        "option_count", COUNT32, "How many protocol options the server does not know (unsigned)."
    ),
    Repeat(
        "options",
        (
            Field(
                "name", STRING, "Name of an option that the server ignores, ended by a zero byte."
            ),
        ),
        count="option_count",
    ),
)

_PACKETS = {CANCEL_CODE: CANCEL_REQUEST, SSL_CODE: SSL_REQUEST, GSSENC_CODE: GSSENC_REQUEST}


def startup_packet(data: bytes, start: int) -> Message:
    """The packet without a type byte that begins at ``data[start]``, by the number at its byte
    4."""
    code = int.from_bytes(data[start + 4 : start + 8], "big")
    return _PACKETS.get(code, STARTUP_MESSAGE)
