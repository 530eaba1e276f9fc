"""From a ServerHello and a key log to the keys of the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.text import visible

from .handshake import Facts, Hello, version_name
from .keylog import LABELS, KeyLog
from .suites import SUITES, TLS12, TLS13, suite_name

if TYPE_CHECKING:
    from .keys import Schedule

Problem = tuple[str, str, str]
"""Finding code, what is wrong, what follows from it or is to be done."""


def find_keys(
    facts: Facts, hello: Hello, keylog: KeyLog | None
) -> tuple[Schedule | None, Problem | None]:
    """The key schedule that ServerHello `hello` asks for; None without keys, and facts.keys says why.

    The second is a finding where more is wrong than that keys are missing.
    """
    suite = SUITES.get(facts.suite or 0)
    unsupported = ""
    if facts.version not in {TLS12, TLS13}:
        unsupported = version_name(facts.version or 0)
    elif suite is None or (suite.code >> 8 == 0x13) != (facts.version == TLS13):
        unsupported = f"cipher suite {visible(suite_name(facts.suite or 0))}"
    elif hello.compression != b"\0":
        unsupported = "TLS compression"
    if unsupported or suite is None:
        facts.keys = "unsupported"
        action = "connect with TLS 1.2 or 1.3 and AES-GCM or ChaCha20-Poly1305"
        return None, ("tls-unsupported", unsupported, action)
    if not facts.client_random:
        facts.keys = "ClientHello not captured"
        what = "the ClientHello is not in the capture"
        action = "a key log is no use without it; capture from the connection's start"
        return None, ("tls-damaged", what, action)
    if keylog is None:
        facts.keys = "no key log"
        return None, None
    secrets = keylog.find(facts.client_random)
    from .keys import Schedule12, Schedule13  # only now: cryptography takes time to import

    if facts.version == TLS13 and secrets.keys() & LABELS.keys() - {"CLIENT_RANDOM"}:
        facts.keys = "found"
        return Schedule13(suite, secrets), None
    if facts.version == TLS12 and "CLIENT_RANDOM" in secrets:
        facts.keys = "found"
        master, etm = secrets["CLIENT_RANDOM"], 22 in hello.extensions
        return Schedule12(suite, master, facts.client_random, hello.random, etm), None
    facts.keys = "not in the key log"
    return None, None
