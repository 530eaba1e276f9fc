"""The tour: its stops lie where the capture's own comments say, and it misses no kind of message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissector.catalogue.tour import TOUR
from dissector.catalogue.tour_situations import SITUATIONS
from dissector.export import write_export
from dissector.report import closing_words
from dissector.spec import Dialect
from dissector.tour import CAPTURE, TourStop, stops, text_of
from dissector.view import open_capture
from dissector.workbench import dissect_input

TRUTH = json.loads((Path(CAPTURE).with_name("tour.json")).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tour() -> list[TourStop]:
    with open_capture([str(CAPTURE)]) as capture:
        return list(stops(capture.read()))


def test_stops_are_in_order_and_each_says_both_things(tour: list[TourStop]) -> None:
    assert [s.number for s in tour] == sorted({s.number for s in tour})
    assert len({s.title for s in tour}) == len(tour)
    for stop in tour:
        assert stop.happened.endswith(".") and stop.look.endswith("."), stop.title


def test_every_message_of_pgoutput_is_a_stop(tour: list[TourStop]) -> None:
    kinds = {stop.title.partition(",")[0] for stop in tour}
    assert kinds >= set(TRUTH["messages"]) - {"in a stream"}


def test_the_comments_of_the_capture_stand_at_their_stops(tour: list[TourStop]) -> None:
    """The recorder wrote a comment at the first message of each kind."""
    told = [stop for stop in tour if stop.comment]
    assert len(told) > 20
    for stop in told:
        if stop.title.startswith(("Primary", "Standby", "Hot", "Query")):
            continue
        assert stop.comment.startswith(stop.title.partition(",")[0]), stop


def test_comments_that_a_slice_does_not_hold_are_told(tour: list[TourStop], tmp_path: Path) -> None:
    with open_capture([str(CAPTURE)]) as capture:
        capture.read()
        comments = capture.files.comments
        every = range(1, capture.count + 1)
        bare = next(n for n in every if not comments.keys() & set(capture.message(n).frames))
        one = next(stop.number for stop in tour if stop.comment)
        frames = {frame for n in every for frame in capture.message(n).frames}
        whole = sum(len(texts) for frame, texts in comments.items() if frame in frames)
        for numbers, count in ((None, whole), ([one], 1), ([bare], 0)):
            write_export(capture, "pcap", str(tmp_path / "o.pcap"), numbers)
            words = [w for w in closing_words(capture) if "does not hold" in w]
            assert [f"not hold: {count};" in w for w in words] == [True] * bool(count)


def test_situations_that_the_capture_shows(tour: list[TourStop]) -> None:
    titles = {stop.title for stop in tour}
    # what the server's own list of the capture counts: Kn and Kt (old keys), On and Ot (old rows),
    # Nn (NULL), Nu (unchanged); changes in a stream; two tables in one Truncate
    assert TRUTH["tuples"]["Nu"] and TRUTH["tuples"]["On"] and TRUTH["messages"]["in a stream"]
    assert titles >= {
        "Update, with the old key",
        "Update, with the old row",
        "Update, with an unchanged value",
        "Insert, with NULL",
        "Insert, in a stream",
        "Truncate, of several tables",
        "Message, not transactional",
        "Stream Start, not the first",
        "Stream Abort, of a subtransaction",
        "Relation, replica identity full",
        "Query, START_REPLICATION",
    }


def test_every_situation_belongs_to_a_message_with_a_text() -> None:
    for title in SITUATIONS:
        assert title.partition(",")[0] in TOUR, title


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (
            "55000040114b00037400000001316e6e4e000374000000013274000000017975",
            "Update, with the old key",
        ),
        ("55000040114e000374000000013174000000017975", "Update, with an unchanged value"),
        ("49000040284e00016e", "Insert, with NULL"),
        ("410000031f0000031f", "Stream Abort"),
        ("410000031f00000320", "Stream Abort, of a subtransaction"),
        ("4d00000000000196349870667800000000026869", "Message, not transactional"),
        ("45", "Stream Stop"),
    ],
)
def test_a_text_for_a_message_of_the_workbench(data: str, title: str) -> None:
    (found,) = dissect_input(data, "pgoutput", Dialect(copy="pgoutput", proto_version=4))
    stop = text_of(found)
    assert stop is not None and stop.title == title


def test_nothing_is_told_about_what_is_not_known() -> None:
    (found,) = dissect_input("7a00", "pgoutput", Dialect(copy="pgoutput"))
    assert text_of(found) is None
