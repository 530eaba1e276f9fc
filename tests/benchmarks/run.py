"""Measures the command line as whole processes, beside tshark where it is installed.

    python tests/benchmarks/run.py [--messages 1250000] [--runs 3] [--capture FILE] [--only list,export]

Prints, for each command, the median wall time, processor time (of all its processes) and peak memory,
and the ratios that the project promises. Those that are compared run by turns.
Times of a busy machine are compared by processor time. Memory
is what all processes of a command hold together beside files, each shared page once, as Linux counts it
(Pss_Anon and Pss_Shmem, looked at twenty times a second in a run of its own, for looking takes time).
Lists go to a file; exports of both programs to the null device, for a disk would be measured else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE)]
PORT = 5432

ENV = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""As users run it: modules are compiled once, not at every start."""


@dataclass(frozen=True)
class Measured:
    """Seconds of wall and processor time, and peak memory in bytes of all processes together."""

    wall: float
    processor: float
    peak: int


def measure(command: list[str], out: str, watched: bool) -> Measured:
    """Run `command` once, its output to the file `out`; its memory is only known where it is watched."""
    with Path(out).open("wb") as sink:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=sink, stderr=subprocess.DEVNULL, cwd=ROOT, env=ENV)
        seen, ended = [0], threading.Event()
        watcher = threading.Thread(target=watch, args=(child.pid, seen, ended))
        if watched:
            watcher.start()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        if watched:
            watcher.join()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}")
    return Measured(wall, used.ru_utime + used.ru_stime, max(seen))


def watch(pid: int, seen: list[int], ended: threading.Event) -> None:
    """Note what the process and its children hold until `ended`."""
    while not ended.wait(0.05):
        seen[0] = max(seen[0], sum(map(held, family(pid))))


def family(pid: int) -> list[int]:
    """A process and all that came of it."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def held(pid: int) -> int:
    """Bytes of memory of a process that are no file's, pages shared with others in equal parts."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return (
            sum(int(s.split()[1]) for s in lines if s.startswith(("Pss_Anon:", "Pss_Shmem:")))
            * 1024
        )
    return 0


def medians(commands: list[list[str]], runs: int, out: str = os.devnull) -> list[Measured]:
    """The medians of several rounds, in each of which every command runs once, and the peaks of one more:
    what else the machine does meets all of them alike."""
    rounds = [[measure(command, out, False) for command in commands] for _ in range(runs)]
    peaks = [measure(command, out, True).peak for command in commands]
    return [
        Measured(
            statistics.median(m.wall for m in found),
            statistics.median(m.processor for m in found),
            peak,
        )
        for found, peak in zip(zip(*rounds, strict=True), peaks, strict=True)
    ]


def ours(*words: str) -> list[str]:
    """A command of pgdissect."""
    return [sys.executable, "-m", "dissector", *words]


def tshark(capture: str, *words: str) -> list[str]:
    """tshark on the messages of the port, put in order."""
    return [
        "tshark", "-n", "-r", capture, "-o", "tcp.reassemble_out_of_order:TRUE",
        "-d", f"tcp.port=={PORT},pgsql", "-Y", "pgsql", *words,
    ]  # fmt: skip


OPENING = """
import random, sys, time
from dissector.view import open_capture
capture = open_capture([sys.argv[1]]).read()
source = random.Random(1)
chosen = [source.randrange(1, capture.count + 1) for _ in range(300)]
took = []
for number in chosen:
    begin = time.process_time()
    capture.message(number)
    took.append(time.process_time() - begin)
print(f"opening a message: median {sorted(took)[150] * 1000:.2f} ms, worst {max(took) * 1000:.2f} ms")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pgdissect beside tshark.")
    parser.add_argument("--messages", type=int, default=1_250_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--capture", type=Path, help="measure this one instead of a new one")
    parser.add_argument(
        "--only", default="", help="what to measure, of index,list,export,four (all)"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        capture = given.capture or Path(place) / "large.pcap"
        if given.capture is None:
            from make_capture import make

            make(capture, given.messages)
        known = {"index", "list", "export", "four"}
        only = set(given.only.split(",")) if given.only else known
        if only - known:
            parser.error(f"--only takes {', '.join(sorted(known))}")
        report(str(capture), given.messages, given.runs, only, Path(place))


def report(capture: str, messages: int, runs: int, only: set[str], place: Path) -> None:
    """Measure and print."""
    size = Path(capture).stat().st_size
    told = subprocess.run(
        ours("stats", capture, "--json"), cwd=ROOT, capture_output=True, check=True
    )
    count = json.loads(told.stdout)["messages"]
    print(
        f"capture: {size / 1e6:.0f} MB, {count} messages; {os.cpu_count()} processors, load "
        f"{os.getloadavg()[0]:.1f}, medians of {runs} runs"
    )
    out = str(place / "out")
    lists = {
        "stats": ours("stats", capture),
        "list": ours("list", capture),
        "tshark": tshark(capture),
    }
    exports = {
        "export": ours("export", capture, "--format", "ndjson", "--fields"),
        "tshark -T ek": tshark(capture, "-T", "ek"),
    }
    wanted = {"stats": "index" in only, "list": "list" in only, "export": "export" in only}
    found: dict[str, Measured] = {}
    for group, to in ((lists, out), (exports, os.devnull)):
        chosen = {name: command for name, command in group.items() if wanted.get(name)}
        if chosen and shutil.which("tshark"):
            chosen |= {name: command for name, command in group.items() if name not in wanted}
        found |= show(chosen, runs, to)
    for name, mine, rival, limit in (
        ("index", "stats", "tshark", 0.15),
        ("list", "list", "tshark", 0.6),
        ("export", "export", "tshark -T ek", 0.4),
    ):
        if mine in found and rival in found:
            compare(name, found[mine], found[rival], limit)
    if "stats" in found:
        nothing = place / "nothing.pcap"
        nothing.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        empty = medians([ours("stats", str(nothing))], runs)[0].peak
        inside = (found["stats"].peak - empty) / count
        print(
            f"index: {inside:.0f} bytes a message beside the file itself and the {empty / 1e6:.0f} MB "
            "that the program holds without any (at most 100)"
        )
        subprocess.run([sys.executable, "-c", OPENING, capture], cwd=ROOT, check=True)
    if "four" in only:
        four(messages, runs, place, out)


def show(commands: dict[str, list[str]], runs: int, out: str) -> dict[str, Measured]:
    """Measure commands by turns and print a line for each."""
    found = dict(zip(commands, medians(list(commands.values()), runs, out), strict=True))
    for name, m in found.items():
        print(
            f"{name:14} {m.wall:7.2f} s  {m.processor:7.2f} s processor  {m.peak / 1e6:6.0f} MB",
            flush=True,
        )
    return found


def compare(name: str, mine: Measured, rival: Measured, limit: float) -> None:
    """Print the ratios of one command."""
    print(
        f"{name}: {mine.wall / rival.wall:.3f} of its time, {mine.processor / rival.processor:.3f} of its "
        f"processor time (at most {limit}); {mine.peak / rival.peak:.2f} of its memory (at most 0.33)"
    )


def four(messages: int, runs: int, place: Path, out: str) -> None:
    """Four times the messages take about four times the time."""
    from make_capture import make

    for verb in (["stats"], ["list"]):
        captures = [place / f"times{factor}.pcap" for factor in (1, 4)]
        for factor, capture in zip((1, 4), captures, strict=True):
            if not capture.exists():
                make(capture, messages * factor // 2)
        took = medians([ours(*verb, str(capture)) for capture in captures], runs, out)
        ratio = took[1].processor / took[0].processor
        print(
            f"{verb[0]}: 4 times the messages, {ratio:.2f} times the processor time (at most 4.4)"
        )


if __name__ == "__main__":
    main()
