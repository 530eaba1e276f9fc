"""Lines of the list for many messages: what `dissector.report.list_cells` gives, in blocks.

A block's lines are put together column by column (see `dissector.slots`). Messages of whose kind no
more is known than the first one, and those with findings of their own, are opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .fieldpieces import FieldKind
from .fieldtexts import Fields
from .lineheads import LineHeads
from .noted import Checks, check, checks_of
from .others import Other, alike
from .quick import QUICK, ROWS
from .reading import read_messages
from .rowpieces import plain_kind, row_kind
from .rows import DECRYPTED, INCOMPLETE
from .rowtexts import Rows
from .schemas import Schema
from .slots import WINDOW, Array, Known, Slots, Texts
from .spec import Message
from .sql import hinted as hinted_texts
from .sqlpieces import plan
from .summary import VALUE, WIDTH
from .text import visible
from .view import MessageView, one_text

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
_CUT = "…\n".encode()


@dataclass(slots=True)
class _Kind:
    """How messages of one kind are written: the number of a kind of fields or of rows, or each by itself
    from its bytes: by `alone` where there is such a way, else by `other`.

    checks: by which nothing is wrong with a message but what is wrong with all of them; hints: those with
    a word that hints at a password are looked at by themselves.
    """

    fields: int = -1
    rows: int = -1
    checks: Checks = ()
    alone: Callable[[bytes, Callable[[], MessageView]], bytes | None] | None = None
    hints: bool = False
    other: Other | None = None


class Lines:
    """Writes lines of the messages of a capture by number."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.capture = runs.capture
        self._forget()

    def _forget(self) -> None:
        self._rows = Rows()
        self._fields = Fields()
        self._kinds: list[_Kind] = []
        self._known: dict[tuple[int, int, int, int, bool], int] = {}
        self._schemas: dict[int, int] = {}  # by number: which of those that differ
        self._same: dict[Schema, int] = {}
        self._numbers = Known()
        self._sizes = (0, 0)
        self.relations, self.places = Texts(), Texts()

    def block(self, numbers: Array) -> bytes | memoryview:
        """A block of lines."""
        c = self.runs.columns(numbers)
        if len(numbers) > 1 and int(c["length"].sum()) > MOST_BYTES:
            half = len(numbers) // 2
            return b"".join((self.block(numbers[:half]), self.block(numbers[half:])))
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
        if self._sizes != (dialects, paths):
            self._sizes = (dialects, paths)
            self._numbers, self.places = Known(), Texts()
        code = (c["relation"].astype(np.int64) * dialects + c["dialect"]) * paths + c["path"]
        code = (code * 2 + c["direction"]) * 2 + usual
        few = len(code) < FEW

        def learn(each: int, first: int) -> int | None:
            if few and np.count_nonzero(code == each) == 1:
                return None
            return self._kind(c, first, bool(each & 1))

        return self._numbers.of(code, len(tables.schemas) * dialects * paths * 4, learn)

    def _kind(self, c: dict[str, Any], i: int, usual: bool) -> int:
        tables = self.capture.index.tables
        path, dialect = tables.paths[c["path"][i]], tables.dialects[c["dialect"][i]]
        quick = len(path) > 1 and path[1] in QUICK and dialect.copy == "pgoutput"
        relation = int(c["relation"][i])
        schema = self._schemas.get(relation)
        if schema is None:  # one that comes again, with a new number, is the same to the writers
            known = alike(tables.schemas[relation])
            schema = self._schemas[relation] = self._same.setdefault(known, len(self._same))
        key = (int(c["path"][i]), int(c["dialect"][i]), int(c["direction"][i]), schema, usual)
        kind = self._known.get(key)
        if kind is None:
            view = self.capture.message(int(c["number"][i]))
            made = self._learned(view) if quick else self._other(view)
            made.other = Other(view, self.runs.secrets, tables, usual)
            self._kinds.append(made)
            kind = self._known[key] = len(self._kinds) - 1
        return kind

    def _learned(self, view: MessageView) -> _Kind:
        short = view.context(self.runs.secrets, VALUE)
        declared = view.innermost.declaration
        if isinstance(declared, Message) and declared.name in ROWS and view.schema.columns:
            room = self._rows.tables.count <= MOST_ITEMS
            found = row_kind(view, short) if room and not view.found else None
            return _Kind(rows=self._rows.add(found) if found is not None else -1)
        checks: Checks = ()
        note = ""
        if view.found:
            known = checks_of(view)
            if known is None:
                return _Kind()
            checks, note = known, visible(view.found[0].text)
        kind = FieldKind(view, short, self.runs.secrets, note)
        items = kind.items()
        number = -1
        if items is not None:
            number = self._fields.add(items, kind.size, bool(kind.tail))
        return _Kind(number, checks=checks, alone=kind.text)

    def _other(self, view: MessageView) -> _Kind:
        """Of messages outside a stream of pgoutput."""
        short = view.context(self.runs.secrets, VALUE)
        kind = _Kind()
        rows = plain_kind(view, short) if self._rows.tables.count <= MOST_ITEMS else None
        if view.found:
            return kind
        if rows is not None:
            kind.rows = self._rows.add(rows)
            return kind
        made = plan(view, short)
        if made is not None:
            kind.fields, kind.hints = self._fields.add(made.items, made.size, made.tail), made.hints
        return kind

    # -- what is the same for many

    def relation(self, number: int) -> bytes:
        """The cell of the relation with the tabs around it, by the schema's number."""
        return f"\t{visible(one_text(self.capture.relation_of(number)))}\t".encode()


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
        self.bytes = read_messages(self.capture, c, np.flatnonzero(usual), WINDOW * 2)
        self.data = self.bytes.data
        self.slow = self.bytes.begins < 0

    def _opened(self, row: int) -> MessageView:
        return self.capture.message(int(self.c["number"][row]))

    def write(self) -> bytes | memoryview:
        """The lines."""
        if self.slow.all():
            return b"".join(map(self.lines.slow, self.c["number"].tolist()))
        self._summaries()
        self.data = self.bytes.data = b""  # room for what follows
        head = LineHeads(self.lines, self.c, self.slow, self.bytes.records)
        size = head.size
        slots = self.slots
        rows = np.fromiter(slots.whole, np.int64, len(slots.whole))
        slots.size[rows] = np.fromiter(map(len, slots.whole.values()), np.int64, len(rows))
        slots.extra[rows] = slots.size[rows]  # it was cut before
        cut = (slots.size > WIDTH) & (slots.extra == 0) & ~self.slow
        slots.cut(np.flatnonzero(cut), WIDTH - 1)
        lines: dict[int, bytes] = {}
        self._slowly(lines, np.flatnonzero(self.slow), size)
        begins, total, long = self._laid_out(lines, size)
        hurt = self._hurt(begins, size)
        if len(hurt):
            self._slowly(lines, hurt, size)
            begins, total, long = self._laid_out(lines, size)
        room = total + long * len(_CUT)
        whole = [item for item in slots.whole.items() if item[0] not in lines]
        out = np.empty(int(room.sum()) + 2 * WINDOW, np.uint8)
        slots.write(out, begins + size)
        out[begins + total - 1] = _LINE
        head.write(out, begins)
        view = out.data
        for row, text in lines.items():
            at = int(begins[row])
            view[at : at + len(text)] = text
        middles = begins + size
        places = middles[np.array([row for row, _ in whole], np.int64)].tolist()
        for at, (_, text) in zip(places, whole, strict=True):
            view[at : at + len(text)] = text
        which = np.flatnonzero(room > total)
        return view[: _close_up(view, begins, middles, begins + total, which, long)]

    def _slowly(self, lines: dict[int, bytes], rows: Array, size: Array) -> None:
        """Make the lines of `rows` by the slow writers."""
        self.slow[rows] = True
        size[rows] = 0
        for row in rows.tolist():
            lines[row] = self.lines.slow(int(self.c["number"][row]))
            self.slots.whole[row] = b""

    def _laid_out(self, lines: dict[int, bytes], size: Array) -> tuple[Array, Array, Array]:
        """Where lines begin, their bytes, and which have to be cut later. size: of their heads."""
        total = size + self.slots.size + 1
        for row, text in lines.items():
            total[row] = len(text)
        long = (self.slots.size - self.slots.extra > WIDTH) & ~self.slow
        room = total + long * len(_CUT)
        return np.cumsum(room) - room, total, long

    def _hurt(self, begins: Array, size: Array) -> Array:
        """Lines whose summary would be written over: windows go on into the lines behind, where heads, and
        lines that are written as a whole, come later; but a head may be shorter than that."""
        short = (size < WINDOW) & ~self.slow
        short[list(self.slots.whole)] = False
        rows = np.flatnonzero(short[1:]) + 1
        if not len(rows):
            return rows
        middles = begins + size
        reach = np.maximum.accumulate(middles + self.slots.reach())
        return rows[reach[rows - 1] > middles[rows]]

    # -- summaries

    def _summaries(self) -> None:
        lines = self.lines
        kinds = lines._kinds or [_Kind()]
        r = np.flatnonzero(~self.slow)
        rows = np.array([k.rows for k in kinds])[self.kind[r]]
        which = rows >= 0
        if which.any():
            mine = r[which]
            dropped = lines._rows.write(
                self.slots, self.data, mine, rows[which], self.bytes.begins[mine], self._opened
            )
            self._alone(dropped)
        r = r[~which]
        fine = self._checked(r)
        self._by_themselves(r[~fine])
        r = r[fine]
        fields = np.array([k.fields for k in kinds])[self.kind[r]]
        which = fields >= 0
        self._alone(r[~which])
        r, fields = r[which], fields[which]
        hinted = self._hinted(r)
        self._alone(r[hinted])
        r, fields = r[~hinted], fields[~hinted]
        begins = self.bytes.begins[r]
        ends = begins + self.c["length"][r]
        odd = lines._fields.write(self.slots, self.data, r, fields, begins, ends)
        self._alone(r[odd])

    def _hinted(self, r: Array) -> Array:
        """Mask of the messages in which a password may stand."""
        hinted = np.zeros(len(r), bool)
        kinds = np.array([kind.hints for kind in self.lines._kinds], bool)
        which = np.flatnonzero(kinds[self.kind[r]])
        begins = self.bytes.begins[r[which]]
        order = np.argsort(begins)
        which, begins = which[order], begins[order]
        ends = begins + self.c["length"][r[which]]
        hinted[which[hinted_texts(self.data, begins.tolist(), ends.tolist())]] = True
        return hinted

    def _checked(self, r: Array) -> Array:
        """Mask of the messages that have no finding besides that of their kind."""
        fine = np.ones(len(r), bool)
        kinds = self.kind[r]
        for number in np.flatnonzero(np.bincount(kinds)).tolist():
            checks = self.lines._kinds[number].checks
            if checks:
                which = np.flatnonzero(kinds == number)
                begins = self.bytes.begins[r[which]]
                ends = begins + self.c["length"][r[which]]
                fine[which] = check(checks, self.data, begins, ends)
        return fine

    def _alone(self, r: Array) -> None:
        """Messages that are looked at one by one."""
        begins, data, whole = self.bytes.begins[r], self.data, self.slots.whole
        ends = begins + self.c["length"][r]
        ways = [kind.alone for kind in self.lines._kinds]
        others = []
        for row, kind, begin, end in zip(
            r.tolist(), self.kind[r].tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            alone = ways[kind]
            text = alone(data[begin:end], partial(self._opened, row)) if alone else None
            if text is None:
                others.append(row)
            else:
                whole[row] = text
        self._by_themselves(np.array(others, np.int64))

    def _by_themselves(self, r: Array) -> None:
        """Messages of which nothing is known but their bytes, and what was found wrong with them."""
        begins, data, whole = self.bytes.begins[r], self.data, self.slots.whole
        found = self.capture.index.found
        kinds = self.lines._kinds
        columns = (self.kind, self.c["relation"], self.c["number"], self.c["length"])
        for row, begin, kind, relation, number, length in zip(
            r.tolist(), begins.tolist(), *(x[r].tolist() for x in columns), strict=True
        ):
            other = kinds[kind].other
            assert other is not None
            whole[row] = other.text(data[begin : begin + length], relation, found.get(number, ()))


def _close_up(
    view: memoryview, begins: Array, middles: Array, ends: Array, which: Array, long: Array
) -> int:
    """Take the room behind the lines `which` away, and cut their summaries where they are `long`: the
    size of what is left. Where lines begin, their summaries begin, and they end in `view`."""
    size = at = 0

    def keep(stop: int) -> None:
        nonlocal size
        if size != at:
            view[size : size + stop - at] = view[at:stop]
        size += stop - at

    for row, middle, end, cut in zip(
        which.tolist(), middles[which].tolist(), ends[which].tolist(), long[which].tolist(),
        strict=True,
    ):  # fmt: skip
        keep(middle if cut else end)
        if cut:
            text = bytes(view[middle : end - 1]).decode()[: WIDTH - 1].encode() + _CUT
            view[size : size + len(text)] = text
            size += len(text)
        at = int(begins[row + 1]) if row + 1 < len(begins) else int(ends[row])
    keep(int(ends[-1]) if len(ends) else 0)
    return size
