"""An opened capture whose index another process makes: for programs that show while it grows."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, Full, Queue
from time import perf_counter
from typing import IO, Any

from .capture import open_capture_files
from .capture.sources import STDIN, is_plain_file, open_input, plain_blocks
from .errors import CaptureError
from .feed import HEADER, TOGETHER, Request, read_part, write_part
from .findings import finding
from .index import Index, Options
from .text import visible
from .view import Capture

WAITING = 8
"""Parts that wait to be taken; then the other process waits too."""


class FedCapture(Capture):
    """A `Capture` that is indexed in a process of its own. Call `take` now and then.

    What cannot be mapped as it is (standard input, compressed files) is unpacked by a thread to a
    temporary file, which both processes read while it grows. follow: the (one) file is still written
    by another program; reading goes on at its end until `finish`.

    paused: see `pause`. recorder: what writes the file, if it is known: something with `running` and
    `said()`. failed: why it ended, one line for people, or "".
    """

    def __init__(
        self, paths: Sequence[str], options: Options | None = None, *, follow: bool = False
    ) -> None:
        self._prepare(paths, options, Index())
        self.paused = False
        self.recorder: Any = None
        self.failed = ""
        self.following = follow
        self._parts: Queue[tuple[str, Any]] = Queue(WAITING)
        self._closed = threading.Event()
        self._opened = False
        self._ended = False
        self._unpacking: threading.Thread | None = None
        self._cut = ""
        self._spool: IO[bytes] | None = None
        # Taken now: the program may want its standard input for the keyboard afterwards.
        self._input = open_input() if STDIN in self.paths else None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the capture)
        if follow and len(self.paths) > 1:
            raise CaptureError(
                "one capture can be followed while it is written; name only that one"
            )
        plain = follow or all(is_plain_file(path) for path in self.paths)
        if plain and not follow:
            self._open()
        self._start(plain)

    def _start(self, plain: bool) -> None:
        places, labels, handles = [], [], []
        for path in self.paths:
            if plain or is_plain_file(path):
                places.append(path)
            else:
                if len(self.paths) > 1:
                    raise CaptureError(
                        f"{visible(path)}: packed captures and standard input are opened alone; "
                        "unpack them first, or merge them with: mergecap -w NEW.pcapng FILE..."
                    )
                self._spool = tempfile.NamedTemporaryFile(prefix="pgdissect-")  # noqa: SIM115
                handle = self._spool.fileno()
                handles.append(handle)
                places.append(f"/dev/fd/{handle}")
            labels.append("standard input" if path == STDIN else visible(path))
        self._places, self._labels = places, labels
        growing = self.following or self._spool is not None
        home = str(Path(__file__).parent.parent)
        lasting = threading.current_thread() is threading.main_thread()
        together = [TOGETHER] if lasting else []
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dissector.feed", *together],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=handles,
            start_new_session=True,  # Ctrl+C in the terminal is for the interface
            env={**os.environ, "PYTHONPATH": os.pathsep.join(
                p for p in (home, os.environ.get("PYTHONPATH", "")) if p)},
        )  # fmt: skip
        assert self._process.stdin is not None
        self._lock = threading.Lock()
        with contextlib.suppress(BrokenPipeError):
            request = Request(places, self.options, labels, growing)
            write_part(self._process.stdin, "request", request)
        threading.Thread(target=self._read, daemon=True).start()
        if self._spool is not None:
            self._unpacking = threading.Thread(target=self._unpack, daemon=True)
            self._unpacking.start()

    # Threads: they only move bytes.

    def _read(self) -> None:
        """Take parts from the pipe until its end."""
        assert self._process.stdout is not None
        last = ""
        try:
            while part := read_part(self._process.stdout):
                last = part[0]
                self._put(part)
        except Exception as error:  # whatever a broken pipe or part raises: told, not lost
            self._put(("error", f"the indexing process sent something broken: {error}"))
            return
        if last not in ("end", "error") and not self._closed.is_set():
            code = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
            why = said[-1] if said else f"exit code {code}"
            self._put(("error", f"the indexing process ended early: {visible(why, 300)}"))

    def _put(self, part: tuple[str, Any]) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(Full):
                self._parts.put(part, timeout=0.2)
                return

    def _unpack(self) -> None:
        """Move a stream's bytes to the temporary file."""
        assert self._spool is not None
        size = 0
        try:
            for block in plain_blocks(self.paths[0], self._input):
                if self._closed.is_set():
                    return
                self._spool.write(block)
                self._spool.flush()
                size += len(block)
        except CaptureError as error:
            self._cut = str(error)
        except OSError as error:
            room = f"cannot write to {tempfile.gettempdir()}: {error.strerror}"
            self._cut = f"{room}; point TMPDIR at a folder with room"
        except ValueError:  # closed meanwhile
            return
        if not size and not self._cut:
            self._cut = f"{self._labels[0]}: no bytes came; pipe a capture in: tcpdump -U -w - | pgdissect -"
        self.finish()

    # For the program.

    def batches(self, live: bool = False) -> Iterator[None]:
        """None: this process reads nothing itself. Whoever works on a capture as far as it came, as an
        export does, takes what is in the index; `take` brings more."""
        yield from ()

    def take(self, seconds: float = 0.02) -> bool:
        """Put into the index what has come, for about `seconds`; whether anything was."""
        until = perf_counter() + seconds
        changed = False
        while not self._ended:
            try:
                kind, what = self._parts.get_nowait()
            except Empty:
                break
            changed = True
            if kind == "error":
                self.failed = self._cut or what
                self._ended = True
            elif kind == "end":
                self._ended = True
                if self._cut:
                    self.index.file_findings.append(
                        finding("file-cut", file=self._labels[0], what=visible(self._cut, 300))
                    )
            else:
                self._accept(kind, what)
            if perf_counter() > until:
                break
        return changed

    def _accept(self, kind: str, what: Any) -> None:
        if not self._opened:
            self._open()
        if kind == "known":
            self.files.learn(what)
        elif kind == "batch":
            self.index.extend(what)

    def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        places = getattr(self, "_places", self.paths)
        growing = self.following or self._spool is not None
        labels = getattr(self, "_labels", [])
        self.files = open_capture_files(places, labels=labels, growing=growing)

    @property
    def busy(self) -> bool:
        """Whether more may come."""
        return not self._ended

    @property
    def bytes_known(self) -> int:
        """Bytes of the capture so far, packed ones unpacked."""
        if self._spool is not None:
            return os.fstat(self._spool.fileno()).st_size
        with contextlib.suppress(OSError):
            return sum(Path(path).stat().st_size for path in self._places)
        return self.index.size

    @property
    def unpacking(self) -> bool:
        """Whether bytes of a stream or of a compressed file still come."""
        return self._unpacking is not None and self._unpacking.is_alive()

    def finish(self) -> None:
        """The file does not grow any more: read to its end, then end."""
        self.following = False
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError, OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(b".")
            self._process.stdin.flush()

    def pause(self) -> None:
        """Let the other process rest; what came is taken, nothing is lost, `resume` goes on."""
        if self.busy and not self.paused:
            self.paused = True
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self.paused:
            self.paused = False
            self._process.send_signal(signal.SIGCONT)

    def wait(self, seconds: float = 60.0) -> None:
        """Take everything until the end (for tests and programs without a screen)."""
        until = perf_counter() + seconds
        pause = threading.Event()
        while self.busy and perf_counter() < until:
            if not self.take(1.0):
                pause.wait(0.01)

    def close(self) -> None:
        self._closed.set()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._errors.close()
        if self._opened:
            self.files.close()
        if self._spool is not None and not self.unpacking:
            self._spool.close()


__all__ = ["HEADER", "FedCapture"]
