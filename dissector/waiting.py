"""What cannot come yet: messages that wait for one of the other side's.

Captures can hold segments in another order than they were sent, also the two directions' among each
other. A server that answers was asked; a client that answers a request for its password has got it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import catalogue

if TYPE_CHECKING:
    from .session import Session

BOTH_WAYS = ("pgoutput", "plugin", "wal")
"""Modes of COPY BOTH: servers were seen to send a keepalive after their CopyDone."""


_NO_COPY_IN = ("", *BOTH_WAYS)


def _tag(name: str) -> int:
    return ord(catalogue.by_name(name).tag)


_RUN, _TOLD = ("execute", "query"), ("describe", "query")
ANSWERS = {
    _tag(name): kinds
    for names, kinds in (
        (("ParseComplete",), ("parse",)),
        (("BindComplete",), ("bind",)),
        (("CloseComplete",), ("close",)),
        (("RowDescription", "NoData", "ParameterDescription"), _TOLD),
        (("DataRow", "CommandComplete", "EmptyQueryResponse", "PortalSuspended"), _RUN),
        (("CopyInResponse", "CopyOutResponse", "CopyBothResponse"), _RUN),
        (("FunctionCallResponse",), ("function",)),
        (("ReadyForQuery",), ("query", "sync", "function")),
    )
    for name in names
}
"""Type bytes of messages that a server only sends when it was asked something, and by what requests."""

AUTHENTICATION, PASSWORD = _tag("AuthenticationOk"), _tag("PasswordMessage")
COMPLETE = _tag("CommandComplete")
QUERY, TERMINATE = _tag("Query"), _tag("Terminate")
COPYING = (_tag("CopyData"), _tag("CopyDone"), _tag("CopyFail"))

ASKING = frozenset(
    f"Authentication{name}"
    for name in ("KerberosV5", "CleartextPassword", "MD5Password", "GSS", "GSSContinue", "SSPI", "SASL",
                 "SASLContinue")
)  # fmt: skip
"""Authentication requests that the client answers."""


def waits(session: Session, direction: str, tag: int) -> bool:
    """Whether the message that begins with `tag` can only come after something of the other side: it
    answers what was not asked yet, or asks before the answer that clients wait for. Captures can hold
    segments in another order than they were sent.
    """
    if session.began_in_middle or session.in_startup:
        return False
    if direction == "B":
        if tag == AUTHENTICATION:
            return session.auth_due
        kinds = ANSWERS.get(tag)
        if kinds is None or not session.started:
            return session.auth_due and tag in ANSWERS
        if tag == COMPLETE and session.copy["F"] not in _NO_COPY_IN and not session.copies.broken:
            return True  # the client's CopyDone comes first
        return not session.conversation.asked(kinds)
    if tag in COPYING:
        return not session.copy["F"] and session.conversation.head() is not None
    if not session.started:
        return not session.auth_due if tag == PASSWORD else tag != TERMINATE
    return tag == QUERY and session.conversation.in_query()
