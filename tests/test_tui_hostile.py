"""Hostile text from a capture, in every widget: shown, never obeyed."""

from __future__ import annotations

import re
import unicodedata

import pytest
import tui_fake
from rich.segment import Segment
from test_tui import opened, picture, press
from textual.color import Color

from tui import present_fields
from tui.dialogs import message_dialog
from tui.opened import Opened
from tui.safety import NoControls

_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt\\])")


def unsafe(text: str) -> list[str]:
    """Characters that could steer a terminal or hide from a reader."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_what_counts_as_unsafe():
    assert unsafe("\x1b\x9b\u202e\u200b\ufeff\udc9b\u2028\x00\U000e0041")
    assert unsafe("plain [red]X[/red] 漢字 🎉 …·▶") == []


@pytest.mark.parametrize("size", [(80, 24), (130, 90)])
async def test_no_widget_lets_a_control_character_out(size):
    source = tui_fake.hostile()
    async with opened(source, size, title="evil\x1b]2;x\x07[red]\u202e.pcap") as (pilot, screen):
        assert "evil\\x1b]2;x\\x07[red]\\u202e.pcap" in picture(pilot.app)[0]
        await press(pilot, "tab", "asterisk", "end")
        assert unsafe("".join(picture(pilot.app))) == []
        await press(pilot, "pageup", "pageup")
        assert unsafe("".join(picture(pilot.app))) == []
        await press(pilot, "n", "end")
        assert unsafe("".join(picture(pilot.app))) == []
        for number in range(3, source.count + 1, 5):
            screen.messages.go_to(number)
            await press(pilot, "end")
            assert unsafe("".join(picture(pilot.app))) == []


async def test_markup_and_escapes_are_readable_in_list_tree_and_details():
    source = tui_fake.hostile()
    async with opened(source, (160, 60)) as (pilot, screen):
        await press(pilot, "tab", "asterisk")
        for index, text in enumerate(tui_fake.HOSTILE[:9]):
            screen.messages.go_to(index + 3)
            await press(pilot, "end")
            shown = "\n".join(picture(pilot.app))
            shape = re.sub(r"[\x00-\x1f]", lambda m: f"\\x{ord(m[0]):02x}", text)
            shape = shape.replace("\x1b\\", "\x1b\\\\")
            if "\\" in text:  # a backslash of the data is doubled
                shape = re.sub(r"\\$", r"\\\\", shape)
            # in the list: relation and summary; in the tree; in the details
            assert shown.count(shape) >= 4, (text, shape)


async def test_a_clickable_action_in_a_value_does_nothing():
    source = tui_fake.FakeSource(
        [("F", tui_fake.query(b"[@click=app.quit]press[/]"), None, "[@click=app.quit]press[/]")]
    )
    async with opened(source) as (pilot, _):
        lines = picture(pilot.app)
        places = [(line.index("press"), y) for y, line in enumerate(lines) if "press" in line]
        assert places
        for place in places:
            await pilot.click(offset=place)
            await pilot.pause()
        assert pilot.app.is_running


async def test_dialogs_show_markup_as_text():
    async with opened(tui_fake.small()) as (pilot, _):
        pilot.app.push_screen(message_dialog("[b]title[/b]", "[red]a[/]b [@click=app.quit]c"))
        await pilot.pause()
        text = "\n".join(picture(pilot.app))
        assert "[b]title[/b]" in text
        assert "[red]a[/]b [@click=app.quit]c" in text


def test_the_net_drops_controls_and_keeps_the_rest():
    text = "a\x1b]2;t\x07b\x9b\u202ec\ud800d\u200be漢\U000e0041"
    kept = Segment("plain [red] 漢字")
    segments = NoControls().apply([Segment(text), kept], Color(0, 0, 0))
    assert segments[0].text == "a]2;tbcde漢"
    assert segments[1] is kept


async def test_the_net_lies_under_every_widget():
    """A widget that forgets to make text visible still sends no control character."""
    from textual.widgets import Static

    async with opened(tui_fake.small()) as (pilot, screen):
        status = screen.query_one("#status", Static)
        from textual.content import Content

        status.update(Content("x\x1b]2;t\x1b\\y\x9bz\u202e"))
        await pilot.pause()
        assert picture(pilot.app)[0].strip().startswith("x]2;t\\yz")


def test_a_value_of_megabytes_is_cut_before_it_is_shown():
    source = tui_fake.FakeSource([("F", tui_fake.query(b"\x1b" * 3_000_000), None, "")])
    view = source.message(1)
    node = view.tree.children[-1]
    text = Opened(view).text(node, 100)
    assert len(_ESCAPE.sub("x", text)) <= 101
    told = present_fields.facts(Opened(view), node, [view.tree])
    assert sum(len(fact.text) for fact in told) < 20_000
