"""Captures of whole conversations: a scenario says which server it needs and what is done."""

from __future__ import annotations

import contextlib
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .servers import RecorderError, Server, running
from .sniff import LostError, ethernet_sized_segments, sniffing, write_pcapng
from .truth import write_description
from .wire import Client

if TYPE_CHECKING:
    import psycopg

FOLDER = "conversation"


@dataclass
class Stage:
    """What a scenario works with, and the journal of what it did and got."""

    server: Server
    folder: Path
    cache: Path
    steps: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def keylog(self) -> Path:
        """Where TLS clients write their secrets."""
        return self.folder / "keylog"

    def did(self, what: str, got: Any = None, **more: Any) -> None:
        """Note what was done, in order, and what the client got for it."""
        self.steps.append({"did": what, **({} if got is None else {"got": plain(got)}), **more})

    def connect(self, **parameters: Any) -> psycopg.Connection[Any]:
        """Connect with psycopg 3 (libpq) over TCP: no TLS, autocommit, unless told otherwise."""
        try:
            import psycopg
        except ImportError:
            hint = f"{sys.executable} -m pip install 'psycopg[binary]>=3.3'"
            raise RecorderError(f"conversations need psycopg; try: {hint}") from None
        chosen: dict[str, Any] = {
            "host": "127.0.0.1", "port": self.server.port, "user": "postgres",
            "dbname": "postgres", "sslmode": "disable", "gssencmode": "disable",
            "application_name": "talk", "autocommit": True,
        }  # fmt: skip
        return psycopg.connect(**{**chosen, **parameters})

    def refused(self, what: str, **parameters: Any) -> None:
        """Connect and note the error that must come."""
        import psycopg

        try:
            self.connect(**parameters).close()
        except psycopg.OperationalError as error:
            text = str(error).strip().replace(str(self.server.port), "PORT")
            self.did(what, text)
            return
        raise RecorderError(f"{what}: the server let the client in")

    def raw(self, **parameters: str) -> Client:
        """Connect with the recorder's own client over TCP."""
        chosen = {"user": "postgres", "database": "postgres"}
        return Client("127.0.0.1", self.server.port, {**chosen, **parameters})


@dataclass(frozen=True)
class Scenario:
    """A conversation: the server, how it is set up, what is done while it is captured."""

    about: str
    major: str
    run: Callable[[Stage], None]
    setup: Callable[[Stage], None] | None = None
    """after the server's start, before the capture"""
    prepare: Callable[[Server], None] | None = None
    """before the server's start"""
    settings: dict[str, str] = field(default_factory=dict)
    hba: tuple[str, ...] = ("host all all all trust", "host replication all all trust")
    interface: str = "lo"
    secrets: str = ""
    """where the TLS secrets go: "file" (NAME.keylog) or "block" (pcapng's)"""
    ethernet: bool = False
    """segments of 1448 bytes, as on Ethernet"""
    cut: int = 0
    """bytes after which the capture is cut; 0 keeps all"""


def plain(value: Any) -> Any:
    """A value as JSON can hold it: numbers, texts, None, lists and objects of these."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return str(value)


def _cut(path: Path, limit: int) -> int:
    """Cut a pcap file at a packet's end, near ``limit`` bytes; return what was cut off."""
    data = path.read_bytes()
    at = 24
    while at < min(limit, len(data)):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    path.write_bytes(data[:at])
    return len(data) - at


def record(name: str, scenario: Scenario, out: Path, cache: Path, attempts: int = 3) -> None:
    """Record a conversation into out/conversation, with its journal as NAME.json."""
    for attempt in range(1, attempts + 1):
        try:
            _record(name, scenario, out, cache)
            return
        except LostError as error:
            print(f"{name}: attempt {attempt}: {error}", file=sys.stderr)
            if attempt == attempts:
                raise


def _record(name: str, scenario: Scenario, out: Path, cache: Path) -> None:
    target = out / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(scenario.major, cache, scenario.settings, start=False) as server,
    ):
        server.hba(*scenario.hba)
        if scenario.prepare:
            scenario.prepare(server)
        server.start()
        stage = Stage(server, Path(folder), cache)
        if scenario.setup:
            scenario.setup(stage)
            stage.facts["before"], stage.steps = stage.steps, []
        raw = Path(folder) / f"{name}.pcap"
        with contextlib.ExitStack() as stack:
            if scenario.ethernet:
                stack.enter_context(ethernet_sized_segments())
            stack.enter_context(sniffing(raw, server.port, interface=scenario.interface))
            scenario.run(stage)
        facts: dict[str, Any] = {
            "about": scenario.about,
            "recorded_by": f"python captures/record.py {name}",
            "server_version": server.version(),
            "port": server.port,
        }
        if scenario.cut:
            facts["cut_bytes"] = _cut(raw, scenario.cut)
        if scenario.secrets == "block":
            write_pcapng(
                raw, target / f"{name}.pcapng", lambda *_: None, scenario.about,
                stage.keylog.read_bytes(),
            )  # fmt: skip
        else:
            (target / f"{name}.pcap").write_bytes(raw.read_bytes())
        if scenario.secrets == "file":
            (target / f"{name}.keylog").write_bytes(stage.keylog.read_bytes())
        write_description(target / f"{name}.json", {**facts, **stage.facts, "steps": stage.steps})
    print(f"{name}: {len(stage.steps)} steps")
