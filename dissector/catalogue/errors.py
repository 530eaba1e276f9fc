"""The fields of ErrorResponse and NoticeResponse. Source: the page ``protocol-error-fields.html``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ERROR_FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "S": (
            "Severity",
            "ERROR, FATAL or PANIC in an error, WARNING, NOTICE, DEBUG, INFO or LOG in a notice; "
            "translated to the session's language. Always there.",
        ),
        "V": ("Severity", "The same severity, never translated. Always there from release 9.6 on."),
        "C": ("Code", "The five characters of the SQLSTATE, never translated. Always there."),
        "M": ("Message", "What happened, for people, mostly one line. Always there."),
        "D": ("Detail", "More about what happened; can have several lines."),
        "H": ("Hint", "What to try; advice that may not fit. Can have several lines."),
        "P": (
            "Position",
            "Where in the query text the error is: a decimal number of characters, not bytes, the first "
            "being 1.",
        ),
        "p": (
            "Internal position",
            "The same as P, within the query that the server made itself and that q shows.",
        ),
        "q": ("Internal query", "Text of a query that the server made itself and that failed."),
        "W": (
            "Where",
            "The functions and internal queries in which the error arose, innermost first, one a line.",
        ),
        "s": ("Schema name", "Schema of the object that the error is about."),
        "t": ("Table name", "Table that the error is about; s names its schema."),
        "c": ("Column name", "Column that the error is about; s and t name its table."),
        "d": ("Data type name", "Data type that the error is about; s names its schema."),
        "n": (
            "Constraint name",
            "Constraint that the error is about, an index included; the table or domain is in s, t, d.",
        ),
        "F": ("File", "Source file of the server that reported the error."),
        "L": ("Line", "Line in that source file, a decimal number."),
        "R": ("Routine", "C function of the server that reported the error."),
    }
)
"""Letter of the field -> (the manual's name, what it holds)."""
