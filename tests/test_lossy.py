"""Captures that lost bytes: a subset of what was sent, in order, and every missing byte is told."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import transforms as t
from sent import FAR, LANES, Flow, cut, first_frames, other, reading, starts
from transforms import CAPTURES, FIN, MASK, SYN, Packet

from dissector.rows import INCOMPLETE
from dissector.view import Capture, MessageView, open_capture

BASES = ("pg11-small", "pg14-proto2", "pg15-proto3", "pg18-proto1", "conversation/query-extended")
GAP = re.compile(r"(\d+) bytes are missing from the capture before this message")
SOUND = re.compile(r"sound again from frame (\d+)")
PART = re.compile(r"(\d+) of (\d+) bytes of this message")
PASSED = re.compile(r"(\d+) bytes skipped")


@cache
def packets(name: str) -> tuple[Packet, ...]:
    return tuple(t.packets(CAPTURES / f"{name}.pcap"))


class Truth:
    """What was sent, and which of its bytes a lossy capture of it holds."""

    def __init__(self, whole: Sequence[Packet], kept: Sequence[Packet]) -> None:
        client = whole[0].flow
        start = starts(whole)
        assert set(start) == {client, other(client)}
        self.data = t.streams(whole)
        sizes = {flow: len(data) for flow, data in self.data.items()}
        self.frames = first_frames(kept, start, sizes)
        self.flows: tuple[Flow, Flow] = client, other(client)
        self.messages = {
            flow: dict(cut(data, flow == client)) for flow, data in self.data.items()
        }
        syns = {p.flow for p in kept if p.flags & SYN}
        self.base = {}
        """Offset in what was sent of the first byte of the stream that the capture shows."""
        for flow, frames in self.frames.items():
            held = np.flatnonzero(frames < FAR)
            self.base[flow] = 0 if flow in syns else int(held[0]) if len(held) else 0

    def held(self, flow: Flow, start: int = 0, stop: int | None = None) -> int:
        """Bytes of start..stop that the capture holds."""
        return int((self.frames[flow][start:stop] < FAR).sum())

    def missing(self, flow: Flow) -> int:
        """Bytes that it does not hold, from where its stream begins."""
        return len(self.data[flow]) - self.base[flow] - self.held(flow)

    def first_missing(self, flow: Flow, start: int, stop: int) -> int:
        gone = np.flatnonzero(self.frames[flow][start:stop] == FAR)
        return start + int(gone[0]) if len(gone) else stop

    def gap_end(self, flow: Flow, at: int) -> int:
        """Where the hole that begins at `at` ends."""
        there = np.flatnonzero(self.frames[flow][at:] < FAR)
        return at + int(there[0]) if len(there) else len(self.data[flow])


def opened(tmp_path: Path, kept: Sequence[Packet], lane: str) -> Capture:
    path = tmp_path / "made"
    path.write_bytes(t.pcap(t.frames(kept), nano=True))
    with reading(lane):
        return open_capture([str(path)]).read()


def told(found: Sequence[str], pattern: re.Pattern[str]) -> int:
    """The sum of the numbers in texts of findings."""
    return sum(int(match[1]) for text in found for match in pattern.finditer(text))


def check(capture: Capture, truth: Truth) -> dict[int, list[MessageView]]:
    """Messages are a subset in order, as far as they are there; what is missing is told, all of it."""
    views: dict[int, list[MessageView]] = defaultdict(list)
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        views[view.row.direction].append(view)
    lost = passed = 0
    for direction, flow in enumerate(truth.flows):
        lost_here = seen = 0
        last = -1
        for view in views[direction]:
            start = view.row.offset + truth.base[flow]
            assert start > last, "in order"
            last = start
            assert start in truth.messages[flow], "begins where one was sent"
            message = truth.messages[flow][start]
            stop = start + len(message)
            assert view.row.length == len(message)
            gone = truth.first_missing(flow, start, stop)
            assert view.data == message[: gone - start]
            assert bool(view.row.flags & INCOMPLETE) == (gone < stop)
            seen += truth.held(flow, start, stop)
            texts = [f.text for f in view.found]
            parts = [PART.search(f.text) for f in view.found if f.code == "message-in-gap"]
            assert len(parts) == (gone < stop)
            for part in parts:
                have, need = int(part[1]), int(part[2])
                assert need == len(message)
                inside = truth.gap_end(flow, gone) <= stop
                assert have == (need - truth.gap_end(flow, gone) + gone if inside else gone - start)
                lost_here += need - have if inside else 0
            lost_here += told(texts, GAP)
            passed += told(texts, PASSED)
            for text in texts:
                for match in SOUND.finditer(text):
                    assert int(match[1]) == truth.frames[flow][start]
        assert lost_here <= truth.missing(flow)
        lost += lost_here
        passed -= truth.held(flow) - seen
    rest = [f.text for info in capture.index.connections.values() for f in info.found]
    assert lost + told(rest, GAP) == sum(map(truth.missing, truth.flows))
    assert passed + told(rest, PASSED) == 0, "what no message holds is told as passed over"
    return views


def segments(name: str, size: int) -> list[Packet]:
    """Data in segments of up to `size` bytes; the last acknowledgements stay."""
    return t.retimed(t.resegmented(t.joined(packets(name), 1448), size))


LOSSES: dict[str, Callable[[list[Packet], random.Random], list[Packet]]] = {
    "one in twenty": lambda p, r: t.without(p, lambda i, q: data(q) and r.random() < 0.05),
    "one in four": lambda p, r: t.without(p, lambda i, q: data(q) and r.random() < 0.25),
    "bursts": lambda p, r: bursts(p, r),
    "the first data": lambda p, r: t.without(p, lambda i, q: i in nth(p, slice(0, 4))),
    "the end": lambda p, r: t.without(p, lambda i, q: i in nth(p, slice(-6, None))),
    "start and end": lambda p, r: t.without(
        p, lambda i, q: i in nth(p, slice(0, 2)) | nth(p, slice(-2, None))
    ),
}


def data(packet: Packet) -> bool:
    return bool(packet.payload)


def nth(given: Sequence[Packet], which: slice) -> set[int]:
    """Places of data packets among them."""
    return set([i for i, p in enumerate(given) if p.payload][which])


def bursts(given: Sequence[Packet], source: random.Random) -> list[Packet]:
    """Several in a row go, again and again."""
    result, left = [], 0
    for packet in given:
        if packet.payload and not left and source.random() < 0.04:
            left = source.randrange(2, 8)
        if left and packet.payload:
            left -= 1
        else:
            result.append(packet)
    return result


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("name", BASES)
def test_losses(name: str, loss: str, lane: str, tmp_path: Path) -> None:
    for size in (1448, 300, 40):
        whole = segments(name, size)
        kept = LOSSES[loss](whole, random.Random(f"{name} {size}"))
        with opened(tmp_path, kept, lane) as capture:
            check(capture, Truth(whole, kept))
