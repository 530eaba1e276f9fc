"""Keys that come faster than the screen can follow: each is for what the one before has opened."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input, TextArea

from dissector.view import open_capture
from tui import typed
from tui.app import DissectApp
from tui.filter_bar import FilterBar
from tui.marks import Marks
from tui.source import CaptureSource

TOUR = Path(__file__).parent.parent / "captures" / "tour.pcapng"

NAMES = {" ": "space", "=": "equals_sign", "/": "slash", ":": "colon", "\r": "enter",
         "\n": "ctrl+j", "\x06": "ctrl+f", "\x1b": "escape",
         "?": "question_mark"}  # fmt: skip


@pytest.fixture(scope="module")
def capture():
    with open_capture([str(TOUR)]) as found:
        yield found.read()


def at_once(app: DissectApp, text: str) -> None:
    """Put all keys into the app's queue before it sees the first."""
    for char in text:
        printable = char if char >= " " else None
        app.post_message(events.Key(NAMES.get(char, char), printable))


async def shown(what) -> bool:
    """Wait until `what()`, ten seconds at most."""
    for _ in range(500):
        if what():
            return True
        await asyncio.sleep(0.02)
    return False


async def test_a_filter_typed_at_once_is_a_filter(capture):
    truncates = [
        n for n in range(1, capture.count + 1) if capture.message(n).path[-1] == "Truncate"
    ]
    assert truncates
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)):
        screen = app.screen
        at_once(app, "/message == Truncate\rG")
        assert await shown(lambda: screen.narrowing.now.expression == "message == Truncate")
        assert await shown(lambda: list(screen.messages.numbers) == truncates)
        assert await shown(lambda: screen.messages.number == truncates[-1])
        assert await shown(lambda: screen.focused is screen.messages)


async def test_dialogs_and_bars_one_after_the_other(capture):
    """None of the letters may act as a key of the list: m marks, q quits, z zooms."""
    app = DissectApp(CaptureSource(capture), marks=Marks())
    async with app.run_test(size=(100, 30)):
        screen = app.screen
        at_once(app, ":25\rMqmz\r:7\r\x06zqm\x1bn")
        assert await shown(lambda: screen.messages.number == 8)
        assert screen.marks.notes == {25: "qmz"}
        assert screen.find_bar.line.value == "zqm"
        assert screen.maximized is None
        assert app.screen is screen
        assert await shown(lambda: screen.focused is screen.messages)


async def test_the_filter_that_is_there_is_selected(capture):
    """What is typed comes in its place; a key that moves the cursor keeps it."""
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)):
        screen = app.screen
        now = screen.narrowing
        at_once(app, "/xid == 5\r/message == Begin\r")
        assert await shown(lambda: now.now.expression == "message == Begin")
        at_once(app, "/")
        app.post_message(events.Key("end", None))
        at_once(app, " and xid > 5\r")
        assert await shown(lambda: now.now.expression == "message == Begin and xid > 5")
        at_once(app, "/")
        app.post_message(events.Key("left", None))
        at_once(app, "xid > 1 and \r/\r")  # and Enter alone keeps it as it is
        wanted = "xid > 1 and message == Begin and xid > 5"
        assert await shown(lambda: now.now.expression == wanted)
        at_once(app, "/")
        app.post_message(events.Key("backspace", "\x7f"))
        at_once(app, "\x1b\x1b")  # the completions, then the bar
        assert await shown(lambda: screen.focused is screen.messages and not app._typed)
        assert screen.filter_bar.line.value == now.now.expression == wanted


async def test_a_bar_that_was_opened_again_is_not_put_away(capture):
    """That the line lost the focus is told to the bar later: it may have come back since."""
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.screen
        bar = screen.filter_bar
        bar.open()
        screen.set_focus(screen.messages)
        bar.open()
        await pilot.pause()
        await pilot.pause()
        assert screen.focused is bar.line
        assert bar.has_class("-open")


async def test_at_the_start_only_the_list_has_the_focus(capture, monkeypatch):
    """A line that had it first would be told later that it lost it, maybe when it has it again."""
    lost = []
    monkeypatch.setattr(FilterBar, "on_descendant_blur", lost.append)
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert app.screen.focused is app.screen.messages
    assert lost == []


async def test_what_function_keys_and_menus_open_gets_the_keys_behind(capture):
    app = DissectApp(CaptureSource(capture), marks=Marks())
    async with app.run_test(size=(100, 30)):
        screen = app.screen
        assert not screen.narrowing.now.label
        at_once(app, "f\r")  # the first way to follow
        assert await shown(lambda: screen.narrowing.now.label or app.screen is not screen)
        while app.screen is not screen:
            at_once(app, "\x1b")
            assert await shown(lambda: app.screen is screen)
        at_once(app, "u:25\r?")
        app.post_message(events.Key("down", None))  # for the help, not for the list
        at_once(app, "\x1bm")
        assert await shown(lambda: screen.marks.numbers == [25])
        at_once(app, "dqm")  # the reference, back from it (not the end), and no mark any more
        assert await shown(lambda: screen.marks.numbers == [])
        assert app.screen is screen
        app.post_message(events.Key("f8", None))
        at_once(app, "mq")
        assert await shown(lambda: isinstance(app.focused, TextArea) and app.focused.text == "mq")
        assert screen.marks.numbers == []


async def test_keys_that_come_before_the_first_screen_wait_for_it(capture):
    app = DissectApp(CaptureSource(capture))
    at_once_is_early = []

    def ready() -> None:
        at_once_is_early.append(not app.screen_stack or app.screen.focused is None)
        at_once(app, ":25\r")

    app.call_later(ready)
    async with app.run_test(size=(100, 30)):
        assert await shown(lambda: app.screen_stack[0].messages.number == 25)
    assert at_once_is_early == [True]


async def test_enter_before_the_terminal_is_set_up_is_enter(capture):
    """Until then the terminal's driver makes a line feed of it."""
    app = DissectApp(CaptureSource(capture))
    app.call_later(at_once, app, ":25\n")
    async with app.run_test(size=(100, 30)):
        assert await shown(lambda: app.screen_stack[0].messages.number == 25)


async def test_what_is_pasted_behind_a_key_is_for_what_it_opens(capture):
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)):
        at_once(app, ":")
        app.post_message(events.Paste("25"))
        assert await shown(lambda: isinstance(app.focused, Input))
        assert await shown(lambda: app.focused.value == "25")


async def test_keys_while_the_program_ends_are_dropped(capture):
    """A key that bubbles when the screens are gone would end it with a traceback."""
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        stack = app._screen_stacks[app._current_mode]
        kept, stack[:] = list(stack), []
        try:
            bubbling, fresh = events.Key("G", "G"), events.Key("G", "G")
            bubbling._set_forwarded()
            await app.on_event(bubbling)
            await app.on_event(fresh)
            await app._await_rest()
        finally:
            stack[:] = kept
        assert app.screen.messages.number == 1


async def test_keys_that_wait_are_not_kept_by_a_widget_at_work(capture, monkeypatch):
    """A handler that takes long delays keys; it does not lock the program."""
    monkeypatch.setattr(typed, "PATIENCE", 1.0)
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        screen, gate = app.screen, asyncio.Event()
        line = screen.find_bar.line
        try:
            screen.messages.call_later(gate.wait)  # the list takes no message until the gate opens
            at_once(app, "t")
            screen.call_later(screen.set_focus, line)
            assert await shown(lambda: screen.focused is line)
            at_once(app, "abc")
            assert await shown(lambda: line.value.endswith("abc"))
        finally:
            gate.set()


async def test_a_busy_machine_is_no_reason_to_go_on(capture, monkeypatch):
    """While nothing at all runs, the time that a key may take does not run either."""
    monkeypatch.setattr(typed, "PATIENCE", 0.5)
    app = DissectApp(CaptureSource(capture))
    async with app.run_test(size=(100, 30)):
        screen = app.screen

        async def late() -> None:
            await asyncio.sleep(0.2)
            time.sleep(1.0)  # nothing runs, as while a large module is imported

        screen.messages.call_later(late)
        at_once(app, "/xid == 5\r")
        assert await shown(lambda: screen.narrowing.now.expression == "xid == 5")
