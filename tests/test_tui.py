"""User stories: keys and clicks, and what is on the screen then."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import tui_fake
from textual.widgets._footer import FooterKey

from tui.app import DissectApp
from tui.main_screen import MainScreen


def picture(app: DissectApp) -> list[str]:
    """The text of the screen, a string a line."""
    return [
        "".join(segment.text for segment in strip)
        for strip in app.screen._compositor.render_strips(app.size)
    ]


@asynccontextmanager
async def opened(source, size=(120, 40), title="tour.pcapng"):
    """The interface on `source`: (pilot, its main screen)."""
    app = DissectApp(source, title)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, MainScreen)
        yield pilot, screen


async def press(pilot, *keys):
    await pilot.press(*keys)
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (60, 20)])
async def test_the_first_screen_shows_messages_fields_bytes_and_the_field(size):
    async with opened(tui_fake.small(), size) as (pilot, _):
        text = "\n".join(picture(pilot.app))
        assert "message 1 of 8" in text
        assert "SELECT 1" in text
        assert "Query" in text
        assert "51 00 00 00" in text
        assert "offset 0" in text


async def test_where_one_stands_matters_more_than_the_folder():
    title = "/home/ann/captures/tour.pcapng"
    async with opened(tui_fake.small(), (120, 30), title) as (pilot, screen):
        screen.narrowing.show_numbers([2], "by hand")
        await pilot.pause()
        assert picture(pilot.app)[0].strip().startswith(f"{title}  ·  message 2 of 8")
        for width in (80, 120, 90):
            await pilot.resize_terminal(width, 30)
            await pilot.pause()
            line = picture(pilot.app)[0].strip()
            assert line.startswith(title if width == 120 else "tour.pcapng  ·")
            assert line.endswith("1 shown: by hand")


async def test_the_line_of_keys_is_made_anew_only_where_it_changes():
    async with opened(tui_fake.small()) as (pilot, screen):
        made = list(screen.query(FooterKey))
        assert any(key.description == "Filter" for key in made)
        for _ in range(4):  # around all panes
            await press(pilot, "tab")
            assert list(screen.query(FooterKey)) == made
        await press(pilot, "slash")  # letters are typed there: they are no keys of the viewer
        assert not any(key.description == "Quit" for key in screen.query(FooterKey))
        await press(pilot, "escape", "escape")
        again = [key.description for key in screen.query(FooterKey)]
        assert again == [key.description for key in made]


async def test_moving_in_the_list_opens_the_message():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "j", "down")
        assert screen.messages.number == 4
        assert screen.octets.marked == (30, 65)  # Insert, the message inside
        await press(pilot, "G")
        assert screen.messages.number == 8
        await press(pilot, "down")
        assert screen.messages.number == 8
        await press(pilot, "g", "up")
        assert screen.messages.number == 1


async def test_selecting_a_field_marks_its_bytes_and_tells_about_it():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "enter")
        assert screen.focused is screen.fields
        for _ in range(20):
            if screen.fields.node.name == "relation_oid":
                break
            await press(pilot, "down")
        assert screen.octets.marked == (31, 35)
        text = "\n".join(picture(pilot.app))
        assert "CopyData.XLogData.Insert.relation_oid" in text
        assert "format Int32 (Oid)" in text
        assert "position 3" in text


async def test_a_click_on_a_byte_selects_its_field():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down")
        lines = picture(pilot.app)
        row = next(y for y, line in enumerate(lines) if "0020  00 40 00 4e" in line)
        column = lines[row].index("00 40 00 4e") + 3
        await pilot.click(offset=(column, row))
        await pilot.pause()
        assert screen.octets.at == 0x21
        assert screen.fields.node.name == "relation_oid"
        assert screen.octets.marked == (31, 35)
        assert "CopyData.XLogData.Insert.relation_oid" in "\n".join(picture(pilot.app))


async def test_keys_in_the_bytes_select_fields():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab", "tab")
        assert screen.focused is screen.octets
        await press(pilot, "home")
        assert screen.fields.node.name == "tag"
        await press(pilot, "right")
        assert (screen.octets.at, screen.octets.marked) == (1, (1, 5))
        await press(pilot, "w")
        assert screen.octets.at == 5
        assert screen.octets.marked == (5, 6)
        await press(pilot, "b")
        assert screen.octets.marked == (1, 5)
        await press(pilot, "down")
        assert screen.octets.at == 17
        await press(pilot, "end")
        assert screen.octets.at == 64
        assert screen.fields.node.name == "value"


async def test_the_tree_stays_as_it_is_from_message_to_message():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab")
        while screen.fields.node.name != "columns":
            await press(pilot, "down")
        await press(pilot, "down", "right")  # columns[0] opened
        opened_lines = screen.fields.line_count
        path = screen.fields.path
        await press(pilot, "n")
        assert screen.messages.number == 5
        assert screen.fields.path == path
        assert screen.fields.node.index == 0
        assert screen.fields.line_count == opened_lines
        await press(pilot, "n", "n")  # keepalive has no such field; the next Insert has
        assert screen.fields.node.index == 0
        assert screen.fields.node.name == "columns"
        await press(pilot, "left", "left", "left")  # close it, up to columns, close that
        assert screen.fields.node.name == "columns"
        closed_lines = screen.fields.line_count
        assert closed_lines < opened_lines
        await press(pilot, "p", "p", "p")
        assert screen.messages.number == 4
        assert screen.fields.line_count == closed_lines


async def test_open_all_and_close_all():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab")
        before = screen.fields.line_count
        await press(pilot, "asterisk")
        assert screen.fields.line_count > before
        await press(pilot, "underscore")
        assert screen.fields.line_count < before
        assert "Insert" in "\n".join(picture(pilot.app))


async def test_a_broken_message_shows_its_finding_and_its_bytes():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, *["down"] * 6)
        text = "\n".join(picture(pilot.app))
        assert "message 7 of 8" in text
        assert "ERROR" in text
        await press(pilot, "tab", "asterisk", "end")
        assert screen.octets.marked[1] == 61
        while screen.fields.node.finding is None:
            await press(pilot, "up")
        assert "finding error: " in "\n".join(picture(pilot.app))


async def test_help_names_every_action_and_closes():
    from tui.actions import ACTIONS, HELP

    async with opened(tui_fake.small(), (120, 140)) as (pilot, screen):
        await press(pilot, "question_mark")
        text = "\n".join(picture(pilot.app))
        for action in ACTIONS:
            if action.where in (*HELP["MainScreen"], "everywhere", "dialog"):
                assert action.help in text
        await press(pilot, "escape")
        assert pilot.app.screen is screen


async def test_quit():
    async with opened(tui_fake.small()) as (pilot, _):
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.return_code == 0
        assert not pilot.app.is_running


async def test_times_change_with_a_key():
    async with opened(tui_fake.small()) as (pilot, _):
        assert "0.004500" in "\n".join(picture(pilot.app))
        await press(pilot, "t")
        text = "\n".join(picture(pilot.app))
        assert "Delta" in text
        assert "0.001500" in text
        await press(pilot, "t")
        assert "18:53:12.001500" in "\n".join(picture(pilot.app))


async def test_zoom_gives_a_pane_the_screen_and_back():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "tab", "tab", "z")
        assert screen.octets.size.height > 30
        await press(pilot, "z")
        assert screen.octets.size.height < 30
        assert screen.focused is screen.octets


async def test_the_list_can_be_made_larger_and_smaller():
    async with opened(tui_fake.small()) as (pilot, screen):
        before = screen.messages.outer_size.height
        await press(pilot, "plus", "plus")
        assert screen.messages.outer_size.height == before + 2
        await press(pilot, "minus")
        assert screen.messages.outer_size.height == before + 1


async def test_a_click_selects_a_message_and_a_double_click_goes_to_its_fields():
    async with opened(tui_fake.small()) as (pilot, screen):
        row = next(y for y, line in enumerate(picture(pilot.app)) if "id, email" in line)
        await pilot.click(offset=(30, row))
        await pilot.pause()
        assert screen.messages.number == 3
        await pilot.click(offset=(30, row + 1), times=2)
        await pilot.pause()
        assert screen.messages.number == 4
        assert screen.focused is screen.fields


async def test_a_click_on_the_sign_closes_a_field():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab")
        lines = picture(pilot.app)
        row = next(y for y, line in enumerate(lines) if "▼ Insert" in line)
        await pilot.click(offset=(lines[row].index("▼"), row))
        await pilot.pause()
        assert "▶ Insert" in "\n".join(picture(pilot.app))
        assert screen.fields.node.name == "Insert"


async def test_a_message_that_cannot_be_opened_is_told_and_the_rest_works():
    source = tui_fake.small()
    source.fails = {3}
    async with opened(source) as (pilot, screen):
        await press(pilot, "down", "down")
        text = "\n".join(picture(pilot.app))
        assert "Message 3 cannot be opened" in text
        assert "the file is gone: [b]\\x1b]2;x\\x07" in text
        await press(pilot, "escape", "down")
        assert screen.messages.number == 4
        assert "message 4 of 8" in "\n".join(picture(pilot.app))


async def test_a_source_without_messages_says_so():
    async with opened(tui_fake.FakeSource([])) as (pilot, _):
        text = "\n".join(picture(pilot.app))
        assert "no messages" in text
        assert "No message of PostgreSQL is in this capture" in text
        await press(pilot, "down", "tab", "down", "right", "enter", "tab", "right", "w", "t", "n")
        assert pilot.app.is_running


async def test_rows_that_come_later_are_shown():
    source = tui_fake.FakeSource([])
    async with opened(source) as (pilot, screen):
        source.parts = tui_fake.small().parts
        screen.messages.refresh_rows()
        await pilot.pause()
        text = "\n".join(picture(pilot.app))
        assert "message 1 of 8" in text
        assert "id, email" in text


async def test_some_of_the_messages():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down")
        screen.messages.show_numbers([2, 4, 7])
        await pilot.pause()
        assert screen.messages.number == 4
        await press(pilot, "down")
        assert screen.messages.number == 7
        screen.messages.show_numbers(None)
        await pilot.pause()
        assert screen.messages.number == 7


async def test_wide_rows_stay_within_their_lines():
    async with opened(tui_fake.wide()) as (pilot, screen):
        await press(pilot, "tab")
        lines = screen.fields.line_count
        assert lines < 100  # 1,600 columns start closed
        while screen.fields.node.name != "columns":
            await press(pilot, "down")
        await press(pilot, "right")
        assert screen.fields.line_count == lines + 1600
        await press(pilot, "end")
        assert screen.fields.node.index == 1599
        await press(pilot, "n", "n")
        assert screen.messages.number == 3
        assert screen.fields.node.index == 1599


async def test_a_list_of_a_billion_rows():
    class Billion(tui_fake.FakeSource):
        count = 1_000_000_000

        def row(self, number):
            return super().row(1)

        def message(self, number):
            return super().message(1)

    async with opened(Billion(tui_fake.small().parts)) as (pilot, screen):
        await press(pilot, "G")
        assert screen.messages.number == 1_000_000_000
        await press(pilot, "pageup")
        assert screen.messages.number < 1_000_000_000


async def test_a_finding_below_shows_at_every_closed_field_above():
    async with opened(tui_fake.small()) as (pilot, _):
        await press(pilot, *["down"] * 6)
        lines = [line[:40] for line in picture(pilot.app)]
        assert "finding error: " in "\n".join(picture(pilot.app))
        for name in ("Insert", "new", "columns ", "columns[1]"):
            assert any(name in line and "! " in line for line in lines[14:]), name
        assert not any("columns[0]" in line and "! " in line for line in lines)


async def test_absent_fields_can_be_hidden():
    async with opened(tui_fake.small()) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab")
        assert "absent: " in "\n".join(picture(pilot.app))
        lines = screen.fields.line_count
        await press(pilot, "a")
        assert "absent: " not in "\n".join(picture(pilot.app))
        await press(pilot, "a")
        assert screen.fields.line_count == lines


async def test_the_details_scroll():
    async with opened(tui_fake.small(), (60, 20)) as (pilot, screen):
        await press(pilot, "down", "down", "down", "tab", "down", "down", "tab", "tab")
        assert screen.focused is screen.details
        top = picture(pilot.app)
        await press(pilot, "down")
        assert picture(pilot.app) != top
        await press(pilot, "home")
        assert picture(pilot.app) == top


async def test_bytes_take_more_or_less_room():
    async with opened(tui_fake.small()) as (pilot, screen):
        before = screen.octets.outer_size.width
        await press(pilot, "less_than_sign")
        assert screen.octets.outer_size.width == before + 8
        await press(pilot, "greater_than_sign", "greater_than_sign")
        assert screen.octets.outer_size.width == before - 8
