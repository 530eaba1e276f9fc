"""The data types of the wire, as the manual's "Message Data Types" and the format pages write them.

The manual of release 15 and later names what an integer of the logical replication messages holds
(``Int64 (XLogRecPtr)``); the manuals before, and the pages of the other layers in every release,
write the plain integer. So a meaning such as LSN has two kinds: one with the name and one without.

Numbers are big-endian. Source: the manual pages ``protocol-message-types.html`` and
``protocol-logicalrep-message-formats.html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.spec import Kind

UNTYPED = 14
"""The last release whose manual writes plain integers in the logical replication messages."""

# one byte
BYTE1 = Kind("byte1", "Byte1", width=1, show="char")
BYTE1_BOOL = Kind("byte1_bool", "Byte1", width=1, show="bool")
INT8 = Kind("int8", "Int8", width=1)
INT8_LETTER = Kind("int8_letter", "Int8", width=1, show="char")

# two bytes
INT16 = Kind("int16", "Int16", width=2, signed=True)
COUNT16 = Kind("count16", "Int16", width=2)
FORMATS_C = Kind("formats_c", "Int16[C]", rule="array", width=2)
FORMATS_R = Kind("formats_r", "Int16[R]", rule="array", width=2)
FORMATS_N = Kind("formats_n", "Int16[N]", rule="array", width=2)
FORMAT16 = Kind("format16", "Int16", width=2)

# four bytes
INT32 = Kind("int32", "Int32", width=4, signed=True)
COUNT32 = Kind("count32", "Int32", width=4)
OID = Kind("oid", "Int32 (Oid)", width=4, show="oid", older=((UNTYPED, "Int32"),))
XID = Kind("xid", "Int32 (TransactionId)", width=4, show="xid", older=((UNTYPED, "Int32"),))
OID_PLAIN = Kind("oid_plain", "Int32", width=4, show="oid")
XID_PLAIN = Kind("xid_plain", "Int32", width=4, show="xid")
VERSION32 = Kind("version32", "Int32", width=4, show="protocol")
BYTE4 = Kind("byte4", "Byte4", width=4, show="bytes")

# eight bytes
INT64 = Kind("int64", "Int64", width=8, signed=True)
LSN = Kind("lsn", "Int64 (XLogRecPtr)", width=8, show="lsn", older=((UNTYPED, "Int64"),))
TIME = Kind(
    "time",
    "Int64 (TimestampTz)",
    width=8,
    signed=True,
    show="timestamp",
    older=((UNTYPED, "Int64"),),
)
LSN_PLAIN = Kind("lsn_plain", "Int64", width=8, show="lsn")
TIME_PLAIN = Kind("time_plain", "Int64", width=8, signed=True, show="timestamp")
FULL_XID = Kind("full_xid", "Int64", width=8, show="full_xid")

# of any length
STRING = Kind("string", "String", rule="string", show="text")
BYTEN = Kind("byten", "Byten", rule="bytes", show="bytes")
TUPLE = Kind("tuple", "TupleData", rule="part", show="tuple", part="TupleData")

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "Byte1": "one byte",
        "Byte4": "four bytes",
        "Byten": "as many bytes as the meaning says, without a zero byte at the end",
        "Int8": "one byte as an integer",
        "Int16": "two bytes as an integer, the high byte first",
        "Int32": "four bytes as an integer, the high byte first",
        "Int64": "eight bytes as an integer, the high byte first",
        "Int16[C]": "as many Int16 as the count before it says",
        "Int16[R]": "as many Int16 as the count before it says",
        "Int16[N]": "as many Int16 as the count before it says",
        "String": "text up to and with a zero byte",
        "TupleData": "a row, which has a page of its own",
    }
)
"""How each format of the manual is read; a value in brackets is the one that must stand there."""

SHOWN: Mapping[str, str] = MappingProxyType(
    {
        "lsn": "An LSN is an unsigned position in the WAL, written as two hexadecimal halves of 32 "
        "bits with a slash: 00000002a7f4a880 is 2/A7F4A880.",
        "timestamp": "A time is microseconds since 2000-01-01 00:00:00 UTC, which is 946684800 "
        "seconds in Unix time; 7fffffffffffffff is infinity, 8000000000000000 is -infinity.",
        "xid": "A transaction ID (xid) is unsigned and wraps after 4294967295.",
        "full_xid": "A full transaction ID is its epoch (how often the xid counter wrapped) in the "
        "high 32 bits and the xid in the low ones.",
        "oid": "An OID is the unsigned number of an object in the server's catalogs.",
        "protocol": "A protocol version has its major number in the high 16 bits and its minor "
        "number in the low ones: 00030002 is 3.2.",
        "bool": "A flag byte is the number 0 or 1, not a letter.",
    }
)
"""How a kind's values are shown (`Kind.show`), where the format alone does not tell."""
