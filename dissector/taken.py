"""What the fast writers took apart: texts that are the same in all messages of a kind, with the places of
numbers and values in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Any

from .cells import KEEPER, Cell
from .display import Context
from .node import Node, walk_paths
from .opened import Opened
from .records import dumps, field_records

RUN = 16
NULLS = b"n" * RUN
"""Columns of wide tables that are NULL are written so many at once."""


class UnusualError(Exception):
    """This message has to be written by the slow writers."""


@dataclass(slots=True)
class Flat:
    """Leaves at fixed places from the message's first byte: a template and what goes into it.

    numbers: reads them; slots: (item, Cell) of those that are not the same in all messages; template:
    their JSON with %s for the value and the display of each; named: (slot, item, text before it, whether
    0 is left out) of what the summary names.
    """

    numbers: Struct
    slots: list[tuple[int, Cell]]
    template: str
    named: list[tuple[Cell | None, int, str, bool]]

    def json(self, values: tuple[int, ...]) -> str:
        found: list[str] = []
        for i, cell in self.slots:
            value, shown, _ = cell.texts(values[i])
            found += (value, shown)
        return self.template % tuple(found)

    def summary(self, values: tuple[int, ...]) -> str:
        shown = []
        for cell, i, text, skips in self.named:
            if cell is None:
                shown.append(text)
            elif not skips or values[i]:
                shown.append(text + cell.texts(values[i])[2])
        return " ".join(shown[:8])


@dataclass(slots=True)
class Piece:
    """A column in one state: text before the value, between value and display, and after it; in the
    first one offsets for the column's start and the value's length. cell: None where there is no value:
    the texts are one then, of which the second is what differs between tables.

    middle and rest are the second and the third text as bytes, where there is a value.
    """

    texts: tuple[str, str, str]
    places: tuple[tuple[int, bool], ...]
    cell: Cell | None
    known: dict[int, bytes] = field(default_factory=dict)
    middle: bytes = b""
    rest: bytes = b""

    def __post_init__(self) -> None:
        if self.cell is not None:
            self.middle, self.rest = (text.replace("%%", "%").encode() for text in self.texts[1:])

    def at(self, start: int, length: int, layer: int) -> bytes:
        """What stands before the value of a column at `start`, whose value has `length` bytes."""
        key = start << 32 | length
        found = self.known.get(key)
        if found is None:
            found = self.made(start, length, layer)
            KEEPER.keep(self.known, 128 + len(found))
            self.known[key] = found
        return found

    def made(self, start: int, length: int, layer: int) -> bytes:
        """The same, not kept."""
        values = tuple(
            length if of < 0 else start + of - (layer if inner else 0) for of, inner in self.places
        )
        text = self.texts[0] if self.cell is not None else "".join(self.texts)
        return ("," + text % values).encode()


@dataclass(slots=True)
class Tuple:
    """One tuple of a row message: its columns by kind byte, and the text between it and the next."""

    pieces: list[dict[int, Piece]]
    between: Piece | None = None
    skip: int = 0

    def nulls(self, first: int) -> list[Piece] | None:
        """The pieces of RUN columns from `first` on that are NULL; None where not all are known so."""
        run = [kinds.get(NULLS[0]) for kinds in self.pieces[first : first + RUN]]
        found = [piece for piece in run if piece is not None and piece.cell is None]
        return found if len(found) == RUN else None


@dataclass(slots=True)
class Variant:
    """A row message by the letter of its first tuple."""

    flat: Flat
    tuples: list[Tuple]


@lru_cache(4096)
def _word(text: str | None) -> str:
    return dumps(text)


def static(found: dict[str, Any]) -> tuple[str, str, str]:
    """JSON of a field record in parts: up to the offset, format and name, and what follows the display;
    % doubled."""
    rest = {k: found[k] for k in found if k not in _BEFORE}
    parts = (
        f'{{"path":{dumps(found["path"])},"position":{dumps(found["position"])}',
        f'"format":{_word(found["format"])},"name":{_word(found["name"])}',
        f'"meaning":{_word(found["meaning"])}{"," if rest else ""}{dumps(rest)[1:]}',
    )
    if list(found)[:10] != _KEYS:
        raise UnusualError
    return tuple(t.replace("%", "%%") for t in parts)  # type: ignore[return-value]


_KEYS = ["path", "position", "offset", "layer_offset", "length", "format", "name", "value", "display",
         "meaning"]  # fmt: skip
_BEFORE = frozenset(_KEYS)


Leaves = list[tuple[Node, dict[str, Any]]]


def leaf_records(
    view: Opened, context: Context, wanted: Callable[[str], bool] | None = None
) -> Leaves:
    """The leaves of an opened message with their records, in order; with `wanted` those whose path it
    takes."""
    nodes = [
        node
        for path, node in walk_paths(view.tree)
        if node.children is None and (wanted is None or wanted(path))
    ]
    return list(zip(nodes, field_records(view.tree, context, view, wanted), strict=True))


def piece_of(group: Leaves, start: int, sized: Node | None, cell: Cell | None) -> Piece:
    """A Piece of leaves from `start` on. sized: that whose bytes vary, as does the length before it."""
    texts, places = [""], [[]]  # type: ignore[var-annotated]
    for node, found in group:
        first, middle, rest = static(found)
        texts[-1] += ("," if texts[-1] or len(texts) > 1 else "") + first
        texts[-1] += ',"offset":%d,"layer_offset":%d,"length":'
        offset = node.start - start
        places[-1] += [(offset, False), (offset, True)]
        varies = node is sized
        if varies:
            texts[-1] += "%d"
            places[-1].append((-1, False))
        else:
            texts[-1] += str(found["length"])
        texts[-1] += f',{middle},"value":'
        if varies:
            texts += [',"display":', f",{rest}"]
            places += [[], []]
        elif sized is not None and isinstance(node.value, int) and (
            cell is not None or node.name == "length"
        ):  # fmt: skip
            texts[-1] += f'%d,"display":"%d",{rest}'
            places[-1] += [(-1, False), (-1, False)]
        else:
            value = dumps(found["value"]).replace("%", "%%")
            told = dumps(found["display"]).replace("%", "%%")
            texts[-1] += f'{value},"display":{told},{rest}'
    if any(places[1:]):
        raise UnusualError  # fields behind the value
    a, b, c = (*texts, "", "")[:3]
    return Piece((a, b, c), tuple(places[0]), cell)
