"""Authentication: what the server asks for, and what the client answers.

Source: the manual page ``protocol-message-formats.html`` of releases 10 to 19.
"""

from __future__ import annotations

from types import MappingProxyType

from dissector.catalogue.envelope import message
from dissector.catalogue.kinds import BYTE4, BYTEN, INT32, STRING
from dissector.spec import Field, Message, Part, Repeat


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
        "mechanism",
        STRING,
        "The mechanism that the client picked from the server's list, ended by a zero byte.",
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
        "The client's first SASL message in the mechanism's own form, as many bytes as the length "
        "says.",
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
