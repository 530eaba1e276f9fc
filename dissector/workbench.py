"""Bytes without a capture: given as hex, dissected as a message of a layer."""

from __future__ import annotations

from typing import IO, Any

from .annotate import annotate
from .display import Context
from .errors import UsageProblem
from .hexinput import read_bytes
from .node import findings, messages
from .records import dumps, field_records
from .report import tree_lines
from .spec import Dialect
from .text import visible


def write_hex(
    out: IO[str],
    source: IO[str],
    data: str | None,
    *,
    layer: str,
    pg: int,
    proto_version: int | None,
    in_stream: bool,
    parallel: bool,
    direction: str | None,
    show_secrets: bool,
    as_json: bool,
) -> None:
    """Dissect `data` (or what `source` holds when it is None or "-") and print the tree or JSON."""
    text = source.read() if data is None or data == "-" else data
    given = read_bytes(text)
    if not given:
        raise UsageProblem("no bytes: give hex digits, for example: pgdissect hex 45")
    dialect = Dialect(
        release=pg,
        proto_version=proto_version or (4 if in_stream or parallel else 0),
        in_stream=in_stream,
        parallel=parallel,
        copy="pgoutput" if layer != "pgoutput" else "",
    )
    del direction  # each replication message has one direction; kept for the contract's symmetry
    context = Context(release=pg, show_secrets=show_secrets)
    for each in given:
        tree = annotate(each, layer, dialect)
        if as_json:
            out.write(dumps(hex_record(tree, context)) + "\n")
            continue
        found = findings(tree)
        out.write(f"{' > '.join(n.name for n in messages(tree)) or 'unknown'}, {len(each)} bytes\n")
        out.writelines(f"{f.severity.name.lower()}: {visible(f.text)}\n" for f in found)
        out.writelines(line + "\n" for line in tree_lines(tree, context))


def hex_record(tree: Any, context: Context) -> dict[str, Any]:
    """The object of a message without the keys that need a capture."""
    chain = messages(tree)
    return {
        "message": chain[0].name if chain else None,
        "path": [node.name for node in chain],
        "length": tree.length,
        "findings": [
            {
                "code": f.code,
                "severity": f.severity.name.lower(),
                "text": visible(f.text),
                "offset": f.offset if f.offset >= 0 else None,
            }
            for f in findings(tree)
        ],
        "fields": list(field_records(tree, context)),
    }
