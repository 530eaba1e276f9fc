"""How a replication connection fared over time: traffic, transactions, lag, delay.

Everything that the index's columns hold is counted over all messages; what stands inside messages
(flushed LSNs, send times) is read from at most `MOST` of them, spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .node import messages
from .rows import BACKEND, FRONTEND, NO_LSN
from .times import POSTGRES_EPOCH

Array = NDArray[Any]

MOST = 600
"""Messages that are opened for one series: more points than a terminal has columns."""

NANO = 1_000_000_000

COMMITS = ("Commit", "Stream Commit", "Commit Prepared")


@dataclass(frozen=True, slots=True)
class Series:
    """The lines of a plot.

    title: short, since a plot that is narrower than its title leaves it out. lines: by name, (seconds
    since the first message, values), float64: for plotting only. unit: of the values. sampled: how many
    messages were looked into, of `total`.
    """

    title: str
    unit: str
    lines: dict[str, tuple[Array, Array]]
    sampled: int = 0
    total: int = 0


def _seconds(times: Array, first: int) -> Array:
    return (times - first) / NANO


def _start(index: Any) -> tuple[int, int]:
    """(first time, nanoseconds of all messages, at least 1)."""
    times = [(int(part.min()), int(part.max())) for _, (part,) in index.rows.parts("time")]
    if not times:
        return 0, 1
    first = min(low for low, _ in times)
    return first, max(1, max(high for _, high in times) - first)


def _buckets(times: Array, first: int, span: int, count: int) -> Array:
    """The bucket of each time, from 0 to count - 1: exact, in integers."""
    width = max(1, -(-(span + 1) // count))
    found: Array = np.minimum((times - first) // width, count - 1)
    return found


def _centres(span: int, count: int) -> Array:
    width = max(1, -(-(span + 1) // count))
    return (np.arange(count) + 0.5) * width / NANO


def _per_second(sums: Array, span: int, count: int) -> Array:
    width = max(1, -(-(span + 1) // count))
    return sums * (NANO / width)


def traffic(index: Any, count: int = 100) -> Series:
    """Bytes a second in either direction, in `count` equal stretches of time."""
    first, span = _start(index)
    sides = {"server": BACKEND, "client": FRONTEND}
    sums = {name: np.zeros(count) for name in sides}
    for _, (times, lengths, direction) in index.rows.parts("time", "length", "direction"):
        buckets = _buckets(times, first, span, count)
        for name, side in sides.items():
            mine = direction == side
            sums[name] += np.bincount(buckets[mine], lengths[mine], minlength=count)
    centres = _centres(span, count)
    values = {name: (centres, _per_second(each, span, count)) for name, each in sums.items()}
    return Series("Traffic", "bytes/s", values)


def commits(index: Any, count: int = 100) -> Series:
    """Transactions that committed, a second."""
    first, span = _start(index)
    paths = index.tables.paths
    wanted = [i for i in range(len(paths)) if len(paths[i]) == 3 and paths[i][2] in COMMITS]
    mine = index.rows.where(lambda path: np.isin(path, wanted), "path")
    times = index.rows.take("time", mine)
    sums = np.bincount(_buckets(times, first, span, count), minlength=count)
    lines = {"committed": (_centres(span, count), _per_second(sums, span, count))}
    return Series("Transactions", "a second", lines)


def _spread(places: Array, most: int) -> Array:
    """At most `most` of `places`, the first and the last among them."""
    if len(places) <= most:
        return places
    found: Array = places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
    return found


def _named(index: Any, name: str) -> Array:
    """Places of the rows whose innermost message is called `name`, in time order."""
    paths = index.tables.paths
    wanted = [i for i in range(len(paths)) if paths[i][-1:] == (name,)]
    found: Array = index.rows.where(lambda path: np.isin(path, wanted), "path")
    return found


def _told(rows: Any, stream: int, places: Array) -> list[int]:
    """For each of `places`, ascending: the highest LSN that the server had sent on `stream` so far."""
    found: list[int] = []
    highest = 0
    for start, (streams, sides, lsns) in rows.parts("stream", "direction", "lsn"):
        usable = (streams == stream) & (sides == BACKEND) & (lsns != NO_LSN)
        told = np.maximum.accumulate(np.where(usable, lsns, np.uint64(0)))
        low, high = np.searchsorted(places, [start, start + len(lsns)])
        found += [max(highest, int(told[place - start])) for place in places[low:high]]
        highest = max(highest, int(told[-1]))
    return found


def lag(capture: Any, most: int = MOST) -> Series:
    """Bytes of WAL that the server had told of and the client had not confirmed as flushed.

    At each Standby status update: the highest LSN of the server's messages so far on that connection
    (the end of its WAL in keepalives, the position of data) less the flushed LSN.
    """
    index = capture.index
    rows = index.rows
    first, _ = _start(index)
    updates = _named(index, "Standby status update")
    at, values = [], []
    streams = rows.take("stream", updates)
    for stream in np.unique(streams).tolist():
        chosen = _spread(updates[streams == stream], most)
        for place, told in zip(chosen.tolist(), _told(rows, stream, chosen), strict=True):
            node = messages(capture.message(place + 1).tree)[-1].child("flushed_lsn")
            if node is None or not node.value or not told:
                continue
            at.append(rows.row(place + 1).time)
            values.append(max(0, told - int(node.value)))
    order = np.argsort(np.array(at, np.int64), kind="stable")
    times = np.array(at, np.int64)[order]
    found = np.array(values, np.float64)[order]
    lines = {"lag": (_seconds(times, first), found)}
    return Series("Lag: WAL not yet flushed", "bytes", lines, len(found), len(updates))


def delay(capture: Any, most: int = MOST) -> Series:
    """Milliseconds from a message's send time, by the sender's clock, to the frame that held it.

    Of keepalives, data and status updates. Where two clocks differ the whole curve is shifted; a rise
    means that messages waited in the sender.
    """
    index = capture.index
    rows = index.rows
    first, _ = _start(index)
    paths = index.tables.paths
    names = ("Primary keepalive message", "Standby status update")
    wanted = [
        i
        for i in range(len(paths))
        if paths[i][-1:]
        and (paths[i][-1] in names or paths[i][1:2] in (("XLogData",), ("WALData",)))
    ]
    every = rows.where(lambda path: np.isin(path, wanted), "path")
    lines: dict[str, tuple[list[int], list[float]]] = {"server": ([], []), "client": ([], [])}
    for place in _spread(every, most).tolist():
        view = capture.message(place + 1)
        node = next((n for m in messages(view.tree)[1:2] if (n := m.child("send_time"))), None)
        if node is None or not isinstance(node.value, int) or not node.value:
            continue
        time = view.row.time
        side = "server" if view.row.direction == BACKEND else "client"
        waited = time - (node.value * 1000 + POSTGRES_EPOCH)
        if abs(waited) < 86_400 * NANO:  # a clock that is off by a day says nothing about delay
            lines[side][0].append(time)
            lines[side][1].append(waited / 1_000_000)
    found = {
        name: (_seconds(np.array(times, np.int64), first), np.array(waits, np.float64))
        for name, (times, waits) in lines.items()
        if times
    }
    sampled = sum(len(times) for times, _ in lines.values())
    return Series("Delay: send to frame time", "ms", found, sampled, len(every))
