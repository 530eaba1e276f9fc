"""Cipher suites of TLS 1.2 and 1.3 that can be opened, with all that their names say.

Sources: RFC 5246 and 8422 (CBC), 5288 and 5289 (GCM), 6655 and 7251 (CCM), 7905 (ChaCha20), 8446.
"""

from __future__ import annotations

from typing import NamedTuple

TLS12, TLS13 = 0x0303, 0x0304

_NAMES = """
1301 TLS_AES_128_GCM_SHA256
1302 TLS_AES_256_GCM_SHA384
1303 TLS_CHACHA20_POLY1305_SHA256
1304 TLS_AES_128_CCM_SHA256
1305 TLS_AES_128_CCM_8_SHA256
c02b TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
c02c TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
c02f TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
c030 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
009c TLS_RSA_WITH_AES_128_GCM_SHA256
009d TLS_RSA_WITH_AES_256_GCM_SHA384
009e TLS_DHE_RSA_WITH_AES_128_GCM_SHA256
009f TLS_DHE_RSA_WITH_AES_256_GCM_SHA384
00a2 TLS_DHE_DSS_WITH_AES_128_GCM_SHA256
00a3 TLS_DHE_DSS_WITH_AES_256_GCM_SHA384
cca8 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
cca9 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
ccaa TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256
c09c TLS_RSA_WITH_AES_128_CCM
c09d TLS_RSA_WITH_AES_256_CCM
c09e TLS_DHE_RSA_WITH_AES_128_CCM
c09f TLS_DHE_RSA_WITH_AES_256_CCM
c0a0 TLS_RSA_WITH_AES_128_CCM_8
c0a1 TLS_RSA_WITH_AES_256_CCM_8
c0a2 TLS_DHE_RSA_WITH_AES_128_CCM_8
c0a3 TLS_DHE_RSA_WITH_AES_256_CCM_8
c0ac TLS_ECDHE_ECDSA_WITH_AES_128_CCM
c0ad TLS_ECDHE_ECDSA_WITH_AES_256_CCM
c0ae TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8
c0af TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8
002f TLS_RSA_WITH_AES_128_CBC_SHA
0035 TLS_RSA_WITH_AES_256_CBC_SHA
003c TLS_RSA_WITH_AES_128_CBC_SHA256
003d TLS_RSA_WITH_AES_256_CBC_SHA256
0032 TLS_DHE_DSS_WITH_AES_128_CBC_SHA
0038 TLS_DHE_DSS_WITH_AES_256_CBC_SHA
0040 TLS_DHE_DSS_WITH_AES_128_CBC_SHA256
006a TLS_DHE_DSS_WITH_AES_256_CBC_SHA256
0033 TLS_DHE_RSA_WITH_AES_128_CBC_SHA
0039 TLS_DHE_RSA_WITH_AES_256_CBC_SHA
0067 TLS_DHE_RSA_WITH_AES_128_CBC_SHA256
006b TLS_DHE_RSA_WITH_AES_256_CBC_SHA256
c009 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
c00a TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA
c023 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256
c024 TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384
c013 TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
c014 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA
c027 TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256
c028 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384
"""


class Suite(NamedTuple):
    """A cipher suite that can be opened. Lengths in bytes.

    mode: gcm, ccm, chacha or cbc. digest: hash of the key schedule (PRF or HKDF), a hashlib name.
    mac: hash of the record's HMAC with cbc, else "".
    """

    code: int
    name: str
    mode: str
    key_length: int
    tag_length: int
    digest: str
    mac: str


def _parse(code: int, name: str) -> Suite:
    words = name.split("_")
    mode = next(word for word in words if word in {"GCM", "CCM", "CHACHA20", "CBC"}).lower()
    key_length = 16 if "128" in words else 32
    last = words[-1].lower()
    tag_length = 8 if "CCM_8" in name else 16
    mac = {"sha": "sha1"}.get(last, last) if mode == "cbc" else ""
    digest = "sha384" if last == "sha384" else "sha256"  # 1.2 has no PRF with SHA-1 (RFC 5246, 5)
    return Suite(code, name, mode.removesuffix("20"), key_length, tag_length, digest, mac)


SUITES: dict[int, Suite] = {
    int(code, 16): _parse(int(code, 16), name)
    for code, name in (line.split() for line in _NAMES.split("\n") if line)
}
"""Code -> suite, for the suites whose records can be opened."""


def suite_name(code: int) -> str:
    """The registered name of cipher suite `code`, or its number when nobody knows it."""
    if code in SUITES:
        return SUITES[code].name
    # scapy has the whole registry; its import takes a second, so only for suites not opened here.
    try:
        from scapy.layers.tls.crypto.suites import _tls_cipher_suites
    except ImportError:
        return f"0x{code:04x}"
    return _tls_cipher_suites.get(code, f"0x{code:04x}")
