"""Captures that become shorter while they are read: what came before is there, and one finding."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dissector.errors import CaptureError
from dissector.view import open_capture

CAPTURES = Path(__file__).parent.parent / "captures"

READ = """
import json, os, sys
from dissector.capture import far, open_capture_files, tcp
from dissector.index import Index, Indexer, Options

path, left, after, processes = sys.argv[1], *map(int, sys.argv[2:])
far.ENOUGH = 0
far.may_be_far.__globals__["processors"] = lambda: processes
batch, done = tcp.Streams._batch, [0]

def cutting(self, frames, last):
    done[0] += 1
    if done[0] == after:
        os.truncate(path, left)
    return batch(self, frames, last)

tcp.Streams._batch = cutting
with open_capture_files([path], batch_frames=8) as files:
    index = Index()
    for each in Indexer(files, Options(), fast=processes > 1).batches():
        index.extend(each)
print(json.dumps({
    "length": index.rows.column("length").tolist(),
    "frame": index.rows.column("frame").tolist(),
    "findings": [(f.code, f.text) for f in index.file_findings],
}))
"""
"""Reads a capture that is cut to so many bytes before a batch is looked at. A process of its own: at the
worst, it is ended by SIGBUS."""


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("left", ["nothing", "half a page", "half"])
@pytest.mark.parametrize("name", ["pg18-proto1.pcap", "tour.pcapng"])
def test_what_was_read_before_the_cut_stays(
    name: str, left: str, processes: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    shutil.copy(CAPTURES / name, path)
    with open_capture([str(path)]) as capture:
        whole = capture.read()
        length = whole.index.rows.column("length").tolist()
        frame = whole.index.rows.column("frame").tolist()
    bytes_left = {"nothing": 0, "half a page": 2048, "half": path.stat().st_size // 2}[left]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(bytes_left), "4", str(processes)],
        cwd=CAPTURES.parent, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    found = json.loads(done.stdout)
    assert [code for code, _ in found["findings"]] == ["file-cut"]
    assert f"became shorter while it was read, to {bytes_left:,} bytes" in found["findings"][0][1]
    count = len(found["length"])
    assert count < len(length)
    # three batches were looked at before the file was cut; the bytes of the last may be gone
    assert count >= sum(1 for each in frame if each <= 16)
    assert found["length"][: count - 1] == length[: count - 1]
    assert found["frame"][: count - 1] == frame[: count - 1]


@pytest.mark.parametrize("name", ["pg18-proto1.pcap", "tour.pcapng"])
def test_what_is_gone_when_it_is_opened_is_told(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    shutil.copy(CAPTURES / name, path)
    with open_capture([str(path)]) as capture:
        capture.read()
        before = capture.message(1).data
        os.truncate(path, path.stat().st_size // 2)
        assert capture.message(1).data == before
        with pytest.raises(CaptureError, match="became shorter while it was read"):
            capture.message(capture.count)


WRITE = """
import os, sys
from dissector import cli, parallel, runs

def cutting(out, blocks, work, **given):
    os.truncate(sys.argv[1], 100)
    parallel.write_in_order(out, blocks, work, {processes}, **given)

runs.write_in_order = cutting
cli.main(["list", sys.argv[1]])
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_capture_that_is_cut_while_its_messages_are_written(
    processes: int, tmp_path: Path
) -> None:
    path = tmp_path / "cut.pcap"
    shutil.copy(CAPTURES / "pg18-proto4.pcap", path)
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", WRITE.format(processes=processes), str(path)],
            cwd=CAPTURES.parent, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False,
        )  # fmt: skip
    assert done.returncode == 1, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("pgdissect: ")
    assert "cut.pcap: became shorter while it was read; copy it" in line
