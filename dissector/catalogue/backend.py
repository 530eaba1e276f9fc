"""What the server sends once the session has begun, and the COPY messages that both sides send.

Source: the manual page ``protocol-message-formats.html`` of releases 10 to 19.
"""

from __future__ import annotations

from dissector.catalogue.envelope import FORMAT_CODES, format_codes, message, sized_value
from dissector.catalogue.errors import ERROR_FIELDS
from dissector.catalogue.kinds import (
    BYTE1,
    BYTEN,
    COUNT16,
    FORMAT16,
    INT8,
    INT16,
    INT32,
    OID_PLAIN,
    STRING,
)
from dissector.spec import Field, Message, Repeat

BIND_COMPLETE = message("BindComplete", "2", "B", "Bind succeeded.", fixed=4)

CLOSE_COMPLETE = message("CloseComplete", "3", "B", "Close succeeded.", fixed=4)

COMMAND_COMPLETE = message(
    "CommandComplete",
    "C",
    "B",
    "One SQL command has completed.",
    Field(
        "command_tag",
        STRING,
        "Name of the command and, for some, a number of rows, ended by a zero byte; INSERT has a 0 "
        "before the number.",
    ),
)

COPY_DATA = message(
    "CopyData",
    "d",
    "F & B",
    "A piece of COPY's data, or one message of the replication or base backup protocol.",
    Field(
        "data",
        BYTEN,
        "The piece itself, to the end of the message; what it is depends on the command before it.",
        layer=True,
        note="Only the server puts whole rows into messages; a client may cut its data anywhere.",
    ),
)

COPY_DONE = message("CopyDone", "c", "F & B", "The sender has no more COPY data.", fixed=4)


def _copy_response(name: str, tag: str, meaning: str) -> Message:
    return message(
        name,
        tag,
        "B",
        meaning,
        Field(
            "format",
            INT8,
            "Format of the copy as a whole: 0 text (rows are lines), 1 binary.",
            values=FORMAT_CODES,
            closed=True,
        ),
        Field("column_count", COUNT16, "How many columns the data have (unsigned)."),
        format_codes("column_formats", "N", "column_count"),
    )


COPY_IN_RESPONSE = _copy_response("CopyInResponse", "G", "The server is ready to take COPY data.")

COPY_OUT_RESPONSE = _copy_response("CopyOutResponse", "H", "COPY data from the server follow.")

COPY_BOTH_RESPONSE = _copy_response(
    "CopyBothResponse", "W", "Streaming replication begins: both sides may now send CopyData."
)

DATA_ROW = message(
    "DataRow",
    "D",
    "B",
    "One row of a result.",
    Field("column_count", COUNT16, "How many column values follow (unsigned); may be 0."),
    Repeat("columns", sized_value("length", "value", "the column's value"), count="column_count"),
)

EMPTY_QUERY_RESPONSE = message(
    "EmptyQueryResponse",
    "I",
    "B",
    "The query text was empty; comes where CommandComplete would.",
    fixed=4,
)


def _report(name: str, tag: str, meaning: str) -> Message:
    return message(
        name,
        tag,
        "B",
        meaning,
        Repeat(
            "fields",
            (
                Field(
                    "field_type",
                    BYTE1,
                    "Letter that says what the field holds, as the page Error fields explains; a zero "
                    "byte in its place ends the message.",
                    values={letter: name for letter, (name, _) in ERROR_FIELDS.items()},
                ),
                Field("value", STRING, "Text of the field, ended by a zero byte."),
            ),
            until_zero=True,
        ),
    )


ERROR_RESPONSE = _report("ErrorResponse", "E", "An error: the command failed, or the session ends.")

FUNCTION_CALL_RESPONSE = message(
    "FunctionCallResponse",
    "V",
    "B",
    "The result of a FunctionCall.",
    *sized_value("result_length", "result", "the function's result"),
)

NO_DATA = message(
    "NoData",
    "n",
    "B",
    "What Describe asked about returns no rows; comes in place of RowDescription.",
    fixed=4,
)

NOTICE_RESPONSE = _report(
    "NoticeResponse", "N", "A notice or warning; may come at any time and changes nothing."
)

NOTIFICATION_RESPONSE = message(
    "NotificationResponse",
    "A",
    "B",
    "A notification from NOTIFY on a channel that this session listens to.",
    Field("process_id", INT32, "Process ID of the server process whose session sent NOTIFY."),
    Field("channel", STRING, "Name of the channel, ended by a zero byte."),
    Field("payload", STRING, "Text that was sent with the notification, ended by a zero byte."),
)

PARAMETER_DESCRIPTION = message(
    "ParameterDescription",
    "t",
    "B",
    "The data types of a prepared statement's parameters.",
    Field(
        "parameter_count", COUNT16, "How many parameters the statement has (unsigned); may be 0."
    ),
    Repeat(
        "parameters",
        (Field("type_oid", OID_PLAIN, "The parameter's data type, by its OID (unsigned)."),),
        count="parameter_count",
    ),
)

PARAMETER_STATUS = message(
    "ParameterStatus",
    "S",
    "B",
    "Reports a setting of the session: at its start, and again whenever it changes.",
    Field("name", STRING, "Name of the setting, ended by a zero byte."),
    Field("value", STRING, "Its value now, ended by a zero byte."),
)

PARSE_COMPLETE = message("ParseComplete", "1", "B", "Parse succeeded.", fixed=4)

PORTAL_SUSPENDED = message(
    "PortalSuspended",
    "s",
    "B",
    "Execute returned as many rows as it asked for; the portal may hold more.",
    fixed=4,
)

READY_FOR_QUERY = message(
    "ReadyForQuery",
    "Z",
    "B",
    "The server has finished a command cycle and waits for the next one.",
    Field(
        "status",
        BYTE1,
        "State of the transaction as a letter: I idle (no transaction), T in a transaction, E in a "
        "failed transaction.",
        values={"I": "idle", "T": "in a transaction", "E": "in a failed transaction"},
        closed=True,
    ),
    fixed=5,
)

ROW_DESCRIPTION = message(
    "RowDescription",
    "T",
    "B",
    "Describes the columns of the rows that follow.",
    Field("column_count", COUNT16, "How many columns a row has (unsigned); may be 0."),
    Repeat(
        "columns",
        (
            Field("name", STRING, "The column's name, ended by a zero byte."),
            Field(
                "table_oid",
                OID_PLAIN,
                "OID (unsigned) of the table that the column comes from; 0 if it comes from none.",
                values={0: "no table"},
            ),
            Field(
                "column_number",
                INT16,
                "Number of the column in that table (signed, pg_attribute.attnum); 0 if it comes "
                "from none.",
                values={0: "no table column"},
            ),
            Field("type_oid", OID_PLAIN, "The column's data type, by its OID (unsigned)."),
            Field(
                "type_size",
                INT16,
                "Size of the data type in the server's memory in bytes (signed); -1 is of variable "
                "length, -2 ends with a zero byte.",
                values={-1: "variable length", -2: "ends with a zero byte"},
            ),
            Field(
                "type_modifier",
                INT32,
                "Type modifier (signed), e.g. 14 for character varying(10), whose 4 extra count a "
                "header; -1 when the type has none.",
                values={-1: "no modifier"},
            ),
            Field(
                "format",
                FORMAT16,
                "Format code of the column: 0 text, 1 binary; 0 after Describe of a statement, "
                "where it is not known yet.",
                values=FORMAT_CODES,
                closed=True,
            ),
        ),
        count="column_count",
    ),
)
