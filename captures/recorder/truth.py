"""What the server says about a recording, and the comparison of the wire with it."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from pathlib import Path

from .wire import Client, lsn_number, lsn_text

Row = tuple[str, str, bytes]
"""LSN and xid as the server prints them, and the data of one pgoutput message."""

NAMES = {
    "B": "Begin", "M": "Message", "C": "Commit", "O": "Origin", "R": "Relation", "Y": "Type",
    "I": "Insert", "U": "Update", "D": "Delete", "T": "Truncate", "S": "Stream Start",
    "E": "Stream Stop", "c": "Stream Commit", "A": "Stream Abort", "b": "Begin Prepare",
    "P": "Prepare", "K": "Commit Prepared", "r": "Rollback Prepared", "p": "Stream Prepare",
}  # fmt: skip


class MismatchError(Exception):
    """The wire and the server's own list differ."""


def peek(client: Client, slot: str, options: dict[str, str]) -> list[Row]:
    """The rows of pg_logical_slot_peek_binary_changes, with the options of START_REPLICATION."""
    listed = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
    rows = client.rows(
        "SELECT lsn, xid, encode(data, 'hex') FROM "
        f"pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, {listed})"
    )
    return [(str(lsn), str(xid), bytes.fromhex(str(data))) for lsn, xid, data in rows]


def stream_blocks(data: list[bytes]) -> list[tuple[int | None, bytes]]:
    """Each message with the xid of the stream block it stands in, or None outside of one."""
    out: list[tuple[int | None, bytes]] = []
    inside: int | None = None
    for message in data:
        tag = message[:1]
        if tag == b"S":
            (inside,) = struct.unpack_from("!I", message, 1)
        out.append((inside, message))
        if tag == b"E":
            inside = None
    return out


def owners(data: list[bytes], wanted: set[int]) -> list[int | None]:
    """For each message the transaction of ``wanted`` that it belongs to (not its end), or None."""
    out: list[int | None] = []
    prepared: int | None = None
    for inside, message in stream_blocks(data):
        tag = message[:1]
        xid = inside
        if tag == b"b":
            (prepared,) = struct.unpack_from("!I", message, 25)
        if prepared is not None:
            xid = prepared
        if tag == b"p":
            (xid,) = struct.unpack_from("!I", message, 26)
        if tag == b"P":
            prepared = None
        out.append(xid if xid in wanted else None)
    return out


def compare(
    wire: list[tuple[int, int, bytes]], final: list[Row], before: list[list[Row]]
) -> tuple[list[dict[str, str]], Counter[str]]:
    """Compare the wire with the peeked rows, byte for byte and in order; return the truth's rows.

    A transaction that was streamed and then rolled back is streamed to a walsender while it is
    open, but a peek after its end leaves (part of) it out. Its messages are compared with the
    peek made before it was rolled back instead ("open" in the row's source). Where such a peek has
    no Stream Abort for it, that message alone is the walsender's word ("walsender").

    Raises MismatchError at the first difference.
    """
    data = [m for _, _, m in wire]
    streamed = {struct.unpack_from("!I", m, 1)[0] for m in data if m[:1] == b"S"}
    gone = {struct.unpack_from("!I", m, 1)[0] for m in data if m[:1] == b"A" and m[1:5] == m[5:9]}
    gone |= {struct.unpack_from("!I", m, 34)[0] for m in data if m[:1] == b"r"}
    gone &= streamed
    opened: dict[int, list[Row]] = {}
    for rows in before:
        belongs = owners([r[2] for r in rows], gone)
        for xid in {x for x in belongs if x is not None}:
            its = [r for r, x in zip(rows, belongs, strict=True) if x == xid]
            if len(its) > len(opened.get(xid, ())):  # a peek after its end shows less of it
                opened[xid] = its
    if all(xid in opened for xid in gone):
        kept = owners([r[2] for r in final], gone)
        final = [r for r, x in zip(final, kept, strict=True) if x is None]
    else:
        gone = set()
    sources: Counter[str] = Counter()
    out: list[dict[str, str]] = []
    at = 0
    belongs = owners(data, gone)
    for number, ((start, _, message), owner) in enumerate(zip(wire, belongs, strict=True)):
        row = final[at] if at < len(final) else ("", "", b"")
        source = "peek"
        if owner is not None:
            row, source = (opened[owner].pop(0) if opened[owner] else row), "open"
        elif row[2] == message:
            at += 1
        elif message[:1] == b"A" and struct.unpack_from("!I", message, 1)[0] in gone:
            row = (lsn_text(start), str(struct.unpack_from("!I", message, 1)[0]), message)
            source = "walsender"
        if row[2] != message:
            raise MismatchError(
                f"message {number} is {message[:40].hex()} on the wire, {row[2][:40].hex()} "
                f"(row {at}) in the server's list"
            )
        if start and lsn_number(row[0]) != start:
            raise MismatchError(
                f"message {number} has LSN {lsn_text(start)}, the server says {row[0]}"
            )
        sources[source] += 1
        entry = {"lsn": row[0], "xid": row[1], "data": message.hex()}
        out.append(entry if source == "peek" else {**entry, "source": source})
    missing = len(final) - at + sum(len(opened[x]) for x in gone)
    if missing:
        raise MismatchError(f"the server lists {missing} messages more than the wire has")
    return out, sources


def tuple_kinds(message: bytes, in_stream: bool) -> list[str]:
    """The kinds of tuple parts and columns in an Insert, Update or Delete, such as K, N, Nt, Ou."""
    kinds = []
    at = 1 + (4 if in_stream else 0) + 4
    while at < len(message):
        part = chr(message[at])
        kinds.append(part)
        (count,) = struct.unpack_from("!h", message, at + 1)
        at += 3
        for _ in range(count):
            kind = chr(message[at])
            kinds.append(part + kind)
            at += 1
            if kind in "tb":
                at += 4 + struct.unpack_from("!i", message, at)[0]
    return kinds


def contents(data: list[bytes]) -> dict[str, dict[str, int]]:
    """How many of each message, and of each kind of tuple and column, a recording holds."""
    messages: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for inside, message in stream_blocks(data):
        tag = chr(message[0])
        messages[NAMES[tag]] += 1
        if inside is not None and tag not in "SE":
            messages["in a stream"] += 1
        if tag in "IUD":
            kinds.update(tuple_kinds(message, inside is not None))
    return {"messages": dict(sorted(messages.items())), "tuples": dict(sorted(kinds.items()))}


def catalog_relations(client: Client) -> list[dict[str, object]]:
    """How the catalog describes every ordinary or partitioned table of the user's."""
    rows = client.rows(
        "SELECT c.oid, n.nspname, c.relname, c.relreplident, a.attname, a.atttypid, a.atttypmod, "
        "format_type(a.atttypid, a.atttypmod), coalesce(c.relreplident = 'f' OR a.attnum = ANY ("
        "SELECT unnest(i.indkey) FROM pg_index i WHERE i.indrelid = c.oid AND CASE c.relreplident "
        "WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END), false), "
        "to_jsonb(a) ->> 'attgenerated' "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_attribute a "
        "ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' "
        "AND n.nspname <> 'information_schema' AND c.relname NOT IN ('filler', 'ballast') "
        "ORDER BY c.oid, a.attnum"
    )
    out: dict[str, dict[str, object]] = {}
    for oid, schema, name, identity, column, kind, typmod, text, key, generated in rows:
        relation = out.setdefault(
            str(oid),
            {"oid": int(str(oid)), "schema": schema, "name": name, "replica_identity": identity,
             "columns": []},
        )  # fmt: skip
        if column is not None:
            entry = {"name": column, "type_oid": int(str(kind)), "typmod": int(str(typmod)),
                     "type": text, "key": key == "t"}  # fmt: skip
            if generated:
                entry["generated"] = generated
            columns = relation["columns"]
            assert isinstance(columns, list)
            columns.append(entry)
    return list(out.values())


def custom_types(client: Client) -> list[dict[str, object]]:
    """OID, schema and name of each type that is not built in."""
    rows = client.rows(
        "SELECT t.oid, n.nspname, t.typname, t.typtype, t.typbasetype FROM pg_type t "
        "JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 16384 ORDER BY t.oid"
    )
    return [
        {"oid": int(str(oid)), "schema": schema, "name": name, "kind": kind,
         "base_oid": int(str(base))}
        for oid, schema, name, kind, base in rows
    ]  # fmt: skip


def final_tables(client: Client) -> dict[str, dict[str, object]]:
    """The rows of every table as SELECT shows them (text or None), for tables of up to 50 rows."""
    out: dict[str, dict[str, object]] = {}
    for relation in catalog_relations(client):
        name = f'"{relation["schema"]}"."{relation["name"]}"'
        if not relation["columns"]:
            continue
        result = client.query(f"SELECT * FROM {name} LIMIT 51")[-1]
        if result.rows and len(result.rows) <= 50:
            out[f"{relation['schema']}.{relation['name']}"] = {
                "columns": result.columns,
                "rows": result.rows,
            }
    return out


def write_description(path: Path, description: dict[str, object]) -> None:
    """Write JSON with one line for each entry of its lists and objects."""

    def flat(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = []
    for key, value in description.items():
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(flat(v) for v in value) + "\n ]"
        elif isinstance(value, dict) and value and len(flat(value)) > 90:
            lines = (f"{flat(k)}: {flat(v)}" for k, v in value.items())
            text = "{\n  " + ",\n  ".join(lines) + "\n }"
        else:
            text = flat(value)
        parts.append(f" {flat(key)}: {text}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def write_truth(path: Path, rows: list[dict[str, str]]) -> None:
    """Write JSON lines, compressed; the same rows give the same bytes."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
