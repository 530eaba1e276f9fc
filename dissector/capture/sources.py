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
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from dissector.capture.frames import FILE_SHIFT
from dissector.errors import CaptureError, ShorterError
from dissector.findings import Finding, finding
from dissector.text import visible

STDIN = "-"
"""The path that means standard input."""

BLOCK = 1 << 20
"""Bytes read at a time while spooling: large enough that the loop costs nothing."""

SPOOL_LIMIT = 1 << 38
"""Decompressed bytes at which spooling stops (256 GiB): a small file can expand without end."""

_GZIP, _ZSTD, _LZ4, _LZ4_OLD = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x04\x22\x4d\x18",
    b"\x02\x21\x4c\x18",
)

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
    growing: another program still writes the file; `grow` maps what it appended.
    data: the mapping; u1, u2, u4, u8: read-only arrays over it in which item i is the (big-endian)
    number that begins at byte i, so that unaligned fields are gathered with one index array.
    cut: the finding of a compressed stream that ends early, else None.
    """

    def __init__(
        self,
        number: int,
        name: str,
        spool_limit: int = SPOOL_LIMIT,
        *,
        label: str = "",
        growing: bool = False,
    ) -> None:
        self.number = number
        self.growing = growing
        self._file: int = -1
        self.base = number << FILE_SHIFT
        self.name = name
        self.label = label or ("standard input" if name == STDIN else visible(name))
        self.compression = ""
        self.cut: Finding | None = None
        self.spooled = False
        with _errors(self.label), contextlib.ExitStack() as stack:
            file = stack.enter_context(_open(name, self.label))
            head = _head(file)
            plain = _unpacker(head)
            if plain or not _seekable(file):
                self.compression = plain[0] if plain else ""
                file = stack.enter_context(self._spool(file, head, plain, spool_limit))
            self.size = os.fstat(file.fileno()).st_size
            if not self.size:
                raise CaptureError(self._empty())
            self._map(file.fileno())
            self.kind = self._kind(bytes(self.view[:16]))
            if growing:
                self._file = os.dup(file.fileno())
                weakref.finalize(self, os.close, self._file)

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
        if not self.spooled and min(stop, self.size) > self.data.size():
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
            return (
                "standard input: no bytes came; pipe a capture in: tcpdump -w - | pgdissect list -"
            )
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

    def _spool(
        self, file: IO[bytes], head: bytes, plain: tuple[str, Unpack] | None, limit: int
    ) -> IO[bytes]:
        out = tempfile.TemporaryFile(prefix="pgdissect-")  # noqa: SIM115 - the caller closes it
        self.spooled = True
        total = 0
        blocks = _blocks(file, head)
        try:
            for block in plain[1](blocks) if plain else blocks:
                if not total:
                    self._kind(block[:16])  # before what has no end fills the disk
                out.write(block)
                total += len(block)
                if total > limit:
                    self.cut = finding(
                        "file-cut", total, file=self.label, what=f"unpacking stops at {limit} bytes"
                    )
                    break
        except _CutError as cut:
            what = f"the {self.compression} data {cut}"
            self.cut = finding("file-cut", total, file=self.label, what=what)
        except OSError as error:
            out.close()
            raise CaptureError(
                f"{self.label}: cannot spool to {tempfile.gettempdir()}: {error.strerror}; "
                "point TMPDIR at a folder with room"
            ) from error
        out.flush()
        return out


def is_plain_file(name: str) -> bool:
    """Whether the capture can be mapped as it is: a regular file that is not compressed."""
    if name == STDIN:
        return False
    with _errors(visible(name)), _open(name, visible(name)) as file:
        return _seekable(file) and _unpacker(_head(file)) is None


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
        plain = _unpacker(head)
        source = _blocks(file, head)
        try:
            yield from plain[1](source) if plain else source
        except _CutError as cut:
            kind = plain[0] if plain else ""
            raise CaptureError(
                f"{label}: the {kind} data {cut}; what came before is shown"
            ) from cut


Unpack = Callable[[Iterator[bytes]], Iterator[bytes]]


class _CutError(Exception):
    """Compressed data ends early or is damaged; what came out before is good."""


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


def _open(name: str, label: str) -> IO[bytes]:
    if name != STDIN:
        return Path(name).open("rb")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise CaptureError(
            f"{label}: a terminal, or closed; pipe a capture in: tcpdump -w - | pgdissect list -"
        )
    return os.fdopen(os.dup(stream.fileno()), "rb")


def _seekable(file: IO[bytes]) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _head(file: IO[bytes]) -> bytes:
    """The first bytes, read from the stream; a regular file is rewound."""
    head = file.read(4)
    if _seekable(file):
        file.seek(0)
        return head
    return head


def _blocks(file: IO[bytes], head: bytes) -> Iterator[bytes]:
    if head and not _seekable(file):
        yield head
    read = getattr(file, "read1", file.read)  # what a pipe has, without waiting for a whole block
    while block := read(BLOCK):
        yield block


def _unpacker(head: bytes) -> tuple[str, Unpack] | None:
    if head.startswith(_GZIP):
        return "gzip", _gunzip
    if head == _ZSTD or (len(head) == 4 and head[1:] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return "zstd", _unzstd
    if head in (_LZ4, _LZ4_OLD):
        return "lz4", _unlz4
    return None


def _chunks(
    make: Callable[[], Any], errors: type[Exception], step: int, blocks: Iterator[bytes]
) -> Iterator[bytes]:
    """Members one after the other through decompressor objects with eof and unused_data.

    step: packed bytes given at once, so that what hostile data unpacks to at once stays below 128 MiB.
    """
    machine, begun = make(), False
    for rest in (block[i : i + step] for block in blocks for i in range(0, len(block), step)):
        while rest:
            if not begun and not rest.strip(b"\0"):
                break  # zero padding after the last member
            try:
                out = machine.decompress(rest)
            except errors as error:
                raise _CutError(f"is damaged ({error})") from error
            begun = True
            if out:
                yield out
            rest = b""
            if machine.eof:
                rest, machine, begun = machine.unused_data, make(), False
    if begun:
        raise _CutError("ends early")


def _gunzip(blocks: Iterator[bytes]) -> Iterator[bytes]:
    return _chunks(lambda: zlib.decompressobj(wbits=31), zlib.error, 1 << 16, blocks)


def _unzstd(blocks: Iterator[bytes]) -> Iterator[bytes]:
    import zstandard

    make = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
    return _chunks(make, zstandard.ZstdError, 1 << 12, blocks)


def _unlz4(blocks: Iterator[bytes]) -> Iterator[bytes]:
    import lz4.frame

    return _chunks(lz4.frame.LZ4FrameDecompressor, RuntimeError, 1 << 18, blocks)
