"""The messages of pgoutput that describe tables and carry rows, and the part TupleData.

Source: the manual page ``protocol-logicalrep-message-formats.html`` of releases 10 to 19; notes
tell what servers do beyond it.
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
    OID,
    STRING,
    TUPLE,
    XID,
)
from dissector.spec import FIRST_RELEASE, Choice, Field, Message, Part, Repeat, When

PAGE = "protocol-logicalrep-message-formats.html"


def _tag(letter: str, message: str) -> Field:
    article = "an" if message[0] in "IOU" else "a"
    says = f"The letter {letter}, which marks {article} {message} message."
    return Field("tag", BYTE1, says, letter)


def message(
    name: str,
    tag: str,
    meaning: str,
    *parts: Part,
    since: int = FIRST_RELEASE,
    proto: int = 1,
    note: str = "",
) -> Message:
    """A pgoutput message. since: first release; proto: protocol version that it needs."""
    every = (_tag(tag, name), *parts)
    return Message(
        name, "pgoutput", tag, "B", every, meaning, PAGE, since=since, proto=proto, note=note
    )


IN_STREAM = When(
    "in_stream",
    (
        Field(
            "xid",
            XID,
            "Xid (unsigned) of the transaction or subtransaction that the message belongs to.",
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

RELATION = message(
    "Relation",
    "R",
    "Describes a table before the first change to it and after every change of its definition.",
    IN_STREAM,
    Field(
        "relation_oid",
        OID,
        "OID (unsigned) of the table, which later messages use to refer to it.",
        note="For a partition its own OID, unless the publication sends changes as the root's.",
    ),
    Field(
        "namespace",
        STRING,
        "Schema of the table, ended by a zero byte; an empty string stands for pg_catalog.",
    ),
    Field(
        "relation_name",
        STRING,
        "The table's own name, without its schema, ended by a zero byte.",
    ),
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
    Field(
        "column_count",
        COUNT16,
        "How many columns follow (unsigned); a table may have none.",
        note="Generated columns never come before release 18.",
    ),
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
            Field("name", STRING, "The column's name, ended by a zero byte."),
            Field("type_oid", OID, "The column's data type, by its OID (unsigned)."),
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
    note=(
        "DDL itself is not sent: a new Relation message for a known OID is its only sign, and can "
        "come in the middle of a transaction."
    ),
)

TYPE = message(
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
    Field("name", STRING, "The data type's own name, without its schema, ended by a zero byte."),
)

NEW_TUPLE = Field("new", TUPLE, "The row as it is after the change.")

INSERT = message(
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

UPDATE = message(
    "Update",
    "U",
    "One row was updated.",
    IN_STREAM,
    RELATION_OID,
    _old(False, "as a column of the replica identity was changed or is stored out of line"),
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

DELETE = message(
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

TRUNCATE = message(
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
    note=(
        "One message can name many tables; Relation and Type messages of the later ones can stand "
        "before it."
    ),
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
