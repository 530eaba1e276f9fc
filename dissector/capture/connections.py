"""TCP connections: which segment belongs to which, and in which direction."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

import numpy as np

from dissector.capture.frames import Array, grouped
from dissector.capture.link import ACK, RST, SYN, Segments

MASK = 0xFFFFFFFF

LATE_SYN = 1 << 20
"""Bytes of a direction that a capture may show before its SYN; a SYN further off is a new connection."""


class Endpoint(NamedTuple):
    """One side. version 4 or 6; high and low: the address as two 64-bit numbers (high 0 for IPv4)."""

    version: int
    high: int
    low: int
    port: int

    @property
    def address(self) -> str:
        """The address as text."""
        if self.version == 4:
            return str(ipaddress.IPv4Address(self.low & MASK))
        return str(ipaddress.IPv6Address(self.high << 64 | self.low))

    def __str__(self) -> str:
        return (
            f"[{self.address}]:{self.port}" if self.version == 6 else f"{self.address}:{self.port}"
        )


class Connection:
    """One TCP connection. endpoints[d] sends direction d. client: the direction of the side that sent
    the SYN, None when the capture does not show it. first_frame, time: of its first packet."""

    __slots__ = (
        "client",
        "endpoints",
        "ends",
        "first_frame",
        "flip",
        "isn",
        "number",
        "syn_ack",
        "time",
    )

    def __init__(
        self,
        number: int,
        endpoints: tuple[Endpoint, Endpoint],
        first_frame: int,
        time: int,
        flip: bool,
    ) -> None:
        self.number = number
        self.endpoints = endpoints
        self.first_frame = first_frame
        self.time = time
        self.client: int | None = None
        self.flip = flip
        self.isn = [-1, -1]
        self.syn_ack = -1
        self.ends: list[str] = ["", ""]

    @property
    def server_port(self) -> int:
        """The port of the side that was called; without a SYN the lower one, a guess."""
        if self.client is not None:
            return self.endpoints[1 - self.client].port
        return min(end.port for end in self.endpoints)

    def __repr__(self) -> str:
        return f"Connection({self.number}, {self.endpoints[0]}, {self.endpoints[1]})"


class Assigned(NamedTuple):
    """did i8: 2 * connection + direction of every segment. started: new connections. replaced:
    (old connection, frame of the SYN that ended it)."""

    did: Array
    started: list[Connection]
    replaced: list[tuple[Connection, int]]


class Pairs:
    """All pairs of endpoints and the connection that each has now."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.current: dict[tuple[Endpoint, Endpoint], Connection] = {}

    def assign(self, s: Segments, first_seq: Array) -> Assigned:
        """Find the connection and direction of each segment; SYNs begin new ones.

        first_seq: by direction, the first sequence number seen in earlier batches, -1 if none.
        """
        a = _mix(s.src_high, s.src_low, s.sport | s.version.astype(np.int64) << 16)
        b = _mix(s.dst_high, s.dst_low, s.dport | s.version.astype(np.int64) << 16)
        swap = a > b
        for i in np.flatnonzero(a == b).tolist():  # one hash for two endpoints: compare themselves
            pair = _pair(s, i, False)
            swap[i] = pair[0] > pair[1]
        key = np.where(swap, b, a) * _K3 + np.where(swap, a, b)
        first, inverse = grouped(key)
        first, inverse = self._exact(s, swap, first, inverse)
        pairs = [_pair(s, i, bool(swap[i])) for i in first.tolist()]
        now = [self.current.get(pair) for pair in pairs]
        steps = [
            (i, u) for u, (i, c) in enumerate(zip(first.tolist(), now, strict=True)) if c is None
        ]
        syns = np.flatnonzero((s.flags & (SYN | RST)) == SYN)
        steps += zip(syns.tolist(), inverse[syns].tolist(), strict=True)
        started: list[Connection] = []
        replaced: list[tuple[Connection, int]] = []
        changes = [(u, -1, c) for u, c in enumerate(now) if c is not None]
        for i, u in sorted(set(steps)):
            old = now[u]
            if old is not None and self._same(old, s, i, swap, inverse, u, first_seq):
                self._learn(old, s, i, swap)
                continue
            ends = pairs[u][::-1] if swap[i] else pairs[u]
            new = Connection(
                len(self.connections),
                (ends[0], ends[1]),
                int(s.frame[i]),
                int(s.time[i]),
                bool(swap[i]),
            )
            self.connections.append(new)
            started.append(new)
            if old is not None:
                replaced.append((old, int(s.frame[i])))
            now[u] = self.current[pairs[u]] = new
            changes.append((u, i, new))
            if int(s.flags[i]) & (SYN | RST) == SYN:
                self._learn(new, s, i, swap)
        number, flip = self._resolve(changes, inverse, len(first))
        return Assigned(number * 2 + (swap ^ flip), started, replaced)

    @staticmethod
    def _resolve(
        changes: list[tuple[int, int, Connection]], inverse: Array, pairs: int
    ) -> tuple[Array, Array]:
        """Connection number and flip of each segment, from the changes (pair, from row, connection)."""
        changes.sort(key=lambda change: change[:2])
        numbers = np.array([c.number for _, _, c in changes], np.int64)
        flips = np.array([c.flip for _, _, c in changes], np.bool_)
        if len(changes) == pairs:
            return numbers[inverse], flips[inverse]
        width = len(inverse) + 1
        starts = np.array([u * width + max(i, 0) for u, i, _ in changes], np.int64)
        rows = inverse * width + np.arange(len(inverse))
        which = np.searchsorted(starts, rows, side="right") - 1
        return numbers[which], flips[which]

    def _exact(self, s: Segments, swap: Array, first: Array, inverse: Array) -> tuple[Array, Array]:
        """Hashes grouped the segments; take apart those that only share a hash."""
        columns = [
            (s.src_low, s.dst_low),
            (s.src_high, s.dst_high),
            (s.sport, s.dport),
            (s.version, s.version),
        ]
        wrong = np.zeros(len(inverse), np.bool_)
        for source, target in columns:
            low, high = np.where(swap, target, source), np.where(swap, source, target)
            wrong |= (low != low[first][inverse]) | (high != high[first][inverse])
        if not wrong.any():
            return first, inverse
        inverse, heads = inverse.copy(), first.tolist()
        seen: dict[tuple[Endpoint, Endpoint], int] = {}
        for i in np.flatnonzero(wrong).tolist():
            pair = _pair(s, i, bool(swap[i]))
            if pair not in seen:
                seen[pair] = len(heads)
                heads.append(i)
            inverse[i] = seen[pair]
        return np.array(heads), inverse

    @staticmethod
    def _learn(connection: Connection, s: Segments, i: int, swap: Array) -> None:
        """Take the facts of a SYN."""
        direction = int(bool(swap[i]) ^ connection.flip)
        if connection.isn[direction] < 0:
            connection.isn[direction] = int(s.seq[i])
        if int(s.flags[i]) & ACK:
            connection.syn_ack = int(s.ack[i])
            if connection.client is None:
                connection.client = 1 - direction
        elif connection.client is None:
            connection.client = direction

    @staticmethod
    def _same(
        connection: Connection,
        s: Segments,
        i: int,
        swap: Array,
        inverse: Array,
        u: int,
        first_seq: Array,
    ) -> bool:
        """Whether the SYN in row i belongs to the pair's present connection."""
        direction = int(bool(swap[i]) ^ connection.flip)
        seq = int(s.seq[i])
        if connection.isn[direction] >= 0:
            return connection.isn[direction] == seq
        did = connection.number * 2 + direction
        seen = int(first_seq[did]) if did < len(first_seq) else -1
        if seen < 0:
            mine = (inverse[:i] == u) & (swap[:i] == swap[i])
            mine &= s.frame[:i] >= connection.first_frame
            rows = np.flatnonzero(mine)
            seen = int(s.seq[rows[0]]) if len(rows) else -1
        if seen >= 0:  # a SYN that the capture shows late, behind its own data
            return (seen - seq - 1) & MASK < LATE_SYN
        other = connection.isn[1 - direction]
        if int(s.flags[i]) & ACK:
            return other < 0 or (int(s.ack[i]) - other - 1) & MASK < LATE_SYN  # a SYN may bear data
        return connection.syn_ack >= 0 and (connection.syn_ack - seq - 1) & MASK < LATE_SYN


_K1, _K2, _K3 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)
"""Odd constants of the usual 64-bit mixers; collisions are looked for, so any would do."""


def _mix(high: Array, low: Array, port: Array) -> Array:
    value = (high * _K1 + low) * _K2 + port.astype(np.uint64) * _K3
    result: Array = (value ^ (value >> np.uint64(29))) * _K1
    return result


def _pair(s: Segments, i: int, swap: bool) -> tuple[Endpoint, Endpoint]:
    version = int(s.version[i])
    source = Endpoint(version, int(s.src_high[i]), int(s.src_low[i]), int(s.sport[i]))
    target = Endpoint(version, int(s.dst_high[i]), int(s.dst_low[i]), int(s.dport[i]))
    return (target, source) if swap else (source, target)
