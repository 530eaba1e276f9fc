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
from transforms import ACK, CAPTURES, FIN, MASK, SYN, Packet

from dissector.rows import INCOMPLETE
from dissector.view import Capture, MessageView, open_capture

BASES = ("pg11-small", "pg14-proto2", "pg15-proto3", "pg18-proto1", "conversation/query-extended")
GAP = re.compile(r"(\d+) bytes are missing from the capture before this message")
SOUND = re.compile(r"sound again from frame (\d+)")
PART = re.compile(r"(\d+) of (\d+) bytes of this message")
PASSED = re.compile(r"(\d+) bytes skipped")
SIZES = (1448, 300, 40)
"""Of segments: each is read in each of the ways, with one loss or another."""


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
        self.messages = {flow: dict(cut(data, flow == client)) for flow, data in self.data.items()}
        syns = {p.flow for p in kept if p.flags & SYN}
        self.end = {flow: len(data) for flow, data in self.data.items()}
        """Where the stream ends, as far as the capture can tell: by acknowledgements where it holds no
        packet of that side. When this side has closed, the last number may stand for the other's FIN."""
        for flow in set(self.flows) - {p.flow for p in kept}:
            acks = [p.ack - start[flow] & MASK for p in kept if p.flags & ACK]
            closed = any(p.flags & FIN for p in kept)
            self.end[flow] = min(max(acks) - closed, self.end[flow])
            syns.add(flow)
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
        return self.end[flow] - self.base[flow] - self.held(flow)

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
    "one in twenty": lambda p, r: dropped(p, r, 0.05),
    "one in four": lambda p, r: dropped(p, r, 0.25),
    "bursts": lambda p, r: bursts(p, r, 0.04),
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


def dropped(given: Sequence[Packet], source: random.Random, share: float) -> list[Packet]:
    """Some data packets are not there."""
    return t.without(given, lambda i, q: data(q) and source.random() < share)


def bursts(given: Sequence[Packet], source: random.Random, share: float) -> list[Packet]:
    """Several in a row go, again and again."""
    result, left = [], 0
    for packet in given:
        if packet.payload and not left and source.random() < share:
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
    size = SIZES[(sorted(LOSSES).index(loss) + LANES.index(lane)) % 3]
    whole = segments(name, size)
    kept = LOSSES[loss](whole, random.Random(f"{name} {size}"))
    with opened(tmp_path, kept, lane) as capture:
        check(capture, Truth(whole, kept))


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("keep", [33, 90, 400])
@pytest.mark.parametrize("name", BASES)
def test_snap_length(name: str, keep: int, lane: str, tmp_path: Path) -> None:
    whole = t.retimed(t.joined(packets(name), 700))
    kept = t.snapped(whole, keep)
    with opened(tmp_path, kept, lane) as capture:
        check(capture, Truth(whole, kept))
        assert [f.code for f in capture.index.file_findings] == ["snap-length"]


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("name", BASES)
def test_one_direction_only(name: str, direction: int, lane: str, tmp_path: Path) -> None:
    """Everything that the one side sent; what it acknowledged of the other's is told as missing."""
    whole = segments(name, 300)
    source = random.Random(name)
    flow = (whole[0].flow, other(whole[0].flow))[direction]
    alone = [p for p in whole if p.flow == flow]
    for share in (0, 0.05):
        kept = [*alone[:3], *dropped(alone[3:], source, share)]
        with opened(tmp_path, kept, lane) as capture:
            truth = Truth(whole, kept)
            views = check(capture, truth)
            assert not views[1 - direction]
            if not share:
                assert [v.data for v in views[direction]] == list(truth.messages[flow].values())


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("name", BASES)
def test_begun_in_the_middle(name: str, lane: str, tmp_path: Path) -> None:
    """At a third of the capture, in the middle of a message or not, with losses later or not."""
    for number, (size, share) in enumerate([(1448, 0), (211, 0), (300, 0.1)]):
        whole = segments(name, size)
        turn = number + LANES.index(lane)
        for third in (1, 2) if turn % 3 == 0 else (1 + turn % 2,):
            source = random.Random(third)
            kept = [p for p in whole[len(whole) * third // 3 :] if not p.flags & SYN]
            kept = dropped(kept, source, share)
            with opened(tmp_path, kept, lane) as capture:
                views = check(capture, Truth(whole, kept))
                found = [f for vs in views.values() for v in vs for f in v.found]
                assert not views or any(f.code == "began-mid-session" for f in found)
                if name == "pg18-proto1":
                    assert len(views[1]) > 10
                    assert views[1][0].assumed


@pytest.mark.parametrize("lane", LANES)
def test_whole_messages_are_lost(lane: str, tmp_path: Path) -> None:
    """Gaps that begin and end where messages do: every other message is there, none in part."""
    whole = messages_alone("pg14-proto2")
    source = random.Random(5)
    kept = t.without(whole, lambda i, q: 60 < i < len(whole) - 9 and source.random() < 0.1)
    truth = Truth(whole, kept)
    with opened(tmp_path, kept, lane) as capture:
        views = check(capture, truth)
        for direction, flow in enumerate(truth.flows):
            there = [
                m for at, m in truth.messages[flow].items()
                if truth.held(flow, at, at + len(m)) == len(m)
            ]  # fmt: skip
            assert [v.data for v in views[direction]] == there
        assert (
            sum(f.code == "stream-gap" for vs in views.values() for v in vs for f in v.found) > 20
        )


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("name", ["pg14-proto2", "pg18-proto1"])
def test_every_replication_message_that_is_whole_is_shown(
    name: str, share: float, lane: str, tmp_path: Path
) -> None:
    """However much is lost around it: its header says when it was sent, and that proves it."""
    for size in [SIZES[(int(share > 0.1) + LANES.index(lane)) % 2]]:
        whole = segments(name, size)
        first = next(i for i, p in enumerate(whole) if b"START_REPLICATION" in p.payload) + 2
        kept = [*whole[:first], *dropped(whole[first:], random.Random(size), share)]
        truth = Truth(whole, kept)
        flow = truth.flows[1]
        there = [
            m for at, m in truth.messages[flow].items()
            if m[:1] == b"d" and truth.held(flow, at, at + len(m)) == len(m)
        ]  # fmt: skip
        with opened(tmp_path, kept, lane) as capture:
            views = check(capture, truth)[1]
            found = [v.data for v in views if v.data[:1] == b"d" and not v.row.flags & INCOMPLETE]
            assert found == there
            assert len(there) > 50


def messages_alone(name: str) -> list[Packet]:
    """The capture with one message a packet."""
    given, result = packets(name), []
    whole = Truth(given, given)
    for packet in t.joined(given, 60_000):
        if not packet.payload:
            result.append(packet)
            continue
        flow = packet.flow
        low = packet.seq - starts(given)[flow] & MASK
        for at, message in whole.messages[flow].items():
            if low <= at < low + len(packet.payload):
                seq = starts(given)[flow] + at & MASK
                result.append(replace(packet, payload=message, seq=seq, flags=packet.flags & ~FIN))
    assert t.streams(result) == t.streams(given)
    return t.retimed(result)


@pytest.mark.parametrize("lane", LANES)
def test_several_holes_in_one_message(lane: str, tmp_path: Path) -> None:
    """The first is told by the message, the others by the next one; that one is intact."""
    bodies = bytes(range(256)) * 12, b"\0\1\0\0\0\2ab", b"\0\1\0\0\0\2cd"
    rows = [b"D" + (len(body) + 4).to_bytes(4, "big") + body for body in bodies]
    login = b"\0\0\0\x10\0\3\0\0user\0u\0\0"
    login = len(login).to_bytes(4, "big") + login[4:]
    ready = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\5I"
    whole = t.conversation([(0, login), (1, ready), (1, b"".join(rows))])
    whole = t.retimed(t.resegmented(whole, 100))
    big = next(i for i, p in enumerate(whole) if p.payload[:1] == b"D")
    lost = [3, 4, 9, 15, 16, 17]
    kept = t.without(whole, lambda i, q: i - big in lost)
    with opened(tmp_path, kept, lane) as capture:
        views = check(capture, Truth(whole, kept))[1]
        assert [v.data for v in views[-3:]] == [rows[0][:300], *rows[1:]]
        assert [f.code for f in views[-3].found] == ["message-in-gap"]
        assert views[-3].found[0].text.startswith("2877 of 3077 bytes")
        assert [f.code for f in views[-2].found if "missing" in f.text] == ["stream-gap"]
        assert "400 bytes are missing" in views[-2].found[0].text
        assert views[-1].found == []
