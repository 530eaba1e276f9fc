"""One line that tells what a message says, for lists."""

from __future__ import annotations

from dataclasses import replace

from . import display
from .columns import column_values
from .display import Context
from .node import Node, walk
from .opened import Opened
from .spec import Field, Message

WIDTH = 160
"""Characters of a summary; a value takes at most VALUE of them."""

VALUE = 40

MOST_NAMES = 20
"""Columns of a description that its summary names."""

TOLD_OF = "SCM"
"""What a summary says of what a server tells: severity, code and message, by their letters."""

_ROWS = ("Insert", "Update", "Delete", "DataRow", "Bind")


def summary(view: Opened, show_secrets: bool = False) -> str:
    """The summary of an opened message: safe for a terminal, one line."""
    context = view.context(show_secrets, VALUE)
    inner = view.innermost
    name = inner.declaration.name if isinstance(inner.declaration, Message) else ""
    special = SPECIAL.get(name)
    if name in _ROWS:
        text = _row(view, name, context)
    elif view.schema.kind == "file":
        text = _file(view, inner)
    elif name in ("CopyData", "WALData"):
        text = _carried(inner, context)
    elif special is not None:
        text = special(inner, context)
    else:
        text = " ".join(_named(inner, context))
    notes = [f.text for f in view.found]
    if notes:
        text = f"{text} [{display.visible(notes[0])}]" if text else display.visible(notes[0])
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _named(inner: Node, context: Context) -> list[str]:
    """``name=value`` for the fields that say something: no tags, lengths or zero flags."""
    found = []
    for child in inner.children or ():
        declared = child.declaration
        if child.absent or (child.name == "flags" and not child.value):
            continue
        if isinstance(declared, Field) and (declared.includes_self or declared.layer):
            continue
        if isinstance(declared, Field) and isinstance(declared.constant, str):
            continue
        found.append(f"{child.name}={display.display(child, context)}")
        if len(found) == 8:
            break
    return found


def _row(view: Opened, name: str, context: Context) -> str:
    """``public.users: id=1, name='Zoë'``; of an update the old values that were sent come first."""
    parts: dict[str, list[str]] = {}
    for each in column_values(view.tree, view.schema):
        shown = parts.setdefault(each.part, [])
        if each.state == "not sent" or len(shown) > 20:
            continue
        shown.append(f"{display.visible(each.name, VALUE)}={each.text(context)}")
    if name == "DataRow" and not view.schema.columns:
        return display.display(view.innermost, context) or f"{view.tree.length} bytes"
    changes = [", ".join(shown) or "(no columns)" for shown in parts.values()]
    text = " → ".join(changes)
    subject = view.schema.full_name if view.schema.kind == "relation" else ""
    if not subject and name not in ("DataRow", "Bind"):
        oid = view.innermost.child("relation_oid")
        subject = f"relation {oid.value}" if oid is not None else ""
    return f"{display.visible(subject)}: {text}" if subject else text


def _carried(inner: Node, context: Context) -> str:
    """What CopyData or XLogData hold that is no message: rows, text of a plug-in, WAL."""
    data = inner.child("data")
    if data is None:
        return ""
    if data.child("pages") is not None:
        return _wal(inner)
    return display.display(data, replace(context, limit=WIDTH))


def _file(view: Opened, inner: Node) -> str:
    """``base/1/1259 (file of 8192 bytes)`` where it begins, else how much of it this is."""
    data, schema = inner.child("data"), view.schema
    name = display.visible(schema.name, WIDTH // 2)
    if data is not None and data.child("files") is not None:
        return f"{name} (file of {schema.oid} bytes begins)"
    return f"{name} ({data.length if data is not None else 0} of {schema.oid} bytes)"


def _wal(inner: Node) -> str:
    """The LSN range of raw WAL, and where pages begin in it."""
    start, data = inner.child("start_lsn"), inner.child("data")
    if start is None or data is None or not isinstance(start.value, int):
        return ""
    end = display.lsn(start.value + data.length)
    pages = data.child("pages")
    headers = sum(e.child("magic") is not None for e in (pages.children or ())) if pages else 0
    shown = f"WAL {display.lsn(start.value)} to {end}, {data.length} bytes"
    return f"{shown}, {headers} page headers" if headers else shown


def _record(inner: Node, context: Context) -> str:
    """A TLS record in few words."""
    kind, size = inner.child("content_type"), inner.child("record_length")
    if kind is None or size is None:
        return ""
    names = [
        display.display(each.children[0], context).partition("(")[2].rstrip(")")
        for node in walk(inner)
        if node.name == "handshakes" and node.index < 0
        for each in node.children or ()
        if each.children
    ]
    shown = ", ".join([display.display(kind, context), *names])
    return f"{shown}, {size.value} bytes"


def _error(inner: Node, context: Context) -> str:
    fields = {}
    for element in (c for child in inner.children or () for c in child.children or ()):
        letter, value = element.child("field_type"), element.child("value")
        if letter is not None and value is not None and isinstance(value.value, bytes):
            hidden = value.children is not None  # a password stands in it
            shown = (
                display.display(value, context) if hidden else display.plain(value.value, context)
            )
            fields[chr(letter.value)] = shown
    return " ".join(fields[k] for k in TOLD_OF if k in fields)


def _relation(inner: Node, context: Context) -> str:
    texts = {c.name: display.display(c, context) for c in inner.children or () if not c.absent}
    columns = next((c for c in inner.children or () if c.name == "columns"), None)
    names = [
        display.display(each, context)
        for each in ((columns.children if columns is not None else None) or ())[:12]
    ]
    namespace = texts.get("namespace", "''").replace("''", "pg_catalog")
    more = ", …" if columns is not None and len(columns.children or ()) > len(names) else ""
    title = f"{namespace}.{texts.get('relation_name', '?')} (OID {texts.get('relation_oid', '?')})"
    return f"{title.split(' (', 1)[0]} oid={_raw(inner, 'relation_oid')}: {', '.join(names)}{more}"


def _raw(inner: Node, name: str) -> str:
    child = inner.child(name)
    return str(child.value) if child is not None else "?"


def _pairs(inner: Node, context: Context) -> str:
    found = []
    for child in inner.children or ():
        for element in child.children or ():
            name, value = element.child("name"), element.child("value")
            if name is not None and value is not None:
                found.append(f"{display.plain(name.value or b'', context)}="
                             f"{display.display(value, context)}")  # fmt: skip
    return " ".join([*_named(inner, context)[:1], *found])


def _description(inner: Node, context: Context) -> str:
    columns = next((c for c in inner.children or () if c.name == "columns"), None)
    names = [
        display.plain(name.value, context)
        for each in (columns.children if columns is not None else None) or ()
        if (name := each.child("name")) is not None and name.value is not None
    ]
    return ", ".join(names[:MOST_NAMES])


SPECIAL = {
    "ErrorResponse": _error,
    "NoticeResponse": _error,
    "Relation": _relation,
    "TLSRecord": _record,
    "StartupMessage": _pairs,
    "RowDescription": _description,
}
