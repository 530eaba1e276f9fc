"""CopyData by the command that began the copy: rows, backups, WAL, replication messages."""

from __future__ import annotations

from .annotate import annotate
from .commands import Command
from .copies import guess_copy
from .facts import Facts
from .findings import Severity, finding
from .known import NO_LSN, REPLICATION, Context
from .node import findings, messages
from .queries import Queries
from .statements import copy_statement
from .wal import check as check_wal


class Streaming(Queries):
    """COPY operations of a Session, and what is guessed where their beginning was not seen."""

    def _copy_data(self, direction: str, data: bytes, context: Context) -> None:
        if not context.dialect.copy and (self.began_in_middle or self.gaps):
            guess = guess_copy(direction, data)
            if guess:
                self.copy[direction] = guess
                self.copy_assumed = True
                if guess == "pgoutput" and not self.replication.begun:
                    self._assume_pgoutput()
                self._again(direction, data, context)
        if self._misjudged_backup(context):
            self.copies.is_tar()
            self._again(direction, data, context)
        mode = context.dialect.copy
        if mode in REPLICATION:
            self.replication.feed(direction, data, context, self)
            if self._misjudged(direction, context):
                self.copy[direction] = ""
                self._again(direction, data, context)
                return
            if mode == "backup":
                context.schema = self.copies.backup(context.tree)
            elif mode == "wal" and direction == "B":
                self._wal(data, context)
        elif mode:
            context.schema = self.copies.data(direction, data, context.tree)
        elif direction == "B" and not context.assumed:
            where = "here: no COPY is going on"
            context.found.append(finding("unexpected-here", message="CopyData", where=where))

    def _again(self, direction: str, data: bytes, context: Context) -> None:
        """Read a CopyData once more: the state that was assumed for it is another."""
        context.dialect = self.dialect(direction)
        layer = "frontend" if direction == "F" else "backend"
        context.own = annotate(data, layer, context.dialect)
        context.path = (context.own.name,)
        context.assumed, context.lsn, context.xid, context.schema = True, NO_LSN, 0, 0

    def _misjudged_backup(self, context: Context) -> bool:
        """Whether a backup's first CopyData is no "new archive": its release was not seen."""
        if context.dialect.copy != "backup" or self.release_known or self.assumptions.release:
            return False
        return self.copies.at_beginning() and _wrong(context)

    def _misjudged(self, direction: str, context: Context) -> bool:
        """Whether CopyData cannot be what was guessed of it: a row, or a piece of an archive."""
        if not self.copy_assumed or context.dialect.copy != "pgoutput":
            return False
        proven = direction == "B" and not self.replication.uncertain
        return not proven and _wrong(context)

    def _wal(self, data: bytes, context: Context) -> None:
        inner = messages(context.tree)[-1]
        lsn, node = inner.child("start_lsn"), inner.child("data")
        if lsn is not None and node is not None and isinstance(lsn.value, int):
            context.found += check_wal(lsn.value, data, node.start, node.end)

    def _assume_pgoutput(self) -> None:
        """Take the options that the user gave, or those that read most: the newest protocol."""
        self.replication.begin(
            self.assumptions.proto_version or 4, self.assumptions.streaming == "parallel", False
        )
        self.replication.uncertain = True

    def _begin_copy(self, direction: str, values: Facts) -> None:
        binary, old = bool(values.get("format")), self.base.release < 15
        head = self.conversation.head()
        sql = copy_statement(
            self.conversation.text(), head.completed if head is not None else 0, direction
        )
        self.copies.begin(direction, self._command(), sql, binary, old)

    def _copy_both(self, values: Facts, context: Context) -> None:
        command = self._command()
        if command is None or command.name != "START_REPLICATION":
            self.copy_assumed = True
            self.copies.clear()
            self.began_in_middle = True
            return
        self.copy_assumed = False
        what = self._start_replication(command)
        self.copy["F"] = self.copy["B"] = what

    def _start_replication(self, command: Command) -> str:
        """Begin a replication stream; returns what its CopyData holds."""
        self.facts["slot"] = command.slot
        self.facts["start_lsn"] = command.lsn
        self.facts.pop("options", None)
        if not command.logical:
            self.facts["plugin"] = ""
            return "wal"
        plugin = self.slots.get(command.slot, "")
        asked = command.option("proto_version")
        if not asked and not command.option("publication_names") and plugin != "pgoutput":
            self.facts["plugin"] = plugin or "not pgoutput (no proto_version asked for)"
            return "plugin"
        self.facts["plugin"] = "pgoutput"
        self.facts["options"] = {o.name: o.value for o in command.options}
        streaming = command.option("streaming", "off").lower()
        self.replication.begin(
            proto_version=int(asked) if asked.isdigit() and len(asked) < 6 else 1,
            parallel=streaming == "parallel",
            binary=command.option("binary", "off").lower() in ("on", "true", "yes", "1", "t"),
        )
        return "pgoutput"


def _wrong(context: Context) -> bool:
    return any(f.severity >= Severity.ERROR for f in findings(context.tree))
