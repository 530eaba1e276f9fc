"""What was said in packets, by their lengths alone, and where each message lies in the capture made of them.

The truth of transformed captures: nothing here uses the code under test but to open captures, in each of
the three ways to read one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from struct import unpack_from

import numpy as np
import pytest
from transforms import CAPTURES, MASK, SYN, Packet, streams

from dissector import index as indexing
from dissector import view
from dissector.index import Indexer

LANES = ("one by one", "many at once", "two processes")
"""The ways to read a capture, all with the same result."""

Flow = tuple[bytes, int, bytes, int]
FAR = 1 << 40


@contextmanager
def reading(lane: str) -> Iterator[None]:
    """Captures are read in this way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "may_be_far", lambda files: lane == "two processes")
        patch.setattr(view, "Indexer", partial(Indexer, fast=lane != "one by one"))
        yield


@dataclass(frozen=True)
class Sent:
    """One message. offset: in the sender's stream. frame: that of the last byte's first copy, from 1.
    done: the frame with which all bytes up to its last were there (FAR: not all are)."""

    stream: int
    direction: int
    offset: int
    data: bytes
    frame: int
    done: int


def cut(data: bytes, client: bool) -> list[tuple[int, bytes]]:
    """(offset, message) of a stream that is whole; the client's first has no type byte."""
    result, at = [], 0
    while at < len(data):
        head = 0 if client and not at else 1
        end = at + head + unpack_from(">I", data, at + head)[0]
        assert end <= len(data)
        result.append((at, data[at:end]))
        at = end
    return result


def starts(given: Sequence[Packet]) -> dict[Flow, int]:
    """Flow -> sequence number of its first byte, for flows with a SYN."""
    return {p.flow: (p.seq + 1) & MASK for p in given if p.flags & SYN}


def first_frames(
    given: Sequence[Packet], start: dict[Flow, int], sizes: dict[Flow, int]
) -> dict[Flow, np.ndarray]:
    """Flow -> for each byte of its stream the first frame, from 1, that holds it (FAR: none)."""
    result = {flow: np.full(size, FAR, np.int64) for flow, size in sizes.items()}
    for number, packet in enumerate(given, start=1):
        if packet.payload:
            at = (packet.seq - start[packet.flow] + (1 << 31) & MASK) - (1 << 31)
            here = result[packet.flow][max(at, 0) : at + len(packet.payload)]
            np.minimum(here, number, out=here)
    return result


def sent(given: Sequence[Packet]) -> list[Sent]:
    """All messages in the order in which a reader of these packets has them whole. The client is who
    sent the first SYN; connections count from 0 in order of their first packet. No byte is missing."""
    whole, start = streams(given), starts(given)
    frames = first_frames(given, start, {flow: len(data) for flow, data in whole.items()})
    pairs = list(dict.fromkeys(frozenset([p.flow, other(p.flow)]) for p in given))
    clients = {p.flow for p in given if p.flags & SYN and not p.flags & 16}
    result = []
    for flow, data in whole.items():
        client = flow in clients
        done = np.maximum.accumulate(frames[flow])
        number = pairs.index(frozenset([flow, other(flow)]))
        for offset, message in cut(data, client):
            last = offset + len(message) - 1
            place = int(frames[flow][last]), int(done[last])
            result.append(Sent(number, 0 if client else 1, offset, message, *place))
    return sorted(result, key=lambda each: each.done)


def other(flow: Flow) -> Flow:
    """The opposite direction."""
    return flow[2], flow[3], flow[0], flow[1]


def servers_list(name: str) -> list[bytes]:
    """The pgoutput messages of a shipped capture as its server listed them."""
    with gzip.open(CAPTURES / f"{name}.truth.jsonl.gz", "rt") as file:
        return [bytes.fromhex(json.loads(line)["data"]) for line in file]


XLOG_HEAD = 5 + 25
"""CopyData's type byte and length, then XLogData's type byte, two LSNs and a time."""


def pgoutput(messages: Sequence[bytes]) -> list[bytes]:
    """What the XLogData among a server's messages carry."""
    return [m[XLOG_HEAD:] for m in messages if m[:1] == b"d" and m[5:6] == b"w"]


NAMES = {
    "B": "Begin", "C": "Commit", "D": "Delete", "I": "Insert", "M": "Message", "O": "Origin",
    "R": "Relation", "T": "Truncate", "U": "Update", "Y": "Type", "S": "Stream Start",
    "E": "Stream Stop", "c": "Stream Commit", "A": "Stream Abort", "b": "Begin Prepare",
    "P": "Prepare", "K": "Commit Prepared", "r": "Rollback Prepared", "p": "Stream Prepare",
}  # fmt: skip
"""First byte of a pgoutput message -> its name in the manual."""
