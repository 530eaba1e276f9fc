"""TLS against the truth of a live peer: Python's ssl module on both ends, in memory."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import random
import selectors
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID

from dissector.tls import ADVICE, KeyLog, KeyLogError, TLSStream, is_client_hello, load_keylog
from dissector.tls.handshake import Handshakes, parse_hello
from dissector.tls.keys import expand_label, prf
from dissector.tls.suites import SUITES, suite_name

SUITES_12 = {
    c["name"]: c["id"] & 0xFFFF
    for c in ssl.create_default_context().get_ciphers()
    if c["protocol"] == "TLSv1.2"
}
"""Every suite for TLS 1.2 that this OpenSSL offers by default: name -> code."""

MORE_12 = ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA", "AES256-SHA256")
MORE_12 += ("ECDHE-ECDSA-AES256-CCM", "ECDHE-ECDSA-AES128-CCM8", "DHE-RSA-CHACHA20-POLY1305")
"""Suites that it has, and offers only when asked by name."""

PLAIN = {
    "F": [b"Q\0\0\0\x0dSELECT 1\0", b"x" * 40_000, b"X\0\0\0\4"],
    "B": [b"Z\0\0\0\5I", bytes(range(256)) * 300, b"C\0\0\0\x0dSELECT 1\0"],
}
"""What each side writes, in turns: small, larger than a record, small."""


def _certificate(folder: Path, kind: str) -> Path:
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if kind == "EC"
        else rsa.generate_private_key(65537, 2048)
    )
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"db.example {kind}"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Trial"),
        ]
    )
    start = datetime.datetime(2026, 1, 2)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{kind}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def _ffdhe2048() -> bytes:
    """DER of the group ffdhe2048 by its definition (RFC 7919, appendix A.1)."""
    e = sum((1 << 2100) // math.factorial(k) for k in range(400)) >> (2100 - 1918)
    p = (1 << 2048) - (1 << 1984) + ((e + 560316) << 64) - 1
    body = b"\x02\x82\x01\x01" + p.to_bytes(257, "big") + b"\x02\x01\x02"
    return b"\x30\x82" + struct.pack(">H", len(body)) + body


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    made = {kind: _certificate(folder, kind) for kind in ("RSA", "EC")}
    made["DH"] = folder / "DH.pem"
    made["DH"].write_text(
        ssl.DER_cert_to_PEM_cert(_ffdhe2048()).replace("CERTIFICATE", "DH PARAMETERS")
    )
    return made


@dataclass
class Recorded:
    """Both encrypted streams as pieces in the order sent, what went in, and the key log."""

    pieces: list[tuple[str, bytes]]
    plain: dict[str, bytes]
    keylog: bytes
    cipher: str
    version: str
    session: ssl.SSLSession | None = None
    marks: dict[str, int] = field(default_factory=dict)

    def stream(self, direction: str) -> bytes:
        return b"".join(data for d, data in self.pieces if d == direction)

    def log(self) -> KeyLog:
        log = KeyLog()
        log.extend(self.keylog, "keys.log")
        return log


class Peers:
    """A client and a server in memory whose bytes are recorded."""

    def __init__(self, certificates: dict[str, Path], folder: Path, version: ssl.TLSVersion,
                 cipher: str = "", curve: str = "", session: ssl.SSLSession | None = None,
                 contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None) -> None:  # fmt: skip
        self.keylog = folder / "keys.log"
        if contexts:
            self.client_context, self.server_context = contexts
        else:
            self.server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            for kind in ("RSA", "EC"):
                self.server_context.load_cert_chain(certificates[kind])
            if cipher.startswith("DHE"):
                self.server_context.load_dh_params(certificates["DH"])
            self.server_context.set_alpn_protocols(["postgresql"])
            self.client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.client_context.check_hostname = False
            self.client_context.verify_mode = ssl.CERT_NONE
            self.client_context.set_alpn_protocols(["other", "postgresql"])
            self.client_context.keylog_filename = str(self.keylog)
            for context in (self.client_context, self.server_context):
                context.minimum_version = context.maximum_version = version
                if cipher and version == ssl.TLSVersion.TLSv1_2:
                    context.set_ciphers(cipher + ":@SECLEVEL=0")
            if curve:
                self.server_context.set_ecdh_curve(curve)
        self.pieces: list[tuple[str, bytes]] = []
        self.plain = {"F": b"", "B": b""}
        self._in = {name: ssl.MemoryBIO() for name in "FB"}
        self._out = {name: ssl.MemoryBIO() for name in "FB"}
        self.ends = {
            "F": self.client_context.wrap_bio(
                self._in["F"], self._out["F"], server_hostname="db.example", session=session
            ),
            "B": self.server_context.wrap_bio(self._in["B"], self._out["B"], server_side=True),
        }

    def carry(self, direction: str) -> bool:
        """Carry what `direction` has written to the other side; whether there was anything."""
        data = self._out[direction].read()
        if data:
            self.pieces.append((direction, data))
            self._in["B" if direction == "F" else "F"].write(data)
        return bool(data)

    def handshake(self) -> None:
        done = {"F": False, "B": False}
        for _ in range(20):
            for direction, end in self.ends.items():
                if not done[direction]:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        end.do_handshake()
                        done[direction] = True
                self.carry(direction)
            if all(done.values()):
                return
        raise AssertionError("no handshake")

    def write(self, direction: str, data: bytes) -> None:
        self.ends[direction].write(data)
        self.plain[direction] += data
        self.carry(direction)

    def read(self, direction: str) -> bytes:
        out = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.ends[direction].read(1 << 16):
                out += data
        return out

    def close(self) -> None:
        for direction in ("F", "B"):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.ends[direction].unwrap()
            self.carry(direction)

    def recorded(self) -> Recorded:
        name, version, _ = self.ends["F"].cipher() or ("", "", 0)
        return Recorded(
            self.pieces, dict(self.plain), self.keylog.read_bytes(), name,
            self.ends["F"].version() or version, self.ends["F"].session,
        )  # fmt: skip


def talk(peers: Peers) -> Recorded:
    peers.handshake()
    for ask, answer in zip(PLAIN["F"], PLAIN["B"], strict=True):
        peers.write("F", ask)
        assert peers.read("B") == ask
        peers.write("B", answer)
        assert peers.read("F") == answer
    peers.close()
    return peers.recorded()


def opened(tls: TLSStream, pieces: list[tuple[str, bytes]], step: int = 0, seed: int = 0) -> list:
    """Feed `pieces` cut at `step` bytes (0: as they are; -1: random); all chunks."""
    chance = random.Random(seed)
    at = {"F": 8, "B": 1}  # as after SSLRequest and 'S'
    out = []
    for direction, data in pieces:
        while data:
            size = step if step > 0 else len(data) if step == 0 else chance.randint(1, 3000)
            out += tls.feed(direction, at[direction], data[:size])
            at[direction] += len(data[:size])
            data = data[size:]
    return out + tls.finish()


def joined(chunks: list, direction: str) -> bytes:
    return b"".join(c.data for c in chunks if c.direction == direction)


def codes(tls: TLSStream) -> list[str]:
    return [located.finding.code for located in tls.findings]


def records_of(stream: bytes) -> list[tuple[int, int, int]]:
    """(kind, start, end) of each record of a whole stream."""
    out, at = [], 0
    while at < len(stream):
        kind, _, length = struct.unpack_from(">BHH", stream, at)
        out.append((kind, at, at + 5 + length))
        at += 5 + length
    return out


@pytest.fixture(scope="module")
def tls13(certificates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return talk(Peers(certificates, tmp_path_factory.mktemp("k"), ssl.TLSVersion.TLSv1_3))


@pytest.fixture(scope="module")
def tls12(certificates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("k")
    return talk(Peers(certificates, folder, ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES256-GCM-SHA384"))


@pytest.mark.parametrize("cipher", [*SUITES_12, *MORE_12])
def test_every_suite_of_12(cipher: str, certificates: dict[str, Path], tmp_path: Path) -> None:
    recorded = talk(Peers(certificates, tmp_path, ssl.TLSVersion.TLSv1_2, cipher))
    assert recorded.cipher == cipher
    tls = TLSStream(recorded.log())
    chunks = opened(tls, recorded.pieces, step=-1)
    for direction in "FB":
        assert joined(chunks, direction) == recorded.plain[direction]
    assert codes(tls) == []
    assert tls.facts.version == 0x0303
    assert SUITES_12.get(cipher, tls.facts.suite) == tls.facts.suite
    assert tls.facts.keys == "found"


@pytest.mark.parametrize("step", [0, 1, 7, 536, 1448, -1])
@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_any_segmentation(which: str, step: int, request: pytest.FixtureRequest) -> None:
    recorded: Recorded = request.getfixturevalue(which)
    tls = TLSStream(recorded.log())
    chunks = opened(tls, recorded.pieces, step)
    for direction, base in (("F", 8), ("B", 1)):
        assert joined(chunks, direction) == recorded.plain[direction]
        stream = recorded.stream(direction)
        ranges = {(start + base, end + base) for _, start, end in records_of(stream)}
        mine = [c for c in chunks if c.direction == direction]
        assert {(c.start, c.end) for c in mine} <= ranges
        assert [c.start for c in mine] == sorted({c.start for c in mine})
        assert not any(c.lost for c in mine)
    assert codes(tls) == []


def test_facts_of_12(tls12: Recorded) -> None:
    tls = TLSStream(tls12.log())
    opened(tls, tls12.pieces)
    facts = tls.facts
    assert (facts.sni, facts.alpn) == ("db.example", "postgresql")
    assert facts.offered_alpn == ("other", "postgresql")
    assert facts.version == 0x0303 and facts.suite == 0xC030
    assert tls12.cipher == "ECDHE-RSA-AES256-GCM-SHA384"
    subject = facts.certificates[0].subject
    assert "CN=db.example RSA" in subject and "O=Trial" in subject
    assert facts.certificates[0].not_before == "2026-01-02"
    assert [str(a) for a in facts.alerts] == ["warning: close notify"] * 2
    assert not facts.resumed and not facts.hello_retry
    # One side's protected records by hand: all after the ChangeCipherSpec.
    for direction in "FB":
        records = records_of(tls12.stream(direction))
        first = next(i for i, (kind, _, _) in enumerate(records) if kind == 20) + 1
        volume = facts.volume[direction]
        assert volume.records == volume.opened == len(records) - first
        assert volume.encrypted == sum(end - start - 5 for _, start, end in records[first:])
        assert volume.plaintext == len(tls12.plain[direction])


def test_facts_of_13(tls13: Recorded) -> None:
    tls = TLSStream(tls13.log())
    opened(tls, tls13.pieces)
    lines = dict(tls.facts.lines())
    assert lines["TLS version"] == "TLS 1.3"
    assert lines["cipher suite"] == tls13.cipher  # 1.3 names are the same in OpenSSL
    assert lines["ALPN"] == "postgresql (offered: other, postgresql)"
    assert lines["server name (SNI)"] == "db.example"
    assert tls.facts.tickets == 2  # what OpenSSL sends after a full handshake
    assert "CN=db.example" in lines["certificate"]
    assert "how to get keys" not in lines


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_without_keys(which: str, request: pytest.FixtureRequest) -> None:
    recorded: Recorded = request.getfixturevalue(which)
    other = KeyLog()
    other.extend(b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n", "other.log")
    for log in (None, other):
        tls = TLSStream(log)
        assert opened(tls, recorded.pieces, step=-1) == []
        assert codes(tls) == ["tls-no-keys"]
        assert ADVICE in tls.findings[0].finding.text and "sslkeylogfile" in ADVICE
        assert tls.facts.sni == "db.example"
        assert tls.facts.client_random.hex().encode() in recorded.keylog
        lines = dict(tls.facts.lines())
        assert lines["how to get keys"] == ADVICE
        if which == "tls12":
            assert "CN=db.example RSA" in lines["certificate"] and tls.facts.alpn == "postgresql"
        with_keys = TLSStream(recorded.log())
        opened(with_keys, recorded.pieces)
        for direction in "FB":
            have, full = tls.facts.volume[direction], with_keys.facts.volume[direction]
            assert (have.records, have.encrypted) == (full.records, full.encrypted)
            assert have.opened == have.plaintext == 0


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_wrong_keys(which: str, request: pytest.FixtureRequest) -> None:
    recorded: Recorded = request.getfixturevalue(which)
    lines = []
    for line in recorded.keylog.decode().splitlines():
        words = line.split()
        if len(words) == 3:
            words[2] = words[2][::-1]
        lines.append(" ".join(words))
    log = KeyLog()
    log.extend("\n".join(lines).encode(), "keys.log")
    tls = TLSStream(log)
    assert opened(tls, recorded.pieces) == []
    assert codes(tls) == ["tls-wrong-key"]
    assert tls.facts.keys == "wrong"


def test_one_directions_secrets(tls13: Recorded) -> None:
    lines = [line for line in tls13.keylog.splitlines() if not line.startswith(b"SERVER")]
    log = KeyLog()
    log.extend(b"\n".join(lines), "keys.log")
    tls = TLSStream(log)
    chunks = opened(tls, tls13.pieces)
    assert joined(chunks, "F") == tls13.plain["F"] and joined(chunks, "B") == b""
    assert codes(tls) == ["tls-no-keys"] and tls.facts.keys == "incomplete"


def test_only_application_secrets(tls13: Recorded) -> None:
    """Without the handshake's secrets the first application record is still found."""
    lines = [line for line in tls13.keylog.splitlines() if b"HANDSHAKE" not in line]
    log = KeyLog()
    log.extend(b"\n".join(lines), "keys.log")
    tls = TLSStream(log)
    chunks = opened(tls, tls13.pieces)
    for direction in "FB":
        assert joined(chunks, direction) == tls13.plain[direction]
    assert codes(tls) == []


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_client_before_server_hello(which: str, request: pytest.FixtureRequest) -> None:
    """The capture has all of the client's bytes before the server's: they wait for the keys."""
    recorded: Recorded = request.getfixturevalue(which)
    tls = TLSStream(recorded.log())
    order = [p for p in recorded.pieces if p[0] == "F"] + [
        p for p in recorded.pieces if p[0] == "B"
    ]
    chunks = opened(tls, order)
    for direction in "FB":
        assert joined(chunks, direction) == recorded.plain[direction]
    assert codes(tls) == []


def test_hello_retry(certificates: dict[str, Path], tmp_path: Path) -> None:
    peers = Peers(certificates, tmp_path, ssl.TLSVersion.TLSv1_3, curve="secp384r1")
    recorded = talk(peers)
    for step in (0, 5):
        tls = TLSStream(recorded.log())
        chunks = opened(tls, recorded.pieces, step)
        for direction in "FB":
            assert joined(chunks, direction) == recorded.plain[direction]
        assert codes(tls) == []
        assert (
            tls.facts.hello_retry and dict(tls.facts.lines())["key exchange group"] == "secp384r1"
        )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_resumption(version: ssl.TLSVersion, certificates: dict[str, Path], tmp_path: Path) -> None:
    first = Peers(certificates, tmp_path, version)
    session = talk(first).session
    contexts = (first.client_context, first.server_context)
    peers = Peers(certificates, tmp_path, version, session=session, contexts=contexts)
    recorded = talk(peers)
    assert peers.ends["F"].session_reused
    tls = TLSStream(recorded.log())
    chunks = opened(tls, recorded.pieces)
    for direction in "FB":
        assert joined(chunks, direction) == recorded.plain[direction]
    assert tls.facts.resumed and codes(tls) == []


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_segments_lost_one_by_one(which: str, request: pytest.FixtureRequest) -> None:
    """Many holes in both directions: only records that are whole, all of them, in their places."""
    recorded: Recorded = request.getfixturevalue(which)
    ranges = {d: plain_ranges(recorded, d) for d in "FB"}
    for seed in range(6):
        chance = random.Random(seed)
        tls, at, out = TLSStream(recorded.log()), {"F": 0, "B": 0}, []
        lost: dict[str, list[tuple[int, int]]] = {"F": [], "B": []}
        for direction, data in recorded.pieces:
            while data:
                part, data = data[:1448], data[1448:]
                start = at[direction]
                at[direction] += len(part)
                if start > ranges[direction][0][0] and chance.random() < 0.1:
                    lost[direction].append((start, at[direction]))
                else:
                    out += tls.feed(direction, start, part)
        out += tls.finish()
        for direction in "FB":
            whole = [
                (start, end, data)
                for start, end, data in ranges[direction]
                if not any(a < end and b > start for a, b in lost[direction])
            ]
            mine = [c for c in out if c.direction == direction]
            assert [(c.start, c.end, c.data) for c in mine if not c.lost] == whole
            assert [c.start for c in mine] == sorted(c.start for c in mine)
            assert all(a.end <= b.start for a, b in pairwise(mine))


def test_alert_in_the_handshake(certificates: dict[str, Path], tmp_path: Path) -> None:
    peers = Peers(certificates, tmp_path, ssl.TLSVersion.TLSv1_2)
    peers.client_context.verify_mode = ssl.CERT_REQUIRED
    peers = Peers(
        certificates, tmp_path, ssl.TLSVersion.TLSv1_2,
        contexts=(peers.client_context, peers.server_context),
    )  # fmt: skip
    with pytest.raises(ssl.SSLError):
        peers.handshake()
    peers.carry("F")
    tls = TLSStream()
    opened(tls, peers.pieces)
    assert [str(a) for a in tls.facts.alerts] == ["fatal: unknown CA"]
    assert tls.findings[0].finding.text == "TLS alert from the client, fatal: unknown CA"


# -- gaps and damage ------------------------------------------------------------------------------


def holes(tls: TLSStream, recorded: Recorded, direction: str, start: int, end: int) -> list:
    """Feed all of `recorded` without the bytes [start, end) of `direction`."""
    at = {"F": 0, "B": 0}
    out = []
    for name, data in recorded.pieces:
        first, last = at[name], at[name] + len(data)
        at[name] = last
        if name != direction or last <= start or first >= end:
            out += tls.feed(name, first, data)
            continue
        if first < start:
            out += tls.feed(name, first, data[: start - first])
        if first <= start:
            out += tls.gap(name, start, end - start)
        if last > end:
            out += tls.feed(name, end, data[end - first :])
    return out + tls.finish()


def plain_ranges(recorded: Recorded, direction: str) -> list[tuple[int, int, bytes]]:
    """(start, end, plain text) of each application record, from an undisturbed run."""
    tls = TLSStream(recorded.log())
    chunks = [c for c in opened(tls, recorded.pieces) if c.direction == direction]
    base = 8 if direction == "F" else 1
    assert b"".join(c.data for c in chunks) == recorded.plain[direction]
    return [(c.start - base, c.end - base, c.data) for c in chunks]


@pytest.mark.parametrize("which", ["tls12", "tls13"])
@pytest.mark.parametrize("direction", ["F", "B"])
def test_gaps_in_application_data(
    which: str, direction: str, request: pytest.FixtureRequest
) -> None:
    """Whatever is cut out, all records that are whole come out, and what is lost is told."""
    recorded: Recorded = request.getfixturevalue(which)
    ranges = plain_ranges(recorded, direction)
    chance = random.Random(5)
    first, last = ranges[0][0], ranges[-1][1]
    for _ in range(60):
        start = chance.randint(first, last - 1)
        end = min(last, start + chance.choice([1, 4, 100, 1448, 16_500, 30_000]))
        tls = TLSStream(recorded.log())
        chunks = [
            c for c in holes(tls, recorded, direction, start, end) if c.direction == direction
        ]
        whole = [r for r in ranges if r[1] <= start or r[0] >= end]
        assert [(c.start, c.end, c.data) for c in chunks if not c.lost] == whole, (start, end)
        hit = [r for r in ranges if r[0] < end and r[1] > start]
        lost = [c for c in chunks if c.lost]
        assert lost[0].start <= max(hit[0][0], start) and lost[-1].end >= min(hit[-1][1], end)
        assert codes(tls) == ["tls-gap"]
        other = "B" if direction == "F" else "F"
        assert tls.facts.volume[other].plaintext == len(recorded.plain[other])


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_gaps_in_the_handshake(which: str, request: pytest.FixtureRequest) -> None:
    """After the hellos any record can be missing, and the data still opens."""
    recorded: Recorded = request.getfixturevalue(which)
    for direction in "FB":
        data_begins = plain_ranges(recorded, direction)[0][0]
        for _, start, end in records_of(recorded.stream(direction))[1:]:
            if end > data_begins:
                break
            for cut_start, cut_end in ((start, end), (start + 2, end), (start + 6, end)):
                if cut_start >= cut_end:
                    continue
                tls = TLSStream(recorded.log())
                chunks = holes(tls, recorded, direction, cut_start, cut_end)
                assert joined(chunks, direction) == recorded.plain[direction], (start, end)
                assert codes(tls)[0] == "tls-gap"


def test_hello_not_captured(tls13: Recorded) -> None:
    for direction, word in (("F", "ClientHello"), ("B", "ServerHello")):
        tls = TLSStream(tls13.log())
        kind, start, end = records_of(tls13.stream(direction))[0]
        assert kind == 22
        assert holes(tls, tls13, direction, start + 2, end) == []
        assert any(word in located.finding.text for located in tls.findings)
        assert word in tls.facts.keys
        assert tls.facts.volume["B"].records > 3


@pytest.mark.parametrize("which", ["tls12", "tls13"])
def test_altered_record(which: str, request: pytest.FixtureRequest) -> None:
    recorded: Recorded = request.getfixturevalue(which)
    ranges = plain_ranges(recorded, "B")
    start, end, _ = ranges[2]
    at, pieces = 0, []
    for name, data in recorded.pieces:
        if name == "B":
            if at <= start + 30 < at + len(data):
                changed = bytearray(data)
                changed[start + 30 - at] ^= 1
                data = bytes(changed)
            at += len(recorded.pieces[len(pieces)][1])
        pieces.append((name, data))
    tls = TLSStream(recorded.log())
    chunks = [c for c in opened(tls, pieces) if c.direction == "B"]
    assert [c.data for c in chunks if not c.lost] == [r[2] for r in ranges if r[0] != start]
    assert [(c.start - 1, c.end - 1) for c in chunks if c.lost] == [(start, end)]
    assert codes(tls) == ["tls-damaged"]


def test_truncated_anywhere(tls13: Recorded) -> None:
    stream = tls13.stream("B")
    ranges = plain_ranges(tls13, "B")
    for cut in [*range(0, 3000, 37), *range(3000, len(stream), 2111)]:
        tls = TLSStream(tls13.log())
        left, pieces = cut, []
        for name, data in tls13.pieces:
            if name == "B":
                data, left = data[:left], left - len(data[:left])
            pieces.append((name, data))
        chunks = opened(tls, pieces)
        assert joined(chunks, "B") == b"".join(r[2] for r in ranges if r[1] <= cut)
        on_a_boundary = cut == 0 or any(cut == end for _, _, end in records_of(stream))
        expected = [] if cut >= records_of(stream)[0][2] else ["tls-damaged"]  # no ServerHello
        assert codes(tls) == expected + ([] if on_a_boundary else ["tls-ended"])


def test_plain_text_instead_of_tls() -> None:
    tls = TLSStream()
    startup = struct.pack(">II", 8 + 10, 196608) + b"user\0me\0\0\0"
    assert tls.feed("F", 8, startup) == [] and tls.finish() == []
    assert (
        codes(tls)[0] == "tls-damaged"
        and "no TLS record begins here" in tls.findings[0].finding.text
    )


def test_hostile_bytes(tls12: Recorded, tls13: Recorded) -> None:
    """Nothing raises, whatever is changed, and memory stays bounded."""
    chance = random.Random(11)
    for recorded in (tls12, tls13):
        for _ in range(150):
            tls = TLSStream(recorded.log())
            pieces = []
            for name, data in recorded.pieces:
                changed = bytearray(data[: 6000 if chance.random() < 0.5 else None])
                for _ in range(chance.choice([0, 0, 1, 3])):
                    changed[chance.randrange(min(len(changed), 400))] = chance.randrange(256)
                pieces.append((name, bytes(changed)))
            chunks = opened(tls, pieces, step=0)
            for c in chunks:
                assert c.lost or c.data in recorded.plain[c.direction]
            assert len(tls.findings) <= 200
            assert all(text.isprintable() for _, text in tls.facts.lines())
    for _ in range(100):
        tls = TLSStream()
        kind = chance.choice([20, 21, 22, 23])
        body = chance.randbytes(chance.randrange(300))
        for direction in "FB":
            tls.feed(direction, 0, struct.pack(">BHH", kind, 0x0303, len(body)) + body)
            tls.feed(direction, 700, chance.randbytes(5000))
        tls.finish()


def test_handshake_message_longer_than_any() -> None:
    parts = Handshakes()
    assert parts.feed(b"\x0b\xff\xff\xff" + b"a" * 1000) == []
    for _ in range(1023):
        assert parts.feed(b"a" * 16384) == []
    rest = 0xFFFFFF - 1000 - 1023 * 16384
    assert parts.feed(b"a" * rest + b"\x14\0\0\2ok") == [(20, b"ok")]


# -- records made by hand -------------------------------------------------------------------------


class Sender13:
    """Protects TLS 1.3 records with AES-128-GCM (RFC 8446, section 5.2)."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.sequence = secret, 0

    def record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        key = expand_label("sha256", self.secret, "key", 16)
        iv = int.from_bytes(expand_label("sha256", self.secret, "iv", 12), "big")
        inner = content + bytes([kind]) + bytes(padding)
        header = struct.pack(">BHH", 23, 0x0303, len(inner) + 16)
        nonce = (iv ^ self.sequence).to_bytes(12, "big")
        self.sequence += 1
        return header + AESGCM(key).encrypt(nonce, inner, header)

    def next_keys(self, label: str = "traffic upd") -> None:
        self.secret, self.sequence = expand_label("sha256", self.secret, label, 32), 0


def _hello(client: bool, random_bytes: bytes, extensions: bytes) -> bytes:
    suites = struct.pack(">HH", 2, 0x1301) + b"\1\0" if client else struct.pack(">HB", 0x1301, 0)
    body = b"\3\3" + random_bytes + b"\0" + suites + struct.pack(">H", len(extensions)) + extensions
    message = bytes([1 if client else 2]) + len(body).to_bytes(3, "big") + body
    return struct.pack(">BHH", 22, 0x0303, len(message)) + message


def made() -> tuple[KeyLog, dict[str, Sender13], list[tuple[str, bytes]]]:
    """A TLS 1.3 connection up to both Finished."""
    secrets = {name: bytes([i]) * 32 for i, name in enumerate(("CH", "SH", "CA", "SA"))}
    r = b"\x5a" * 32
    lines = zip(
        ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET",
         "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"),
        secrets.values(), strict=True,
    )  # fmt: skip
    log = KeyLog()
    text = "# made by hand\r\n" + "".join(f"{a} {r.hex().upper()} {b.hex()}\r\n" for a, b in lines)
    log.extend(text.encode(), "made")
    chosen = b"\0\x2b\0\2\3\4"
    pieces = [("F", _hello(True, r, b"\0\x2b\0\3\2\3\4")), ("B", _hello(False, b"s" * 32, chosen))]
    finished = b"\x14\0\0\x20" + b"f" * 32
    server, client = Sender13(secrets["SH"]), Sender13(secrets["CH"])
    # The server's Finished lies across two records.
    pieces.append(("B", server.record(22, finished[:9]) + server.record(22, finished[9:])))
    pieces.append(("F", b"\x14\3\3\0\1\1" + client.record(22, finished)))
    return log, {"F": Sender13(secrets["CA"]), "B": Sender13(secrets["SA"])}, pieces


KEY_UPDATE = b"\x18\0\0\1\0"


def test_key_updates_padding_and_tickets() -> None:
    log, ends, pieces = made()
    for turn in range(40):
        for direction, end in ends.items():
            pieces.append((direction, end.record(23, b"%d;" % turn, padding=turn)))
            if turn % 3 == 0:
                pieces.append((direction, end.record(22, KEY_UPDATE)))
                end.next_keys()
    pieces.append(("B", ends["B"].record(22, b"\4\0\0\3abc" * 3)))
    pieces.append(("B", ends["B"].record(23, b"", padding=9) + ends["B"].record(23, b"end")))
    pieces.append(("B", ends["B"].record(21, b"\1\0")))
    for step in (0, 3):
        tls = TLSStream(log)
        chunks = opened(tls, pieces, step)
        said = b"".join(b"%d;" % turn for turn in range(40))
        assert joined(chunks, "F") == said and joined(chunks, "B") == said + b"end"
        assert tls.facts.key_updates == {"F": 14, "B": 14} and tls.facts.tickets == 3
        assert str(tls.facts.alerts[0]) == "warning: close notify"
        assert codes(tls) == []


def test_key_update_in_a_gap() -> None:
    log, ends, pieces = made()
    tls = TLSStream(log)
    opened_before = opened_without_end(tls, pieces)
    end = ends["B"]
    at = opened_before["B"]
    before = end.record(23, b"before")
    lost = b"".join(end.record(23, b"lost") for _ in range(300)) + end.record(22, KEY_UPDATE)
    end.next_keys()
    lost += b"".join(end.record(23, b"lost") for _ in range(50))
    after = end.record(23, b"after")
    assert [c.data for c in tls.feed("B", at, before)] == [b"before"]
    assert tls.gap("B", at + len(before), len(lost)) == []
    first = at + len(before) + len(lost)
    chunks = tls.feed("B", first, after)
    assert chunks == [
        ("B", b"", at + len(before), first, True),
        ("B", b"after", first, first + len(after), False),
    ]


def opened_without_end(tls: TLSStream, pieces: list[tuple[str, bytes]]) -> dict[str, int]:
    at = {"F": 0, "B": 0}
    for direction, data in pieces:
        assert tls.feed(direction, at[direction], data) == []
        at[direction] += len(data)
    return at


def test_plain_records_between_protected_ones_change_nothing() -> None:
    log, ends, pieces = made()
    pieces.append(("B", ends["B"].record(23, b"one")))
    pieces.append(("B", struct.pack(">BHH", 22, 0x0303, 5) + KEY_UPDATE))
    pieces.append(("B", b"\x14\3\3\0\1\1"))
    pieces.append(("B", ends["B"].record(23, b"two")))
    tls = TLSStream(log)
    assert joined(opened(tls, pieces), "B") == b"onetwo"
    assert codes(tls) == ["tls-damaged"] and "not encrypted" in tls.findings[0].finding.text


def test_repeated_and_missing_offsets() -> None:
    log, ends, pieces = made()
    tls = TLSStream(log)
    at = opened_without_end(tls, pieces)["F"]
    one, two, three = (ends["F"].record(23, text) for text in (b"one", b"two", b"three"))
    assert [c.data for c in tls.feed("F", at, one + two[:9])] == [b"one"]
    assert [c.data for c in tls.feed("F", at, one + two)] == [b"two"]  # all of it once more
    assert tls.feed("F", at, one) == []
    assert [c.data for c in tls.feed("F", at + len(one + two) + 4, three[4:])] == []
    assert codes(tls) == ["tls-gap"]
    four = ends["F"].record(23, b"four")
    chunks = tls.feed("F", at + len(one + two + three), four)
    assert [(c.data, c.lost) for c in chunks] == [(b"", True), (b"four", False)]


def test_looks_like_headers_after_a_gap() -> None:
    """A gap in data that is full of false headers: work is bounded, the right place is found."""
    log, ends, pieces = made()
    tls = TLSStream(log)
    at = opened_without_end(tls, pieces)["B"]
    tls.gap("B", at, 500_000)
    at += 500_000
    noise = b"\x17\3\3\0\x16" + b"\x17\3\3\0\x16" * 20
    for _ in range(3):
        ends["B"].record(23, b"lost")
    good = ends["B"].record(23, b"found")
    chunks = tls.feed("B", at, noise + good + b"\x17\3\3") + tls.finish()
    assert b"found" in [c.data for c in chunks]


# -- the key schedule -----------------------------------------------------------------------------


def test_key_schedule_against_published_vectors() -> None:
    """RFC 8448, section 3 (server handshake traffic secret -> key, iv); the known P_SHA256 vector."""
    secret = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
    assert expand_label("sha256", secret, "key", 16).hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert expand_label("sha256", secret, "iv", 12).hex() == "5d313eb2671276ee13000b30"
    secret = bytes.fromhex("9bbe436ba940f017b17652849a71db35")
    seed = b"test label" + bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    assert prf("sha256", secret, seed, 100).hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0f"
        "a022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66"
    )


def test_names_and_hellos_as_scapy_reads_them(tls12: Recorded, tls13: Recorded) -> None:
    from scapy.layers.tls.crypto.suites import _tls_cipher_suites
    from scapy.layers.tls.handshake import TLSClientHello, TLSServerHello

    for code, suite in SUITES.items():
        assert _tls_cipher_suites[code] == suite.name
    assert suite_name(0x0041) == "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"
    assert suite_name(0xFAFA) == "0xfafa"
    for recorded in (tls12, tls13):
        for direction, layer in (("F", TLSClientHello), ("B", TLSServerHello)):
            stream = recorded.stream(direction)
            length = int.from_bytes(stream[6:9], "big")
            theirs, mine = (
                layer(stream[5 : 9 + length]),
                parse_hello(stream[9 : 9 + length], direction == "F"),
            )
            random_bytes = struct.pack(">I", theirs.gmt_unix_time) + theirs.random_bytes
            assert (mine.version, mine.random, mine.session) == (
                theirs.version,
                random_bytes,
                theirs.sid,
            )
            suites = theirs.ciphers if direction == "F" else [theirs.cipher]
            assert list(mine.suites) == suites
            assert list(mine.extensions) == [e.type for e in theirs.ext]


# -- key logs -------------------------------------------------------------------------------------

GOOD = b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48


def test_keylog_forms() -> None:
    log = KeyLog()
    text = b"\xef\xbb\xbf# comment\r\n\r\n" + GOOD + b"\r\nRSA 0011223344556677 " + b"ef" * 48
    text += (
        b"\nEXPORTER_SECRET " + b"ab" * 32 + b" " + b"01" * 32 + b"\nSERVER_TRAFFIC_SECRET_0 abab"
    )
    assert log.extend(text, "k") == ["k: the last line is cut off and was left out"]
    assert len(log) == 1
    assert log.find(b"\xab" * 32) == {"CLIENT_RANDOM": b"\xcd" * 48}
    assert log.find(b"\0" * 32) == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"CLIENT_RANDOM " + b"ab" * 31 + b" " + b"cd" * 48, "31 bytes instead of 32"),
        (b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 32, "32 bytes instead of 48"),
        (b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cx" * 48, "hexadecimal"),
        (b"CLIENT_RANDOM " + b"ab" * 32, "three columns"),
        (b"\x1b[2Jwhat", "three columns"),
    ],
)
def test_keylog_line_that_is_wrong(line: bytes, why: str) -> None:
    data = GOOD + b"\n" + line + b"\n" + GOOD + b"\n"
    with pytest.raises(KeyLogError) as error:
        KeyLog().extend(data, "my\x1b.log")
    text = str(error.value)
    assert (
        text.startswith("my\\x1b.log, line 2: ") and why in text and "take the key log anew" in text
    )
    assert text.isprintable()
    lenient = KeyLog()
    assert lenient.extend(data, "block", strict=False) != [] and len(lenient) == 1


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"-----BEGIN PRIVATE KEY-----\nMIIE\n", "a PEM file"),
        (bytes.fromhex("d4c3b2a1020004000000") + bytes(40), "a capture"),
        (bytes(range(256)), "binary"),
        (b"hello world\n", "three columns"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
    ],
)
def test_not_a_keylog(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "file.log"
    path.write_bytes(data)
    with pytest.raises(KeyLogError) as error:
        load_keylog(path)
    assert what in str(error.value) and "sslkeylogfile" in str(error.value)
    assert "\n" not in str(error.value)


def test_keylog_file_that_is_not_there(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none", "no such key log"), (tmp_path, "is a directory")):
        with pytest.raises(KeyLogError, match=what):
            load_keylog(path)
    with pytest.raises(KeyLogError, match="null"):
        load_keylog("a\0b")


def test_client_hello_is_recognised(tls12: Recorded, tls13: Recorded) -> None:
    for recorded in (tls12, tls13):
        assert is_client_hello(recorded.stream("F")) and is_client_hello(recorded.stream("F")[:6])
        assert not is_client_hello(recorded.stream("B"))
    assert not is_client_hello(b"") and not is_client_hello(b"\x16\3\1")
    assert not is_client_hello(struct.pack(">II", 8, 80877103))
    assert not is_client_hello(b"\x16\3\1\xff\xff\1\0\0\0\3\3")


# -- OpenSSL's own client and server --------------------------------------------------------------


def relay(listen: socket.socket, server: int, pieces: list[tuple[str, bytes]]) -> None:
    """Carry one connection between a client and a server port, recording it."""
    near, _ = listen.accept()
    far = socket.create_connection(("127.0.0.1", server))
    with near, far, selectors.DefaultSelector() as ready:
        ready.register(near, selectors.EVENT_READ, ("F", far))
        ready.register(far, selectors.EVENT_READ, ("B", near))
        while ready.get_map():
            for key, _ in ready.select(timeout=20):
                direction, other = key.data
                try:
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    pieces.append((direction, data))
                    other.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    return


def _wait_for(process: subprocess.Popen, word: bytes) -> None:
    seen = b""
    assert process.stdout is not None
    while word not in seen:
        data = os.read(process.stdout.fileno(), 1 << 16)
        assert data, seen
        seen += data


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program")
@pytest.mark.parametrize("suite", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                   "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256",
                                   "TLS_AES_128_CCM_8_SHA256"])  # fmt: skip
def test_every_suite_of_13_with_key_updates(
    suite: str, certificates: dict[str, Path], tmp_path: Path
) -> None:
    """openssl s_client and s_server: lines of text, and K in either asks for new keys."""
    keys = tmp_path / "keys.log"
    with socket.socket() as probe, socket.socket() as listen:
        for s in (probe, listen):
            s.bind(("127.0.0.1", 0))
        listen.listen()
        port = probe.getsockname()[1]
        probe.close()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        server = subprocess.Popen(
            ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificates["RSA"],
             "-tls1_3", "-ciphersuites", suite, "-keylogfile", keys, "-naccept", "1"], **pipes)  # fmt: skip
        pieces: list[tuple[str, bytes]] = []
        watch = threading.Timer(60, server.kill)  # ends all the rest as well
        watch.start()
        try:
            _wait_for(server, b"ACCEPT")
            carrier = threading.Thread(target=relay, args=(listen, port, pieces))
            carrier.start()
            client = subprocess.Popen(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{listen.getsockname()[1]}",
                 "-tls1_3", "-ciphersuites", suite], **pipes)  # fmt: skip
            try:
                assert client.stdin is not None and server.stdin is not None

                def say(end: subprocess.Popen, other: subprocess.Popen, line: bytes) -> None:
                    assert end.stdin is not None
                    end.stdin.write(line + b"\n")
                    end.stdin.flush()
                    _wait_for(other, line)

                for turn in range(3):
                    say(client, server, b"from client %d" % turn)
                    say(server, client, b"from server %d" % turn)
                    client.stdin.write(b"K\n")  # goes out with the next line
                    client.stdin.flush()
                    _wait_for(client, b"KEYUPDATE")
                    before = len(pieces)
                    server.stdin.write(b"K\n")  # goes out at once
                    server.stdin.flush()
                    while len(pieces) == before:
                        assert carrier.is_alive()
                        carrier.join(0.01)
                say(client, server, b"client ends")
                say(server, client, b"server ends")
            finally:
                client.kill()
                client.communicate()
            carrier.join()
        finally:
            watch.cancel()
            server.kill()
            server.communicate()
    tls = TLSStream(load_keylog(keys))
    chunks = opened(tls, pieces, step=-1)
    lines = b"".join(b"from client %d\n" % i for i in range(3)) + b"client ends\n"
    assert joined(chunks, "F") == lines
    assert joined(chunks, "B") == lines.replace(b"client", b"server")
    assert suite_name(tls.facts.suite or 0) == suite
    assert tls.facts.key_updates["F"] >= 3 and tls.facts.key_updates["B"] >= 3
    assert tls.facts.tickets == 2 and codes(tls) == []
