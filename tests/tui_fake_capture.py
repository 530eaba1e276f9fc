"""An opened capture made by hand, whose names, values, users and findings are hostile text."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import tui_fake

from dissector.findings import Finding, Severity
from dissector.index import ConnectionInfo, Index
from dissector.node import findings, messages
from dissector.rows import COLUMNS, Row
from dissector.schemas import Column, Schema
from dissector.spec import Dialect


@dataclass
class View:
    """One message, as `dissector.view.MessageView`."""

    row: Row
    data: bytes
    tree: object
    schema: Schema
    path: tuple[str, ...]
    dialect: Dialect = tui_fake.DIALECT
    members: tuple[Schema, ...] = ()
    found: list[Finding] = field(default_factory=list)
    frames: tuple[int, ...] = (1,)
    context = tui_fake.FakeView.context

    @property
    def innermost(self):
        return messages(self.tree)[-1]


class HostileCapture:
    """One transaction an hostile string: Begin, Relation, Insert, Commit, all with it in them."""

    def __init__(self, texts=tui_fake.HOSTILE) -> None:
        self.index = Index()
        self.options = SimpleNamespace(show_secrets=False)
        tables, rows = self.index.tables, []
        self.parts: list[bytes] = []
        for place, text in enumerate(texts):
            clean = text.replace("\0", "\x01")
            columns = (Column(clean, 25, -1, True), Column("id", 23))
            more = (Column(clean + "2", 25, -1, True), *columns)
            for version, names in ((1, columns), (2, more)):
                schema = Schema("relation", names, 100 + place, clean, clean, "d", version=version)
                number = tables.schemas.number(schema)
                raw = [tui_fake.raw(c.name) for c in names]
                told = tui_fake.raw(clean)
                self._add(rows, "Begin", tui_fake.begin(place + 1), place, 0)
                self._add(rows, "Relation", tui_fake.relation(told, told, raw), place, number)
                values = [tui_fake.raw(text)] * len(names)
                self._add(rows, "Insert", tui_fake.insert(values), place, number)
                self._add(rows, "Commit", tui_fake.commit(), place, 0)
        columns = {name: np.zeros(len(rows), dtype) for name, dtype in COLUMNS}
        for name in ("path", "xid", "relation", "severity"):
            columns[name][:] = [row[name] for row in rows]
        columns["direction"][:] = 1
        columns["length"][:] = [len(part) for part in self.parts]
        columns["time"][:] = np.arange(len(rows)) * 1_000_000 + 1_764_442_392_000_000_000
        columns["lsn"][:] = 0x1A2B3C4
        self.index.rows.extend(columns)
        self.index.complete = True
        bad = [Finding("option", Severity.WARNING, text) for text in texts]
        names = ("user", "database", "application", "slot", "plugin", "release", "publications")
        header = {name: "".join(texts) for name in names}
        ends = "evil\x1b]2;x\x07[b]:1", "10.0.0.1:5432"
        self.index.connections[0] = ConnectionInfo(0, *ends, 0, True, header, bad)
        self.index.file_findings = bad

    def _add(self, rows, name, payload, place, relation) -> None:
        path = self.index.tables.paths.number(("CopyData", "XLogData", name))
        severity = 2 if name == "Insert" else 0
        rows.append({"path": path, "xid": place + 1, "relation": relation, "severity": severity})
        self.parts.append(tui_fake.xlog(payload))

    @property
    def count(self) -> int:
        return len(self.index)

    def row(self, number):
        return self.index.rows.row(number)

    def path(self, row):
        return self.index.tables.paths[row.path]

    def relation(self, row):
        return self.index.tables.schemas[row.relation].full_name or None

    def connection(self, stream):
        return self.index.connections[stream]

    def message(self, number):
        row, data = self.row(number), self.parts[number - 1]
        tree = tui_fake.annotated(data, "backend")
        schema = self.index.tables.schemas[row.relation]
        found = findings(tree)
        if row.severity:
            found = [*found, Finding("option", Severity.WARNING, schema.name)]
        return View(row, data, tree, schema, self.path(row), found=found)
