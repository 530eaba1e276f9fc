"""The workbench: bytes that are pasted or typed, dissected as they stand, and changed byte by byte."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static, TextArea

from dissector.catalogue import RELEASES
from dissector.errors import UsageProblem
from dissector.hexinput import Given
from dissector.node import Node, messages
from dissector.spec import FIRST_RELEASE, LAST_RELEASE, Dialect
from dissector.text import visible
from dissector.workbench import Dissected, Workbench, advice, dissect_input
from tui import present
from tui.actions import bindings
from tui.asking import AskDialog
from tui.details import Details
from tui.field_tree import FieldTree
from tui.hex_editor import HexEditor
from tui.hex_view import HexView
from tui.key_line import KeyLine
from tui.model import chain_at, path_to
from tui.opened import Opened

LAYERS = ("pgoutput", "replication", "backend", "frontend")

EXAMPLE = "42000000000 1e9d450 0003046d92e925a7 00000321".replace(" ", "")
"""A Begin, to have something to look at."""

MOST = 4_000_000
"""Characters of input that are taken: a paste by mistake must not stop the screen."""


@dataclass
class BenchRow:
    """What the status line tells of a message."""

    number: int
    length: int
    severity: int
    frame: int = 0


class BenchView:
    """A dissected message in the shape of `tui.model.MessageView`."""

    def __init__(self, found: Dissected) -> None:
        self.dissected = found
        self.data, self.tree, self.schema = found.data, found.tree, found.schema
        self.found, self.dialect = found.found, found.dialect
        worst = max((int(f.severity) for f in found.found), default=0)
        self.row = BenchRow(found.number, len(found.data), worst)

    def context(self, show_secrets: bool = False, limit: int = 0) -> Any:
        return self.dissected.context(show_secrets, limit)


class WorkbenchScreen(Screen[None]):
    """Text above, tree and bytes below. What is typed in either changes the other."""

    BINDINGS = bindings("workbench")

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._layer = "pgoutput"
        self._dialect = Dialect(release=18, proto_version=4, copy="pgoutput")
        self._found: list[Dissected] = []
        self._place = 0
        self._view: Opened | None = None
        self._text = ""
        self._keep: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        yield TextArea("", id="given", show_line_numbers=False, tab_behavior="focus")
        yield Static(Content(""), id="said")
        with Horizontal(id="parts"):
            yield FieldTree(id="tree")
            yield HexEditor(id="hex")
        yield Details(id="details")
        yield KeyLine()

    @property
    def given(self) -> TextArea:
        return self.query_one("#given", TextArea)

    @property
    def fields(self) -> FieldTree:
        return self.query_one("#tree", FieldTree)

    @property
    def octets(self) -> HexEditor:
        return self.query_one("#hex", HexEditor)

    @property
    def details(self) -> Details:
        return self.query_one("#details", Details)

    @property
    def shown(self) -> Dissected | None:
        """The message that is shown."""
        return self._found[self._place] if self._found else None

    def on_mount(self) -> None:
        self.given.border_title = "Bytes: hex, a dump, Python bytes, base64, rows of psql"
        self.fields.border_title = "Fields"
        self.octets.border_title = "Bytes (type hex digits to change them)"
        self.details.border_title = "Field"
        self.given.focus()
        self._write(EXAMPLE)
        self.given.select_all()  # what is pasted or typed takes the place of the example
        self._read()

    # From text to messages.

    def _write(self, text: str) -> None:
        self._text = text
        self.given.text = text

    @on(TextArea.Changed)
    def _typed(self) -> None:
        if self.given.text != self._text:
            self._text = self.given.text
            self._place = 0
            self._read()

    def _read(self) -> None:
        """Dissect the text; when it cannot be read say where, and keep what is shown."""
        text = self._text
        if len(text) > MOST:
            self._say(f"{len(text):,} characters are too many: at most {MOST:,}", True)
            return
        try:
            self._found = list(dissect_input(text, self._layer, self._dialect))
        except UsageProblem as problem:
            self._say(visible(str(problem), 300), True)
            if not text.strip():
                self._found = []
                self._show()
            return
        self._say("")
        self._show()

    def _show(self, at: int | None = None) -> None:
        self._place = min(self._place, max(0, len(self._found) - 1))
        found = self.shown
        self._view = Opened(BenchView(found), show_secrets=True) if found else None
        self.octets.show_message(self._view)
        self.fields.show_message(self._view)
        if found is not None:
            hint = advice(found)
            worst = max(found.found, key=lambda f: int(f.severity), default=None)
            if worst is not None:
                said = f"{present.SEVERITY_NAMES[int(worst.severity)]}: {visible(worst.text, 200)}"
                hints = {"--in-stream": "I (in a stream)", "--parallel": "A (parallel)"}
                for option, key in hints.items():
                    hint = hint.replace(option, key) if hint else None
                self._say(f"{said}. {hint or ''}", True)
            elif found.note:
                self._say(found.note)
        self._keep = at  # the tree tells where its cursor is; after an edit the byte counts
        self._say_status()

    def _say(self, text: str, wrong: bool = False) -> None:
        said = self.query_one("#said", Static)
        said.set_class(wrong, "-wrong")
        said.update(Content(text), layout=False)

    def _say_status(self) -> None:
        dialect, found = self._dialect, self.shown
        parts = ["Workbench"]
        if len(self._found) > 1:
            parts.append(f"message {self._place + 1} of {len(self._found)}")
        if found is not None:
            parts.append(" > ".join(visible(n.name, 40) for n in messages(found.tree)))
            parts.append(f"{len(found.data)} bytes")
        parts += [
            f"layer {self._layer}",
            f"PostgreSQL {dialect.release}",
            f"protocol {dialect.proto_version}",
        ]
        parts += ["in a stream"] if dialect.in_stream else []
        parts += ["parallel"] if dialect.parallel else []
        self.query_one("#status", Static).update(Content("  ·  ".join(parts)), layout=False)

    # From bytes to text.

    @on(HexEditor.Edited)
    def _edited(self, event: HexEditor.Edited) -> None:
        # Of keys that came faster than they are shown the last one counts: it has the others in it.
        if self._found and event.data == self.octets.data:
            self._replace(self._place, event.data, event.at)

    def _replace(self, place: int, data: bytes, at: int | None = None) -> None:
        pieces = [d.data for d in self._found]
        pieces[place] = data
        bench = Workbench(self._layer, self._dialect)
        old = self._found
        self._found = [
            bench.dissect(Given(piece, was.lsn, was.xid), was.layer, alone=len(pieces) == 1)
            for piece, was in zip(pieces, old, strict=True)
        ]
        lines = [piece.hex() if len(pieces) == 1 else f"\\x{piece.hex()}" for piece in pieces]
        self._write("\n".join(lines))
        self._say("")
        self._show(at)

    # One selection in tree and bytes.

    @on(FieldTree.Picked)
    def _field_picked(self, event: FieldTree.Picked) -> None:
        if self._keep is not None:
            at, self._keep = self._keep, None
            self._select_byte(at)
            return
        self._select(event.node, event.parents)

    @on(HexView.Picked)
    def _byte_picked(self, event: HexView.Picked) -> None:
        self._select_byte(event.offset)

    def _select_byte(self, offset: int) -> None:
        if self._view is None:
            return
        path = path_to(self._view.tree, offset)
        chain = chain_at(self._view.tree, path)
        self.fields.select_path(path)
        self._select(chain[-1], chain[:-1], offset)

    def _select(self, node: Node, parents: list[Node], at: int | None = None) -> None:
        if self._view is None:
            return
        self.octets.mark(node, parents, at)
        self.details.show_field(self._view, node, parents)

    # What the bytes are taken for.

    def _now(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._read()
        self._say_status()

    def action_layer(self) -> None:
        self._layer = LAYERS[(LAYERS.index(self._layer) + 1) % len(LAYERS)]
        self._now(self._dialect)

    def action_release(self, step: int) -> None:
        release = max(FIRST_RELEASE, min(self._dialect.release + step, LAST_RELEASE))
        newest = RELEASES[release].proto_versions[-1]
        version = min(self._dialect.proto_version, newest)
        self._now(replace(self._dialect, release=release, proto_version=version))

    def action_version(self) -> None:
        version = self._dialect.proto_version % 4 + 1
        self._now(replace(self._dialect, proto_version=version))

    def action_stream(self) -> None:
        self._now(replace(self._dialect, in_stream=not self._dialect.in_stream))

    def action_parallel(self) -> None:
        self._now(replace(self._dialect, parallel=not self._dialect.parallel))

    def action_message(self, step: int) -> None:
        if self._found:
            self._place = (self._place + step) % len(self._found)
            self._show()

    # More.

    def action_build(self) -> None:
        """Ask for a message and its values, and build it."""
        asked = AskDialog(
            "Build a message",
            "Begin(final_lsn='0/1E9D450', commit_time='2026-11-29 18:53:12 UTC', xid=801)",
            "The name as the manual writes it, then the fields by name. Lengths and counts may be "
            "left out. Insert(relation_oid=16384, new=['1', None, b'\\x2a'])",
        )
        self.app.push_screen(asked, self._build)

    def _build(self, text: str | None) -> None:
        if not text:
            return
        from dissector.building import build

        try:
            name, values = parsed_call(text)
            data = build(name, values, self._dialect)
        except UsageProblem as problem:
            self._say(visible(str(problem), 300), True)
            return
        self._layer = _layer_of(name)
        self._write(data.hex())
        self._place = 0
        self._read()
        self.fields.focus()

    def action_copy(self) -> None:
        from tui.copying import copy_dialog

        chain = self.fields.chain
        if self._view is not None and chain:
            self.app.push_screen(copy_dialog(self._view.view, chain[-1], True))

    def action_define(self) -> None:
        from tui.screens.reference import ReferenceScreen, definition_of

        chain = self.fields.chain
        found = definition_of(chain[-1], chain[:-1]) if chain else None
        if found is not None:
            self.app.action_open_screen("reference")  # type: ignore[attr-defined]
            screen = self.app.screen
            assert isinstance(screen, ReferenceScreen)
            screen.open_at(*found)

    def action_next_pane(self, step: int) -> None:
        panes = (self.given, self.fields, self.octets, self.details)
        place = next((i for i, pane in enumerate(panes) if pane.has_focus), 0)
        panes[(place + step) % len(panes)].focus()

    def action_leave(self) -> None:
        self.app.pop_screen()


def parsed_call(text: str) -> tuple[str, dict[str, Any]]:
    """``Stream Abort(xid=1, subxid=2)`` as name and values. Raises UsageProblem that says what is wrong."""
    name, _, rest = text.strip().partition("(")
    if not name.strip():
        raise UsageProblem("say a message, for example: Begin(xid=801)")
    try:
        call = ast.parse(f"message({rest or ')'}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("write every value with its field: name=value")
        values = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise ValueError("write every value with its field: name=value")
            values[keyword.arg] = ast.literal_eval(keyword.value)
    except SyntaxError as problem:
        at = (problem.offset or 1) - len("message(") + len(name) + 1
        raise UsageProblem(f"cannot be read at character {max(1, at)}: {problem.msg}") from None
    except (ValueError, MemoryError, RecursionError) as problem:
        text = str(problem) or "too deep"
        raise UsageProblem(
            f"values are numbers, texts, bytes and lists of them: {visible(text, 100)}"
        ) from None
    return name.strip(), values


def _layer_of(name: str) -> str:
    from dissector.reference import find

    layer = find(name).layer
    return layer if layer in LAYERS else "pgoutput"
