"""Lists and NDJSON of many messages: runs of rows whose bytes are read at once.

`lines` and `objects` write what `dissector.report.list_cells` and `dissector.records.record` write,
message by message; where `dissector.quick` knows the kind, without opening the message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import IO, Any

import numpy as np

from .compiled import PADDING, Summary, summary_of
from .objects import Fields
from .parallel import processors, write_in_order
from .quick import Kind, UnusualError
from .records import _clean, dumps, record
from .rows import ASSUMED, BACKEND, COLUMNS, DECRYPTED, DIRECTIONS, INCOMPLETE, NO_LSN
from .schemas import Schema
from .text import visible
from .times import SECOND, iso_time
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
        self.records = np.array([p[4] for p in pieces] or [0], np.int64)


class _Head:
    """What is the same in the lines of one kind, and how the summary is made.

    three: the function, the text between time and LSN, and that between xid and summary.
    """

    __slots__ = ("kind", "learned", "three")

    def __init__(self, kind: Kind | None, where: str, relation: str) -> None:
        self.kind = kind
        self.learned = kind.learned if kind is not None else 0
        self.three = (_made(kind), where, relation)

    def summary(self, data: bytes, start: int, end: int, opened: Callable[[], MessageView]) -> str:
        """What the function did not cover. Raises UnusualError."""
        assert self.kind is not None
        summary = self.kind.summary(data, start, end, opened)
        if self.kind.learned != self.learned:
            self.learned = self.kind.learned
            self.three = (_made(self.kind), *self.three[1:])
        return summary


def _made(kind: Kind | None) -> Summary:
    """The function of a kind, made once for what is known of it."""
    if kind is None:
        return _nothing
    if kind.made is None or kind.made[0] != kind.learned:
        kind.made = (kind.learned, summary_of(kind) or _nothing)
    return kind.made[1]


def _fields(kind: Kind) -> Fields:
    if kind.fields is None:
        kind.fields = Fields(kind)
    return kind.fields


def _nothing(data: bytes, text: str, start: int, end: int) -> str | None:
    return None


_ObjectHead = tuple[Fields | None, str, str]
"""What writes the fields of one kind, and the texts around the length, the LSN and the xid."""


class Runs:
    """Writes messages of `capture` by number."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.secrets = capture.options.show_secrets
        self._kinds: dict[tuple[int, int, int, Schema], Kind] = {}
        self._digits: dict[int, int] = {}
        self._object_heads: dict[int, dict[int, _ObjectHead]] = {}
        self._line_heads: dict[int, dict[int, _Head]] = {}
        self._second = (-1 << 70, "")
        self._time: tuple[int, int, str] = (-1, -1, "")

    # -- what the writers ask for

    def lines(self, numbers: Iterable[int]) -> Iterator[list[str]]:
        """The list's cells, tab-separated, in blocks."""
        for block in _blocks(numbers):
            yield self._listed(block).decode().split("\n")[:-1]

    def objects(self, numbers: Iterable[int]) -> Iterator[list[str]]:
        """JSON objects with fields, in blocks."""
        for block in _blocks(numbers, FIELDS_BLOCK):
            yield self._objects_of(block).decode().split("\n")[:-1]

    def written(self, numbers: Iterable[int], fields: bool) -> Iterator[bytes]:
        """Lines, or JSON objects with `fields`, as text to write."""
        for part in _blocks(numbers, FIELDS_BLOCK if fields else BLOCK):
            yield self._text(part, fields)

    def write(self, out: IO[bytes], numbers: Iterable[int], fields: bool) -> None:
        """Write what `written` gives to `out`. Where there are many messages, several processes share
        the work; what is written does not depend on it."""
        source = iter(numbers)
        ahead = list(islice(source, MANY))
        for text in self.written(ahead, fields):
            out.write(text)
        if len(ahead) < MANY:
            return
        count = processors()
        if count < 2:
            for text in self.written(source, fields):
                out.write(text)
            return
        chosen = np.fromiter(source, np.int64)
        size = FIELDS_BLOCK if fields else BLOCK
        blocks = [chosen[i : i + size] for i in range(0, len(chosen), size)]
        write_in_order(out, blocks, lambda block: self._text(block.tolist(), fields), count)

    def _text(self, numbers: list[int], fields: bool) -> bytes:
        return self._objects_of(numbers) if fields else self._listed(numbers)

    # -- one block

    def _columns(self, numbers: list[int]) -> dict[str, Any]:
        at = np.array(numbers, np.int64) - 1
        c = {name: self.capture.index.rows.column(name)[at] for name, _ in COLUMNS}
        c["number"] = at + 1
        c["key"] = c["relation"].astype(np.uint64) << np.uint64(32) | (
            c["dialect"].astype(np.uint64) << np.uint64(16) | c["path"]
        )
        return c

    def _sides(self, c: dict[str, Any]) -> Iterator[tuple[int, _Stream, Any, Any, Any]]:
        """The messages of a block that may be written without opening them, by connection and direction:
        stream * 2 + direction, the bytes, places in the block, first and last piece of each."""
        offset = c["offset"].astype(np.int64)
        end = offset + c["length"]
        sides = c["stream"].astype(np.int64) * 2 + c["direction"]
        usual = (c["severity"] == 0) & (c["flags"] & (DECRYPTED | INCOMPLETE) == 0)
        for side in np.unique(sides).tolist():
            mine = np.flatnonzero((sides == side) & usual)
            if not len(mine):
                continue
            low, high = int(offset[mine].min()), int(end[mine].max())
            if high - low > WIDE:
                continue
            stream = _Stream(self.capture, side >> 1, side & 1, low, high)
            mine = mine[end[mine] - low <= len(stream.data)]  # up to a gap
            if not len(mine):
                continue
            first = np.searchsorted(stream.offsets, offset[mine], side="right") - 1
            last = np.searchsorted(stream.offsets, end[mine] - 1, side="right") - 1
            yield side, stream, mine, first, last

    def _opened(self, number: int) -> MessageView:
        return self.capture.message(number)

    def _kind(self, number: int) -> Kind | None:
        """How messages like this one are written; None: by opening each.

        A description that comes again, with a new number, is the same to the writers.
        """
        row, tables = self.capture.row(number), self.capture.index.tables
        path, dialect = tables.paths[row.path], tables.dialects[row.dialect]
        if len(path) < 2 or path[1] not in QUICK or dialect.copy != "pgoutput":
            return None
        key = (
            row.path,
            row.dialect,
            row.direction,
            replace(tables.schemas[row.relation], version=0),
        )
        kind = self._kinds.get(key)
        if kind is not None:
            return kind
        view = self.capture.message(number)
        if not view.found:
            with contextlib.suppress(UnusualError):
                kind = Kind(view, self.secrets)
        if len(self._kinds) >= KINDS:  # most are of descriptions that are not in force any more
            self._kinds.clear()
        if kind is not None:
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
        second, rest = divmod(time, SECOND)
        if second != self._second[0]:
            self._second = (second, iso_time(second * SECOND, 0))
        whole = self._second[1]
        if digits and whole[-1:] == "Z":
            text = f"{whole[:-1]}.{f'{rest:09}'[:digits]}Z"
        else:
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
        c = self._columns(numbers)
        out = [""] * len(numbers)
        for side in self._sides(c):
            self._lines_in(*side, c, out, careful)
        for i, line in enumerate(out):
            if not line:
                out[i] = self._slow_line(numbers[i]) + "\n"
        return "".join(out).encode()

    def _lines_in(
        self, side: int, stream: _Stream, mine: Any, first: Any, last: Any, c: dict[str, Any],
        out: list[str], careful: bool,
    ) -> None:  # fmt: skip
        """Lines of the messages at `mine`, which all lie in `stream`."""
        data = stream.data + bytes(PADDING)
        text = data.decode("latin-1")
        begin = c["offset"][mine].astype(np.int64) - stream.base
        heads = self._line_heads.setdefault(side, {})
        known = heads.get
        found = self.capture.index.found
        for i, number, key, start, stop, time, lsn, xid in zip(
            mine.tolist(), c["number"][mine].tolist(), c["key"][mine].tolist(), begin.tolist(),
            (begin + c["length"][mine]).tolist(), self._times(c["time"][mine], stream.records[last]),
            c["lsn"][mine].tolist(), c["xid"][mine].tolist(), strict=True,
        ):  # fmt: skip
            head = known(key) or self._line_head(heads, key, number)
            make, where, relation = head.three
            summary = make(data, text, start, stop)
            if summary is None or (careful and not summary.isprintable()):
                if head.kind is None or number in found:
                    continue
                try:
                    summary = head.summary(data, start, stop, partial(self._opened, number))
                except UnusualError:
                    continue
            elif number in found:
                continue
            shown = "" if lsn == NO_LSN else f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
            out[i] = f"{number}\t{time}{where}{shown}\t{xid or ''}{relation}{summary}\n"

    def _times(self, time: Any, record: Any) -> list[str]:
        """The frames' times as text."""
        new = np.ones(len(time), bool)
        new[1:] = (time[1:] != time[:-1]) | (record[1:] != record[:-1])
        at = np.flatnonzero(new)
        texts = list(map(self._time_text, time[at].tolist(), record[at].tolist()))
        which = np.cumsum(new) - 1
        return np.array(texts, object)[which].tolist()

    def _line_head(self, heads: dict[int, _Head], key: int, number: int) -> _Head:
        row = self.capture.row(number)
        relation = self.capture.relation(row)
        names = ", ".join(relation) if isinstance(relation, list) else relation or ""
        path = ".".join(self.capture.path(row))
        if len(heads) >= KINDS:
            heads.clear()
        head = heads[key] = _Head(
            self._kind(number), f"\t{row.stream}{DIRECTIONS[row.direction]}\t{path}\t",
            f"\t{visible(names)}\t",
        )  # fmt: skip
        return head

    def _slow_line(self, number: int) -> str:
        from .report import list_cells

        return "\t".join(list_cells(self.capture, self.capture.message(number)))

    # -- objects

    def _objects_of(self, numbers: list[int]) -> bytes:
        """A block of objects, one a line."""
        c = self._columns(numbers)
        out: list[list[bytes]] = [[]] * len(numbers)
        for side in self._sides(c):
            self._objects_in(*side, c, out)
        for i, parts in enumerate(out):
            if not parts:
                out[i] = [self._slow_object(numbers[i]).encode(), b"\n"]
        return b"".join(chain.from_iterable(out))

    def _objects_in(
        self, side: int, stream: _Stream, mine: Any, first: Any, last: Any, c: dict[str, Any],
        out: list[list[bytes]],
    ) -> None:  # fmt: skip
        """Objects of the messages at `mine`, which all lie in `stream`."""
        data = stream.data + bytes(PADDING)
        text = data.decode("latin-1")
        begin = c["offset"][mine].astype(np.int64) - stream.base
        heads = self._object_heads.setdefault(side, {})
        known = heads.get
        found = self.capture.index.found
        for i, number, key, start, length, time, lsn, xid, frame, flags, a, b in zip(
            mine.tolist(), c["number"][mine].tolist(), c["key"][mine].tolist(), begin.tolist(),
            c["length"][mine].tolist(), self._times(c["time"][mine], stream.records[last]),
            c["lsn"][mine].tolist(), c["xid"][mine].tolist(), c["frame"][mine].tolist(),
            c["flags"][mine].tolist(), first.tolist(), last.tolist(), strict=True,
        ):  # fmt: skip
            if number in found:
                continue
            head = known(key) or self._object_head(heads, key, number)
            fields, place, relation = head
            if fields is None:
                continue
            try:
                summary, json, rest = fields.texts(
                    data, text, start, start + length, partial(self._opened, number)
                )
            except UnusualError:
                continue
            shown = "null" if lsn == NO_LSN else f'"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"'
            frames = (
                stream.frames[a]
                if a == b
                else ",".join(map(str, sorted(set(stream.frames[a : b + 1]))))
            )
            if not summary.isascii() or '"' in summary or "\\" in summary:
                summary = dumps(summary)
            else:
                summary = f'"{summary}"'
            assumed = "true" if flags & ASSUMED else "false"
            rest.append(b"]}\n")
            rest.insert(0, (
                f'{{"number":{number},"frame":{frame},"frames":[{frames}],"time":"{time}",{place}'
                f'"length":{length},"lsn":{shown},"xid":{xid or "null"},{relation}"summary":{summary},'
                f'"findings":[],"assumed":{assumed},"fields":[{json}'
            ).encode())  # fmt: skip
            out[i] = rest

    def _object_head(self, heads: dict[int, _ObjectHead], key: int, number: int) -> _ObjectHead:
        row = self.capture.row(number)
        kind = self._kind(number)
        info = self.capture.connection(row.stream)
        ends = (info.frontend, info.backend)
        direction = row.direction
        path = self.capture.path(row)
        place = dumps(
            {"stream": row.stream, "direction": DIRECTIONS[direction], "source": ends[direction],
             "destination": ends[1 - direction], "message": path[0] if path else None,
             "path": list(path)}
        )  # fmt: skip
        relation = dumps({"relation": _clean(self.capture.relation(row))})
        if len(heads) >= KINDS:
            heads.clear()
        head = heads[key] = (
            _fields(kind) if kind is not None else None, f"{place[1:-1]},", f"{relation[1:-1]},"
        )  # fmt: skip
        return head

    def _slow_object(self, number: int) -> str:
        return dumps(record(self.capture, self.capture.message(number), fields=True))


def _blocks(numbers: Iterable[int], size: int = 0) -> Iterator[list[int]]:
    """`numbers` in lists of up to `size`, BLOCK if it is 0."""
    source = iter(numbers)
    while block := list(islice(source, size or BLOCK)):
        yield block
