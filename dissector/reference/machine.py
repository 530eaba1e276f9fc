"""The reference as JSON, and the two commands that print it."""

from __future__ import annotations

import json
from typing import Any, TextIO

from dissector.errors import UsageProblem
from dissector.reference import text
from dissector.reference.comparison import Comparison, compare, compare_all
from dissector.reference.comparison import history as _over_releases
from dissector.reference.pages import Page, Row, check_release, fields_json, page, pages
from dissector.spec import LAST_RELEASE


def _details(row: Row) -> dict[str, Any]:
    declared = row.field
    assert declared is not None
    facts = {
        "path": row.path,
        "times": row.times,
        "when": row.when,
        "among": row.among,
        "proto_version": row.proto,
        "values": {str(k): v for k, v in declared.values.items()},
        "flags": {str(k): v for k, v in declared.flags.items()},
        "secret": declared.secret,
        "note": declared.note,
    }
    return {"position": row.position, **{k: v for k, v in facts.items() if v}}


def page_json(shown: Page) -> dict[str, Any]:
    """A page as the object that ``explain --json`` prints."""
    message = shown.message
    return {
        "message": shown.name,
        "layer": shown.layer,
        "pg": shown.release,
        "manual_path": shown.manual_path,
        "signature": shown.name,
        "first_field": shown.first_field,
        "direction": message.direction,
        "since": {"server": message.since, "proto_version": message.proto or None},
        "until": message.until if message.until < LAST_RELEASE else None,
        "fields": fields_json(shown.rows),
        "source": f"PostgreSQL {shown.release}",
        "sha256": shown.sha256,
        "meaning": message.meaning,
        "note": message.note or None,
        "details": [_details(row) for row in shown.rows],
        "captures": list(shown.captures),
    }


def explain_json(name: str | None, release: int = 18) -> dict[str, Any] | list[dict[str, Any]]:
    """The definition called `name` with its evidence; without a name a list of all of `release`."""
    if name is None:
        return [page_json(one) for one in pages(release)]
    return page_json(page(name, release))


def comparison_json(shown: Comparison) -> dict[str, Any]:
    """A comparison as the object that ``compare --json`` prints."""
    return {
        "message": shown.name_new or shown.name_old or shown.message.name,
        "layer": shown.message.layer,
        "old": shown.old,
        "new": shown.new,
        "name_old": shown.name_old,
        "name_new": shown.name_new,
        "same": shown.same,
        "changes": [
            {
                "kind": change.kind,
                "position_old": change.position_old,
                "position_new": change.position_new,
                "old": change.old,
                "new": change.new,
                "name": change.name,
            }
            for change in shown.changes
        ],
    }


def write_explain(
    out: TextIO, name: str | None, release: int, *, history: bool = False, as_json: bool = False
) -> None:
    """Print a page, all pages, or with `history` a message over all releases.

    Raises UsageProblem for a name or a release that is not known.
    """
    check_release(release)
    if history:
        if name is None:
            raise UsageProblem("--history needs a message, for example: explain Relation --history")
        over = _over_releases(name)
        if as_json:
            _write_json(out, [comparison_json(one) for one in over])
        else:
            out.write(text.history_text(over))
    elif as_json:
        _write_json(out, explain_json(name, release))
    else:
        out.write(text.explain_text(name, release))


def _write_json(out: TextIO, data: Any) -> None:
    out.write(json.dumps(data, indent=2) + "\n")


def write_compare(
    out: TextIO, name: str | None, old: int, new: int, *, as_json: bool = False
) -> None:
    """Print a comparison; without a name everything that changed.

    Raises UsageProblem for a name or a release that is not known.
    """
    found = compare_all(old, new) if name is None else (compare(name, old, new),)
    if as_json:
        shown = [comparison_json(one) for one in found]
        _write_json(out, shown if name is None else shown[0])
    elif name is None:
        out.write(text.changes_text(found, old, new))
    else:
        out.write(text.comparison_text(found[0]))
