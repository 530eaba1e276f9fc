"""Blocks of messages on their way to objects: what differs between the messages, in columns, and the text
that comes first in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from .digits import Pool
from .heads import Common, Maker
from .rowjson import Columns


@dataclass
class Part:
    """Messages of a block that are made in one way: their summaries' JSON, where the Maker does not tell
    it; what writes the columns; or what comes at the end. writer, data: the Writer, and the bytes that hold
    them; heads: the first text of each in turn."""

    maker: Maker
    places: list[int]
    writer: Any
    data: bytes
    summaries: list[bytes] = field(default_factory=list)
    columns: Columns | None = None
    ends: list[bytes] = field(default_factory=list)
    heads: Iterator[bytes] = field(init=False)


class Block:
    """What is known of the messages of a block; of each the Part that it is in, None where it must be
    opened."""

    def __init__(self, numbers: list[int], begin: list[int], common: Common) -> None:
        count = len(numbers)
        self.numbers = numbers
        self.begin = begin
        self.common = common
        self.summaries = [b""] * count
        self.parts: list[Part | None] = [None] * count
        self._pool = Pool()
        self._made: list[tuple[Part, Common, Any]] = []

    def messages(self) -> Iterator[tuple[Part | None, int, int, int]]:
        """Of each, in order: its part, where it begins in the part's data, its length, and its number."""
        return zip(self.parts, self.begin, self.common.length, self.numbers, strict=True)

    def add(self, part: Part, numbers: Struct) -> None:
        """Take messages whose first numbers are read from the part's data."""
        if part.places:
            common = self.common.some(part.places)
            values = [numbers.unpack_from(part.data, self.begin[i]) for i in part.places]
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
