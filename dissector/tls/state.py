"""What a TLS stream gives out, and what it knows of one direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dissector.findings import Finding

from .handshake import Handshakes
from .records import Framer, Record

if TYPE_CHECKING:
    from .keys import Schedule

SIDES = {"F": "client", "B": "server"}

TRIES_PER_DIRECTION = 1 << 18
"""Sequence numbers tried after all gaps of one direction: some seconds of work at most."""


class Chunk(NamedTuple):
    """Plain text of one record, or a hole.

    direction: "F" from the client, "B" from the server. data: the plain text, which follows on the
    previous chunk's of this direction. start, end: where the record stands in the direction's
    encrypted stream, its header included; every byte of `data` maps to this range.
    lost: data is b"" and the range could not be opened: plain text of unknown length (less than
    end - start) is missing here.
    """

    direction: str
    data: bytes
    start: int
    end: int
    lost: bool = False


class Located(NamedTuple):
    """A finding and where its record begins in the direction's encrypted stream."""

    direction: str
    offset: int
    finding: Finding


class Side:
    """What is known of one direction."""

    def __init__(self, direction: str, framer: Framer) -> None:
        self.direction = direction
        self.name = SIDES[direction]
        self.framer = framer
        self.handshakes = Handshakes()
        self.schedule: Schedule | None = None
        self.epoch = 0  # 0: plain text
        self.sequence = 0
        self.changed = False  # a ChangeCipherSpec was seen
        self.unsure = False  # records were lost: a ChangeCipherSpec or a Finished may be among them
        self.opened = 0  # records that authenticated
        self.failures = 0  # records in a row that did not
        self.tries = TRIES_PER_DIRECTION
        self.dead = False
        self.hole = -1  # where the range that could not be opened begins
        self.lost_to = 0  # end of the last record that was given out as lost by its header alone
        self.pending: list[Record] = []
        self.pending_bytes = 0
