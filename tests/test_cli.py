"""The command line as processes: exit codes, pipes, standard input, several captures."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from transforms import CAPTURES, conversation, frames, packets, pcap, split

ROOT = Path(__file__).parent.parent
PG = str(CAPTURES / "pg11-small.pcap")


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "dissector", *words], input=stdin, capture_output=True, cwd=ROOT,
        check=False,
    )  # fmt: skip


def test_list_is_tab_separated_on_a_pipe() -> None:
    done = run("list", PG)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert {line.count("\t") for line in lines} == {7}
    assert [line.split("\t")[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert run("list", PG, "--limit", "3").stdout.decode().splitlines() == lines[:3]
    assert run("list", PG, "--limit", "0").stdout == b""


def test_a_capture_from_standard_input_and_compressed(tmp_path: Path) -> None:
    whole = run("list", PG).stdout
    assert run("list", "-", stdin=Path(PG).read_bytes()).stdout == whole
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(Path(PG).read_bytes()))
    assert run("list", str(packed)).stdout == whole


def test_several_captures_are_one(tmp_path: Path) -> None:
    made = frames(packets(CAPTURES / "pg11-small.pcap"))
    whole, parts = tmp_path / "whole.pcap", []
    whole.write_bytes(pcap(made))
    for i, each in enumerate(split(made, 3)):
        part = tmp_path / f"part{i}.pcap"
        part.write_bytes(pcap(each))
        parts.append(str(part))
    assert run("list", *parts).stdout == run("list", str(whole)).stdout


def test_a_closed_pipe_ends_quietly() -> None:
    source, sink = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "dissector", "export", str(CAPTURES / "pg18-proto4.pcap"), "--format",
         "ndjson", "--fields"], stdout=sink, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    os.close(sink)
    os.read(source, 10)
    os.close(source)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0
    assert said == b""


def test_exit_codes(tmp_path: Path) -> None:
    missing = run("list", str(tmp_path / "none.pcap"))
    assert missing.returncode == 1
    assert len(missing.stderr.splitlines()) == 1
    assert run("list", PG, "--port", "99999").returncode == 2
    assert run("export", PG, "--format", "sql").returncode == 2
    assert run("stats", PG, "--strict").returncode == 0
    broken = tmp_path / "cut.pcap"
    broken.write_bytes(Path(PG).read_bytes()[:-7])
    assert run("stats", str(broken)).returncode == 0
    assert run("stats", str(broken), "--strict").returncode == 3


def test_nothing_of_postgresql_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.pcap"
    path.write_bytes(pcap(frames(conversation([(0, b"GET / HTTP/1.1\r\n\r\n" * 9)], server=80))))
    done = run("list", str(path))
    assert done.returncode == 0
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "no PostgreSQL" in line
    assert "1 TCP connections" in line
    assert "80" in line


def test_stats_count_what_the_export_holds() -> None:
    path = str(CAPTURES / "pg16-proto4.pcap")
    found = json.loads(run("stats", path, "--json").stdout)
    objects = [json.loads(x) for x in run("export", path, "--format", "ndjson").stdout.splitlines()]
    assert found["messages"] == len(objects)
    assert found["bytes"] == sum(o["length"] for o in objects)
    kinds = {tuple(k["message"]): k["messages"] for k in found["kinds"]}
    assert sum(kinds.values()) == len(objects)
    truncated = [o for o in objects if o["path"][-1] == "Truncate"]
    assert kinds["CopyData", "XLogData", "Truncate"] == len(truncated)
    sides = {d["direction"]: d["messages"] for d in found["directions"]}
    assert sides["F"] == sum(o["direction"] == "F" for o in objects)
    tables = {r["relation"]: r["messages"] for r in found["relations"]}
    one = "public.full_item"
    assert tables[one] == sum(o["relation"] == one or one in (o["relation"] or ()) for o in objects
                              if isinstance(o["relation"], str | list))  # fmt: skip


@pytest.mark.parametrize("verb", [["list"], ["export", "--format", "ndjson", "--fields"]])
def test_several_processes_write_the_same(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dissector import runs
    from dissector.view import open_capture

    path = str(CAPTURES / "pg16-proto4.pcap")
    single = run(verb[0], path, *verb[1:]).stdout
    monkeypatch.setattr(runs, "MANY", 100)
    monkeypatch.setattr(runs, "BLOCK", 64)
    monkeypatch.setattr(runs, "MANY_OBJECTS", 100)
    monkeypatch.setattr(runs, "OBJECTS", 16)
    monkeypatch.setattr(runs, "processors", lambda: 3)
    with open_capture([path]) as capture:
        capture.read()
        numbers = range(1, capture.count + 1)
        for out in (io.BytesIO(), (tmp_path / "out").open("w+b")):
            with out:
                runs.Runs(capture).write(out, numbers, fields=len(verb) > 1)
                out.seek(0)
                assert out.read() == single


def test_what_a_process_could_not_write_is_told(tmp_path: Path) -> None:
    from dissector.errors import UserError
    from dissector.parallel import write_in_order

    def work(blocks: Iterable[int]) -> Iterator[bytes]:
        for block in blocks:
            if block == 7:
                raise ValueError("seven")
            yield bytes([block]) * 1000
            yield b""

    blocks = range(20)
    with pytest.raises(OSError, match="space"), Path("/dev/full").open("wb", buffering=0) as full:
        write_in_order(full, [1, 2, 3, 4], work, 2)
    with (
        pytest.raises(UserError, match=r"ended early.*taskset"),
        (tmp_path / "o").open("wb") as file,
    ):
        write_in_order(file, blocks, work, 2)
