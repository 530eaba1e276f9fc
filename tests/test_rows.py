"""Rows: packed blocks give back exactly what went in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissector import rows as module
from dissector.packed import Far, Near, Runs, Same, pack
from dissector.rows import COLUMNS, NO_LSN, Row, Rows

DTYPES = [np.dtype(d) for d in (np.uint8, np.uint16, np.uint32, np.uint64, np.int64)]


@st.composite
def arrays(draw: st.DrawFn, dtype: np.dtype, size: int) -> np.ndarray:
    """Numbers of one dtype as columns hold them: all equal, near each other, in runs, in steps, with
    some of the numbers that mean nothing, or anything at all."""
    bounds = np.iinfo(dtype)
    low, high = int(bounds.min), int(bounds.max)
    base = draw(st.integers(low, high))
    shape = draw(st.sampled_from(["near", "steps", "runs", "far", "all"]))
    reach = draw(st.sampled_from([0, 1, 254, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32]))
    step = 1000 if shape == "steps" else 1
    numbers = [
        min(high, max(low, base + step * draw(st.integers(0, reach)))) for _ in range(min(size, 12))
    ]
    if shape == "far" and bounds.bits == 64:
        others = [draw(st.integers(low, high)) >> 32 << 32 for _ in range(2)]
        numbers += [other + (number & 0xFFFFFFFF) for number in numbers for other in others]
    if shape == "all":
        numbers = draw(st.lists(st.integers(low, high), min_size=1, max_size=12))
    if draw(st.booleans()):
        numbers += draw(st.lists(st.sampled_from([0, low, high]), min_size=1, max_size=3))
    found = np.array((numbers * size)[:size], dtype)
    return np.sort(found) if shape == "runs" else found


@st.composite
def one(draw: st.DrawFn) -> np.ndarray:
    dtype = draw(st.sampled_from(DTYPES))
    return draw(arrays(dtype, draw(st.integers(1, 70))))


@given(one(), st.sampled_from([(), (0,), (NO_LSN, 0)]), st.data())
@example(np.array([NO_LSN, 5, 0], np.uint64), (NO_LSN, 0), None)
@example(np.array([NO_LSN, 0], np.uint64), (NO_LSN, 0), None)
@example(np.array([-(1 << 63), (1 << 63) - 1], np.int64), (), None)
@example(np.array([-5000, -3000, 1 << 40], np.int64), (), None)
@example(np.array([0, 70_000, 70_253, 70_254], np.uint32), (0,), None)
def test_what_was_packed_comes_out(values, special, data) -> None:
    special = special if values.dtype == np.uint64 else special[-1:]
    kept, size = values.copy(), len(values)
    packed = pack(values, special)
    truth = kept.tolist()
    assert packed.size == size
    assert packed.part(0, size).dtype == kept.dtype
    assert packed.part(0, size).tolist() == truth
    assert [packed.one(i) for i in range(size)] == truth
    assert values.tolist() == truth  # what was given is not written to
    if data is not None:
        start = data.draw(st.integers(0, size))
        stop = data.draw(st.integers(start, size))
        assert packed.part(start, stop).tolist() == truth[start:stop]
        places = data.draw(st.lists(st.integers(0, size - 1), max_size=9))
        found = packed.take(np.array(places, np.int64))
        assert found.dtype == kept.dtype
        assert found.tolist() == [truth[i] for i in places]
    assert packed.nbytes <= kept.nbytes


def test_numbers_take_the_bytes_that_they_need() -> None:
    count = 1 << 16
    numbers = np.arange(count, dtype=np.uint64)
    assert isinstance(pack(np.full(count, 7, np.uint32)), Same)
    assert pack(numbers + np.uint64(1 << 60)).nbytes == 2 * count
    times = (numbers * np.uint64(977_000)).view(np.int64) - (1 << 62)  # microseconds, a minute
    assert pack(times).nbytes == 4 * count
    no_microseconds = pack(times + numbers.view(np.int64))
    assert isinstance(no_microseconds, Far)
    assert no_microseconds.nbytes < 5 * count
    lsns = np.uint64(1 << 50) + numbers * np.uint64(100)
    lsns[::3] = NO_LSN
    lsns[::5] = 0
    assert isinstance(pack(lsns, (NO_LSN, 0)), Near)
    assert pack(lsns, (NO_LSN, 0)).nbytes == 4 * count
    assert pack(lsns).nbytes == 5 * count + 3 * 8  # three upper halves
    scattered = numbers * np.uint64(0x9E37_79B9_7F4A_7C15)
    assert pack(scattered).nbytes == 8 * count
    servers = numbers + np.uint64(1 << 40)
    servers[count // 2 :] += np.uint64(1 << 50)  # one after the other
    assert pack(servers).nbytes < 4.1 * count
    runs = pack(np.repeat(numbers[: count // 8] * np.uint64(1 << 20), 8))
    assert isinstance(runs, Runs)
    assert runs.nbytes == (2 + 8) * count // 8


# Rows.


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 8)


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, np.ndarray]]:
    sizes = draw(st.lists(st.integers(0, 20), max_size=4))
    return [
        {name: draw(arrays(np.dtype(dtype), size)) for name, dtype in COLUMNS} for size in sizes
    ]


@settings(max_examples=40)
@given(batches(), st.data())
def test_rows_are_what_was_appended(given_batches, data) -> None:
    rows, stills = Rows(), []
    truth = {name: [] for name, _ in COLUMNS}
    for batch in given_batches:
        stills.append((len(rows), rows.still()))
        if data.draw(st.booleans()):
            rows.close()  # rows that come nevertheless are taken
        rows.extend(batch)
        for name, values in batch.items():
            truth[name] += values.tolist()
    rows.close()
    assert all(len(values) < 8 for values in rows._held.open.values())
    count = len(rows)
    assert count == sum(len(batch["frame"]) for batch in given_batches)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count + 3))
    places = data.draw(st.lists(st.integers(0, count - 1), max_size=12)) if count else []
    for name, dtype in COLUMNS:
        assert rows.column(name).tolist() == truth[name]
        assert rows.part(name, start, stop).tolist() == truth[name][start:stop]
        assert rows.part(name, start, stop).dtype == dtype
        taken = rows.take(name, np.array(places, np.int64))
        assert taken.dtype == dtype
        assert taken.tolist() == [truth[name][i] for i in places]
        for size, still in stills:
            assert len(still) == size
            assert still.column(name).tolist() == truth[name][:size]
    parts = list(rows.parts("time", "lsn", start=start, stop=stop))
    assert [n for _, (times, _) in parts for n in times.tolist()] == truth["time"][start:stop]
    assert [n for _, (_, lsns) in parts for n in lsns.tolist()] == truth["lsn"][start:stop]
    assert [at for at, _ in parts] == [
        sum(len(times) for _, (times, _) in parts[:i]) + start for i in range(len(parts))
    ]
    for number in range(1, count + 1):
        expected = Row(number, *(truth[name][number - 1] for name, _ in COLUMNS))
        assert rows.row(number) == expected
    for number in (0, count + 1):
        with pytest.raises(IndexError):
            rows.row(number)


def made(count: int, **columns: list[int]) -> Rows:
    rows = Rows()
    rows.extend({name: np.array(columns.get(name, [0] * count), dtype) for name, dtype in COLUMNS})
    return rows


def test_a_later_finding_makes_a_row_worse_never_better() -> None:
    rows = made(12, severity=[1] * 12)
    still = rows.still()
    rows.worsen(3, 2)
    rows.worsen(3, 1)
    rows.worsen(10, 3)
    rows.worsen(10, 2)
    truth = [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 3, 1]
    assert rows.column("severity").tolist() == truth
    assert len(still) == 12


def test_the_last_row_of_a_direction_at_an_offset() -> None:
    rows = made(
        20,
        stream=[0, 1] * 10,
        direction=[0, 0, 1, 1] * 5,
        offset=[n * 10 for n in range(20)],
        flags=[0] * 16 + [2] * 4,
    )
    found = rows.last_at(0, 0, 85)
    assert found is not None
    assert (found.number, found.offset) == (9, 80)
    late = rows.last_at(0, 0, 1000)  # message 17 came out of TLS: its offset counts something else
    assert late is not None
    assert late.number == 13
    assert rows.last_at(1, 1, 20) is None
    assert rows.last_at(2, 0, 1000) is None
    assert rows.first_numbers() == {0: 1, 1: 2}
    assert rows.where(lambda n: n == 190, "offset").tolist() == [19]
