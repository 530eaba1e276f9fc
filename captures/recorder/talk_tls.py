"""Conversations in TLS 1.2, TLS 1.3 and direct TLS, with the secrets that decrypt them."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable

from . import truth
from .conversation import Scenario, Stage
from .servers import RecorderError, Server
from .wire import protocol_time

PASSWORD = "Geheim ü1"
SUBJECT = "/CN=localhost/O=pgdissect captures"


def _openssl(*arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    except FileNotFoundError:
        raise RecorderError("openssl is not installed; install the package openssl") from None


def _certificate(kind: str) -> Callable[[Server], None]:
    """A function that gives the server a key and a self-signed certificate, and switches TLS on."""

    def prepare(server: Server) -> None:
        key, certificate = server.data / "server.key", server.data / "server.crt"
        new = ["-newkey", "rsa:2048"] if kind == "rsa" else ["-newkey", "ec", "-pkeyopt"]
        new += [] if kind == "rsa" else ["ec_paramgen_curve:prime256v1"]
        _openssl(
            "req", "-x509", *new, "-nodes", "-days", "3650", "-subj", SUBJECT,
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", str(key), "-out", str(certificate),
        )  # fmt: skip
        server.own(key)
        server.own(certificate, 0o644)
        server.configure({"ssl": "on", "ssl_ca_file": "server.crt"})

    return prepare


def _setup(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query(f"CREATE ROLE ada LOGIN SUPERUSER REPLICATION PASSWORD '{PASSWORD}'")
    admin.query(
        "CREATE TABLE t (id integer PRIMARY KEY, word text); CREATE PUBLICATION pub FOR TABLE t"
    )
    admin.query("SELECT pg_create_logical_replication_slot('sent', 'pgoutput')")
    admin.query("SELECT pg_create_logical_replication_slot('truth', 'pgoutput')")
    admin.close()


def _tls(stage: Stage, **parameters: str) -> dict[str, str]:
    return {
        "host": "localhost", "hostaddr": "127.0.0.1", "user": "ada", "password": PASSWORD,
        "sslmode": "require", "sslkeylogfile": str(stage.keylog), **parameters,
    }  # fmt: skip


def _facts(stage: Stage) -> None:
    admin = stage.server.connect()
    row = admin.query(
        "SELECT s.version, s.cipher, s.bits FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
        "WHERE s.ssl AND a.application_name = 'talk'"
    )[-1]
    stage.facts["tls"] = dict(zip(row.columns, row.rows[0], strict=True)) if row.rows else None
    admin.close()


def _query(**parameters: str) -> Callable[[Stage], None]:
    """A log-in with SCRAM over TLS, a few queries, a long result."""

    def run(stage: Stage) -> None:
        with stage.connect(**_tls(stage, **parameters)) as connection:
            _facts(stage)
            stage.did("log in", connection.info.status.name)
            got = connection.execute("SELECT 'Verschlüsselt', %s::int4", (42,)).fetchall()
            stage.did("SELECT 'Verschlüsselt', 42", got)
            long = connection.execute(
                "SELECT string_agg(md5(g::text), '') FROM generate_series(1, 1100) g"
            ).fetchone()
            stage.did("a value longer than two TLS records", len(long[0]) if long else None)

    return run


def _replicate(**parameters: str) -> Callable[[Stage], None]:
    """Logical replication over TLS."""

    def run(stage: Stage) -> None:
        options = {"proto_version": "1", "publication_names": "pub"}
        listed = ", ".join(f"{k} '{v}'" for k, v in options.items())
        command = f"START_REPLICATION SLOT sent LOGICAL 0/0 ({listed})"
        admin = stage.server.connect()
        for number in range(5):
            admin.query(f"INSERT INTO t VALUES ({number}, repeat('é{number}', 40))")
        admin.query("UPDATE t SET id = 10 WHERE id = 1; DELETE FROM t WHERE id = 2")
        rows = truth.peek(admin, "truth", options)
        connection = stage.connect(**_tls(stage, replication="database", **parameters))
        _facts(stage)
        pgconn = connection.pgconn
        pgconn.exec_(command.encode())
        got: list[bytes] = []
        deadline = time.monotonic() + 20
        ended = False
        while time.monotonic() < deadline:
            if len(got) == len(rows) and not ended:
                pgconn.put_copy_data(struct.pack("!cQQQqB", b"r", 0, 0, 0, protocol_time(), 0))
                pgconn.put_copy_end()
                ended = True
            pgconn.consume_input()
            size, data = pgconn.get_copy_data(1)
            if size > 0 and bytes(data[:1]) == b"w":
                got.append(bytes(data[25:]))
            elif size == 0:
                time.sleep(0.02)
            elif size < 0:
                break
        while pgconn.get_result() is not None:
            pass
        connection.close()
        if got != [r[2] for r in rows]:
            raise RecorderError("what came over TLS differs from the server's own list")
        stage.did(command, [m.hex() for m in got])
        stage.facts["peek"] = [[lsn, xid, data.hex()] for lsn, xid, data in rows]
        admin.close()

    return run


def _alert(stage: Stage) -> None:
    parameters = _tls(stage, ssl_min_protocol_version="TLSv1.3")
    stage.refused("a client that wants TLS 1.3 of a server that has TLS 1.2", **parameters)
    other = stage.folder / "other.crt"
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=somebody else",
        "-keyout", str(stage.folder / "other.key"), "-out", str(other),
    )  # fmt: skip
    parameters = _tls(stage, sslmode="verify-ca", sslrootcert=str(other))
    stage.refused("a client that trusts another root certificate", **parameters)


HBA = ("hostssl all ada all scram-sha-256", "hostssl replication ada all scram-sha-256")


def _scenario(
    about: str, major: str, run: Callable[[Stage], None], settings: dict[str, str],
    key: str = "rsa", secrets: str = "file", ethernet: bool = False,
) -> Scenario:  # fmt: skip
    settings = {"password_encryption": "scram-sha-256", **settings}
    return Scenario(
        about, major, run, _setup, _certificate(key), settings, HBA, secrets=secrets,
        ethernet=ethernet,
    )  # fmt: skip


SCENARIOS = {
    "tls12": _scenario(
        "TLS 1.2, ECDHE-RSA-AES256-GCM-SHA384; SCRAM-SHA-256-PLUS", "14",
        _query(channel_binding="require"),
        {"ssl_max_protocol_version": "TLSv1.2", "ssl_ciphers": "ECDHE-RSA-AES256-GCM-SHA384"},
    ),
    "tls12-chacha": _scenario(
        "TLS 1.2, ECDHE-ECDSA-CHACHA20-POLY1305; SCRAM without channel binding", "12",
        _query(channel_binding="disable"),
        {"ssl_max_protocol_version": "TLSv1.2", "ssl_ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"},
        "ec",
    ),
    "tls13": _scenario(
        "TLS 1.3; secrets in the pcapng's Decryption Secrets Block; segments of 1448 bytes", "17",
        _query(), {}, secrets="block", ethernet=True,
    ),
    "tls13-chacha": _scenario(
        "TLS 1.3 with TLS_CHACHA20_POLY1305_SHA256, elliptic certificate", "18", _query(),
        {"ssl_tls13_ciphers": "TLS_CHACHA20_POLY1305_SHA256"}, "ec",
    ),
    "tls-direct": _scenario(
        "direct TLS (sslnegotiation=direct, ALPN postgresql) with TLS_AES_128_GCM_SHA256", "18",
        _query(sslnegotiation="direct"), {"ssl_tls13_ciphers": "TLS_AES_128_GCM_SHA256"},
    ),
    "tls-replication": _scenario(
        "logical replication over TLS 1.3", "16", _replicate(), {}, "ec",
    ),
    "tls12-replication": _scenario(
        "logical replication over TLS 1.2", "13", _replicate(),
        {"ssl_max_protocol_version": "TLSv1.2"}, "ec", secrets="block",
    ),
    "tls-alert": _scenario(
        "TLS handshakes that fail: no common version, unknown root", "15", _alert,
        {"ssl_max_protocol_version": "TLSv1.2"}, secrets="",
    ),
}  # fmt: skip
