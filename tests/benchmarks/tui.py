"""Measures the interface in a pseudo terminal: time to the first rows, frame after a key, held keys.

    python tests/benchmarks/tui.py CAPTURE [--size 140x40] [--while-reading]

The terminal answers that it knows synchronised output (mode 2026), so the end of every frame is seen.
Times are from the key written to the end of the frame that it made, in milliseconds.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"
FIRST_ROW = re.compile(rb"message 1 of [1-9]")

KEYS = {
    "down": [b"\x1b[B"],
    "page down": [b"\x1b[6~"],
    "end, home": [b"\x1b[F", b"\x1b[H"],
    "next, previous": [b"n", b"p"],
    "zoom": [b"z"],
}


class Terminal:
    """The program in a pseudo terminal."""

    def __init__(self, words: list[str], size: tuple[int, int]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        folder = tempfile.mkdtemp(prefix="pgdissect-bench-")
        environment = {**os.environ, "TERM": "xterm-256color", "XDG_CONFIG_HOME": folder}
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dissector", "open", *words],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text = b""
        self.frames = 0

    def read(self, seconds: float) -> bytes:
        """What comes within that time, at once when something is there."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self.master, 1 << 18)
        except OSError:
            return b""
        if b"\x1b[?2026$p" in data:
            os.write(self.master, b"\x1b[?2026;2$y")
        self.frames += data.count(END)
        self.text = (self.text + data)[-2_000_000:]
        return data

    def until(self, wanted: re.Pattern[bytes], seconds: float) -> float:
        """Seconds from the start until the text came."""
        end = time.perf_counter() + seconds
        while not wanted.search(self.text):
            self.read(0.05)
            if time.perf_counter() > end:
                raise SystemExit(f"{wanted.pattern!r} did not come in {seconds} s")
        return time.perf_counter() - self.started

    def quiet(self, seconds: float = 0.25) -> None:
        """Read until nothing comes for that time."""
        end = time.perf_counter() + 10
        while self.read(seconds) and time.perf_counter() < end:
            pass

    def key(self, keys: bytes) -> float:
        """Milliseconds until the first whole frame after a key."""
        begin, before = time.perf_counter(), self.frames
        os.write(self.master, keys)
        while self.frames == before and time.perf_counter() - begin < 1:
            self.read(0.5)
        return (time.perf_counter() - begin) * 1000

    def hold(self, keys: bytes, rate: float, seconds: float) -> tuple[float, float]:
        """(frames a second, ms until quiet after the last one) of a key held at `rate`."""
        begin, before = time.perf_counter(), self.frames
        for i in range(int(rate * seconds)):
            os.write(self.master, keys)
            while time.perf_counter() < begin + (i + 1) / rate:
                self.read(max(0.0, begin + (i + 1) / rate - time.perf_counter()))
        took, frames = time.perf_counter() - begin, self.frames - before
        last = time.perf_counter()
        while self.read(0.2):
            last = time.perf_counter()
        return frames / took, max(0.0, (last - begin - took) * 1000)

    def memory(self) -> float:
        """Megabytes that the interface's own process has."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the interface.")
    parser.add_argument("capture")
    parser.add_argument("--size", default="140x40")
    parser.add_argument("--while-reading", action="store_true", help="do not wait for the index")
    given = parser.parse_args()
    width, height = (int(part) for part in given.size.split("x"))
    terminal = Terminal([given.capture], (width, height))
    print(f"first rows         {terminal.until(FIRST_ROW, 60):8.2f} s after the start of Python")
    if not given.while_reading:
        terminal.quiet(1.5)
        print(f"all rows           {time.perf_counter() - terminal.started:8.2f} s")
    for name, keys in KEYS.items():
        times = []
        for i in range(20):
            times.append(terminal.key(keys[i % len(keys)]))
            end = time.perf_counter() + 0.1  # the details come in a frame of their own
            while time.perf_counter() < end:
                terminal.read(0.02)
        print(f"{name:<18} {statistics.median(times):8.1f} ms  max {max(times):.1f}")
        terminal.quiet(0.1)
    os.write(terminal.master, b"\x1b[H")
    terminal.quiet()
    for name in ("down", "page down"):
        rate, lag = terminal.hold(KEYS[name][0], 20, 3)
        print(f"held {name:<13} {rate:8.1f} frames/s at 20 keys/s, quiet {lag:.0f} ms after")
    print(f"memory             {terminal.memory():8.1f} MB")
    os.write(terminal.master, b"q")
    terminal.process.wait(10)


if __name__ == "__main__":
    main()
