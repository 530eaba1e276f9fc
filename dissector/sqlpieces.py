"""What a summary says of messages other than changes of rows, learned from an opened message of each kind as
items that `dissector.fieldtexts` writes many of at once: numbers, strings and lists one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import display
from .contents import MAY_HAVE_PARTS, MAY_HOLD_SECRETS
from .copyrows import shown_cell
from .display import Context
from .fieldpieces import (
    BYTES,
    CELLS,
    CONSTANT,
    COUNTED,
    MOST_NAMED,
    NAMED,
    NAMES,
    NEXT,
    REST,
    SIZE,
    SKIPPED,
    SORTS,
    STRING,
    TOLD,
    WIDTHS,
    CopyCells,
    Item,
    Named,
    Tail,
    bytes_maker,
    cut_items,
    named_field,
)
from .node import Node
from .spec import Field, Message, Repeat
from .summary import SPECIAL
from .view import MessageView


@dataclass(slots=True)
class Plan:
    """items: the steps of the summary; size: bytes of the fields in front that lie at the same place in all
    messages; tail: something may follow them; hints: a password may stand where a word hints at one."""

    items: list[Item]
    size: int
    tail: bool = True
    hints: bool = False


class _UnknownError(Exception):
    """Messages of this kind have to be looked at one by one."""


def plan(view: MessageView, short: Context) -> Plan | None:
    """How messages like the opened one, in which nothing is wrong, are shown; None where that is not known
    here."""
    inner = view.innermost
    declared = inner.declaration
    if not isinstance(declared, Message) or view.found or view.schema.kind == "file":
        return None
    try:
        made = _special(view, declared.name, short) or _fields(inner, short)
    except _UnknownError:
        return None
    made.hints = declared.name in MAY_HOLD_SECRETS
    return made


def _special(view: MessageView, name: str, short: Context) -> Plan | None:
    """Of messages whose summary does not only name their fields; None for others."""
    inner, start = view.innermost, view.innermost.start
    if name == "DataRow" and not view.schema.columns:
        return Plan([Item(SIZE, b"", b""), Item(CONSTANT, b" bytes", b" bytes")], start)
    if name == "Bind" and view.schema.kind != "parameters":
        return Plan([Item(SKIPPED, b"", b"")], start)
    if name == "RowDescription":
        count = _child(inner, "column_count")
        names = Item(NAMES, b"", b", ", 0, count.start, count.length, of=_plain(short, ", "))
        names.step = _width(_child(inner, "columns"), 1)
        return Plan([names], count.end)
    if name in ("ErrorResponse", "NoticeResponse"):
        told = Item(TOLD, b"", b" ", of=_plain(short, " "))
        return Plan([told], _child(inner, "fields").start)
    if name == "CopyData":
        return Plan([_copied(view, short)], _child(inner, "data").start)
    if name in SPECIAL or name in MAY_HAVE_PARTS or name in ("DataRow", "Bind"):
        raise _UnknownError
    return None


def _copied(view: MessageView, short: Context) -> Item:
    """A row of COPY, in a message that begins with it."""
    state = view.schema.copy
    if state is None or not state.fresh or view.dialect.copy == "tar":
        raise _UnknownError
    null = state.null

    def shown(raw: bytes) -> str:
        return shown_cell(raw, null, short)

    cells = CopyCells("", shown, "'", "'", ", ", {}, state.delimiter[0], null)
    if state.form == "csv":
        cells.quote = state.quote[0]
    else:
        cells.escape = ord("\\")
    return Item(CELLS, b"'", b", '", quoted=True, of=cells)


def _child(inner: Node, name: str) -> Node:
    found = inner.child(name)
    if found is None:
        raise _UnknownError
    return found


def _plain(short: Context, mark: str) -> Tail:
    return Tail("", lambda raw: display.plain(raw, short), "", "", mark)


def _width(repeat: Node, first: int) -> int:
    """Bytes of the parts of an element, all of fixed width, from part number `first` on."""
    declared, release = repeat.declaration, repeat.place.release
    width = 0
    for part in declared.parts[first:] if isinstance(declared, Repeat) else ():
        if not isinstance(part, Field) or part.kind.rule != "fixed":
            raise _UnknownError
        width += part.kind.width * (part.since <= release <= part.until)
    if not width:
        raise _UnknownError
    return width


# -- messages whose fields are named one after the other


def _fields(inner: Node, short: Context) -> Plan:
    items: list[Item] = []
    size, loose, named = inner.start, False, 0
    before: Field | None = None
    for child in inner.children or ():
        declared = child.declaration
        if child.absent:
            raise _UnknownError
        if isinstance(declared, Repeat):
            if before is None or declared.count != before.name:
                raise _UnknownError
            found = [_counted(child)]
        elif not isinstance(declared, Field) or declared.secret or declared.layer:
            raise _UnknownError
        elif declared.kind.rule == "fixed":
            found = _number(child, short, NEXT if loose else child.start)
            size = size if loose else child.end
        else:
            found = [_string(child, declared, before, short)]
        loose |= isinstance(declared, Repeat) or declared.kind.rule != "fixed"
        named += sum(item.sort != SKIPPED for item in found)
        for item in found:
            items += cut_items(f" {item.text.decode()}", item) if item.text else [item]
        before = declared if isinstance(declared, Field) else None
    if named > MOST_NAMED:
        raise _UnknownError
    return Plan(items, size, loose)


def _number(node: Node, short: Context, at: int) -> list[Item]:
    """A field of fixed width, at its place or where the item before it ended."""
    if not isinstance(node.value, int) or node.length not in WIDTHS:
        raise _UnknownError
    named = named_field(node, short)
    if named is None:
        return [Item(SKIPPED, b"", b"", step=node.length)] if at == NEXT else []
    sort = SORTS.get(named.show or "", NAMED)
    if named.show is None:  # a constant
        if at == NEXT:
            raise _UnknownError
        sort = CONSTANT
    text = named.text.encode()
    return [Item(sort, text, text, 0, at, named.width, named.signed, named.skips, False, named)]


def _counted(node: Node) -> Item:
    """How many elements a list has, as many as the number before it says."""
    words = node.name.replace("_", " ")

    def make(count: int) -> str:
        return f"{count} {words.removesuffix('s') if count == 1 else words}"

    text = f"{node.name}="
    named = Named(0, 8, False, text, "", False, make)
    return Item(COUNTED, text.encode(), text.encode(), step=_width(node, 0), of=named)


def _string(node: Node, declared: Field, before: Field | None, short: Context) -> Item:
    """A string, bytes behind their length, or all bytes that are left."""
    sort = {"string": STRING, "bytes": BYTES if declared.size_from else REST}.get(
        declared.kind.rule
    )
    if sort is None or declared.values or not isinstance(node.value, bytes):
        raise _UnknownError
    if sort == BYTES and (
        before is None or before.name != declared.size_from or before.includes_self
    ):
        raise _UnknownError
    mark = "" if declared.kind.show == "text" else "'"
    text = f"{node.name}={mark}"
    tail = Tail("", bytes_maker(node, short), text, mark)
    return Item(sort, text.encode(), text.encode(), quoted=bool(mark), of=tail)
