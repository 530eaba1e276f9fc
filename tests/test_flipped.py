"""Captures with bytes changed anywhere in the file: one result, in each of the three ways to read them."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import transforms as t
from test_index import assert_same
from transforms import CAPTURES

NAMES = ("pg11-small", "pg13-small", "pg16-proto4", "pg18-proto1", "conversation/query-extended",
         "conversation/copy", "conversation/physical")  # fmt: skip


@pytest.mark.parametrize("seed", range(14))
def test_the_three_ways_agree(seed: int, tmp_path: Path) -> None:
    """Record headers, addresses, sequence numbers, lengths, payloads: whatever is hit."""
    source = random.Random(seed)
    given = t.packets(CAPTURES / f"{NAMES[seed % len(NAMES)]}.pcap")
    given = t.joined(given, source.choice([300, 1448, 9000]))
    if seed % 3 == 1:
        given = t.shuffled(t.duplicated(given, 0.1, seed, 3), 4, seed)
    make = t.pcapng if seed % 4 < 2 else t.pcap
    number, frames = t.frames(t.retimed(given))
    for count in (1, 8, 60, 400):
        data = make((number, frames))
        if seed % 2:  # frames only: the file stays sound, so that all of it is read
            for _ in range(count):
                i = source.randrange(len(frames))
                time, frame, wire = frames[i]
                frames[i] = time, flipped(frame, source.randrange(len(frame)), source), wire
            data = make((number, frames))
        else:
            for _ in range(count):
                data = flipped(data, source.randrange(24, len(data)), source)
        path = tmp_path / f"{count}"
        path.write_bytes(gzip.compress(data) if seed % 5 == 4 else data)
        index = assert_same(path)
        assert index.complete
        assert index.frames == len(frames) if seed % 2 else index.frames <= len(frames) + 1
        assert index.read <= index.size


def flipped(data: bytes, place: int, source: random.Random) -> bytes:
    other = source.choice([0, 1, 0xFF, data[place] ^ 1 << source.randrange(8)])
    return data[:place] + bytes([other]) + data[place + 1 :]
