"""Numbers of many messages as text, those of one format at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from . import display
from .cells import HIGH, SECONDS
from .slots import hexadecimal, packed, windows

_PREFIX = len("2000-01-01 00:00:00.")
_DIGITS = np.array([b"%03d" % i for i in range(1000)], "S3").view("V3")


def decimals(values: Iterable[int]) -> list[bytes]:
    """Numbers in decimal."""
    return [b"%d" % value for value in values]


def lsns(values: Sequence[int]) -> list[bytes]:
    """LSNs as text."""
    array = np.array(values, np.uint64)
    count = len(array)
    high, high_digits = hexadecimal((array >> np.uint64(32)).astype(np.uint32))
    low, low_digits = hexadecimal(array.astype(np.uint32))
    cells = np.zeros((count, 34), np.uint8)
    cells[:, :8] = high
    cells[:, 8] = ord("/")
    padded = np.zeros((count, 16), np.uint8)
    padded[:, :8] = low
    begins = np.arange(0, count * 16, 16) + 8 - low_digits
    cells[:, 9:17].view("V8")[:, 0] = windows(padded, 8)[begins]
    found = windows(cells, 17)[np.arange(0, count * 34, 34) + 8 - high_digits]
    texts: list[bytes] = found.view("S17").tolist()
    return texts


def times(values: Sequence[int]) -> list[bytes]:
    """Microseconds since 2000 as text."""
    array = np.array(values, np.int64)
    usual = (array > 999_999) & (array < HIGH)
    second, micros = np.divmod(np.where(usual, array, 0), 1_000_000)
    usual &= micros > 0
    distinct, which = np.unique(second, return_inverse=True)
    cells = np.empty(
        len(array), [("second", f"V{_PREFIX}"), ("a", "V3"), ("b", "V3"), ("utc", "S4")]
    )
    cells["second"] = packed([SECONDS[s].encode() for s in distinct.tolist()], _PREFIX)[which]
    cells["a"] = _DIGITS[micros // 1000]
    cells["b"] = _DIGITS[micros % 1000]
    cells["utc"] = b" UTC"
    texts: list[bytes] = cells.view(f"S{cells.itemsize}").tolist()
    for i in np.flatnonzero(~usual).tolist():
        texts[i] = display.timestamp(values[i]).encode()
    return texts


class Place(NamedTuple):
    """Where texts of one format are, or will be."""

    form: str
    start: int
    stop: int


class Pool:
    """Numbers whose texts are made together: `add` them, `make`, and `take` the texts."""

    _FORMS: ClassVar = {"lsn": lsns, "timestamp": times}

    def __init__(self) -> None:
        self._values: dict[str, list[int]] = {form: [] for form in self._FORMS}
        self._texts: dict[str, list[bytes]] = {}

    def add(self, form: str, values: Sequence[int]) -> Place:
        """Where the texts of numbers will be."""
        held = self._values[form]
        held += values
        return Place(form, len(held) - len(values), len(held))

    def make(self) -> None:
        """Make the texts of all that were added."""
        self._texts = {form: make(self._values[form]) for form, make in self._FORMS.items()}

    def take(self, place: Place) -> list[bytes]:
        """The texts at a place."""
        return self._texts[place.form][place.start : place.stop]
