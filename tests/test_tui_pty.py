"""The real program in a pseudo terminal: what it sends, and how it leaves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PATIENCE = 30.0
"""Seconds after which a program that shows nothing counts as hung; a busy machine needs some."""


def _as_in_a_terminal() -> None:
    """Under nohup the tests' own process ignores SIGHUP, and programs that it starts would, too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """A program of `code` in a pseudo terminal of 100 by 30 cells."""

    def __init__(self, code: str, more: dict[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        paths = os.pathsep.join([str(HERE.parent), str(HERE)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            close_fds=True,
            start_new_session=True,
            preexec_fn=_as_in_a_terminal,  # noqa: PLW1509 -- no threads run yet
            env={
                **os.environ,
                "PYTHONPATH": paths,
                "TERM": "xterm-256color",
                "XDG_CONFIG_HOME": tempfile.mkdtemp(prefix="pgdissect-test-"),
                **(more or {}),
            },
        )
        os.close(slave)
        self.output = b""

    def until(self, text: bytes) -> bool:
        """Read until `text` has come; False when the program ended or took too long."""
        end = time.monotonic() + PATIENCE
        while text not in self.output:
            if time.monotonic() > end or not self.read():
                return text in self.output
        return True

    def read(self) -> bool:
        """Read what is there within a second; False at the end."""
        ready, _, _ = select.select([self.master], [], [], 1.0)
        if not ready:
            return self.process.poll() is None
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.output += chunk
        return bool(chunk)

    def ended(self) -> bool:
        """Read until the program has ended; False when it took too long."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end and self.read():
            pass
        return self.process.poll() is not None

    def send(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def stop(self) -> None:
        """End the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def leave(self) -> int:
        """Read to the end and give the exit code."""
        end = time.monotonic() + PATIENCE
        while self.read() and time.monotonic() < end:
            pass
        try:
            return self.process.wait(PATIENCE)
        finally:
            os.close(self.master)


@pytest.fixture
def terminal():
    started: list[Terminal] = []

    def start(code: str) -> Terminal:
        started.append(Terminal(code))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_hostile_text_never_reaches_the_terminal_and_the_program_quits_cleanly(terminal):
    tty = terminal(
        "import sys, tui, tui_fake\n"
        "sys.exit(tui.show(tui_fake.hostile(), 'evil\\x1b]2;title\\x07.pcap'))"
    )
    assert tty.until(b"evil")
    tty.send(b"\t*")  # to the fields, open all
    for _ in range(3):
        tty.send(b"\x1b[F\x1b[5~n")  # end, page up, next message
    tty.send(b"?")
    assert tty.until(b"Everywhere")
    tty.send(b"\x1b")
    time.sleep(0.3)  # an Escape alone is only one after a while
    tty.send(b"q")
    assert tty.leave() == 0
    assert b"\x1b[?1049l" in tty.output  # the terminal's own screen is back
    assert b"\\x1b]2;title" in tty.output
    text = tty.output.decode("utf-8")  # and so without a lone 0x9b
    text = text.replace("\x1b]22;default\x07", "")  # the library's own: the mouse pointer's shape
    assert "\x1b]2;" not in text
    assert "\x1b]52" not in text
    for char in ("\x9b", "\u202e", "\u200b", "\ufeff", "\U000e0041", "\x07", "\x7f"):
        assert char not in text
    # What is left of escape sequences is what the library itself writes: CSI, and the answer it
    # asks the terminal for (DCS is none of them).
    rest = re.sub(r"\x1b(?:\[[0-9;?<>=:]*[ -/]*[@-~]|[()][0-9A-B]|[=>78])", "", text)
    assert "\x1b" not in rest
