"""Key schedules of TLS 1.2 and 1.3, and the opening of one protected record.

Sources: RFC 5246 (1.2), RFC 5288, 6655, 7905 (its AEAD suites), RFC 7366 (encrypt-then-MAC),
RFC 8446 (1.3). Only reading: nothing here can protect a record.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from .suites import TLS12, TLS13, Suite


class Opener(Protocol):
    """Opens the records of one direction under one key."""

    def open(
        self, sequence: int, kind: int, version: int, body: bytes | memoryview
    ) -> tuple[int, bytes] | None:
        """(content type, content) of the record; None when it does not authenticate."""


class _Aead12:
    """TLS 1.2 AEAD: implicit nonce part of 4 bytes and 8 in the record, or 12 and the sequence."""

    def __init__(self, suite: Suite, key: bytes, fixed: bytes) -> None:
        self._aead = _aead(suite, key)
        self._fixed = fixed
        self._explicit = 0 if suite.mode == "chacha" else 8
        self._overhead = self._explicit + suite.tag_length

    def open(
        self, sequence: int, kind: int, version: int, body: bytes | memoryview
    ) -> tuple[int, bytes] | None:
        length = len(body) - self._overhead
        if length < 0:
            return None
        explicit = bytes(body[:8]) if self._explicit else b""
        nonce = self._fixed + explicit if explicit else _xor_nonce(self._fixed, sequence)
        header = struct.pack(">QBHH", sequence, kind, version, length)
        content = _try(self._aead, nonce, body[self._explicit :], header)
        return None if content is None else (kind, content)


class _Aead13:
    """TLS 1.3: the content type is the last byte that is not zero of what was encrypted."""

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._aead = _aead(suite, key)
        self._iv = iv

    def open(
        self, sequence: int, kind: int, version: int, body: bytes | memoryview
    ) -> tuple[int, bytes] | None:
        header = struct.pack(">BHH", kind, version, len(body))
        inner = _try(self._aead, _xor_nonce(self._iv, sequence), body, header)
        if inner is None:
            return None
        inner = inner.rstrip(b"\0")
        return (inner[-1], inner[:-1]) if inner else (0, b"")


class _Cbc12:
    """TLS 1.2 AES-CBC with HMAC, either order. The time it takes tells nobody anything here."""

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, mac_first: bool) -> None:
        self._key, self._mac_key, self._mac = key, mac_key, suite.mac
        self._mac_length = hashlib.new(suite.mac).digest_size
        self._mac_first = mac_first

    def _authentic(self, sequence: int, kind: int, version: int, text: bytes, mac: bytes) -> bool:
        header = struct.pack(">QBHH", sequence, kind, version, len(text))
        return hmac.digest(self._mac_key, header + text, self._mac) == mac

    def open(
        self, sequence: int, kind: int, version: int, body: bytes | memoryview
    ) -> tuple[int, bytes] | None:
        data = bytes(body)
        if not self._mac_first:
            data, mac = data[: -self._mac_length], data[-self._mac_length :]
            if not self._authentic(sequence, kind, version, data, mac):
                return None
        if len(data) < 32 or len(data) % 16:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(data[:16])).decryptor()
        text = decryptor.update(data[16:]) + decryptor.finalize()
        padding = text[-1] + 1
        if padding > len(text) or text[-padding:] != bytes([padding - 1]) * padding:
            return None
        text = text[:-padding]
        if self._mac_first:
            if len(text) < self._mac_length:
                return None
            text, mac = text[: -self._mac_length], text[-self._mac_length :]
            if not self._authentic(sequence, kind, version, text, mac):
                return None
        return kind, text


class _Aead(Protocol):
    def decrypt(
        self, nonce: bytes, data: bytes | memoryview, associated_data: bytes | None
    ) -> bytes: ...


def _aead(suite: Suite, key: bytes) -> _Aead:
    if suite.mode == "gcm":
        return aead.AESGCM(key)
    if suite.mode == "ccm":
        return aead.AESCCM(key, tag_length=suite.tag_length)
    return aead.ChaCha20Poly1305(key)


def _try(cipher: _Aead, nonce: bytes, data: bytes | memoryview, header: bytes) -> bytes | None:
    try:
        return cipher.decrypt(nonce, data, header)
    except (InvalidTag, ValueError):  # ValueError: shorter than a tag, in some releases
        return None


def _xor_nonce(iv: bytes, sequence: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(len(iv), "big")


class Schedule(Protocol):
    """The keys of one handshake. Epoch 0 is plain text; 1 and later are protected."""

    version: int

    def opener(self, direction: str, epoch: int) -> Opener | None:
        """What opens records of `direction` in `epoch`; None when its key is not known."""


class Schedule12:
    """TLS 1.2: all keys from the master secret; one epoch."""

    version = TLS12

    def __init__(
        self, suite: Suite, master: bytes, client_random: bytes, server_random: bytes, etm: bool
    ) -> None:
        mac_length = hashlib.new(suite.mac).digest_size if suite.mac else 0
        iv_length = {"chacha": 12, "cbc": 0}.get(suite.mode, 4)
        sizes = [mac_length, mac_length, suite.key_length, suite.key_length, iv_length, iv_length]
        seed = b"key expansion" + server_random + client_random
        block = prf(suite.digest, master, seed, sum(sizes))
        parts = []
        for size in sizes:
            parts.append(block[:size])
            block = block[size:]
        self._openers: dict[str, Opener] = {}
        for direction, mac_key, key, iv in zip(
            "FB", parts[0:2], parts[2:4], parts[4:6], strict=True
        ):
            if suite.mode == "cbc":
                self._openers[direction] = _Cbc12(suite, key, mac_key, not etm)
            else:
                self._openers[direction] = _Aead12(suite, key, iv)

    def opener(self, direction: str, epoch: int) -> Opener | None:
        return self._openers[direction] if epoch == 1 else None


class Schedule13:
    """TLS 1.3: epoch 1 is the handshake, 2 application data, each key update one more."""

    version = TLS13
    _LABELS: Mapping[str, str] = {"F": "CLIENT", "B": "SERVER"}

    def __init__(self, suite: Suite, secrets: Mapping[str, bytes]) -> None:
        self._suite = suite
        self._secrets: dict[tuple[str, int], bytes] = {}
        size = hashlib.new(suite.digest).digest_size
        for direction, who in self._LABELS.items():
            for epoch, label in ((1, "HANDSHAKE_TRAFFIC_SECRET"), (2, "TRAFFIC_SECRET_0")):
                secret = secrets.get(f"{who}_{label}")
                if secret is not None and len(secret) == size:
                    self._secrets[direction, epoch] = secret
        self._openers: dict[tuple[str, int], Opener] = {}

    def opener(self, direction: str, epoch: int) -> Opener | None:
        known = self._openers.get((direction, epoch))
        if known is not None:
            return known
        secret = self._secrets.get((direction, epoch))
        if secret is None and epoch > 2:
            before = self._secrets.get((direction, epoch - 1))
            if before is not None:
                secret = expand_label(self._suite.digest, before, "traffic upd", len(before))
                self._secrets[direction, epoch] = secret
        if secret is None:
            return None
        key = expand_label(self._suite.digest, secret, "key", self._suite.key_length)
        iv = expand_label(self._suite.digest, secret, "iv", 12)
        opener = self._openers[direction, epoch] = _Aead13(self._suite, key, iv)
        self._openers.pop((direction, epoch - 2), None)  # many key updates: keep what can be used
        return opener


def prf(digest: str, secret: bytes, seed: bytes, length: int) -> bytes:
    """P_hash of TLS 1.2 (RFC 5246, section 5); `seed` begins with the label."""
    out = b""
    block = seed
    while len(out) < length:
        block = hmac.digest(secret, block, digest)
        out += hmac.digest(secret, block + seed, digest)
    return out[:length]


def expand_label(digest: str, secret: bytes, label: str, length: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3 with an empty context (RFC 8446, section 7.1)."""
    full = b"tls13 " + label.encode()
    info = struct.pack(">HB", length, len(full)) + full + b"\0"
    algorithm = hashes.SHA384() if digest == "sha384" else hashes.SHA256()
    return HKDFExpand(algorithm, length, info).derive(secret)
