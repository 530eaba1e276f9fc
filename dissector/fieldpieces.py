"""What a summary says of messages that are no rows, learned from an opened message of each kind.

Which fields it names, where they lie and how they are shown. A message of the kind is told of by these
alone (`FieldKind.text`), or many at once (`dissector.fieldtexts`), for which a kind is a list of items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from . import display
from .cells import KEEPER, SHORT, is_safe
from .display import Context
from .node import Node, leaves
from .slots import WINDOW
from .spec import Field, Message
from .summary import VALUE, WIDTH, summary
from .view import MessageView

MOST_NAMED = 8
"""Fields that a summary names."""

KEPT = 1 << 14
"""Bytes of a message whose summary is kept."""

NEXT = -1
"""The place of what begins where the item before it ended."""

(
    CONSTANT, LSN, TIME, NUMBER, NAMED, LENGTH, STRING, BYTES, COUNTED, REST, SIZE, SKIPPED, NAMES, TOLD,
    CELLS,
) = range(15)  # fmt: skip
"""How an item is shown: a text alone; numbers at their place; a length where the last string ended, a
string that ends with a 0 byte, and as many bytes as the length said; how many elements the last number
counted; all bytes that are left, and how many the message has; nothing, of so many bytes or of all that
are left; names of columns, what a server tells, and a row of COPY (see `dissector.fieldstrings`)."""

WIDTHS = (1, 2, 4, 8)
_QUICK: dict[str, Callable[[int], str]] = {
    "lsn": display.lsn, "timestamp": display.timestamp, "int": str, "xid": str,
}  # fmt: skip


@dataclass(slots=True)
class Item:
    """One step of a summary: how it is shown, the text before it where nothing or something stands
    there, where the number lies (from the message's begin; NEXT: where the last item ended) and how wide
    it is, whether 0 is left out, for `shown` the number's or string's own, and how many bytes an element
    has or are skipped."""

    sort: int
    first: bytes
    text: bytes
    extra: int = 0
    at: int = 0
    width: int = 0
    signed: bool = False
    skips: bool = False
    quoted: bool = False
    of: Named | Tail | None = None
    step: int = 0


@dataclass(slots=True)
class Named:
    """A field that a summary names: where it lies, the text before its value, how it is shown (lsn,
    timestamp, int, xid, "" for by `make`, None: `text` is all of it), whether 0 is left out, and the texts
    of its values."""

    at: int
    width: int
    signed: bool
    text: str
    show: str | None
    skips: bool
    make: Callable[[int], str]
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
    stands around a short value of printable letters; mark: before it where something stands there."""

    sized: str
    make: Callable[[bytes], str]
    before: str
    after: str
    mark: str = " "
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


@dataclass(slots=True)
class CopyCells(Tail):
    """The columns of a row of COPY: the letter between them, and what stands for NULL; escape: one that may
    not stand before the former, and quote: one that may not stand anywhere, -1 for none."""

    delimiter: int = 0
    null: bytes = b""
    escape: int = -1
    quote: int = -1


class FieldKind:
    """Messages of one path, dialect, schema and direction.

    note: what is said of each of them, as it stands behind the summary; size: bytes of the fields of
    fixed width, below 0 where the message has to be taken as a whole; base: what is before this byte of it
    says nothing.
    """

    def __init__(self, view: MessageView, short: Context, secrets: bool, note: str = "") -> None:
        inner = view.innermost
        self.note = note
        self.secrets = secrets
        self.named: list[Named] = []
        self.tail: list[Tail] = []
        self.memo: dict[bytes, str] = {}
        self.size = -1
        self._plan(view, inner, short)
        if self.size < 0:
            named = isinstance(inner.declaration, Message) and inner.declaration.name
            xid = inner.child("xid") if named == "Relation" else None  # it does not tell of this
            self.base = xid.end if xid is not None else inner.start
            self.text(view.data, lambda: view)

    def _plan(self, view: MessageView, inner: Node, short: Context) -> None:
        """Learn the fields, if they are such as can be written by themselves."""
        found = [n for n in leaves(view.tree) if n.start >= inner.start]
        fixed, rest = _split(found)
        if any(n.index >= 0 or n.value is None for n in found) or any(
            child.children is not None for child in inner.children or () if not child.absent
        ):
            return
        for child in inner.children or ():
            if child in fixed:
                named = named_field(child, short)
                if named is not None:
                    self.named.append(named)
        if len(found) > MOST_NAMED or not self._tails(rest, short) or (rest and self.note):
            return
        self.size = fixed[-1].end if fixed else inner.start

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
            self.tail.append(Tail(sized, bytes_maker(node, short), f"{node.name}={mark}", mark))
        return True

    def items(self) -> list[Item] | None:
        """The steps of the summary; None where each message has to be looked at by itself."""
        maybe = all(n.skips for n in self.named)  # nothing may stand before what follows
        if self.size < 0 or (self.note and self.named and maybe):
            return None
        found: list[Item] = []
        for each in self.named:
            sort = SORTS.get(each.show or "", NAMED) if each.show is not None else CONSTANT
            item = Item(
                sort, b"", b"", 0, each.at, each.width, each.signed, each.skips, False, each
            )
            found += cut_items(f" {each.text}", item)
        for tail in self.tail:
            if tail.sized:
                found += cut_items(f" {tail.sized}=", Item(LENGTH, b"", b""))
            item = Item(BYTES if tail.sized else STRING, b"", b"", of=tail, quoted=bool(tail.after))
            found += cut_items(f" {tail.before}", item)
        if self.note:
            text = f" [{self.note}]" if self.named else f" {self.note}"
            found += cut_items(text, Item(CONSTANT, b"", b""))
        return found

    def text(self, message: bytes, opened: Callable[[], MessageView]) -> bytes | None:
        """The summary of one message, UTF-8; None where it must be made otherwise."""
        text = self._remembered(message, opened) if self.size < 0 else self._single(message)
        return text.encode() if text is not None else None

    def _single(self, message: bytes) -> str | None:
        end = len(message)
        if self.size > end or (not self.tail and self.size != end):
            return None
        texts = []
        for each in self.named:
            if each.show is None:
                texts.append(each.text)
                continue
            raw = message[each.at : each.at + each.width]
            value = int.from_bytes(raw, "big", signed=each.signed)
            if value or not each.skips:
                texts.append(each.text + each.shown(value))
        at = self.size
        for tail in self.tail:
            if tail.sized:
                size = int.from_bytes(message[at : at + 4], "big")
                start, at = at + 4, at + 4 + size
                texts.append(f"{tail.sized}={size}")
                raw = message[start:at] if at <= end else b""
            else:
                stop = message.find(0, at)
                if stop < 0:
                    return None
                raw, at = message[at:stop], stop + 1
            texts.append(tail.shown(raw))
        if self.tail and at != end:
            return None
        text = " ".join(texts)
        if self.note:
            text = f"{text} [{self.note}]" if text else self.note
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"

    def _remembered(self, message: bytes, opened: Callable[[], MessageView]) -> str | None:
        """Messages with parts that repeat, Relation above all, come again with the same bytes."""
        key = message[self.base :]
        known = self.memo.get(key)
        if known is None:
            view = opened()
            if view.found or self.note:
                return None
            known = summary(view, self.secrets)
            if len(key) <= KEPT:
                KEEPER.keep(self.memo)
                self.memo[key] = known
        return known


SORTS = {"lsn": LSN, "timestamp": TIME, "int": NUMBER, "xid": NUMBER}


def cut_items(text: str, last: Item) -> list[Item]:
    """`text`, which begins with a blank that is not shown where nothing stands before it, as items that
    fit into windows; `last` is the last of them."""
    data = text.encode()
    parts = [data[i : i + WINDOW] for i in range(0, len(data), WINDOW)]
    items = [Item(CONSTANT, b"", part) for part in parts[:-1]] + [last]
    for item, part in zip(items, parts, strict=True):
        item.first = item.text = part
    items[0].first = parts[0][1:]
    items[0].extra = len(data) - len(text)
    return items


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
        isinstance(declared, Field) and isinstance(node.value, int) and node.length in WIDTHS
        and node.index < 0 and not declared.secret
    )  # fmt: skip


def named_field(node: Node, short: Context) -> Named | None:
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
    return Named(node.start, length, declared.kind.signed, text, show, node.name == "flags", make)


def bytes_maker(node: Node, short: Context) -> Callable[[bytes], str]:
    place, reason = node.place, node.reason

    def make(value: bytes) -> str:
        leaf = Node(place, 0, len(value), value, None, reason)
        return f"{place.name}={display.display(leaf, short)}"

    return make
