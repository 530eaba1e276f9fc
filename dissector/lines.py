"""Lines of the list for many messages: what `dissector.report.list_cells` gives, in blocks.

A block's lines are put together column by column (see `dissector.slots`). Messages of whose kind no
more is known than the first one, and those with findings of their own, are opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .fieldtexts import FieldKind
from .lineheads import LineHeads, distinct
from .noted import Checks, check, checks_of
from .others import Other
from .quick import QUICK, ROWS
from .reading import read_messages
from .rowpieces import row_kind
from .rows import DECRYPTED, INCOMPLETE
from .rowtexts import Rows
from .schemas import Schema
from .slots import WINDOW, Array, Slots
from .spec import Message
from .summary import VALUE, WIDTH
from .text import visible
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs

MOST_KINDS = 4096
MOST_ITEMS = 1 << 17
"""Kinds of messages, and states of columns, that are kept."""

MOST_BYTES = 1 << 23
"""Bytes of messages that are read at once."""

HUGE = 1 << 20
"""Bytes of a message that is opened by itself."""

FEW = 64
"""Messages of a block, below which a kind is not worth learning for one of them."""

_NONE = np.zeros(0, np.int64)

_LINE = ord("\n")


@dataclass(slots=True)
class _Kind:
    """How messages of one kind are written: fields, the number of a kind of rows, or each by itself from
    its bytes (other); neither: opened.

    checks: by which nothing is wrong with a message but what is wrong with all of them.
    """

    fields: FieldKind | None = None
    rows: int = -1
    checks: Checks = ()
    other: Other | None = None


class Lines:
    """Writes lines of the messages of a capture by number."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.capture = runs.capture
        self._found = np.zeros(0, np.int64)
        self._out = np.zeros(0, np.uint8)
        self._forget()

    def room(self, size: int) -> Array:
        """`size` bytes to write lines to, until this is called again."""
        if len(self._out) < size:
            self._out = np.empty(size + size // 4, np.uint8)
        return self._out[:size]

    def _forget(self) -> None:
        self._rows = Rows()
        self._kinds: list[_Kind] = []
        self._known: dict[tuple[int, int, int, Schema, bool], int] = {}
        self._numbers: dict[int, int] = {}
        self._sizes = (0, 0)
        self._alike: dict[Any, int] = {}

    def block(self, numbers: Array) -> bytes:
        """A block of lines."""
        c = self.runs.columns(numbers)
        if len(numbers) > 1 and int(c["length"].sum()) > MOST_BYTES:
            half = len(numbers) // 2
            return self.block(numbers[:half]) + self.block(numbers[half:])
        if len(self._kinds) > MOST_KINDS or self._rows.tables.count > MOST_ITEMS:
            self._forget()
        return _Block(self, c).write()

    def slow(self, number: int) -> bytes:
        """A line by the slow writers."""
        from .report import list_cells

        cells = list_cells(self.capture, self.capture.message(number))
        return ("\t".join(cells) + "\n").encode()

    # -- kinds

    def kinds(self, c: dict[str, Any], usual: Array) -> Array:
        """The number of each message's kind; -1 for those that must be opened. usual: messages without
        a finding."""
        tables = self.capture.index.tables
        paths, dialects = len(tables.paths), len(tables.dialects)
        code = (c["relation"].astype(np.int64) * dialects + c["dialect"]) * paths + c["path"]
        code = (code * 2 + c["direction"]) * 2 + usual
        found, places = distinct(code, len(tables.schemas) * dialects * paths * 4)
        if self._sizes != (dialects, paths):
            self._sizes = (dialects, paths)
            self._numbers.clear()
        kinds = []
        often = np.bincount(places, minlength=len(found)) if len(code) else _NONE
        few = len(code) < FEW
        for each, times in zip(found.tolist(), often.tolist(), strict=True):
            kind = self._numbers.get(each)
            if kind is None and few and times == 1:
                kind = -1
            elif kind is None:
                first = int(np.flatnonzero(code == each)[0])
                kind = self._kind(int(c["number"][first]), bool(each & 1))
                self._numbers[each] = kind
            kinds.append(kind)
        return np.array(kinds, np.int64)[places]

    def _kind(self, number: int, usual: bool) -> int:
        row, tables = self.capture.row(number), self.capture.index.tables
        path, dialect = tables.paths[row.path], tables.dialects[row.dialect]
        quick = len(path) > 1 and path[1] in QUICK and dialect.copy == "pgoutput"
        if not quick and not usual:
            return -1
        # a description that comes again, with a new number, is the same to the writers
        schema = replace(tables.schemas[row.relation], version=0)
        key = (row.path, row.dialect, row.direction, schema, usual)
        kind = self._known.get(key)
        if kind is None:
            view = self.capture.message(number)
            learned = self._learned(view) if quick else _Kind(other=Other(view, self.runs.secrets))
            kind = self._known[key] = self._number(learned)
        return kind

    def _number(self, kind: _Kind) -> int:
        """The number of a kind: that of one which is written alike, if there is one."""
        same = kind.fields.same() if kind.fields is not None else None
        known = self._alike.get((same, kind.checks)) if same is not None else None
        if known is not None:
            return known
        self._kinds.append(kind)
        if same is not None:
            self._alike[same, kind.checks] = len(self._kinds) - 1
        return len(self._kinds) - 1

    def _learned(self, view: MessageView) -> _Kind:
        short = view.context(self.runs.secrets, VALUE)
        declared = view.innermost.declaration
        if isinstance(declared, Message) and declared.name in ROWS and view.schema.columns:
            room = self._rows.tables.count <= MOST_ITEMS
            found = row_kind(view, short) if room and not view.found else None
            return _Kind(rows=self._rows.add(found) if found is not None else -1)
        if not view.found:
            return _Kind(FieldKind(view, short, self.runs.secrets))
        checks = checks_of(view)
        if checks is None:
            return _Kind()
        note = visible(view.found[0].text)
        return _Kind(FieldKind(view, short, self.runs.secrets, note), checks=checks)

    # -- what is the same for many

    def relation(self, number: int) -> bytes:
        """The cell of the relation with the tabs around it, by the schema's number."""
        row = replace(self.capture.row(1), relation=number)
        relation = self.capture.relation(row)
        names = ", ".join(relation) if isinstance(relation, list) else relation or ""
        return f"\t{visible(names)}\t".encode()

    def found(self, numbers: Array) -> Array:
        """Messages with findings of their own that may be among `numbers`."""
        found = self.capture.index.found
        if len(self._found) != len(found):
            self._found = np.sort(np.fromiter(found, np.int64, len(found)))
        if not len(numbers):
            return self._found[:0]
        first, last = np.searchsorted(self._found, (numbers.min(), numbers.max() + 1))
        return self._found[first:last]

    def constant_digits(self) -> bool:
        """Whether the times of all frames have the same number of decimals."""
        sources = self.capture.files.sources
        return len(sources) == 1 and sources[0].kind == "pcap"


class _Block:
    """Lines of one block, while they are put together."""

    def __init__(self, lines: Lines, c: dict[str, Any]) -> None:
        self.lines = lines
        self.capture = lines.capture
        self.c = c
        self.count = len(c["number"])
        self.slots = Slots(self.count)
        usual = (c["flags"] & (DECRYPTED | INCOMPLETE)) == 0
        usual &= c["length"] < HUGE
        self.kind = lines.kinds(c, c["severity"] == 0)
        usual &= self.kind >= 0
        found = lines.found(c["number"])
        if len(found):
            usual &= ~np.isin(c["number"], found)
        self.bytes = read_messages(self.capture, c, np.flatnonzero(usual), WINDOW * 2)
        self.data = self.bytes.data
        self.slow = self.bytes.begins < 0

    def _opened(self, row: int) -> MessageView:
        return self.capture.message(int(self.c["number"][row]))

    def write(self) -> bytes:
        """The lines."""
        if self.slow.all():
            return b"".join(map(self.lines.slow, self.c["number"].tolist()))
        self._summaries()
        head = LineHeads(self.lines, self.c, self.slow, self.bytes.records)
        heads = head.cells()
        size = np.zeros(self.count, np.int64)
        for _, lengths, _ in heads:
            size += lengths
        slots = self.slots
        short = np.flatnonzero((size < WINDOW) & ~self.slow).tolist()
        joined = {
            row: head.one(heads, row) + slots.whole[row] + b"\n"
            for row in short
            if row in slots.whole
        }
        self.slow |= size < WINDOW
        for row in slots.whole:
            slots.size[row] = len(slots.whole[row])
            slots.extra[row] = slots.size[row]  # it was cut before
        whole = {row: text for row, text in slots.whole.items() if not self.slow[row]}
        slots.whole = dict.fromkeys(np.flatnonzero(self.slow).tolist(), b"")
        lines = {
            row: joined.get(row) or self.lines.slow(int(self.c["number"][row]))
            for row in slots.whole
        }
        slots.whole.update(whole)
        cut = (slots.size > WIDTH) & (slots.extra == 0) & ~self.slow
        slots.cut(np.flatnonzero(cut), WIDTH - 1)
        total = size + slots.size + 1
        for row, text in lines.items():
            size[row] = 0
            total[row] = len(text)
        room = np.maximum(total, WINDOW)
        begins = np.cumsum(room) - room
        out = self.lines.room(int(room.sum()) + 2 * WINDOW)
        slots.write(out, begins + size)
        out[begins + total - 1] = _LINE
        head.write(out, heads, begins + size, np.flatnonzero(~self.slow))
        view = out.data
        for row, text in lines.items():
            at = int(begins[row])
            view[at : at + len(text)] = text
        for row, text in whole.items():
            at = int(begins[row] + size[row])
            view[at : at + len(text)] = text
        return self._joined(out, begins, begins + size, begins + total, room > total)

    def _joined(
        self, out: Array, begins: Array, middles: Array, ends: Array, spare: Array
    ) -> bytes:
        """The lines without room between them, and with summaries that are too long cut."""
        slots, view = self.slots, out.data
        long = (slots.size - slots.extra > WIDTH) & ~self.slow
        stop = int(ends[-1]) if len(ends) else 0
        which = np.flatnonzero(long | spare)
        if not len(which):
            return bytes(view[:stop])
        parts: list[Any] = []
        at = 0
        for middle, end, next_, cut in zip(
            middles[which].tolist(), ends[which].tolist(),
            (np.append(begins[1:], stop)[which]).tolist(), long[which].tolist(),
            strict=True,
        ):  # fmt: skip
            if cut:
                text = bytes(view[middle : end - 1]).decode()[: WIDTH - 1]
                parts += (view[at:middle], f"{text}…\n".encode())
            else:
                parts.append(view[at:end])
            at = next_
        parts.append(view[at:stop])
        return b"".join(parts)

    # -- summaries

    def _summaries(self) -> None:
        lines, begins = self.lines, self.bytes.begins
        ready = np.flatnonzero(~self.slow)
        kinds = self.kind[ready]
        rows_of = np.array([k.rows for k in lines._kinds] or [-1], np.int64)
        as_rows = rows_of[kinds]
        which = as_rows >= 0
        r = ready[which]
        if len(r):
            dropped = lines._rows.write(
                self.slots, self.data, r, as_rows[which], begins[r], self._opened
            )
            self.slow[dropped] = True
        r, kinds = ready[~which], kinds[~which]
        order = np.argsort(kinds, kind="stable")
        r, kinds = r[order], kinds[order]
        edges = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(r)]
        for first, last in pairwise(edges):
            if first < last:
                self._fields(lines._kinds[int(kinds[first])], r[first:last])

    def _others(self, other: Other, r: Array) -> None:
        begins = self.bytes.begins[r]
        ends = begins + self.c["length"][r]
        whole = self.slots.whole
        for row, begin, end in zip(r.tolist(), begins.tolist(), ends.tolist(), strict=True):
            whole[row] = other.text(self.data[begin:end])

    def _fields(self, kind: _Kind, r: Array) -> None:
        if kind.other is not None:
            self._others(kind.other, r)
            return
        if kind.fields is None:
            self.slow[r] = True
            return
        begins = self.bytes.begins[r]
        ends = begins + self.c["length"][r]
        if kind.checks:
            good = check(kind.checks, self.data, begins, ends)
            self.slow[r[~good]] = True
            r, begins, ends = r[good], begins[good], ends[good]
        if len(r):
            self.slow[kind.fields.write(self.slots, self.data, r, begins, ends, self._opened)] = (
                True
            )
