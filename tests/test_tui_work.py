"""A working day: filter, find, follow, jump, sort, mark, and back; on the shipped captures."""

from __future__ import annotations

import itertools
import json
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import tui_fake
from test_tui import opened, picture, press
from test_tui_hostile import unsafe

from dissector.columns import column_values
from dissector.fed import FedCapture
from dissector.view import open_capture
from tui.app import DissectApp
from tui.filter_bar import Completions, FilterBar
from tui.find_bar import FindBar
from tui.finding import Wanted, list_steps
from tui.following import keys_of, row_steps
from tui.jobs import Job
from tui.jumping import NowhereError, target
from tui.marks import Marks
from tui.present import MARK
from tui.settings import Settings
from tui.source import CaptureSource

CAPTURES = Path(__file__).parent.parent / "captures"
TOUR = CAPTURES / "tour.pcapng"


@pytest.fixture(scope="module")
def capture():
    with open_capture([str(TOUR)]) as found:
        yield found.read()


@pytest.fixture
def source(capture):
    return CaptureSource(capture)


def written(text: str) -> list[str]:
    """Keys that type `text`."""
    names = {" ": "space", "=": "equals_sign", '"': "quotation_mark", ".": "full_stop",
             "_": "underscore", "/": "slash", "@": "at", "-": "minus", "+": "plus"}  # fmt: skip
    return [names.get(char, char) for char in text]


async def settle(pilot, screen):
    """Wait for searches."""
    for _ in range(200):
        await pilot.pause(0.02)
        if not screen.narrowing.running and screen._find_job is None:
            break
    screen.tick()
    await pilot.pause()


def names(capture, wanted: str) -> list[int]:
    return [n for n in range(1, capture.count + 1) if capture.message(n).path[-1] == wanted]


def shown(screen) -> list[int]:
    return [screen.messages.number_at(line) for line in range(screen.messages.line_count)]


async def typed(pilot, line, text):
    """As if `text` had been typed into `line`, at once."""
    line.value = text
    line.cursor_position = len(text)
    await pilot.pause()


async def apply(pilot, screen, text):
    await press(pilot, "slash")
    await typed(pilot, screen.filter_bar.line, text)
    await press(pilot, "enter")
    await settle(pilot, screen)


# The filter.


async def test_a_filter_shows_what_passes_and_clearing_it_returns_to_the_message(capture, source):
    inserts = names(capture, "Insert")
    async with opened(source) as (pilot, screen):
        await apply(pilot, screen, "message == Insert")
        assert shown(screen) == inserts
        text = "\n".join(picture(pilot.app))
        assert "message == Insert" in text
        assert f"{len(inserts)} of {capture.count}" in text
        await press(pilot, "down", "down")
        number = screen.messages.number
        assert number == inserts[2]
        await press(pilot, "u")
        assert screen.messages.line_count == capture.count
        assert screen.messages.number == number
        await press(pilot, "backspace")
        assert shown(screen) == inserts
        await press(pilot, "backspace")
        assert screen.messages.line_count == capture.count
        assert screen.messages.number == 1


async def test_a_filter_that_looks_into_fields(capture, source):
    wanted = []
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        if any(each.typed.text and "Ann" in each.typed.text and each.state == "text"
               for each in column_values(view.tree, view.schema)):  # fmt: skip
            wanted.append(number)
    async with opened(source) as (pilot, screen):
        await apply(pilot, screen, 'value contains "Ann"')
        assert shown(screen) == wanted


async def test_an_error_points_at_its_place_and_names_the_nearest(source):
    async with opened(source) as (pilot, screen):
        await press(pilot, "slash")
        await typed(pilot, screen.filter_bar.line, "xid == 5 and relatio == 3")
        await press(pilot, "enter")
        lines = picture(pilot.app)
        row = next(i for i, line in enumerate(lines) if "relatio ==" in line)
        assert lines[row + 1].index("^") == lines[row].index("relatio")
        assert "did you mean relation?" in lines[row + 1]
        assert screen.query_one(FilterBar).line.has_focus
        assert screen.query_one(FilterBar).line.has_class("-bad")
        await press(pilot, "escape", "escape")
        assert screen.focused is screen.messages
        assert screen.messages.line_count == source.count


async def test_completion_while_typing(capture, source):
    async with opened(source) as (pilot, screen):
        await press(pilot, "slash", *written("mess"))
        offers = screen.query_one(Completions)
        assert offers.display
        await press(pilot, "tab")
        bar = screen.query_one(FilterBar)
        await typed(pilot, bar.line, bar.line.value + "== Ins")
        await press(pilot, "tab")
        assert bar.line.value.split() == ["message", "==", "Insert"]
        assert bar.line.has_class("-good")
        await press(pilot, "enter")
        await settle(pilot, screen)
        assert not offers.display
        assert shown(screen) == names(capture, "Insert")


async def test_a_click_takes_a_completion(source):
    async with opened(source) as (pilot, screen):
        await press(pilot, "slash", *written("sev"))
        lines = picture(pilot.app)
        row = next(y for y, line in enumerate(lines) if "severity" in line and "column" in line)
        await pilot.click(offset=(lines[row].index("severity"), row))
        await pilot.pause()
        assert screen.query_one(FilterBar).line.value.strip() == "severity"


async def test_history_is_offered_and_kept(source, tmp_path):
    settings = Settings.load(tmp_path / "settings.json")
    app = DissectApp(source, "x", settings)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await apply(pilot, app.screen, "message == Begin")
        await apply(pilot, app.screen, "")  # the bar begins with the active filter: no change
        await press(pilot, "u", "slash")
        assert "message == Begin" in "\n".join(picture(app))
        await press(pilot, "tab", "enter")
        await settle(pilot, app.screen)
        assert app.screen.narrowing.now.expression == "message == Begin"
        app.screen.action_widen(-8)
        app.theme = "nord"
        await pilot.pause()
    settings.save()
    again = Settings.load(tmp_path / "settings.json")
    assert again.filters == ["message == Begin"]
    assert again.theme == "nord"
    assert again.hex_width == settings.hex_width > 0


def test_settings_that_are_broken_count_as_none(tmp_path):
    path = tmp_path / "settings.json"
    for text in ("", "[1]", '{"list_lines": "x", "filters": [1, "a"], "theme": true}'):
        path.write_text(text)
        found = Settings.load(path)
        assert (found.list_lines, found.theme) == (0, "")
        assert found.filters in ([], ["a"])
    (tmp_path / "file").write_text("")
    kept = Settings.load(tmp_path / "file" / "settings.json")
    kept.save()
    assert "not kept" in kept.problem


async def test_no_match_is_told_and_one_can_go_back(source):
    async with opened(source) as (pilot, screen):
        await press(pilot, "down", "down")
        await apply(pilot, screen, "xid == 4000000000")
        text = "\n".join(picture(pilot.app))
        assert "No message matches" in text
        assert f"0 of {source.count}" in text
        await press(pilot, "n", "enter", "t", "tab", "right")
        assert pilot.app.is_running
        await press(pilot, "u")
        assert screen.messages.number == 3
        assert "message 3 of" in "\n".join(picture(pilot.app))


async def test_a_long_search_shows_progress_and_escape_ends_it(capture, source):
    def slow(number):
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)
        return type(capture).message(capture, number)

    source.capture.message = slow
    try:
        async with opened(source) as (pilot, screen):
            await press(pilot, "slash")
            await typed(pilot, screen.filter_bar.line, 'value contains "e"')
            await press(pilot, "enter")
            for _ in range(100):
                await pilot.pause(0.02)
                if "searching" in "\n".join(picture(pilot.app)):
                    break
            assert "Esc stops" in "\n".join(picture(pilot.app))
            await press(pilot, "escape")
            assert not screen.narrowing.running
            before = screen.messages.line_count
            await pilot.pause(0.3)
            assert screen.messages.line_count == before < capture.count
            text = "\n".join(picture(pilot.app))
            assert "searching" not in text
            assert f"of {source.count} before the search was stopped" in text
    finally:
        del source.capture.message


async def test_a_search_that_was_stopped_does_not_say_that_nothing_matches(source, monkeypatch):
    """What it had not looked at yet may match, as it does here."""
    async with opened(source) as (pilot, screen):
        monkeypatch.setattr(screen.narrowing, "_take", lambda: False)  # nothing has come yet
        await press(pilot, "slash")
        await typed(pilot, screen.filter_bar.line, 'value contains "e"')
        await press(pilot, "enter")
        assert screen.narrowing.running
        await press(pilot, "escape")
        text = "\n".join(picture(pilot.app))
        assert "No message was found before the search was stopped" in text
        assert "No message matches" not in text


# The list.


async def test_sorting_by_a_click_and_by_keys(capture, source):
    rows = [capture.row(n) for n in range(1, capture.count + 1)]
    async with opened(source, (140, 40)) as (pilot, screen):
        header = next(y for y, line in enumerate(picture(pilot.app)) if "Summary" in line)
        place = picture(pilot.app)[header].index("Message")
        await pilot.click(offset=(place, header))
        await pilot.pause()
        order = shown(screen)
        texts = [capture.path(rows[n - 1])[-1] for n in order]
        assert texts == sorted(texts)
        for a, b in itertools.pairwise(order):  # ties as in the capture
            assert texts[order.index(a)] != texts[order.index(b)] or a < b
        assert "Message▲" in picture(pilot.app)[header]
        await press(pilot, "S")
        texts = [capture.path(rows[n - 1])[-1] for n in shown(screen)]
        assert texts == sorted(texts, reverse=True)
        assert "Message▼" in picture(pilot.app)[header]
        await press(pilot, "s")
        xids = [rows[n - 1].lsn for n in shown(screen)]
        known = [x for x in xids if x != 2**64 - 1]
        assert known == sorted(known)
        assert xids[: len(known)] == known  # those without an LSN come last
        screen.sort("", False)
        assert shown(screen) == list(range(1, capture.count + 1))
        await press(pilot, "S")
        assert shown(screen) == list(range(capture.count, 0, -1))
        await press(pilot, "S")
        assert shown(screen) == list(range(1, capture.count + 1))
        await press(pilot, "s")
        assert screen.messages.sorted == ("time", False)
        await press(pilot, "s")
        assert screen.messages.sorted == ("stream", False)


async def test_the_cursor_stays_on_its_message_when_sorted(source):
    async with opened(source) as (pilot, screen):
        screen.messages.go_to(100)
        await pilot.pause()
        for column in ("time", "stream", "relation", "severity", "length", "number"):
            screen.sort(column, True)
            await pilot.pause()
            assert screen.messages.number == 100
            assert sorted(shown(screen)) == list(range(1, source.count + 1))


async def test_ten_million_rows_scroll_sort_and_filter_like_ten(capture):
    from dissector.index import Index
    from dissector.rows import COLUMNS

    many = 10_000_000
    index = Index()
    index.tables = capture.index.tables
    index.connections = capture.index.connections
    index.complete = True
    columns = {
        name: np.tile(capture.index.rows.column(name), many // capture.count + 1)[:many]
        for name, _ in COLUMNS
    }
    columns["time"] = np.arange(many, dtype=np.int64) * 1000
    index.rows.extend(columns)

    class Huge:
        options = capture.options
        index_of = staticmethod(lambda number: (number - 1) % capture.count + 1)
        relation = staticmethod(capture.relation)
        path = staticmethod(capture.path)
        busy = False

        def __init__(self):
            self.index = index
            self.count = many

        def row(self, number):
            return index.rows.row(number)

        def message(self, number):
            return capture.message(self.index_of(number))

    async with opened(CaptureSource(Huge())) as (pilot, screen):
        assert "of 10,000,000" in picture(pilot.app)[0]
        await press(pilot, "end")
        assert screen.messages.number == many
        assert "9999999" in "\n".join(picture(pilot.app))
        await press(pilot, "pageup", "up", "up")
        assert many - 60 < screen.messages.number < many
        screen.messages.go_to(5_000_000)
        await pilot.pause()
        screen.narrowing.show_filter("message == Insert and stream == 0")
        await settle(pilot, screen)
        inserts = len([n for n in names(capture, "Insert") if capture.row(n).stream == 0])
        assert abs(screen.messages.line_count - inserts * many // capture.count) < 2 * inserts


# Leaps.


@pytest.mark.parametrize(
    ("text", "number"),
    [("17", 17), ("+3", 13), ("-4", 6), ("-50", 1), ("100%", None), ("#5", 5), ("1,0", 10)],
)
def test_jumps_by_number(source, text, number):
    assert target(text, source, 10) == (number or source.count)


def test_jumps_by_what_messages_hold(capture, source):
    rows = [capture.row(n) for n in range(1, capture.count + 1)]
    row = rows[150]
    first = next(r.number for r in rows if r.frame >= row.frame)
    assert target(f"frame {row.frame}", source, 1) == first
    with_lsn = next(r for r in rows if r.lsn != 2**64 - 1 and r.number > 60)
    text = f"{with_lsn.lsn >> 32:X}/{with_lsn.lsn & 0xFFFFFFFF:X}"
    assert rows[target(text, source, 1) - 1].lsn == with_lsn.lsn
    later = min(r.lsn for r in rows if r.lsn != 2**64 - 1 and r.lsn > with_lsn.lsn)
    after = f"{with_lsn.lsn >> 32:X}/{(with_lsn.lsn & 0xFFFFFFFF) + 1:X}"
    assert rows[target(after, source, 1) - 1].lsn == later
    xid = next(r.xid for r in rows if r.xid)
    of_it = [r.number for r in rows if r.xid == xid]
    assert target(f"xid {xid}", source, 1) == of_it[0]
    assert target(f"xid {xid}", source, of_it[0]) == of_it[1]
    assert target(f"xid {xid}", source, of_it[-1]) == of_it[0]
    from datetime import UTC, datetime

    when = datetime.fromtimestamp(row.time // 10**9, UTC)
    clock = f"{when:%H:%M:%S}.{row.time % 10**9:09d}"
    at = target(clock, source, 1)
    assert rows[at - 1].time >= row.time > (rows[at - 2].time if at > 1 else 0)
    assert target(f"{when:%Y-%m-%d} {clock}", source, 1) == at


@pytest.mark.parametrize(
    "text", ["", "0", "99999", "frame 999999", "FFFFFFFF/FFFFFFF0", "xid 1", "nowhere", "25:00:00",
             "2026-13-01 10:00", "stream 77"],
)  # fmt: skip
def test_jumps_to_nowhere_say_so(source, text):
    with pytest.raises(NowhereError):
        target(text, source, 1)


async def test_the_jump_dialog_and_back(source):
    async with opened(source) as (pilot, screen):
        await press(pilot, "colon", *written("120"), "enter")
        assert screen.messages.number == 120
        await press(pilot, "colon", *written("nowhere"), "enter")
        assert screen.messages.number == 120
        await press(pilot, "backspace")
        assert screen.messages.number == 1
        await press(pilot, "backspace")
        assert pilot.app.is_running


async def follow(pilot, screen, what: str):
    await press(pilot, "f")
    texts = pilot.app.screen._texts
    place = next(i for i, text in enumerate(texts) if what in text)
    await press(pilot, str(place + 1))
    await settle(pilot, screen)


async def test_following_a_stream_a_transaction_and_a_relation(capture, source):
    rows = [capture.row(n) for n in range(1, capture.count + 1)]
    start = names(capture, "Update")[0]
    row = rows[start - 1]
    async with opened(source) as (pilot, screen):
        screen.messages.go_to(start)
        await pilot.pause()
        await follow(pilot, screen, "Transaction")
        assert shown(screen) == [
            r.number for r in rows if r.xid == row.xid and r.stream == row.stream
        ]
        assert screen.messages.number == start
        await follow(pilot, screen, "Relation")
        relation = capture.relation(row)
        wanted = [r.number for r in rows
                  if (name := capture.relation(r)) == relation
                  or (isinstance(name, list) and relation in name)]  # fmt: skip
        assert shown(screen) == wanted
        await press(pilot, "backspace")
        assert all(rows[n - 1].xid == row.xid for n in shown(screen))
        await press(pilot, "backspace")
        assert screen.messages.line_count == capture.count
        assert screen.messages.number == start
        await follow(pilot, screen, "both directions")
        assert shown(screen) == [r.number for r in rows if r.stream == row.stream]


async def test_following_a_stream_as_bytes(capture, source):
    async with opened(source) as (pilot, screen):
        screen.messages.go_to(40)
        await pilot.pause()
        await follow(pilot, screen, "as bytes")
        text = "\n".join(picture(pilot.app))
        assert "as bytes" in text
        first = " ".join(f"{byte:02x}" for byte in capture.message(40).data[:5])
        assert first in text
        await press(pilot, "n", "n")
        await press(pilot, "enter")
        assert pilot.app.screen is screen
        stream = [n for n in range(1, capture.count + 1)
                  if capture.row(n).stream == capture.row(40).stream]  # fmt: skip
        assert screen.messages.number == stream[stream.index(40) + 2]


def test_one_row_is_followed_through_all_its_changes(capture):
    """Against a walk through the whole capture that keeps every row by its key."""
    histories: dict[tuple, list[int]] = {}
    by_number: dict[int, list[int]] = {}
    for number in range(1, capture.count + 1):
        view = capture.message(number)
        if view.path[-1] not in ("Insert", "Update", "Delete"):
            continue
        old, new = keys_of(view)
        if old is None and new is None:
            continue
        name = view.schema.full_name
        before = histories.get((name, old)) if old is not None else None
        history = before if before is not None else histories.get((name, new), [])
        history.append(number)
        if old is not None and old != new:
            histories.pop((name, old), None)
        histories[name, new if new is not None else old] = history
        by_number[number] = history
    longest = max(by_number.values(), key=len)
    assert len(longest) > 2
    for number in (longest[0], longest[len(longest) // 2], longest[-1]):
        found: list[int] = []
        for step in row_steps(capture, number):
            numbers = step.numbers.tolist()
            found = numbers + found if step.before else found + numbers
        assert sorted(found) == longest
        assert found == sorted(found)


# Finding.


async def find(pilot, screen, text, *keys):
    await press(pilot, "ctrl+f", *keys)
    await typed(pilot, screen.find_bar.line, text)
    await press(pilot, "enter")


async def test_finding_in_the_list_goes_around(capture, source):
    wanted = [n for n in range(1, capture.count + 1) if "truncate" in source.row(n).summary.lower()
              or source.row(n).path[-1] == "Truncate"]  # fmt: skip
    assert wanted
    async with opened(source) as (pilot, screen):
        await find(pilot, screen, "truncate")
        await settle(pilot, screen)
        assert screen.messages.number == wanted[0]
        for expected in [*wanted[1:], wanted[0]]:
            await press(pilot, "enter")
            await settle(pilot, screen)
            assert screen.messages.number == expected
        await press(pilot, "escape")
        assert screen.focused is screen.messages
        await press(pilot, "P")
        await settle(pilot, screen)
        assert screen.messages.number == wanted[-1]


async def test_other_lines_may_be_shown_while_something_is_looked_for(capture, source):
    last = names(capture, "Truncate")[-1]
    async with opened(source) as (pilot, screen):
        await press(pilot, "ctrl+f")
        for narrowed in (False, True):
            screen.messages.show_numbers(range(1, last + 1))
            lines = screen.messages.still()
            screen.messages.show_numbers([1, 2] if narrowed else range(1, last + 3))
            steps = list(list_steps(lines, Wanted("truncate", "text"), last, -1))
            assert steps[-1].numbers.tolist() == [last]
            screen._find_job = Job(steps.__iter__).start()
            await settle(pilot, screen)
            text = "\n".join(picture(pilot.app))
            assert (f"message {last:,} has it, but is not shown now" in text) == narrowed
            assert screen.messages.number == (2 if narrowed else last)


async def test_what_is_not_there_is_told(source):
    async with opened(source) as (pilot, screen):
        await find(pilot, screen, "zebrafinch")
        await settle(pilot, screen)
        assert screen.messages.number == 1
        assert "not in these messages" in "\n".join(picture(pilot.app))
        await press(pilot, "escape")
        assert "not in these messages" not in "\n".join(picture(pilot.app))
        await press(pilot, "N")
        await settle(pilot, screen)
        assert "not in these messages" in [each.message for each in pilot.app._notifications]
        await press(pilot, "ctrl+f", "ctrl+t", *written("["), "enter")
        assert "cannot be used" in "\n".join(picture(pilot.app))


async def test_finding_in_the_tree_and_in_the_bytes(capture, source):
    number = names(capture, "Begin")[0]
    async with opened(source) as (pilot, screen):
        screen.messages.go_to(number)
        await press(pilot, "tab")
        await find(pilot, screen, "xid")
        assert screen.fields.node.name == "xid"
        at = screen.octets.marked
        await press(pilot, "escape", "tab", "home")
        await find(pilot, screen, "42", "ctrl+t")
        data = capture.message(number).data
        assert screen.octets.at == data.index(b"\x42", 1)
        assert screen.query_one(FindBar).mode == "hex"
        raw = data[at[0] : at[1]].hex(" ")
        screen.query_one(FindBar).line.value = raw
        await press(pilot, "enter")
        assert screen.octets.at == data.index(data[at[0] : at[1]])
        assert screen.fields.node.name == "xid"
        screen.query_one(FindBar).line.value = "0"
        await press(pilot, "enter")
        assert "pairs of hex digits" in "\n".join(picture(pilot.app))


@pytest.mark.parametrize("pane", ["tree", "hex", "filter"])
async def test_escape_is_heard_while_something_slow_is_looked_for(pane, source, monkeypatch):
    goes_on = threading.Event()

    def slow(*_):
        goes_on.wait(20)

    monkeypatch.setattr("tui.finding.Wanted.within", slow)
    monkeypatch.setattr("tui.finding.Wanted.in_bytes", slow)
    monkeypatch.setattr("dissector.query.values.Pattern.__call__", slow)
    async with opened(source) as (pilot, screen):
        if pane == "filter":
            screen.apply_filter('relation ~ "c"')
            assert screen.narrowing.running
            await press(pilot, "escape")
            assert not screen.narrowing.running
            goes_on.set()
            return
        await press(pilot, *{"tree": ["tab"], "hex": ["tab", "tab"]}[pane])
        await find(pilot, screen, "a")
        assert screen.at_work
        await press(pilot, "escape")
        assert not screen.at_work
        assert "stopped" in "\n".join(picture(pilot.app))
        goes_on.set()
        await press(pilot, "escape")
        assert screen.focused.id == pane


# Marks.


async def test_marks_and_notes_are_kept_beside_the_capture(source, tmp_path):
    path = tmp_path / "tour.pcapng"
    marks = Marks(str(path))
    app = DissectApp(source, "x", None, marks)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await press(pilot, "down", "m", "down", "down", "M", *written("look here"), "enter")
        text = "\n".join(picture(app))
        assert text.count(MARK) >= 3  # two in the list, one in the status
        assert "look here" in picture(app)[0]
        await press(pilot, "apostrophe")
        assert app.screen.messages.number == 2
        await press(pilot, "quotation_mark")
        assert shown(app.screen) == [2, 4]
        await press(pilot, "backspace")
        assert app.screen.messages.line_count == source.count
    kept = json.loads((tmp_path / "tour.pcapng.marks.json").read_text())
    frames = [source.row(n).frame for n in (2, 4)]
    assert kept["marks"] == [
        {"number": 2, "frame": frames[0], "note": ""},
        {"number": 4, "frame": frames[1], "note": "look here"},
    ]
    again = Marks(str(path))
    assert again.notes == {2: "", 4: "look here"}
    again.set(2, frames[0], None)
    assert Marks(str(path)).numbers == [4]


def test_a_folder_that_cannot_be_written_keeps_marks_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("tui.marks.os.access", lambda path, mode: False)
    marks = Marks(str(tmp_path / "a.pcap"))
    marks.set(3, 9, "note")
    assert marks.kept.parent == tmp_path / "data" / "pgdissect"
    assert Marks(str(tmp_path / "a.pcap")).notes == {3: "note"}
    assert not (tmp_path / "a.pcap.marks.json").exists()


def test_marks_that_are_not_understood_are_left_alone(tmp_path):
    file = tmp_path / "a.pcap.marks.json"
    for text in ("{", '{"marks": 5}', '{"marks": [{"number": "x"}]}', "[]"):
        file.write_text(text)
        marks = Marks(str(tmp_path / "a.pcap"))
        assert "not understood" in marks.told
        marks.set(1, 1, "")
        assert file.read_text() == text


# Below PostgreSQL.


async def test_the_layers_below_are_in_the_tree(capture, source):
    view = capture.message(20)
    frame = capture.frame(view.extents[0].record)
    async with opened(source, (120, 60)) as (pilot, screen):
        screen.messages.go_to(20)
        await press(pilot, "tab", "home")
        assert screen.fields.node.name == f"Frame {view.extents[-1].frame}"
        await press(pilot, "right")
        for _ in range(400):
            await pilot.pause(0.02)
            if screen.octets.below:
                break
        assert screen.octets.below == frame.data
        text = "\n".join(picture(pilot.app))
        assert "TCP" in text
        while screen.fields.node.name != "TCP":
            await press(pilot, "down")
        await press(pilot, "right", "right", "down")
        assert screen.fields.node.name == "dport"
        start, end = screen.octets.marked
        info = capture.connection(view.row.stream)
        goal = info.backend if view.direction == "F" else info.frontend
        port = int(goal.rpartition(":")[2])
        assert int.from_bytes(frame.data[start:end], "big") == port
        await press(pilot, "n")  # the next message: the same field of its frame
        for _ in range(100):
            await pilot.pause(0.02)
            if screen.fields.node.name == "dport":
                break
        assert screen.fields.node.name == "dport"
        await press(pilot, "end")
        assert screen.octets.below is None


async def test_secrets_are_masked_in_frames_too():
    with open_capture([str(CAPTURES / "conversation" / "login-cleartext.pcap")]) as found:
        found.read()
        number = names(found, "PasswordMessage")[0]
        secret = found.message(number).data[5:-1]
        from tui.below import read
        from tui.opened import Opened

        view = found.message(number)
        made = read(found, view, view.extents[0].record, lambda each: Opened(each).data)
        assert len(secret) > 3
        assert secret not in made.data
        assert b"*" * len(secret) in made.data
        assert secret in read(found, view, view.extents[0].record, None).data


# Growing.


@asynccontextmanager
async def fed(path, size=(120, 40)):
    with FedCapture([str(path)]) as capture:
        app = DissectApp(CaptureSource(capture), path.name)
        async with app.run_test(size=size) as pilot:
            for _ in range(400):
                await pilot.pause(0.02)
                if not capture.busy:
                    break
            await pilot.pause()
            yield pilot, app.screen, capture


async def test_rows_appear_while_the_index_grows(capture):
    async with fed(TOUR) as (pilot, screen, growing):
        assert screen.messages.line_count == capture.count == growing.count
        assert f"message 1 of {capture.count}" in picture(pilot.app)[0]
        await press(pilot, "end")
        assert screen.messages.number == capture.count


async def test_a_filter_takes_what_comes_later(capture):
    with FedCapture([str(TOUR)]) as growing:
        app = DissectApp(CaptureSource(growing), "x")
        app.begin_with("message == Insert", names(capture, "Insert")[3])
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(400):
                await pilot.pause(0.02)
                if not growing.busy:
                    break
            await settle(pilot, app.screen)
            assert shown(app.screen) == names(capture, "Insert")


async def test_a_failure_of_the_reading_process_is_shown():
    with FedCapture([str(TOUR)], follow=True) as growing:
        app = DissectApp(CaptureSource(growing), "x")
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(400):
                await pilot.pause(0.02)
                if growing.count:
                    break
            growing._process.kill()
            for _ in range(200):
                await pilot.pause(0.02)
                if not growing.busy:
                    break
            await pilot.pause()
            text = "\n".join(picture(pilot.app))
            assert "Reading ended early" in text
            await press(pilot, "escape", "home", "down")
            assert app.screen.messages.number == 2


async def test_escape_pauses_reading_and_a_key_goes_on(capture):
    with FedCapture([str(TOUR)], follow=True) as growing:
        app = DissectApp(CaptureSource(growing), "x")
        async with app.run_test(size=(120, 40)) as pilot:
            for _ in range(400):
                await pilot.pause(0.02)
                if growing.count > 1:
                    break
            assert "following" in "\n".join(picture(pilot.app))
            await press(pilot, "escape")
            await pilot.pause(0.1)
            assert "Ctrl+R goes on" in "\n".join(picture(pilot.app))
            await press(pilot, "ctrl+r")
            growing.finish()
            for _ in range(400):
                await pilot.pause(0.02)
                if not growing.busy:
                    break
            assert growing.count == capture.count


# Habits.


async def test_edges_can_be_dragged(source):
    async with opened(source) as (pilot, screen):
        before = screen.messages.outer_size.height
        edge = screen.fields.region
        await pilot.mouse_down(offset=(edge.x + 10, edge.y))
        await pilot.hover(offset=(edge.x + 10, edge.y + 3))
        await pilot.mouse_up(offset=(edge.x + 10, edge.y + 3))
        await pilot.pause()
        assert screen.messages.outer_size.height == before + 3
        assert screen.settings.list_lines == before + 3


async def test_commands_are_in_the_palette(source):
    from tui.actions import ACTIONS

    async with opened(source) as (pilot, screen):
        titles = {command.title for command in pilot.app.get_system_commands(screen)}
        assert {a.label for a in ACTIONS if a.where == "main"} <= titles


async def test_hostile_text_in_bars_dialogs_and_notes():
    evil = "\x1b]2;x\x07[red]\u202e"
    source = tui_fake.hostile()
    marks = Marks()
    app = DissectApp(source, "x", None, marks)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        marks.set(1, 1, evil)
        app.screen._marks_changed()
        app.screen.filter_bar.history = [evil, "xid == 1"]
        await press(pilot, "f")
        assert unsafe("".join(picture(app))) == []
        await press(pilot, "escape", "slash")
        assert unsafe("".join(picture(app))) == []
        app.screen.filter_bar.line.value = f'relation == "{evil}'
        await press(pilot, "enter")
        assert unsafe("".join(picture(app))) == []
        await press(pilot, "escape", "escape", "ctrl+f")
        app.screen.find_bar.line.value = evil
        await press(pilot, "enter")
        await settle(pilot, app.screen)
        assert unsafe("".join(picture(app))) == []
        assert app.is_running


async def test_summaries_of_large_messages_come_a_little_later(capture, source, monkeypatch):
    monkeypatch.setattr("tui.source.LARGE", 0)
    async with opened(CaptureSource(capture)) as (pilot, screen):
        for _ in range(200):
            await pilot.pause(0.02)
            if not screen.messages.source.late:
                break
        await pilot.pause(0.1)
        for number in (1, 2, 5):
            assert source.row(number).summary[:20] in "\n".join(picture(pilot.app))


async def test_keys_that_follow_quickly_are_for_the_bar(source):
    async with opened(source) as (pilot, screen):
        for key in ["slash", *"mmm"]:
            pilot.app.post_message(_key(key))
        await pilot.pause()
        await pilot.pause()
        assert screen.filter_bar.line.value == "mmm"
        assert len(screen.marks) == 0


def _key(name):
    from textual import events

    return events.Key(name, {"slash": "/"}.get(name, name))
