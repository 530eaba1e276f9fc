"""Places of a stream's bytes: every byte is found again in its frame, up to a gap."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dissector.capture import Pieces
from dissector.places import Places

Entry = tuple[int, int, int, int]
"""Bytes, position, frame, the frame's header bytes before them."""

entries = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.integers(1000, (1 << 62) - 1),
        st.integers(1, (1 << 32) - 1),
        st.integers(0, 1000),
    ),
    min_size=1,
    max_size=12,
)


def pieces_of(start: int, part: list[Entry]) -> Pieces:
    length = np.array([e[0] for e in part], np.uint32)
    position = np.array([e[1] for e in part], np.int64)
    nothing = np.zeros(len(part), np.int64)
    return Pieces(
        np.cumsum(length, dtype=np.int64) - length + start,
        length,
        position,
        np.array([e[2] for e in part], np.uint32),
        nothing.astype(np.uint32),
        nothing,
        position - np.array([e[3] for e in part], np.int64),
    )


@given(st.lists(st.tuples(st.integers(0, 9), entries), max_size=4), st.data())
@example([(0, [(1, 1000, 1, 0), (1, 5000, 2, 66)]), (1 << 40, [(2, 1 << 50, 3, 1000)])], None)
def test_every_byte_is_found_in_its_frame(parts, data) -> None:
    places, truth, at = Places(), {}, 0
    for gap, part in parts:
        at += gap
        places.add(pieces_of(at, part))
        for length, position, frame, head in part:
            for i in range(length):
                truth[at + i] = (position + i, frame, position - head)
            at += length
    for start, known in truth.items():
        (found,) = places.find(start, start + 1)
        assert (found.offset, found.length) == (start, 1)
        assert (found.position, found.frame, found.record) == known
    assert list(places.find(at, at + 5)) == []
    if data is None:
        return
    start = data.draw(st.integers(0, at + 3))
    stop = data.draw(st.integers(start, at + 3))
    bytes_found = [
        (p.offset + i, p.position + i, p.frame, p.record)
        for p in places.find(start, stop)
        for i in range(p.length)
    ]
    expected = []
    for each in range(start, stop):
        if each not in truth:
            break
        expected.append((each, *truth[each]))
    assert bytes_found == expected
    many = [
        (offset + i, position + i, frame, record)
        for each in places.find_many(start, stop, frames=True)
        for offset, size, position, record, frame in zip(*(c.tolist() for c in each), strict=True)
        for i in range(size)
    ]
    assert many == expected
    assert not any(len(each.frame) for each in places.find_many(start, stop))


def test_nothing_is_found_where_nothing_came() -> None:
    places = Places()
    assert list(places.find(0, 10)) == []
    none = pieces_of(0, [(1, 1000, 1, 0)]).rows(slice(0, 0))
    places.add(none)
    assert list(places.find(0, 10)) == []


def test_bytes_beyond_four_gigabytes_of_one_part() -> None:
    whole = pieces_of(7, [(1, 1000, 1, 0)] * 3)
    far = whole._replace(
        offset=np.array([7, 7 + (3 << 30), 7 + (6 << 30)], np.int64),
        length=np.array([3 << 30, 3 << 30, 10], np.uint32),
    )
    places = Places()
    places.add(far)
    (found,) = places.find(7 + (6 << 30) + 4, 7 + (6 << 30) + 6)
    assert (found.offset, found.length, found.position) == (7 + (6 << 30) + 4, 2, 1004)
