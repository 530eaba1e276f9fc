"""Text for people: the list of messages, one message with its fields, and the closing words."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import IO

from . import display
from .again import STDIN, command
from .columns import column_values
from .display import Context
from .errors import UsageProblem
from .node import Node
from .opened import Opened
from .records import dumps, record
from .rows import DIRECTIONS, NO_LSN
from .selection import parts, selected
from .summary import summary
from .text import visible
from .times import iso_time
from .view import Capture, MessageView, one_text

MOST_FOREIGN = 10
"""Connections of something else, most probably, whose lost bytes are told of one by one."""


def list_cells(capture: Capture, view: MessageView) -> tuple[str, ...]:
    """Number, time, connection and direction, path, LSN, xid, relation, summary: as the list shows."""
    row = view.row
    return (
        str(row.number),
        iso_time(row.time, capture.digits(row)),
        f"{row.stream}{DIRECTIONS[row.direction]}",
        ".".join(view.path),
        "" if row.lsn == NO_LSN else display.lsn(row.lsn),
        str(row.xid or ""),
        visible(one_text(capture.relation(row))),
        summary(view, capture.options.show_secrets),
    )


def write_list(capture: Capture, out: IO[str], expression: str | None, limit: int | None) -> None:
    """Print one line a message: aligned on a terminal, tab-separated on a pipe."""
    if out.isatty():
        width = shutil.get_terminal_size().columns
        for view in selected(capture, expression, limit):
            out.write(_aligned(list_cells(capture, view), width) + "\n")
        return
    from .runs import Runs

    chosen, runs = parts(capture, expression, limit), Runs(capture)
    if (
        hasattr(out, "buffer")
        and (getattr(out, "encoding", None) or "").lower().replace("-", "") == "utf8"
    ):
        out.flush()
        runs.write(out.buffer, chosen, fields=False)
        return
    for text in runs.written(chosen, fields=False):
        out.write(text.decode())


def _aligned(cells: tuple[str, ...], width: int) -> str:
    number, time, stream, path, lsn, xid, relation, text = cells
    short = path.split(".")[-1]
    clock = time[11:-1] if width < 140 else time
    line = f"{number:>7} {clock} {stream:>4} {short:<18.18} {lsn:<12} {xid:<8} {relation:<20.20} {text}"
    return line if len(line) <= width else line[: width - 1] + "…"


def view_of(capture: Capture, number: int) -> MessageView:
    """Message `number`, or a usage problem that says how many there are."""
    if not 1 <= number <= capture.count:
        raise UsageProblem(f"no message {number}: the capture has {capture.count} (numbers from 1)")
    return capture.message(number)


def write_message(capture: Capture, number: int, out: IO[str], as_json: bool) -> None:
    """Print one message with every field: where it is, format, meaning, value, reason, finding."""
    view = view_of(capture.read(), number)
    if as_json:
        out.write(dumps(record(capture, view, fields=True, payload=True)) + "\n")
        return
    info, row = view.connection, view.row
    ends = (info.frontend, info.backend)
    frames = ", ".join(map(str, view.frames))
    out.write(
        f"message {row.number} of {capture.count}: {' > '.join(view.path)}\n"
        f"frame {frames}  {iso_time(row.time, capture.digits(row))}  "
        f"{ends[row.direction]} → {ends[1 - row.direction]}  {row.length} bytes\n"
    )
    if view.assumed:
        out.write("assumed: the capture does not show how this connection began\n")
    for each in view.found:
        out.write(f"{each.severity.name.lower()}: {visible(each.text)}\n")
    out.write("\n")
    context = view.context(capture.options.show_secrets, 200)
    for comment in (c for frame in view.frames for c in capture.files.comments.get(frame, ())):
        out.write(f"comment: {visible(comment)}\n")
    out.writelines(line + "\n" for line in tree_lines(view.tree, context, view))


def tree_lines(tree: Node, context: Context, view: Opened | None = None) -> Iterator[str]:
    """The tree as indented lines: offset, length, position and format, name, value, meaning."""
    columns = {}
    if view is not None:
        columns = {id(c.leaf): c for c in column_values(tree, view.schema)}
    yield f"{'offset':>6} {'length':>6}  {'pos':>3}  {'format':<22} field = value  (meaning)"
    for row in display.rows(tree, context):
        node = row.node
        depth = row.path.count(".") + row.path.count("[")
        if node.is_message:
            where = f"{node.start - tree.start:>6} {node.length:>6}"
            yield f"{where}  {'':>3}  {'':<22} {'  ' * depth}{visible(node.name)}"
            continue
        column = columns.get(id(node))
        text = row.text if column is None or column.missing else column.text(context)
        name = f"[{node.index}]" if node.index >= 0 else node.name
        if column is not None and column.column is not None:
            name = f"{name} ({visible(column.column.name, 60)})"
        where = f"{node.start - tree.start:>6} {node.length:>6}" if not node.absent else " " * 13
        position = str(node.position or "")
        line = f"{where}  {position:>3}  {node.format:<22} {'  ' * depth}{name} = {text}"
        if node.meaning:
            line += f"  ({node.meaning})"
        if node.reason:
            line += f"  [{node.reason}]"
        if node.finding is not None:
            line += f"  !! {visible(node.finding.text)}"
        yield line


def closing_words(capture: Capture) -> Iterator[str]:
    """What goes to standard error at the end: findings of files and connections, and their count."""
    index = capture.index
    for each in index.file_findings:
        yield f"{each.severity.name.lower()}: {visible(each.text)}"
    foreign = 0
    for info in index.connections.values():
        for each in info.found:
            foreign += each.code == "foreign-gap"
            if each.code != "foreign-gap" or foreign <= MOST_FOREIGN:
                yield f"{each.severity.name.lower()}: connection {info.number}: {visible(each.text)}"
    if foreign > MOST_FOREIGN:
        yield f"note: the same of {foreign - MOST_FOREIGN:,} more connections"
    if capture.undecided:
        yield (
            f"{capture.undecided} values took the pattern too long and count as not matching; "
            "write a simpler one"
        )
    if capture.comments_left_out:
        yield (
            f"packet comments that the slice does not hold: {capture.comments_left_out}; "
            f"{_pasted(capture, ['show', '--number', 'N'])} shows those of message N"
        )
    if capture.passed == 0 and len(index):
        yield (
            f"0 of {len(index):,} messages match; {_pasted(capture, ['stats'])} tells which messages, "
            "relations and connections there are"
        )
    places = index.rows.where(lambda severity: severity > 0, "severity")
    bad = len(places)
    if not len(index) and index.complete:
        facts = capture.counted()
        ports = ", ".join(map(str, sorted(facts.get("ports", {}))[:20]))
        yield (
            f"no PostgreSQL in it: {facts.get('packets', 0)} packets, "
            f"{facts['connections']} TCP connections, ports {ports or 'none'}; "
            + (
                "if a server's port is among them, name it with --port N"
                if ports
                else "record where the server's traffic passes: tcpdump -i any -w FILE port 5432"
            )
        )
    elif bad:
        worst = int(index.rows.take("severity", places).max())
        names = {1: "note", 2: "warning", 3: "error"}
        yield (
            f"{bad} message{'s' * (bad != 1)} with findings{'' if index.complete else ' so far'}, "
            f"the worst of severity {names[worst]}: "
            f"{_way_to_them(capture, 'them' if bad > 1 else 'it')}"
        )


def _way_to_them(capture: Capture, them: str) -> str:
    """The command that lists messages with findings."""
    return f"{_pasted(capture, ['list', '--filter', 'severity >= note'])} shows {them}"


def _pasted(capture: Capture, words: list[str]) -> str:
    """A command for the same captures, ready to be pasted where that can be."""
    captures = [source.name for source in capture.files.sources]
    line = visible(command(words, captures, capture.options))
    return f"given the same input, {line}" if STDIN in captures else line
