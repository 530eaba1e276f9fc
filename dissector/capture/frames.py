"""What the two file formats hand on: columns of frames, and the facts of interfaces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from dissector.findings import Finding

Array = np.ndarray[Any, Any]

FILE_SHIFT = 42
"""A position is file number << 42 | offset: files to 4 TiB, two million of them, in one int64."""

OFFSET = (1 << FILE_SHIFT) - 1

MAX_FRAME = 1 << 28
"""No captured frame has 256 MiB: a longer record length is damage, whatever the header allows."""


class Columns(NamedTuple):
    """Frames of one file, one row each, in file order.

    time i8 (ns since 1970 UTC), record i8 (offset of the record or block in the file), offset i8 (of
    the captured bytes), caplen i8, wirelen i8 (bytes on the wire), interface i8 (number in
    `Notes.interfaces`).
    """

    time: Array
    record: Array
    offset: Array
    caplen: Array
    wirelen: Array
    interface: Array

    def rows(self, which: Any) -> Columns:
        """The rows that an index array, mask or slice picks."""
        return Columns(*(column[which] for column in self))


@dataclass(slots=True)
class Interface:
    """What a file says about the place of capture.

    linktype: a LINKTYPE_ number of the tcpdump.org registry. snaplen: 0 is unlimited. digits: decimals
    of a second in its times (6 microseconds, 9 nanoseconds; finer resolutions are kept as nanoseconds
    and `finer` is true). exponent: the time unit is 10**-exponent or, with binary, 2**-exponent
    seconds; shift: seconds to add.
    """

    source: int
    linktype: int
    snaplen: int = 0
    digits: int = 6
    exponent: int = 6
    binary: bool = False
    shift: int = 0
    name: str = ""
    finer: bool = False


@dataclass(slots=True)
class Notes:
    """What readers collect beside frames; shared by all files of a capture.

    comments: list of (record position, text), position -1 for those of a section or interface.
    secrets: (type, bytes) of Decryption Secrets Blocks. names: address -> names of Name Resolution
    Blocks. dropped: packets that the recorder says it lost, by interface number.
    """

    interfaces: list[Interface] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    secrets: list[tuple[int, bytes]] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)


_SECONDS = 9_200_000_000
"""Seconds beyond which int64 nanoseconds would wrap; times of hostile files are held inside it."""


def nanoseconds(ticks: Array, face: Interface) -> Array:
    """Ticks (uint64) of an interface -> int64 ns since 1970 UTC, rounded down."""
    exponent = face.exponent
    if face.binary:
        if exponent > 63:
            ticks, exponent = ticks >> np.uint64(min(63, exponent - 63)), 63
        seconds = ticks >> np.uint64(exponent)
        part = ticks & np.uint64((1 << exponent) - 1)
        billion = np.uint64(1_000_000_000)
        if exponent <= 32:
            rest = (part * billion) >> np.uint64(exponent)
        else:  # split, so that the product stays below 2**63; floors of floors are exact
            high = (part >> np.uint64(32)) * billion
            low = ((part & np.uint64(0xFFFFFFFF)) * billion) >> np.uint64(32)
            rest = (high + low) >> np.uint64(exponent - 32)
    else:
        unit = 10**exponent
        if unit >> 64:
            seconds, part = np.zeros_like(ticks), ticks
        else:
            seconds, part = ticks // np.uint64(unit), ticks % np.uint64(unit)
        if exponent <= 9:
            rest = part * np.uint64(10 ** (9 - exponent))
        else:
            divisor = 10 ** (exponent - 9)
            rest = part // np.uint64(divisor) if not divisor >> 64 else np.zeros_like(part)
    shift = max(-_SECONDS, min(_SECONDS, face.shift))
    whole = np.minimum(seconds, np.uint64(2 * _SECONDS)).astype(np.int64) + shift
    result: Array = np.clip(whole, -_SECONDS, _SECONDS) * 1_000_000_000 + rest.astype(np.int64)
    return result


def no_frames() -> Columns:
    """Columns without a row."""
    return Columns(*(np.zeros(0, np.int64) for _ in Columns._fields))


class Grows(Protocol):
    """`sources.Source`, as far as waiting goes."""

    size: int

    def need(self, stop: int, at: int = -1) -> None: ...

    def grow(self) -> bool: ...


def waiting(source: Grows, follow: Callable[[], bool] | None) -> Generator[Columns, None, bool]:
    """At the end of a file that may still grow: True once there is more, False when it is finished.

    follow: waits a little and tells whether the file is still written; None for files that are not.
    Gives one batch without frames first, so that nobody holds back what is there.
    """
    if follow is None:
        return False
    yield no_frames()
    while True:
        written = follow()  # asked before looking, so that the last bytes are not missed
        if source.grow():
            return True
        source.need(source.size)
        if not written:
            return False


def distinct(values: Array) -> Array:
    """The distinct values, ascending. (numpy.unique imports numpy.ma, which costs 40 ms at the start.)"""
    values = np.sort(values)
    return values[np.r_[True, values[1:] != values[:-1]]] if len(values) else values


def grouped(keys: Array) -> tuple[Array, Array]:
    """(row of the first occurrence of each distinct key, number of the key of every row)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.r_[True, ordered[1:] != ordered[:-1]]
    inverse = np.empty(len(keys), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new], inverse


def member(values: Array, of: tuple[int, ...]) -> Array:
    """Which values are among a few."""
    result = values == of[0]
    for one in of[1:]:
        result |= values == one
    return result
