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
    None where it must be opened."""

    def __init__(self, numbers: list[int], begin: list[int], common: Common, data: bytes) -> None:
        count = len(numbers)
        self.numbers = numbers
        self.begin = begin
        self.common = common
        self.data = data
        self.summaries = [b""] * count
        self.parts: list[Part | None] = [None] * count
        self._pool = Pool()
        self._made: list[tuple[Part, Common, Any]] = []

    def add(self, part: Part, numbers: Struct) -> None:
        """Take messages whose first numbers are read by `numbers`."""
        if part.places:
            common = self.common.some(part.places)
            values = [numbers.unpack_from(self.data, self.begin[i]) for i in part.places]
            read = part.maker.read(common, list(zip(*values, strict=True)), self._pool)
            self._made.append((part, common, read))
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
        places, parts, layouts = [], [], []
        for i, part in enumerate(self.parts):
            if part is not None and part.layout is not None:
                places.append(i)
                parts.append(part)
                layouts.append(part.layout)
        at = np.array(places, np.int64)
        begins = np.array(self.begin, np.int64)[at]
        ends = begins + np.array(self.common.length, np.int64)[at]

        def learn(row: int) -> None:
            parts[row].writer.learn(self.numbers[places[row]])

        return Rows(table, self.data, begins, ends, layouts, learn).pieces()
