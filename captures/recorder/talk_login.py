"""Conversations about the start of a connection: authentication, versions, refusals."""

from __future__ import annotations

import socket
import struct

from .conversation import Scenario, Stage
from .wire import Client, ServerError

PASSWORD = "Geheim ü1"
WRONG = "not it"


def _users(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query(f"CREATE ROLE ada LOGIN PASSWORD '{PASSWORD}'")
    admin.close()


def _login(stage: Stage) -> None:
    with stage.connect(user="ada", password=PASSWORD) as connection:
        stage.did("log in as ada, right password", connection.info.status.name)
        stage.did("SELECT current_user", connection.execute("SELECT current_user").fetchall())
    stage.refused("log in as ada, wrong password", user="ada", password=WRONG)


def _refusals(stage: Stage) -> None:
    stage.refused("unknown database", dbname="no_such_db")
    stage.refused("no line in pg_hba.conf for this user", user="nobody_we_know")
    stage.refused("no password given, SCRAM asked for", user="ada")
    probe = socket.create_connection(("127.0.0.1", stage.server.port))
    probe.sendall(struct.pack("!ii", 8, 131072))
    stage.did("StartupMessage of protocol 2.0", probe.recv(1000))
    probe.close()
    probe = socket.create_connection(("127.0.0.1", stage.server.port))
    probe.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    stage.did("an HTTP request on the server's port", probe.recv(1000) or "closed")
    probe.close()


def _ask(sock: socket.socket, code: int) -> str:
    sock.sendall(struct.pack("!ii", 8, code))
    return sock.recv(1).decode()


def _requests(stage: Stage) -> None:
    with stage.connect(sslmode="prefer") as connection:
        got = connection.execute("SELECT 1").fetchall()
        stage.did("libpq with sslmode=prefer: SSLRequest answered with N, goes on plain", got)
    sock = socket.create_connection(("127.0.0.1", stage.server.port))
    stage.did("GSSENCRequest", _ask(sock, 80877104))
    stage.did("SSLRequest on the same connection", _ask(sock, 80877103))
    body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    sock.sendall(struct.pack("!i", len(body) + 4) + body)
    data = b""
    while not data.endswith(b"Z\0\0\0\5I"):
        data += sock.recv(1 << 16)
    stage.did("StartupMessage on the same connection", f"{len(data)} bytes up to ReadyForQuery")
    sock.sendall(b"X\0\0\0\4")
    sock.recv(1)
    sock.close()


def _cancel(sock_port: int, key: bytes) -> None:
    sock = socket.create_connection(("127.0.0.1", sock_port))
    body = struct.pack("!i", 80877102) + key
    sock.sendall(struct.pack("!i", len(body) + 4) + body)
    sock.recv(1)
    sock.close()


def _protocol_32(stage: Stage) -> None:
    with stage.connect(max_protocol_version="3.2") as connection:
        version = connection.pgconn.full_protocol_version
        stage.did("connect with max_protocol_version=3.2", version)
        stage.did("SELECT 32", connection.execute("SELECT 32").fetchall())
        connection.cancel_safe()
        stage.did("CancelRequest with the long key while idle")
    client = Client(
        "127.0.0.1", stage.server.port, {"user": "postgres", "database": "postgres"}, 196610
    )
    stage.did("raw client with protocol 3.2: length of the cancel key", len(client.key))
    client.send("Q", b"SELECT pg_sleep(30)\0")
    while not stage.server.active("SELECT pg_sleep(30)"):
        pass
    _cancel(stage.server.port, struct.pack("!i", client.pid) + client.key)
    try:
        client.until_ready()
    except ServerError as error:
        stage.did("pg_sleep cancelled by a CancelRequest", error.fields)
    client.close()


def _negotiate(stage: Stage) -> None:
    if stage.server.major >= 11:
        with stage.connect(max_protocol_version="3.2") as connection:
            version = connection.pgconn.full_protocol_version
            stage.did("libpq asks for 3.2", version)
            stage.did("SELECT 17", connection.execute("SELECT 17").fetchall())
    parameters = {"user": "postgres", "database": "postgres", "_pq_.test_protocol": "yes",
                  "_pq_.other": "1"}  # fmt: skip
    client = Client("127.0.0.1", stage.server.port, parameters, 3 << 16 | 9999)
    stage.did("raw client asks for 3.9999 with two _pq_ options", client.negotiated)
    client.query("SELECT 1")
    client.close()


def _one(method: str, user: str = "ada") -> tuple[str, ...]:
    return (f"host all {user} all {method}",)


SCENARIOS = {
    "login-scram": Scenario(
        "SCRAM-SHA-256, right and wrong password", "16", _login, _users,
        settings={"password_encryption": "scram-sha-256"}, hba=_one("scram-sha-256"),
    ),
    "login-md5": Scenario(
        "md5, right and wrong password", "13", _login, _users,
        settings={"password_encryption": "md5"}, hba=_one("md5"),
    ),
    "login-cleartext": Scenario(
        "password in clear text, right and wrong", "18", _login, _users, hba=_one("password"),
    ),
    "login-refused": Scenario(
        "refusals: unknown database, user without a line in pg_hba.conf, no password, protocol 2.0, HTTP",
        "18", _refusals, _users, hba=(*_one("scram-sha-256"), *_one("trust", "postgres")),
    ),
    "ssl-refused": Scenario(
        "SSLRequest and GSSENCRequest answered with N by a server without TLS", "15", _requests,
    ),
    "protocol-3.2": Scenario(
        "protocol 3.2 with its long cancel key, CancelRequest", "18", _protocol_32,
    ),
    "negotiate-17": Scenario(
        "NegotiateProtocolVersion: libpq asks 17 for 3.2, a raw client for 3.9999 with options",
        "17", _negotiate,
    ),
    "negotiate-18": Scenario(
        "NegotiateProtocolVersion of 18 for a request of 3.9999", "18", _negotiate,
    ),
}  # fmt: skip
