"""The messages that begin a connection: start-up packets, authentication, keys and versions.

Source: the manual page ``protocol-message-formats.html`` of releases 10 to 19;
``protocol-flow.html`` for the start-up parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.envelope import message, packet
from dissector.catalogue.kinds import (
    BYTE4,
    BYTEN,
    COUNT32,
    INT32,
    STRING,
    VERSION32,
)
from dissector.spec import Field, Message, Older, Part, Repeat

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

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "S": "the server is willing to begin TLS (the answer to SSLRequest)",
        "G": "the server is willing to begin GSSAPI encryption (the answer to GSSENCRequest)",
        "N": "the server does not encrypt; the client may go on in the clear",
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


def _request(
    name: str,
    code: int,
    says: str,
    meaning: str,
    *parts: Part,
    fixed: int | None = None,
    until: int = 19,
) -> Message:
    what = Field("code", INT32, f"The number {code}, which says that {says}.", code)
    return message(name, "R", "B", meaning, what, *parts, fixed=fixed, until=until)


_DATA = "The server's {0}, to the end of the message."

AUTHENTICATION = (
    _request(
        "AuthenticationOk",
        0,
        "authentication succeeded",
        "The server accepts who the client says it is.",
        fixed=8,
    ),
    _request(
        "AuthenticationKerberosV5",
        2,
        "Kerberos V5 is asked for",
        "Asks for Kerberos V5 authentication, which no supported server does any more.",
        fixed=8,
    ),
    _request(
        "AuthenticationCleartextPassword",
        3,
        "the password is asked for in clear text",
        "Asks for the password itself.",
        fixed=8,
    ),
    _request(
        "AuthenticationMD5Password",
        5,
        "the password is asked for as an MD5 digest",
        "Asks for the password as an MD5 digest, salted.",
        Field(
            "salt",
            BYTE4,
            "Four random bytes that the client mixes into the digest: the text "
            "'md5' and md5(md5(password + user) in hex + salt) in hex is the answer.",
        ),
        fixed=12,
    ),
    _request(
        "AuthenticationSCMCredential",
        6,
        "an SCM credentials message is asked for",
        "Asks for the credentials of the operating system's user over a Unix-domain socket, which "
        "only servers before 9.1 do.",
        fixed=8,
        until=15,
    ),
    _request(
        "AuthenticationGSS",
        7,
        "GSSAPI authentication is asked for",
        "Asks for GSSAPI authentication: the client begins the exchange.",
        fixed=8,
    ),
    _request(
        "AuthenticationGSSContinue",
        8,
        "GSSAPI or SSPI data follows",
        "The next step of a GSSAPI or SSPI exchange.",
        Field("data", BYTEN, _DATA.format("GSSAPI or SSPI token")),
    ),
    _request(
        "AuthenticationSSPI",
        9,
        "SSPI authentication is asked for",
        "Asks for SSPI authentication: the client begins the exchange.",
        fixed=8,
    ),
    _request(
        "AuthenticationSASL",
        10,
        "SASL authentication is asked for",
        "Asks for SASL authentication and offers its mechanisms.",
        Repeat(
            "mechanisms",
            (
                Field(
                    "mechanism",
                    STRING,
                    "Name of a mechanism that the server offers, in its order of "
                    "preference, ended by a zero byte; a further zero byte ends the list.",
                    values=MappingProxyType(
                        {
                            "SCRAM-SHA-256": "a password by challenge and response",
                            "SCRAM-SHA-256-PLUS": "the same, bound to the TLS channel",
                            "OAUTHBEARER": "an OAuth 2.0 bearer token",
                        }
                    ),
                ),
            ),
            until_zero=True,
        ),
    ),
    _request(
        "AuthenticationSASLContinue",
        11,
        "a SASL challenge follows",
        "The next step of a SASL exchange.",
        Field("data", BYTEN, _DATA.format("SASL challenge in the chosen mechanism's own form")),
    ),
    _request(
        "AuthenticationSASLFinal",
        12,
        "SASL authentication has completed",
        "Ends a SASL exchange that succeeded; AuthenticationOk follows.",
        Field("data", BYTEN, _DATA.format("last SASL data, such as its own proof of the password")),
    ),
)
"""All messages with the type byte R, in the order of the newest manual."""

_CODES = {
    part.constant: request
    for request in AUTHENTICATION
    for part in request.parts
    if isinstance(part, Field) and part.name == "code"
}

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
        "Newest minor protocol version that the server supports for the major version asked for.",
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

PASSWORD_MESSAGE = message(
    "PasswordMessage",
    "p",
    "F",
    "Answers AuthenticationCleartextPassword or AuthenticationMD5Password.",
    Field(
        "password",
        STRING,
        "The password, in clear text or as the MD5 digest that was asked for, ended by a zero "
        "byte.",
        secret=True,
    ),
)

SASL_INITIAL_RESPONSE = message(
    "SASLInitialResponse",
    "p",
    "F",
    "Answers AuthenticationSASL: chooses a mechanism and begins its exchange.",
    Field(
        "mechanism", STRING, "Name of the mechanism that the client chose, ended by a zero byte."
    ),
    Field(
        "response_length",
        INT32,
        "Length in bytes of the data that follow (signed); -1 when there are none.",
        values={-1: "no initial response"},
    ),
    Field(
        "data",
        BYTEN,
        "The client's first SASL message in the mechanism's own form.",
        size_from="response_length",
        secret=True,
    ),
)

SASL_RESPONSE = message(
    "SASLResponse",
    "p",
    "F",
    "The client's next step in a SASL exchange.",
    Field(
        "data",
        BYTEN,
        "The client's SASL message in the mechanism's own form, to the end of the message.",
        secret=True,
    ),
)

GSS_RESPONSE = message(
    "GSSResponse",
    "p",
    "F",
    "The client's step in a GSSAPI or SSPI exchange.",
    Field(
        "data",
        BYTEN,
        "The client's GSSAPI or SSPI token, to the end of the message.",
        secret=True,
    ),
)

_ANSWER = {
    "": PASSWORD_MESSAGE,
    "AuthenticationCleartextPassword": PASSWORD_MESSAGE,
    "AuthenticationMD5Password": PASSWORD_MESSAGE,
    "AuthenticationGSS": GSS_RESPONSE,
    "AuthenticationSSPI": GSS_RESPONSE,
    "AuthenticationGSSContinue": GSS_RESPONSE,
    "AuthenticationSASL": SASL_INITIAL_RESPONSE,
    "AuthenticationSASLContinue": SASL_RESPONSE,
    "AuthenticationSASLFinal": SASL_RESPONSE,
}
"""The last authentication request -> what the client's p means after it."""


def answer_to(request: str) -> Message:
    """What the client's p means after the authentication request called `request`."""
    return _ANSWER.get(request, PASSWORD_MESSAGE)


def authentication(data: bytes, start: int) -> Message | None:
    """The authentication request that begins at ``data[start]``, by its code; None if it is not
    known or not there."""
    code = data[start + 5 : start + 9]
    return _CODES.get(int.from_bytes(code, "big")) if len(code) == 4 else None


_PACKETS = {CANCEL_CODE: CANCEL_REQUEST, SSL_CODE: SSL_REQUEST, GSSENC_CODE: GSSENC_REQUEST}


def startup_packet(data: bytes, start: int) -> Message:
    """The packet without a type byte that begins at ``data[start]``, by the number at its byte
    4."""
    code = int.from_bytes(data[start + 4 : start + 8], "big")
    return _PACKETS.get(code, STARTUP_MESSAGE)


def guess_response(data: bytes, start: int) -> Message:
    """What a client's p at ``data[start]`` is when the request before it is not known, by its
    shape.

    A guess never shows more than a right answer would: every field that it can choose is secret.
    """
    length = int.from_bytes(data[start + 1 : start + 5], "big", signed=True)
    body = bytes(data[start + 5 : start + 1 + max(length, 4)])
    name, zero, rest = body.partition(b"\0")
    if not zero:
        return SASL_RESPONSE if name[1:2] == b"=" else GSS_RESPONSE
    if not rest:
        return PASSWORD_MESSAGE
    if int.from_bytes(rest[:4], "big", signed=True) in (-1, len(rest) - 4):
        return SASL_INITIAL_RESPONSE
    return GSS_RESPONSE
