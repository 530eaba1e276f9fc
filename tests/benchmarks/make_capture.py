"""Makes a capture of a million messages and more from the shipped recordings.

    python tests/benchmarks/make_capture.py OUT.pcap [--messages 1250000] [--seed 1]

Two replication connections, each begun as its recording began. Inside one COPY BOTH the recorded
transactions come again and again, with LSNs, times and transaction numbers moved on; Relation, Type and
Truncate messages come with every fiftieth round, and so do rows of tables that were altered in between.
The server sends full segments of 1448 bytes; now and then two segments are swapped or one is sent twice.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from transforms import ACK, PSH, SYN, Packet, packets, streams  # noqa: E402

from dissector.annotate import annotate  # noqa: E402
from dissector.node import Node, leaves, messages  # noqa: E402
from dissector.spec import Dialect, Field  # noqa: E402

CAPTURES = HERE.parent.parent / "captures"
RECORDINGS = (("pg18-proto1.pcap", 1), ("pg16-proto4.pcap", 4))
SEGMENT = 1448
LONG = 80
"""Bytes from which on a row comes three times: most recorded rows are shorter than people's."""

KEPT = 120
"""Messages of a transaction at most: the longest are of tiny rows, which would crowd out all else."""

AGAIN = 50
"""Every so many rounds all tables are described again."""

RARE = ("Relation", "Type", "Truncate")
"""Messages of the first round and those that describe all again only."""

STATUS = 4000
"""Messages of the server between two status updates of the client."""


@dataclass
class Round:
    """The recorded transactions as one block that can be moved on: `data` is a whole number of
    messages; lsns, times, xids are offsets of numbers in it."""

    data: bytes
    count: int
    lsns: np.ndarray
    times: np.ndarray
    xids: np.ndarray
    span: int
    duration: int
    transactions: int

    def moved(self, number: int) -> bytes:
        """The block of round `number`."""
        data = np.frombuffer(self.data, np.uint8).copy()
        for places, step, width in (
            (self.lsns, self.span, 8), (self.times, self.duration, 8), (self.xids, self.transactions, 4),
        ):  # fmt: skip
            view = np.ndarray((len(data) - width + 1,), f">u{width}", data, strides=(1,))
            view[places] += step * number
        return data.tobytes()


@dataclass
class Recording:
    """What both sides of a recorded connection sent, split where the replication stream began."""

    client: bytes
    server: bytes
    first: Round
    later: Round


def cut(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the messages from `at`."""
    while at + 5 <= len(data):
        end = at + 1 + struct.unpack_from(">I", data, at + 1)[0]
        if end > len(data):
            return
        yield at, end
        at = end


def recording(name: str, proto: int) -> Recording:
    """Read a shipped capture."""
    flows = streams(packets(CAPTURES / name))
    client, server = sorted(
        flows.values(), key=lambda data: data[0] != 0
    )  # a start-up packet first
    parts = list(cut(server, 0))
    begin = next(i for i, (a, _) in enumerate(parts) if server[a : a + 1] == b"W") + 1
    copied = [(a, b) for a, b in parts[begin:] if server[a : a + 1] == b"d"]
    head = parts[begin - 1][1]
    asked = client[: client.index(b"START_REPLICATION")]
    rest = struct.unpack_from(">I", client, len(asked) - 4)[0]
    return Recording(
        client[: len(asked) - 4 + rest], server[:head],
        taken(server, copied, proto, True), taken(server, copied, proto, False),
    )  # fmt: skip


def taken(server: bytes, copied: list[tuple[int, int]], proto: int, describe: bool) -> Round:
    """Copy the messages of a round, and note where the numbers stand that move on."""
    trees = list(trees_of(server, copied, proto))
    several = changed(trees)
    out, lsns, times, xids = bytearray(), [], [], []
    seen_lsns, seen_times, seen_xids = [], [], []
    inside = count = 0
    for tree in trees:
        inner = messages(tree)[-1]
        inside = 0 if inner.name in ("Begin", "Stream Start", "Begin Prepare") else inside + 1
        row = inner.name in ("Insert", "Update", "Delete")
        oid = inner.child("relation_oid")
        if row and inside > KEPT:
            continue
        altered = oid is not None and oid.value in several
        if not describe and (altered or inner.name in RARE):
            continue
        for _ in range(3 if row and tree.length >= LONG else 1):
            base = len(out) - tree.start
            out += server[tree.start : tree.end]
            count += 1
            for leaf in leaves(tree):
                if not isinstance(leaf.declaration, Field) or not leaf.value or leaf.length < 4:
                    continue
                show = leaf.declaration.kind.show
                if show == "lsn":
                    lsns.append(base + leaf.start)
                    seen_lsns.append(leaf.value)
                elif show == "timestamp":
                    times.append(base + leaf.start)
                    seen_times.append(leaf.value)
                elif leaf.name in ("xid", "subxid"):
                    xids.append(base + leaf.start)
                    seen_xids.append(leaf.value)
    return Round(
        bytes(out), count, np.array(lsns), np.array(times), np.array(xids),
        max(seen_lsns) - min(seen_lsns) + 64, max(seen_times) - min(seen_times) + 1000,
        max(seen_xids) - min(seen_xids) + 1,
    )  # fmt: skip


def trees_of(server: bytes, copied: list[tuple[int, int]], proto: int) -> Iterator[Node]:
    """The messages, each read in the state that it was sent in."""
    release = 16
    state = [
        Dialect(release=release, copy="pgoutput", proto_version=proto, parallel=proto == 4,
                in_stream=flag) for flag in (False, True)
    ]  # fmt: skip
    inside = False
    for start, end in copied:
        tree = annotate(server, "backend", state[inside], start, end)
        name = messages(tree)[-1].name
        if name == "Stream Start":
            inside = True
        elif name == "Stream Stop":
            inside = False
        yield tree


def changed(trees: list[Node]) -> set[int]:
    """OIDs of tables that were described more than once."""
    found: dict[int, set[bytes]] = {}
    for tree in trees:
        inner = messages(tree)[-1]
        if inner.name == "Relation":
            columns = [leaf.value for leaf in leaves(inner) if leaf.name not in ("xid",)]
            found.setdefault(inner.child("relation_oid").value, set()).add(repr(columns).encode())
    return {oid for oid, texts in found.items() if len(texts) > 1}


class Talk:
    """One connection: makes the packets of both directions."""

    def __init__(self, number: int, recorded: Recording, wanted: int) -> None:
        self.recorded = recorded
        self.wanted = wanted
        self.number = number
        self.seq = [1_000_000 * (number + 1), 0xFFF00000 + number]
        self.sent = 0

    def packet(self, side: int, flags: int, payload: bytes = b"") -> Packet:
        """The next segment of side 0 (client) or 1."""
        ends = (b"\x0a\0\0\1", b"\x0a\0\0\2")
        ports = (40000 + self.number, 5432)
        made = Packet(
            0, ends[side], ends[1 - side], ports[side], ports[1 - side],
            self.seq[side] & 0xFFFFFFFF, self.seq[1 - side] & 0xFFFFFFFF, flags, payload,
        )  # fmt: skip
        self.seq[side] += len(payload) + bool(flags & SYN)
        return made

    def packets(self) -> Iterator[Packet]:
        """All packets, in order."""
        yield self.packet(0, SYN)
        yield self.packet(1, SYN | ACK)
        yield self.packet(0, ACK)
        client, server = self.recorded.client, self.recorded.server
        first = struct.unpack(">I", client[:4])[0]
        yield self.packet(0, ACK | PSH, client[:first])
        ready = server.index(b"Z\0\0\0\5") + 6
        yield self.packet(1, ACK | PSH, server[:ready])
        yield self.packet(0, ACK | PSH, client[first:])
        yield self.packet(1, ACK | PSH, server[ready:])
        data, told, number = b"", 0, 0
        while self.sent < self.wanted:
            block = self.recorded.first if number % AGAIN == 0 else self.recorded.later
            data += block.moved(number)
            self.sent += block.count
            number += 1
            bounds = [*range(0, len(data), SEGMENT)]
            for a, b in pairwise(bounds):
                yield self.packet(1, ACK | PSH, data[a:b])
            data = data[bounds[-1] :]
            if self.sent - told >= STATUS:
                told = self.sent
                yield self.packet(0, ACK | PSH, status(number * block.span))
        if data:
            yield self.packet(1, ACK | PSH, data)


def status(lsn: int) -> bytes:
    """A standby status update in its CopyData."""
    body = b"r" + struct.pack(">QQQqB", lsn + 1, lsn, lsn, 800_000_000_000_000, 0)
    return b"d" + struct.pack(">I", len(body) + 4) + body


def mixed(talks: list[Talk], seed: int) -> Iterator[Packet]:
    """The connections' packets in turn; few are swapped or sent twice."""
    source = random.Random(seed)
    running = [talk.packets() for talk in talks]
    held: Packet | None = None
    while running:
        for one in list(running):
            for _ in range(source.randrange(1, 12)):
                packet = next(one, None)
                if packet is None:
                    running.remove(one)
                    break
                luck = source.random()
                if held is None and luck < 0.0003 and len(packet.payload) == SEGMENT:
                    held = packet
                    continue
                yield packet
                if held is not None and held.flow == packet.flow:
                    yield held
                    held = None
                if luck > 0.9997:
                    yield packet
    if held is not None:
        yield held


def write(path: Path, given: Iterator[Packet]) -> None:
    """Write an Ethernet pcap of microseconds, as tcpdump does."""
    ip_head, tcp_head = struct.Struct(">BBHHHBBH4s4s").pack, struct.Struct(">HHIIBBHHH").pack
    record = struct.Struct("<IIII").pack
    options = b"\1\1\x08\x0a" + bytes(8)
    ethernet = b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0"
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for i, p in enumerate(given):
            tcp = tcp_head(p.sport, p.dport, p.seq, p.ack, 0x80, p.flags, 0xFFFF, 0, 0)
            size = 32 + len(p.payload)
            ip = ip_head(0x45, 0, 20 + size, i & 0xFFFF, 0x4000, 64, 6, 0, p.src, p.dst)
            seconds, micros = divmod(1_700_000_000_000_000 + i * 20, 1_000_000)
            size += 34
            out.write(
                record(seconds, micros, size, size) + ethernet + ip + tcp + options + p.payload
            )


def make(path: Path, wanted: int, seed: int = 1) -> None:
    """Write a capture of about `wanted` messages."""
    talks = [
        Talk(i, recording(name, proto), wanted // len(RECORDINGS))
        for i, (name, proto) in enumerate(RECORDINGS)
    ]
    write(path, mixed(talks, seed))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make a large capture from the shipped recordings."
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--messages", type=int, default=1_250_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    make(given.out, given.messages, given.seed)
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
