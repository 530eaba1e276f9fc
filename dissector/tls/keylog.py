"""TLS key logs in the NSS text format (SSLKEYLOGFILE; RFC 9850), from a file or out of a pcapng.

A line is ``LABEL client-random secret``, the last two in hexadecimal. The client random of a
ClientHello finds the secrets of its connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dissector.text import decode_text, visible

ADVICE = (
    "to get keys, let the client write them while it connects: libpq of PostgreSQL 18 takes the "
    "connection option sslkeylogfile=FILE, other clients heed the environment variable "
    "SSLKEYLOGFILE; then give the file with --keylog FILE. Keys of a past connection cannot be had "
    "later, nor does the server's private key help"
)
"""What to do when a capture holds TLS without its keys."""

MAX_BYTES = 256 * 1024 * 1024
"""Larger files are refused: a key log has about 800 bytes per connection."""

_HASH_LENGTHS = (32, 48)
LABELS: dict[str, tuple[int, ...]] = {
    "CLIENT_RANDOM": (48,),
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET": _HASH_LENGTHS,
    "SERVER_HANDSHAKE_TRAFFIC_SECRET": _HASH_LENGTHS,
    "CLIENT_TRAFFIC_SECRET_0": _HASH_LENGTHS,
    "SERVER_TRAFFIC_SECRET_0": _HASH_LENGTHS,
}
"""The labels whose secrets are used -> the lengths in bytes that the secret can have."""

_LABEL = re.compile(r"[A-Z][A-Z0-9_]{2,63}\Z")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+\Z")
_FOREIGN = (
    (b"-----BEGIN", "a PEM file"),
    (b"\xd4\xc3\xb2\xa1", "a capture"),
    (b"\xa1\xb2\xc3\xd4", "a capture"),
    (b"\x4d\x3c\xb2\xa1", "a capture"),
    (b"\xa1\xb2\x3c\x4d", "a capture"),
    (b"\x0a\x0d\x0d\x0a", "a capture"),
)


class KeyLogError(ValueError):
    """A key log that cannot be used; the text is one line that says why and what to try."""


class KeyLog:
    """Secrets by client random. Can grow while it is in use: streams ask it at their ServerHello."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, dict[str, bytes]] = {}

    def __len__(self) -> int:
        """The number of connections (client randoms) that have secrets."""
        return len(self._secrets)

    def find(self, client_random: bytes) -> Mapping[str, bytes]:
        """Label -> secret for the connection with this client random; empty when it has none."""
        return self._secrets.get(client_random, {})

    def add(self, label: str, client_random: bytes, secret: bytes) -> None:
        """Keep one secret; a later one with the same label and random takes its place."""
        self._secrets.setdefault(client_random, {})[label] = secret

    def extend(self, data: bytes, name: str, strict: bool = True) -> list[str]:
        """Add the secrets in `data`, the bytes of a key log; `name` is what messages call it.

        strict: raise KeyLogError for the first line that is wrong, or when it is no key log at all.
        Not strict (Decryption Secrets Blocks: a capture's content never raises): use the lines that
        are right and return one sentence for what is wrong. A last line that is cut off (the client
        is still writing) is no error: it is left out and told in the returned sentences.
        """
        shown = visible(name)
        wrong, good, cut = self._read(data)
        problems: list[str] = []
        if not data.strip():
            problems.append(f"{shown} is empty: no client has written keys into it; {ADVICE}")
        elif wrong and not good:
            problems.append(_foreign(data, shown, wrong[0]))
        elif wrong:
            number, why = wrong[0]
            more = f" ({len(wrong) - 1} more lines are wrong)" if len(wrong) > 1 else ""
            problems.append(
                f"{shown}, line {number}: {why}{more}; delete the line, or take the key log anew"
            )
        if problems and strict:
            raise KeyLogError(problems[0])
        if cut:
            problems.append(f"{shown}: the last line is cut off and was left out")
        return problems

    def _read(self, data: bytes) -> tuple[list[tuple[int, str]], int, bool]:
        """Add the good lines. Returns (number, what is wrong) per bad line, good lines, cut end."""
        wrong: list[tuple[int, str]] = []
        good = 0
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for number, raw in enumerate(lines, start=1):
            line = raw.strip()
            if not line or line.startswith(b"#"):
                good += line.startswith(b"#")
                continue
            why = self._line(line)
            if not why:
                good += 1
            elif number == len(lines) and good:
                return wrong, good, True
            else:
                wrong.append((number, why))
        return wrong, good, False

    def _line(self, line: bytes) -> str:
        words = decode_text(line[:2048]).split()
        if len(words) != 3 or not _LABEL.match(words[0]):
            return "expected LABEL, client random and secret in three columns"
        label, random_hex, secret_hex = words
        if not _HEX.match(random_hex) or not _HEX.match(secret_hex):
            return f"{label}: the client random and the secret must be hexadecimal digits in pairs"
        lengths = LABELS.get(label)
        if lengths is None:
            return ""  # RSA, EXPORTER_SECRET and others: right, and of no use here
        random, secret = bytes.fromhex(random_hex), bytes.fromhex(secret_hex)
        if len(random) != 32:
            return f"{label}: the client random has {len(random)} bytes instead of 32"
        if len(secret) not in lengths:
            wanted = " or ".join(map(str, lengths))
            return f"{label}: the secret has {len(secret)} bytes instead of {wanted}"
        self.add(label, random, secret)
        return ""


def _foreign(data: bytes, name: str, first: tuple[int, str]) -> str:
    looks = next((what for magic, what in _FOREIGN if data.lstrip().startswith(magic)), "")
    if not looks:
        looks = "binary" if b"\0" in data[:4096] else f"line {first[0]}: {first[1]}"
    return f"{name} is not a TLS key log ({looks}); {ADVICE}"


def load_keylog(path: str | Path) -> KeyLog:
    """The key log in the file `path`. Raises KeyLogError (one line) when it cannot be used."""
    shown = visible(str(path))
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise KeyLogError(f"{shown}: no such key log; {ADVICE}") from None
    except IsADirectoryError:
        raise KeyLogError(f"{shown} is a directory; give the key log file in it") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise KeyLogError(f"{shown}: {visible(why)}; check the name and its permissions") from None
    if len(data) > MAX_BYTES:
        raise KeyLogError(f"{shown} is larger than {MAX_BYTES >> 20} MiB; this is no TLS key log")
    log = KeyLog()
    log.extend(data, str(path))
    return log
