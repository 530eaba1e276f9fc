"""Blocks of messages on their way to objects: what differs between the messages, in columns, and the text
that comes first in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from .digits import Pool
from .heads import Common, Maker
from .rowcolumns import Layout, Rows, Table


@dataclass
class Part:
    """Messages of a block that are made in one way: what their columns are, if they are rows; else their
    summaries' JSON, where the Maker does not tell it, and what comes at the end, `shared` with messages
    before. heads: the first text of each in turn; last: the last one."""

    maker: Maker
    places: list[int]
    writer: Any
    layout: Layout | None = None
    summaries: list[bytes] = field(default_factory=list)
    ends: list[bytes] = field(default_factory=list)
    shared: list[bytes] = field(default_factory=list)
    heads: Iterator[bytes] = field(init=False)
    last: Iterator[bytes] = field(init=False)


class _Alike(NamedTuple):
    """Messages whose first texts are made together: the parts they are of, their places, the Maker of each
    where these are several, and what was read of them."""

    parts: list[Part]
    places: list[int]
    makers: list[Maker]
    common: Common
    read: Any


class Block:
    """What is known of the messages of a block, whose bytes are in `data`; of each the Part that it is in,
    None where it must be opened. repeats: by place, what may be known of it from before."""

    def __init__(self, numbers: list[int], begin: list[int], common: Common, data: bytes) -> None:
        count = len(numbers)
        self.numbers = numbers
        self.begin = begin
        self.common = common
        self.data = data
        self.summaries = [b""] * count
        self.parts: list[Part | None] = [None] * count
        self.repeats: dict[int, tuple[int, int]] = {}
        self._pool = Pool()
        self._made: list[_Alike] = []
        self._rows: dict[Any, list[tuple[Part, Struct]]] = {}

    def add(self, part: Part, numbers: Struct) -> None:
        """Take messages whose first numbers are read by `numbers`."""
        if not part.places:
            return
        for i in part.places:
            self.parts[i] = part
        if part.layout is None:
            self._read([part], part.places, [], numbers)
        else:
            self._rows.setdefault(part.maker.like, []).append((part, numbers))

    def _read(
        self, parts: list[Part], places: list[int], makers: list[Maker], numbers: Struct
    ) -> None:
        """Read the numbers of the messages of some parts."""
        common = self.common.some(places)
        values = [numbers.unpack_from(self.data, self.begin[i]) for i in places]
        columns = list(zip(*values, strict=True))
        read = parts[0].maker.read(common, columns, self._pool, makers)
        self._made.append(_Alike(parts, places, makers, common, read))

    def make(self) -> None:
        """Make the texts of all that were added."""
        for alike in self._rows.values():
            parts, (numbers, *_) = map(list, zip(*alike, strict=True))
            if len(parts) == 1:
                self._read(parts, parts[0].places, [], numbers)
                continue
            owners = {i: part.maker for part in parts for i in part.places}
            places = sorted(owners)
            self._read(parts, places, [owners[i] for i in places], numbers)
        self._pool.make()
        for parts, places, makers, common, read in self._made:
            first = parts[0]
            summaries = first.summaries
            if first.layout is not None:
                summaries = [self.summaries[i] for i in places]
            heads = first.maker.made(common, read, self._pool, summaries, first.ends, makers)
            for part in parts:  # each message takes one, in their order
                part.heads, part.last = heads, iter(part.shared)
        self._made.clear()

    def columns(self, table: Table) -> Iterator[list[bytes] | None]:
        """The columns of each of the rows in turn, in pieces; None where it must be opened."""
        parts = [part for alike in self._rows.values() for part, _ in alike]
        places = np.array([i for part in parts for i in part.places], np.int64)
        owners = np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])
        order = np.argsort(places)
        places, owners = places[order], owners[order]
        begins = np.array(self.begin, np.int64)[places]
        ends = begins + np.array(self.common.length, np.int64)[places]
        shapes = [(x.first, x.base, x.end) for part in parts if (x := part.layout) is not None]
        shape = np.array(shapes, np.int64).reshape(-1, 3)[owners]

        def learn(row: int) -> None:
            parts[int(owners[row])].writer.learn(self.numbers[int(places[row])])

        return Rows(table, self.data, begins, ends, shape, learn).pieces()
