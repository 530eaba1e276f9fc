"""Conversations of a walsender: commands, physical streaming, base backups, other plug-ins."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from . import truth
from .conversation import Scenario, Stage
from .servers import RecorderError, Server
from .wire import Client, Replication, ServerError, error_fields, lsn_number, lsn_text


def tool(stage: Stage, name: str, *arguments: str, wait: bool = True) -> subprocess.Popen[str]:
    """Start a PostgreSQL client program of the system's against the server, over TCP."""
    path = shutil.which(name)
    if not path:
        raise RecorderError(f"{name} is not installed; install postgresql-client-15 or later")
    command = [path, "-h", "127.0.0.1", "-p", str(stage.server.port), "-U", "postgres", *arguments]
    env = {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable", "LC_ALL": "C"}
    process = subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if wait:
        _, errors = process.communicate(timeout=60)
        if process.returncode:
            raise RecorderError(f"{name}: {errors}")
    return process


@contextlib.contextmanager
def _running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()


def until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait until a condition holds; RecorderError after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RecorderError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.05)


def _small_table(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query("CREATE TABLE t (id integer PRIMARY KEY, word text)")
    admin.query("CREATE PUBLICATION pub FOR TABLE t")
    admin.close()


def _commands(stage: Stage) -> None:
    client = stage.raw(replication="database")
    major = stage.server.major
    commands = ["IDENTIFY_SYSTEM", "SHOW wal_level", "SELECT current_database()"]
    commands += ["CREATE_REPLICATION_SLOT phys PHYSICAL RESERVE_WAL"]
    if major >= 15:
        commands += ["READ_REPLICATION_SLOT phys"]
        commands += [
            "CREATE_REPLICATION_SLOT logi LOGICAL pgoutput (SNAPSHOT 'nothing', TWO_PHASE true)"
        ]
    else:
        commands += ["CREATE_REPLICATION_SLOT logi LOGICAL pgoutput NOEXPORT_SNAPSHOT"]
    if major >= 17:
        commands += ["ALTER_REPLICATION_SLOT logi (FAILOVER true)"]
    commands += ["CREATE_REPLICATION_SLOT temp TEMPORARY LOGICAL test_decoding", "NONSENSE"]
    commands += ["DROP_REPLICATION_SLOT phys", "TIMELINE_HISTORY 1"]
    for command in commands:
        _command(stage, client, command)
    options = "proto_version '1', publication_names 'pub'"
    start = "START_REPLICATION SLOT logi LOGICAL 0/0"
    for wrong in (
        f"{start} (proto_version '99', publication_names 'pub')",
        f"{start} (publication_names 'pub')",
        "START_REPLICATION SLOT no_such_slot LOGICAL 0/0",
    ):
        _start_wrong(stage, client, wrong)
    admin = stage.server.connect()
    command = f"{start} ({options})"
    admin.query("INSERT INTO t VALUES (1, 'streamed')")
    _stream_one(stage, client, command, "CopyDone of both sides")
    # A server's oddity: it takes this one for ended already.
    stream = Replication(client, command)
    stream.join(10)
    stage.did(command, stream.ended_by, note="second logical stream after CopyDone: ends at once")
    client.close()
    client = stage.raw(replication="database")
    admin.query("INSERT INTO t VALUES (2, 'streamed')")
    stream = Replication(client, command)
    admin.query("CHECKPOINT")
    until(lambda: any(m[2][:1] == b"C" for m in stream.messages), "a Commit")
    admin.query(f"SELECT pg_cancel_backend({client.pid})")
    stream.join(10)
    stage.did(command, str(stream.error), ended_by=stream.ended_by)
    client.sock.settimeout(10)
    client.until_ready()
    admin.query("INSERT INTO t VALUES (3, 'streamed after an error')")
    _stream_one(stage, client, command, "CopyDone of both sides, on the connection of the error")
    client.close()
    admin.close()


def _stream_one(stage: Stage, client: Client, command: str, ended: str) -> None:
    """Stream up to the first Commit, then end with CopyDone."""
    stream = Replication(client, command)
    admin = stage.server.connect()
    admin.query("CHECKPOINT")  # it logs the running transactions, which decoding may wait for
    admin.close()
    until(lambda: any(m[2][:1] == b"C" for m in stream.messages), "a Commit")
    messages = [data.hex() for _, _, data in stream.finish()]
    stage.did(command, messages, ended_by=ended)


def _command(stage: Stage, client: Client, command: str) -> None:
    try:
        results = client.query(command)
        stage.did(command, [{"columns": r.columns, "rows": r.rows, "tag": r.tag} for r in results])
    except ServerError as error:
        stage.did(command, error.fields)


def _start_wrong(stage: Stage, client: Client, command: str) -> None:
    client.send("Q", command.encode() + b"\0")
    both = False
    while True:
        tag, body = client.receive()
        both = both or tag == "W"
        if tag == "E":
            stage.did(command, error_fields(body), after_copy_both_response=both)
        if tag == "Z":
            return


def _fresh_segment(stage: Stage) -> None:
    """Let little WAL stand before the capture: receivers begin at the start of a segment."""
    _small_table(stage)
    admin = stage.server.connect()
    admin.query("SELECT pg_switch_wal()")
    admin.query("CHECKPOINT")
    admin.close()


def _some_wal(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query("INSERT INTO t SELECT g, 'word ' || g FROM generate_series(1, 30) g")
    admin.close()


def _physical(stage: Stage) -> None:
    client = stage.raw(replication="true")
    got = client.query("IDENTIFY_SYSTEM")[-1].rows
    stage.did("IDENTIFY_SYSTEM", got)
    start = str(got[0][2])
    admin = stage.server.connect()
    for number in (1, 2):
        command = f"START_REPLICATION PHYSICAL {start} TIMELINE 1"
        stream = Replication(client, command, interval=0.3)
        admin.query(
            f"INSERT INTO t SELECT g, 'w' || g FROM generate_series({number}0, {number}9) g"
        )
        end = admin.value("SELECT pg_current_wal_flush_lsn()")
        until(lambda s=stream, e=end: s.last_lsn >= lsn_number(e), "the end of WAL")  # type: ignore[misc]
        stream.hot_standby_feedback(0, 0)
        pieces = [[lsn_text(s), lsn_text(e), len(d)] for s, e, d in stream.finish()]
        stage.did(command, {"start": start, "end": end, "pieces": pieces})
        start = end
    client.close()
    admin.close()


def _recovering(server: Server) -> None:
    (server.data / "standby.signal").touch()
    server.own(server.data / "standby.signal")


def _promote(stage: Stage) -> None:
    admin = stage.server.connect()
    admin.query("SELECT pg_promote()")
    admin.query("CREATE TABLE t (id integer)")
    admin.close()


def _timeline(stage: Stage) -> None:
    client = stage.raw(replication="true")
    for command in ("IDENTIFY_SYSTEM", "TIMELINE_HISTORY 2", "SHOW wal_segment_size"):
        _command(stage, client, command)
    ended = lsn_number(str(client.query("TIMELINE_HISTORY 2")[-1].rows[0][1]).split()[1])
    command = f"START_REPLICATION PHYSICAL {lsn_text(ended - 200)} TIMELINE 1"
    stream = Replication(client, command)
    stream.join(10)
    rows = [r.rows for r in stream.results]
    stage.did(command, rows, ended_by="CopyDone of the server: the timeline ends here")
    client.close()


def _receivewal(stage: Stage) -> None:
    folder = stage.folder / "wal"
    folder.mkdir()
    admin = stage.server.connect()
    start = admin.value("SELECT pg_current_wal_lsn()")
    process = tool(
        stage, "pg_receivewal", "-D", str(folder), "-v", "-s", "1", "--synchronous",
        "--slot", "rw", "--if-not-exists", "--create-slot",
    )  # fmt: skip
    stage.did("pg_receivewal --create-slot --slot rw")
    with _running(tool(
        stage, "pg_receivewal", "-D", str(folder), "-v", "-s", "1", "--synchronous", "--slot", "rw",
        wait=False,
    )):  # fmt: skip
        query = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        until(lambda: admin.value(query) == "1", "streaming to pg_receivewal")
        _some_wal(stage)
        end = admin.value("SELECT pg_current_wal_lsn()")
        query = f"SELECT flush_lsn >= '{end}' FROM pg_stat_replication"
        until(lambda: admin.value(query) == "t", "pg_receivewal's flush")
    stage.did("pg_receivewal --slot rw", {"wal_before": start, "wal_after": end})
    admin.close()
    del process


def _standby(stage: Stage) -> None:
    """A hot standby made of the stopped primary's files, streaming with feedback."""
    primary = stage.server
    primary.stop()
    folder = stage.folder / "standby"
    folder.mkdir()
    stage.folder.chmod(0o755)
    standby = Server(str(primary.major), stage.cache, folder)
    shutil.copytree(primary.data, standby.data, symlinks=True)
    (standby.data / "standby.signal").touch()
    conninfo = (
        f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby "
        "sslmode=disable gssencmode=disable"
    )
    standby.configure({
        "primary_conninfo": conninfo, "hot_standby_feedback": "on",
        "wal_receiver_status_interval": "1",
    })  # fmt: skip
    standby.own(standby.data, 0o700)
    primary.start()
    admin = primary.connect()
    try:
        standby.start()
        streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        until(lambda: admin.value(streaming) == "1", "streaming to the standby")
        _some_wal(stage)
        reader = standby.connect()
        reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")  # its xmin is the feedback
        fed = "SELECT backend_xmin IS NOT NULL FROM pg_stat_replication"
        until(lambda: admin.value(fed) == "t", "hot standby feedback")
        end = admin.value("SELECT pg_current_wal_lsn()")
        replayed = f"SELECT replay_lsn >= '{end}' FROM pg_stat_replication"
        until(lambda: admin.value(replayed) == "t", "replay on the standby")
        reader.query("COMMIT")
        stage.did("standby replayed 30 rows", reader.value("SELECT count(*) FROM t"))
        reader.close()
    finally:
        standby.stop()
    admin.close()


def _test_decoding(stage: Stage) -> None:
    admin = stage.server.connect()
    common = ("-d", "postgres", "--slot", "td")
    tool(stage, "pg_recvlogical", *common, "--create-slot", "-P", "test_decoding")
    stage.did("pg_recvlogical --create-slot -P test_decoding")
    admin.query("SELECT pg_create_logical_replication_slot('truth', 'test_decoding')")
    admin.query("INSERT INTO t VALUES (1, 'für'), (2, NULL)")
    admin.query("UPDATE t SET word = 'it''s' WHERE id = 2")
    admin.query("BEGIN; DELETE FROM t WHERE id = 1; TRUNCATE t; COMMIT")
    end = admin.value("SELECT pg_current_wal_lsn()")
    output = stage.folder / "decoded"
    tool(
        stage, "pg_recvlogical", *common, "--start", "-f", str(output), "--endpos", end,
        "-o", "include-xids=1", "-o", "skip-empty-xacts=1",
    )  # fmt: skip
    stage.did("pg_recvlogical --start -o include-xids=1 -o skip-empty-xacts=1")
    rows = admin.rows(
        "SELECT lsn, xid, data FROM pg_logical_slot_peek_changes('truth', NULL, NULL, "
        "'include-xids', '1', 'skip-empty-xacts', '1')"
    )
    if [r[2] for r in rows] != output.read_text().splitlines():
        raise RecorderError("pg_recvlogical and the server's own list differ")
    stage.facts["rows"] = [list(r) for r in rows]
    admin.close()


def _psycopg2(stage: Stage) -> None:
    """psycopg2's replication cursor, which waits with select() and confirms what it consumed."""
    try:
        import psycopg2.extras  # type: ignore[import-untyped]
    except ImportError:
        hint = f"{sys.executable} -m pip install psycopg2-binary"
        raise RecorderError(f"this capture needs psycopg2; try: {hint}") from None
    admin = stage.server.connect()
    options = {"proto_version": "1", "publication_names": "pub"}
    connection = psycopg2.connect(
        host="127.0.0.1", port=stage.server.port, user="postgres", dbname="postgres",
        sslmode="disable", gssencmode="disable", application_name="psycopg2",
        connection_factory=psycopg2.extras.LogicalReplicationConnection,
    )  # fmt: skip
    cursor = connection.cursor()
    cursor.create_replication_slot("ps2", output_plugin="pgoutput")
    stage.did("create_replication_slot ps2")
    admin.query("SELECT pg_create_logical_replication_slot('truth', 'pgoutput')")
    admin.query("INSERT INTO t VALUES (1, 'psycopg2'), (2, 'zwei')")
    admin.query("UPDATE t SET id = 3 WHERE id = 2")
    rows = truth.peek(admin, "truth", options)
    cursor.start_replication("ps2", decode=False, options=options, status_interval=1)
    got: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(got) < len(rows) and time.monotonic() < deadline:
        message = cursor.read_message()
        if message is None:
            time.sleep(0.02)
            continue
        got.append(bytes(message.payload))
        cursor.send_feedback(flush_lsn=message.wal_end, reply=True, force=True)
    connection.close()
    admin.close()
    if got != [data for _, _, data in rows]:
        raise RecorderError("what psycopg2 received differs from the server's own list")
    stage.did("start_replication ps2", [m.hex() for m in got], ended_by="the connection's end")
    stage.facts["peek"] = [[lsn, xid, data.hex()] for lsn, xid, data in rows]


SMALL_WAL = {"full_page_writes": "off", "wal_level": "replica"}

SCENARIOS = {
    "walsender-commands": Scenario(
        "replication commands, refused START_REPLICATION, streams that end by CopyDone and by an error",
        "18", _commands, _small_table,
    ),
    "walsender-commands-10": Scenario(
        "replication commands as 10 knows them", "10", _commands, _small_table,
    ),
    "physical": Scenario(
        "physical streaming to a raw client, twice on one connection, with hot standby feedback",
        "17", _physical, _fresh_segment, settings=SMALL_WAL,
    ),
    "timeline": Scenario(
        "TIMELINE_HISTORY, and a physical stream that the server ends where the timeline does",
        "17", _timeline, _promote, prepare=_recovering, settings={"wal_level": "replica"},
    ),
    "receivewal": Scenario(
        "physical streaming to pg_receivewal with a slot", "15", _receivewal, _fresh_segment,
        settings=SMALL_WAL,
    ),
    "standby": Scenario(
        "physical streaming to a hot standby that sends feedback; it is stopped at the end",
        "16", _standby, _fresh_segment, settings=SMALL_WAL,
    ),
    "psycopg2": Scenario(
        "pgoutput to psycopg2's replication cursor, which just leaves at the end", "15",
        _psycopg2, _small_table,
    ),
    "test-decoding": Scenario(
        "logical streaming with the plug-in test_decoding to pg_recvlogical", "15", _test_decoding,
        _small_table,
    ),
}  # fmt: skip
