"""Finding in the list: what is looked through are the words that the lines show, line by line."""

from __future__ import annotations

import itertools
import os
import pkgutil
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import transforms
import tui_fake

from dissector.errors import CaptureError
from dissector.holding import holder
from dissector.query import compile
from dissector.text import visible
from dissector.view import open_capture
from tui.finding import Wanted, list_steps
from tui.jobs import Job, Step
from tui.source import CaptureSource

NAMES = [
    "tour.pcapng", "pg12-latin1.pcap", "conversation/query-extended.pcap", "conversation/copy.pcap",
    "conversation/subscription-16-18.pcap", "conversation/tls12-replication.pcapng",
]  # fmt: skip


def shown(source, number: int) -> tuple[str, str, str]:
    """What the line of a message shows, asked of it alone."""
    row = source.row(number)
    return source.summary_of(number), visible(" ".join(row.path)), visible(row.relation or "")


@pytest.fixture(params=NAMES, scope="module")
def source(request: pytest.FixtureRequest):
    with open_capture([str(transforms.CAPTURES / request.param)]) as capture:
        capture.read()
        yield CaptureSource(capture)


class View:
    """The lines of a list, as the search sees them."""

    def __init__(self, source, numbers: list[int]) -> None:
        self.source, self.numbers = source, np.array(numbers, np.int64)
        self.line_count = len(numbers)

    def numbers_at(self, lines):
        return self.numbers[lines]


def test_what_is_looked_through_is_what_the_lines_show(source) -> None:
    numbers = list(range(1, source.count + 1))
    random.Random(3).shuffle(numbers)
    for some in (numbers, sorted(numbers), numbers[:1]):
        found = list(zip(*source.said(np.array(some, np.int64)), strict=True))
        assert found == [shown(source, number) for number in some]


def test_as_much_is_found_while_the_capture_is_read() -> None:
    with open_capture([str(transforms.CAPTURES / "tour.pcapng")]) as capture:
        reading = iter(capture.batches())
        next(reading)
        source = CaptureSource(capture)
        assert not capture.index.complete
        numbers = np.arange(1, capture.count + 1)
        found = list(zip(*source.said(numbers), strict=True))
        assert found == [shown(source, number) for number in numbers.tolist()]


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("most", [3, 1 << 14])
def test_every_line_that_has_it_is_found_in_turn(source, step, most, monkeypatch) -> None:
    monkeypatch.setattr("tui.finding.EVERY", 2)
    monkeypatch.setattr("tui.finding.MOST", most)
    numbers = list(range(1, source.count + 1, 2))
    random.Random(4).shuffle(numbers)
    view = View(source, numbers)
    has = ["on" in " ".join(shown(source, n)).lower() for n in numbers]
    assert any(has)
    line = 0
    for _ in range(min(2 * sum(has), 20)):
        *before, last = list_steps(view, Wanted("on", "text"), line, step)
        assert not any(len(each.numbers) for each in before)
        assert (last.done, last.total) != (0, 0)
        assert last.done >= max((each.done for each in before), default=0)
        distance = next(
            d for d in range(1, len(numbers) + 1) if has[(line + step * d) % len(numbers)]
        )
        line = (line + step * distance) % len(numbers)
        assert (last.numbers.tolist(), last.done) == ([numbers[line]], distance)


@pytest.mark.parametrize(("text", "mode"), [("nowhere\tat all", "text"), ("^no.*where$", "regex")])
def test_what_is_nowhere_is_looked_for_in_all(source, text, mode) -> None:
    view = View(source, list(range(1, source.count + 1)))
    *_, last = list_steps(view, Wanted(text, mode), 0, 1)
    assert (len(last.numbers), last.done, last.total) == (0, source.count, source.count)


@pytest.mark.parametrize("slow", ["summary", "relation"])
def test_a_slow_pattern_can_be_given_up_after_each_text(slow, monkeypatch) -> None:
    """A thousand texts of a twentieth of a second each: who gave up does not wait for all."""
    monkeypatch.setattr("tui.finding.monotonic", itertools.count().__next__)
    asked: list[str] = []
    wanted = Wanted("x", "regex")
    monkeypatch.setattr(wanted, "within", lambda text: asked.append(text) and False)
    texts = [f"text {i}" for i in range(200)]
    same = ["same"] * 200
    said = (texts, same, same) if slow == "summary" else (same, same, texts)
    view = SimpleNamespace(
        line_count=200, source=SimpleNamespace(said=lambda _: said), numbers_at=lambda lines: lines
    )
    steps = list_steps(view, wanted, 0, 1)
    next(steps)
    next(steps)
    assert len(asked) < 5


@pytest.mark.parametrize(
    ("expression", "called"),
    [
        ('value ~ "[xyz]{40}"', "dissector.query.values.Pattern.__call__"),
        ('value ~ "[xyz]{40}"', "dissector.view.annotate"),
        ('value contains "nowhere"', "dissector.holding.read_messages"),
        ('value contains "a"', "dissector.holding.bisect_right"),
        ("value == 5", "dissector.holding._is_a_value"),
        ('relation ~ "[xyz]{40}"', "dissector.query.values.Pattern.__call__"),
        ("", "dissector.view.annotate"),
    ],
)
def test_a_search_that_is_given_up_ends_before_its_next_step(expression, called, monkeypatch):
    """Whatever it is about: opening messages, their bytes, or patterns. "": it looks through the lines."""
    monkeypatch.setattr("dissector.holding.AT_ONCE", 64)
    given_up: list[bool] = []
    asked: list[int] = []
    place, _, name = called.rpartition(".")
    owner = pkgutil.resolve_name(place)
    real = getattr(owner, name)

    def slow(*given, **more):
        asked.append(len(given_up))
        if len(asked) == 2:
            given_up.append(True)
            job.cancel()
        return real(*given, **more)

    path = transforms.CAPTURES / "conversation" / "tls12-replication.pcapng"
    if expression:
        path = transforms.CAPTURES / "pg18-proto4.pcap"
    with open_capture([str(path)]) as capture:
        capture.read()

        def steps():
            if not expression:
                view = View(CaptureSource(capture), list(range(1, capture.count + 1)))
                yield from list_steps(view, Wanted("nowhere", "text"), 0, 1)
                return
            chosen = compile(expression)
            found = chosen.search(capture.index, capture.message, holding=holder(capture))
            yield from (Step(each.rows, each.done, each.total) for each in found)

        monkeypatch.setattr(owner, name, slow)
        job = Job(steps)
        job.start().wait(60)
        assert not job._given
        assert not job.running
        assert job.failed == ""
    assert asked == [0, 0]


def test_nothing_is_found_where_nothing_is() -> None:
    assert list(list_steps(View(tui_fake.small(), []), Wanted("a", "text"), 0, 1)) == []


def test_a_capture_that_became_shorter_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    shutil.copy(transforms.CAPTURES / "pg18-proto4.pcap", path)
    with open_capture([str(path)]) as capture:
        capture.read()
        os.truncate(path, 200)
        view = View(CaptureSource(capture), list(range(1, capture.count + 1)))
        with pytest.raises(CaptureError, match="became shorter while it was read"):
            list(list_steps(view, Wanted("nowhere", "text"), 0, 1))
