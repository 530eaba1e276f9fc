"""Strings for one message: its tree, its bytes, and all that is known of a field.

The other half of `present`; the same rules hold.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, chop_cells

from dissector.columns import ColumnValue
from dissector.node import Node, walk
from dissector.text import visible
from tui.opened import Opened
from tui.present import SEVERITY_NAMES, SEVERITY_SIGNS, fit, severity_style

Pieces = list[tuple[str, str]]

TREE_STYLES = ("tree--message", "tree--name", "tree--value", "tree--absent", "tree--quiet")
HEX_STYLES = ("hex--offset", "hex--field", "hex--around", "hex--at", "hex--found")
DETAIL_STYLES = ("detail--label", "detail--path")

VALUE_LIMIT = 3000
"""Characters of a value in the details; the bytes have the rest."""

NARROW = 56
"""Cells below which a level of the tree is indented by one cell in place of two."""


def node_name(opened: Opened, node: Node) -> str:
    """The name of a node in the tree; an element has its number and its column's name."""
    if node.index < 0:
        return visible(node.name, 80)
    column = opened.column(node)
    if column is None or column.column is None:
        return f"{visible(node.name, 80)}[{node.index}]"
    return f"[{node.index}] {visible(column.name, 80)}"


def _indent(depth: int, width: int) -> int:
    return depth * (1 if width < NARROW else 2)


def is_marker(depth: int, width: int, x: int) -> bool:
    """True when cell `x` of a line of the tree is the sign that opens and closes it."""
    return 0 <= x - _indent(depth, width) < 2


def tree_pieces(
    message: Opened, node: Node, depth: int, opened: bool, severity: int, width: int
) -> Pieces:
    """One line of the tree: sign, name, value.

    severity: of the worst finding of the node and what is below it, shown as a sign."""
    marker = ("▼ " if opened else "▶ ") if node.children else "  "
    indent = _indent(depth, width)
    name = node_name(message, node)
    # Values stand in a column; a long name deep down may push its value out of it.
    room = min(34, width * 9 // 20) - indent - 2
    room = max(room, min(cell_len(name), width - indent - 14), 6)
    style = "tree--message" if node.is_message else "tree--absent" if node.absent else "tree--name"
    pieces = [(" " * indent + marker, "tree--quiet")]
    pieces.append((fit(name, room) + " ", style))
    if severity:
        pieces.append((SEVERITY_SIGNS[severity] + " ", severity_style(severity)))
    value = message.text(node, max(20, width))
    if node.absent and node.reason:
        value = f"{value}: {visible(node.reason, width)}"
    pieces.append((value, "tree--absent" if node.absent else "tree--value"))
    return pieces


# Bytes.


@dataclass(frozen=True)
class HexShape:
    """How many bytes stand in a row, and where."""

    per_row: int
    digits: int

    def column_of(self, index: int) -> int:
        """Cell of the first digit of byte `index` of a row; an empty cell follows every eighth."""
        return self.digits + 2 + index * 3 + index // 8

    @property
    def text_column(self) -> int:
        """Cell of the first character of the text column."""
        return self.column_of(self.per_row - 1) + 4

    def byte_at(self, x: int) -> int | None:
        """The byte whose digits or character are at cell `x`; None elsewhere."""
        if self.text_column <= x < self.text_column + self.per_row:
            return x - self.text_column
        for index in range(self.per_row):
            if self.column_of(index) <= x < self.column_of(index) + 2:
                return index
        return None


def hex_shape(width: int, length: int) -> HexShape:
    """The most bytes in a row, a power of two, for `length` bytes on a pane of `width` cells."""
    digits = 4
    while length > 16**digits:
        digits += 2
    for per_row in (32, 16, 8):
        shape = HexShape(per_row, digits)
        if shape.text_column + per_row <= width:
            return shape
    return HexShape(4, digits)


def hex_pieces(
    data: bytes, start: int, shape: HexShape, marks: Sequence[tuple[int, int, str]]
) -> Pieces:
    """One row: the bytes `data`, which begin at offset `start` of the message.

    marks: (start, end, style) by offsets of the message; a later one lies over the earlier ones.
    """
    digits: Pieces = []
    text: Pieces = []
    for first, last, style in _runs(start, start + len(data), marks):
        shown = data[first - start : last - start]
        pairs = shown.hex(" ")
        gap = (first - start) // 8 * 8 + 8 - (first - start)  # bytes up to the empty cell
        while gap < len(shown):
            cut = gap * 3 + (gap - 1) // 8
            pairs = f"{pairs[:cut]} {pairs[cut:]}"
            gap += 8
        digits.append((pairs, style))
        space = " " if last - start == len(data) or (last - start) % 8 else "  "
        digits.append((space, ""))
        text.append((shown.translate(_CHARACTERS).decode("latin-1"), style))
    head = f"{start:0{shape.digits}x}  "
    written = len(head) + sum(len(piece) for piece, _ in digits)
    digits.append((" " * (shape.text_column - written), ""))
    shown_text: Pieces = [(piece.replace("\x00", "·"), style) for piece, style in text]
    return [(head, "hex--offset"), *digits, *shown_text]


_CHARACTERS = bytes(code if 32 <= code < 127 else 0 for code in range(256))
"""Printable ASCII stays; all other bytes become 0, which is then shown as a dot."""


def _runs(
    start: int, end: int, marks: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[int, int, str]]:
    """`start` to `end` in pieces of one style each."""
    cuts = {start, end}
    for first, last, _ in marks:
        cuts.update(place for place in (first, last) if start < place < end)
    edges = sorted(cuts)
    for first, last in pairwise(edges):
        style = ""
        for begins, ends, name in marks:
            if begins <= first < ends:
                style = name
        yield first, last, style


# All that is known of a field.


@dataclass(frozen=True)
class Fact:
    """A label and a text, shown one below the other; style: that of the text."""

    label: str
    text: str
    style: str = ""


def path_text(chain: Sequence[Node]) -> str:
    """The path of the last of `chain`, from the root: ``CopyData.XLogData.Begin.xid``.

    A message takes the place of the field that carries it.
    """
    parts: list[str] = []
    for node in chain:
        if node.index >= 0 and parts:
            parts[-1] += f"[{node.index}]"
            continue
        if node.is_message and len(parts) > 1:
            parts.pop()
        parts.append(visible(node.name, 80))
    return ".".join(parts)


MOST_FINDINGS = 8
"""Findings that are told at a field that holds others; each of those tells its own."""

NO_BREAK = "\u00a0"
"""Stands for a space where a line must not end; a space takes its place after wrapping."""


def column_text(column: ColumnValue) -> str:
    """Name, type and state of a column: ``email  ·  text  ·  key  ·  sent as text``."""
    known = column.column is not None
    parts = [visible(column.name, 120) if known else f"{column.index + 1}, not described"]
    if column.column is not None:
        parts.append(visible(column.typed.type, 120))
        if column.column.is_key:
            parts.append("part of the key")
    parts.append(
        {"text": "sent as text", "binary": "sent in binary"}.get(column.state, column.state)
    )
    return "  ·  ".join(parts)


def facts(opened: Opened, node: Node, parents: Sequence[Node]) -> list[Fact]:
    """Everything to tell about `node`, to which `parents` lead from the root."""
    chain = [*parents, node]
    places = [f"offset {node.start} (0x{node.start:x})"]
    layer = next((n for n in reversed(parents) if n.is_message), None)
    if layer is not None and layer is not chain[0]:
        places[0] += f", {node.start - layer.start} in {visible(layer.name, 40)}"
    places.append(f"length {node.length}")
    if node.format:
        places.append(f"format {node.format}")
    if node.position:
        places.append(f"position {node.position}")
    place = "  ·  ".join(part.replace(" ", NO_BREAK) for part in places)
    told = [Fact("", path_text(chain), "detail--path"), Fact("", place)]
    if value := opened.text(node, VALUE_LIMIT):
        told.append(Fact("value", value))
    if column := opened.column(node):
        told.append(Fact("column", column_text(column)))
    if node.meaning:
        told.append(Fact("meaning", node.meaning))
    if node.reason:
        told.append(Fact("why", visible(node.reason, 300)))
    found = list(opened.found) if node.is_message else []
    if opened.found:
        found += [n.finding for n in walk(node) if n.finding is not None and n.finding not in found]
    for each in reversed(found[:MOST_FINDINGS]):
        severity = int(each.severity)
        text = f"{SEVERITY_NAMES[severity]}: {visible(each.text, 300)}"
        told.insert(1, Fact("finding", text, severity_style(severity)))
    note = getattr(node.declaration, "note", "")
    if note:
        told.append(Fact("note", note))
    return told


def wrap_facts(told: Sequence[Fact], width: int) -> list[Pieces]:
    """The lines of `told` for a pane of `width` cells."""
    lines: list[Pieces] = []
    for fact in told:
        label = f"{fact.label} " if fact.label else ""
        room = max(10, width - len(label))
        for index, text in enumerate(_wrap(fact.text, room)):
            head = label if index == 0 else " " * len(label)
            lines.append([(head, "detail--label"), (text, fact.style)])
    return lines


def _wrap(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    lines = [line.replace(NO_BREAK, " ") for line in lines]
    if text.isascii():
        return lines
    wide: list[str] = []
    for line in lines:
        wide += [line] if cell_len(line) <= width else chop_cells(line, width)
    return wide
