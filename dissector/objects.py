"""NDJSON of many messages, with all their fields, in blocks of messages whose bytes are read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from .digits import lsns
from .heads import Common, Head, Maker, in_json
from .noted import check
from .objectblocks import Block, Part
from .parallel import Pieces
from .quick import Kind
from .records import END, FIELDS, _clean, dumps, payload_json, record, secret_ranges
from .repeated import Repeated
from .rowcolumns import MOST_ITEMS, Layout, Table
from .rowobjects import RowObjects
from .rows import ASSUMED, DIRECTIONS
from .rowsummaries import RowSummaries
from .slots import WINDOW
from .taken import UnusualError
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs, Stream

KINDS = 256
"""Kinds of messages whose heads are kept for one connection and direction."""

BLOCK = 4096
"""Messages that one process prepares and writes before it is another's turn: more take less time for each,
and more memory. While one process writes, another prepares, which takes longer: so nobody waits."""

PIECES = 900
"""Pieces of text after which they are a part."""

OWN = 1 << 20
"""Bytes of a part that are no other's, after which it ends: one COPY message may say a megabyte."""

AHEAD = 1 << 21
"""Bytes of objects that a process makes before it is its turn to write."""

PADDING = 2 * WINDOW
"""Bytes behind the last message that may be read."""


_NONE = Struct("")


class Rows:
    """What all writers of row messages of one kind share: the layouts, by letter."""

    def __init__(self, kind: Kind, table: Table) -> None:
        self.kind = kind
        self.table = table
        self.learned = -1
        self.layouts: dict[int, Layout] = {}

    def take(self) -> None:
        """Take over what the kind learned."""
        if self.kind.learned != self.learned:
            self.learned = self.kind.learned
            for layout in self.layouts.values():
                layout.take()


class Writer:
    """Writes the messages of one kind, connection and direction. number: by which the summaries of its rows
    are made, -1 for no rows."""

    def __init__(
        self, kind: Kind, head: Head, opened: Callable[[int], MessageView], number: int,
        inner: int, table: Table,
    ) -> None:  # fmt: skip
        self.inner = inner
        self.number = number
        self.kind = kind
        self.head = head
        self.opened = opened
        if kind.rows:
            if kind.fields is None or kind.fields.table is not table:
                kind.fields = Rows(kind, table)
            self.rows: Rows = kind.fields
            self.made: dict[int, tuple[Maker, Layout, Struct]] = {}
        else:
            flat = kind.flat_head if kind.tail else kind.flat
            self.whole = Maker(head, flat, whole=kind.flat is not None, note=kind.note)

    def begin(self, block: Block, places: list[int]) -> None:
        """Prepare the messages at some places of a block."""
        if self.kind.rows:
            self._rows(block, places)
        elif self.kind.flat is not None:
            size, length = self.kind.flat.numbers.size, block.common.length
            places = [i for i in places if length[i] == size]
            block.add(Part(self.whole, places, self), self.kind.flat.numbers)
        else:
            self._others(block, places)

    def _others(self, block: Block, places: list[int]) -> None:
        kind, data = self.kind, block.data
        numbers = kind.flat_head.numbers if kind.tail else _NONE
        part = Part(self.whole, [], self)
        for i in places:
            start = block.begin[i]
            end = start + block.common.length[i]
            try:
                if kind.tail:
                    if end - start < numbers.size:
                        raise UnusualError
                    _, told, tail = kind.with_tail(data, start, end)
                    shared = b""
                else:
                    opened = partial(self.opened, block.numbers[i])
                    told, tail, shared = kind.remembered(data, start, end, opened)
            except UnusualError:
                continue
            part.places.append(i)
            part.summaries.append(in_json(told).encode())
            part.ends.append(tail)
            part.shared.append(shared)
        block.add(part, numbers)

    def _rows(self, block: Block, places: list[int]) -> None:
        letters: dict[int, list[int]] = {}
        for i in places:
            if block.summaries[i]:
                letters.setdefault(block.data[block.begin[i] + self.kind.letter_at], []).append(i)
        for letter, some in letters.items():
            while some and letter not in self.made:
                try:
                    self._learn(letter, block.numbers[some[0]])
                except UnusualError:
                    del some[0]
            if some:
                maker, layout, numbers = self.made[letter]
                block.add(Part(maker, some, self, layout), numbers)

    def _learn(self, letter: int, number: int) -> None:
        """Get to know what writes rows that begin with a letter. Raises UnusualError."""
        kind, rows = self.kind, self.rows
        if letter not in kind.variants:
            kind.learn(self.opened(number))
            rows.take()
        variant = kind.variants.get(letter)
        if variant is None:
            raise UnusualError
        if letter not in rows.layouts:
            rows.layouts[letter] = Layout(rows.table, variant, kind.base, kind.context.encoding)
        maker = Maker(self.head, variant.flat, whole=False)
        self.made[letter] = maker, rows.layouts[letter], variant.flat.numbers

    def learn(self, number: int) -> None:
        """Learn from a row, if that is possible."""
        with suppress(UnusualError):
            self.kind.learn(self.opened(number))
        self.rows.take()


class Objects:
    """Writes the messages of a capture by number as JSON objects, with `fields` and `payload` or not."""

    def __init__(self, runs: Runs, fields: bool = True, payload: bool = False) -> None:
        self.runs = runs
        self.fields = fields
        self.payload = payload
        self._writers: dict[int, dict[int, Writer | None]] = {}
        self._summaries = RowSummaries()
        self._table = Table()
        self._repeated = Repeated(self._slow, self._rows, runs.message)

    def blocks(self, blocks: Iterable[Any]) -> Iterator[bytes | Pieces]:
        """The objects of blocks of numbers (arrays), one a line, in parts, each in pieces; b"" ends a
        block."""
        for numbers in blocks:
            yield from self._parts(self._prepared(np.asarray(numbers)))
            yield b""

    def _parts(self, block: Block) -> Iterator[Pieces]:
        """The pieces of a block's messages, some hundreds at a time."""
        usual = self.fields and not self.payload
        columns = block.columns(self._table) if self.fields else None
        out = Pieces()
        for i, part in enumerate(block.parts):
            mark = len(out)
            if mark > PIECES or out.own > OWN:
                yield out
                out, mark = Pieces(), 0
            text = self._alone(block, i) if part is None else next(part.heads)
            out.append(text)
            out.own += len(text)
            if part is None:
                continue
            if part.layout is not None and columns is not None:
                found = next(columns)
                if found is None:
                    out[mark] = self._slow(block.numbers[i])
                    out.own += len(out[mark])
                    continue
                out += found
                out.append(END)
            elif part.ends:
                out += (next(part.last), END)
            if not usual:
                begin = block.begin[i]
                inner = block.data[begin + part.writer.inner : begin + block.common.length[i]]
                out[mark:] = (self._other(b"".join(out[mark:]), inner),)
                out.own += len(out[mark]) - len(text)  # it shares nothing any more
        if out:
            yield out

    def _other(self, text: bytes, inner: bytes) -> bytes:
        """An object made of one with fields: `inner` are the innermost layer's bytes."""
        at = text.index(FIELDS)
        payload = payload_json(inner) if self.payload else b""
        return b"%b%b%b" % (text[:at], payload, text[at:] if self.fields else b"}\n")

    def _alone(self, block: Block, i: int) -> bytes:
        """A message that is not made with others: one that came before is known by its bytes."""
        number, kind = block.numbers[i], block.repeats.get(i)
        if kind is None:
            return self._slow(number)
        begin = block.begin[i]
        data = block.data[begin : begin + block.common.length[i]]
        return self._repeated.text(number, block.common.where[i], *kind, data)

    def _rows(self, number: int, text: bytes) -> RowObjects | None:
        """What writes rows like this one, whose object is `text` from ``,"message":`` on."""
        with suppress(UnusualError):
            view = self.runs.message(number)
            return RowObjects(view, self.runs.secrets, text, self.fields, self.payload)
        return None

    def _slow(self, number: int) -> bytes:
        view = self.runs.message(number)
        text = dumps(record(self.runs.capture, view, fields=self.fields, payload=self.payload))
        return text.encode() + b"\n"

    def _prepared(self, numbers: Any) -> Block:
        """What `blocks` needs of the messages."""
        c = self.runs.columns(numbers)
        if self._summaries.full or self._table.count > MOST_ITEMS:
            self._summaries, self._table = RowSummaries(), Table()
            self._writers.clear()
        sides = list(self.runs.sides(c))
        count = len(numbers)
        begin = np.zeros(count, np.int64)
        where = np.full(count, b"", object)
        texts, start = [], 0
        for _, stream, mine, first, last in sides:
            begin[mine] = c["offset"][mine].astype(np.int64) + (start - stream.base)
            where[mine] = self._where(stream, first, last, c["frame"][mine], c["time"][mine])
            texts.append(stream.data)
            start += len(stream.data)
        number, lsn = c["number"].tolist(), c["lsn"].tolist()
        common = Common(
            number, where.tolist(), c["length"].tolist(), tuple(lsn), lsns(lsn), c["xid"].tolist()
        )
        block = Block(number, begin.tolist(), common, b"".join([*texts, bytes(PADDING)]))
        groups: list[tuple[Writer, Any]] = []
        for side, _, mine, _, _ in sides:
            groups += self._groups(block, c, side, mine, begin[mine])
        self._summarise(block, [group for group in groups if group[0].number >= 0], begin)
        for writer, which in groups:
            writer.begin(block, which.tolist())
        block.make()
        self._repeats(block, c)
        return block

    def _repeats(self, block: Block, c: dict[str, Any]) -> None:
        """Of the messages that are not made with others, note those that may come again: connection and
        direction, and their kind."""
        index = self.runs.capture.index
        places = np.flatnonzero(self._repeated.may_repeat(c, index.tables))
        kinds = self._repeated.keys(c)[places].tolist()
        sides = (c["stream"][places].astype(np.int64) * 2 + c["direction"][places]).tolist()
        for i, side, kind in zip(places.tolist(), sides, kinds, strict=True):
            alone = block.parts[i] is None and block.common.where[i]
            if alone and block.numbers[i] not in index.found:
                block.repeats[i] = side, kind

    def _groups(
        self, block: Block, c: Any, side: int, mine: Any, begin: Any
    ) -> Iterator[tuple[Writer, Any]]:
        """The messages of one connection and direction, at the places `mine` of the block and at `begin` in
        its data, by what writes them."""
        found = self.runs.capture.index.found
        noted = c["severity"][mine] != 0
        keys = c["key"][mine] << np.uint64(2) | (c["flags"][mine] & ASSUMED != 0)
        keys |= noted * np.uint64(2)
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[:1]] + np.uint64(1)))
        for which in np.split(order, starts[1:]):
            places = mine[which]
            writer = self._writer_of(side, int(keys[which[0]]), block.numbers[int(places[0])])
            if writer is None:
                continue
            if noted[which[0]]:
                ends = begin[which] + c["length"][places]
                places = places[check(writer.kind.checks, block.data, begin[which], ends)]
            if found:
                places = places[[block.numbers[i] not in found for i in places.tolist()]]
            if len(places):
                yield writer, places

    def _summarise(self, block: Block, rows: list[tuple[Writer, Any]], begin: Any) -> None:
        """Make the summaries of rows, given by their places in the block. begin: of all its messages."""
        if not rows:
            return
        places = np.concatenate([which for _, which in rows])
        kinds = np.repeat([writer.number for writer, _ in rows], [len(which) for _, which in rows])
        numbers = [block.numbers[i] for i in places.tolist()]
        made = self._summaries.texts(block.data, kinds, begin[places], self._opened(numbers))
        for i, text in zip(places.tolist(), made, strict=True):
            block.summaries[i] = text

    def _opened(self, numbers: list[int]) -> Callable[[int], MessageView]:
        return lambda place: self.runs.message(numbers[place])

    def _where(self, stream: Stream, first: Any, last: Any, frame: Any, time: Any) -> Any:
        """The text of frame, frames and time of each message: many lie in one segment."""
        new = np.ones(len(first), bool)
        for column in (first, last, frame, time):
            new[1:] &= column[1:] == column[:-1]
        new[1:] = ~new[1:]
        at = np.flatnonzero(new)
        times = self.runs.times(time[at], stream.records[last[at]])
        frames = stream.frames
        found = np.empty(len(at), object)
        found[:] = [
            f',"frame":{number},"frames":['
            f"{frames[a] if a == b else ','.join(map(str, sorted(set(frames[a : b + 1]))))}"
            f'],"time":"{text}",'.encode()
            for number, a, b, text in zip(
                frame[at].tolist(), first[at].tolist(), last[at].tolist(), times, strict=True
            )
        ]
        return found[np.cumsum(new) - 1]

    def _writer_of(self, side: int, key: int, number: int) -> Writer | None:
        writers = self._writers.setdefault(side, {})
        if key not in writers:
            if len(writers) >= KINDS:
                writers.clear()
            writers[key] = self._writer(number)
        return writers[key]

    def _writer(self, number: int) -> Writer | None:
        """What writes messages like this one; None: they are opened."""
        capture = self.runs.capture
        row = capture.row(number)
        kind = self.runs.kind(number)
        if kind is None:
            return None
        rows = -1
        if kind.rows:
            rows = self._summaries.number(kind, partial(self.runs.message, number))
            if rows < 0:
                return None
        view = self.runs.message(number)
        inner = view.innermost
        if self.payload and (inner.end != len(view.data) or any(secret_ranges(view.tree))):
            return None
        info = capture.connection(row.stream)
        ends = (info.frontend, info.backend)
        direction = row.direction
        path = capture.path(row)
        place = dumps(
            {"stream": row.stream, "direction": DIRECTIONS[direction], "source": ends[direction],
             "destination": ends[1 - direction], "message": path[0] if path else None,
             "path": list(path)}
        )  # fmt: skip
        relation = dumps({"relation": _clean(capture.relation(row))})
        assumed = "true" if row.flags & ASSUMED else "false"
        return Writer(
            kind,
            Head(
                f'{place[1:-1]},"length":',
                f'{relation[1:-1]},"summary":"',
                f'","findings":{kind.findings},"assumed":{assumed},"fields":[',
            ),
            self.runs.message,
            rows,
            inner.start,
            self._table,
        )
