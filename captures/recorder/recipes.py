"""The captures of replication: which server, which options, which sections of the workload."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import schema, truth, workload
from .servers import Server, running
from .sniff import LostError, ethernet_sized_segments, sniffing
from .wire import Client, Replication
from .workload import Run, Section

SLOT = "captured"
TRUTH_SLOT = "truth"


@dataclass(frozen=True)
class Recipe:
    """One capture: a server of a major, the options of START_REPLICATION, and what is changed."""

    about: str
    major: str
    options: dict[str, str]
    sections: tuple[Section, ...]
    """run before the walsender starts"""
    live: tuple[Section, ...] = ()
    """run while it streams"""
    port: int = 0
    host: str = "127.0.0.1"
    interface: str = "lo"
    tcpdump: tuple[str, ...] = ()
    ethernet: bool = False
    client_encoding: str = ""
    settings: dict[str, str] = field(default_factory=dict)


W = workload
COMMON = (W.basics, W.types, W.partitions, W.savepoints, W.origin, W.ddl)
STREAMS = (W.messages, W.truncates, W.streams)


def _options(version: int, **more: str) -> dict[str, str]:
    return {"proto_version": str(version), "publication_names": "pub,pub_root", **more}


RECIPES: dict[str, Recipe] = {
    "pg10-proto1": Recipe(
        "protocol 1 on the first release that has pgoutput; Linux cooked capture (SLL)",
        "10", _options(1), (*COMMON, W.large),
        interface="any", tcpdump=("-y", "LINUX_SLL"),
    ),
    "pg11-small": Recipe(
        "protocol 1: Truncate is new in 11; times in nanoseconds",
        "11", _options(1), (W.basics, W.partitions, W.truncates, W.ddl),
        tcpdump=("--time-stamp-precision=nano",),
    ),
    "pg12-latin1": Recipe(
        "protocol 1, client_encoding LATIN1: names and values in it, generated columns not sent",
        "12", _options(1), (W.latin, W.savepoints, W.origin), client_encoding="LATIN1",
    ),
    "pg13-small": Recipe(
        "protocol 1: partitions published as their root",
        "13", _options(1), (W.basics, W.partitions, W.truncates, W.savepoints),
    ),
    "pg14-proto2": Recipe(
        "protocol 2: streaming on, messages",
        "14", _options(2, messages="true", streaming="on"), COMMON + STREAMS,
        (W.streamed_aborts,),
    ),
    "pg15-proto3": Recipe(
        "protocol 3: streaming on and two-phase, over IPv6",
        "15", _options(3, messages="true", streaming="on", two_phase="on"), COMMON + STREAMS,
        (W.two_phase, W.streamed_two_phase, W.streamed_aborts), host="::1",
    ),
    "pg16-proto4": Recipe(
        "protocol 4: streaming parallel and two-phase; captured on all interfaces (SLL2)",
        "16",
        _options(4, messages="true", streaming="parallel", two_phase="on", origin="any"),
        COMMON + STREAMS, (W.two_phase, W.streamed_two_phase, W.streamed_aborts),
        interface="any", tcpdump=("-y", "LINUX_SLL2"),
    ),
    "pg17-proto4-binary": Recipe(
        "protocol 4 with binary values, streaming parallel; segments of 1448 bytes",
        "17", _options(4, binary="true", messages="true", streaming="parallel"),
        COMMON + STREAMS + (W.big_stream,), (W.streamed_aborts,), ethernet=True,
    ),
    "pg18-proto1": Recipe(
        "protocol 1 on 18: generated columns are sent, and a Stream Abort that nobody asked for",
        "18", _options(1, messages="true"), (*COMMON, W.messages, W.truncates, W.large),
    ),
    "pg18-proto4": Recipe(
        "protocol 4: streaming parallel and two-phase; segments of 1448 bytes",
        "18", _options(4, messages="true", streaming="parallel", two_phase="on"),
        COMMON + STREAMS + (W.big_stream,),
        (W.two_phase, W.streamed_two_phase, W.streamed_aborts), port=5432, ethernet=True,
    ),
}  # fmt: skip


def option_list(options: dict[str, str]) -> str:
    """Options as START_REPLICATION takes them."""
    return ", ".join(f"\"{k}\" '{v}'" for k, v in options.items())


def _create_slots(server: Server, admin: Client, options: dict[str, str]) -> None:
    two_phase = options.get("two_phase") in ("on", "true")
    extra = ", false, true" if two_phase else ""
    for slot in (SLOT, TRUTH_SLOT):
        admin.query(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput'{extra})")


def record(name: str, out: Path, cache: Path, attempts: int = 4) -> None:
    """Record one capture, its truth and its description into ``out``; retry until they agree."""
    record_recipe(name, RECIPES[name], out, cache, attempts)


def record_recipe(name: str, recipe: Recipe, out: Path, cache: Path, attempts: int = 4) -> None:
    """Record a recipe that need not be in RECIPES, under any name; see record()."""
    for attempt in range(1, attempts + 1):
        try:
            with contextlib.ExitStack() as stack:
                if recipe.ethernet:
                    stack.enter_context(ethernet_sized_segments())
                _record(name, recipe, out, cache)
            return
        except (truth.MismatchError, LostError) as error:
            print(f"{name}: attempt {attempt}: {error}", file=sys.stderr)
            if attempt == attempts:
                raise


def _record(name: str, recipe: Recipe, out: Path, cache: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(recipe.major, cache, recipe.settings, recipe.port) as server,
    ):
        path = Path(folder) / f"{name}.pcap"
        peeks: list[list[truth.Row]] = []
        encoding = recipe.client_encoding or "UTF8"
        admin = server.connect()
        peeker = server.connect(client_encoding=encoding)  # names and values are sent in it

        def peek_now() -> None:
            peeks.append(truth.peek(peeker, TRUTH_SLOT, recipe.options))

        run = Run(server, SLOT, peek_now)
        schema.create(run.admin, run.major)
        _create_slots(server, admin, recipe.options)
        run.snapshot()
        for section in recipe.sections:
            section(run)
        with sniffing(path, server.port, *recipe.tcpdump, interface=recipe.interface):
            parameters = {"user": "postgres", "database": "postgres", "replication": "database",
                          "application_name": f"record {name}"}  # fmt: skip
            if recipe.client_encoding:
                parameters["client_encoding"] = recipe.client_encoding
            client = Client(recipe.host, server.port, parameters)
            client.query("IDENTIFY_SYSTEM")
            command = f"START_REPLICATION SLOT {SLOT} LOGICAL 0/0 ({option_list(recipe.options)})"
            stream = Replication(client, command)
            run.live = True
            run.sync()
            for section in recipe.live:
                section(run)
                run.sync()
            stream.hot_standby_feedback()
            time.sleep(0.3)
            wire = stream.finish()
            client.close()
        final = truth.peek(peeker, TRUTH_SLOT, recipe.options)
        rows, sources = truth.compare(wire, final, peeks)
        run.snapshot()
        data = [m for _, _, m in wire]
        description = {
            "about": recipe.about,
            "recorded_by": f"python captures/record.py {name}",
            "server_version": admin.value("SHOW server_version"),
            "port": server.port,
            "options": recipe.options,
            "client_encoding": encoding,
            "sections": {s.__name__: s.__doc__ for s in recipe.sections + recipe.live},
            "xlogdata": len(wire),
            "truth_sources": dict(sources),
            **truth.contents(data),
            "relations": run.snapshots,
            "types": truth.custom_types(admin),
            "tables": truth.final_tables(admin),
        }
        (out / path.name).write_bytes(path.read_bytes())
        run.close()
        peeker.close()
        admin.close()
    truth.write_truth(out / f"{name}.truth.jsonl.gz", rows)
    truth.write_description(out / f"{name}.json", description)
    print(f"{name}: {len(wire)} messages equal the server's own list {dict(sources)}")
