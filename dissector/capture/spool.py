"""A stream on its way to a temporary file, where it can be mapped: whole, or as far as it has come."""

from __future__ import annotations

import contextlib
import select
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import IO, Any

from dissector.capture.unpacking import CutError, Unpack
from dissector.errors import CaptureError
from dissector.findings import Finding, finding

BLOCK = 1 << 20
"""Bytes read at a time: large enough that the loop costs nothing."""

BEGINNING = 24
"""Bytes that tell what a capture is."""

GATHER = 0.05
"""Seconds for which what comes is taken together: more cost less each, but are seen later."""

LAST = 1.0
"""Seconds after Ctrl+C in which the sender may write what it still holds, and end."""

TICK = 0.2
"""Seconds between looks whether Ctrl+C was pressed."""


def read_blocks(file: IO[bytes], head: bytes = b"", *, patient: bool = True) -> Iterator[bytes]:
    """The bytes of an unbuffered `file` behind `head`, as they come. patient: waits for them; otherwise
    b"" says that there are none yet."""
    if head:
        yield head
    while True:
        if not patient and not _has_bytes(file, 0):
            yield b""
        elif block := read_some(file, BLOCK):
            yield block
        else:
            return


def read_some(file: IO[bytes], size: int) -> bytes:
    """At most `size` bytes of an unbuffered `file`, b"" at its end. Waits for them, also where whoever gave
    it has made it one that does not (O_NONBLOCK)."""
    while (block := file.read(size)) is None:
        _has_bytes(file, None)
    return block


def _has_bytes(file: IO[bytes], seconds: float | None) -> bool:
    """Whether a read would not wait: for bytes or the end; waits so long for it, None: for ever."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0, seconds * 1000)))


class Spool:
    """The bytes of a stream in an unnamed temporary file, which the system deletes when the program ends,
    however it ends.

    file: that file. size: bytes in it so far. ended: no more come. cut: what was wrong at the end, else
    None. check: looks at the first bytes and may raise, before what has no end fills the disk.
    """

    def __init__(
        self, stream: IO[bytes], head: bytes, packed: tuple[str, Unpack] | None, label: str, limit: int,
        check: Callable[[bytes], object],
    ) -> None:  # fmt: skip
        self.file = tempfile.TemporaryFile(prefix="pgdissect-", buffering=0)  # noqa: SIM115
        self.size = 0
        self.ended = False
        self.cut: Finding | None = None
        self._stream, self._label, self._limit, self._check = stream, label, limit, check
        self._compression = packed[0] if packed else ""
        blocks = read_blocks(stream, head, patient=False)
        self._blocks = packed[1](blocks) if packed else blocks
        self._stop: float | None = None
        self._before: Any = None

    def begin(self) -> None:
        """Take the stream's beginning: what tells of the capture, and what comes with it."""
        self._hear()
        while self.size < BEGINNING and self.more():
            pass

    def all(self) -> None:
        """Take everything up to the end."""
        while self.more():
            pass

    def more(self) -> bool:
        """Wait for bytes, and take what comes within GATHER; whether more may come."""
        until = None
        while not self.ended:
            if self._take():
                until = until or monotonic() + GATHER
                if monotonic() > until:
                    break
            elif not self.ended and not self._wait(until):
                break
        return not self.ended

    def close(self) -> None:
        """Give everything back."""
        self._end()
        self.file.close()

    def _take(self) -> bool:
        """Take the next block, whether there is one now."""
        try:
            block = next(self._blocks, None)
        except CutError as cut:
            self._end(f"the {self._compression} data {cut}")
            return False
        except OSError as error:
            if not self.size:
                raise
            self._end(f"it cannot be read any further ({error.strerror})")
            return False
        if block is None:
            self._end()
        if not block:
            return False
        if not self.size:
            self._check(block[:16])
        try:
            _write(self.file, block)
        except OSError as error:
            raise CaptureError(
                f"{self._label}: cannot spool to {tempfile.gettempdir()}: {error.strerror}; "
                "point TMPDIR at a folder with room"
            ) from error
        self.size += len(block)
        if self.size > self._limit:
            self._end(f"unpacking stops at {self._limit} bytes")
        elif self._stop is not None and monotonic() > self._stop:
            self._end()
        return True

    def _wait(self, until: float | None) -> bool:
        """Wait for bytes or the end, until a time at most; whether they are there."""
        while True:
            now = monotonic()
            ends = [time - now for time in (until, self._stop) if time is not None]
            if _has_bytes(self._stream, min(ends, default=TICK)):
                return True
            if self._stop is not None and monotonic() > self._stop:
                self._end()
                return False
            if until is not None and monotonic() > until:
                return False

    def _end(self, what: str = "") -> None:
        self.ended = True
        self._stream.close()
        if what:
            self.cut = finding("file-cut", self.size, file=self._label, what=what)
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    # -- Ctrl+C ends the recording, not the work on it

    def _hear(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, *_: object) -> None:
        """The sender, which hears it too, gets time for its last words. A second time, it is for us."""
        self._stop = monotonic() + LAST
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, self._before or signal.default_int_handler)


def _write(file: IO[bytes], block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[file.write(rest) or 0 :]
