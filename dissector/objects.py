"""NDJSON of many messages, with all their fields, in blocks of messages whose bytes are read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from struct import Struct, error
from typing import TYPE_CHECKING, Any

import numpy as np

from .heads import Head, Made, in_json, maker
from .noted import check
from .quick import Kind
from .records import _clean, dumps, record, secret_ranges
from .rowjson import Columns, NotKnownError
from .rows import ASSUMED, DIRECTIONS
from .rowsummaries import RowSummaries
from .slots import WINDOW
from .taken import UnusualError
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs, Stream

KINDS = 256
"""Kinds of messages whose heads are kept for one connection and direction."""

BLOCK = 64
"""Messages that one process writes before it is another's turn: an object takes some ten thousand bytes."""

TOGETHER = 128
"""Blocks whose messages are prepared together."""

PIECES = 1000
"""Pieces of text after which they are joined."""

FIELDS = b',"fields":['
"""Where an object's fields begin: inside a string no quotation mark follows a comma."""

PADDING = 2 * WINDOW
"""Bytes behind the last message that may be read."""


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
    """Writes the messages of one kind, connection and direction. `write` appends the object of the message
    of some number, whose bytes are those at `start`, and raises UnusualError, perhaps after a part of it
    was written. number: by which the summaries of its rows are made, -1 for no rows."""

    def __init__(
        self, kind: Kind, head: Head, opened: Callable[[int], MessageView], number: int,
        inner: int,
    ) -> None:  # fmt: skip
        self.inner = inner
        self.number = number
        self.kind = kind
        self.head = head
        self.opened = opened
        self.write = self._other
        if kind.flat is not None:
            self.flat = kind.flat.numbers
            self.write = self._flat
        elif kind.rows:
            if kind.fields is None:
                kind.fields = Rows(kind)
            self.rows: Rows = kind.fields
            self.letter_at = kind.letter_at
            self.made: dict[int, tuple[Made, Columns, Struct]] = {}
            self.write = self._row
        if not kind.rows:
            flat = kind.flat_head if kind.tail else kind.flat
            self.whole = maker(head, flat, whole=kind.flat is not None, note=kind.note)

    def _flat(
        self, data: bytes, summary: str | None, start: int, length: int, number: int, where: str, lsn: int,
        xid: int, out: list[bytes],
    ) -> None:  # fmt: skip
        if length != self.flat.size:
            raise UnusualError
        values = self.flat.unpack_from(data, start)
        out.append(self.whole(number, where, length, lsn, xid, values))

    def _other(
        self, data: bytes, summary: str | None, start: int, length: int, number: int, where: str, lsn: int,
        xid: int, out: list[bytes],
    ) -> None:  # fmt: skip
        kind, end = self.kind, start + length
        if kind.tail:
            if length < kind.flat_head.numbers.size:
                raise UnusualError
            values, told, tail = kind.with_tail(data, start, end)
        else:
            values = ()
            opened = partial(self.opened, number)
            told, fields = kind.remembered(data, start, end, opened)
            tail = fields.encode()
        json = in_json(told)
        out += (self.whole(number, where, length, lsn, xid, values, json), tail, b"]}\n")

    def _row(
        self, data: bytes, summary: str | None, start: int, length: int, number: int, where: str, lsn: int,
        xid: int, out: list[bytes],
    ) -> None:  # fmt: skip
        if summary is None:
            raise UnusualError
        known = self.made.get(data[start + self.letter_at])
        if known is None:
            known = self._learned(data[start + self.letter_at], number)
        made, columns, numbers = known
        mark = len(out)
        out.append(b"")
        message = data[start : start + length + PADDING]
        try:
            at = columns.write(message, out)
        except (NotKnownError, KeyError, error):
            del out[mark + 1 :]
            at = self._again(columns, message, number, out)
        if at != length:
            raise UnusualError
        if not summary.isascii() or '"' in summary or "\\" in summary:
            summary = in_json(summary)
        out[mark] = made(number, where, length, lsn, xid, numbers.unpack_from(message), summary)
        out.append(b"]}\n")

    def _learned(self, letter: int, number: int) -> tuple[Made, Columns, Struct]:
        """What writes rows that begin with a letter. Raises UnusualError."""
        kind, rows = self.kind, self.rows
        if letter not in kind.variants:
            kind.learn(self.opened(number))
            rows.take()
        variant = kind.variants.get(letter)
        if variant is None:
            raise UnusualError
        if letter not in rows.columns:
            rows.columns[letter] = Columns(variant, kind.base, kind.context.encoding)
        found = (
            maker(self.head, variant.flat, whole=False),
            rows.columns[letter],
            variant.flat.numbers,
        )
        self.made[letter] = found
        return found

    def _again(self, columns: Columns, message: bytes, number: int, out: list[bytes]) -> int:
        """Learn from this message, and write its columns. Raises UnusualError."""
        self.kind.learn(self.opened(number))
        self.rows.take()
        try:
            return columns.write(message, out)
        except (NotKnownError, KeyError, error):
            raise UnusualError from None


def _check(writers: Any, rows: Any, data: bytes, begins: Any, ends: Any) -> None:
    """Messages with findings that their writers do not know are opened."""
    which: dict[Writer | None, list[int]] = {}
    for i, writer in enumerate(writers[rows].tolist()):
        which.setdefault(writer, []).append(i)
    for writer, places in which.items():
        if writer is not None:
            good = check(writer.kind.checks, data, begins[places], ends[places])
            writers[rows[places][~good]] = None


class Objects:
    """Writes the messages of a capture by number as JSON objects, with `fields` and `payload` or not."""

    def __init__(self, runs: Runs, fields: bool = True, payload: bool = False) -> None:
        self.runs = runs
        self.fields = fields
        self.payload = payload
        self._writers: dict[int, dict[int, Writer | None]] = {}
        self._summaries = RowSummaries()

    def blocks(self, blocks: Iterable[Any]) -> Iterator[bytes]:
        """The objects of blocks of numbers (arrays), one a line, in parts; b"" ends a block."""
        source = iter(blocks)
        found = self.runs.capture.index.found
        usual = self.fields and not self.payload
        while some := list(islice(source, TOGETHER)):
            prepared = self._prepared(np.concatenate(some))
            for block in some:
                out: list[bytes] = []
                for data, summary, writer, start, length, number, where, lsn, xid in islice(
                    prepared, len(block)
                ):
                    mark = len(out)
                    if mark > PIECES:
                        yield b"".join(out)
                        out.clear()
                        mark = 0
                    if writer is not None and number not in found:
                        try:
                            writer.write(data, summary, start, length, number, where, lsn, xid, out)
                            if not usual:
                                inner = data[start + writer.inner : start + length]
                                out[mark:] = (self._other(b"".join(out[mark:]), inner),)
                            continue
                        except UnusualError:
                            del out[mark:]
                    out += (self._slow(number).encode(), b"\n")
                if out:
                    yield b"".join(out)
                yield b""

    def _other(self, text: bytes, inner: bytes) -> bytes:
        """An object made of one with fields: `inner` are the innermost layer's bytes."""
        at = text.index(FIELDS)
        payload = b',"payload":"%b"' % inner.hex().encode() if self.payload else b""
        return b"%b%b%b" % (text[:at], payload, text[at:] if self.fields else b"}\n")

    def _slow(self, number: int) -> str:
        view = self.runs.message(number)
        return dumps(record(self.runs.capture, view, fields=self.fields, payload=self.payload))

    def _prepared(self, numbers: Any) -> Iterator[Any]:
        """What `blocks` needs of each message, in order."""
        c = self.runs.columns(numbers)
        if self._summaries.full:
            self._summaries = RowSummaries()
            self._writers.clear()
        count = len(numbers)
        which = np.full(count, -1, np.int64)
        begin = np.zeros(count, np.int64)
        where = np.full(count, None, object)
        writers = np.full(count, None, object)
        summaries = np.full(count, None, object)
        texts: list[bytes] = []
        for side, stream, mine, first, last in self.runs.sides(c):
            which[mine] = len(texts)
            begin[mine] = c["offset"][mine].astype(np.int64) - stream.base
            where[mine] = self._where(stream, first, last, c["frame"][mine], c["time"][mine])
            assumed = c["flags"][mine] & ASSUMED != 0
            noted = c["severity"][mine] != 0
            keys = c["key"][mine] << np.uint64(2) | assumed | noted * np.uint64(2)
            writers[mine] = self._writers_of(side, keys.tolist(), c["number"][mine].tolist())
            data = stream.data + bytes(PADDING)
            noted_rows = mine[noted]
            if len(noted_rows):
                begins = begin[noted_rows]
                _check(writers, noted_rows, data, begins, begins + c["length"][noted_rows])
            texts.append(data)
            row_numbers = np.array([-1 if w is None else w.number for w in writers[mine]], np.int64)
            rows = mine[row_numbers >= 0]
            if len(rows):
                summaries[rows] = self._summaries.texts(
                    data, row_numbers[row_numbers >= 0], begin[rows],
                    self._opened(c["number"][rows]),
                )  # fmt: skip
        texts.append(b"")
        return zip(
            [texts[i] for i in which.tolist()], summaries.tolist(), writers.tolist(), begin.tolist(),
            c["length"].tolist(), c["number"].tolist(), where.tolist(), c["lsn"].tolist(),
            c["xid"].tolist(), strict=True,
        )  # fmt: skip

    def _opened(self, numbers: Any) -> Callable[[int], MessageView]:
        return lambda place: self.runs.message(int(numbers[place]))

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
            f'"frame":{number},"frames":['
            f"{frames[a] if a == b else ','.join(map(str, sorted(set(frames[a : b + 1]))))}"
            f'],"time":"{text}",'
            for number, a, b, text in zip(
                frame[at].tolist(), first[at].tolist(), last[at].tolist(), times, strict=True
            )
        ]
        return found[np.cumsum(new) - 1]

    def _writers_of(self, side: int, keys: list[int], numbers: list[int]) -> list[Writer | None]:
        writers = self._writers.setdefault(side, {})
        found = []
        for key, number in zip(keys, numbers, strict=True):
            if key not in writers:
                if len(writers) >= KINDS:
                    writers.clear()
                writers[key] = self._writer(number)
            found.append(writers[key])
        return found

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
