"""Summaries of messages that are no rows, for all of a kind in a block at once.

What a message of the kind says is learned from an opened one: which fields its summary names, where
they lie, and how they are shown. Where strings follow the fields of fixed width, and for messages with
parts that repeat, each message is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import display
from .cells import HIGH, KEEPER, LOW, SECONDS, SHORT, is_safe
from .display import Context
from .node import Node, leaves
from .shapes import Heads, Run
from .slots import WINDOW, Array, Part, Slots, decimal, hexadecimal, left, packed
from .spec import Field
from .summary import VALUE, WIDTH, summary
from .view import MessageView

MOST_NAMED = 8
"""Fields that a summary names."""

KEPT = 1 << 14
"""Bytes of a message whose summary is kept."""

FEW = 8
"""Messages of a kind, below which each is written by itself."""

_WIDTHS = (1, 2, 4, 8)
_MICROS = 1_000_000
_QUICK: dict[str, Callable[[int], str]] = {
    "lsn": display.lsn, "timestamp": display.timestamp, "int": str, "xid": str,
}  # fmt: skip


@dataclass(slots=True)
class Named:
    """A field that a summary names: where it lies, the text before its value, how it is shown (lsn,
    timestamp, int, xid, "" for by `make`, None: `text` is all of it), whether 0 is left out, what `make`
    depends on, and the texts of its values."""

    at: int
    width: int
    signed: bool
    text: str
    show: str | None
    skips: bool
    make: Callable[[int], str]
    source: tuple[Any, ...] = ()
    known: dict[int, str] = field(default_factory=dict)

    def shown(self, value: int) -> str:
        """What is shown of a value."""
        if self.show:
            return _QUICK[self.show](value)
        found = self.known.get(value)
        if found is None:
            found = self.make(value)
            KEEPER.keep(self.known)
            self.known[value] = found
        return found


@dataclass(slots=True)
class Tail:
    """A string or, with the name of its length field, bytes behind their length; before, after: what
    stands around a short value of printable letters."""

    sized: str
    make: Callable[[bytes], str]
    before: str
    after: str
    known: dict[bytes, str] = field(default_factory=dict)

    def shown(self, raw: bytes) -> str:
        """What is shown of it, with its name."""
        if 0 < len(raw) <= VALUE and is_safe(raw):
            return f"{self.before}{raw.decode()}{self.after}"
        found = self.known.get(raw)
        if found is None:
            found = self.make(raw)
            if len(raw) <= SHORT:
                KEEPER.keep(self.known)
                self.known[raw] = found
        return found


class FieldKind:
    """Messages of one path, dialect, schema and direction.

    note: what is said of each of them, as it stands behind the summary; size: bytes of the fields of
    fixed width, below 0 where the message has to be taken as a whole.
    """

    def __init__(self, view: MessageView, short: Context, secrets: bool, note: str = "") -> None:
        inner = view.innermost
        self.base = inner.start
        self.note = note
        self.secrets = secrets
        self.named: list[Named] = []
        self.tail: list[Tail] = []
        self.memo: dict[bytes, str] = {}
        self.size = -1
        found = [n for n in leaves(view.tree) if n.start >= inner.start]
        fixed, rest = _split(found)
        if any(n.index >= 0 or n.value is None for n in found) or any(
            child.children is not None for child in inner.children or () if not child.absent
        ):
            return
        for child in inner.children or ():
            if child in fixed:
                named = _named(child, short)
                if named is not None:
                    self.named.append(named)
        if len(found) > MOST_NAMED or not self._tails(rest, short) or (rest and note):
            return
        self.size = fixed[-1].end if fixed else inner.start
        self.encoding = short.encoding if rest else ""

    def same(self) -> tuple[Any, ...] | None:
        """What kinds that are written alike have in common; None where each is for itself."""
        if self.size < 0:
            return None
        named = [(n.at, n.width, n.signed, n.text, n.show, n.skips, n.source) for n in self.named]
        tail = [(t.sized, t.before, t.after) for t in self.tail]
        return self.size, self.note, self.encoding, tuple(named), tuple(tail)

    def _tails(self, rest: list[Node], short: Context) -> bool:
        """Take the leaves behind those of fixed width; False where that cannot be."""
        while rest:
            group, rest = (
                (rest[:2], rest[2:]) if isinstance(rest[0].value, int) else (rest[:1], rest[1:])
            )
            node = group[-1]
            declared = node.declaration
            if not isinstance(node.value, bytes) or not isinstance(declared, Field):
                return False
            sized = group[0].name if len(group) == 2 else ""
            if declared.secret or (declared.kind.rule == "string") == bool(sized):
                return False
            if sized and (declared.size_from != sized or group[0].length != 4):
                return False
            if declared.values:
                return False
            mark = "" if declared.kind.show == "text" else "'"
            self.tail.append(Tail(sized, _bytes_maker(node, short), f"{node.name}={mark}", mark))
        return True

    # -- many

    def write(
        self, slots: Slots, data: bytes, rows: Array, begins: Array, ends: Array,
        opened: Callable[[int], MessageView],
    ) -> list[int]:  # fmt: skip
        """Add the summaries of `rows`; the rows that must be written otherwise."""
        if self.size < 0:
            return self._remembered(slots, data, rows, begins, ends, opened)
        if len(rows) < FEW:
            return self._singly(slots, data, rows, begins, ends)
        left_over: list[int] = []
        tails: list[str] = []
        if self.tail:
            found = [
                self._tail(data, begin + self.size, end)
                for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
            good = np.array([text is not None for text in found])
            tails = [text for text in found if text is not None]
        else:
            good = ends - begins == self.size
        if not good.all():
            left_over = rows[~good].tolist()
            rows, begins, ends = rows[good], begins[good], ends[good]
        heads = Run(data, begins, begins).heads(begins, self.size)
        odd = np.zeros(len(rows), bool)
        part = Part(slots, rows)
        for i, each in enumerate(self.named):
            self._column(part, heads, i, each, odd)
        if self.tail:
            if all(n.skips for n in self.named):
                some = np.broadcast_to(part.size, len(rows)) > 0
                tails = [t if s else t[1:] for t, s in zip(tails, some.tolist(), strict=True)]
            part.add_texts(tails)
        if self.note:
            behind = np.broadcast_to(part.size, len(rows)) > 0
            part.add_text(" [", behind)
            part.add_text(self.note)
            part.add_text("]", behind)
        part.close()
        if odd.any():
            which = np.flatnonzero(odd)
            left_over += self._singly(slots, data, rows[which], begins[which], ends[which])
        return left_over

    def _tail(self, data: bytes, at: int, end: int) -> str | None:
        """What is shown of strings and bytes behind their length, from `at` on, a blank before each;
        None where they do not end at `end`."""
        text = ""
        for each in self.tail:
            if each.sized:
                size = int.from_bytes(data[at : at + 4], "big")
                start, at = at + 4, at + 4 + size
                text += f" {each.sized}={size}"
                raw = data[start:at] if at <= end else b""
            else:
                stop = data.find(0, at, end)
                if stop < 0:
                    return None
                raw, at = data[at:stop], stop + 1
            text += f" {each.shown(raw)}"
        return text if at == end else None

    def _column(self, part: Part, heads: Heads, i: int, each: Named, odd: Array) -> None:
        """Add a field's name and value; rows that have to be looked at one by one become odd."""
        count = len(part.rows)
        if each.show is None:
            self._text(part, each.text, i, None)
            return
        values = heads.field(each.at, each.width)
        shown: Array | None = None
        if each.skips:
            shown = values != 0
            if not shown.any():
                return
            if shown.all():
                shown = None
        self._text(part, each.text, i, shown)
        many = 1 if shown is None else shown
        if each.show == "lsn":
            _lsn(part, values, many)
        elif each.show in ("int", "xid"):
            if each.signed:
                odd |= values >> (each.width * 8 - 1) != 0
            cells, counts = decimal(values)
            part.add(left(cells, counts), counts * many)
        elif each.show == "timestamp":
            _timestamp(part, values.astype(np.int64), many, odd)
        else:
            if each.signed:
                values = values.view(f"i{each.width}")
            distinct, which = np.unique(values, return_inverse=True)
            texts = [each.shown(v) for v in distinct.tolist()]
            strange = np.array([len(t) > WINDOW or not t.isascii() for t in texts])
            if strange.any():
                odd |= strange[which]
            lengths = np.array([min(len(t), WINDOW) for t in texts], np.int64)
            cells = packed([t.encode() for t in texts])
            if cells.itemsize > WINDOW:
                cells = packed([t.encode() for t in texts], WINDOW)
            part.add(cells[which.reshape(count)], lengths[which] * many)

    def _text(self, part: Part, text: str, i: int, shown: Array | None) -> None:
        """The name of the field numbered `i`, with a blank before it where anything stands there."""
        if i and any(n.skips for n in self.named[:i]):
            behind = np.broadcast_to(part.size, len(part.rows)) > 0
            part.add_text(" ", behind if shown is None else behind & shown)
        elif i:
            text = " " + text
        part.add_text(text, shown)

    # -- one by one

    def _singly(
        self, slots: Slots, data: bytes, rows: Array, begins: Array, ends: Array
    ) -> list[int]:
        """Fields by their numbers, then strings."""
        left_over = []
        for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
            text = self._single(data, begin, end)
            if text is None:
                left_over.append(row)
            else:
                slots.whole[row] = text.encode()
        return left_over

    def _single(self, data: bytes, begin: int, end: int) -> str | None:
        if begin + self.size > end or (not self.tail and begin + self.size != end):
            return None
        texts = []
        for each in self.named:
            if each.show is None:
                texts.append(each.text)
                continue
            place = begin + each.at
            value = int.from_bytes(data[place : place + each.width], "big", signed=each.signed)
            if value or not each.skips:
                texts.append(each.text + each.shown(value))
        if self.tail:
            tail = self._tail(data, begin + self.size, end)
            if tail is None:
                return None
            texts.append(tail[1:])
        text = " ".join(texts)
        if self.note:
            text = f"{text} [{self.note}]" if text else self.note
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"

    def _remembered(
        self, slots: Slots, data: bytes, rows: Array, begins: Array, ends: Array,
        opened: Callable[[int], MessageView],
    ) -> list[int]:  # fmt: skip
        """Messages with parts that repeat, Relation above all, come again with the same bytes."""
        left_over = []
        for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
            key = data[begin + self.base : end]
            known = self.memo.get(key)
            if known is None:
                view = opened(row)
                if view.found or self.note:
                    left_over.append(row)
                    continue
                known = summary(view, self.secrets)
                if len(key) <= KEPT:
                    KEEPER.keep(self.memo)
                    self.memo[key] = known
            slots.whole[row] = known.encode()
        return left_over


def _split(found: list[Node]) -> tuple[list[Node], list[Node]]:
    """The leaves of fixed width in front, and the others; a length goes with what it measures."""
    count = next((i for i, n in enumerate(found) if not _simple(n)), len(found))
    declared = found[count].declaration if count < len(found) else None
    if count and isinstance(declared, Field) and declared.size_from == found[count - 1].name:
        count -= 1
    return found[:count], found[count:]


def _simple(node: Node) -> bool:
    declared = node.declaration
    return (
        isinstance(declared, Field) and isinstance(node.value, int) and node.length in _WIDTHS
        and node.index < 0 and not declared.secret
    )  # fmt: skip


def _named(node: Node, short: Context) -> Named | None:
    """How a summary names a field of fixed width, as `dissector.summary` does; None where it does not."""
    declared = node.declaration
    if not isinstance(declared, Field) or declared.includes_self or declared.layer:
        return None
    if isinstance(declared.constant, str):
        return None
    place, reason, length = node.place, node.reason, node.length

    def make(value: int) -> str:
        return display.display(Node(place, 0, length, value, None, reason), short)

    text = f"{node.name}="
    if declared.constant is not None and not declared.also:
        if node.name == "flags" and not node.value:
            return None
        return Named(node.start, length, False, text + make(node.value), None, False, make)
    plain = not (declared.values or declared.flags)
    show = (
        declared.kind.show
        if plain and declared.kind.show in ("lsn", "timestamp", "int", "xid")
        else ""
    )
    if show in ("int", "xid") and length > 4:
        show = ""
    source: tuple[Any, ...] = ()
    if not show:
        known = tuple(short.types.items()), tuple(short.relations.items())
        source = (place.declaration, place.release, short.encoding, *known)
    return Named(
        node.start, length, declared.kind.signed, text, show, node.name == "flags", make, source
    )


def _bytes_maker(node: Node, short: Context) -> Callable[[bytes], str]:
    place, reason = node.place, node.reason

    def make(value: bytes) -> str:
        leaf = Node(place, 0, len(value), value, None, reason)
        return f"{place.name}={display.display(leaf, short)}"

    return make


def _lsn(part: Part, values: Array, many: Array | int) -> None:
    high, low = (values >> np.uint64(32)).astype(np.uint32), values.astype(np.uint32)
    for number, text in ((high, "/"), (low, "")):
        cells, counts = hexadecimal(number)
        part.add(left(cells, counts), counts * many)
        if text:
            part.add_text(text, None if isinstance(many, int) else many)


def _timestamp(part: Part, values: Array, many: Array | int, odd: Array) -> None:
    """``2026-11-29 18:53:12.831399 UTC``, without a fraction of 0; times of other years are odd."""
    seconds, micros = np.divmod(values, _MICROS)
    unusual = (values <= LOW) | (values >= HIGH)
    if unusual.any():
        odd |= unusual
        seconds[unusual] = 0
    distinct, which = np.unique(seconds, return_inverse=True)
    width = len("2026-11-29 18:53:12.")
    some = micros != 0
    part.add(
        packed([SECONDS[s].encode() for s in distinct.tolist()], width)[which],
        (width - 1 + some) * many,
    )
    part.add(np.ascontiguousarray(decimal(micros + _MICROS)[0][:, -6:]), some * 6 * many)
    part.add_text(" UTC", None if isinstance(many, int) else many)
