"""Lists and NDJSON of many messages: runs of rows whose bytes are read at once.

`lines` and `objects` write what `dissector.report.list_cells` and `dissector.records.record` write,
message by message; where `dissector.quick` knows the kind, without opening the message.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import IO, Any

import numpy as np

from .capture.frames import distinct
from .halting import go_on
from .lines import Lines
from .memory import give_back_freed_memory
from .objects import AHEAD, Objects
from .objects import BLOCK as OBJECTS
from .parallel import HELD, Part, is_file, joined, processors, write_in_order
from .progress import Progress
from .quick import QUICK, ROWS, Kind
from .rows import COLUMNS, DECRYPTED, INCOMPLETE
from .schemas import Schema
from .selection import Block, Numbers, in_blocks
from .taken import UnusualError
from .times import SECOND, iso_time
from .view import Capture, MessageView

FIRST, BLOCK = 1024, 20 * 1024
"""Messages whose lines are made at once: of the first block, so that something is seen soon, and at most.
Larger blocks cost less, a tenth for two fifths more where two processes write, but each holds 500 bytes a
message."""

SOON = 3 * FIRST
"""Messages whose lines are written before all others are looked for."""

MANY, MANY_OBJECTS, FEW_OBJECTS = 20_000, 2000, 256
"""Messages from which on several processes are worth their start; the same for objects, each of which
costs more, and of them behind the first ones."""

KINDS = 256
"""Kinds of messages that are kept apart."""

WIDE = 1 << 23
"""Bytes of a stream that are read at once: where the chosen messages lie further apart, each is opened."""

NOTED = 1024
"""Bytes of messages with a finding that may be written without opening them, if all have the same."""


class Stream:
    """Bytes of one direction for a block: data, their stream offset, and the pieces they came in."""

    __slots__ = ("base", "data", "frames", "offsets", "records")

    def __init__(self, capture: Capture, stream: int, direction: int, low: int, high: int) -> None:
        physical = capture.physical(stream, direction)
        pieces = list(capture.index.pieces(stream, physical, low, high))
        read = capture.files.read
        self.base = low
        self.data = b"".join([read(place, size) for _, size, place, _, _ in pieces])
        self.offsets = np.array([p[0] for p in pieces] or [low], np.int64)
        self.frames = [p[3] for p in pieces]
        self.records = np.array([p[4] for p in pieces] or [0], np.int64)


class Runs:
    """Writes messages of `capture` by number; objects with `fields` and `payload` or without."""

    def __init__(self, capture: Capture, *, fields: bool = True, payload: bool = False) -> None:
        self.capture = capture
        self.secrets = capture.options.show_secrets
        self._kinds: dict[tuple[int, int, int, Schema, tuple[Schema, ...], bool], Kind] = {}
        self._digits: dict[int, int] = {}
        self._lines = Lines(self)
        self._objects = Objects(self, fields, payload)
        self._view: MessageView | None = None
        self._second = (-1 << 70, "")
        self._time: tuple[int, int, str] = (-1, -1, "")

    # -- what the writers ask for

    def lines(self, numbers: Numbers) -> Iterator[list[str]]:
        """The list's cells, tab-separated, in blocks."""
        for text in self.written(numbers, fields=False):
            yield text.decode().split("\n")[:-1]

    def told(self, numbers: Block) -> tuple[list[str], list[str]]:
        """The relations and the summaries in the lines of some thousand messages, at once."""
        lines = bytes(self._lines.block(numbers)).decode().split("\n")[:-1]
        cells = [line.rsplit("\t", 2) for line in lines]
        return [relation for _, relation, _ in cells], [summary for _, _, summary in cells]

    def objects(self, numbers: Numbers) -> Iterator[list[str]]:
        """JSON objects with fields, in blocks."""
        for text in self.written(numbers, fields=True):
            yield text.decode().split("\n")[:-1]

    def written(self, numbers: Numbers, fields: bool) -> Iterator[bytes]:
        """Lines, or JSON objects with `fields`, as text to write."""
        parts = self._parts(self._blocks(numbers, fields), fields)
        yield from map(bytes, filter(None, map(joined, parts)))

    def write(self, out: IO[bytes], numbers: Numbers, fields: bool) -> None:
        """Write what `written` gives to `out`. Where there are many messages, several processes share
        the work; what is written does not depend on it."""
        blocks = self._blocks(numbers, fields)
        many = MANY_OBJECTS if fields else SOON
        first = blocks if self.capture.live else _first(blocks, many)
        for part in self._parts(first, fields):
            out.write(joined(part))
            out.flush()
        self.capture.index.hands_on = False
        rest = list(map(_brief, blocks))
        if rest:
            few, most = (FEW_OBJECTS, OBJECTS) if fields else (MANY, BLOCK)
            rest = _evenly(rest, processors(), few, most)
            give_back_freed_memory()
            progress = self.capture.progress if is_file(out) else None
            told = _Told(progress, len(rest))
            held = AHEAD if fields else HELD
            write_in_order(out, rest, lambda some: told.parts(self._parts(some, fields)), held=held)
            told.end()

    def _blocks(self, numbers: Numbers, fields: bool) -> Iterator[Block]:
        return in_blocks(numbers, *_sizes(fields), live=self.capture.live)

    def _parts(self, given: Iterable[Block | range], fields: bool) -> Iterator[Part]:
        """The text of blocks in parts; b"" ends a block."""
        blocks = map(_array, given)
        if fields:
            yield from self._objects.blocks(blocks)
            return
        for block in blocks:
            yield self._lines.block(block)
            yield b""

    # -- one block

    def columns(self, numbers: Any) -> dict[str, Any]:
        """The rows' columns for `numbers`, and two more: number, and a key of path, dialect and schema."""
        at = np.asarray(numbers, np.int64) - 1
        rows = self.capture.index.rows
        if len(at) and at[-1] - at[0] == len(at) - 1 and (np.diff(at) == 1).all():
            start, stop = int(at[0]), int(at[-1]) + 1
            c = {name: rows.part(name, start, stop) for name, _ in COLUMNS}
        else:
            c = {name: rows.take(name, at) for name, _ in COLUMNS}
        c["number"] = at + 1
        c["key"] = c["relation"].astype(np.uint64) << np.uint64(32) | (
            c["dialect"].astype(np.uint64) << np.uint64(16) | c["path"]
        )
        return c

    def sides(self, c: dict[str, Any]) -> Iterator[tuple[int, Stream, Any, Any, Any]]:
        """The messages of a block that may be written without opening them, by connection and direction:
        stream * 2 + direction, the bytes, places in the block, first and last piece of each."""
        offset = c["offset"].astype(np.int64)
        end = offset + c["length"]
        sides = c["stream"].astype(np.int64) * 2 + c["direction"]
        usual = (c["severity"] == 0) | (c["length"] < NOTED)
        usual &= c["flags"] & (DECRYPTED | INCOMPLETE) == 0
        for side in distinct(sides).tolist():
            mine = np.flatnonzero((sides == side) & usual)
            if not len(mine):
                continue
            low, high = int(offset[mine].min()), int(end[mine].max())
            if high - low > WIDE:
                continue
            stream = Stream(self.capture, side >> 1, side & 1, low, high)
            mine = mine[end[mine] - low <= len(stream.data)]  # up to a gap
            if not len(mine):
                continue
            first = np.searchsorted(stream.offsets, offset[mine], side="right") - 1
            last = np.searchsorted(stream.offsets, end[mine] - 1, side="right") - 1
            yield side, stream, mine, first, last

    def kind(self, number: int) -> Kind | None:
        """How messages like this one are written; None: by opening each.

        A description that comes again, with a new number, is the same to the writers.
        """
        row, tables = self.capture.row(number), self.capture.index.tables
        path, dialect = tables.paths[row.path], tables.dialects[row.dialect]
        if len(path) < 2 or path[1] not in QUICK or dialect.copy != "pgoutput":
            return None
        if row.severity and path[-1] in ROWS:  # never the same in all of them
            return None
        schema = tables.schemas[row.relation]
        members = tuple(replace(tables.schemas[n], version=0) for n in schema.members)
        schema = replace(schema, version=0, members=())
        key = (row.path, row.dialect, row.direction, schema, members, row.severity > 0)
        kind = self._kinds.get(key)
        if kind is not None:
            return kind
        view = self.message(number)
        if bool(view.found) == (row.severity > 0):
            with contextlib.suppress(UnusualError):
                kind = Kind(view, self.secrets)
        if len(self._kinds) >= KINDS:  # most are of descriptions that are not in force any more
            self._kinds.clear()
        if kind is not None:
            self._kinds[key] = kind
        return kind

    def message(self, number: int) -> MessageView:
        """The opened message; the last one is kept."""
        if self._view is None or self._view.row.number != number:
            self._view = self.capture.message(number)
        return self._view

    # -- times

    def time_text(self, time: int, record: int) -> str:
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

    def times(self, time: Any, record: Any) -> list[str]:
        """The frames' times as text."""
        new = np.ones(len(time), bool)
        new[1:] = (time[1:] != time[:-1]) | (record[1:] != record[:-1])
        at = np.flatnonzero(new)
        texts = list(map(self.time_text, time[at].tolist(), record[at].tolist()))
        which = np.cumsum(new) - 1
        return np.array(texts, object)[which].tolist()


class _Told:
    """Tells how far the writing of `count` blocks is, by those of this process: others have as many."""

    def __init__(self, progress: Progress | None, count: int) -> None:
        self.progress, self.count = progress, count
        self._process, self._written = os.getpid(), 0

    def parts(self, parts: Iterator[Part]) -> Iterator[Part]:
        """The same parts."""
        if self.progress is None or os.getpid() != self._process:
            yield from parts
            return
        share = max(1, self.count // min(processors(), self.count))
        for part in parts:
            go_on()
            yield part
            self._written += not part
            self.progress.writing(min(self._written, share), share)

    def end(self) -> None:
        """All is written."""
        if self.progress is not None:
            self.progress.clear()


def _sizes(fields: bool) -> tuple[int, int]:
    """Messages of the first block, and of the largest ones."""
    return (OBJECTS // 16, OBJECTS) if fields else (FIRST, BLOCK)


def _first(blocks: Iterator[Block], many: int) -> Iterator[Block]:
    """Blocks with `many` numbers or some more."""
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        if done >= many:
            return


def _brief(block: Block) -> Block | range:
    """The same numbers in less memory, where they follow each other."""
    first, last = int(block[0]), int(block[-1])
    if last - first == len(block) - 1 and (block[1:] - block[:-1] == 1).all():
        return range(first, last + 1)
    return block


def _array(block: Block | range) -> Block:
    return np.arange(block.start, block.stop) if isinstance(block, range) else block


def _evenly(
    blocks: list[Block | range], processes: int, many: int, size: int
) -> list[Block | range]:
    """The same numbers in blocks of one size, `size` at most, as many for each process; one where there are
    fewer than `many`."""
    total = sum(map(len, blocks))
    ranges = [b for b in blocks if isinstance(b, range)]
    numbers: Any
    if len(ranges) == len(blocks) and all(a.stop == b.start for a, b in pairwise(ranges)):
        numbers = range(ranges[0].start, ranges[-1].stop)
    else:
        numbers = np.concatenate([_array(b) for b in blocks])
    if total < many:
        return [numbers]
    count = -(-total // (size * processes)) * processes
    edges = [total * i // count for i in range(count + 1)]
    return [numbers[a:b] for a, b in pairwise(edges)]
