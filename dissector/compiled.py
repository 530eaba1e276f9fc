"""Summaries of the usual messages by generated code: one function for each kind that `dissector.quick`
took apart.

What stands in the code are the names and the fixed texts that `dissector.quick` learned; the values are
read where they lie. A function gives None for a message that it does not cover, whatever the reason.
It does not look for control characters: who writes many lines does that once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from . import display
from .cells import HIGH, LOW, SECONDS, ColumnCell
from .summary import VALUE, WIDTH

if TYPE_CHECKING:
    from .quick import Kind
    from .taken import Flat, Piece, Variant

Summary = Callable[[bytes, str, int, int], str | None]
"""(data, the same bytes as Latin-1 text, start and end of a message in it) -> summary or None.

`data` goes on for PADDING bytes behind the last message.
"""

PADDING = 8
COLUMNS = 64
"""Columns that a function reads at most; wider rows are cut before, or left to others."""

SHOWN = 20
"""Columns of a tuple after which the summary may stop."""

_UNIT = Struct(">BI").unpack_from
_BETWEEN = " → "
_CUT = "…'"


def summary_of(kind: Kind) -> Summary | None:
    """The function for messages of `kind`; None where there can be none."""
    if kind.flat is not None:
        return _flat(kind.flat)
    if kind.rows:
        return _rows(kind)
    return None


def _compiled(lines: list[str], names: dict[str, Any]) -> Summary:
    code = "def made(data, text, start, end):\n" + "\n".join(f"    {line}" for line in lines)
    exec(compile(code, "<summary>", "exec"), names)  # made of repr() and numbers only
    found: Summary = names["made"]
    return found


# -- fields of fixed width


def _flat(flat: Flat) -> Summary | None:
    if len(flat.named) > 8:
        return None
    names: dict[str, Any] = {
        "read": flat.numbers.unpack_from, "second": SECONDS, "timestamp": display.timestamp,
    }  # fmt: skip
    count = len(flat.numbers.format) - 1
    lines = [
        f"if end - start != {flat.numbers.size}: return None",
        f"{', '.join(f'v{i}' for i in range(count))}, = read(data, start)" if count else "pass",
    ]
    texts: list[str] = []
    for number, (cell, i, text, skips) in enumerate(flat.named):
        gap = " " if number else ""
        if cell is None:
            texts.append(repr(gap + text))
            continue
        value = f"v{i}"
        if cell.plain == "lsn":
            shown = f"f'{{{value} >> 32:X}}/{{{value} & 0xFFFFFFFF:X}}'"
        elif cell.plain == "timestamp":
            lines.append(
                f"t{i} = f'{{second[{value} // 1000000]}}{{{value} % 1000000:06}} UTC' "
                f"if {value} % 1000000 and {LOW} < {value} < {HIGH} else timestamp({value})"
            )
            shown = f"t{i}"
        elif cell.plain in ("int", "xid"):
            shown = f"str({value})"
        else:
            names[f"k{i}"], names[f"c{i}"] = cell.known.get, cell.texts
            shown = f"(k{i}({value}) or c{i}({value}))[2]"
        whole = f"{gap + text!r} + {shown}"
        texts.append(f"({whole} if {value} else '')" if skips else f"({whole})")
    lines.append(f"s = {' + '.join(texts) or repr('')}")
    if flat.named and flat.named[0][3]:  # the first may be left out, and the blank after it
        lines.append("s = s.removeprefix(' ')")
    lines += [f"if len(s) > {WIDTH}: s = s[:{WIDTH - 1}] + '…'", "return s"]
    return _compiled(lines, names)


# -- rows


def _rows(kind: Kind) -> Summary | None:
    made = {letter: _row(kind, letter, variant) for letter, variant in kind.variants.items()}
    known = {letter: one for letter, one in made.items() if one is not None}
    if not known:
        return None
    if len(known) == 1:
        return next(iter(known.values()))
    get, at = known.get, kind.letter_at

    def chosen(data: bytes, text: str, start: int, end: int) -> str | None:
        one = get(data[start + at])
        return one(data, text, start, end) if one is not None else None

    return chosen


def _row(kind: Kind, letter: int, variant: Variant) -> Summary | None:
    """One kind of row. In the code h is finished text and s what has to be looked at still; `gap` stands
    before the next column of a tuple whose first ones may be left out."""
    names: dict[str, Any] = {"unit": _UNIT, "done": _done}
    lines = [
        f"if data[start + {kind.letter_at}] != {letter}: return None",
        f"first = at = start + {variant.flat.numbers.size}",
        f"h, s = {kind.subject!r}, ''",
    ]
    fewest = len(kind.subject)
    total = 0
    for number, each in enumerate(variant.tuples):
        varies = any(
            p.shown == "" and p.cell is None for kinds in each.pieces for p in kinds.values()
        )
        if varies:
            lines.append("gap = ''")
        for i, kinds in enumerate(each.pieces):
            if fewest > WIDTH:
                break
            total += 1
            if i > SHOWN or total > COLUMNS:
                return None
            least = _column(
                lines, names, f"{number}_{i}", kinds, "gap" if varies else ", " if i else ""
            )
            if least < 0:
                return None
            fewest += least
            if i % 4 == 3:
                lines.append(f"if len(h) + len(s) > {WIDTH}: return done(h, s, data, first, at)")
        else:
            if varies:
                lines.append("if not gap: s += '(no columns)'")
            elif not each.pieces:
                lines.append("s += '(no columns)'")
            if each.between is not None:
                lines += [_CHECK, f"h, s = h + s + {_BETWEEN!r}, ''", f"at += {each.skip}"]
            continue
        break
    lines.append("return done(h, s, data, first, at)")
    return _compiled(lines, names)


def _column(
    lines: list[str], names: dict[str, Any], key: str, kinds: dict[int, Piece], gap: str
) -> int:
    """Add the code for a column; the fewest characters that it shows, below 0 where it cannot be."""
    fewest = []
    lines.append("kind, size = unit(data, at)")
    word = "if"
    before = "{gap}" if gap == "gap" else gap
    after = "; gap = ', '" if gap == "gap" else ""
    # the usual kind comes first
    for kind, piece in sorted(kinds.items(), key=lambda item: item[1].cell is None):
        lines.append(f"{word} kind == {kind}:")
        word = "elif"
        cell = piece.cell
        if cell is None:
            lines.append("    at += 1")
            if piece.shown:
                if not _plain(piece.shown):
                    return -1
                lines.append(f"    s += f{before + piece.shown!r}{after}")
                fewest.append(len(piece.shown) + len(gap) % 3)
            else:
                fewest.append(0)
            continue
        names[f"c{key}_{kind}"], names[f"k{key}_{kind}"] = cell.texts, cell.known.get
        slow = [
            "x = data[a:at]",
            _CHECK,
            f"x = (k{key}_{kind}(x) or c{key}_{kind}(x))[2]",
            f"h, s = h + s + {'gap' if after else repr(gap)} + x, ''",
        ]
        lines.append("    a = at + 5; at = a + size")
        name = cell.name if isinstance(cell, ColumnCell) else ""
        if (
            not isinstance(cell, ColumnCell)
            or not (cell.numeric or cell.quotes)
            or not _plain(name)
        ):
            fewest.append(1)
            lines += [f"    {line}" for line in slow]
        elif cell.numeric:
            fewest.append(len(name) + len(gap) % 3)
            lines += [
                "    x = text[a:at]",
                f"    if size <= {VALUE} and x.isdigit(): s += f{before + name + '{x}'!r}",
                "    else:", *(f"        {line}" for line in slow),
            ]  # fmt: skip
        else:
            fewest.append(len(name) + 2 + len(gap) % 3)
            quoted = before + name + "'{x}'"
            long = before + name + "'{x[:" + str(VALUE - 1) + "]}"
            lines += [
                f"    x = text[a:at if size <= {VALUE} else a + {VALUE + 1}]",
                "    if not x.isascii():", *(f"        {line}" for line in slow),
                f"    elif size <= {VALUE}: s += f{quoted!r}",
                "    else:",
                f"        s += f{long!r}",
                "        " + _CHECK,
                f"        h, s = h + s + {_CUT!r}, ''",
            ]  # fmt: skip
        if after:
            lines.append(f"    {after[2:]}")
    lines.append("else: return None")
    return min(fewest, default=-1)


_CHECK = r"if not s.isascii() or '\\' in s: return None"


def _plain(text: str) -> bool:
    return text.isascii() and not set(text) & set("\\{}")


def _done(h: str, s: str, data: bytes, first: int, at: int) -> str | None:
    """The text, cut; None where a byte in it needs to be looked at."""
    if not s.isascii() or "\\" in s or data.find(b"'", first, at) >= 0:
        return None
    text = h + s
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
