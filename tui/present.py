"""Strings for the message list; with `present_fields` the one place where the interface makes any.

Texts are handed over as pieces (text, style name); every text that came from a capture has gone
through `dissector.text.visible`. Style names are component classes, coloured in ``tui.tcss``; what
a colour says is also said by a sign or a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.cells import set_cell_size

from dissector.text import visible
from tui.model import ListRow, Numbered

SEVERITY_STYLES = ("severity--note", "severity--warning", "severity--error")
SEVERITY_SIGNS = (" ", "i", "?", "!")
SEVERITY_NAMES = ("", "note", "warning", "error")

KIND_STYLES = ("kind--change", "kind--transaction", "kind--schema", "kind--error", "kind--quiet")

_KINDS: dict[str, str] = {
    **dict.fromkeys(("Insert", "Update", "Delete", "Truncate", "Message"), "kind--change"),
    **dict.fromkeys(("Relation", "Type", "Origin", "RowDescription"), "kind--schema"),
    **dict.fromkeys(("ErrorResponse", "NoticeResponse"), "kind--error"),
    **dict.fromkeys(
        ("Primary keepalive message", "Standby status update", "Hot standby feedback message"),
        "kind--quiet",
    ),
}
"""Innermost message name -> style; what starts with one of `_TRANSACTION` is a transaction's."""

_TRANSACTION = ("Begin", "Commit", "Rollback", "Prepare", "Stream")

NANO = 1_000_000_000
_DAY = 86_400 * NANO


def severity_style(severity: int) -> str:
    """The style of a severity; "" for 0."""
    return SEVERITY_STYLES[severity - 1] if severity else ""


def kind_style(name: str) -> str:
    """The style of a message name; "" for the plain ones."""
    if style := _KINDS.get(name):
        return style
    return "kind--transaction" if name.startswith(_TRANSACTION) else ""


def fit(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells: padded, or cut with … at its end."""
    if width <= 0:
        return ""
    if text.isascii():
        if len(text) <= width:
            return text.rjust(width) if right else text.ljust(width)
        return text[: width - 1] + "…"
    cut = set_cell_size(text, width)
    if not cut.startswith(text):
        return set_cell_size(text, width - 1) + "…"
    return cut[len(text) :] + text if right else cut


def sorted_heading(heading: str, down: bool, width: int) -> str:
    """The heading of the column that lines are sorted by. Its sign is seen in narrow columns, too."""
    return heading[: max(0, width - 1)] + ("▼" if down else "▲")


def lsn_text(lsn: int) -> str:
    """An LSN as PostgreSQL prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def seconds(nanoseconds: int) -> str:
    """A span in seconds with microseconds, by integers only."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{rest // NANO}.{rest % NANO // 1000:06d}"


def time_of_day(time: int) -> str:
    """Time of day in UTC of nanoseconds since the Unix epoch."""
    whole, rest = divmod(time % _DAY, NANO)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{rest // 1000:06d}"


@dataclass
class Clock:
    """How times are shown, and since when."""

    mode: str = "since start"
    first: int | None = None

    MODES = ("since start", "since previous", "of day")

    @property
    def needs_previous(self) -> bool:
        """True when a row's text depends on the row before it."""
        return self.mode == "since previous"

    def next_mode(self) -> None:
        """Go to the next way."""
        self.mode = self.MODES[(self.MODES.index(self.mode) + 1) % len(self.MODES)]

    def text(self, time: int, before: int | None) -> str:
        """The time of a row; before: that of the row above, None for the first one."""
        if self.mode == "of day":
            return time_of_day(time)
        since = self.first if self.mode == "since start" else before
        return seconds(time - (time if since is None else since))


@dataclass(frozen=True)
class Column:
    """One column of the list. worth: the narrower the screen, the more worth is needed to stay."""

    name: str
    heading: str
    width: int
    worth: int
    text: Callable[[ListRow], str]
    right: bool = False


@dataclass(frozen=True)
class Placed:
    """A column in the width it has on this screen."""

    column: Column
    width: int
    heading: str


def _relation(row: ListRow) -> str:
    return visible(row.relation, 80) if row.relation else ""


def _message(row: ListRow) -> str:
    return visible(row.path[-1], 60) if row.path else "?"


COLUMNS: tuple[Column, ...] = (
    Column("number", "No", 4, 10, lambda row: str(row.number), right=True),
    Column("time", "Time", 11, 8, lambda row: "", right=True),
    Column("stream", "Stream", 6, 7, lambda row: f"{row.stream} {row.direction}", right=True),
    Column("message", "Message", 16, 9, _message),
    Column("lsn", "LSN", 12, 4, lambda row: "" if row.lsn is None else lsn_text(row.lsn)),
    Column("xid", "Xid", 7, 5, lambda row: str(row.xid) if row.xid else "", right=True),
    Column("relation", "Relation", 14, 6, _relation),
    Column("summary", "Summary", 12, 10, lambda row: row.summary),
)
"""In the order of the screen. A summary takes all that is left."""


SIGNS = 2
"""Cells before the columns: the sign of the severity, and that of a mark."""

MARK = "◆"


def place_columns(
    width: int, count: int, clock: Clock, by: tuple[str, bool] = ("", False)
) -> list[Placed]:
    """The columns that fit into `width` cells, for numbers up to `count`.

    by: the column that the lines are sorted by, and whether downwards."""
    number = max(COLUMNS[0].width, len(str(count)))
    extra = 4 if clock.mode == "of day" else 0
    wants = {c.name: c.width for c in COLUMNS}
    wants["number"], wants["time"] = number, wants["time"] + extra
    chosen = list(COLUMNS)
    # Each column is followed by a space. Where it is narrow, columns of little worth go.
    while len(chosen) > 2 and SIGNS + sum(wants[c.name] + 1 for c in chosen) > width:
        chosen.remove(min(chosen, key=lambda c: c.worth))
    spare = width - SIGNS - sum(wants[c.name] + 1 for c in chosen)
    for name, most in (("relation", 28), ("message", 26)):
        if name in (c.name for c in chosen):
            more = max(0, min(spare // 5, most - wants[name]))
            wants[name] += more
            spare -= more
    wants["summary"] += max(0, spare)
    heading = {"time": {"since previous": "Delta", "of day": "Time (UTC)"}.get(clock.mode, "Time")}
    placed = []
    for c in chosen:
        text, wide = heading.get(c.name, c.heading), wants[c.name]
        placed.append(
            Placed(c, wide, sorted_heading(text, by[1], wide) if c.name == by[0] else text)
        )
    return placed


def column_at(columns: list[Placed], x: int) -> str:
    """The name of the column at cell `x` of a line; "severity" for that of the signs."""
    if x < SIGNS:
        return "severity"
    at = SIGNS
    for placed in columns:
        at += placed.width + 1
        if x < at:
            return placed.column.name
    return ""


def headings(columns: list[Placed]) -> list[str]:
    """The header's texts, in the widths of the columns."""
    return [" " * SIGNS, *(fit(p.heading, p.width, p.column.right) + " " for p in columns)]


def row_pieces(
    row: ListRow,
    columns: list[Placed],
    clock: Clock,
    before: int | None,
    marked: bool = False,
) -> list[tuple[str, str]]:
    """One line of the list."""
    kind = kind_style(row.path[-1] if row.path else "")
    names = {placed.column.name for placed in columns}
    pieces = [(SEVERITY_SIGNS[row.severity], severity_style(row.severity))]
    pieces.append((MARK if marked else " ", "list--mark"))
    for placed in columns:
        name = placed.column.name
        text = clock.text(row.time, before) if name == "time" else placed.column.text(row)
        if name == "summary" and row.relation and "relation" in names:
            text = text.removeprefix(f"{visible(row.relation)}: ")  # it has a column of its own
        style = kind if name in ("message", "relation", "summary") else ""
        pieces.append((fit(text, placed.width, placed.column.right) + " ", style))
    return pieces


def progress(what: str, done: int, total: int, words: str) -> str:
    """A line with a bar: how far something is, of `total` parts."""
    part = min(done, total) * 100 // total if total else 0
    filled = part // 5
    return f"{what} {'█' * filled}{'░' * (20 - filled)} {part:3d} %  ·  {words}"


def status(title: str, number: int, count: int, row: Numbered | None) -> str:
    """The line above everything: what is open and where one stands."""
    parts = [visible(title, 60)] if title else []
    if row is None:
        parts.append(f"{count:,} messages" if count else "no messages")
    else:
        parts.append(f"message {number:,} of {count:,}")
        parts.append(f"frame {row.frame:,}")
        parts.append(f"{row.length:,} bytes")
        if row.severity:
            parts.append(SEVERITY_NAMES[row.severity].upper())
    return "  ·  ".join(parts)
