"""What stands inside the data of SASL messages: SCRAM attributes, OAUTHBEARER keys.

Sources: RFC 5802 (SCRAM), RFC 7677 (SCRAM-SHA-256), RFC 5801 (the GS2 header), RFC 5929 and RFC
9266 (channel binding), RFC 7628 (OAUTHBEARER).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a SASL message.

    key: what stands before the ``=``. form: ``text``, ``number`` (decimal), ``base64``, ``nonce``
    (printable ASCII without a comma) or ``json``. secret: masked unless the user asks.
    """

    key: str
    name: str
    meaning: str
    form: str = "text"
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One message of an exchange: who sends it, in which message, and which attributes it has.

    before: ``gs2`` where a GS2 header stands before the attributes.
    """

    name: str
    direction: str
    message: str
    attributes: tuple[str, ...]
    before: str = ""


def _table(*attributes: Attribute) -> Mapping[str, Attribute]:
    return MappingProxyType({a.key: a for a in attributes})


GS2_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "n": "the client does not support channel binding",
        "y": "the client supports channel binding but thinks that the server does not",
        "p": "the client binds the exchange to the TLS channel; the binding's name follows the =",
    }
)
"""First letter of the GS2 header, which ends at its second comma: ``n,,`` or ``p=NAME,,``."""

CHANNEL_BINDINGS: Mapping[str, str] = MappingProxyType(
    {"tls-server-end-point": "a hash of the server's TLS certificate (RFC 5929)"}
)
"""Name of a channel binding -> what the exchange is bound to; PostgreSQL has only this one."""

SCRAM = _table(
    Attribute("a", "authzid", "Name of the user to act as; PostgreSQL refuses it."),
    Attribute(
        "n",
        "user",
        "Name of the user, empty from libpq, as the server takes the one of the StartupMessage.",
    ),
    Attribute("m", "extension", "Reserved for extensions that must be understood; never sent."),
    Attribute(
        "r",
        "nonce",
        "Random characters against replay: the client's own first, then the same with the server's "
        "appended.",
        "nonce",
    ),
    Attribute(
        "c",
        "channel binding",
        "The GS2 header of the first message again, and the channel binding data after it, in "
        "base64: biws is n,, alone.",
        "base64",
    ),
    Attribute("s", "salt", "Salt with which the password was hashed, in base64.", "base64"),
    Attribute("i", "iterations", "How many rounds of hashing the password went through.", "number"),
    Attribute(
        "p",
        "client proof",
        "Proof that the client knows the password, in base64: 32 bytes with SHA-256.",
        "base64",
        secret=True,
    ),
    Attribute(
        "v",
        "server signature",
        "Proof that the server knows the password's verifier, in base64: 32 bytes with SHA-256. "
        "Guesses of the password can be tested with it as with the client's.",
        "base64",
        secret=True,
    ),
    Attribute("e", "error", "Why the exchange failed, as one word of RFC 5802."),
)
"""SCRAM attributes by their letter: ``letter=value`` with commas between."""

SCRAM_STEPS = (
    Step("client-first", "F", "SASLInitialResponse", ("n", "r"), before="gs2"),
    Step("server-first", "B", "AuthenticationSASLContinue", ("r", "s", "i")),
    Step("client-final", "F", "SASLResponse", ("c", "r", "p")),
    Step("server-final", "B", "AuthenticationSASLFinal", ("v",)),
)
"""The four messages of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS in order."""

OAUTH = _table(
    Attribute(
        "auth",
        "authorization",
        "The word Bearer and the access token; empty when the client only asks where to get one.",
        secret=True,
    ),
    Attribute("host", "host", "Name of the host that the client connects to."),
    Attribute("port", "port", "Port that the client connects to.", "number"),
)
"""OAUTHBEARER's pairs in the client's first message: ``key=value``, each ended by a byte 1, one
more byte 1 at the end, after a GS2 header."""

OAUTH_ERROR = _table(
    Attribute("status", "status", "Why the token was refused: a word of RFC 6750.", "json"),
    Attribute("scope", "scope", "Scopes that a token needs, with spaces between.", "json"),
    Attribute(
        "openid-configuration",
        "discovery",
        "URL of the document that says where to get a token.",
        "json",
    ),
)
"""Keys of the JSON object in AuthenticationSASLContinue when the server refuses a token."""

OAUTH_SEPARATOR = 1
"""The byte between OAUTHBEARER's pairs; a client's answer to a refusal is this byte alone."""

OAUTH_STEPS = (
    Step("client-first", "F", "SASLInitialResponse", ("auth", "host", "port"), before="gs2"),
    Step(
        "server-error",
        "B",
        "AuthenticationSASLContinue",
        ("status", "scope", "openid-configuration"),
    ),
    Step("client-end", "F", "SASLResponse", ()),
)
"""The messages of OAUTHBEARER: the first alone when the token is accepted, all when it is
refused."""

MECHANISMS: Mapping[str, tuple[Step, ...]] = MappingProxyType(
    {
        "SCRAM-SHA-256": SCRAM_STEPS,
        "SCRAM-SHA-256-PLUS": SCRAM_STEPS,
        "OAUTHBEARER": OAUTH_STEPS,
    }
)
"""Name of a SASL mechanism -> the steps of its exchange."""
