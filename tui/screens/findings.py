"""Findings: all that is wrong or odd, the worst first, with where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from dissector.findings import Finding
from dissector.text import visible
from tui.present import SEVERITY_NAMES, severity_style, time_of_day
from tui.present_fields import Fact
from tui.table import Lead, Model, TableColumn


class Findings(Model):
    """Files' and connections' findings first, then one line a message. Enter: to the message.

    Messages are opened when their line is seen: there may be millions.
    """

    title = "Findings"
    empty = "Nothing is wrong in this capture as far as it goes."
    columns = (
        TableColumn("Severity", 8, 9),
        TableColumn("Where", 13, 10),
        TableColumn("Time (UTC)", 15, 3),
        TableColumn("Message", 16, 5, grow=8),
        TableColumn("Finding", 20, 10),
    )

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        index = capture.index
        self._others: list[tuple[str, int, Finding]] = [("file", 0, f) for f in index.file_findings]
        for number in sorted(index.connections):
            found = index.connections[number].found
            self._others += [(f"connection {number}", number, f) for f in found]
        self._others.sort(key=lambda each: -int(each[2].severity))
        rows = index.rows.where(lambda severity: severity > 0, "severity")
        severities = index.rows.take("severity", rows)
        order = np.argsort(-severities.astype(np.int16), kind="stable")
        self._rows = rows[order] + 1
        self._severities = severities[order]
        self._first = index.rows.first_numbers()

    def __len__(self) -> int:
        return len(self._others) + len(self._rows)

    def _number(self, line: int) -> int:
        """The message of a line, 0 for a file's or a connection's finding."""
        return 0 if line < len(self._others) else int(self._rows[line - len(self._others)])

    def severity(self, line: int) -> int:
        if line < len(self._others):
            return int(self._others[line][2].severity)
        return int(self._severities[line - len(self._others)])

    def cells(self, line: int) -> list[str]:
        name = SEVERITY_NAMES[self.severity(line)]
        number = self._number(line)
        if not number:
            where, _, finding = self._others[line]
            return [name, where, "", "", visible(finding.text, 300)]
        row = self._capture.row(number)
        path = self._capture.path(row)
        found = self._of(number)
        told = visible(found[0].text, 300) if found else ""
        if len(found) > 1:
            told += f" (and {len(found) - 1} more)"
        message = visible(path[-1], 60) if path else "?"
        return [name, f"message {number}", time_of_day(row.time), message, told]

    def _of(self, number: int) -> list[Finding]:
        """The findings of a message, the worst first; none when it cannot be read any more."""
        try:
            found = list(self._capture.message(number).found)
        except OSError:
            return []
        return sorted(found, key=lambda each: -int(each.severity))

    def order_by(self, column: int) -> Any:
        count = len(self)
        if column == 0:
            return [self.severity(line) for line in range(count)]
        if column == 1:
            return np.concatenate((np.arange(len(self._others)) - len(self._others), self._rows))
        return None

    def facts(self, line: int) -> list[Fact]:
        number = self._number(line)
        if not number:
            where, _, finding = self._others[line]
            return [Fact("", where, "detail--path"), _fact(finding)]
        row = self._capture.row(number)
        path = self._capture.path(row)
        title = f"message {number}: {' > '.join(path) or 'unknown'}"
        place = f"connection {row.stream}, frame {row.frame}, {row.length:,} bytes"
        told = [Fact("", visible(title, 200), "detail--path"), Fact("", place)]
        return told + [_fact(f) for f in self._of(number)[:40]]

    def lead(self, line: int) -> Lead:
        number = self._number(line)
        if number:
            return Lead(number)
        where, stream, _ = self._others[line]
        if where == "file" or stream not in self._first:
            return Lead()
        return Lead(self._first[stream], f"stream == {stream}")


def _fact(finding: Finding) -> Fact:
    at = f" (byte {finding.offset})" if finding.offset >= 0 else ""
    text = f"{visible(finding.text, 400)}{at}  ·  {finding.code}"
    return Fact(SEVERITY_NAMES[int(finding.severity)], text, severity_style(int(finding.severity)))
