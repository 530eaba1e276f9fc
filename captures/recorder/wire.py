"""A small client of the PostgreSQL protocol: simple queries and replication, over a plain socket.

It sends exactly what it is told, so that a recording can use every option of START_REPLICATION.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field

EPOCH = 946684800
"""Unix time of 2000-01-01 UTC, the zero of the protocol's timestamps (microseconds)."""


class ServerError(Exception):
    """An ErrorResponse; ``fields`` maps its one-letter codes to texts."""

    def __init__(self, fields: dict[str, str], statement: str = "") -> None:
        super().__init__(f"{fields.get('C')} {fields.get('M')} {statement[:200]}".strip())
        self.fields = fields


@dataclass
class Result:
    """What one statement of a simple query gave: names, rows (text or None) and the tag."""

    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    tag: str = ""


def lsn_text(lsn: int) -> str:
    """An LSN as servers up to 18 print it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """The reverse of lsn_text."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def error_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse."""
    parts = [p.decode(errors="replace") for p in body.split(b"\0") if p]
    return {p[0]: p[1:] for p in parts}


def protocol_time() -> int:
    """Now, in the protocol's own count."""
    return time.time_ns() // 1000 - EPOCH * 1_000_000


class Client:
    """One connection; ``parameters`` go into StartupMessage in their order.

    A host that begins with a slash is the folder of the server's Unix socket.
    """

    def __init__(
        self, host: str, port: int, parameters: dict[str, str], version: int = 196608
    ) -> None:
        self.parameters: dict[str, str] = {}
        self.notices: list[dict[str, str]] = []
        self.pid, self.key = 0, b""
        self.negotiated: dict[str, object] = {}
        self.encoding = "utf-8"
        if host.startswith("/"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(60)
            self.sock.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.sock = socket.create_connection((host, port), timeout=60)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        pairs = b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in parameters.items())
        body = struct.pack("!i", version) + pairs + b"\0"
        self.sock.sendall(struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def send(self, tag: str, body: bytes = b"") -> None:
        """Send one message."""
        self.sock.sendall(tag.encode() + struct.pack("!i", len(body) + 4) + body)

    def _fill(self, count: int) -> None:
        while len(self.buffer) < count:
            data = self.sock.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.buffer += data

    def receive(self) -> tuple[str, bytes]:
        """Receive one message: its tag and body. A timeout loses nothing."""
        self._fill(5)
        (length,) = struct.unpack_from("!i", self.buffer, 1)
        self._fill(length + 1)
        message, self.buffer = self.buffer[: length + 1], self.buffer[length + 1 :]
        return chr(message[0]), message[5:]

    def until_ready(self, statement: str = "") -> list[Result]:
        """Read up to ReadyForQuery; return the results, raise ServerError if there was one."""
        results = [Result()]
        error: dict[str, str] | None = None
        while True:
            tag, body = self.receive()
            if tag == "T":
                results[-1].columns = self._columns(body)
            elif tag == "D":
                results[-1].rows.append(self._row(body))
            elif tag == "C":
                results[-1].tag = body[:-1].decode()
                results.append(Result())
            elif tag == "E":
                error = error_fields(body)
                if error.get("S") == "FATAL":
                    raise ServerError(error, statement)
            elif tag == "N":
                self.notices.append(error_fields(body))
            elif tag == "S":
                name, value = body[:-1].split(b"\0")
                self.parameters[name.decode()] = value.decode()
            elif tag == "K":
                self.pid, self.key = struct.unpack_from("!i", body)[0], body[4:]
            elif tag == "v":
                version, count = struct.unpack_from("!ii", body)
                names = [n.decode() for n in body[8:].split(b"\0")[:count]]
                self.negotiated = {"version": version, "unknown": names}
            elif tag == "Z":
                if error is not None:
                    raise ServerError(error, statement)
                return results[:-1]

    def _columns(self, body: bytes) -> list[str]:
        (count,) = struct.unpack_from("!h", body)
        names, at = [], 2
        for _ in range(count):
            end = body.index(b"\0", at)
            names.append(body[at:end].decode(self.encoding, "replace"))
            at = end + 19
        return names

    def _row(self, body: bytes) -> list[str | None]:
        (count,) = struct.unpack_from("!h", body)
        row: list[str | None] = []
        at = 2
        for _ in range(count):
            (length,) = struct.unpack_from("!i", body, at)
            at += 4
            if length < 0:
                row.append(None)
            else:
                row.append(body[at : at + length].decode(self.encoding, "replace"))
                at += length
        return row

    def query(self, sql: str) -> list[Result]:
        """Run a simple query (one or more statements)."""
        self.send("Q", sql.encode(self.encoding) + b"\0")
        return self.until_ready(sql)

    def rows(self, sql: str) -> list[list[str | None]]:
        """The rows of a query."""
        return self.query(sql)[-1].rows

    def value(self, sql: str) -> str:
        """The single value of a query."""
        return str(self.rows(sql)[0][0])

    def close(self) -> None:
        """Say Terminate, wait for the server's FIN, close."""
        try:
            self.send("X")
            self.sock.settimeout(2)
            while self.sock.recv(1 << 16):
                pass
        except OSError:
            pass
        finally:
            self.sock.close()


class Replication(threading.Thread):
    """Streams from START_REPLICATION until told to stop; keeps every XLogData in order.

    ``messages`` holds (WAL start, WAL end, data). Feedback is sent when asked for, and every
    ``interval`` seconds.
    """

    def __init__(self, client: Client, command: str, interval: float = 2.0) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.interval = interval
        self.messages: list[tuple[int, int, bytes]] = []
        self.keepalives = 0
        self.ended_by = ""
        self.results: list[Result] = []
        self.last_lsn = 0
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        client.send("Q", command.encode() + b"\0")
        while True:
            tag, body = client.receive()
            if tag == "W":
                break
            if tag == "E":
                raise ServerError(error_fields(body), command)
        self.start()

    def status(self, reply: bool = False) -> None:
        """Send a Standby status update: all received is written, flushed and applied."""
        lsn = self.last_lsn
        body = struct.pack("!cQQQqB", b"r", lsn, lsn, lsn, protocol_time(), reply)
        self.client.send("d", body)

    def hot_standby_feedback(self, xmin: int = 0, catalog_xmin: int = 0) -> None:
        """Send a Hot standby feedback message (epochs 0)."""
        body = struct.pack("!cqIIII", b"h", protocol_time(), xmin, 0, catalog_xmin, 0)
        self.client.send("d", body)

    def run(self) -> None:
        """The receiving loop; ends after the server's CopyDone or an error."""
        try:
            self._loop()
        except BaseException as error:  # handed to the main thread by finish()
            self.error = error

    def _loop(self) -> None:
        done = False
        self.client.sock.settimeout(0.05)
        last_status = time.monotonic()
        while True:
            if self.stopping.is_set() and not done:
                self.status()
                self.client.send("c")
                done = True
            if not done and time.monotonic() - last_status > self.interval:
                self.status()
                last_status = time.monotonic()
            try:
                tag, body = self.client.receive()
            except TimeoutError:
                continue
            if tag == "d" and body[:1] == b"w":
                start, end, _ = struct.unpack_from("!QQq", body, 1)
                self.messages.append((start, end, body[25:]))
                self.last_lsn = max(self.last_lsn, end)
            elif tag == "d" and body[:1] == b"k":
                end, _, reply = struct.unpack_from("!QqB", body, 1)
                self.keepalives += 1
                self.last_lsn = max(self.last_lsn, end)
                if reply and not done:
                    self.status()
            elif tag == "E":
                self.ended_by = "ErrorResponse"
                raise ServerError(error_fields(body))
            elif tag in "cC":
                self.ended_by = "CopyDone" if tag == "c" else "CommandComplete"
                self.client.sock.settimeout(60)
                if tag == "c" and not done:
                    self.client.send("c")
                self.results = self.client.until_ready()
                return

    def finish(self) -> list[tuple[int, int, bytes]]:
        """End COPY BOTH from the client's side; return all messages."""
        self.stopping.set()
        self.join(60)
        if self.error is not None:
            raise self.error
        return self.messages
