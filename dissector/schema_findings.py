"""What is wrong with a row message in the light of the relation in force: derived, never stored."""

from __future__ import annotations

from .findings import Finding, finding
from .node import Node, messages
from .schemas import Schema
from .spec import Message


def schema_findings(tree: Node, schema: Schema) -> list[Finding]:
    """Findings of the message `tree` that need the Schema in force (kind "" where there is none)."""
    chain = messages(tree)
    inner = chain[-1]
    if not isinstance(inner.declaration, Message) or inner.declaration.layer != "pgoutput":
        return []
    if inner.declaration.name == "Relation":
        return []
    oid = inner.child("relation_oid")
    if oid is None or oid.value is None:
        return []
    if schema.kind != "relation":
        return [finding("unknown-relation", oid.start - tree.start, oid=oid.value)]
    found = []
    for name in ("old", "new"):
        part = inner.child(name)
        count = part.child("column_count") if part is not None else None
        if count is not None and count.value is not None and count.value != len(schema.columns):
            found.append(
                finding(
                    "column-count",
                    count.start - tree.start,
                    got=count.value,
                    expected=len(schema.columns),
                )
            )
    return found
