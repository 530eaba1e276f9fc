"""Lists and NDJSON of many messages: runs of rows whose bytes are read at once.

`lines` and `objects` write what `dissector.report.list_cells` and `dissector.records.record` write,
message by message; where `dissector.quick` knows the kind, without opening the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from . import display
from .compiled import PADDING, summary_of
from .parallel import in_order, processors
from .quick import Kind, UnusualError
from .records import _clean, dumps, record
from .rows import ASSUMED, BACKEND, COLUMNS, DECRYPTED, DIRECTIONS, INCOMPLETE, NO_LSN
from .times import iso_time
from .view import Capture, MessageView

BLOCK = 2048
"""Messages whose bytes are read at once."""

FIELDS_BLOCK = 128
"""The same where each field is written: an object takes some ten thousand bytes."""

MANY = 20_000
"""Messages from which on several processes are worth their start."""

KINDS = 256
"""Kinds of messages that are kept apart."""

WIDE = 1 << 23
"""Bytes of a stream that are read at once: where the chosen messages lie further apart, each is opened."""

QUICK = ("XLogData", "WALData", "Primary keepalive message", "Standby status update",
         "Hot standby feedback message")  # fmt: skip
"""Messages of the replication layer that are written without opening them."""



class _Stream:
    """Bytes of one direction for a block: data, their stream offset, and the pieces they came in."""

    __slots__ = ("base", "data", "frames", "offsets", "records")

    def __init__(self, capture: Capture, stream: int, direction: int, low: int, high: int) -> None:
        client = capture.connection(stream).client or 0
        physical = client if direction != BACKEND else 1 - client
        pieces = list(capture.index.pieces(stream, physical, low, high))
        read = capture.files.read
        self.base = low
        self.data = b"".join([read(place, size) for _, size, place, _, _ in pieces])
        self.offsets = np.array([p[0] for p in pieces] or [low], np.int64)
        self.frames = [p[3] for p in pieces]
        self.records = [p[4] for p in pieces]


class _Head:
    """What is the same in the lines of one kind, and how the summary is made."""

    __slots__ = ("kind", "learned", "make", "relation", "where")

    def __init__(self, kind: Kind | None, where: str, relation: str) -> None:
        self.kind = kind
        self.where = where
        self.relation = relation
        self.learned = 0
        self.make = summary_of(kind) if kind is not None else None

    def summary(
        self, data: bytes, start: int, end: int, opened: Callable[[], MessageView]
    ) -> str:
        """What `make` did not cover. Raises UnusualError."""
        assert self.kind is not None
        summary = self.kind.summary(data, start, end, opened)
        if self.kind.learned != self.learned:
            self.learned = self.kind.learned
            self.make = summary_of(self.kind)
        return summary


class Runs:
    """Writes messages of `capture` by number."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.secrets = capture.options.show_secrets
        self._kinds: dict[tuple[int, int, int, int], Kind | None] = {}
        self._digits: dict[int, int] = {}
        self._heads: dict[tuple[int, ...], Any] = {}
        self._line_heads: dict[int, dict[int, _Head]] = {}
        self._time: tuple[int, int, str] = (-1, -1, "")

    # -- what the writers ask for

    def lines(self, numbers: Iterable[int]) -> Iterator[list[str]]:
        """The list's cells, tab-separated, in blocks."""
        for block in _blocks(numbers):
            yield self._listed(block).decode().split("\n")[:-1]

    def objects(self, numbers: Iterable[int]) -> Iterator[list[str]]:
        """JSON objects with fields, in blocks."""
        for block in _blocks(numbers):
            yield self._block(block, self._object, self._slow_object)

    def written(self, numbers: Iterable[int], fields: bool) -> Iterator[bytes]:
        """Lines, or JSON objects with `fields`, as text to write. Where there are many messages, several
        processes share the work; what is written does not depend on it."""
        source = iter(numbers)
        ahead = list(islice(source, MANY))
        rest: Iterable[int] = ahead
        if len(ahead) == MANY and processors() > 1:
            chosen = np.fromiter(source, np.int64)
            size = FIELDS_BLOCK if fields else BLOCK
            blocks = [chosen[i : i + size] for i in range(0, len(chosen), size)]
            for part in _blocks(ahead, size):
                yield self._text(part, fields)
            yield from in_order(blocks, lambda block: self._text(block.tolist(), fields))
            return
        for part in _blocks(chain(rest, source), FIELDS_BLOCK if fields else BLOCK):
            yield self._text(part, fields)

    def _text(self, numbers: list[int], fields: bool) -> bytes:
        if not fields:
            return self._listed(numbers)
        make = self.objects
        return "".join(f"{line}\n" for block in make(numbers) for line in block).encode()

    # -- one block

    def _block(
        self, numbers: list[int], quick: Callable[..., str], slow: Callable[[int], str]
    ) -> list[str]:
        index = self.capture.index
        at = np.array(numbers, np.int64) - 1
        columns = {name: index.rows.column(name)[at] for name, _ in COLUMNS}
        first, last, where = self._read(columns)
        rows = zip(*(columns[name].tolist() for name, _ in COLUMNS), strict=True)
        out = []
        found = index.found
        odd = (columns["severity"] > 0) | (columns["flags"] & (DECRYPTED | INCOMPLETE) > 0)
        for number, row, unusual, a, b, stream in zip(
            numbers, rows, odd.tolist(), first.tolist(), last.tolist(), where, strict=True
        ):
            if not unusual and stream is not None and number not in found:
                kind = self._kind(number, row)
                if kind is not None:
                    begin = row[4] - stream.base
                    opened = partial(self._opened, number)
                    try:
                        out.append(quick(number, row, kind, stream, begin, a, b, opened))
                        continue
                    except UnusualError:
                        pass
            out.append(slow(number))
        return out

    def _read(self, columns: dict[str, Any]) -> tuple[Any, Any, list[_Stream | None]]:
        """The bytes of a block's messages: first and last piece of each, and its _Stream."""
        count = len(columns["offset"])
        first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
        where: list[_Stream | None] = [None] * count
        offset = columns["offset"].astype(np.int64)
        end = offset + columns["length"]
        key = columns["stream"].astype(np.int64) * 2 + columns["direction"]
        for one in np.unique(key).tolist():
            mine = np.flatnonzero((key == one) & (columns["flags"] & DECRYPTED == 0))
            if not len(mine):
                continue
            low, high = int(offset[mine].min()), int(end[mine].max())
            if high - low > WIDE:
                continue
            stream = _Stream(self.capture, one >> 1, one & 1, low, high)
            first[mine] = np.searchsorted(stream.offsets, offset[mine], side="right") - 1
            last[mine] = np.searchsorted(stream.offsets, end[mine] - 1, side="right") - 1
            whole = end[mine] - low <= len(stream.data)  # up to a gap
            for i in mine[whole].tolist():
                where[i] = stream
        return first, last, where

    def _opened(self, number: int) -> MessageView:
        return self.capture.message(number)

    def _kind(self, number: int, row: tuple[int, ...]) -> Kind | None:
        """How messages like this one are written; None: by opening each."""
        key = (row[6], row[10], row[9], row[3])
        if key in self._kinds:
            return self._kinds[key]
        tables = self.capture.index.tables
        path, dialect = tables.paths[row[6]], tables.dialects[row[10]]
        kind = None
        if len(path) > 1 and path[1] in QUICK and dialect.copy == "pgoutput":
            view = self.capture.message(number)
            if not view.found:
                try:
                    kind = Kind(view, self.secrets)
                except UnusualError:
                    kind = None
        if len(self._kinds) >= KINDS:  # most are of descriptions that are not in force any more
            self._kinds.clear()
        self._kinds[key] = kind
        return kind

    # -- times

    def _time_text(self, time: int, record: int) -> str:
        """The frame's time with the digits of its file or interface."""
        known, place, text = self._time
        if known == time and place == record:
            return text
        files = self.capture.files
        number, _ = files.split(record)
        digits = self._digits.get(number, -1)
        if digits < 0:
            digits = files.frame(record).digits
            if files.sources[number].kind == "pcap":
                self._digits[number] = digits
        text = iso_time(time, digits)
        self._time = (time, record, text)
        return text

    # -- lines

    def _listed(self, numbers: list[int]) -> bytes:
        """A block of lines."""
        made = self._lines_of(numbers, careful=False)
        seen = np.frombuffer(made, np.uint8)
        # whatever a line holds is printable, but for what stands between its cells and at its end
        if np.count_nonzero(seen < 32) != 8 * len(numbers) or np.any(seen == 127):
            made = self._lines_of(numbers, careful=True)
        return made

    def _lines_of(self, numbers: list[int], careful: bool) -> bytes:
        """careful: each summary is looked at for control characters."""
        index, slow = self.capture.index, self._slow_line
        at = np.array(numbers, np.int64) - 1
        c = {name: index.rows.column(name)[at] for name, _ in COLUMNS}
        out = [""] * len(numbers)
        odd = (c["severity"] > 0) | (c["flags"] & (DECRYPTED | INCOMPLETE) > 0)
        sides = c["stream"].astype(np.int64) * 2 + c["direction"]
        keys = c["relation"].astype(np.uint64) << np.uint64(32) | (
            c["dialect"].astype(np.uint64) << np.uint64(16) | c["path"]
        )
        first, last, where = self._read(c)
        for side in np.unique(sides).tolist():
            mine = np.flatnonzero((sides == side) & ~odd)
            stream = next((where[i] for i in mine.tolist() if where[i] is not None), None)
            if stream is None:
                continue
            mine = np.array([i for i in mine.tolist() if where[i] is not None])
            self._lines_in(stream, side, mine, numbers, c, keys, last, out, careful)
        for i, line in enumerate(out):
            if not line:
                out[i] = slow(numbers[i]) + "\n"
        return "".join(out).encode()

    def _lines_in(
        self, stream: _Stream, side: int, mine: Any, numbers: list[int], c: dict[str, Any], keys: Any,
        last: Any, out: list[str], careful: bool,
    ) -> None:  # fmt: skip
        """Lines of the messages at `mine`, which all lie in `stream`."""
        data = stream.data + bytes(PADDING)
        text = data.decode("latin-1")
        begin = c["offset"][mine].astype(np.int64) - stream.base
        end = begin + c["length"][mine]
        heads = self._line_heads.setdefault(side, {})
        found = self.capture.index.found
        for i, number, key, start, stop, time, lsn, xid in zip(
            mine.tolist(), np.array(numbers)[mine].tolist(), keys[mine].tolist(), begin.tolist(),
            end.tolist(), self._times(c["time"][mine], np.array(stream.records)[last[mine]]),
            c["lsn"][mine].tolist(), c["xid"][mine].tolist(), strict=True,
        ):  # fmt: skip
            head = heads.get(key)
            if head is None:
                head = self._line_head(heads, key, number)
            if number in found or head.kind is None:
                continue
            make = head.make
            summary = make(data, text, start, stop) if make is not None else None
            if summary is None or (careful and not summary.isprintable()):
                try:
                    summary = head.summary(data, start, stop, partial(self._opened, number))
                except UnusualError:
                    continue
            if lsn == NO_LSN:
                shown = ""
            else:
                shown = f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
            out[i] = (
                f"{number}\t{time}{head.where}{shown}\t{xid or ''}{head.relation}{summary}\n"
            )

    def _times(self, time: Any, record: Any) -> list[str]:
        """The frames' times as text."""
        new = np.ones(len(time), bool)
        new[1:] = (time[1:] != time[:-1]) | (record[1:] != record[:-1])
        at = np.flatnonzero(new)
        texts = list(map(self._time_text, time[at].tolist(), record[at].tolist()))
        which = np.cumsum(new) - 1
        return np.array(texts, object)[which].tolist()

    def _line_head(self, heads: dict[int, _Head], key: int, number: int) -> _Head:
        from .report import list_cells

        row = self.capture.row(number)
        kind = self._kind(number, tuple(getattr(row, name) for name, _ in COLUMNS))
        cells = list_cells(self.capture, self.capture.message(number))
        if len(heads) >= KINDS:
            heads.clear()
        head = heads[key] = _Head(kind, f"\t{cells[2]}\t{cells[3]}\t", f"\t{cells[6]}\t")
        return head

    def _slow_line(self, number: int) -> str:
        from .report import list_cells

        return "\t".join(list_cells(self.capture, self.capture.message(number)))

    # -- one object

    def _object(
        self, number: int, row: tuple[int, ...], kind: Kind, stream: _Stream, begin: int, first: int,
        last: int, opened: Callable[[], MessageView],
    ) -> str:  # fmt: skip
        summary, fields = kind.texts(stream.data, begin, begin + row[5], opened, True)
        key = (row[6], row[9], row[2], row[3], row[12])
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._object_head(row, kind)
        ends, path, relation, tail = head
        lsn = row[7]
        shown = "null" if lsn == NO_LSN else f'"{display.lsn(lsn)}"'
        frames = (
            stream.frames[first]
            if first == last
            else ",".join(map(str, sorted(set(stream.frames[first : last + 1]))))
        )
        if not summary.isascii() or '"' in summary or "\\" in summary:
            summary = dumps(summary)
        else:
            summary = f'"{summary}"'
        return (
            f'{{"number":{number},"frame":{row[0]},"frames":[{frames}],'
            f'"time":"{self._time_text(row[1], stream.records[last])}",{ends}{path}"length":{row[5]},'
            f'"lsn":{shown},"xid":{row[8] or "null"},{relation}"summary":{summary}{tail}{fields}]}}'
        )

    def _object_head(self, row: tuple[int, ...], kind: Kind) -> tuple[str, str, str, str]:
        info = self.capture.connection(row[2])
        ends = (info.frontend, info.backend)
        direction = row[3]
        view = kind.view
        first = dumps(
            {"stream": row[2], "direction": DIRECTIONS[direction], "source": ends[direction],
             "destination": ends[1 - direction]}
        )  # fmt: skip
        path = dumps({"message": view.path[0], "path": list(view.path)})
        relation = dumps({"relation": _clean(self.capture.relation(view.row))})
        assumed = "true" if row[12] & ASSUMED else "false"
        tail = f',"findings":[],"assumed":{assumed},"fields":['
        return f"{first[1:-1]},", f"{path[1:-1]},", f"{relation[1:-1]},", tail

    def _slow_object(self, number: int) -> str:
        return dumps(record(self.capture, self.capture.message(number), fields=True))


def _blocks(numbers: Iterable[int], size: int = 0) -> Iterator[list[int]]:
    """`numbers` in lists of up to `size`, BLOCK if it is 0."""
    source = iter(numbers)
    while block := list(islice(source, size or BLOCK)):
        yield block



