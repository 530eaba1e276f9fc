"""Messages of up to a gigabyte: never in memory, and what stands around them is intact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest
import transforms as t

HUGE = 1 << 26
"""From here on a message is not kept (dissector.sides.HUGE)."""

GIGABYTE = 0x3FFFFFFF - 4
"""What a message may hold at most: PostgreSQL allocates no more for one."""

ROOM = 300 << 20
"""Memory that reading may take beside the file: private, writable pages."""

LOGIN = b"\0\0\0\x10\0\3\0\0user\0u\0\0"
LOGIN = pack(">I", len(LOGIN)) + LOGIN[4:]
READY = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\5I"
ASKED = b"Q\0\0\0\x15COPY t TO STDOUT\0"
BEFORE = b"H\0\0\0\7\0\0\0" + b"d\0\0\0\x081\t2\n"
AFTER = b"d\0\0\0\x083\t4\n" + b"c\0\0\0\4" + b"C\0\0\0\x0bCOPY 3\0" + b"Z\0\0\0\5I"


def sparse(path: Path, size: int, frame: int) -> None:
    """A capture of COPY whose second row is `size` bytes of zeros in frames of `frame` bytes: holes in
    the file, where the file system has them."""
    around = t.conversation(
        [
            (0, LOGIN),
            (1, READY),
            (0, ASKED),
            (1, BEFORE),
            (1, b"d" + pack(">I", size + 4)),
            (1, AFTER),
        ]
    )
    head = next(i for i, p in enumerate(around) if p.payload[:1] == b"d" and len(p.payload) == 5)
    number, frames = t.frames(around)
    moved = t.without(around, lambda i, p: i <= head)
    first = around[head]
    with path.open("wb") as file:
        file.write(t.pcap((number, frames[: head + 1]), nano=True))
        done = 0
        while done < size:
            step = min(frame, size - done)
            empty = t.replace(first, seq=first.end + done & t.MASK, payload=b"")
            before = t.ethernet(t.ip_bytes(empty, total=0))[: 14 + 20 + 32]
            file.write(pack("<IIII", first.time // 10**9, first.time % 10**9, 66 + step, 66 + step))
            file.write(before)
            file.seek(step, os.SEEK_CUR)
            done += step
        after = [
            t.replace(
                p,
                seq=(p.seq + size & t.MASK) if p.sport == first.sport else p.seq,
                ack=(p.ack + size & t.MASK) if p.sport != first.sport else p.ack,
            )
            for p in moved
        ]
        file.write(t.pcap(t.frames(after), nano=True)[24:])


BOUND = """
import re, resource, sys
held = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (held + {room}, held + {room}))
sys.argv = ["pgdissect", *sys.argv[1:]]
from dissector.cli import main
sys.exit(main())
"""


def bounded(*arguments: str) -> bytes:
    """What the program prints, in a process that cannot take more than ROOM of memory."""
    code = BOUND.format(room=ROOM)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


NAMES = ["StartupMessage", "AuthenticationOk", "ReadyForQuery", "Query", "CopyOutResponse", "CopyData",
         "CopyData", "CopyData", "CopyDone", "CommandComplete", "ReadyForQuery"]  # fmt: skip


def holds(path: Path, size: int) -> None:
    """List and export tell each message; the long one has one finding, the others none."""
    lines = bounded("list", str(path)).decode().splitlines()
    assert [line.split("\t")[3] for line in lines] == NAMES
    rows = [
        json.loads(line) for line in bounded("export", "--format", "ndjson", str(path)).splitlines()
    ]
    assert [row["message"] for row in rows] == NAMES
    assert [row["length"] for row in rows] == [16, 9, 6, 22, 8, 9, size + 5, 9, 5, 12, 6]
    assert "'1', '2'" in rows[5]["summary"]
    assert "'3', '4'" in rows[7]["summary"]
    found = [[f["code"] for f in row["findings"]] for row in rows]
    assert found == [[]] * 6 + [["huge-message"]] + [[]] * 4
    assert f"of {size + 5} bytes" in rows[6]["findings"][0]["text"]


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)


@pytest.mark.parametrize("frame", [60_000, 1_000_000], ids=["usual frames", "long frames"])
def test_a_message_just_above_the_bound(frame: int, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    sparse(path, HUGE + 5, frame)
    holds(path, HUGE + 5)


@pytest.mark.skipif("PGDISSECT_SLOW" not in os.environ, reason="slow: set PGDISSECT_SLOW=1")
def test_a_message_of_a_gigabyte(tmp_path: Path) -> None:
    """Takes long: read only where the environment says PGDISSECT_SLOW=1."""
    path = tmp_path / "made.pcap"
    sparse(path, GIGABYTE, 1_000_000)
    holds(path, GIGABYTE)
