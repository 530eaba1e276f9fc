"""The messages of the logical decoding output plug-in pgoutput; those of rows stand in ``rows``.

Each travels alone in the data of one XLogData message. Source: the manual page
``protocol-logicalrep-message-formats.html`` of releases 10 to 19; notes tell what servers do beyond
it.
"""

from __future__ import annotations

from dissector.catalogue.kinds import BYTEN, INT8, INT32, LSN, STRING, TIME, UNTYPED, XID
from dissector.catalogue.rows import (
    DELETE,
    IN_STREAM,
    INSERT,
    RELATION,
    TRUNCATE,
    TUPLE_DATA,
    TYPE,
    UPDATE,
    message,
)
from dissector.spec import Field, When


def _no_flags(since: int) -> Field:
    return Field(
        "flags",
        INT8,
        "Reserved for flags, none of which is defined: always 0.",
        0,
        older=((UNTYPED, "Int8"),) if since <= UNTYPED else (),
    )


GID = Field(
    "gid",
    STRING,
    "Global transaction identifier that PREPARE TRANSACTION gave, ended by a zero byte.",
)

BEGIN = message(
    "Begin",
    "B",
    "Opens a committed transaction that is sent as a whole, once its commit has been decoded.",
    Field(
        "final_lsn",
        LSN,
        "LSN at which the transaction's commit record begins.",
        note="Equal to the LSN of the commit in the Commit message that closes the transaction.",
    ),
    Field(
        "commit_time",
        TIME,
        "Time of the commit in microseconds since 2000-01-01 00:00:00 UTC, signed.",
        note=(
            "Equal to the time in the closing Commit message; some servers send 0 for a time not "
            "set."
        ),
    ),
    Field(
        "xid", XID, "Xid (unsigned) of the top-level transaction that all following changes share."
    ),
    note=(
        "Releases 10 to 14 send Begin and Commit for a transaction without published changes, "
        "later ones do not."
    ),
)

COMMIT = message(
    "Commit",
    "C",
    "Closes the transaction that Begin opened: the receiver may now make its changes visible.",
    _no_flags(10),
    Field("commit_lsn", LSN, "LSN at which the commit record begins."),
    Field(
        "end_lsn",
        LSN,
        "LSN just past the commit record: the position that the receiver confirms once it is "
        "durable.",
    ),
    Field(
        "commit_time",
        TIME,
        "Time of the commit in microseconds since 2000-01-01 00:00:00 UTC, signed.",
    ),
)

ORIGIN = message(
    "Origin",
    "O",
    "Tells that the transaction was itself replicated from another server, and where it began "
    "there.",
    Field(
        "origin_lsn",
        LSN,
        "LSN, on the server that first made the transaction, of its commit there.",
    ),
    Field(
        "name",
        STRING,
        "Name of the replication origin on the sending server, ended by a zero byte.",
    ),
)

MESSAGE = message(
    "Message",
    "M",
    "A message that pg_logical_emit_message() wrote into the WAL for the receivers of the stream.",
    IN_STREAM,
    Field(
        "flags",
        INT8,
        "Bit flags: 1 when the message is part of its transaction, 0 when it was sent at once.",
        flags={1: "transactional"},
        note="A message that is not transactional has no Begin, no Commit and no xid, even when it "
        "stands between the segments of a streamed transaction.",
    ),
    Field("message_lsn", LSN, "LSN of the WAL record that holds the message."),
    Field(
        "prefix",
        STRING,
        "Prefix by which receivers tell the messages that are for them, ended by a zero byte.",
    ),
    Field("content_length", INT32, "Length of the content in bytes (signed, never negative)."),
    Field(
        "content",
        BYTEN,
        "The content, as many bytes as the length before it says, of any form.",
        size_from="content_length",
    ),
    since=14,
)

STREAM_START = message(
    "Stream Start",
    "S",
    "Begins a segment of a large transaction that is sent while it is still in progress.",
    Field("xid", XID, "Xid (unsigned) of the top-level transaction that the segment belongs to."),
    Field(
        "first_segment",
        INT8,
        "Flag: 1 for the transaction's first segment, 0 for every later one.",
        values={0: "a later segment", 1: "the first segment"},
        closed=True,
    ),
    since=14,
    proto=2,
)

STREAM_STOP = message(
    "Stream Stop",
    "E",
    "Ends the segment that the last Stream Start began; the transaction stays open.",
    since=14,
    proto=2,
)

STREAM_COMMIT = message(
    "Stream Commit",
    "c",
    "Commits a streamed transaction: all its segments, less what Stream Abort took back, now hold.",
    Field("xid", XID, "Xid (unsigned) of the top-level transaction that is committed."),
    _no_flags(14),
    Field("commit_lsn", LSN, "LSN at which the commit record begins."),
    Field("end_lsn", LSN, "LSN just past the commit record."),
    Field(
        "commit_time",
        TIME,
        "Time of the commit in microseconds since 2000-01-01 00:00:00 UTC, signed.",
    ),
    since=14,
    proto=2,
)

STREAM_ABORT = message(
    "Stream Abort",
    "A",
    "Takes back a streamed transaction or one of its subtransactions.",
    Field("xid", XID, "Xid (unsigned) of the top-level streamed transaction."),
    Field(
        "subxid",
        XID,
        "Xid (unsigned) of the subtransaction that is taken back; equal to the xid before it when "
        "the whole transaction is.",
    ),
    When(
        "parallel",
        (
            Field("abort_lsn", LSN, "LSN of the WAL record of the abort."),
            Field(
                "abort_time",
                TIME,
                "Time of the abort in microseconds since 2000-01-01 00:00:00 UTC, signed.",
            ),
        ),
        present="Streaming is parallel, so the abort carries its place and time.",
        absent="Streaming is not parallel: only then does an abort carry its place and time.",
        proto=4,
        since=16,
    ),
    since=14,
    proto=2,
    note=(
        "It comes outside Stream Start and Stream Stop; release 18 can send it to a receiver of "
        "protocol version 1 that never asked for streaming."
    ),
)

PREPARE_TIME = Field(
    "prepare_time",
    TIME,
    "Time of the prepare in microseconds since 2000-01-01 00:00:00 UTC, signed.",
)

BEGIN_PREPARE = message(
    "Begin Prepare",
    "b",
    "Opens a transaction that was prepared for two-phase commit; its changes follow, then Prepare.",
    Field("prepare_lsn", LSN, "LSN at which the prepare record begins."),
    Field("end_lsn", LSN, "LSN just past the prepare record."),
    PREPARE_TIME,
    Field("xid", XID, "Xid (unsigned) of the prepared transaction."),
    GID,
    since=15,
    proto=3,
)

PREPARE = message(
    "Prepare",
    "P",
    "Closes a transaction opened by Begin Prepare: it waits, neither committed nor rolled back.",
    _no_flags(15),
    Field("prepare_lsn", LSN, "LSN at which the prepare record begins."),
    Field("end_lsn", LSN, "LSN just past the prepare record."),
    PREPARE_TIME,
    Field("xid", XID, "Xid (unsigned) of the prepared transaction."),
    GID,
    since=15,
    proto=3,
    note="No Commit follows: Commit Prepared or Rollback Prepared comes later, or never.",
)

COMMIT_PREPARED = message(
    "Commit Prepared",
    "K",
    "Commits a transaction that was prepared earlier, perhaps long before.",
    _no_flags(15),
    Field("commit_lsn", LSN, "LSN at which the COMMIT PREPARED record begins."),
    Field("end_lsn", LSN, "LSN just past the COMMIT PREPARED record."),
    Field(
        "commit_time",
        TIME,
        "Time of COMMIT PREPARED in microseconds since 2000-01-01 00:00:00 UTC, signed.",
    ),
    Field("xid", XID, "Xid (unsigned) of the prepared transaction."),
    GID,
    since=15,
    proto=3,
)

ROLLBACK_PREPARED = message(
    "Rollback Prepared",
    "r",
    "Rolls back a transaction that was prepared earlier, perhaps long before.",
    _no_flags(15),
    Field("prepare_end_lsn", LSN, "LSN just past the prepare record of the transaction."),
    Field("rollback_end_lsn", LSN, "LSN just past the ROLLBACK PREPARED record."),
    PREPARE_TIME,
    Field(
        "rollback_time",
        TIME,
        "Time of ROLLBACK PREPARED in microseconds since 2000-01-01 00:00:00 UTC, signed.",
    ),
    Field("xid", XID, "Xid (unsigned) of the prepared transaction."),
    GID,
    since=15,
    proto=3,
)

STREAM_PREPARE = message(
    "Stream Prepare",
    "p",
    "Prepares a streamed transaction for two-phase commit: all its segments have been sent.",
    _no_flags(15),
    Field("prepare_lsn", LSN, "LSN at which the prepare record begins."),
    Field("end_lsn", LSN, "LSN just past the prepare record."),
    PREPARE_TIME,
    Field("xid", XID, "Xid (unsigned) of the top-level transaction that is prepared."),
    GID,
    since=15,
    proto=3,
)

MESSAGES = (
    BEGIN,
    MESSAGE,
    COMMIT,
    ORIGIN,
    RELATION,
    TYPE,
    INSERT,
    UPDATE,
    DELETE,
    TRUNCATE,
    STREAM_START,
    STREAM_STOP,
    STREAM_COMMIT,
    STREAM_ABORT,
    BEGIN_PREPARE,
    PREPARE,
    COMMIT_PREPARED,
    ROLLBACK_PREPARED,
    STREAM_PREPARE,
)
"""All messages, in the order of the newest manual."""

PARTS = (TUPLE_DATA,)
"""Parts that stand inside messages."""
