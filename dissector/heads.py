"""An object's text up to the columns of a row, or all of it, for many messages of one kind at once: a form of
what is the same in all of them, and what differs, in columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from .cells import Cell
from .digits import Place, Pool
from .records import END, dumps
from .rows import NO_LSN
from .summary import WIDTH
from .taken import Flat

MOST = 8
"""Fields that a summary names at most."""


class Varied(NamedTuple):
    """What differs between messages: how it is written (%d or %b), and one of it for each."""

    code: bytes
    values: Sequence[int] | Sequence[bytes]


Column = Varied | bytes
"""One place in messages: what differs, or the text of all of them, as a form (% doubled)."""

_MOST = {"lsn": 17, "timestamp": 40}
"""Characters of a number of a format at most; of others 20."""


class Head(NamedTuple):
    """What is the same in all objects of a kind: the text before the length, that between xid and summary,
    and that between summary and fields."""

    place: str
    relation: str
    assumed: str


class Common(NamedTuple):
    """What objects of all kinds begin with, in columns: numbers; texts of the frames and the time; lengths,
    LSNs and their texts; xids."""

    number: Sequence[int]
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
    and of `note`, what is wrong with all of them.

    like: the same for those that write the same but for the relation and what no number is: that of many
    tables. They may make messages together.
    """

    def __init__(self, head: Head, flat: Flat | None, *, whole: bool, note: str = "") -> None:
        self.slots = [] if flat is None else flat.slots
        cells = tuple(cell.plain for _, cell in self.slots)
        self.texts = _between(head.assumed, "" if flat is None else flat.template, cells, whole)
        self.place, self.relation = _form(head.place), f",{head.relation}".encode()
        self.like = (
            self.place, self.texts, *((item, cell.plain) for item, cell in self.slots),
            "" if flat is None else flat.numbers.format,
        )  # fmt: skip
        self.named = flat.named[:MOST] if whole and flat is not None else None
        self.places = {id(cell): number for number, (_, cell) in enumerate(self.slots)}
        self.plain = not note and all(cell is None or cell.plain for cell, *_ in self.named or ())
        self.most = sum(
            1 + len(name) + (_MOST.get(cell.plain, 20) if cell else 0)
            for cell, _, name, _ in self.named or ()
        )
        self.note = note

    def read(
        self, common: Common, values: Sequence[Sequence[int]], pool: Pool,
        makers: Sequence[Maker] = (),
    ) -> list[tuple[Column | Place, ...]]:  # fmt: skip
        """The texts of the Flat's numbers in some messages, as far as `pool` does not make them yet: JSON
        of the value and of the display, and what summaries show. values: the numbers, in columns; makers:
        of each message the one that is like this one, if not all are of this one."""
        slots: list[tuple[Column | Place, ...]] = []
        last: Sequence[int] = ()
        plain = ""
        for number, (i, cell) in enumerate(self.slots):
            column = values[i]
            if plain and cell.plain == plain and column == last:  # most often the LSNs in front
                slots.append(slots[-1])
                continue
            last, plain = column, cell.plain
            if makers and not plain:
                slots.append(_told([maker.slots[number][1] for maker in makers], column))
            elif column.count(column[0]) == len(column):
                value, shown, named = map(_form, cell.texts(column[0]))
                slots.append((value, named if plain else shown, named))
            elif plain:
                slots.append(_texts(plain, column, common, pool))
            else:
                slots.append(_told([cell] * len(column), column))
        return slots

    def made(
        self, common: Common, read: list[tuple[Column | Place, ...]], pool: Pool,
        summaries: list[bytes], ends: list[bytes], makers: Sequence[Maker] = (),
    ) -> Iterator[bytes]:  # fmt: skip
        """The text of each of these messages. summaries: their JSON without quotes; empty where the Flat
        tells them; ends: what comes last, empty for nothing; makers: see `read`."""
        slots = [
            tuple(Varied(b"%b", pool.take(x)) if isinstance(x, Place) else x for x in slot)
            for slot in read
        ]
        line: list[Column] = [
            b'{"number":', Varied(b"%d", common.number), Varied(b"%b", common.where), self.place,
            _same(common.length), b',"lsn":',
        ]  # fmt: skip
        if NO_LSN in common.lsn:
            quoted = [
                b"null" if lsn == NO_LSN else b'"%b"' % text
                for lsn, text in zip(common.lsn, common.lsn_text, strict=True)
            ]
            line += [Varied(b"%b", quoted), b',"xid":']
        else:
            line += [b'"', Varied(b"%b", common.lsn_text), b'","xid":']
        line.append(_xids(common.xid))
        if makers:
            line.append(Varied(b"%b", [maker.relation for maker in makers]))
        else:
            line.append(self.relation.replace(b"%", b"%%"))
        line += [Varied(b"%b", summaries)] if summaries else self._summaries(slots)
        line.append(self.texts[0])
        for number, (value, shown, _) in enumerate(slots):
            line += [value, self.texts[number * 2 + 1], shown, self.texts[number * 2 + 2]]
        if ends:
            line.append(Varied(b"%b", ends))
        return _written(line)

    def _summaries(self, slots: list[Any]) -> list[Column]:
        """What the Flat tells; what is left out is a flag of 0."""
        line: list[Column] = []
        for cell, _, name, skips in self.named or ():
            before = _form(f" {name}")
            if cell is None:
                line.append(before)
                continue
            value, _, shown = slots[self.places[id(cell)]]
            if not skips or (isinstance(shown, bytes) and value != b"0"):
                line += [before, shown]
            elif isinstance(shown, Varied):
                form = before + shown.code
                line.append(Varied(b"%b", [
                    b"" if not v or v == b"0" else form % s
                    for v, s in zip(value.values, shown.values, strict=True)
                ]))  # fmt: skip
        if all(isinstance(each, bytes) for each in line):
            text = b"".join(line)[1:] % ()  # type: ignore[arg-type]
            usual = self.plain and len(text) <= WIDTH
            return [(text if usual else self._careful([text])[0]).replace(b"%", b"%%")]
        if self.plain and self.most <= WIDTH and isinstance(line[0], bytes):
            return [line[0][1:], *line[1:]]
        made = [text[1:] for text in _written(line)]
        usual = self.plain and max(map(len, made)) <= WIDTH
        return [Varied(b"%b", made if usual else self._careful(made))]

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


@lru_cache(256)
def _between(assumed: str, template: str, cells: tuple[str, ...], whole: bool) -> tuple[bytes, ...]:
    """The text before, between and after the texts of all cells; kept, since many tables have the same."""
    texts = template.replace("%%", "%").split("%s")
    texts[0] = assumed + texts[0]
    if whole:
        texts[-1] += END.decode()
    for number, plain in enumerate(cells):
        if plain:
            texts[number * 2 + 1] += '"'
            texts[number * 2 + 2] = '"' + texts[number * 2 + 2]
    return tuple(map(_form, texts))


def _form(text: str) -> bytes:
    """What writes `text`."""
    return text.encode().replace(b"%", b"%%")


def _written(line: list[Column]) -> Iterator[bytes]:
    """The texts of messages, of what stands in them one after the other."""
    form = b"".join([each if isinstance(each, bytes) else each.code for each in line])
    columns = [each.values for each in line if isinstance(each, Varied)]
    return map(form.__mod__, zip(*columns, strict=True))


def _same(column: Sequence[int]) -> Column:
    """Numbers as text; once where they are all the same."""
    if column.count(column[0]) == len(column):
        return b"%d" % column[0]
    return Varied(b"%d", column)


def _xids(column: Sequence[int]) -> Column:
    """Transaction numbers, 0 as null."""
    if all(column):
        return _same(column)
    if not any(column):
        return b"null"
    return Varied(b"%b", [b"%d" % value if value else b"null" for value in column])


def _texts(
    plain: str, column: Sequence[int], common: Common, pool: Pool
) -> tuple[Column | Place, ...]:
    """Texts of numbers of one format."""
    digits = Varied(b"%d", column)
    shown: Column | Place = digits
    if plain == "lsn" and common.lsn == column:
        shown = Varied(b"%b", common.lsn_text)
    elif plain in ("lsn", "timestamp"):
        shown = pool.add(plain, column)
    return digits, shown, shown


def _told(cells: Sequence[Cell], column: Sequence[int]) -> tuple[Column, ...]:
    """Texts that each number's cell tells."""
    known: dict[tuple[int, int], list[bytes]] = {}
    found = []
    for cell, value in zip(cells, column, strict=True):
        texts = known.get((id(cell), value))
        if texts is None:
            texts = known[id(cell), value] = [text.encode() for text in cell.texts(value)]
        found.append(texts)
    return tuple(Varied(b"%b", texts) for texts in zip(*found, strict=True))


def in_json(text: str) -> str:
    """JSON of `text` without the quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return dumps(text)[1:-1]
