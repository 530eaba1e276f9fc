"""JSON of the fields of the usual messages, by what `dissector.quick` took apart.

Leaves at fixed places are written by generated code, columns from bytes that are kept by place and
length. What comes out is a list of bytes that only has to be joined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from . import display
from .compiled import PADDING, summary_of
from .quick import (
    HIGH,
    LOW,
    NULLS,
    RUN,
    SECONDS,
    Flat,
    Kind,
    UnusualError,
    Variant,
    is_safe,
)  # fmt: skip
from .records import _clean, dumps, record
from .rows import ASSUMED, DIRECTIONS, NO_LSN
from .summary import WIDTH
from .view import MessageView

if TYPE_CHECKING:
    from .runs import Runs, Stream

KINDS = 256
"""Kinds of messages whose heads are kept for one connection and direction."""

Opened = Callable[[], MessageView]
Json = Callable[[tuple[Any, ...]], str]


class Fields:
    """Writes the messages of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.learned = kind.learned
        self.summary = summary_of(kind)
        self.flat = flat_json(kind.flat) if kind.flat is not None else None
        self.variants: dict[int, Json] = {}

    def texts(
        self, data: bytes, text: str, start: int, end: int, opened: Opened
    ) -> tuple[str, str, list[bytes]]:
        """(summary, JSON of the first fields, that of the others) of the message in
        ``data[start:end]``. Raises UnusualError."""
        kind = self.kind
        rest: list[bytes] = []
        summary = self.summary(data, text, start, end) if self.summary is not None else None
        if summary is not None and not summary.isprintable():
            summary = None
        if self.flat is not None:
            assert kind.flat is not None
            if end - start != kind.flat.numbers.size:
                raise UnusualError
            values = kind.flat.numbers.unpack_from(data, start)
            if summary is None:
                summary = kind.flat.summary(values)
                if len(summary) > WIDTH:
                    summary = summary[: WIDTH - 1] + "…"
            return summary, self.flat(values), rest
        if not kind.rows:
            summary, fields = kind.texts(data, start, end, opened, True)
            return summary, fields, rest
        letter = data[start + kind.letter_at]
        variant = kind.variants.get(letter)
        if variant is None or not self._columns(variant, data, start, end, rest):
            kind.learn(opened())
            rest.clear()
            variant = kind.variants[letter]
            if not self._columns(variant, data, start, end, rest):
                raise UnusualError
        if kind.learned != self.learned:
            self.learned = kind.learned
            self.summary = summary_of(kind)
        first = self.variants.get(letter)
        if first is None:
            first = self.variants[letter] = flat_json(variant.flat)
        if summary is None:
            summary = kind.summary(data, start, end, opened)
        return summary, first(variant.flat.numbers.unpack_from(data, start)), rest

    def _columns(
        self, variant: Variant, data: bytes, start: int, end: int, out: list[bytes]
    ) -> bool:
        """Append the columns of all tuples; False where a state was not seen before."""
        layer = self.kind.base
        at = start + variant.flat.numbers.size
        add = out.append
        for each in variant.tuples:
            wide = len(each.pieces) >= 2 * RUN
            done = 0  # columns before this one are written
            for i, kinds in enumerate(each.pieces):
                if wide:
                    if i < done:
                        continue
                    if i % RUN == 0 and data.startswith(NULLS, at):
                        nulls = each.nulls(i, at - start, layer)
                        if nulls:
                            add(nulls)
                            at += RUN
                            done = i + RUN
                            continue
                piece = kinds.get(data[at])
                if piece is None:
                    return False
                cell = piece.cell
                place = at - start
                if cell is None:
                    add(piece.known.get(place << 32) or piece.at(place, 0, layer))
                    at += 1
                    continue
                begin = at + 5
                size = int.from_bytes(data[at + 1 : begin], "big")
                at = begin + size
                raw = data[begin:at]
                before = piece.known.get(place << 32 | size) or piece.at(place, size, layer)
                if piece.quoted and (raw.isdigit() or (is_safe(raw) and not cell.numeric)):  # type: ignore[attr-defined]
                    out += (before, b'"', raw, piece.quoted, raw, piece.ended)
                else:
                    value, shown, _ = cell.known.get(raw) or cell.texts(raw)
                    out += (before, value.encode(), piece.middle, shown.encode(), piece.rest)
            if each.between is not None:
                place = at - start
                add(each.between.known.get(place << 32) or each.between.at(place, 0, layer))
                at += each.skip
        return True


def flat_json(flat: Flat) -> Json:
    """A function from the numbers of a Flat to the JSON of its fields."""
    names: dict[str, Any] = {"second": SECONDS, "timestamp": display.timestamp}
    constants = [part.replace("%%", "%") for part in flat.template.split("%s")]
    count = len(flat.numbers.format) - 1
    lines = [f"{', '.join(f'v{i}' for i in range(count))}, = values" if count else "pass"]
    pieces = [constants[0]]
    texts: list[str] = []
    for number, (i, cell) in enumerate(flat.slots):
        value = f"v{i}"
        if cell.plain in ("lsn", "timestamp", "int", "xid"):
            shown = f'"{{{value}}}"'
            if cell.plain == "lsn":
                shown = f'"{{{value} >> 32:X}}/{{{value} & 0xFFFFFFFF:X}}"'
            elif cell.plain == "timestamp":
                lines += [
                    f"s, u = divmod({value}, 1000000)",
                    f"usual = u and {LOW} < {value} < {HIGH}",
                    f"t{i} = f'{{second[s]}}{{u:06}} UTC' if usual else timestamp({value})",
                ]
                shown = f'"{{t{i}}}"'
            texts += (f"{{{value}}}", shown)
        else:
            names[f"k{number}"], names[f"c{number}"] = cell.known.get, cell.texts
            lines.append(f"m{number} = k{number}({value}) or c{number}({value})")
            texts += (f"{{m{number}[0]}}", f"{{m{number}[1]}}")
        pieces += constants[number * 2 + 1 : number * 2 + 3]
    body = _literal(pieces[0]) + "".join(
        text + _literal(piece) for text, piece in zip(texts, pieces[1:], strict=True)
    )
    lines.append(f"return f'''{body}'''")
    code = "def made(values):\n" + "\n".join(f"    {line}" for line in lines)
    exec(compile(code, "<fields>", "exec"), names)  # made of literals and numbers only
    made: Json = names["made"]
    return made


def _literal(text: str) -> str:
    """`text` as a part of an f-string in triple quotes."""
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{").replace("}", "}}")
    return text.replace("\n", "\\n").replace("\r", "\\r")


_ObjectHead = tuple[Fields | None, str, str]
"""What writes the fields of one kind, and the texts around the length, the LSN and the xid."""


def _fields(kind: Kind) -> Fields:
    if kind.fields is None:
        kind.fields = Fields(kind)
    return kind.fields


class Objects:
    """Writes the messages of a capture by number as JSON objects with fields."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._heads: dict[int, dict[int, _ObjectHead]] = {}

    def block(self, numbers: list[int]) -> bytes:
        """A block of objects, one a line."""
        c = self.runs.columns(numbers)
        out: list[list[bytes]] = [[]] * len(numbers)
        for side in self.runs.sides(c):
            self._objects_in(*side, c, out)
        for i, parts in enumerate(out):
            if not parts:
                out[i] = [self._slow_object(numbers[i]).encode(), b"\n"]
        return b"".join(chain.from_iterable(out))

    def _objects_in(
        self, side: int, stream: Stream, mine: Any, first: Any, last: Any, c: dict[str, Any],
        out: list[list[bytes]],
    ) -> None:  # fmt: skip
        """Objects of the messages at `mine`, which all lie in `stream`."""
        data = stream.data + bytes(PADDING)
        text = data.decode("latin-1")
        begin = c["offset"][mine].astype(np.int64) - stream.base
        heads = self._heads.setdefault(side, {})
        known = heads.get
        found = self.runs.capture.index.found
        for i, number, key, start, length, time, lsn, xid, frame, flags, a, b in zip(
            mine.tolist(), c["number"][mine].tolist(), c["key"][mine].tolist(), begin.tolist(),
            c["length"][mine].tolist(), self.runs.times(c["time"][mine], stream.records[last]),
            c["lsn"][mine].tolist(), c["xid"][mine].tolist(), c["frame"][mine].tolist(),
            c["flags"][mine].tolist(), first.tolist(), last.tolist(), strict=True,
        ):  # fmt: skip
            if number in found:
                continue
            head = known(key) or self._head(heads, key, number)
            fields, place, relation = head
            if fields is None:
                continue
            try:
                summary, json, rest = fields.texts(
                    data, text, start, start + length, partial(self.runs.capture.message, number)
                )
            except UnusualError:
                continue
            shown = "null" if lsn == NO_LSN else f'"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"'
            frames = (
                stream.frames[a]
                if a == b
                else ",".join(map(str, sorted(set(stream.frames[a : b + 1]))))
            )
            if not summary.isascii() or '"' in summary or "\\" in summary:
                summary = dumps(summary)
            else:
                summary = f'"{summary}"'
            assumed = "true" if flags & ASSUMED else "false"
            rest.append(b"]}\n")
            rest.insert(0, (
                f'{{"number":{number},"frame":{frame},"frames":[{frames}],"time":"{time}",{place}'
                f'"length":{length},"lsn":{shown},"xid":{xid or "null"},{relation}"summary":{summary},'
                f'"findings":[],"assumed":{assumed},"fields":[{json}'
            ).encode())  # fmt: skip
            out[i] = rest

    def _head(self, heads: dict[int, _ObjectHead], key: int, number: int) -> _ObjectHead:
        row = self.runs.capture.row(number)
        kind = self.runs.kind(number)
        info = self.runs.capture.connection(row.stream)
        ends = (info.frontend, info.backend)
        direction = row.direction
        path = self.runs.capture.path(row)
        place = dumps(
            {"stream": row.stream, "direction": DIRECTIONS[direction], "source": ends[direction],
             "destination": ends[1 - direction], "message": path[0] if path else None,
             "path": list(path)}
        )  # fmt: skip
        relation = dumps({"relation": _clean(self.runs.capture.relation(row))})
        if len(heads) >= KINDS:
            heads.clear()
        head = heads[key] = (
            _fields(kind) if kind is not None else None, f"{place[1:-1]},", f"{relation[1:-1]},"
        )  # fmt: skip
        return head

    def _slow_object(self, number: int) -> str:
        return dumps(record(self.runs.capture, self.runs.capture.message(number), fields=True))
