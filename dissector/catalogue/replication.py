"""What CopyData holds on a replication connection: streaming replication and base backups.

Source: the manual page ``protocol-replication.html`` (START_REPLICATION and BASE_BACKUP) of
releases 10 to 19. The page writes plain integers in every release.
"""

from __future__ import annotations

from dissector.catalogue.kinds import (
    BYTE1,
    BYTE1_BOOL,
    BYTEN,
    COUNT32,
    FULL_XID,
    INT64,
    LSN_PLAIN,
    STRING,
    TIME_PLAIN,
    XID_PLAIN,
)
from dissector.spec import Field, Message, Older, Part

PAGE = "protocol-replication.html"


def _message(
    name: str,
    tag: str,
    direction: str,
    meaning: str,
    *parts: Part,
    context: str = "START_REPLICATION",
    since: int = 10,
    older_names: Older = (),
) -> Message:
    first = Field("tag", BYTE1, f"The letter {tag}, which marks this kind of message.", tag)
    return Message(
        name,
        "replication",
        tag,
        direction,
        (first, *parts),
        meaning,
        PAGE,
        since=since,
        older_names=older_names,
        context=context,
    )


SEND_TIME = Field(
    "send_time",
    TIME_PLAIN,
    "Time on the sender's clock when it sent the message, in microseconds since 2000-01-01 "
    "00:00:00 UTC, signed.",
)

WAL_DATA = _message(
    "WALData",
    "w",
    "B",
    "Carries a piece of the stream: raw WAL, or one message of the logical decoding output "
    "plug-in.",
    Field(
        "start_lsn",
        LSN_PLAIN,
        "LSN at which the data begins.",
        note=(
            "0 when pgoutput sends a Relation, a Type, or a Begin, Begin Prepare or Stream Start "
            "that an Origin follows; with other Begins where the transaction's first record is, "
            "with Commit and its kin the end LSN that the message itself tells."
        ),
    ),
    Field(
        "end_lsn",
        LSN_PLAIN,
        "LSN up to which the server's WAL reached when it sent the message.",
        note="In logical replication servers send the start LSN here again.",
    ),
    SEND_TIME,
    Field(
        "data",
        BYTEN,
        "The piece itself, to the end of the message: raw WAL, or one message of the logical "
        "decoding output plug-in.",
        layer=True,
    ),
    older_names=((18, "XLogData"),),
)

KEEPALIVE = _message(
    "Primary keepalive message",
    "k",
    "B",
    "Tells the receiver that the server is alive and how far its WAL reaches.",
    Field(
        "end_lsn",
        LSN_PLAIN,
        "LSN up to which the server's WAL reaches.",
        note="It runs ahead of the end LSN in the data messages.",
    ),
    SEND_TIME,
    Field(
        "reply_requested",
        BYTE1_BOOL,
        "Flag byte: 1 when the receiver should answer at once, or be taken for dead; 0 otherwise.",
        values={0: "no reply requested", 1: "reply requested"},
        closed=True,
    ),
)

PRIMARY_STATUS = _message(
    "Primary status update",
    "s",
    "B",
    "Answers a request for the server's status: its WAL, and the transactions that are committing.",
    Field("end_lsn", LSN_PLAIN, "LSN up to which the server has written WAL."),
    Field(
        "oldest_xid",
        FULL_XID,
        "Oldest transaction that is in the middle of its commit on the server: epoch in the high "
        "32 bits, xid in the low 32 bits.",
    ),
    Field(
        "next_xid",
        FULL_XID,
        "The next transaction ID that the server will give: epoch in the high 32 bits, xid in the "
        "low 32 bits.",
    ),
    SEND_TIME,
    since=19,
)

STATUS_UPDATE = _message(
    "Standby status update",
    "r",
    "F",
    "Tells the server how far the receiver has come, so that WAL behind it can be let go.",
    Field(
        "written_lsn",
        LSN_PLAIN,
        "LSN just past the last byte that the receiver got and wrote to disk.",
    ),
    Field(
        "flushed_lsn",
        LSN_PLAIN,
        "LSN just past the last byte that the receiver flushed to disk safely.",
    ),
    Field(
        "applied_lsn",
        LSN_PLAIN,
        "LSN just past the last byte that the receiver applied; 0 if unknown.",
    ),
    SEND_TIME,
    Field(
        "reply_requested",
        BYTE1_BOOL,
        "Flag byte: 1 when the server should answer at once, to test the connection; 0 otherwise.",
        values={0: "no reply requested", 1: "reply requested"},
        closed=True,
    ),
)

HOT_STANDBY_FEEDBACK = _message(
    "Hot standby feedback message",
    "h",
    "F",
    "Tells the server which old row versions the standby's queries still need.",
    SEND_TIME,
    Field(
        "xmin",
        XID_PLAIN,
        "Oldest xid (unsigned) that queries on the standby need; 0 together with a catalog xmin "
        "of 0 announces that no more feedback will come.",
    ),
    Field(
        "xmin_epoch", COUNT32, "Epoch (unsigned) of xmin: how often the xid counter had wrapped."
    ),
    Field(
        "catalog_xmin",
        XID_PLAIN,
        "Oldest catalog xid (unsigned) that replication slots on the standby need; 0 if there is "
        "none.",
    ),
    Field(
        "catalog_xmin_epoch",
        COUNT32,
        "Epoch (unsigned) of the catalog xmin: how often the xid counter had wrapped.",
    ),
    older_names=((14, "Hot Standby feedback message"),),
)

REQUEST_STATUS = _message(
    "Request primary status update",
    "p",
    "F",
    "Asks the server for a Primary status update.",
    SEND_TIME,
    since=19,
)

NEW_ARCHIVE = _message(
    "new archive",
    "n",
    "B",
    "Begins an archive of a base backup; the data messages after it belong to it.",
    Field("archive_name", STRING, "What the archive's file is called, ended by a zero byte."),
    Field(
        "tablespace_path",
        STRING,
        "Path of the tablespace that the archive holds, ended by a zero byte; empty for the main "
        "data directory.",
    ),
    context="BASE_BACKUP",
    since=15,
)

MANIFEST = _message(
    "manifest",
    "m",
    "B",
    "Begins the backup manifest; the data messages after it belong to it.",
    context="BASE_BACKUP",
    since=15,
)

ARCHIVE_DATA = _message(
    "archive or manifest data",
    "d",
    "B",
    "Carries a piece of the archive or manifest that was begun last.",
    Field("data", BYTEN, "The piece itself, to the end of the message; it can be cut anywhere."),
    context="BASE_BACKUP",
    since=15,
)

PROGRESS = _message(
    "progress report",
    "p",
    "B",
    "Tells how much of the current tablespace the server has processed.",
    Field("bytes_done", INT64, "Bytes of the current tablespace processed so far (signed)."),
    context="BASE_BACKUP",
    since=15,
)

MESSAGES = (
    WAL_DATA,
    KEEPALIVE,
    PRIMARY_STATUS,
    STATUS_UPDATE,
    HOT_STANDBY_FEEDBACK,
    REQUEST_STATUS,
    NEW_ARCHIVE,
    MANIFEST,
    ARCHIVE_DATA,
    PROGRESS,
)
"""All messages, in the order of the newest manual; those of START_REPLICATION first."""
