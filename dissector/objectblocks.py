"""Blocks of messages on their way to objects: what differs between the messages, in columns, and the pieces
that come first in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import add
from struct import Struct
from typing import Any

from .digits import Pool
from .heads import Common, Maker
from .rowjson import Columns

Message = tuple[Iterator[tuple[bytes, ...]] | None, Columns | None, Any, bytes, int, int, int]
"""What gives the first pieces, what writes the others, the Writer, the bytes that hold it and where, its
length, and its number."""


@dataclass
class Part:
    """Messages of a block that are made in one way: their summaries' JSON, where the Maker does not tell
    it; what writes the columns; or what comes at the end."""

    maker: Maker
    places: list[int]
    summaries: list[bytes] = field(default_factory=list)
    columns: Columns | None = None
    ends: list[bytes] = field(default_factory=list)


class Block:
    """What is known of the messages of a block; of each what gives the first pieces, to all of one kind in
    turn, None where it must be opened; and what writes the others, None where these are all."""

    def __init__(self, numbers: list[int], begin: list[int], common: Common) -> None:
        count = len(numbers)
        self.numbers = numbers
        self.begin = begin
        self.common = common
        self.summaries = [b""] * count
        self.data = [b""] * count
        self.writers: list[Any] = [None] * count
        self.heads: list[Iterator[tuple[bytes, ...]] | None] = [None] * count
        self.columns: list[Columns | None] = [None] * count
        self._pool = Pool()
        self._parts: list[tuple[Part, Common, Any]] = []

    def messages(self) -> Iterator[Message]:
        """What is known of each, in order."""
        return zip(
            self.heads, self.columns, self.writers, self.data, self.begin, self.common.length, self.numbers,
            strict=True,
        )  # fmt: skip

    def add(self, part: Part, numbers: Struct, data: bytes) -> None:
        """Take messages whose first numbers are read from `data`."""
        if part.places:
            common = self.common.some(part.places)
            values = [numbers.unpack_from(data, self.begin[i]) for i in part.places]
            read = part.maker.read(common, list(zip(*values, strict=True)), self._pool)
            self._parts.append((part, common, read))

    def make(self) -> None:
        """Make the pieces of all that were added."""
        self._pool.make()
        for part, common, read in self._parts:
            made = part.maker.made(common, read, self._pool, part.summaries)
            if part.ends:
                made = map(add, made, zip(part.ends, strict=True))
            for i in part.places:
                self.heads[i] = made
                self.columns[i] = part.columns
        self._parts.clear()
