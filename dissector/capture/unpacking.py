"""Compressed captures: told by their first bytes, unpacked as they come.

RFC 1952 gzip, RFC 8878 Zstandard, the LZ4 frame format.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

_GZIP, _ZSTD, _LZ4, _LZ4_OLD = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x04\x22\x4d\x18",
    b"\x02\x21\x4c\x18",
)

Unpack = Callable[[Iterator[bytes]], Iterator[bytes]]
"""Gives what packed blocks hold, as they come; b"" stands for a block that has not come yet."""


class CutError(Exception):
    """Compressed data ends early or is damaged; what came out before is good."""


def unpacker(head: bytes) -> tuple[str, Unpack] | None:
    """What the first four bytes tell: the compression's name and what unpacks it; None: not compressed."""
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
    for rest in (block[i : i + step] for block in blocks for i in range(0, len(block) or 1, step)):
        if not rest:
            yield b""
        while rest:
            if not begun and not rest.strip(b"\0"):
                break  # zero padding after the last member
            try:
                out = machine.decompress(rest)
            except errors as error:
                raise CutError(f"is damaged ({error})") from error
            begun = True
            if out:
                yield out
            rest = b""
            if machine.eof:
                rest, machine, begun = machine.unused_data, make(), False
    if begun:
        raise CutError("ends early")


def _gunzip(blocks: Iterator[bytes]) -> Iterator[bytes]:
    return _chunks(lambda: zlib.decompressobj(wbits=31), zlib.error, 1 << 16, blocks)


def _unzstd(blocks: Iterator[bytes]) -> Iterator[bytes]:
    import zstandard

    make = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
    return _chunks(make, zstandard.ZstdError, 1 << 12, blocks)


def _unlz4(blocks: Iterator[bytes]) -> Iterator[bytes]:
    import lz4.frame

    return _chunks(lz4.frame.LZ4FrameDecompressor, RuntimeError, 1 << 18, blocks)
