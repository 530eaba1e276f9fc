"""What once broke the interface: endings from outside, odd files of the user, nonsense typed in.

Every fault that these look for was once there; each stands for its whole kind.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tui_fake
from test_tui import opened, picture, press
from test_tui_pty import PATIENCE, Terminal

from dissector.errors import UsageProblem
from dissector.view import open_capture
from tui import leaving
from tui.copying import copy_dialog
from tui.exporting import usable_path
from tui.finding import UnusableError, Wanted, field_steps
from tui.marks import Marks
from tui.opened import Opened
from tui.settings import Settings, config_folder

TOUR = Path(__file__).parent.parent / "captures" / "tour.pcapng"

START = "import sys; sys.argv = ['pgdissect', *{!r}]; from dissector.cli import main; main()"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signals_leave_in_order(number: signal.Signals, tmp_path: Path) -> None:
    tty = Terminal(START.format([str(TOUR)]), {"TMPDIR": str(tmp_path)})
    before = termios.tcgetattr(tty.master)
    try:
        assert tty.until(b"StartupMessage")
        assert termios.tcgetattr(tty.master) != before
        tty.process.send_signal(number)
        tty.ended()
        tty.until(b"\x1b[?1049l")
        assert b"\x1b[?1049l" in tty.output
        assert termios.tcgetattr(tty.master) == before
        assert tty.leave() == 128 + number
    finally:
        tty.stop()


def test_a_terminal_that_goes_away_without_a_signal_ends_the_program() -> None:
    """A pseudo terminal that does not control the program: the kernel sends no SIGHUP."""
    tty = Terminal(START.format([str(TOUR)]))
    try:
        assert os.getsid(tty.process.pid) == tty.process.pid
        assert tty.until(b"StartupMessage")
        os.close(tty.master)
        assert tty.process.wait(PATIENCE) == 128 + signal.SIGHUP
    finally:
        tty.stop()


def test_a_program_that_was_stopped_goes_on_and_leaves_the_terminal_as_it_was() -> None:
    tty = Terminal(START.format([str(TOUR)]))
    before = termios.tcgetattr(tty.master)
    try:
        assert tty.until(b"StartupMessage")
        tty.send(b"\x1a")  # no shell is there to bring it back: nothing is stopped
        assert tty.until(b"no shell")
        tty.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        tty.output = b""
        tty.process.send_signal(signal.SIGCONT)
        assert tty.until(b"StartupMessage")  # drawn anew
        tty.send(b"q")
        assert tty.until(b"\x1b[?1049l")
        tty.ended()
        assert termios.tcgetattr(tty.master) == before
        assert tty.leave() == 0
    finally:
        tty.stop()


@pytest.fixture
def _hangup_as_in_a_terminal() -> Iterator[None]:
    """Under nohup SIGHUP is ignored, and the program leaves it so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hangup_as_in_a_terminal")
def test_before_and_after_the_interface_a_signal_ends_the_program() -> None:
    told: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, leaving.in_order():
        with leaving.by(told.append):
            signal.raise_signal(signal.SIGTERM)
        assert told == [128 + signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a second one ends at once
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.code == 128 + signal.SIGHUP
    assert signal.getsignal(signal.SIGTERM) is before


# -- files of the user


ODD_MARKS = [
    "[" * 100_000,
    '{"marks": [{"number": 1e999}]}',
    '{"marks": [{"number": 1, "frame": -1e999}]}',
    '{"marks": 7}',
    '"\\ud800"',
    "",
]


@pytest.mark.parametrize("text", ODD_MARKS, ids=range(len(ODD_MARKS)))
def test_odd_marks_are_told_and_left_alone(text: str, tmp_path: Path) -> None:
    kept = tmp_path / "a.pcap.marks.json"
    kept.write_text(text)
    marks = Marks(str(tmp_path / "a.pcap"))
    assert "not understood" in marks.told
    marks.set(1, 1, "x")
    assert kept.read_text() == text


def test_marks_beyond_any_capture_do_not_stop_the_viewer(tmp_path: Path) -> None:
    told = {"marks": [{"number": 10**30}, {"number": -1}, {"number": 2, "note": "\ud800"}]}
    (tmp_path / "a.pcap.marks.json").write_text(json.dumps(told))
    assert Marks(str(tmp_path / "a.pcap")).numbers == [2]


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pcap.marks.json")
    os.mkfifo(tmp_path / "settings.json")
    assert "no file" in Marks(str(tmp_path / "a.pcap")).told
    assert Settings.load(tmp_path / "settings.json").filters == []


def test_a_capture_whose_name_leaves_no_room_keeps_marks_elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    name = "n" * 250
    marks = Marks(str(tmp_path / name))
    marks.set(3, 4, "here")
    assert (marks.told, Marks(str(tmp_path / name)).notes) == ("", {3: "here"})


@pytest.mark.parametrize("text", ["[" * 100_000, '{"filters": 3, "list_lines": "x"}', "\x00", "7"],
                         ids=range(4))  # fmt: skip
def test_odd_settings_count_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text)
    kept = Settings.load(tmp_path / "settings.json")
    assert (kept.filters, kept.list_lines, kept.theme) == ([], 0, "")


def test_a_user_without_a_home_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert config_folder().name == "pgdissect"
    settings = Settings.load()
    assert settings.filters == []


async def test_any_sizes_in_the_settings(tmp_path: Path) -> None:
    from tui.app import DissectApp

    for size in (10**400, -5, 1):
        kept = Settings(list_lines=size, hex_width=size, details_lines=size, theme="\x1b", time="?")
        app = DissectApp(tui_fake.small(), "t", kept)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert "message 1 of 8" in picture(app)[0]


# -- nonsense typed in


@pytest.mark.parametrize(
    "name",
    ["~nobody-here/x", "/", ".", "..", "", "a\0b", "n" * 5000, "/dev/full", "/etc/passwd/x"],
    ids=range(9),
)
def test_no_file_is_written_under_a_name_that_is_none(name: str) -> None:
    with open_capture([str(TOUR)]) as capture, pytest.raises(UsageProblem, match="name a"):
        usable_path(name, capture)


def test_the_capture_itself_is_not_written_over(tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcapng"
    mine.write_bytes(TOUR.read_bytes())
    (tmp_path / "other").symlink_to(mine)
    with open_capture([str(mine)]) as capture:
        for name in ("mine.pcapng", "other"):
            with pytest.raises(UsageProblem, match="the capture itself"):
                usable_path(str(tmp_path / name), capture)
        assert usable_path(str(tmp_path / "new.csv"), capture) == tmp_path / "new.csv"


def test_a_slow_pattern_can_be_given_up_in_a_message_of_many_fields(monkeypatch) -> None:
    monkeypatch.setattr("tui.finding.monotonic", itertools.count().__next__)
    data = tui_fake.xlog(tui_fake.insert([b"a" * 40] * 400))
    message = Opened(tui_fake.FakeSource([("B", data, None, "")]).message(1))
    asked: list[str] = []
    wanted = Wanted("(a|aa|a.)+$x", "regex")
    monkeypatch.setattr(wanted, "within", lambda text: asked.append(text) and False)
    steps = field_steps(message, wanted, (), 1)
    assert [next(steps).done, next(steps).done] == [1, 2]
    assert len(asked) <= 2 * 3


def test_places_before_in_many_bytes() -> None:
    wanted = Wanted("ab", "text")
    assert wanted.in_bytes(b"ab--ab--ab", 8, -1) == (4, 6)
    assert wanted.in_bytes(b"ab--ab--ab", 0, -1) == (8, 10)
    assert wanted.in_bytes(b"--", 0, -1) is None


@pytest.mark.parametrize(
    "text", ["(", "a{99999999999999999999}", "(?P<", "[" * 50, "(" * 5000], ids=range(5)
)
def test_a_pattern_that_cannot_be_is_told(text: str) -> None:
    with pytest.raises(UnusableError, match="cannot be used"):
        Wanted(text, "regex")


async def test_megabytes_do_not_go_to_the_clipboard(monkeypatch) -> None:
    source = tui_fake.FakeSource([("F", tui_fake.query(b"x" * 5_000_000), None, "")])
    async with opened(source) as (pilot, screen):
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy_to_clipboard", copied.append)
        pilot.app.push_screen(copy_dialog(source.message(1), screen.fields.chain[-1], False))
        await pilot.pause()
        await press(pilot, "1")
        assert copied == []
        assert pilot.app.screen is screen
