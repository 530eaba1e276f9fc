"""The messages of the logical decoding output plug-in pgoutput, and the part TupleData.

Each travels alone in the data of one XLogData message. Source: the manual page
``protocol-logicalrep-message-formats.html`` of releases 10 to 19; notes tell what servers do beyond
it.
"""

from __future__ import annotations

from dissector.catalogue.kinds import (
    BYTE1,
    BYTEN,
    COUNT16,
    COUNT32,
    INT8,
    INT8_LETTER,
    INT32,
    LSN,
    OID,
    STRING,
    TIME,
    TUPLE,
    UNTYPED,
    XID,
)
from dissector.spec import Choice, Field, Message, Part, Repeat, When

PAGE = "protocol-logicalrep-message-formats.html"


def _tag(letter: str, message: str) -> Field:
    return Field("tag", BYTE1, f"The letter {letter}, which marks a {message} message.", letter)


def _message(
    name: str, tag: str, meaning: str, *parts: Part, since: int = 10, proto: int = 1
) -> Message:
    every = (_tag(tag, name), *parts)
    return Message(name, "pgoutput", tag, "B", every, meaning, PAGE, since=since, proto=proto)


def _no_flags(since: int) -> Field:
    return Field(
        "flags",
        INT8,
        "Reserved for flags, none of which is defined: always 0.",
        0,
        older=((UNTYPED, "Int8"),) if since <= UNTYPED else (),
    )


IN_STREAM = When(
    "in_stream",
    (
        Field(
            "xid",
            XID,
            "Xid (unsigned) of the transaction or subtransaction that made the change.",
            note=(
                "Often not the xid of Stream Start: a subtransaction's change carries its own xid."
            ),
        ),
    ),
    present="The message stands between Stream Start and Stream Stop, so it names its transaction.",
    absent="The message stands outside a stream: its transaction is the one that Begin opened.",
    proto=2,
    since=14,
)

RELATION_OID = Field(
    "relation_oid",
    OID,
    "OID (unsigned) of the table, as an earlier Relation message on this connection announced it.",
)

GID = Field(
    "gid",
    STRING,
    "Global transaction identifier that PREPARE TRANSACTION gave, ended by a zero byte.",
)

BEGIN = _message(
    "Begin",
    "B",
    "Opens a committed transaction that is sent as a whole, once its commit has been decoded.",
    Field(
        "final_lsn",
        LSN,
        "LSN of the transaction's commit record.",
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
)

COMMIT = _message(
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

ORIGIN = _message(
    "Origin",
    "O",
    "Tells that the transaction was itself replicated from another server, and where it began "
    "there.",
    Field(
        "origin_lsn", LSN, "LSN of the commit on the server where the transaction was first made."
    ),
    Field(
        "name",
        STRING,
        "Name of the replication origin on the sending server, ended by a zero byte.",
    ),
)

RELATION = _message(
    "Relation",
    "R",
    "Describes a table before the first change to it and after every change of its definition.",
    IN_STREAM,
    Field(
        "relation_oid", OID, "OID (unsigned) of the table, which later messages use to refer to it."
    ),
    Field(
        "namespace",
        STRING,
        "Schema of the table, ended by a zero byte; an empty string stands for pg_catalog.",
    ),
    Field("relation_name", STRING, "Name of the table without its schema, ended by a zero byte."),
    Field(
        "replica_identity",
        INT8_LETTER,
        "Replica identity as an ASCII letter: d default (primary key), n nothing, f full, i an "
        "index.",
        values={
            "d": "default: the primary key, if there is one",
            "n": "nothing",
            "f": "full: all columns",
            "i": "the columns of a chosen unique index",
        },
        closed=True,
        note="pg_class.relreplident's letter, although the format is an integer: 0x64 is d.",
    ),
    Field("column_count", COUNT16, "How many columns follow (unsigned); a table may have none."),
    Repeat(
        "columns",
        (
            Field(
                "flags",
                INT8,
                "Bit flags of the column: 1 means that it belongs to the replica identity, 0 that "
                "not.",
                flags={1: "replica identity"},
                note=(
                    "With replica identity full every column has the flag: it does not mean "
                    "primary key."
                ),
            ),
            Field("name", STRING, "Name of the column, ended by a zero byte."),
            Field("type_oid", OID, "OID (unsigned) of the column's data type."),
            Field(
                "type_modifier",
                INT32,
                "Type modifier (signed), e.g. 14 for character varying(10), whose 4 extra count a "
                "header; -1 when the type has none.",
                values={-1: "no modifier"},
            ),
        ),
        count="column_count",
    ),
)

TYPE = _message(
    "Type",
    "Y",
    "Names a data type that is not built in, before a Relation message whose columns use it.",
    IN_STREAM,
    Field(
        "type_oid",
        OID,
        "OID (unsigned) of the data type, as the columns of Relation messages give it.",
        note="For a domain: the domain's own OID, with the name of its base type.",
    ),
    Field(
        "namespace",
        STRING,
        "Schema of the data type, ended by a zero byte; an empty string stands for pg_catalog.",
    ),
    Field("name", STRING, "Name of the data type without its schema, ended by a zero byte."),
)

NEW_TUPLE = Field("new", TUPLE, "The row as it is after the change.")

INSERT = _message(
    "Insert",
    "I",
    "One row was inserted.",
    IN_STREAM,
    RELATION_OID,
    Field("new_tag", BYTE1, "The letter N: the new row follows.", "N"),
    NEW_TUPLE,
)


def _old(required: bool, key_why: str) -> Choice:
    return Choice(
        "old",
        (
            Field(
                "key_tag",
                BYTE1,
                f"The letter K: the old key follows, {key_why}.",
                "K",
                note=(
                    "All columns come; those outside the replica identity are sent as n: not sent."
                ),
            ),
            Field(
                "old_tag",
                BYTE1,
                "The letter O: the whole old row follows, as the table's replica identity is full.",
                "O",
            ),
        ),
        required=required,
    )


OLD_TUPLE = Field(
    "old",
    TUPLE,
    "The row before the change: after K only its replica identity columns, after O all columns.",
    note="After K the kind n means not sent; after O it is NULL.",
)

UPDATE = _message(
    "Update",
    "U",
    "One row was updated.",
    IN_STREAM,
    RELATION_OID,
    _old(False, "as the update changed a replica identity column or one stored out of line"),
    When(
        "chosen:old",
        (OLD_TUPLE,),
        present="K or O stands before it.",
        absent="No K or O: the replica identity is not full and no column of it was changed.",
    ),
    Field("new_tag", BYTE1, "The letter N: the new row follows.", "N"),
    Field(
        "new",
        TUPLE,
        "The row after the change; a column of kind u kept a value that is stored out of line.",
        note="u can stand here even with replica identity full: the value is then in the old row.",
    ),
)

DELETE = _message(
    "Delete",
    "D",
    "One row was deleted.",
    IN_STREAM,
    RELATION_OID,
    _old(True, "as the replica identity is the primary key or an index"),
    When(
        "chosen:old",
        (OLD_TUPLE,),
        present="K or O stands before it.",
        absent="Neither K nor O stands before it, although a Delete must have one of them.",
    ),
)

TRUNCATE = _message(
    "Truncate",
    "T",
    "One TRUNCATE command emptied one or more tables.",
    IN_STREAM,
    Field("relation_count", COUNT32, "How many tables were truncated together (unsigned)."),
    Field(
        "options",
        INT8,
        "Bit flags of the command: 1 CASCADE, 2 RESTART IDENTITY, 3 both, 0 neither.",
        flags={1: "CASCADE", 2: "RESTART IDENTITY"},
    ),
    Repeat(
        "relations",
        (
            Field(
                "relation_oid",
                OID,
                "OID (unsigned) of a truncated table, announced by an earlier Relation message.",
            ),
        ),
        count="relation_count",
    ),
    since=11,
)

MESSAGE = _message(
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

STREAM_START = _message(
    "Stream Start",
    "S",
    "Begins a segment of a large transaction that is sent while it is still in progress.",
    Field("xid", XID, "Xid (unsigned) of the top-level transaction that the segment belongs to."),
    Field(
        "first_segment",
        INT8,
        "1 when this is the transaction's first segment, 0 for every later one.",
        values={0: "a later segment", 1: "the first segment"},
        closed=True,
    ),
    since=14,
    proto=2,
)

STREAM_STOP = _message(
    "Stream Stop",
    "E",
    "Ends the segment that the last Stream Start began; the transaction stays open.",
    since=14,
    proto=2,
)

STREAM_COMMIT = _message(
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

STREAM_ABORT = _message(
    "Stream Abort",
    "A",
    "Takes back a streamed transaction or one of its subtransactions.",
    Field("xid", XID, "Xid (unsigned) of the top-level streamed transaction."),
    Field(
        "subxid",
        XID,
        "Xid (unsigned) of the subtransaction that is taken back; equal to the xid before it when "
        "the whole transaction is.",
        note="Some releases send this message to a receiver that did not ask for streaming.",
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
)

PREPARE_TIME = Field(
    "prepare_time",
    TIME,
    "Time of the prepare in microseconds since 2000-01-01 00:00:00 UTC, signed.",
)

BEGIN_PREPARE = _message(
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

PREPARE = _message(
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
)

COMMIT_PREPARED = _message(
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

ROLLBACK_PREPARED = _message(
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

STREAM_PREPARE = _message(
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

TUPLE_DATA = Message(
    "TupleData",
    "part",
    "",
    "B",
    (
        Field("column_count", COUNT16, "How many columns follow (unsigned)."),
        Repeat(
            "columns",
            (
                Choice(
                    "kind",
                    (
                        Field(
                            "null_kind",
                            BYTE1,
                            "The letter n: the column is NULL and no bytes follow.",
                            "n",
                            note="In an old key (K) it means not sent: the column is outside the "
                            "replica identity.",
                        ),
                        Field(
                            "unchanged_kind",
                            BYTE1,
                            "The letter u: a value stored out of line (TOAST) was not changed and "
                            "is not sent.",
                            "u",
                        ),
                        Field(
                            "text_kind",
                            BYTE1,
                            "The letter t: length and value follow, the value in its type's text "
                            "form.",
                            "t",
                        ),
                        Field(
                            "binary_kind",
                            BYTE1,
                            "The letter b: length and value follow, the value in its type's "
                            "binary form.",
                            "b",
                            since=14,
                            note=(
                                "One row can mix t and b: a type without a binary form comes as "
                                "text."
                            ),
                        ),
                    ),
                ),
                When(
                    "chosen:kind=tb",
                    (
                        Field(
                            "length",
                            INT32,
                            "Length of the value in bytes (signed, never negative; 0 is an empty "
                            "value).",
                            note=(
                                "The manual lists it under b only; it comes after t in the same "
                                "way."
                            ),
                        ),
                        Field(
                            "value",
                            BYTEN,
                            "The column's value, as many bytes as the length says, with no zero "
                            "byte at the end; text is in the connection's client_encoding.",
                            size_from="length",
                            note=(
                                "The manual lists it under b only; it comes after t in the same "
                                "way."
                            ),
                        ),
                    ),
                    present="The kind is t or b, so a value follows.",
                    absent="The kind is n or u, so no value follows.",
                ),
            ),
            count="column_count",
        ),
    ),
    "The columns of one row, in the order in which the Relation message lists them.",
    PAGE,
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
