"""What the client sends once the session has begun: queries, simple and extended.

Source: the manual page ``protocol-message-formats.html`` of releases 10 to 19.
"""

from __future__ import annotations

from dissector.catalogue.envelope import FORMAT_CODES, format_codes, message, sized_value
from dissector.catalogue.kinds import BYTE1, COUNT16, FORMAT16, INT32, OID_PLAIN, STRING
from dissector.spec import Field, Repeat

PARAMETER = sized_value("length", "value", "the parameter's value")

ARGUMENT = sized_value("length", "value", "the argument's value")

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
    format_codes("parameter_formats", "C", "parameter_format_count"),
    Field(
        "parameter_count",
        COUNT16,
        "How many parameter values follow (unsigned): as many as the statement has parameters.",
    ),
    Repeat(
        "parameters",
        sized_value("length", "value", "the parameter's value"),
        count="parameter_count",
    ),
    Field(
        "result_format_count",
        COUNT16,
        "How many result format codes follow (unsigned): 0 means all text, 1 one code for all.",
    ),
    format_codes("result_formats", "R", "result_format_count"),
)


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

COPY_FAIL = message(
    "CopyFail",
    "f",
    "F",
    "The client gives up its COPY, which the server then fails.",
    Field("reason", STRING, "Why, for the server's error message, ended by a zero byte."),
)

DESCRIBE = message(
    "Describe",
    "D",
    "F",
    "Asks what a prepared statement or a portal takes and returns.",
    *_target("describe"),
)

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
    Field("function_oid", OID_PLAIN, "The function to call, by its OID (unsigned)."),
    Field(
        "argument_format_count",
        COUNT16,
        "How many argument format codes follow (unsigned): 0 means all text, 1 one code for all.",
    ),
    format_codes("argument_formats", "C", "argument_format_count"),
    Field("argument_count", COUNT16, "How many arguments follow (unsigned)."),
    Repeat("arguments", ARGUMENT, count="argument_count"),
    Field(
        "result_format",
        FORMAT16,
        "Format code of the result: 0 text, 1 binary.",
        values=FORMAT_CODES,
        closed=True,
    ),
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
                "The parameter's data type, by its OID (unsigned); 0 leaves it to the server.",
                values={0: "left to the server"},
            ),
        ),
        count="parameter_type_count",
    ),
)

QUERY = message(
    "Query",
    "Q",
    "F",
    "A simple query: one or more SQL commands, or one replication command.",
    Field("query", STRING, "Text of the commands, ended by a zero byte."),
)

SYNC = message(
    "Sync",
    "S",
    "F",
    "Ends a run of extended query messages: the server answers with ReadyForQuery.",
    fixed=4,
)

TERMINATE = message("Terminate", "X", "F", "The client ends the session.", fixed=4)
