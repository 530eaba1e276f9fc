"""Lines and JSON objects for many messages without a tree each: the writers' fast lane.

For each kind of message (path, dialect, schema) the first message is written by the slow writers
(`dissector.records`, `dissector.summary`), and what they made is taken apart into text that is the same
for all messages of the kind and places where a number or a value goes. So there is one description of
the output, and both lanes say the same. Anything unusual is left to the slow writers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from struct import Struct
from typing import Any

from . import display, prototypes
from .cells import _QUICK_TEXTS, KEEPER, Cell, NumberCell, Texts, is_safe
from .node import Node
from .noted import Checks, checks_of
from .records import dumps, found_records, json_value
from .spec import Field, Message
from .summary import VALUE, WIDTH
from .taken import (
    Flat,
    Leaves,
    Piece,
    UnusualError,
    Variant,
    leaf_records,
    piece_of,
    static,
)
from .view import MessageView

QUICK = ("XLogData", "WALData", "Primary keepalive message", "Standby status update",
         "Hot standby feedback message")  # fmt: skip
"""Messages of the replication layer that are written without opening them."""

ROWS = ("Insert", "Update", "Delete")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Kind:
    """Messages of one path, dialect, schema and direction, without findings or all with the same one.

    note, findings: what the summary and the JSON say of it; checks: by which a message has no other.
    """

    def __init__(self, view: MessageView, secrets: bool) -> None:
        self.secrets = secrets
        self.view = view
        self.context = view.context(secrets)
        self.short = view.context(secrets, VALUE)
        self.inner = view.innermost
        self.base = self.remembers_from = self.inner.start
        declared = self.inner.declaration
        self.name = declared.name if isinstance(declared, Message) else ""
        self.rows = self.name in ROWS
        self.variants: dict[int, Variant] = {}
        self.letter_at = 0
        self.flat: Flat | None = None
        self.flat_head: Flat
        self.outer: Flat | None = None
        self.memo: dict[bytes, tuple[str, bytes]] = {}
        self.summarised: tuple[Any, int] = (None, -1)
        self.fields: Any = None
        self.learned = 0  # how often something was learned after the start
        self.tail: list[tuple[str, Piece]] = []
        self.note, self.findings = "", "[]"
        self.checks: Checks = ()
        self.types = dict(view.schema.types)
        if self.rows:
            records = leaf_records(view, self.context, _no_column)
        else:
            records = leaf_records(view, self.context)
        self.first: tuple[MessageView, Leaves] | None = (view, records) if self.rows else None
        if self.rows and view.schema.kind == "relation" and not view.schema.columns:
            self.rows = False
            self.outer = self.taken([r for r in records if r[0].start < self.base], None)
        elif self.rows:
            letters = [
                n
                for n, _ in records
                if n.name in ("new_tag", "key_tag", "old_tag") and not n.absent
            ]
            if not letters or view.schema.kind != "relation":
                raise UnusualError
            self.letter_at = letters[0].start
            if not view.schema.full_name:
                raise UnusualError
        elif all(
            (node.absent or self._simple(node)) and "[" not in found["path"]
            for node, found in records
        ):
            self.flat = self.taken(records, self.inner)
        else:
            self._prepare_tail(records)
            self._prepare_memo(records)
        if view.found:
            self._take_note(view)
        self.inner = Node(self.inner.place, 0, 0)  # the tree is not needed any more
        self.view = replace(view, tree=self.inner)

    def _take_note(self, view: MessageView) -> None:
        """The finding that all messages of this kind have. Raises UnusualError where they may differ."""
        checks = checks_of(view)
        if checks is None or self.rows or not (self.flat or self.tail):
            raise UnusualError
        self.checks = checks
        self.note = display.visible(view.found[0].text)
        self.findings = dumps(found_records(view.found))

    def _prepare_memo(self, records: Leaves) -> None:
        """What is remembered of a message does not hang on the xid that stands in front in a stream."""
        inside = [(i, n) for i, (n, _) in enumerate(records) if n.start >= self.base]
        count, self.remembers_from = inside[0][0] if inside else len(records), self.base
        xid = next(((i, n) for i, n in inside if n.name == "xid" and not n.absent), None)
        if xid is not None and all(self._simple(n) for i, n in inside if i <= xid[0]):
            count, self.remembers_from = xid[0] + 1, xid[1].end
        # a Relation's summary does not name it
        named_in = self.inner if xid is not None and self.name != "Relation" else None
        self.outer = self.taken(records[:count], named_in)

    @staticmethod
    def _simple(node: Node) -> bool:
        declared = node.declaration
        return (
            isinstance(declared, Field) and isinstance(node.value, int) and not node.absent
            and node.length in _CODES and node.index < 0 and not declared.secret
        )  # fmt: skip

    # -- taking apart what the slow writers made

    def taken(self, records: list[tuple[Node, dict[str, Any]]], named_in: Node | None) -> Flat:
        """A Flat of leaves that tile the message from its first byte, absent ones among them."""
        codes, slots, texts = ">", [], []
        cells: dict[int, Cell] = {}
        items: dict[int, int] = {}
        at = 0
        for node, found in records:
            if node.start != at:
                raise UnusualError
            first, middle, rest = static(found)
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
                    f'{head}{value},"display":{dumps(found["display"]).replace("%", "%%")},{rest}'
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
                texts.append(f'{head}%s,"display":%s,{rest}')
        named = list(self._named(named_in, items, cells)) if named_in is not None else []
        template = sys.intern(",".join(texts))  # rows of many tables share it
        return Flat(Struct(codes), slots, template, named)

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
            piece = piece_of(group, group[0][0].start, node, cell)
            tail.append(("string" if len(group) == 1 else group[0][0].name, piece))
        names = [n for n, _ in records if n.start >= self.base and n.children is None]
        if len(names) > 8:
            return
        self.flat_head = self.taken(head, self.inner)
        self.tail = tail

    def _bytes_maker(self, node: Node) -> Callable[[Any], Texts]:
        place, reason, declared = node.place, node.reason, node.declaration
        quick = isinstance(declared, Field) and not (declared.values or declared.secret)
        as_text = isinstance(declared, Field) and declared.kind.show == "text"

        def make(value: bytes) -> Texts:
            if quick and 0 < len(value) <= VALUE and is_safe(value):
                text = value.decode()
                if as_text:
                    return f'"{text}"', f'"{text}"', f"{place.name}={text}"
                return f'"{value.hex()}"', f"\"'{text}'\"", f"{place.name}='{text}'"
            leaf = Node(place, 0, len(value), value, None, reason)
            return (
                dumps(json_value(leaf, self.context)), dumps(display.display(leaf, self.context)),
                f"{place.name}={display.display(leaf, self.short)}",
            )  # fmt: skip

        return make

    def with_tail(self, data: bytes, start: int, end: int) -> tuple[tuple[int, ...], str, bytes]:
        """Of a message whose strings, or bytes behind their length, come last: the numbers of `flat_head`,
        the summary, and the JSON of the leaves after these. Raises UnusualError."""
        head = self.flat_head
        values = head.numbers.unpack_from(data, start)
        shown = [head.summary(values)]
        out: list[bytes] = []
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
            if not at < after <= end:
                raise UnusualError
            assert piece.cell is not None
            value, text, named = piece.cell.texts(raw)
            shown.append(named)
            before = piece.at(at - start, size, self.base)
            out += (before, value.encode(), piece.middle, text.encode(), piece.rest)
            at = after
        if at != end:
            raise UnusualError
        summary = " ".join(s for s in shown if s)
        if self.note:
            summary = f"{summary} [{self.note}]" if summary else self.note
        if len(summary) > WIDTH:
            summary = summary[: WIDTH - 1] + "…"
        return values, summary, b"".join(out)

    # -- row messages

    def heads(self, view: MessageView) -> Leaves:
        """The leaves that belong to no column, with their records."""
        first, self.first = self.first, None
        if first is not None and first[0] is view:
            return first[1]
        return leaf_records(view, self.context, _no_column)

    def learn(self, view: MessageView) -> None:
        """Take apart a row message whose variant or column states are new. Raises UnusualError."""
        prototypes.learn(self, view)

    # -- what the writers ask for

    def remembered(
        self, data: bytes, start: int, end: int, opened: Callable[[], MessageView]
    ) -> tuple[str, bytes, bytes]:
        """(summary, JSON of the first fields, that of the others) of the message in ``data[start:end]``:
        those with parts that repeat, Relation above all, come again with the same bytes: so does the last
        of these. Raises UnusualError."""
        assert self.outer is not None
        if end - start < self.remembers_from:
            raise UnusualError
        values = self.outer.numbers.unpack_from(data, start)
        named = self.outer.summary(values)
        key = data[start + self.remembers_from : end]
        known = self.memo.get(key)
        if known is None:
            view = opened()
            if view.found:
                raise UnusualError
            from .summary import summary

            records = leaf_records(view, self.context)
            inside = ",".join(dumps(r) for n, r in records if n.start >= self.remembers_from)
            text = summary(view, self.secrets)
            if not text.startswith(named):
                raise UnusualError
            known = text[len(named) :], inside.encode()
            cut = bool(named) and text.endswith("…")  # where depends on how long the xid is
            if not cut and len(key) <= 1 << 14:
                KEEPER.keep(self.memo, 256 + len(key) + sum(map(len, known)))
                self.memo[key] = known
        return named + known[0], f"{self.outer.json(values)},".encode(), known[1]


def _no_column(path: str) -> bool:
    return not prototypes.COLUMN.search(path)
