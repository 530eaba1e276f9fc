"""The messages of the frontend/backend protocol 3.x, which surround everything else.

Those that begin a connection stand in ``authentication``. Source: the manual page
``protocol-message-formats.html`` of releases 10 to 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.authentication import (
    AUTHENTICATION,
    BACKEND_KEY_DATA,
    CANCEL_REQUEST,
    GSS_RESPONSE,
    GSSENC_REQUEST,
    NEGOTIATE_PROTOCOL_VERSION,
    PASSWORD_MESSAGE,
    SASL_INITIAL_RESPONSE,
    SASL_RESPONSE,
    SSL_REQUEST,
    STARTUP_MESSAGE,
    answer_to,
    authentication,
    guess_response,
    startup_packet,
)
from dissector.catalogue.envelope import message
from dissector.catalogue.errors import ERROR_FIELDS
from dissector.catalogue.kinds import (
    BYTE1,
    BYTEN,
    COUNT16,
    FORMAT16,
    FORMATS_C,
    FORMATS_N,
    FORMATS_R,
    INT8,
    INT16,
    INT32,
    OID_PLAIN,
    STRING,
)
from dissector.spec import Field, Message, Repeat

__all__ = [
    "ERROR_FIELDS",
    "MESSAGES",
    "answer_to",
    "authentication",
    "guess_response",
    "startup_packet",
]

FORMAT_CODES: Mapping[int | str, str] = MappingProxyType({0: "text", 1: "binary"})


def _formats(name: str, kind_of: str, count: str) -> Field:
    kind = {"C": FORMATS_C, "R": FORMATS_R, "N": FORMATS_N}[kind_of]
    what = {
        "C": "Format code of each value sent, one for all if there is only one",
        "R": "Format code of each result column, one for all if there is only one",
        "N": "Format code of each column of the copy",
    }[kind_of]
    return Field(
        name,
        kind,
        f"{what}: 0 text, 1 binary.",
        count_from=count,
        values=FORMAT_CODES,
        closed=True,
    )


def _value(length: str, name: str, of: str) -> tuple[Field, Field]:
    return (
        Field(
            length,
            INT32,
            f"Length of {of} in bytes (signed, 0 or more), or -1 for NULL, with no bytes after it.",
            values={-1: "NULL"},
        ),
        Field(
            name,
            BYTEN,
            f"{of.capitalize()}, as many bytes as the length says, in the form of its format code.",
            size_from=length,
        ),
    )


BIND = message(
    "Bind",
    "B",
    "F",
    "Makes a portal, ready to execute, from a prepared statement and values for its parameters.",
    Field("portal", STRING, "Name of the portal to make, ended by a zero byte; empty: unnamed."),
    Field(
        "statement", STRING, "Name of the prepared statement, ended by a zero byte; empty: unnamed."
    ),
    Field(
        "parameter_format_count",
        COUNT16,
        "How many parameter format codes follow (unsigned): 0 means all text, 1 one code for all.",
    ),
    _formats("parameter_formats", "C", "parameter_format_count"),
    Field(
        "parameter_count",
        COUNT16,
        "How many parameter values follow (unsigned): as many as the statement has parameters.",
    ),
    Repeat(
        "parameters", _value("length", "value", "the parameter's value"), count="parameter_count"
    ),
    Field(
        "result_format_count",
        COUNT16,
        "How many result format codes follow (unsigned): 0 means all text, 1 one code for all.",
    ),
    _formats("result_formats", "R", "result_format_count"),
)

BIND_COMPLETE = message("BindComplete", "2", "B", "Bind succeeded.", fixed=4)


def _target(does: str) -> tuple[Field, Field]:
    return (
        Field(
            "target",
            BYTE1,
            f"What to {does}: the letter S for a prepared statement, P for a portal.",
            values={"S": "prepared statement", "P": "portal"},
            closed=True,
        ),
        Field(
            "name", STRING, "Name of the statement or portal, ended by a zero byte; empty: unnamed."
        ),
    )


CLOSE = message("Close", "C", "F", "Closes a prepared statement or a portal.", *_target("close"))

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

COPY_FAIL = message(
    "CopyFail",
    "f",
    "F",
    "The client gives up its COPY, which the server then fails.",
    Field("reason", STRING, "Why, for the server's error message, ended by a zero byte."),
)


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
        _formats("column_formats", "N", "column_count"),
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
    Repeat("columns", _value("length", "value", "the column's value"), count="column_count"),
)

DESCRIBE = message(
    "Describe",
    "D",
    "F",
    "Asks what a prepared statement or a portal takes and returns.",
    *_target("describe"),
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
                    "Letter of a field, such as S severity, C SQLSTATE, M message; a zero byte in "
                    "its place ends the message.",
                    values={letter: name for letter, (name, _) in ERROR_FIELDS.items()},
                    note="The letters and what they mean stand on the page of the error fields.",
                ),
                Field("value", STRING, "Text of the field, ended by a zero byte."),
            ),
            until_zero=True,
        ),
    )


ERROR_RESPONSE = _report("ErrorResponse", "E", "An error: the command failed, or the session ends.")

EXECUTE = message(
    "Execute",
    "E",
    "F",
    "Runs a portal.",
    Field("portal", STRING, "Name of the portal, ended by a zero byte; empty: unnamed."),
    Field(
        "max_rows",
        INT32,
        "Most rows to return before PortalSuspended (signed); 0 means no limit.",
        values={0: "no limit"},
    ),
)

FLUSH = message(
    "Flush",
    "H",
    "F",
    "Asks the server to send what it has ready, without ending the pipeline.",
    fixed=4,
)

FUNCTION_CALL = message(
    "FunctionCall",
    "F",
    "F",
    "Calls a function by its OID, outside SQL.",
    Field("function_oid", OID_PLAIN, "OID (unsigned) of the function to call."),
    Field(
        "argument_format_count",
        COUNT16,
        "How many argument format codes follow (unsigned): 0 means all text, 1 one code for all.",
    ),
    _formats("argument_formats", "C", "argument_format_count"),
    Field("argument_count", COUNT16, "How many arguments follow (unsigned)."),
    Repeat("arguments", _value("length", "value", "the argument's value"), count="argument_count"),
    Field(
        "result_format",
        FORMAT16,
        "Format code of the result: 0 text, 1 binary.",
        values=FORMAT_CODES,
        closed=True,
    ),
)

FUNCTION_CALL_RESPONSE = message(
    "FunctionCallResponse",
    "V",
    "B",
    "The result of a FunctionCall.",
    *_value("result_length", "result", "the function's result"),
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
        (Field("type_oid", OID_PLAIN, "OID (unsigned) of the parameter's data type."),),
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

PARSE = message(
    "Parse",
    "P",
    "F",
    "Makes a prepared statement from a query text.",
    Field(
        "statement", STRING, "Name of the statement to make, ended by a zero byte; empty: unnamed."
    ),
    Field(
        "query", STRING, "Text of the query, parameters written $1, $2, ..., ended by a zero byte."
    ),
    Field(
        "parameter_type_count",
        COUNT16,
        "How many parameter types the client fixes (unsigned): the rest is left to the server.",
    ),
    Repeat(
        "parameter_types",
        (
            Field(
                "type_oid",
                OID_PLAIN,
                "OID (unsigned) of the parameter's data type; 0 leaves it to the server.",
                values={0: "left to the server"},
            ),
        ),
        count="parameter_type_count",
    ),
)

PARSE_COMPLETE = message("ParseComplete", "1", "B", "Parse succeeded.", fixed=4)

PORTAL_SUSPENDED = message(
    "PortalSuspended",
    "s",
    "B",
    "Execute returned as many rows as it asked for; the portal may hold more.",
    fixed=4,
)

QUERY = message(
    "Query",
    "Q",
    "F",
    "A simple query: one or more SQL commands, or one replication command.",
    Field("query", STRING, "Text of the commands, ended by a zero byte."),
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
            Field("name", STRING, "Name of the column, ended by a zero byte."),
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
            Field("type_oid", OID_PLAIN, "OID (unsigned) of the column's data type."),
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

SYNC = message(
    "Sync",
    "S",
    "F",
    "Ends a run of extended query messages: the server answers with ReadyForQuery.",
    fixed=4,
)

TERMINATE = message("Terminate", "X", "F", "The client ends the session.", fixed=4)

MESSAGES: tuple[Message, ...] = (
    *AUTHENTICATION,
    BACKEND_KEY_DATA,
    BIND,
    BIND_COMPLETE,
    CANCEL_REQUEST,
    CLOSE,
    CLOSE_COMPLETE,
    COMMAND_COMPLETE,
    COPY_DATA,
    COPY_DONE,
    COPY_FAIL,
    COPY_IN_RESPONSE,
    COPY_OUT_RESPONSE,
    COPY_BOTH_RESPONSE,
    DATA_ROW,
    DESCRIBE,
    EMPTY_QUERY_RESPONSE,
    ERROR_RESPONSE,
    EXECUTE,
    FLUSH,
    FUNCTION_CALL,
    FUNCTION_CALL_RESPONSE,
    GSSENC_REQUEST,
    GSS_RESPONSE,
    NEGOTIATE_PROTOCOL_VERSION,
    NO_DATA,
    NOTICE_RESPONSE,
    NOTIFICATION_RESPONSE,
    PARAMETER_DESCRIPTION,
    PARAMETER_STATUS,
    PARSE,
    PARSE_COMPLETE,
    PASSWORD_MESSAGE,
    PORTAL_SUSPENDED,
    QUERY,
    READY_FOR_QUERY,
    ROW_DESCRIPTION,
    SASL_INITIAL_RESPONSE,
    SASL_RESPONSE,
    SSL_REQUEST,
    STARTUP_MESSAGE,
    SYNC,
    TERMINATE,
)
"""All messages, in the order of the newest manual."""
