"""Every message of the catalogue as a scapy packet: ``from dissector.layers import *``.

    >>> Insert(bytes.fromhex("49000040284e00016e")).new.columns[0]
    >>> bytes(CopyData() / XLogData(start_lsn=1) / Begin(xid=801))
    >>> StreamAbort(data, dialect=Dialect(parallel=True)).show()
    >>> sniff(offline="x.pcap", session=PostgresSession)

Names. A class is called as the manual calls the message, each word with a capital and without spaces:
``StreamAbort``, ``PrimaryKeepaliveMessage``. What other releases call it is a second name of the same
class (``WALData`` is ``XLogData``). Where scapy has the name already it begins with ``Pg``: ``PgType``,
``PgMessage``. What repeats inside a message is a class of its own: ``RelationColumn``,
``TupleDataColumn``. Fields have the catalogue's names; where a scapy packet has an attribute of that
name the field ends with ``_``: ``Origin(name_=b"x").name_``.

Values are raw integers and bytes. A length or a count that is None is computed when the packet is
built. Layout that earlier messages decide is the packet's `dialect`; without one release 18, pgoutput
in COPY BOTH, outside a stream is assumed. An optional field that is set is built whatever the Dialect.
Of a choice (n, u, t, b of a column; K, O of an old row) the option field that is set decides, or else
the first that fits the other fields: ``TupleDataColumn(value=b"1")`` is t, ``TupleDataColumn()`` is n.

Reading never raises. Where the bytes do not go on as declared, the fields end and the rest is Raw, so
that ``bytes(cls(data)) == data`` for any data.

Only this package, and the slow lane of `dissector.capture.link` through it, imports scapy.
"""

from __future__ import annotations

from typing import Any

from dissector.layers.making import make_all

_CLASSES: dict[str, Any] = make_all()
globals().update(_CLASSES)

from dissector.layers.envelope import PostgreSQL, UnknownMessage  # noqa: E402
from dissector.layers.frames import dissect_frame, frame_layers  # noqa: E402
from dissector.layers.sniffing import PostgresSession  # noqa: E402
from dissector.spec import Dialect  # noqa: E402

__all__ = [  # noqa: PLE0604
    "Dialect",
    "PostgreSQL",
    "PostgresSession",
    "UnknownMessage",
    "dissect_frame",
    "frame_layers",
    *sorted(_CLASSES),
]
