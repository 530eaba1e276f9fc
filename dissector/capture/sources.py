"""One capture file as bytes in memory: mapped, or spooled to a temporary file first.

Compression is told by content (RFC 1952 gzip, RFC 8878 Zstandard, the LZ4 frame format), never by the
name. Compressed input and input that cannot seek goes to an unnamed temporary file, which the system
deletes when the program ends, however it ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from dissector.capture.frames import FILE_SHIFT
from dissector.capture.spool import Spool, read_blocks, read_some
from dissector.capture.unpacking import CutError, unpacker
from dissector.errors import CaptureError, ShorterError
from dissector.findings import Finding
from dissector.progress import waiting
from dissector.text import visible

STDIN = "-"
"""The path that means standard input."""

SPOOL_LIMIT = 1 << 38
"""Decompressed bytes at which spooling stops (256 GiB): a small file can expand without end."""

MAGICS = {
    bytes.fromhex(text): kind
    for text, kind in (
        ("a1b2c3d4", "pcap"),
        ("d4c3b2a1", "pcap"),
        ("a1b23c4d", "pcap"),
        ("4d3cb2a1", "pcap"),
        ("a1b2cd34", "pcap"),
        ("34cdb2a1", "pcap"),
        ("0a0d0d0a", "pcapng"),
    )
}
"""First four bytes -> format."""

_FOREIGN = (
    (b"snoop\0", "a Solaris snoop file; convert it with: editcap FILE NEW.pcapng"),
    (b"GMBU", "a Network Monitor file; convert it with: editcap FILE NEW.pcapng"),
    (b"RTSS", "a Network Monitor file; convert it with: editcap FILE NEW.pcapng"),
    (b"\xfd7zXZ\0", "xz data; unpack it with: xz -d FILE"),
    (b"BZh", "bzip2 data; unpack it with: bunzip2 FILE"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x7fELF", "a program; name a file that tcpdump or Wireshark wrote"),
)


class Source:
    """The bytes of one capture file.

    number: its place among the files. name: as the user gave it. kind: "pcap" or "pcapng".
    compression: "", "gzip", "zstd" or "lz4". size: bytes after decompression.
    growing: another program still writes the file; `grow` maps what it appended. live: so do it with a
    stream, instead of waiting for its end. spool: where a stream and what was unpacked go.
    data: the mapping; u1, u2, u4, u8: read-only arrays over it in which item i is the (big-endian)
    number that begins at byte i, so that unaligned fields are gathered with one index array.
    """

    def __init__(
        self,
        number: int,
        name: str,
        spool_limit: int = SPOOL_LIMIT,
        *,
        label: str = "",
        growing: bool = False,
        live: bool = False,
    ) -> None:
        self.number = number
        self._file: int = -1
        self.base = number << FILE_SHIFT
        self.name = name
        self.label = label or ("standard input" if name == STDIN else visible(name))
        self.compression = ""
        self.spool: Spool | None = None
        with _errors(self.label), contextlib.ExitStack() as stack:
            with _waiting(name, self.label):
                file = stack.enter_context(_open(name, self.label))
                head = _head(file)
            packed, regular = unpacker(head), _seekable(file)
            if packed or not regular:
                self.compression = packed[0] if packed else ""
                self.spool = Spool(
                    file, b"" if regular else head, packed, self.label, spool_limit, self._kind
                )
                stack.callback(self.spool.close)
                if live and not regular:
                    self.spool.begin()
                else:
                    self.spool.all()
                file = self.spool.file
            self.size = os.fstat(file.fileno()).st_size
            if not self.size:
                raise CaptureError(self._empty())
            self._map(file.fileno())
            self.kind = self._kind(bytes(self.view[:16]))
            if growing or self.live:
                self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)
            if self.live:
                stack.pop_all()

    @property
    def live(self) -> bool:
        """Whether it is a stream of which more may come: `more` waits for it."""
        return self.spool is not None and not self.spool.ended

    @property
    def cut(self) -> Finding | None:
        """What was wrong at the end of a stream or of compressed data."""
        return self.spool.cut if self.spool is not None else None

    def more(self) -> bool:
        """Wait for more of a stream; whether still more may come."""
        return self.spool is not None and self.spool.more()

    def close(self) -> None:
        """Take no more of a stream."""
        if self.live:
            assert self.spool is not None
            self.spool.close()

    def _map(self, file: int) -> None:
        self.data = mmap.mmap(file, self.size, access=mmap.ACCESS_READ)
        self.view = memoryview(self.data)
        self.u1 = np.frombuffer(self.data, np.uint8)
        self.u2, self.u4, self.u8 = self.numbers(">u2"), self.numbers(">u4"), self.numbers(">u8")

    def grow(self) -> bool:
        """Map what was appended to a growing file; False when there is nothing new."""
        if self._file < 0:
            return False
        size = os.fstat(self._file).st_size
        if size <= self.size:
            return False
        self.size = size
        self._map(self._file)
        return True

    def need(self, stop: int, at: int = -1) -> None:
        """Raises ShorterError where bytes before `stop` are not in the file any more; at: the place that
        it tells (-1: `stop`).

        To touch a mapped page behind the end of its file ends the process (SIGBUS). Whoever is about to
        touch bytes asks here first: readers and streams for each batch, all others for each piece. What
        remains is a file that is cut in the milliseconds between, or cut and longer again.
        """
        if self.spool is None and min(stop, self.size) > self.data.size():
            raise ShorterError(self.label, self.number, stop if at < 0 else at)

    def numbers(self, dtype: str) -> np.ndarray[Any, Any]:
        """An array over the bytes whose item i is the number of `dtype` that begins at byte i."""
        return overlapping(self.data, self.size, dtype)

    def release(self, start: int, stop: int) -> None:
        """Tell the system that bytes start..stop are not needed soon: keeps resident memory flat."""
        page = mmap.PAGESIZE
        start, stop = -(-start // page) * page, stop // page * page
        if stop > start and hasattr(mmap, "MADV_DONTNEED"):
            with contextlib.suppress(OSError, ValueError):
                self.data.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def _empty(self) -> str:
        if self.compression:
            return f"{self.label}: nothing inside the {self.compression} data; check the file"
        if self.name == STDIN:
            return "standard input: no bytes came; pipe a capture in: tcpdump -U -w - | pgdissect list -"
        return f"{self.label}: the file is empty; was the recording flushed (tcpdump -U) or copied?"

    def _kind(self, head: bytes) -> str:
        """The format that `head`, the first bytes, tell of. Raises CaptureError for no capture."""
        for magic, kind in MAGICS.items():
            if head[:4] == magic[: len(head)]:
                return kind
        for begin, what in _FOREIGN:
            if head.startswith(begin):
                raise CaptureError(f"{self.label}: {what}")
        text = all(32 <= c < 127 or c in b"\r\n\t" for c in head)
        begins = f'"{visible(head.decode("ascii"))}"' if text else head[:8].hex(" ")
        raise CaptureError(
            f"{self.label}: not a capture (it begins with {begins}); "
            "give a pcap or pcapng file, plain or packed with gzip, zstd or lz4"
        )


def is_plain_file(name: str) -> bool:
    """Whether the capture can be mapped as it is: a regular file that is not compressed."""
    if (
        name == STDIN or Path(name).is_fifo()
    ):  # to open it would let its writer go on, and lose that
        return False
    with _errors(visible(name)), _open(name, visible(name)) as file:
        return _seekable(file) and unpacker(_head(file)) is None


def open_input() -> IO[bytes]:
    """Standard input, as a file of its own. Raises CaptureError where it is a terminal."""
    return _open(STDIN, "standard input")


def plain_blocks(name: str, opened: IO[bytes] | None = None) -> Iterator[bytes]:
    """The bytes of a capture, unpacked where it is compressed, as they come. Raises CaptureError.

    opened: read this in place of the file called `name`; it is closed at the end.
    Compressed data that ends early or is damaged ends with a CaptureError after what came out.
    """
    label = "standard input" if name == STDIN else visible(name)
    with _errors(label), opened or _open(name, label) as file:
        head = _head(file)
        packed = unpacker(head)
        source = read_blocks(file, b"" if _seekable(file) else head)
        try:
            yield from packed[1](source) if packed else source
        except CutError as cut:
            kind = packed[0] if packed else ""
            raise CaptureError(
                f"{label}: the {kind} data {cut}; what came before is shown"
            ) from cut


def overlapping(data: Any, size: int, dtype: str) -> np.ndarray[Any, Any]:
    """An array over `data` (`size` bytes) whose item i is the `dtype` number that begins at byte i."""
    width = np.dtype(dtype).itemsize
    if size < width:
        return np.zeros(0, dtype)
    return np.ndarray((size - width + 1,), dtype, buffer=data, strides=(1,))


@contextlib.contextmanager
def _errors(label: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        text = f"{label}: no such file; check the path"
    except PermissionError:
        text = f"{label}: no permission to read it; try: sudo chmod a+r FILE"
    except IsADirectoryError:
        text = f"{label}: a directory; name the capture files in it"
    except CaptureError:
        raise
    except (OSError, ValueError) as error:
        text = f"{label}: cannot be read ({visible(str(error))}); check the path and the disk"
    else:
        return
    raise CaptureError(text)


def _waiting(name: str, label: str) -> contextlib.AbstractContextManager[None]:
    """Say that a pipe is waited for: opening it ends when another program does so, too."""
    if name != STDIN and not Path(name).is_fifo():
        return contextlib.nullcontext()
    return waiting(f"pgdissect: {label}: waiting for a program that writes to it; Ctrl+C ends")


def _open(name: str, label: str) -> IO[bytes]:
    if not name:  # a variable of the shell that is not set; Path("") would be the current directory
        raise CaptureError(
            "a capture's name is empty; give the file's name, or - for standard input"
        )
    if name != STDIN:
        return Path(name).open("rb", buffering=0)
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise CaptureError(
            f"{label}: a terminal, or closed; pipe a capture in: tcpdump -U -w - | pgdissect list -"
        )
    return os.fdopen(os.dup(stream.fileno()), "rb", buffering=0)


def _seekable(file: IO[bytes]) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _head(file: IO[bytes]) -> bytes:
    """The first bytes, read from the stream; a regular file is rewound."""
    head = b""
    while len(head) < 4 and (more := read_some(file, 4 - len(head))):
        head += more
    if _seekable(file):
        file.seek(0)
    return head
