"""What a capture holds, counted from the index alone; only for where replication stood at the end are a
few messages opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .changes import subxid_reader
from .display import lsn
from .findings import Severity
from .pieces import Marker
from .records import dumps, json_text
from .rows import DIRECTIONS
from .standing import Reaching, standing, told_of
from .text import visible
from .times import iso_time
from .transactions import transactions
from .view import Capture

Array = NDArray[Any]


class Watch:
    """Counts the rows of a capture's index, also while it grows."""

    def __init__(self, capture: Capture) -> None:
        self.index = capture.index
        self.marker, self.reaching = Marker(capture.index), Reaching(capture)
        self.span: tuple[int, int] | None = None
        self._done = 0
        self._counts: dict[str, tuple[Array, Array]] = {}

    def feed(self) -> None:
        """Look at the rows that came since the last time."""
        self.marker.feed()
        self.reaching.feed()
        names = ("path", "direction", "relation")
        parts = self.index.rows.parts(*names, "length", "time", start=self._done)
        for start, (*keys, length, time) in parts:
            self._done = start + len(length)
            size = length.astype(np.float64)  # exact: a block has less than 2**53 bytes
            for name, column in zip(names, keys, strict=True):
                self._add(name, column, size)
            low, high = int(time.min()), int(time.max())
            self.span = min(low, *(self.span or (low,))), max(high, *(self.span or (high,)))

    def _add(self, name: str, keys: Array, size: Array) -> None:
        """Messages and bytes by key."""
        counts = np.bincount(keys)
        sums = np.bincount(keys, weights=size).astype(np.int64)
        known = self._counts.get(name)
        if known is None:
            known = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if len(known[0]) < len(counts):
            more = max(len(counts), 2 * len(known[0])) - len(known[0])
            known = np.pad(known[0], (0, more)), np.pad(known[1], (0, more))
        known[0][: len(counts)] += counts
        known[1][: len(sums)] += sums
        self._counts[name] = known

    def by(self, name: str) -> Iterator[tuple[int, dict[str, int]]]:
        """(key, messages and bytes) for every key in the column `name`."""
        if name in self._counts:
            counts, sums = self._counts[name]
            for i in np.flatnonzero(counts).tolist():
                yield i, {"messages": int(counts[i]), "bytes": int(sums[i])}


def statistics(capture: Capture, watch: Watch | None = None) -> dict[str, Any]:
    """Counts by name: files, packets, connections, messages and bytes by kind, direction and relation,
    the time span, findings by severity. watch: has counted the rows that came so far."""
    watch = watch or Watch(capture)
    watch.feed()
    index = capture.index
    rows, tables = index.rows, index.tables
    kinds = [{"message": list(tables.paths[i]), **counted} for i, counted in watch.by("path")]
    sides = [{"direction": DIRECTIONS[i], **counted} for i, counted in watch.by("direction")]
    span = {}
    if watch.span:
        first, last = watch.span
        digits = _digits(capture)
        span = {
            "first": iso_time(first, digits),
            "last": iso_time(last, digits),
            "nanoseconds": last - first,
        }
    return {
        "files": [
            {"name": s.label, "kind": s.kind, "compression": s.compression, "bytes": s.size}
            for s in capture.files.sources
        ],
        "packets": index.facts.get("packets", 0),
        "tcp_segments": index.facts.get("segments", 0),
        "connections": len(index.connections),
        "postgresql_connections": sum(1 for c in index.connections.values() if c.postgres),
        "messages": len(rows),
        "bytes": sum(side["bytes"] for side in sides),
        "time": span,
        "kinds": sorted(kinds, key=lambda k: (-k["messages"], k["message"])),
        "directions": sides,
        "sessions": _sessions(capture),
        "replication": _replication(capture, watch),
        "relations": _relations(capture, watch),
        "findings": _findings(capture),
    }


def _digits(capture: Capture) -> int:
    """Decimals of times: as many as the finest of the files has."""
    return max((face.digits for face in capture.files.interfaces), default=9)


MOST_SESSIONS = 1000
"""Connections that are told of by themselves."""

TOLD = ("release", "user", "database", "slot", "encryption", "authentication")
"""Facts of a session that its line names; cancellations come after them. The JSON has all."""


def _sessions(capture: Capture) -> list[dict[str, Any]]:
    """What each PostgreSQL connection learned about itself."""
    infos = capture.index.connections
    known = [infos[n] for n in sorted(infos) if infos[n].postgres]
    return [
        {
            "connection": info.number,
            "client": json_text(info.frontend),
            "server": json_text(info.backend),
            **{name: json_text(str(value)) for name, value in info.header.items()},
        }
        for info in known[:MOST_SESSIONS]
    ]


def _session_lines(sessions: list[dict[str, Any]], total: int) -> Iterator[str]:
    """One line a connection: ends, then what is known of it."""
    if sessions:
        yield "\nconnection"
    for each in sessions:
        facts = [f"{name} {each[name]}" for name in TOLD if name in each]
        facts += [
            f"{name.replace('_', ' ')} {value}"
            for name, value in each.items()
            if name.startswith("cancel")
        ]
        ends = f"{each['client']} → {each['server']}"
        yield f"  {each['connection']:<4} {visible(ends)}  {visible(', '.join(facts))}"
    if total > len(sessions):
        yield f"  and {total - len(sessions):,} more"


MOST_STANDINGS = 100
"""Replication connections whose end is told of."""


def _replication(capture: Capture, watch: Watch) -> list[dict[str, Any]]:
    """Where each replication connection stood at the end: LSNs as text, first_unconfirmed an xid."""
    found = []
    streams = list(watch.reaching.found().items())[:MOST_STANDINGS]
    table = None
    if streams:
        table = transactions(capture.index, subxid_reader(capture), watch.marker.marked())
    for stream, reached in streams:
        at = standing(capture, stream, table, reached)
        if at is None:
            continue
        slot = capture.index.connections[stream].header.get("slot", "")
        told: dict[str, Any] = {
            "connection": stream,
            "slot": json_text(str(slot)),
            "sent_lsn": lsn(at.told),
        }
        if at.confirmed_in:
            told |= {f"{n}_lsn": lsn(getattr(at, n)) for n in ("written", "flushed", "applied")}
            told |= {
                "confirmed_in": at.confirmed_in,
                "confirmed_at": iso_time(at.confirmed_at, _digits(capture)),
            }
        told |= {"behind_bytes": at.behind, "unconfirmed_transactions": at.waiting}
        told["first_unconfirmed_xid"] = at.first.xid if at.first else None
        told["open_xid"] = at.open.xid if at.open else None
        found.append({**told, "lines": told_of(at)})
    return found


def _relations(capture: Capture, watch: Watch) -> list[dict[str, Any]]:
    """Messages and bytes by relation name; a Truncate counts for each relation of its list."""
    schemas = capture.index.tables.schemas
    totals: dict[str, list[int]] = {}
    for i, counted in watch.by("relation"):
        schema = schemas[i]
        members = [schemas[n] for n in schema.members] if schema.kind == "relations" else [schema]
        for name in {m.full_name for m in members if m.kind == "relation"}:
            total = totals.setdefault(name, [0, 0])
            total[0] += counted["messages"]
            total[1] += counted["bytes"]
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        {"relation": json_text(name), "messages": n, "bytes": size} for name, (n, size) in ordered
    ]


def _findings(capture: Capture) -> dict[str, int]:
    """Messages by their worst severity, and the files' and connections' own findings."""
    counts = np.zeros(4, np.int64)
    for _, (severities,) in capture.index.rows.parts("severity"):
        counts += np.bincount(severities, minlength=4)
    named = {s.name.lower(): int(counts[s]) for s in Severity}
    others = [f for c in capture.index.connections.values() for f in c.found]
    for each in [*capture.index.file_findings, *others]:
        named[each.severity.name.lower()] += 1
    return named


def write_stats(capture: Capture, out: IO[str], as_json: bool) -> None:
    """Print the statistics of `capture` for people, or as one JSON object."""
    watch = Watch(capture)
    for _ in capture.batches():
        watch.feed()
    found = statistics(capture, watch)
    if as_json:
        for each in found["replication"]:
            del each["lines"]
        out.write(dumps(found) + "\n")
        return
    out.writelines(line + "\n" for line in _lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for file in found["files"]:
        packed = f", {file['compression']}" if file["compression"] else ""
        yield f"file         {file['name']}  ({file['kind']}{packed}, {file['bytes']:,} bytes)"
    yield f"packets      {found['packets']:,}  ({found['tcp_segments']:,} TCP segments)"
    yield (
        f"connections  {found['connections']:,}  ({found['postgresql_connections']:,} PostgreSQL)"
    )
    yield f"messages     {found['messages']:,}  ({found['bytes']:,} bytes)"
    if found["time"]:
        yield f"time         {found['time']['first']} to {found['time']['last']}"
    severities = ", ".join(f"{n:,} {name}" for name, n in found["findings"].items())
    yield f"findings     {severities}"
    yield from _session_lines(found["sessions"], found["postgresql_connections"])
    for each in found["replication"]:
        slot = f", slot {visible(each['slot'])}" if each["slot"] else ""
        yield f"\nreplication  connection {each['connection']}{slot}"
        yield from (f"  {name:<32} {text}" for name, text in each["lines"].items())
    for title, key, name in (
        ("message", "kinds", "message"),
        ("direction", "directions", "direction"),
        ("relation", "relations", "relation"),
    ):
        if not found[key]:
            continue
        yield ""
        yield f"{'messages':>12} {'bytes':>15}  {title}"
        for entry in found[key]:
            label = entry[name]
            shown = " > ".join(label) if isinstance(label, list) else label
            yield f"{entry['messages']:>12,} {entry['bytes']:>15,}  {visible(shown)}"
