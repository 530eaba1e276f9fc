"""The fields of ErrorResponse and NoticeResponse; S, V, C and M always come.

Source: the manual page ``protocol-error-fields.html``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.kinds import BYTE1, STRING
from dissector.spec import Choice, Field, Message, Repeat

ERROR_FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "S": (
            "Severity",
            "ERROR, FATAL, PANIC (error), WARNING, NOTICE, DEBUG, INFO, LOG (notice), translated.",
        ),
        "V": ("Severity", "The severity as S has it, never translated."),
        "C": ("Code", "The five characters of the SQLSTATE, which are never translated."),
        "M": ("Message", "What happened, for people, mostly one line."),
        "D": ("Detail", "More about what happened, perhaps in several lines."),
        "H": ("Hint", "Advice on what to try, which may not fit, perhaps in several lines."),
        "P": (
            "Position",
            "Where in the query text the error is, in characters (not bytes), the first being 1.",
        ),
        "p": (
            "Internal position",
            "The same as P, within the query that the server made itself and that q shows.",
        ),
        "q": ("Internal query", "Text of a query that the server made itself and that failed."),
        "W": (
            "Where",
            "Functions and internal queries in which the error arose, one a line, innermost first.",
        ),
        "s": ("Schema name", "Schema of the object that the error is about."),
        "t": ("Table name", "Table that the error is about; s names its schema."),
        "c": ("Column name", "Column that the error is about; s and t name its table."),
        "d": ("Data type name", "Data type that the error is about; s names its schema."),
        "n": (
            "Constraint name",
            "Constraint, or index, that the error is about; s, t and d name what it belongs to.",
        ),
        "F": ("File", "Source file of the server that reported the error."),
        "L": ("Line", "Line in that source file, a decimal number."),
        "R": ("Routine", "C function of the server that reported the error."),
    }
)
"""Letter of the field -> (the manual's name, what it holds)."""


def _error_page() -> Message:
    """The fields of ErrorResponse and NoticeResponse in the form of a message part."""
    options = []
    for letter, (name, meaning) in ERROR_FIELDS.items():
        plain = name.lower().replace(" ", "_")
        plain = f"{plain}_untranslated" if letter == "V" else plain
        options.append(Field(plain, BYTE1, f"The letter {letter}: {_lower(meaning)}", letter))
    value = Field("value", STRING, "Text of the field, ended by a zero byte.")
    return Message(
        "Error fields",
        "part",
        "",
        "B",
        (Repeat("fields", (Choice("field_type", tuple(options)), value), until_zero=True),),
        "The fields of ErrorResponse and NoticeResponse, in any order; a zero byte ends them.",
        "protocol-error-fields.html",
    )


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[0].lower() + text[1:]


ERROR_PAGE = _error_page()
"""The page of the error fields: no message, but a part that two messages share."""
