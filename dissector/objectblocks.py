"""Blocks of messages on their way to objects: what differs between the messages, in columns, and the text
that comes first in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np

from .digits import Pool
from .heads import Common, Maker
from .rowcolumns import Layout, Rows, Table


@dataclass
class Part:
    """Messages of a block that are made in one way: their summaries' JSON, where the Maker does not tell
    it; what their columns are, or what comes at the end. heads: the first text of each in turn."""

    maker: Maker
    places: list[int]
    writer: Any
    summaries: list[bytes] = field(default_factory=list)
    layout: Layout | None = None
    ends: list[bytes] = field(default_factory=list)
    heads: Iterator[bytes] = field(init=False)


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
        self._made: list[tuple[Part, Common, Any]] = []
        self._rows: list[Part] = []

    def add(self, part: Part, numbers: Struct) -> None:
        """Take messages whose first numbers are read by `numbers`."""
        if part.places:
            common = self.common.some(part.places)
            values = [numbers.unpack_from(self.data, self.begin[i]) for i in part.places]
            read = part.maker.read(common, list(zip(*values, strict=True)), self._pool)
            self._made.append((part, common, read))
            if part.layout is not None:
                self._rows.append(part)
            for i in part.places:
                self.parts[i] = part

    def make(self) -> None:
        """Make the texts of all that were added."""
        self._pool.make()
        for part, common, read in self._made:
            part.heads = part.maker.made(common, read, self._pool, part.summaries, part.ends)
        self._made.clear()

    def columns(self, table: Table) -> Iterator[list[bytes] | None]:
        """The columns of each of the rows in turn, in pieces; None where it must be opened."""
        parts = self._rows
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
