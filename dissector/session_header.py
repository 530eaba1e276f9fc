"""The facts of a session for people: who talks to what, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .known import Known

PGOUTPUT_OPTIONS = ("streaming", "two_phase", "binary", "messages", "origin")
"""Options of START_REPLICATION that the header names, as they were written."""


def header_of(session: Known) -> dict[str, Any]:
    """Facts by name, only those that are known."""
    facts, startup, parameters = session.facts, session.startup, session.parameters
    options = facts.get("options", {})
    assumed = "" if session.release_known else f"{session.base.release} (assumed)"
    user = startup.get("user", "")
    protocol = f"{session.base.protocol >> 16}.{session.base.protocol & 0xFFFF}"
    cancels = session.cancels
    known: dict[str, Any] = {
        "release": parameters.get("server_version") or assumed,
        "user": user,
        "database": startup.get("database", user),
        "application": parameters.get("application_name", startup.get("application_name", "")),
        "protocol": protocol if startup else "",
        "encryption": facts.get("encryption", "none"),
        "authentication": facts.get("authentication", ""),
        "client_encoding": parameters.get("client_encoding", ""),
        "replication": startup.get("replication", ""),
        "slot": facts.get("slot", ""),
        "start_lsn": facts.get("start_lsn", ""),
        "plugin": facts.get("plugin", ""),
        "publications": options.get("publication_names") or "",
        "proto_version": options.get("proto_version") or "",
        **{name: options.get(name) or "" for name in PGOUTPUT_OPTIONS},
        "process_id": session.process_id or "",
        "cancels_process": cancels[0] if cancels else "",
        "cancels_connection": "" if session.cancel_target is None else session.cancel_target,
        "cancelled_by_connection": ", ".join(map(str, session.cancelled_by)),
    }
    if cancels:  # such a connection says nothing else
        known = {k: v for k, v in known.items() if k.startswith("cancels") or k == "encryption"}
    if session.tls is not None:
        known |= session.tls()
    return {name: value for name, value in known.items() if value != ""}
