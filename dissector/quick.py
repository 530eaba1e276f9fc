"""Lines and JSON objects for many messages without a tree each: the writers' fast lane.

For each kind of message (path, dialect, schema) the first message is written by the slow writers
(`dissector.records`, `dissector.summary`), and what they made is taken apart into text that is the same
for all messages of the kind and places where a number or a value goes. So there is one description of
the output, and both lanes say the same. Anything unusual is left to the slow writers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from . import display
from .columns import ColumnValue, column_values
from .display import Context
from .node import Node, walk_paths
from .records import _add_column, dumps, field_records, json_value
from .spec import Field, Message
from .summary import VALUE, WIDTH
from .view import MessageView

KEPT = 4096
"""Seconds whose text is kept."""

SHORT = 64
"""Bytes of a value that is kept in a cache."""

RUN = 16
NULLS = b"n" * RUN
"""Columns of wide tables that are NULL are written so many at once."""

ROWS = ("Insert", "Update", "Delete")
_COLUMN = re.compile(r"\.(?:old|new)\.columns\[(\d+)\]\.")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
is_safe = re.compile(rb"[ !#-&(-\[\]-~]*\Z").match
"""Bytes that JSON, a terminal and quotes leave as they are."""

_NUMBER = re.compile(rb"-?[0-9]+\Z").match
_NUMERIC = (20, 21, 23, 26, 700, 701)

Texts = tuple[str, str, str]
"""JSON of the value, JSON of the display, and what the summary shows."""


class _Keeper:
    """Bounds what all caches of this module hold together: memory stays flat, whatever comes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.used: dict[int, dict[Any, Any]] = {}

    def keep(self, cache: dict[Any, Any], weight: int = 1) -> None:
        """Call before `cache` gets one entry more, as large as `weight` usual ones."""
        if self.count >= self.most:
            for each in self.used.values():
                each.clear()
            self.used.clear()
            self.count = 0
        if not cache:
            self.used[id(cache)] = cache
        self.count += weight


KEEPER = _Keeper(20_000)


class UnusualError(Exception):
    """This message has to be written by the slow writers."""


@dataclass(slots=True)
class Cell:
    """Texts of one leaf's or column's values, kept by value. `make` is the slow way."""

    make: Callable[[Any], Texts]
    plain: str = ""
    known: dict[Any, Texts] = field(default_factory=dict)

    def texts(self, value: Any) -> Texts:
        found = self.known.get(value)
        if found is None:
            found = self.make(value)
            if not isinstance(value, bytes) or len(value) <= SHORT:
                KEEPER.keep(self.known)
                self.known[value] = found
        return found


class NumberCell(Cell):
    """Texts of numbers that seldom come twice; `make` is quick."""

    def texts(self, value: Any) -> Texts:
        return self.make(value)


def _lsn_texts(value: int) -> Texts:
    text = display.lsn(value)
    return str(value), f'"{text}"', text


def _number_texts(value: int) -> Texts:
    text = str(value)
    return text, f'"{text}"', text


class _Times(dict[int, str]):
    """Microseconds since 2000 by the second: the text up to the fraction."""

    def __missing__(self, second: int) -> str:
        if len(self) >= KEPT:
            self.clear()
        text = self[second] = display.timestamp(second * 1_000_000 + 1)[: -len("000001 UTC")]
        return text


SECONDS = _Times()
LOW, HIGH = -(1 << 54), 20 * 146_097 * 86_400_000_000
"""Times between these are years of four digits, without BC: up to the year 9999."""


def _time_texts(value: int) -> Texts:
    second, micros = divmod(value, 1_000_000)
    usual = micros and LOW < value < HIGH
    text = f"{SECONDS[second]}{micros:06} UTC" if usual else display.timestamp(value)
    return str(value), f'"{text}"', text


_QUICK_TEXTS = {
    "lsn": _lsn_texts, "timestamp": _time_texts, "int": _number_texts, "xid": _number_texts,
}  # fmt: skip


class ColumnCell(Cell):
    """The same for values of a column; the usual ones need no cache."""

    __slots__ = ("name", "numeric", "quotes")

    def __init__(
        self, make: Callable[[Any], Texts], name: str, numeric: bool, quotes: bool
    ) -> None:
        super().__init__(make)
        self.name = name
        self.numeric = numeric
        self.quotes = quotes

    def texts(self, value: Any) -> Texts:
        if len(value) <= VALUE:
            if self.numeric:
                if _NUMBER(value):
                    text = value.decode()
                    return f'"{text}"', f'"{text}"', self.name + text
            elif self.quotes and is_safe(value):
                text = value.decode()
                return f'"{text}"', f"\"'{text}'\"", f"{self.name}'{text}'"
        return super().texts(value)


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
    first one offsets for the column's start and the value's length. cell: None where there is no value.

    The same as bytes: middle and rest are the second and the third text; quoted and ended are them with
    the quotes of a value that is the same in JSON and in the display, empty where that cannot be.
    """

    texts: tuple[str, str, str]
    places: tuple[tuple[int, bool], ...]
    cell: Cell | None
    shown: str | None
    known: dict[int, bytes] = field(default_factory=dict)
    middle: bytes = b""
    rest: bytes = b""
    quoted: bytes = b""
    ended: bytes = b""

    def __post_init__(self) -> None:
        self.middle, self.rest = (text.replace("%%", "%").encode() for text in self.texts[1:])
        cell = self.cell
        if isinstance(cell, ColumnCell) and (cell.numeric or cell.quotes):
            mark = b"" if cell.numeric else b"'"
            self.quoted = b'"' + self.middle + b'"' + mark
            self.ended = mark + b'"' + self.rest

    def at(self, start: int, length: int, layer: int) -> bytes:
        """What stands before the value of a column at `start`, whose value has `length` bytes."""
        key = start << 32 | length
        found = self.known.get(key)
        if found is None:
            values = tuple(
                length if of < 0 else start + of - (layer if inner else 0)
                for of, inner in self.places
            )
            KEEPER.keep(self.known)
            found = self.known[key] = ("," + self.texts[0] % values).encode()
        return found


@dataclass(slots=True)
class Tuple:
    """One tuple of a row message: its columns by kind byte, and the text between it and the next."""

    pieces: list[dict[int, Piece]]
    between: Piece | None = None
    skip: int = 0
    runs: dict[int, bytes] = field(default_factory=dict)

    def nulls(self, first: int, start: int, layer: int) -> bytes:
        """What is written of RUN columns from `first` on that are NULL, the first at `start`; empty
        where not all are known so."""
        key = first << 32 | start
        found = self.runs.get(key)
        if found is None:
            run = [kinds.get(NULLS[0]) for kinds in self.pieces[first : first + RUN]]
            if len(run) < RUN or any(piece is None or piece.cell is not None for piece in run):
                return b""
            found = b"".join(p.at(start + i, 0, layer) for i, p in enumerate(run) if p is not None)
            KEEPER.keep(self.runs, RUN)
            self.runs[key] = found
        return found


@dataclass(slots=True)
class Variant:
    """A row message by the letter of its first tuple."""

    flat: Flat
    tuples: list[Tuple]


Columns = list[tuple[Piece, int, bytes]]


def _static(found: dict[str, Any], *, fixed: bool) -> tuple[str, str, str, str]:
    """JSON of a field record in parts: up to the offset's value, from the length to the value, between
    value and display, and the rest; % doubled. `fixed`: offsets stay in the first part."""
    keys = list(found)
    cut = keys.index("offset")
    first = dumps({k: found[k] for k in keys[:cut]})[:-1]
    middle = dumps({k: found[k] for k in ("format", "name")})[1:-1]
    rest = dumps({k: found[k] for k in keys[keys.index("display") + 1 :]})[1:]
    return tuple(t.replace("%", "%%") for t in (first, middle, '"display":', rest))  # type: ignore[return-value]


Leaves = list[tuple[Node, dict[str, Any]]]


def leaf_records(view: MessageView, context: Context) -> list[tuple[Node, dict[str, Any]]]:
    """The leaves of an opened message with their records, in order."""
    nodes = [node for _, node in walk_paths(view.tree) if node.children is None]
    return list(zip(nodes, field_records(view.tree, context, view), strict=True))


class Kind:
    """Messages of one path, dialect, schema and direction."""

    def __init__(self, view: MessageView, secrets: bool) -> None:
        self.secrets = secrets
        self.view = view
        self.context = view.context(secrets)
        self.short = view.context(secrets, VALUE)
        self.inner = view.innermost
        self.base = self.inner.start
        declared = self.inner.declaration
        self.name = declared.name if isinstance(declared, Message) else ""
        self.rows = self.name in ROWS
        self.variants: dict[int, Variant] = {}
        self.letter_at = 0
        self.flat: Flat | None = None
        self.flat_head: Flat
        self.outer: Flat | None = None
        self.memo: dict[bytes, tuple[str, str]] = {}
        self.made: tuple[int, Any] | None = None
        self.fields: Any = None
        self.learned = 0  # how often something was learned after the start
        self.tail: list[tuple[str, Piece]] = []
        records = leaf_records(view, self.context)
        self.first: tuple[MessageView, Leaves] | None = (view, records) if self.rows else None
        if self.rows and view.schema.kind == "relation" and not view.schema.columns:
            self.rows = False
            self.outer = self._flat([r for r in records if r[0].start < self.base], None)
        elif self.rows:
            before = [r for r in records if not _COLUMN.search(r[1]["path"])]
            letters = [
                n for n, _ in before if n.name in ("new_tag", "key_tag", "old_tag") and not n.absent
            ]
            if not letters or view.schema.kind != "relation":
                raise UnusualError
            self.letter_at = letters[0].start
            name = view.schema.full_name
            self.subject = f"{display.visible(name)}: " if name else ""
            if not name:
                raise UnusualError
        elif all(
            (node.absent or self._simple(node)) and "[" not in found["path"]
            for node, found in records
        ):
            self.flat = self._flat(records, self.inner)
        else:
            self.outer = self._flat([r for r in records if r[0].start < self.base], None)
            self._prepare_tail(records)

    @staticmethod
    def _simple(node: Node) -> bool:
        declared = node.declaration
        return (
            isinstance(declared, Field) and isinstance(node.value, int) and not node.absent
            and node.length in _CODES and node.index < 0 and not declared.secret
        )  # fmt: skip

    # -- taking apart what the slow writers made

    def _flat(self, records: list[tuple[Node, dict[str, Any]]], named_in: Node | None) -> Flat:
        """A Flat of leaves that tile the message from its first byte, absent ones among them."""
        codes, slots, texts = ">", [], []
        cells: dict[int, Cell] = {}
        items: dict[int, int] = {}
        at = 0
        for node, found in records:
            if node.start != at:
                raise UnusualError
            first, middle, shown, rest = _static(found, fixed=True)
            head = (
                f'{first},"offset":{found["offset"]},"layer_offset":{found["layer_offset"]},'
                f'"length":{found["length"]},{middle},"value":'
            )
            declared = node.declaration
            fixed = node.absent or (
                isinstance(declared, Field) and declared.constant is not None
                and not declared.includes_self and not declared.also
            )  # fmt: skip
            if not node.absent:
                if not self._simple(node) or not isinstance(declared, Field):
                    raise UnusualError
                code = _CODES[node.length]
                items[id(node)] = len(codes) - 1
                codes += code.lower() if declared.kind.signed else code
                at = node.end
            if fixed:
                value = dumps(found["value"]).replace("%", "%%")
                texts.append(
                    f"{head}{value},{shown}{dumps(found['display']).replace('%', '%%')},{rest}"
                )
            else:
                quick = (
                    _QUICK_TEXTS.get(declared.kind.show) if isinstance(declared, Field) else None
                )
                cell = Cell(self._leaf_maker(node))
                if quick is not None and isinstance(declared, Field) and not (
                    declared.values or declared.flags or declared.secret
                ):  # fmt: skip
                    cell = NumberCell(quick, declared.kind.show)
                cells[id(node)] = cell
                slots.append((items[id(node)], cell))
                texts.append(f"{head}%s,{shown}%s,{rest}")
        named = list(self._named(named_in, items, cells)) if named_in is not None else []
        return Flat(Struct(codes), slots, ",".join(texts), named)

    def _leaf_maker(self, node: Node) -> Callable[[Any], Texts]:
        place, reason, length = node.place, node.reason, node.length

        def make(value: Any) -> Texts:
            leaf = Node(place, 0, length, value, None, reason)
            text = display.display(leaf, self.context)
            return dumps(json_value(leaf, self.context)), dumps(text), text

        return make

    def _named(
        self, inner: Node, items: dict[int, int], cells: dict[int, Cell]
    ) -> Iterator[tuple[Cell | None, int, str, bool]]:
        """What `dissector.summary` names of a message whose fields are all numbers."""
        for child in inner.children or ():
            declared = child.declaration
            if child.children == [] and not child.absent:
                raise UnusualError  # a repeat without elements, which the summary names too
            if id(child) not in items or not isinstance(declared, Field):
                continue
            if declared.includes_self or declared.layer or isinstance(declared.constant, str):
                continue
            cell = cells.get(id(child))
            if cell is None:
                if child.name == "flags" and not child.value:
                    continue
                yield None, 0, f"{child.name}={display.display(child, self.short)}", False
            else:
                yield cell, items[id(child)], f"{child.name}=", child.name == "flags"

    def _prepare_tail(self, records: list[tuple[Node, dict[str, Any]]]) -> None:
        """Where strings, or bytes behind their length, follow fields of fixed width: a Flat and Pieces."""
        first = next((i for i, (n, _) in enumerate(records) if isinstance(n.value, bytes)), 0)
        if any("[" in found["path"] for _, found in records) or not first:
            return
        sized = isinstance(records[first][0].declaration, Field) and bool(
            records[first][0].declaration.size_from  # type: ignore[union-attr]
        )
        first -= sized
        head, rest = records[:first], records[first:]
        if not all(node.absent or self._simple(node) for node, _ in head):
            return
        tail = []
        while rest:
            node, _ = rest[0]
            group, rest = (
                (rest[:2], rest[2:]) if isinstance(node.value, int) else (rest[:1], rest[1:])
            )
            node = group[-1][0]
            declared = node.declaration
            if (
                not isinstance(node.value, bytes)
                or not isinstance(declared, Field)
                or declared.secret
            ):
                return
            if (declared.kind.rule == "string") == (len(group) == 2):
                return
            if len(group) == 2 and declared.size_from != group[0][0].name:
                return
            cell = Cell(self._bytes_maker(node))
            piece = self._piece(group, group[0][0].start, {}, {}, (node, cell))
            tail.append(("string" if len(group) == 1 else group[0][0].name, piece))
        names = [n for n, _ in records if n.start >= self.base and n.children is None]
        if len(names) > 8:
            return
        self.flat_head = self._flat(head, self.inner)
        self.tail = tail

    def _bytes_maker(self, node: Node) -> Callable[[Any], Texts]:
        place, reason = node.place, node.reason

        def make(value: bytes) -> Texts:
            leaf = Node(place, 0, len(value), value, None, reason)
            return (
                dumps(json_value(leaf, self.context)), dumps(display.display(leaf, self.context)),
                f"{place.name}={display.display(leaf, self.short)}",
            )  # fmt: skip

        return make

    def _with_tail(
        self, data: bytes, start: int, end: int, opened: Callable[[], MessageView], fields: bool
    ) -> tuple[str, str]:
        head = self.flat_head
        values = head.numbers.unpack_from(data, start)
        shown = [head.summary(values)]
        out = [head.json(values)] if fields else []
        at = start + head.numbers.size
        for name, piece in self.tail:
            if name == "string":
                stop = data.find(0, at, end)
                raw, size, after = data[at:stop], stop - at + 1, stop + 1
            else:
                size = int.from_bytes(data[at : at + 4], "big")
                after = at + 4 + size
                raw = data[at + 4 : after]
                shown.append(f"{name}={size}")
            assert piece.cell is not None
            value, text, named = piece.cell.texts(raw)
            shown.append(named)
            if fields:
                before = piece.at(at - start, size, self.base).decode()
                out.append(f"{before}{value}{piece.middle.decode()}{text}{piece.rest.decode()}")
            at = after
        summary = " ".join(s for s in shown if s)
        if len(summary) > WIDTH:
            summary = summary[: WIDTH - 1] + "…"
        return summary, "".join(out)

    # -- row messages

    def learn(self, view: MessageView) -> None:
        """Take apart a row message whose variant or column states are new."""
        if view.found:
            raise UnusualError
        if self.first is not None and self.first[0] is view:
            records = self.first[1]
        else:
            records = leaf_records(view, self.context)
        self.first = None
        groups: list[tuple[int, list[tuple[Node, dict[str, Any]]]]] = []
        for record in records:
            match = _COLUMN.search(record[1]["path"])
            index = int(match.group(1)) if match else -1
            if not groups or groups[-1][0] != index:
                groups.append((index, []))
            groups[-1][1].append(record)
        letter = view.data[self.letter_at]
        variant = self.variants.get(letter)
        if variant is None:
            flat = self._flat(groups[0][1], None)
            variant = self.variants[letter] = Variant(flat, [])
        columns = {id(c.leaf): c for c in column_values(view.tree, view.schema)}
        shorts = {id(c.leaf): c.text(self.short) for c in columns.values()}
        number = -1
        for index, group in groups[1:]:
            start = min(node.start for node, _ in group)
            if index < 0:
                between = self._piece(group, start, columns, shorts)
                variant.tuples[number].between = between
                variant.tuples[number].skip = group[-1][0].end - start
                continue
            if index == 0:
                number += 1
            if number == len(variant.tuples):
                variant.tuples.append(Tuple([{} for _ in view.schema.columns]))
            kinds = variant.tuples[number].pieces[index]
            kind = view.data[start]
            if kind not in kinds:
                self.learned += 1
                kinds[kind] = self._piece(group, start, columns, shorts)

    def _piece(
        self, group: list[tuple[Node, dict[str, Any]]], start: int, columns: dict[int, ColumnValue],
        shorts: dict[int, str], given: tuple[Node, Cell] | None = None,
    ) -> Piece:  # fmt: skip
        """A Piece of leaves from `start` on; at most one of them, a column's bytes, varies."""
        texts, places = [""], [[]]  # type: ignore[var-annotated]
        cell: Cell | None = None
        shown: str | None = None
        sized = next((n for n, _ in group if n.name == "value" and not n.absent), None)
        if given is not None:
            sized = given[0]
        for node, found in group:
            first, middle, display_key, rest = _static(found, fixed=False)
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
            column = columns.get(id(node))
            if column is not None:
                name = display.visible(column.name, VALUE)
                shown = f"{name}={shorts[id(node)]}" if column.state != "not sent" else ""
            if varies:
                if given is not None:
                    cell = given[1]
                elif column is None or column.column is None:
                    raise UnusualError
                else:
                    cell = self._cell(node, found, column)
                texts.append(f",{display_key}")
                places.append([])
                texts.append(f",{rest}")
                places.append([])
            elif (
                sized is not None
                and isinstance(node.value, int)
                and (given is not None or node.name == "length")
            ):
                texts[-1] += f'%d,{display_key}"%d",{rest}'
                places[-1] += [(-1, False), (-1, False)]
            else:
                value = dumps(found["value"]).replace("%", "%%")
                told = dumps(found["display"]).replace("%", "%%")
                texts[-1] += f"{value},{display_key}{told},{rest}"
        if any(places[1:]):
            raise UnusualError  # fields behind the value
        a, b, c = (*texts, "", "")[:3]
        return Piece((a, b, c), tuple(places[0]), cell, shown)

    def _cell(self, node: Node, found: dict[str, Any], column: ColumnValue) -> Cell:
        """Texts of a column's values by the slow writers' own words."""
        from . import values

        described = column.column
        assert described is not None
        view, state = self.view, column.state
        types = dict(view.schema.types)
        before = {k: found[k] for k in found if k not in ("state", "column", "type")}
        place, reason = node.place, node.reason
        name = display.visible(column.name, VALUE) + "="

        def make(raw: bytes) -> Texts:
            leaf = Node(place, 0, len(raw), raw, None, reason)
            typed = values.value(
                described.type_oid, described.type_modifier, raw, state, view.schema.encoding, types
            )
            one = ColumnValue(column.part, column.index, state, leaf, described, typed)
            record = dict(before)
            record["value"] = json_value(leaf, self.context)
            _add_column(record, one, self.context, view)
            return dumps(record["value"]), dumps(record["display"]), name + one.text(self.short)

        if state != "text":
            return Cell(make)
        oid = values._resolved(described.type_oid, types)
        numeric = oid in (20, 21, 23, 26)
        return ColumnCell(make, name, numeric, oid not in _NUMERIC)

    def _columns(self, variant: Variant, data: bytes, at: int, start: int) -> Columns | None:
        """The columns of all tuples from `at`; None where a state was not seen before."""
        found: Columns = []
        for one in variant.tuples:
            for kinds in one.pieces:
                piece = kinds.get(data[at])
                if piece is None:
                    return None
                if piece.cell is None:
                    found.append((piece, at - start, b""))
                    at += 1
                else:
                    begin = at + 5
                    end = begin + int.from_bytes(data[at + 1 : begin], "big")
                    found.append((piece, at - start, data[begin:end]))
                    at = end
            if one.between is not None:
                found.append((one.between, at - start, b""))
                at += one.skip
        return found

    # -- what the writers ask for

    def summary(self, data: bytes, start: int, end: int, opened: Callable[[], MessageView]) -> str:
        """The summary of the message in ``data[start:end]``."""
        return self.texts(data, start, end, opened, False)[0]

    def texts(
        self, data: bytes, start: int, end: int, opened: Callable[[], MessageView], fields: bool
    ) -> tuple[str, str]:
        """(summary, JSON of the fields or "") of the message; of rows the summary only. Raises
        UnusualError."""
        if self.flat is not None:
            if end - start != self.flat.numbers.size:
                raise UnusualError
            values = self.flat.numbers.unpack_from(data, start)
            text = self.flat.summary(values)
            if len(text) > WIDTH:
                text = text[: WIDTH - 1] + "…"
            return text, self.flat.json(values) if fields else ""
        if self.rows:
            return self._row_line(data, start, opened), ""
        if self.tail:
            return self._with_tail(data, start, end, opened, fields)
        return self._remembered(data, start, end, opened, fields)

    def _row_line(self, data: bytes, start: int, opened: Callable[[], MessageView]) -> str:
        """The summary of a row message; columns that it does not show are not looked at."""
        for _ in (1, 2):
            variant = self.variants.get(data[start + self.letter_at])
            if variant is not None and len(variant.tuples) == 1:
                at = start + variant.flat.numbers.size
                shown: list[str] = []
                size = len(self.subject)
                for kinds in variant.tuples[0].pieces:
                    piece = kinds.get(data[at])
                    if piece is None:
                        break
                    if piece.cell is None:
                        at += 1
                        if not piece.shown:
                            continue
                        text = piece.shown
                    else:
                        begin = at + 5
                        at = begin + int.from_bytes(data[at + 1 : begin], "big")
                        text = piece.cell.texts(data[begin:at])[2]
                    shown.append(text)
                    size += len(text) + 2
                    if len(shown) > 20 or size > WIDTH + 2:
                        piece = None
                        text = self.subject + ", ".join(shown)
                        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
                else:
                    text = self.subject + (", ".join(shown) or "(no columns)")
                    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
            elif variant is not None:
                columns = self._columns(variant, data, start + variant.flat.numbers.size, start)
                if columns is not None:
                    return self._row_summary(variant, columns)
            self.learn(opened())
        raise UnusualError

    def _row_summary(self, variant: Variant, columns: Columns) -> str:
        changes: list[str] = []
        shown: list[str] = []
        size = len(self.subject)
        count = 0
        for piece, _, raw in columns:
            if piece.shown is None:
                changes.append(", ".join(shown) or "(no columns)")
                shown, count = [], 0
            elif count <= 20 and piece.shown:
                count += 1
                if size < WIDTH:
                    text = piece.cell.texts(raw)[2] if piece.cell is not None else piece.shown
                    shown.append(text)
                    size += len(text)
        changes.append(", ".join(shown) or "(no columns)")
        text = self.subject + " → ".join(changes)
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"

    def _remembered(
        self, data: bytes, start: int, end: int, opened: Callable[[], MessageView], fields: bool
    ) -> tuple[str, str]:
        """Messages with parts that repeat, Relation above all, come again with the same bytes."""
        assert self.outer is not None
        key = data[start + self.base : end]
        known = self.memo.get(key)
        if known is None or (fields and not known[1]):
            view = opened()
            if view.found:
                raise UnusualError
            from .summary import summary

            inside = ""
            if fields:
                records = leaf_records(view, self.context)
                inside = ",".join(dumps(r) for n, r in records if n.start >= self.base)
            known = summary(view, self.secrets), inside
            if len(key) <= 1 << 14:
                KEEPER.keep(self.memo)
                self.memo[key] = known
        if not fields:
            return known[0], ""
        values = self.outer.numbers.unpack_from(data, start)
        return known[0], f"{self.outer.json(values)},{known[1]}"
