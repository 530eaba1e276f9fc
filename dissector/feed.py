"""Indexing in a process of its own: what the interface shows grows while it stays quick.

    python -m dissector.feed

reads a `Request` from standard input, indexes, and writes parts to standard output. A part is its
length (8 bytes, big endian) and a pickle of (kind, what): "known" (what the files taught,
`CaptureFiles.learn`), "batch" (`dissector.index.Batch`), "error" (one line for people), "end". Only
this program's own two processes speak it. Afterwards a byte ``.`` on standard input says that a file
which grows is finished; the end of standard input that the other process is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from .errors import UserError
from .index import Indexer, Options

HEAD = struct.Struct(">Q")
"""What stands before each part."""

TOGETHER = "--together"
"""Given where the thread that starts this program lasts as long as its process."""

LARGEST = 1 << 32
"""No part is longer: a length beyond it is not one."""

POLL = 0.1
"""Seconds between looks at a file that grows."""

HEADER = 24
"""Bytes from which on a file can be told to be a capture."""


@dataclass(frozen=True)
class Request:
    """What to index. labels: names of the files for people, where the paths do not say it. growing:
    the one file is still written."""

    paths: list[str]
    options: Options
    labels: list[str]
    growing: bool = False


def write_part(stream: IO[bytes], kind: str, what: Any) -> None:
    """Write one part."""
    data = pickle.dumps((kind, what), pickle.HIGHEST_PROTOCOL)
    stream.write(HEAD.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_part(stream: IO[bytes]) -> tuple[str, Any] | None:
    """Read one part; None at the end, also inside a part."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    (length,) = HEAD.unpack(head)
    if length > LARGEST:
        return None
    data = stream.read(length)
    if len(data) < length:
        return None
    kind, what = pickle.loads(data)
    return str(kind), what


class _Other:
    """What the other process says on standard input."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.finished = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while byte := self._stream.read(1):
            if byte == b".":
                self.finished.set()
        os._exit(0)  # nobody is there any more to whom the rest could be said

    def still_written(self) -> bool:
        """Wait a little; whether the file may still grow."""
        return not self.finished.wait(POLL)


def serve(request: Request, out: IO[bytes], still_written: Callable[[], bool]) -> None:
    """Index what `request` names and write the parts to `out`."""
    from .capture import open_capture_files

    try:
        if request.growing:
            _await_header(request.paths[0], still_written)
        with open_capture_files(
            request.paths,
            labels=request.labels,
            growing=request.growing,
            follow=still_written if request.growing else None,
        ) as files:
            told = (0, 0)
            for batch in Indexer(files, request.options).batches():
                interfaces, sections, comments = files.known()
                known = (len(interfaces) + sum(map(len, sections)), len(comments))
                if known != told and (known[0] != told[0] or batch.last):
                    write_part(out, "known", (interfaces, sections, comments))
                    told = known
                if batch.last or len(batch.columns["frame"]) or batch.pieces or batch.connections:
                    write_part(out, "batch", batch)
        write_part(out, "end", None)
    except UserError as error:
        write_part(out, "error", str(error))


def _await_header(path: str, still_written: Callable[[], bool]) -> None:
    """Wait until the file is long enough to say what it is."""
    while still_written():
        try:
            if os.stat(path).st_size >= HEADER:  # noqa: PTH116 (a path under /dev/fd)
                return
        except OSError:  # the recorder has not made it yet
            time.sleep(POLL)


def _end_with_the_other() -> None:
    """Let the kernel end this process with the one that started it: a paused one sees no end of a pipe."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG, see prctl(2)


def main() -> None:
    """The program: see the module."""
    if TOGETHER in sys.argv[1:]:
        _end_with_the_other()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 20)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the parts
    stdin = sys.stdin.buffer
    part = read_part(stdin)
    if part is None:
        raise SystemExit("this program is started by pgdissect, with a request on standard input")
    other = _Other(stdin)
    try:
        serve(part[1], out, other.still_written)
    except BrokenPipeError:
        os._exit(0)
    out.flush()
    os._exit(0)  # threads and mappings go with the process; taking them down takes longer


if __name__ == "__main__":
    main()
