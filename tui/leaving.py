"""Leaving in order when the terminal goes away or somebody ends the program.

Left alone, Python ends at once on SIGHUP and SIGTERM: the terminal would stay as the interface had it,
a recorder would go on recording, and a temporary file would stay.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any

ENDING = (signal.SIGHUP, signal.SIGTERM)

_way: list[Callable[[int], None]] = []
"""How the interface that is shown is told to end with an exit code."""


@contextlib.contextmanager
def in_order() -> Iterator[None]:
    """While this lasts, signals that end the program end it through its clean-up.

    A second signal ends it at once. One that is ignored (``nohup``) stays ignored.
    """
    before = {}
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # another thread than the first one
                before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def by(way: Callable[[int], None]) -> Iterator[None]:
    """While this lasts, `way` is called with the exit code in place of leaving at once.

    The terminal is afterwards as it was: a program that was stopped and went on without being asked
    takes its own settings for those of the shell.
    """
    modes = None
    with contextlib.suppress(OSError, termios.error):
        modes = termios.tcgetattr(0)
    _way.append(way)
    try:
        with _while_the_terminal_is_there(way):
            yield
    finally:
        _way.remove(way)
        if modes is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSANOW, modes)


@contextlib.contextmanager
def _while_the_terminal_is_there(way: Callable[[int], None]) -> Iterator[None]:
    """While this lasts, `way` is called when the terminal of the keyboard goes away, as on SIGHUP.

    The signal comes only from a terminal that controls the program. Of another one (a program started
    inside an editor or a container) reading gives nothing at once, for ever: the library's driver would
    go round and round.
    """
    if not os.isatty(0) or not hasattr(select, "poll"):
        yield
        return
    wake, waker = os.pipe()
    watch = threading.Thread(target=_watch, args=(wake, way), name="terminal-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        os.close(waker)
        watch.join()
        os.close(wake)


def _watch(wake: int, way: Callable[[int], None]) -> None:
    """Wait until the other end of pipe `wake` is closed, or the terminal has gone."""
    both = select.poll()
    both.register(wake, 0)
    both.register(0, 0)  # no event is asked for: a hang-up is always told
    gone = [fd for fd, event in both.poll() if event & select.POLLHUP]
    if wake in gone or not gone:
        return
    _write_into_nothing()
    ended = select.poll()
    ended.register(wake, 0)
    while True:  # the interface may be about to begin, and cannot be ended before it has
        with contextlib.suppress(SystemExit, RuntimeError):
            way(128 + signal.SIGHUP)
        if ended.poll(200):
            return


def _write_into_nothing() -> None:
    """What is still written for a terminal that has gone is thrown away: an error would end the thread
    of the driver that writes, and the next one to write would wait for it for ever."""
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, 0)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number, event in poll.poll(0):
        if event & select.POLLHUP:
            os.dup2(nothing, number)
    os.close(nothing)


def _end(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    if _way:
        _way[-1](128 + number)
    else:
        raise SystemExit(128 + number)


def can_suspend() -> bool:
    """Whether a shell is there to bring the program back: else the kernel does not stop it."""
    parent = os.getppid()
    try:
        return os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgid(0)
    except OSError:
        return False


def go_on_in_order(driver: Any, draw: Callable[[], None]) -> None:
    """Let a program that was stopped go on with keys and, by `draw`, screen; also from outside (SIGSTOP).

    The library's driver takes every SIGCONT for the end of its own suspending: it would read the keyboard
    by a second thread, and wait for the first one for ever when the program ends.
    """
    go_on = getattr(driver, "_sigcont_application", None)
    if go_on is None:
        return

    def continued(*_: object) -> None:
        if not driver._must_signal_resume:
            driver.suspend_application_mode()
        go_on()
        draw()

    with contextlib.suppress(ValueError):  # another thread than the first one
        signal.signal(signal.SIGCONT, continued)
