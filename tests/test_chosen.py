"""Frames of chosen messages: those that opening each message names."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from transforms import frames, joined, packets, pcap, resegmented, shuffled, without

from dissector.chosen import frames_of
from dissector.rows import DECRYPTED
from dissector.view import Capture, open_capture

CAPTURES = Path(__file__).parent.parent / "captures"


def named(capture: Capture, numbers: list[int]) -> dict[int, tuple[int, set[tuple[int, int]]]]:
    """Frame -> (record, (side, shift) of what it holds in plain)."""
    found: dict[int, tuple[int, set[tuple[int, int]]]] = {}
    for number in numbers:
        row = capture.row(number)
        at = row.offset
        for extent in capture.extents(row):
            _, sides = found.setdefault(extent.frame, (extent.record, set()))
            if not row.flags & DECRYPTED:
                sides.add((row.stream * 2 + row.direction, at - extent.position))
                at += extent.length
    return found


def check(capture: Capture, seed: int) -> None:
    source = random.Random(seed)
    everything = list(range(1, capture.count + 1))
    for share in (1.0, 0.5, 0.05, 0.01):
        numbers = [n for n in everything if source.random() < share]
        if share == 0.5:
            source.shuffle(numbers)
        wanted = named(capture, numbers)
        blocks = [np.array(numbers[i : i + 700], np.int64) for i in range(0, len(numbers), 700)]
        found = frames_of(capture, iter(blocks))
        assert found.number.tolist() == sorted(wanted)
        rows = zip(*(column.tolist() for column in (
            found.number, found.record, found.side, found.shift)), strict=True)  # fmt: skip
        for number, record, side, shift in rows:
            assert wanted[number][0] == record
            assert (side, shift) in wanted[number][1] or (side < 0 and not wanted[number][1])


@pytest.mark.parametrize(
    "name",
    ["tour.pcapng", "pg18-proto4.pcap", "conversation/tls13.pcapng", "conversation/physical.pcap"],
)
def test_frames_are_those_of_the_messages(name: str) -> None:
    check(open_capture([str(CAPTURES / name)]).read(), 1)


@pytest.mark.parametrize("size", [9, 500])
def test_frames_beside_gaps(size: int, tmp_path: Path) -> None:
    source = random.Random(size)
    given = packets(CAPTURES / "pg14-proto2.pcap")[:400]
    given = resegmented(given, size) if size < 100 else joined(given, size)
    lost = {i for i in range(len(given)) if source.random() < 0.03}
    path = tmp_path / "lossy.pcap"
    path.write_bytes(pcap(frames(shuffled(without(given, lambda i, p: i in lost), 4, size))))
    check(open_capture([str(path)]).read(), size)


def test_nothing_chosen(tmp_path: Path) -> None:
    capture = open_capture([str(CAPTURES / "pg11-small.pcap")]).read()
    assert not len(frames_of(capture, iter(())).number)
    assert not len(frames_of(capture, iter([np.zeros(0, np.int64)])).number)
