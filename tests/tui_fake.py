"""A source for the interface made by hand: a few replication messages, some of them hostile."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache

from dissector.annotate import annotate
from dissector.display import Context
from dissector.findings import Finding
from dissector.node import Node, findings, messages
from dissector.schemas import Schema
from dissector.spec import Dialect
from dissector.text import visible
from tui.model import ListRow

DIALECT = Dialect(release=18, proto_version=1, copy="pgoutput")

HOSTILE = (
    "[red]X[/red]",
    "a[/]b",
    "[link=http://x]y",
    "SELECT b[i]",
    "[@click=app.bell]press",
    "[@click=app.quit]q[/]",
    ":smile:",
    "\x1b]2;title\x1b\\",
    "\x1b]52;c;AAAA\x07",
    "\x9b31mred",
    "nul\x00del\x7f",
    "\u202eabc",
    "zero\u200bwidth\ufeff",
    "lone\udc9b",
    "line\nbreak\ttab",
    "back\\slash",
    "\U000e0041tag",
    "e\u0301漢字🎉" + "wide" * 40,
)


@dataclass(frozen=True)
class FakeView:
    row: ListRow
    data: bytes
    tree: Node
    schema: Schema
    found: list[Finding] = field(default_factory=list)

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        return Context(release=18, show_secrets=show_secrets, limit=limit)


def xlog(payload: bytes, lsn: int = 0x1A2B3C4) -> bytes:
    """CopyData around XLogData around `payload`."""
    inner = b"w" + struct.pack(">QQq", lsn, lsn, 818_000_000_000_000) + payload
    return b"d" + struct.pack(">I", len(inner) + 4) + inner


def begin(xid: int = 771) -> bytes:
    return b"B" + struct.pack(">QqI", 0x1A2B3C4, 818_000_000_000_000, xid)


def commit() -> bytes:
    return b"C\x00" + struct.pack(">QQq", 0x1A2B3C4, 0x1A2B400, 818_000_000_000_000)


def relation(namespace: bytes, name: bytes, columns: list[bytes]) -> bytes:
    head = b"R" + struct.pack(">I", 16384) + namespace + b"\0" + name + b"\0d"
    body = b"".join(b"\x01" + c + b"\0" + struct.pack(">Ii", 25, -1) for c in columns)
    return head + struct.pack(">h", len(columns)) + body


def insert(values: list[bytes | None]) -> bytes:
    out = b"I" + struct.pack(">I", 16384) + b"N" + struct.pack(">h", len(values))
    for value in values:
        out += b"n" if value is None else b"t" + struct.pack(">I", len(value)) + value
    return out


def keepalive() -> bytes:
    return (
        b"d" + struct.pack(">I", 22) + b"k" + struct.pack(">QqB", 0x1A2B400, 818_000_000_000_000, 0)
    )


def query(text: bytes) -> bytes:
    return b"Q" + struct.pack(">I", len(text) + 5) + text + b"\0"


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@cache
def annotated(data: bytes, layer: str) -> Node:
    return annotate(data, layer, DIALECT)


@dataclass
class FakeSource:
    """Messages as (direction, bytes, relation, summary), numbered from 1."""

    parts: list[tuple[str, bytes, str | None, str]]
    fails: set[int] = field(default_factory=set)
    schema: Schema = Schema("")  # noqa: RUF009 (frozen)
    show_secrets: bool = False

    @property
    def count(self) -> int:
        return len(self.parts)

    def _node(self, number: int) -> Node:
        direction, data, _, _ = self.parts[number - 1]
        return annotated(data, "frontend" if direction == "F" else "backend")

    def row(self, number: int) -> ListRow:
        direction, data, relation_name, summary = self.parts[number - 1]
        node = self._node(number)
        path = tuple(n.name for n in messages(node))
        worst = max((int(f.severity) for f in findings(node)), default=0)
        return ListRow(
            number=number,
            frame=number + 3,
            time=1_764_442_392_000_000_000 + number * 1_500_000,
            stream=0,
            direction=direction,
            path=path,
            length=len(data),
            lsn=0x1A2B3C4 if "XLogData" in path else None,
            xid=771 if "XLogData" in path else None,
            relation=relation_name,
            summary=visible(summary),
            severity=worst,
        )

    def said(self, numbers):
        rows = [self.row(number) for number in numbers.tolist()]
        paths = [visible(" ".join(row.path)) for row in rows]
        return [r.summary for r in rows], paths, [visible(r.relation or "") for r in rows]

    def message(self, number: int) -> FakeView:
        if number in self.fails:
            raise OSError("the file is gone: [b]\x1b]2;x\x07")
        node = self._node(number)
        data = self.parts[number - 1][1]
        return FakeView(self.row(number), data, node, self.schema, findings(node))


def small() -> FakeSource:
    """Eight messages: one transaction, a keepalive, a query, and an Insert that is cut short."""
    users = "public.users"
    return FakeSource(
        [
            ("F", query(b"SELECT 1"), None, "SELECT 1"),
            ("B", xlog(begin()), None, "xid 771"),
            ("B", xlog(relation(b"public", b"users", [b"id", b"email"])), users, "id, email"),
            ("B", xlog(insert([b"42", b"ann@example.org"])), users, "id 42"),
            ("B", xlog(insert([b"43", None])), users, "id 43"),
            ("B", keepalive(), None, "no reply wanted"),
            ("B", xlog(insert([b"44", b"bob@example.org"])[:-4]), users, "id 44"),
            ("B", xlog(commit()), None, ""),
        ]
    )


def hostile() -> FakeSource:
    """All hostile strings as column names and values, then each as a query with a row of its own."""
    texts = [raw(text.replace("\0", "\x01")) for text in HOSTILE]
    first = HOSTILE[7]
    parts: list[tuple[str, bytes, str | None, str]] = [
        ("B", xlog(relation(texts[0], texts[7], texts)), first, first),
        ("B", xlog(insert([raw(text) for text in HOSTILE])), first, first),
    ]
    parts += [("F", query(data), text, text) for data, text in zip(texts, HOSTILE, strict=True)]
    return FakeSource(parts)


def wide(columns: int = 1600) -> FakeSource:
    """Three Inserts of many columns."""
    data = xlog(insert([b"%d" % n for n in range(columns)]))
    return FakeSource([("B", data, "public.wide", "wide")] * 3)
