"""Conversations of base backups."""

from __future__ import annotations

from .conversation import Scenario, Stage
from .servers import Server
from .talk_wal import tool
from .wire import Client, ServerError


def _base_backup(stage: Stage) -> None:
    target = stage.folder / "backup"
    arguments = ["-D", str(target), "-X", "none", "-c", "fast", "-l", "captured", "--no-slot"]
    arguments += ["-F", "t", "-P"]
    tool(stage, "pg_basebackup", *arguments)
    stage.did("pg_basebackup " + " ".join(arguments[2:]))
    stage.facts["files"] = {p.name: p.stat().st_size for p in sorted(target.iterdir())}


def _only_one_database(stage: Stage) -> None:
    admin = stage.server.connect("template1")
    admin.query("ALTER DATABASE template0 WITH IS_TEMPLATE false")
    admin.query("DROP DATABASE template0")
    admin.query("DROP DATABASE postgres")
    admin.close()


def _receive_backup(client: Client, command: str, stage: Stage) -> bytes:
    """Run BASE_BACKUP of 15 or later; note the archives' names and sizes, return the manifest."""
    client.send("Q", command.encode() + b"\0")
    manifest = bytearray()
    results: list[list[str | None]] = []
    archives: list[list[str]] = []
    sizes: list[int] = []
    inside = b""
    while True:
        tag, body = client.receive()
        if tag == "E":
            raise ServerError({"M": body.decode(errors="replace")}, command)
        if tag == "D":
            results.append(client._row(body))
        elif tag == "d" and body[:1] == b"n":
            name, where = body[1:].split(b"\0")[:2]
            archives.append([name.decode(), where.decode()])
            sizes.append(0)
            inside = b"n"
        elif tag == "d" and body[:1] == b"m":
            inside = b"m"
        elif tag == "d" and body[:1] == b"d" and inside == b"n":
            sizes[-1] += len(body) - 1
        elif tag == "d" and body[:1] == b"d":
            manifest += body[1:]
        elif tag == "Z":
            listed = [[*names, size] for names, size in zip(archives, sizes, strict=True)]
            stage.did(command, {"rows": results, "archives": listed, "manifest": len(manifest)})
            return bytes(manifest)


def _full_for_incremental(stage: Stage) -> None:
    _only_one_database(stage)
    client = Client(
        str(stage.server.folder), stage.server.port, {"user": "postgres", "replication": "true"}
    )
    command = (
        "BASE_BACKUP (LABEL 'full', CHECKPOINT 'fast', MANIFEST 'yes', MANIFEST_CHECKSUMS 'NONE')"
    )
    (stage.folder / "manifest").write_bytes(_receive_backup(client, command, stage))
    client.close()
    admin = stage.server.connect("template1")
    admin.query("CREATE TABLE t (id integer); INSERT INTO t VALUES (1); CHECKPOINT")
    admin.close()


def _incremental(stage: Stage) -> None:
    client = stage.raw(replication="true")
    client.send("Q", b"UPLOAD_MANIFEST\0")
    while client.receive()[0] != "G":
        pass
    manifest = (stage.folder / "manifest").read_bytes()
    for at in range(0, len(manifest), 16384):
        client.send("d", manifest[at : at + 16384])
    client.send("c")
    client.until_ready("UPLOAD_MANIFEST")
    stage.did("UPLOAD_MANIFEST", len(manifest))
    _receive_backup(
        client, "BASE_BACKUP (LABEL 'incremental', PROGRESS, CHECKPOINT 'fast', INCREMENTAL, "
        "MANIFEST 'yes', MANIFEST_CHECKSUMS 'NONE', COMPRESSION 'gzip', COMPRESSION_DETAIL 'level=9')", stage
    )  # fmt: skip
    client.close()


def _summarize(server: Server) -> None:
    server.configure({"summarize_wal": "on"})


SCENARIOS = {
    "base-backup-15": Scenario(
        "BASE_BACKUP by pg_basebackup, typed CopyData; the capture is cut after some 250 kB",
        "15", _base_backup, _only_one_database, cut=250_000,
    ),
    "base-backup-14": Scenario(
        "BASE_BACKUP by pg_basebackup, raw tar in CopyData; the capture is cut after some 150 kB",
        "14", _base_backup, _only_one_database, cut=150_000,
    ),
    "base-backup-incremental": Scenario(
        "UPLOAD_MANIFEST and an incremental BASE_BACKUP (gzip), complete, with manifest and progress",
        "18", _incremental, _full_for_incremental, prepare=_summarize,
    ),
}  # fmt: skip
