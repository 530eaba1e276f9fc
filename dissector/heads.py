"""An object's text up to the columns of a row, or all of it, in pieces: what is the same in all messages
of a kind, and what differs between it; for many messages of one kind at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from .cells import Cell
from .digits import Place, Pool, decimals
from .records import dumps
from .rows import NO_LSN
from .summary import WIDTH
from .taken import Flat

MOST = 8
"""Fields that a summary names at most."""

Column = Sequence[bytes] | bytes
"""Texts of one place in messages, one for each; or one for all of them."""


class Head(NamedTuple):
    """What is the same in all objects of a kind: the text before the length, that between xid and summary,
    and that between summary and fields."""

    place: str
    relation: str
    assumed: str


class Common(NamedTuple):
    """What objects of all kinds begin with, in columns: the text up to the number; that of the frames
    and the time; lengths, LSNs and their texts; xids."""

    number: Sequence[bytes]
    where: Sequence[bytes]
    length: Sequence[int]
    lsn: Sequence[int]
    lsn_text: Sequence[bytes]
    xid: Sequence[int]

    def some(self, places: Sequence[int]) -> Common:
        """The same for some of the messages."""
        if len(places) == 1:
            i = places[0]
            return Common._make(column[i : i + 1] for column in self)
        return Common._make(map(itemgetter(*places), self))


class Maker:
    """Makes such text for messages of `head`. whole: `flat` has all leaves, and the summary is made of it
    and of `note`, what is wrong with all of them."""

    def __init__(self, head: Head, flat: Flat | None, *, whole: bool, note: str = "") -> None:
        texts = [""] if flat is None else flat.template.replace("%%", "%").split("%s")
        self.slots = [] if flat is None else flat.slots
        texts[0] = head.assumed + texts[0]
        if whole:
            texts[-1] += "]}\n"
        for number, (_, cell) in enumerate(self.slots):
            if cell.plain:
                texts[number * 2 + 1] += '"'
                texts[number * 2 + 2] = '"' + texts[number * 2 + 2]
        self.texts = [_shared(text) for text in texts]
        self.place, self.relation = _shared(head.place), _shared(f",{head.relation}")
        self.named = flat.named[:MOST] if whole and flat is not None else None
        self.places = {id(cell): number for number, (_, cell) in enumerate(self.slots)}
        self.plain = not note and all(cell is None or cell.plain for cell, *_ in self.named or ())
        self.note = note
        self._merged: dict[int, tuple[list[bytes], bytes]] = {}

    def read(
        self, common: Common, values: Sequence[Sequence[int]], pool: Pool
    ) -> list[tuple[Column | Place, ...]]:
        """The texts of the Flat's numbers in some messages, as far as `pool` does not make them yet: JSON
        of the value and of the display, and what summaries show. values: the numbers, in columns."""
        slots: list[tuple[Column | Place, ...]] = []
        last: Sequence[int] = ()
        plain = ""
        for i, cell in self.slots:
            column = values[i]
            if (
                slots and column == last and cell.plain == plain
            ):  # the two LSNs in front, most often
                slots.append(slots[-1])
                continue
            last, plain = column, cell.plain
            if column.count(column[0]) == len(column):
                value, shown, named = (text.encode() for text in cell.texts(column[0]))
                slots.append((value, named if cell.plain else shown, named))
            else:
                slots.append(_texts(cell, column, common, pool))
        return slots

    def made(
        self, common: Common, read: list[tuple[Column | Place, ...]], pool: Pool,
        summaries: list[bytes],
    ) -> Iterator[tuple[bytes, ...]]:  # fmt: skip
        """The pieces of each of these messages. summaries: their JSON without quotes; empty where the Flat
        tells them."""
        slots = [
            tuple(pool.take(each) if isinstance(each, Place) else each for each in slot)
            for slot in read
        ]
        line: list[Column] = [common.number, common.where, self.place]
        line.append(_same(common.length, decimals))
        if NO_LSN in common.lsn:
            quoted = [
                b"null" if lsn == NO_LSN else b'"%b"' % text
                for lsn, text in zip(common.lsn, common.lsn_text, strict=True)
            ]
            line += [b',"lsn":', quoted, b',"xid":']
        else:
            line += [b',"lsn":"', common.lsn_text, b'","xid":']
        line += [_same(common.xid, _xids), self.relation]
        line += [summaries or self._summaries(slots), self.texts[0]]
        for number, (value, shown, _) in enumerate(slots):
            line += [value, self.texts[number * 2 + 1], shown, self.texts[number * 2 + 2]]
        return zip(*self._columns(line), strict=False)  # what all have in common has no end

    def _columns(self, line: list[Column]) -> Iterator[Iterable[bytes]]:
        """`line` with neighbours that are the same in all messages as one."""
        held: list[bytes] = []
        for number, column in enumerate([*line, []]):
            if isinstance(column, bytes):
                held.append(column)
                continue
            if len(held) > 1:
                known = self._merged.get(number)
                if known is None or known[0] != held:
                    known = self._merged[number] = held, b"".join(held)
                yield repeat(known[1])
            elif held:
                yield repeat(held[0])
            held = []
            if column:
                yield column

    def _summaries(self, slots: list[Any]) -> Column:
        """What the Flat tells; what is left out is a flag of 0."""
        form, columns = b"", []
        for cell, _, name, skips in self.named or ():
            text = b" " + name.encode()
            if cell is None:
                form += text.replace(b"%", b"%%")
                continue
            value, _, shown = slots[self.places[id(cell)]]
            if isinstance(shown, bytes):
                if not skips or value != b"0":
                    form += (text + shown).replace(b"%", b"%%")
            elif skips:
                form += b"%b"
                columns.append(
                    [b"" if v == b"0" else text + s for v, s in zip(value, shown, strict=True)]
                )
            else:
                form += text.replace(b"%", b"%%") + b"%b"
                columns.append(shown)
        begin = form[:1] == b" "
        form = form[begin:]
        if not columns:
            found = form % ()
            return found if self.plain and len(found) <= WIDTH else self._careful([found])[0]
        if begin:
            made = [form % each for each in zip(*columns, strict=True)]
        else:
            made = [(form % each)[1:] for each in zip(*columns, strict=True)]
        return made if self.plain and max(map(len, made)) <= WIDTH else self._careful(made)

    def _careful(self, summaries: list[bytes]) -> list[bytes]:
        """Summaries with the note, cut, as JSON."""
        found = []
        for each in summaries:
            text = each.decode()
            if self.note:
                text = f"{text} [{self.note}]" if text else self.note
            if len(text) > WIDTH:
                text = text[: WIDTH - 1] + "…"
            found.append(in_json(text).encode())
        return found


@lru_cache(4096)
def _shared(text: str) -> bytes:
    """The same bytes for all kinds: what is copied all the time stays in the processor's cache."""
    return text.encode()


def _same(column: Sequence[int], texts: Callable[[Sequence[int]], list[bytes]]) -> Column:
    """The texts of numbers; one where they are all the same."""
    if column.count(column[0]) == len(column):
        return texts(column[:1])[0]
    return texts(column)


def _xids(values: Sequence[int]) -> list[bytes]:
    return [b"%d" % value if value else b"null" for value in values]


def _texts(
    cell: Cell, column: Sequence[int], common: Common, pool: Pool
) -> tuple[Column | Place, ...]:
    if not cell.plain:
        known = {value: [text.encode() for text in cell.texts(value)] for value in set(column)}
        return tuple([known[value][i] for value in column] for i in range(3))
    digits = decimals(column)
    shown: Column | Place = digits
    if cell.plain == "lsn" and common.lsn == column:
        shown = common.lsn_text
    elif cell.plain in ("lsn", "timestamp"):
        shown = pool.add(cell.plain, column)
    return digits, shown, shown


def in_json(text: str) -> str:
    """JSON of `text` without the quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return dumps(text)[1:-1]
