"""NDJSON of many messages, with all their fields, in blocks of messages whose bytes are read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from struct import Struct, error
from typing import TYPE_CHECKING, Any

import numpy as np

from .digits import lsns
from .heads import Common, Head, Maker, in_json
from .noted import check
from .objectblocks import Block, Part
from .quick import Kind
from .records import _clean, dumps, record, secret_ranges
from .rowjson import Columns, NotKnownError
from .rows import ASSUMED, DIRECTIONS
from .rowsummaries import RowSummaries
from .selection import together
from .slots import WINDOW
from .taken import UnusualError
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs, Stream

KINDS = 256
"""Kinds of messages whose heads are kept for one connection and direction."""

BLOCK = 64
"""Messages that one process writes before it is another's turn: an object takes some ten thousand bytes."""

TOGETHER = 64
"""Blocks whose messages are prepared together: more take less time for each, and more memory."""

PIECES = 900
"""Pieces of text after which they are a part."""

FIELDS = b',"fields":['
"""Where an object's fields begin: inside a string no quotation mark follows a comma."""

PADDING = 2 * WINDOW
"""Bytes behind the last message that may be read."""


_NONE = Struct("")


class Rows:
    """What all writers of row messages of one kind share: the columns."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.learned = -1
        self.columns: dict[int, Columns] = {}

    def take(self) -> None:
        """Take over what the kind learned."""
        if self.kind.learned != self.learned:
            self.learned = self.kind.learned
            for columns in self.columns.values():
                columns.take()


class Writer:
    """Writes the messages of one kind, connection and direction. number: by which the summaries of its rows
    are made, -1 for no rows."""

    def __init__(
        self, kind: Kind, head: Head, opened: Callable[[int], MessageView], number: int,
        inner: int,
    ) -> None:  # fmt: skip
        self.inner = inner
        self.number = number
        self.kind = kind
        self.head = head
        self.opened = opened
        if kind.rows:
            if kind.fields is None:
                kind.fields = Rows(kind)
            self.rows: Rows = kind.fields
            self.made: dict[int, tuple[Maker, Columns, Struct]] = {}
        else:
            flat = kind.flat_head if kind.tail else kind.flat
            self.whole = Maker(head, flat, whole=kind.flat is not None, note=kind.note)

    def begin(self, block: Block, data: bytes, places: list[int]) -> None:
        """Prepare the messages at some places of a block, whose bytes are in `data`."""
        if self.kind.rows:
            self._rows(block, data, places)
        elif self.kind.flat is not None:
            size, length = self.kind.flat.numbers.size, block.common.length
            places = [i for i in places if length[i] == size]
            block.add(Part(self.whole, places, self, data), self.kind.flat.numbers)
        else:
            self._others(block, data, places)

    def _others(self, block: Block, data: bytes, places: list[int]) -> None:
        kind = self.kind
        numbers = kind.flat_head.numbers if kind.tail else _NONE
        part = Part(self.whole, [], self, data)
        for i in places:
            start = block.begin[i]
            end = start + block.common.length[i]
            try:
                if kind.tail:
                    if end - start < numbers.size:
                        raise UnusualError
                    _, told, tail = kind.with_tail(data, start, end)
                else:
                    opened = partial(self.opened, block.numbers[i])
                    told, fields = kind.remembered(data, start, end, opened)
                    tail = fields.encode()
            except UnusualError:
                continue
            part.places.append(i)
            part.summaries.append(in_json(told).encode())
            part.ends.append(tail + b"]}\n")
        block.add(part, numbers)

    def _rows(self, block: Block, data: bytes, places: list[int]) -> None:
        letters: dict[int, list[int]] = {}
        for i in places:
            if block.summaries[i]:
                letters.setdefault(data[block.begin[i] + self.kind.letter_at], []).append(i)
        for letter, some in letters.items():
            while some and letter not in self.made:
                try:
                    self._learn(letter, block.numbers[some[0]])
                except UnusualError:
                    del some[0]
            if some:
                maker, columns, numbers = self.made[letter]
                summaries = [block.summaries[i] for i in some]
                block.add(Part(maker, some, self, data, summaries, columns), numbers)

    def write(
        self, columns: Columns, data: bytes, start: int, length: int, number: int, out: list[bytes]
    ) -> None:
        """Append the columns of a row and the object's end. Raises UnusualError, perhaps after a part of
        it was written."""
        mark = len(out)
        message = data[start : start + length + PADDING]
        try:
            at = columns.write(message, out)
        except (NotKnownError, KeyError, error):
            del out[mark:]
            at = self._again(columns, message, number, out)
        if at != length:
            raise UnusualError
        out.append(b"]}\n")

    def _learn(self, letter: int, number: int) -> None:
        """Get to know what writes rows that begin with a letter. Raises UnusualError."""
        kind, rows = self.kind, self.rows
        if letter not in kind.variants:
            kind.learn(self.opened(number))
            rows.take()
        variant = kind.variants.get(letter)
        if variant is None:
            raise UnusualError
        if letter not in rows.columns:
            rows.columns[letter] = Columns(variant, kind.base, kind.context.encoding)
        maker = Maker(self.head, variant.flat, whole=False)
        self.made[letter] = maker, rows.columns[letter], variant.flat.numbers

    def _again(self, columns: Columns, message: bytes, number: int, out: list[bytes]) -> int:
        """Learn from this message, and write its columns. Raises UnusualError."""
        self.kind.learn(self.opened(number))
        self.rows.take()
        try:
            return columns.write(message, out)
        except (NotKnownError, KeyError, error):
            raise UnusualError from None


class Objects:
    """Writes the messages of a capture by number as JSON objects, with `fields` and `payload` or not."""

    def __init__(self, runs: Runs, fields: bool = True, payload: bool = False) -> None:
        self.runs = runs
        self.fields = fields
        self.payload = payload
        self._writers: dict[int, dict[int, Writer | None]] = {}
        self._summaries = RowSummaries()

    def blocks(self, blocks: Iterable[Any]) -> Iterator[bytes | list[bytes]]:
        """The objects of blocks of numbers (arrays), one a line, in parts, each in pieces; b"" ends a
        block."""
        for some in together(blocks, TOGETHER):
            prepared = self._prepared(np.concatenate(some)).messages()
            for block in some:
                yield from self._parts(islice(prepared, len(block)))
                yield b""

    def _parts(
        self, messages: Iterable[tuple[Part | None, int, int, int]]
    ) -> Iterator[list[bytes]]:
        """The pieces of messages, some hundreds at a time."""
        usual = self.fields and not self.payload
        out: list[bytes] = []
        for part, begin, length, number in messages:
            mark = len(out)
            if mark > PIECES:
                yield out
                out, mark = [], 0
            if part is None:
                out += self._slow(number)
                continue
            out.append(next(part.heads))
            if part.columns is not None:
                try:
                    part.writer.write(part.columns, part.data, begin, length, number, out)
                except UnusualError:
                    del out[mark:]
                    out += self._slow(number)
                    continue
            if not usual:
                inner = part.data[begin + part.writer.inner : begin + length]
                out[mark:] = (self._other(b"".join(out[mark:]), inner),)
        if out:
            yield out

    def _other(self, text: bytes, inner: bytes) -> bytes:
        """An object made of one with fields: `inner` are the innermost layer's bytes."""
        at = text.index(FIELDS)
        payload = b',"payload":"%b"' % inner.hex().encode() if self.payload else b""
        return b"%b%b%b" % (text[:at], payload, text[at:] if self.fields else b"}\n")

    def _slow(self, number: int) -> tuple[bytes, ...]:
        view = self.runs.message(number)
        text = dumps(record(self.runs.capture, view, fields=self.fields, payload=self.payload))
        return text.encode(), b"\n"

    def _prepared(self, numbers: Any) -> Block:
        """What `blocks` needs of the messages."""
        c = self.runs.columns(numbers)
        if self._summaries.full:
            self._summaries = RowSummaries()
            self._writers.clear()
        sides = list(self.runs.sides(c))
        count = len(numbers)
        begin = np.zeros(count, np.int64)
        where = np.full(count, b"", object)
        for _, stream, mine, first, last in sides:
            begin[mine] = c["offset"][mine].astype(np.int64) - stream.base
            where[mine] = self._where(stream, first, last, c["frame"][mine], c["time"][mine])
        number, lsn = c["number"].tolist(), c["lsn"].tolist()
        common = Common(
            number, where.tolist(), c["length"].tolist(), tuple(lsn), lsns(lsn), c["xid"].tolist()
        )
        block = Block(number, begin.tolist(), common)
        groups, rows = [], []
        start, text = 0, []
        for side, stream, mine, _, _ in sides:
            text.append(stream.data)
            data = stream.data + bytes(PADDING)
            for writer, which in self._groups(block, c, side, data, mine, begin[mine]):
                groups.append((writer, data, which))
                if writer.number >= 0:
                    rows.append((which, np.full(len(which), writer.number), begin[which] + start))
            start += len(stream.data)
        if rows:
            self._summarise(block, b"".join([*text, bytes(PADDING)]), rows)
        for writer, data, which in groups:
            writer.begin(block, data, which.tolist())
        block.make()
        return block

    def _groups(
        self, block: Block, c: Any, side: int, data: bytes, mine: Any, begin: Any
    ) -> Iterator[tuple[Writer, Any]]:
        """The messages of one connection and direction, at the places `mine` of the block and at `begin` in
        `data`, by what writes them."""
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
                places = places[check(writer.kind.checks, data, begin[which], ends)]
            if found:
                places = places[[block.numbers[i] not in found for i in places.tolist()]]
            if len(places):
                yield writer, places

    def _summarise(self, block: Block, data: bytes, rows: list[tuple[Any, Any, Any]]) -> None:
        """Make the summaries of rows: places in the block, kinds, and where the messages begin."""
        places, kinds, begins = (np.concatenate(each) for each in zip(*rows, strict=True))
        numbers = [block.numbers[i] for i in places.tolist()]
        made = self._summaries.texts(data, kinds, begins, self._opened(numbers))
        for i, text in zip(places.tolist(), made, strict=True):
            if text is not None and (not text.isascii() or '"' in text or "\\" in text):
                text = in_json(text)
            block.summaries[i] = b"" if text is None else text.encode()

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
        )
