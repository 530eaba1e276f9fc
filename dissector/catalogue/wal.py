"""The header of a WAL page, which physical replication shows wherever a page begins in the stream.

Numbers are in the byte order of the server's machine, which the magic number tells. Sources: the
manual's "WAL Internals"; the layout is that of XLogPageHeaderData and XLogLongPageHeaderData.
"""

from __future__ import annotations

from types import MappingProxyType

from dissector.spec import Field, Kind

PAGE_SIZE = 8192
"""Bytes of a WAL page unless the server was built with another --with-wal-blocksize."""

SHORT, LONG = 24, 40
"""Bytes of a header; the first page of a segment file has the long one."""

LONG_HEADER = 2
"""The bit of ``info`` that announces a long header."""

_U16 = Kind("wal_uint16", "uint16, the server's byte order", width=2)
_U32 = Kind("wal_uint32", "uint32, the server's byte order", width=4)
_U64 = Kind("wal_uint64", "uint64, the server's byte order", width=8)
_LSN = Kind("wal_lsn", "uint64 (XLogRecPtr), the server's byte order", width=8, show="lsn")
_PAD = Kind("wal_padding", "4 bytes", width=4, show="bytes")

MAGICS = MappingProxyType(
    {
        0xD097: "PostgreSQL 10",
        0xD098: "PostgreSQL 11",
        0xD101: "PostgreSQL 12",
        0xD106: "PostgreSQL 13",
        0xD10D: "PostgreSQL 14",
        0xD110: "PostgreSQL 15",
        0xD113: "PostgreSQL 16",
        0xD116: "PostgreSQL 17",
        0xD118: "PostgreSQL 18",
    }
)
"""The number that a page begins with -> who writes it."""

HEADER = (
    Field("magic", _U16, "Number of the WAL format's version.", values=MAGICS),
    Field(
        "info",
        _U16,
        "What is special about the page.",
        flags=MappingProxyType(
            {
                1: "begins inside a record",
                2: "long header",
                4: "backup blocks may be dropped",
                8: "overwrites a record that was not finished",
            }
        ),
    ),
    Field("timeline", _U32, "Timeline that the page was written on."),
    Field("page_lsn", _LSN, "LSN of the page's first byte."),
    Field("remaining_length", _U32, "Bytes of a record begun earlier that come after the header."),
    Field("padding", _PAD, "Unused, so that what follows is aligned."),
)
"""The fields of every page header in order: 24 bytes."""

LONG_HEADER_FIELDS = (
    Field("system_identifier", _U64, "The cluster's identifier, as in IDENTIFY_SYSTEM."),
    Field("segment_size", _U32, "Bytes of a WAL segment file."),
    Field("page_size", _U32, "Bytes of a WAL page."),
)
"""What a long header has more: 16 bytes."""
