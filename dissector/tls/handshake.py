"""The few fields of TLS handshake messages that a reader needs, and the facts they make.

scapy has layers for these messages, but they do not serve here: they raise on hostile bytes
(``TLSClientHello`` of a cut message is a struct.error), need a session object with state to tell
1.2 from 1.3, and take a second to import. The tests hold this module to scapy's reading instead.
Sources: RFC 5246 section 7.4, RFC 8446 section 4, RFC 6066 (SNI), RFC 7301 (ALPN).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dissector.text import decode_text, visible

from .keylog import ADVICE
from .suites import suite_name

CLIENT_HELLO, SERVER_HELLO, NEW_SESSION_TICKET, ENCRYPTED_EXTENSIONS = 1, 2, 4, 8
CERTIFICATE, SERVER_KEY_EXCHANGE, FINISHED, KEY_UPDATE = 11, 12, 20, 24

HELLO_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3)."""

MAX_MESSAGE = 1 << 18
"""Longer handshake messages (certificate chains of 256 KiB) are passed over, not kept."""

_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2"}
_VERSIONS[0x0304] = "TLS 1.3"

_GROUPS = {23: "secp256r1", 24: "secp384r1", 25: "secp521r1", 29: "x25519", 30: "x448"}
_GROUPS |= {
    256: "ffdhe2048",
    257: "ffdhe3072",
    258: "ffdhe4096",
    259: "ffdhe6144",
    260: "ffdhe8192",
}
_GROUPS |= {4587: "SecP256r1MLKEM768", 4588: "X25519MLKEM768", 4589: "SecP384r1MLKEM1024"}

_ALERTS = {
    0: "close notify", 10: "unexpected message", 20: "bad record MAC", 21: "decryption failed",
    22: "record overflow", 30: "decompression failure", 40: "handshake failure",
    41: "no certificate", 42: "bad certificate", 43: "unsupported certificate",
    44: "certificate revoked", 45: "certificate expired", 46: "certificate unknown",
    47: "illegal parameter", 48: "unknown CA", 49: "access denied", 50: "decode error",
    51: "decrypt error", 60: "export restriction", 70: "protocol version",
    71: "insufficient security", 80: "internal error", 86: "inappropriate fallback",
    90: "user canceled", 100: "no renegotiation", 109: "missing extension",
    110: "unsupported extension", 111: "certificate unobtainable", 112: "unrecognized name",
    113: "bad certificate status response", 114: "bad certificate hash value",
    115: "unknown PSK identity", 116: "certificate required", 120: "no application protocol",
}  # fmt: skip

_MAX_LISTED = 64


def version_name(code: int) -> str:
    """``TLS 1.3`` for 0x0304; the number when it is not known."""
    return _VERSIONS.get(code, f"0x{code:04x}")


def group_name(code: int) -> str:
    """The name of a key exchange group, or its number."""
    return _GROUPS.get(code, f"0x{code:04x}")


class Alert(NamedTuple):
    """An alert record. `description` is -1 when it is encrypted and was not opened."""

    direction: str
    offset: int
    level: int
    description: int

    def __str__(self) -> str:
        if self.description < 0:
            return "encrypted alert"
        level = {1: "warning", 2: "fatal"}.get(self.level, f"level {self.level}")
        return f"{level}: {_ALERTS.get(self.description, f'alert {self.description}')}"


class Certificate(NamedTuple):
    """A certificate of the server's or the client's chain; names as RFC 4514 text, times ISO."""

    direction: str
    subject: str
    issuer: str
    not_before: str
    not_after: str


class Volume(NamedTuple):
    """What one direction carried: protected records, their bytes, records and bytes opened."""

    records: int = 0
    encrypted: int = 0
    opened: int = 0
    plaintext: int = 0


@dataclass
class Facts:
    """What a TLS connection says about itself; what is not known is None, "" or empty.

    keys: "none asked" (no ServerHello yet), "found", "no key log", "not in the key log",
    "incomplete" (one direction's secrets only), "wrong", "unsupported", "ClientHello not captured",
    "ServerHello not captured". client_random is what a key log is asked for; it is no secret.
    """

    offered_versions: tuple[int, ...] = ()
    offered_suites: tuple[int, ...] = ()
    offered_alpn: tuple[str, ...] = ()
    sni: str = ""
    client_random: bytes = b""
    version: int | None = None
    suite: int | None = None
    group: int | None = None
    alpn: str = ""
    resumed: bool = False
    hello_retry: bool = False
    certificates: list[Certificate] = field(default_factory=list)
    tickets: int = 0
    key_updates: dict[str, int] = field(default_factory=lambda: {"F": 0, "B": 0})
    alerts: list[Alert] = field(default_factory=list)
    volume: dict[str, Volume] = field(default_factory=lambda: {"F": Volume(), "B": Volume()})
    keys: str = "none asked"

    @property
    def advice(self) -> str:
        """How to get keys, when they are what is missing; else ""."""
        return (
            ADVICE
            if self.keys in {"no key log", "not in the key log", "incomplete", "wrong"}
            else ""
        )

    def lines(self) -> list[tuple[str, str]]:
        """(label, text) for the session's header; the text is safe for a terminal."""
        out: list[tuple[str, str]] = []
        versions = ", ".join(version_name(v) for v in self.offered_versions[:_MAX_LISTED])
        if self.version is not None:
            out.append(("TLS version", version_name(self.version)))
        elif versions:
            out.append(("TLS versions offered", versions))
        if self.suite is not None:
            out.append(("cipher suite", suite_name(self.suite)))
        elif self.offered_suites:
            out.append(("cipher suites offered", str(len(self.offered_suites))))
        if self.group is not None:
            out.append(("key exchange group", group_name(self.group)))
        out.append(("server name (SNI)", self.sni or "not sent"))
        offered = ", ".join(self.offered_alpn[:_MAX_LISTED])
        if self.offered_alpn:
            chosen = self.alpn or "choice not seen"
            out.append(("ALPN", f"{chosen} (offered: {offered})"))
        else:
            out.append(("ALPN", "not offered"))
        out.extend(
            ("certificate" if c.direction == "B" else "client certificate",
             f"{c.subject}, issued by {c.issuer}, {c.not_before} to {c.not_after}")
            for c in self.certificates
        )  # fmt: skip
        marks = (("session resumed", self.resumed), ("hello retry request", self.hello_retry))
        out.extend((label, "yes") for label, is_so in marks if is_so)
        if self.client_random:
            out.append(("client random", self.client_random.hex()))
        for direction, label in (("F", "from the client"), ("B", "from the server")):
            v = self.volume[direction]
            text = f"{v.encrypted} encrypted bytes in {v.records} records"
            if v.opened:
                text += f", {v.opened} records opened, {v.plaintext} bytes of plain text"
            out.append((label, text))
        if self.tickets:
            out.append(("session tickets", str(self.tickets)))
        if any(self.key_updates.values()):
            f, b = self.key_updates["F"], self.key_updates["B"]
            out.append(("key updates", f"{f} by the client, {b} by the server"))
        out.extend(
            ("alert", f"{'client' if a.direction == 'F' else 'server'}, {a}") for a in self.alerts
        )
        out.append(("keys", self.keys))
        if self.advice:
            out.append(("how to get keys", self.advice))
        return [(label, visible(text, 1000)) for label, text in out]


class MalformedError(Exception):
    """Raised inside this package where a handshake message ends too early; never leaves it."""


class Cursor:
    """Reads numbers and vectors from the front of `data`; MalformedError when it is too short."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        if length > len(self.data) - self.at:
            raise MalformedError
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, width: int) -> int:
        """The next unsigned number of `width` bytes."""
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        """The next vector whose length stands in `width` bytes."""
        return self.take(self.number(width))

    def more(self) -> bool:
        """Whether bytes remain."""
        return self.at < len(self.data)


class Hello(NamedTuple):
    """A ClientHello (suites, all offered) or ServerHello (one suite)."""

    version: int
    random: bytes
    session: bytes
    suites: tuple[int, ...]
    compression: bytes
    extensions: dict[int, bytes]


def _numbers(data: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data) - 1, 2))


def parse_hello(body: bytes, client: bool) -> Hello:
    """A ClientHello's or ServerHello's body. Raises MalformedError."""
    cursor = Cursor(body)
    version, random, session = cursor.number(2), cursor.take(32), cursor.vector(1)
    suites = _numbers(cursor.vector(2) if client else cursor.take(2))
    compression = cursor.vector(1) if client else cursor.take(1)
    extensions = parse_extensions(cursor.data[cursor.at :]) if cursor.more() else {}
    return Hello(version, random, session, suites, compression, extensions)


def parse_extensions(data: bytes) -> dict[int, bytes]:
    """Extension type -> content, from the vector of extensions at the front of `data`."""
    extensions: dict[int, bytes] = {}
    inner = Cursor(Cursor(data).vector(2))
    while inner.more():
        code = inner.number(2)
        extensions[code] = inner.vector(2)
    return extensions


def _vectors(data: bytes) -> tuple[str, ...]:
    cursor = Cursor(Cursor(data).vector(2))
    out = []
    while cursor.more():
        out.append(decode_text(cursor.vector(1)))
    return tuple(out)


def alpn_of(extensions: dict[int, bytes]) -> tuple[str, ...]:
    """The protocol names of an ALPN extension, () without one. Raises MalformedError."""
    return _vectors(extensions[16]) if 16 in extensions else ()


def learn_client(facts: Facts, hello: Hello) -> None:
    """Put what a ClientHello says into `facts`. Raises MalformedError after what could be read."""
    facts.client_random = hello.random
    facts.offered_suites = hello.suites
    facts.offered_versions = (hello.version,)
    if 43 in hello.extensions:
        facts.offered_versions = _numbers(Cursor(hello.extensions[43]).vector(1))
    if 0 in hello.extensions:
        names = Cursor(Cursor(hello.extensions[0]).vector(2))
        while names.more():
            kind, name = names.number(1), names.vector(2)
            if kind == 0:
                facts.sni = decode_text(name)
    facts.offered_alpn = alpn_of(hello.extensions)


def learn_server(facts: Facts, hello: Hello, offered_session: bytes) -> None:
    """Put what a ServerHello (no HelloRetryRequest) says into `facts`. Raises MalformedError."""
    chosen = hello.extensions.get(43, b"")
    facts.version = int.from_bytes(chosen, "big") if len(chosen) == 2 else hello.version
    facts.suite = hello.suites[0]
    if facts.version >= 0x0304:
        facts.resumed = 41 in hello.extensions
        share = hello.extensions.get(51, b"")
        facts.group = int.from_bytes(share[:2], "big") if len(share) >= 2 else None
    else:
        facts.resumed = bool(hello.session) and hello.session == offered_session
        facts.alpn = "".join(alpn_of(hello.extensions)[:1])


def learn_key_exchange(facts: Facts, body: bytes) -> None:
    """Put the named group of a TLS 1.2 ServerKeyExchange (elliptic curves) into `facts`."""
    if facts.suite is not None and "ECDHE" in suite_name(facts.suite) and body[:1] == b"\x03":
        facts.group = int.from_bytes(body[1:3], "big")


def learn_certificates(facts: Facts, direction: str, body: bytes) -> None:
    """Put the first certificate of a Certificate message into `facts`. Raises MalformedError."""
    cursor = Cursor(body)
    if facts.version == 0x0304:
        cursor.vector(1)
    chain = Cursor(cursor.vector(3))
    if not chain.more() or len(facts.certificates) >= 8:
        return
    facts.certificates.append(_certificate(direction, chain.vector(3)))


def _certificate(direction: str, der: bytes) -> Certificate:
    from cryptography import x509

    try:
        found = x509.load_der_x509_certificate(der)
        return Certificate(
            direction,
            found.subject.rfc4514_string() or "(empty subject)",
            found.issuer.rfc4514_string() or "(empty issuer)",
            f"{found.not_valid_before_utc:%Y-%m-%d}",
            f"{found.not_valid_after_utc:%Y-%m-%d}",
        )
    except Exception:  # hostile DER: its parser has many ways to say no, and none of them matters
        return Certificate(direction, f"(unreadable, {len(der)} bytes)", "?", "?", "?")


class Handshakes:
    """Puts handshake messages together that lie across records."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._skip = 0

    def reset(self) -> None:
        """Forget a message that has begun: bytes of it are missing."""
        self._data.clear()
        self._skip = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The (type, body) of each message that `data` completes. Too long ones are passed over."""
        passed = min(self._skip, len(data))
        self._skip -= passed
        self._data += data[passed:]
        out = []
        at = 0
        while len(self._data) - at >= 4:
            length = int.from_bytes(self._data[at + 1 : at + 4], "big")
            end = at + 4 + length
            if length > MAX_MESSAGE:
                self._skip = max(0, end - len(self._data))
                at = min(end, len(self._data))
            elif end > len(self._data):
                break
            else:
                out.append((self._data[at], bytes(self._data[at + 4 : end])))
                at = end
        del self._data[:at]
        return out


def is_client_hello(data: bytes) -> bool:
    """Whether a byte stream that begins with `data` (6 bytes at least) begins with a ClientHello.

    A PostgreSQL client's first byte is the high byte of a length, 0, so the two cannot be confused.
    """
    if len(data) < 6 or data[0] != 22 or data[1] != 3 or data[2] > 4 or data[5] != CLIENT_HELLO:
        return False
    return 4 <= int.from_bytes(data[3:5], "big") <= 16384 and data[9:10] in (b"", b"\x03")
