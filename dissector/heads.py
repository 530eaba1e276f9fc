"""An object's text up to the columns of a row, or all of it, by generated code: one function for each
sequence of number formats.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from . import display
from .cells import HIGH, KEPT, SECONDS
from .records import dumps
from .rows import NO_LSN
from .summary import WIDTH
from .taken import Flat

Made = Callable[..., bytes]
"""(number, text of the frames and the time, length, LSN, xid, numbers of the Flat) -> bytes; where there
is no Flat that tells all of the summary, the summary's JSON without its quotes comes last."""

MOST = 8
"""Fields that a summary names at most."""


class Head(NamedTuple):
    """What is the same in all objects of a kind: the text before the length, that between xid and summary,
    and that between summary and fields."""

    place: str
    relation: str
    assumed: str


def maker(head: Head, flat: Flat | None, *, whole: bool, note: str = "") -> Made:
    """The function for messages of `head`. whole: `flat` has all leaves, and the summary is made of it and
    of `note`, what is wrong with all of them."""
    constants = ["", ""] if flat is None else flat.template.replace("%%", "%").split("%s")
    slots = () if flat is None else tuple((i, cell.plain) for i, cell in flat.slots)
    cells = () if flat is None else tuple(cell for _, cell in flat.slots)
    constants[0] = head.assumed + constants[0]
    if whole:
        constants[-1] += "]}\n"
    named = None
    if whole and flat is not None:
        places = {id(cell): number for number, (_, cell) in enumerate(flat.slots)}
        named = tuple(
            (-1 if cell is None else places[id(cell)], text, skips)
            for cell, _, text, skips in flat.named[:MOST]
        )
    count = 0 if flat is None else len(flat.numbers.format) - 1
    # the same texts for all kinds: what is copied all the time stays in the processor's cache
    constants = [sys.intern(text) for text in constants]
    made: Made = _maker(count, slots, named, bool(note))(head, constants, cells, note)
    return made


Slots = tuple[tuple[int, str], ...]
Named = tuple[tuple[int, str, bool], ...]


@cache
def _maker(count: int, slots: Slots, named: Named | None, noted: bool) -> Any:
    """What makes such functions from constant texts and cells. count: numbers of the Flat; slots: which of
    them are written, and how; named: (slot or -1, text before it, whether 0 is left out) of what the
    summary names; noted: whether a note follows."""
    lines, texts, shown = [], [], []
    for number, (i, plain) in enumerate(slots):
        value, text = f"v{i}", f"t{number}"
        if plain == "lsn":
            lines.append(f"{text} = at if {value} == lsn else {_lsn(value)}")
        elif plain == "timestamp":
            digits = f"n{number}"
            quick = f"f'{{second[{value} // 1000000]}}{{{digits}[-6:]}} UTC'"
            lines += [
                f"{digits} = str({value})",
                f"usual = 999999 < {value} < {HIGH} and {value} % 1000000",
                f"{text} = {quick} if usual else timestamp({value})",
            ]
            value = digits
        elif plain in ("int", "xid"):
            text = value
        else:
            lines.append(f"m{number} = known{number}({value}) or texts{number}({value})")
            value, text = f"m{number}[0]", f"m{number}[1]"
        quote = '"' if plain else ""
        texts.append(
            f"{{{value}}}{{c{number * 2 + 1}}}{quote}{{{text}}}{quote}{{c{number * 2 + 2}}}"
        )
        shown.append((f"v{i}", text if plain else f"m{number}[2]"))
    if count:
        lines.insert(0, f"{', '.join(f'v{i}' for i in range(count))}, = values")
    if named is not None:
        lines += _summary(slots, named, shown, noted)
    lines.append("lsn = 'null' if lsn == none else f'\"{at}\"'")
    parts = '{place}{length},"lsn":{lsn},"xid":{xid or \'null\'},{relation}{summary}{c0}'
    whole = f'{{{{"number":{{number}},{{where}}{parts}{"".join(texts)}'
    lines.append(f'return f"""{whole}""".encode()')
    lines.insert(0, f"at = {_lsn('lsn')}")
    code = ["def maker(head, constants, cells, note):", "    place, relation, _ = head"]
    code.append(f"    {', '.join(f'c{i}' for i in range(len(slots) * 2 + 1))}, *_ = constants")
    for number, (_, plain) in enumerate(slots):
        if not plain:
            cell = f"cells[{number}]"
            code.append(f"    known{number}, texts{number} = {cell}.known.get, {cell}.texts")
    code.append("    def made(number, where, length, lsn, xid, values, summary=''):")
    code += [f"        {line}" for line in lines]
    code.append("    return made")
    names: dict[str, Any] = {
        "high": _Highs(), "second": SECONDS, "timestamp": display.timestamp, "none": NO_LSN, "json": in_json,
    }  # fmt: skip
    exec(compile("\n".join(code), "<heads>", "exec"), names)  # made of names, numbers and repr()
    return names["maker"]


class _Highs(dict[int, str]):
    """The high half of an LSN and the slash: many LSNs in a row have the same."""

    def __missing__(self, high: int) -> str:
        if len(self) >= KEPT:
            self.clear()
        text = self[high] = f"{high:X}/"
        return text


def _lsn(value: str) -> str:
    return f"high[{value} >> 32] + '%X' % ({value} & 0xFFFFFFFF)"


def _summary(
    slots: Slots, named: Named, shown: list[tuple[str, str]], noted: bool
) -> list[str]:  # fmt: skip
    """Code that makes the summary; what is left out is a flag of 0."""
    parts = []
    for slot, text, skips in named:
        if slot < 0:
            parts.append(repr(f" {text}"))
            continue
        value, told = shown[slot]
        one = f"f{f' {text}'!r}f'{{{told}}}'"
        parts.append(f"({one} if {value} else '')" if skips else f"({one})")
    lines = [f"summary = ({' + '.join(parts) or repr('')})[1:]"]
    if noted:
        lines.append("summary = f'{summary} [{note}]' if summary else note")
    lines.append(f"if len(summary) > {WIDTH}: summary = summary[:{WIDTH - 1}] + '…'")
    if noted or any(slot >= 0 and not slots[slot][1] for slot, _, _ in named):
        lines.append("summary = json(summary)")
    return lines


def in_json(text: str) -> str:
    """JSON of `text` without the quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return dumps(text)[1:-1]
