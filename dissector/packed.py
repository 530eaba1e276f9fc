"""Numbers of a column, held in few bytes: exactly what was put in comes out again.

A block of an index's column is one of: all the same number (`Same`); a smallest number and the
distances from it in as few bytes as hold them all (`Near`); runs of equal numbers (`Runs`); numbers in
few places that lie far from each other, as LSNs of two servers do (`Far`). What fits none of these
stays as it is, a `Near` of full width. Blocks are never changed once made.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STEP = 1000
"""Distances are tried as multiples of it: clocks of captures count microseconds in nanoseconds."""

FEW = 4
"""Runs are kept where there are at most a quarter as many as numbers."""

UPPER = 256
"""Upper halves of numbers that are few."""

_NARROW = (np.uint8, np.uint16, np.uint32)


class Same:
    """`size` times one number."""

    __slots__ = ("_dtype", "size", "value")

    def __init__(self, value: int, size: int, dtype: Any) -> None:
        self.value, self.size, self._dtype = value, size, dtype

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return 0

    def part(self, start: int, stop: int) -> Array:
        """The numbers start..stop, in the dtype that they had: a new array."""
        return np.full(stop - start, self.value, self._dtype)

    def take(self, places: Array) -> Array:
        """The numbers at `places`, in any order: a new array."""
        return np.full(len(places), self.value, self._dtype)

    def one(self, place: int) -> int:
        """The number at `place`."""
        return self.value


class Near:
    """Codes: 0 and on for the numbers in `special`, from there on base + step * code for others."""

    __slots__ = ("_base", "_codes", "_dtype", "_special", "_step")

    def __init__(
        self, codes: Array, base: int, step: int, special: tuple[int, ...], dtype: Any
    ) -> None:
        self._codes, self._base, self._step = codes, base, step
        self._special, self._dtype = special, dtype

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return int(self._codes.nbytes)

    def part(self, start: int, stop: int) -> Array:
        """See `Same.part`."""
        return self._out(self._codes[start:stop])

    def take(self, places: Array) -> Array:
        """See `Same.take`."""
        return self._out(self._codes[places])

    def one(self, place: int) -> int:
        """See `Same.one`."""
        code: int = self._codes.data[place]
        if code < len(self._special):
            return self._special[code]
        return self._base + self._step * code

    def _out(self, codes: Array) -> Array:
        unsigned = _unsigned(self._dtype)
        found = codes.astype(unsigned)
        if self._step != 1:
            found *= unsigned.type(self._step)
        if self._base:  # sums wrap: so negative numbers come out right
            found += unsigned.type(self._base & ((1 << 8 * unsigned.itemsize) - 1))
        for code, number in enumerate(self._special):
            found[codes == code] = number
        return found.view(self._dtype)


class Runs:
    """Runs of equal numbers: where each begins, and its number."""

    __slots__ = ("_begins", "_numbers", "size")

    def __init__(self, begins: Array, numbers: Same | Near, size: int) -> None:
        self._begins, self._numbers, self.size = begins, numbers, size

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return int(self._begins.nbytes) + self._numbers.nbytes

    def part(self, start: int, stop: int) -> Array:
        """See `Same.part`."""
        if start >= stop:
            return self._numbers.part(0, 0)
        begins = self._begins
        low, high = np.searchsorted(begins, np.array([start, stop - 1], begins.dtype), "right")
        edges = np.empty(int(high - low) + 2, np.int64)
        edges[:-1] = begins[low - 1 : high]
        edges[0], edges[-1] = start, stop
        return np.repeat(self._numbers.part(int(low) - 1, int(high)), np.diff(edges))

    def take(self, places: Array) -> Array:
        """See `Same.take`."""
        begins = self._begins
        return self._numbers.take(np.searchsorted(begins, places.astype(begins.dtype), "right") - 1)

    def one(self, place: int) -> int:
        """See `Same.one`."""
        return self._numbers.one(bisect_right(self._begins.data, place) - 1)


class Far:
    """The lower half of each number, and of the few upper halves that there are, which one it has."""

    __slots__ = ("_dtype", "_lower", "_upper", "_which")

    def __init__(self, which: Packed, upper: Array, lower: Array, dtype: Any) -> None:
        self._which, self._upper, self._lower, self._dtype = which, upper, lower, dtype

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self._lower)

    @property
    def nbytes(self) -> int:
        """Bytes of arrays."""
        return int(self._lower.nbytes) + int(self._upper.nbytes) + self._which.nbytes

    def part(self, start: int, stop: int) -> Array:
        """See `Same.part`."""
        return self._out(self._which.part(start, stop), self._lower[start:stop])

    def take(self, places: Array) -> Array:
        """See `Same.take`."""
        return self._out(self._which.take(places), self._lower[places])

    def one(self, place: int) -> int:
        """See `Same.one`."""
        return int(self.take(np.array([place]))[0])

    def _out(self, which: Array, lower: Array) -> Array:
        return (self._upper[which] | lower).view(self._dtype)


Packed = Same | Near | Runs | Far


def _unsigned(dtype: Any) -> Any:
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "i" else dtype


def pack(values: Array, special: tuple[int, ...] = ()) -> Packed:
    """`values` (integers of any dtype, 1 to 2**32 of them) in few bytes.

    special: numbers that stand for something else and lie far from the others; at most 200.
    """
    dtype, size = values.dtype, len(values)
    low, high = values.min(), values.max()
    if low == high:
        return Same(int(low), size, dtype)
    changed = values[1:] != values[:-1]
    if (np.count_nonzero(changed) + 1) * FEW <= size:
        begins = np.zeros(np.count_nonzero(changed) + 1, _width(size - 1) or np.uint32)
        begins[1:] = np.flatnonzero(changed) + 1
        return Runs(begins, _near(values[begins], special), size)
    near = _near(values, special, low, high)
    far = _far(values) if near.nbytes > 4 * size else None
    return near if far is None or far.nbytes >= near.nbytes else far


def _begins(values: Array) -> Array:
    """Where runs of equal values begin."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def _far(values: Array) -> Far | None:
    """Numbers of eight bytes whose upper halves are few; None where they are many."""
    unsigned = values.view(np.uint64)
    halves = unsigned.view(np.uint32).reshape(-1, 2)
    upper, lower = (halves[:, 1], halves[:, 0]) if sys.byteorder == "little" else halves.T
    begins = _begins(upper)
    found = np.sort(upper[begins])
    found = found[_begins(found)]
    if len(found) > UPPER:
        return None
    which = np.searchsorted(found, upper).astype(np.uint8)
    return Far(pack(which), found.astype(np.uint64) << np.uint64(32), lower.copy(), values.dtype)


def _near(values: Array, special: tuple[int, ...], low: Any = None, high: Any = None) -> Near:
    """The distances from the smallest number."""
    dtype = values.dtype
    if low is None:
        low, high = values.min(), values.max()
    unsigned = _unsigned(dtype)
    width = _width(int(high) - int(low)) or unsigned
    usual = None
    if special and np.dtype(width).itemsize > 1:
        usual = ~np.isin(values, np.array(special, dtype))
        others = values[usual]
        least, most = (others.min(), others.max()) if len(others) else (low, low)
        narrower = _width(int(most) - int(least) + len(special))
        if narrower is None or np.dtype(narrower).itemsize >= np.dtype(width).itemsize:
            usual = None
        else:
            low, width = least, narrower
    distance = values.view(unsigned) - low.view(unsigned)
    base, step = int(low), 1
    if usual is None:
        if np.dtype(width).itemsize > 2 and not special:
            shorter = _width((int(high) - int(low)) // STEP)
            if shorter is not None and np.dtype(shorter).itemsize < np.dtype(width).itemsize:
                units, rest = np.divmod(distance, unsigned.type(STEP))
                if not rest.any():
                    distance, width, step = units, shorter, STEP
        return Near(distance.astype(width, copy=False), base, step, (), dtype)
    distance += unsigned.type(len(special))
    codes = distance.astype(width)
    for code, number in enumerate(special):
        codes[values == dtype.type(number)] = code
    return Near(codes, base - len(special), step, special, dtype)


def _width(most: int) -> Any:
    """The narrowest type that holds 0..most; None where only the widest does."""
    return next((t for t in _NARROW if most <= np.iinfo(t).max), None)
