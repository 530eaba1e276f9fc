"""Bytes without a capture: given as hex, dissected as messages of a layer.

Messages that are given together are one stream: what a Relation or a Stream Start says holds for those
after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from . import catalogue, display
from .annotate import annotate
from .errors import UsageProblem, UserError
from .facts import of_node
from .findings import Finding, Severity
from .hexinput import EMPTY, Given, read_given
from .node import Node, findings, messages
from .packetdump import framed, payload
from .pgoutput_state import PgoutputState
from .rawfile import is_binary, split
from .records import dumps, field_records, found_records, json_text, mask, secret_ranges
from .report import tree_lines
from .schema_findings import schema_findings
from .schemas import Schema, Tables
from .session import Context as Taught
from .spec import Dialect, Message
from .summary import summary
from .text import visible

ENVELOPES = ("frontend", "backend")
CAPTURES = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"M<\xb2\xa1", b"\xa1\xb2<M", b"\n\r\r\n")
"""What capture files (pcap, pcapng) begin with."""


@dataclass(slots=True)
class Dissected:
    """One message of the workbench: what `dissector.view.MessageView` is to a capture.

    number: from 1 in what was given. lsn, xid: of its row, of XLogData, or by what came before; None
    where neither tells. schema: the Relation in force (kind "" for none). found: all findings. note: a
    line for people, "" for none.
    """

    number: int
    data: bytes
    layer: str
    dialect: Dialect
    tree: Node
    schema: Schema = field(default_factory=lambda: Schema(""))
    members: tuple[Schema, ...] = ()
    lsn: int | None = None
    xid: int | None = None
    found: list[Finding] = field(default_factory=list)
    note: str = ""

    @property
    def innermost(self) -> Node:
        """The message node of the innermost layer."""
        return messages(self.tree)[-1]

    @property
    def length(self) -> int:
        """Number of bytes."""
        return len(self.data)

    @property
    def direction(self) -> str:
        """ "F" or "B": who sends such a message; "" where either may."""
        for node in messages(self.tree):
            declared = node.declaration
            if isinstance(declared, Message) and declared.direction in ("F", "B"):
                return declared.direction
        return {"frontend": "F", "backend": "B"}.get(self.layer, "")

    def context(self, show_secrets: bool = False, limit: int = 0) -> display.Context:
        """What `dissector.display` needs to know to show the message's nodes."""
        described = (self.schema, *self.members)
        return display.Context(
            release=self.dialect.release,
            encoding=self.dialect.encoding,
            types=dict(self.schema.types),
            relations={s.oid: s.full_name for s in described if s.kind == "relation"},
            show_secrets=show_secrets,
            limit=limit,
        )

    @property
    def relation(self) -> str | list[str] | None:
        """ "schema.table" by the Relation in force; a list for Truncate; None where there is none."""
        if self.schema.kind == "relation":
            return self.schema.full_name
        return [s.full_name for s in self.members if s.full_name] or None


class Workbench:
    """Dissects messages one after the other. Never raises on what they hold."""

    def __init__(self, layer: str, dialect: Dialect, direction: str | None = None) -> None:
        self.layer = layer
        self.base = dialect
        self.direction = direction
        self.tables = Tables()
        self.state = PgoutputState(self.tables)
        self.state.begin(dialect.proto_version, dialect.parallel, dialect.binary)
        self.state.in_stream = dialect.in_stream
        self.parallel = dialect.parallel
        self.count = 0

    def stream_is(self, *, parallel: bool) -> None:
        """Take up whether streaming is parallel; what was learned stays."""
        self.parallel = parallel

    def dissect(self, given: Given, layer: str = "", alone: bool = True) -> Dissected:
        """The message in `given`, in the light of those before it. alone: no others were given, so that
        a row of a relation that was not described is nothing to report."""
        layer = layer or self.layer
        self.count += 1
        dialect = self._dialect(layer, given.data)
        tree = annotate(given.data, layer, dialect)
        if not alone and not _reads_well(tree):
            # a stream whose options nobody told: it is parallel where its Stream Aborts fit only so
            other = replace(dialect, parallel=not dialect.parallel)
            again = annotate(given.data, layer, other)
            if _reads_well(again):
                self.parallel, dialect, tree = other.parallel, other, again
        taught = Taught(tuple(n.name for n in messages(tree)), dialect, tree)
        found = Dissected(
            self.count, given.data, layer, dialect, tree, lsn=given.lsn, xid=given.xid
        )
        inner = messages(tree)[-1]
        declared = inner.declaration
        if isinstance(declared, Message) and declared.layer == "pgoutput" and not _broken(inner):
            self.state.learn(declared, of_node(inner), taught, dialect.encoding)
            found.schema = self.tables.schemas[taught.schema]
            found.members = tuple(self.tables.schemas[n] for n in found.schema.members)
            found.xid = given.xid if given.xid is not None else taught.xid or None
        if found.lsn is None:
            found.lsn = _lsn(tree)
        found.found = findings(tree)
        if not alone or found.schema.kind == "relation":
            found.found += schema_findings(tree, found.schema)
        return found

    def _dialect(self, layer: str, data: bytes) -> Dialect:
        dialect = replace(self.state.dialect(self.base), parallel=self.parallel)
        if layer == "frontend":
            return replace(dialect, startup=data[:1] == b"\0")
        if layer == "replication":
            return replace(dialect, copy=self._copy(data[:1], dialect, self.direction))
        if layer == "backend":
            inner = _carried_letter(data, layer, dialect)
            return replace(dialect, copy=self._copy(inner, dialect, "B")) if inner else dialect
        return dialect

    @staticmethod
    def _copy(letter: bytes, dialect: Dialect, direction: str | None) -> str:
        """ "backup" where only a base backup has such a message, or the server's p is one."""
        if not letter:
            return dialect.copy
        meant = catalogue.lookup("replication", letter[0], dialect.release, dialect)
        if meant is None or (direction == "B" and meant.direction == "F"):
            backup = replace(dialect, copy="backup")
            if catalogue.lookup("replication", letter[0], dialect.release, backup):
                return "backup"
        return dialect.copy


def _carried_letter(data: bytes, layer: str, dialect: Dialect) -> bytes:
    """The first byte of what the CopyData in `data` carries; nothing for other messages."""
    tree = annotate(data, layer, dialect)
    for node in tree.children or ():
        declared = node.declaration
        if getattr(declared, "layer", False):
            return data[node.start : node.start + 1]
    return b""


def _reads_well(tree: Node) -> bool:
    return not any(f.severity >= Severity.WARNING for f in findings(tree))


def _broken(node: Node) -> bool:
    return any(f.severity >= Severity.ERROR for f in findings(node))


def _lsn(tree: Node) -> int | None:
    """XLogData's start, a keepalive's end."""
    for node in messages(tree):
        declared = node.declaration
        if isinstance(declared, Message) and declared.layer == "replication":
            place = node.child("start_lsn") or (
                node.child("end_lsn") if declared.direction == "B" else None
            )
            return place.value if place is not None else None
    return None


# -- from what was given to messages


def dissect_input(
    given: bytes | str, layer: str, dialect: Dialect, direction: str | None = None
) -> Iterator[Dissected]:
    """Every message in `given`: text in any form of `dissector.hexinput`, or raw bytes.

    Raw bytes for pgoutput are the output file of pg_recvlogical, for frontend and backend a stream of
    messages. Raises UsageProblem where text cannot be read as bytes, and when there are no bytes.
    """
    bench = Workbench(layer, dialect, direction)
    if isinstance(given, bytes):
        if given[:4] in CAPTURES:
            raise UsageProblem(
                "this is a capture file: open it with pgdissect list or pgdissect open"
            )
        if is_binary(given):
            yield from _raw(bench, given)
            return
        given = given.decode("utf-8")
    several = read_given(given)
    for one in several:
        packet = payload(one.data) if one.dump else None
        if packet is None:
            yield bench.dissect(one, alone=len(several) == 1)
            continue
        note = (
            f"{packet.skipped} bytes of headers before the {packet.layer}'s data were left out"
            if packet.data
            else "a TCP segment without data"
        )
        pieces = framed(packet.data, packet.layer == "backend" or packet.data[:1] != b"\0")
        for piece in pieces or [b""]:
            found = bench.dissect(Given(piece), packet.layer, alone=False)
            found.note = note
            yield found


def _raw(bench: Workbench, data: bytes) -> Iterator[Dissected]:
    if bench.layer in ENVELOPES:
        pieces = framed(data, bench.layer == "backend" or data[:1] != b"\0")
        for piece in pieces:
            yield bench.dissect(Given(piece), alone=len(pieces) == 1)
        return
    if bench.layer != "pgoutput":
        yield bench.dissect(Given(data))
        return
    for piece, dialect in split(data, bench.state.dialect(bench.base)):
        bench.stream_is(parallel=dialect.parallel)
        yield bench.dissect(Given(piece), alone=len(piece) + 1 >= len(data))


# -- the command


def write_hex(
    out: IO[str],
    source: IO[str],
    data: str | None,
    *,
    layer: str,
    pg: int,
    proto_version: int | None,
    in_stream: bool,
    parallel: bool,
    direction: str | None,
    show_secrets: bool,
    as_json: bool,
    file: str | None = None,
) -> None:
    """Dissect `data`, what `file` holds, or what `source` holds, and print the trees or JSON.

    Raises UsageProblem where the input cannot be read as bytes, UserError when a file cannot be opened.
    """
    dialect = Dialect(
        release=pg,
        proto_version=proto_version or catalogue.RELEASES[pg].proto_versions[-1],
        in_stream=in_stream,
        parallel=parallel,
        copy="pgoutput",
    )
    given = _read(source, data, file)
    if not given:
        raise UsageProblem(EMPTY)
    for found in dissect_input(given, layer, dialect, direction):
        if as_json:
            out.write(dumps(hex_record(found, show_secrets)) + "\n")
        else:
            out.writelines(line + "\n" for line in hex_lines(found, show_secrets))
            if found.number <= 1 and _unknown(found):
                out.writelines(_elsewhere(given, layer, dialect, direction))


def _unknown(found: Dissected) -> bool:
    return messages(found.tree)[-1].name == "Unknown"


def _elsewhere(
    given: bytes | str, layer: str, dialect: Dialect, direction: str | None
) -> Iterator[str]:
    """Where the first message is known in another layer: which --layer to give."""
    for other in ("pgoutput", "replication", "backend", "frontend"):
        if other != layer:
            first = next(iter(dissect_input(given, other, dialect, direction)), None)
            if first is not None and not _unknown(first) and not first.found:
                name = messages(first.tree)[-1].name
                yield f"\nIt would be {name} with --layer {other}\n"


def _read(source: IO[str], data: str | None, file: str | None) -> bytes | str:
    if file is not None:
        if data is not None:
            raise UsageProblem("say either hex digits or --file FILE, not both")
        try:
            return Path(file).read_bytes()
        except OSError as problem:
            raise UserError(
                f"{visible(file)}: {problem.strerror or problem}; is the path right?"
            ) from None
    if data is not None and data != "-":
        return data
    if data is None and source is not None and source.isatty():
        raise UsageProblem(EMPTY)  # or it would wait without a word
    if source is None:
        raise UsageProblem("standard input is closed; give the bytes on the command line")
    raw = getattr(source, "buffer", None)
    return raw.read() if raw is not None else source.read()


def hex_lines(found: Dissected, show_secrets: bool = False) -> Iterator[str]:
    """A message as lines for people: its path, findings and the tree."""
    if found.number > 1:
        yield ""
    names = " > ".join(visible(n.name) for n in messages(found.tree))
    about = [f"{found.length} byte{'' if found.length == 1 else 's'}"]
    if found.lsn is not None:
        about.append(f"LSN {display.lsn(found.lsn)}")
    if found.xid is not None:
        about.append(f"xid {found.xid}")
    relation = found.relation
    if relation:
        about.append(visible(relation if isinstance(relation, str) else ", ".join(relation)))
    yield f"{names}, {', '.join(about)}"
    if found.note:
        yield f"note: {found.note}"
    yield from (f"{f.severity.name.lower()}: {visible(f.text)}" for f in found.found)
    if (hint := advice(found)) is not None:
        yield hint
    yield from tree_lines(found.tree, found.context(show_secrets), found)


def advice(found: Dissected) -> str | None:
    """What to try when a message does not read well and would with another option; None for nothing."""
    if _reads_well(found.tree):
        return None
    others = (
        ("--in-stream", replace(found.dialect, in_stream=True)),
        ("--parallel", replace(found.dialect, parallel=True)),
        ("without --in-stream", replace(found.dialect, in_stream=False)),
        ("without --parallel", replace(found.dialect, parallel=False)),
    )
    for option, dialect in others:
        if dialect == found.dialect:
            continue
        if _reads_well(annotate(found.data, found.layer, dialect)):
            return f"try {option}: the message reads without a finding then"
    return None


def hex_record(found: Dissected, show_secrets: bool = False) -> dict[str, Any]:
    """The object of a message, keys as `dissector.records.record` without those of a capture."""
    chain = messages(found.tree)
    data = found.data if show_secrets else mask(found.data, secret_ranges(found.tree))
    relation = found.relation
    return {
        "number": found.number,
        "direction": found.direction or None,
        "message": chain[0].name,
        "path": [node.name for node in chain],
        "length": found.length,
        "lsn": None if found.lsn is None else display.lsn(found.lsn),
        "xid": found.xid,
        "relation": [json_text(r) for r in relation]
        if isinstance(relation, list)
        else relation and json_text(relation),
        "summary": summary(found, show_secrets),
        "findings": found_records(found.found),
        "assumed": False,  # the command's options say it
        "payload": data[found.innermost.start : found.innermost.end].hex(),
        "fields": list(field_records(found.tree, found.context(show_secrets), found)),
    }
