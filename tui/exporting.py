"""Writing messages to a file from where one stands: which, in which format, where; progress; cancel."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from dissector.errors import UsageProblem, UserError
from dissector.export import BUILT, check_export, write_export
from dissector.halting import HaltedError, halting
from dissector.progress import Progress
from dissector.text import visible
from tui.actions import bindings
from tui.asking import AskDialog, ChooseDialog
from tui.still import still

FORMATS: tuple[tuple[str, str, bool, bool], ...] = tuple(
    each
    for each in (
        ("JSON lines: one object a message", "ndjson", False, False),
        ("JSON lines with every field and the payload", "ndjson", True, True),
        ("CSV: one line a message", "csv", False, False),
        ("Parquet: one row a message", "parquet", False, False),
        ("SQL: the changes of rows as statements", "sql", False, False),
        ("pcap: the frames that hold them", "pcap", False, False),
    )
    if each[1] in BUILT
)
"""(words, format of `dissector.export`, with fields, with payload), of those that are built."""


def start(screen: Any, capture: Any, numbers: Sequence[int], what: str, title: str) -> None:
    """Ask which messages, in which format and to which file, then write them.

    screen: the viewer. numbers: of the messages that it shows; what: they in words; title: the
    capture.
    """
    app = screen.app
    total, current = capture.count, screen.messages.number
    choices: list[tuple[str, Sequence[int]]] = [(f"What is shown: {what}", numbers)]
    choices.append((f"Only message {current:,}", [current]))
    if len(numbers) != total:
        choices.append((f"All {total:,} messages", range(1, total + 1)))
    chosen: list[Any] = []

    def asked_which(place: int | None) -> None:
        if place is None:
            return
        chosen.append(choices[place][1])
        words = [text for text, _, _, _ in FORMATS]
        app.push_screen(ChooseDialog(f"Export {len(chosen[0]):,} messages as", words), asked_form)

    def asked_form(place: int | None) -> None:
        if place is None:
            return
        _, form, fields, payload = FORMATS[place]
        try:
            check_export(form, fields=fields, payload=payload)
        except UserError as problem:  # a package is missing: told before a name is asked for
            screen.notify(visible(str(problem), 300), severity="error", markup=False, timeout=8)
            return
        stem = Path(title).name.partition(".")[0] or "messages"
        stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in stem)
        hint = "A file that exists is asked about before it is written over."
        question = AskDialog("Write to which file?", f"{stem}.{form}", hint)
        app.push_screen(question, lambda name: asked_name(place, name))

    def asked_name(place: int, name: str | None) -> None:
        if not name:
            return
        try:
            path = usable_path(name, capture)
        except UsageProblem as problem:
            screen.notify(visible(str(problem), 300), severity="error", markup=False, timeout=8)
            return
        if os.path.lexists(path):
            sure = ChooseDialog(
                f"{visible(name, 60)} exists", ["Leave it as it is", "Write over it"]
            )
            app.push_screen(sure, lambda yes: go(place, path) if yes == 1 else None)
        else:
            go(place, path)

    def go(place: int, path: Path) -> None:
        app.push_screen(ExportDialog(capture, FORMATS[place], path, chosen[0]))

    texts = [text for text, _ in choices]
    order = "" if screen.messages.order is None else " They are written by number"
    app.push_screen(ChooseDialog(f"Export which messages?{order}", texts), asked_which)


def usable_path(name: str, capture: Any) -> Path:
    """The file that a name means. Raises UsageProblem for what cannot be one, and for the capture."""
    try:
        path = Path(name).expanduser()
        found = None
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(path)  # noqa: PTH116
        if not path.name or path.name == ".." or (found and not stat.S_ISREG(found.st_mode)):
            raise UsageProblem(f"{name}: is no file; name a file that may be written")
        if found and any(map(path.samefile, filter(os.path.exists, capture.paths))):
            raise UsageProblem(f"{name}: is the capture itself; name another file")
    except (OSError, ValueError, RuntimeError) as error:  # ~nobody, a name too long, a NUL
        words = getattr(error, "strerror", None) or str(error)
        raise UsageProblem(f"{name}: cannot be written: {words}; name another file") from None
    return path


class _Progress(Progress):
    """Tells `written` how much of what is to be written was written; nothing on a terminal."""

    def __init__(self, written: Callable[[int, int], None]) -> None:
        super().__init__(active=False)
        self._written = written

    def writing(self, done: int, total: int) -> None:
        """See `Progress.writing`."""
        self._written(done, total)


class ExportDialog(ModalScreen[None]):
    """Shows how far the export is. Escape stops it, and no half file is left."""

    BINDINGS = bindings("asking")

    def __init__(
        self,
        capture: Any,
        form: tuple[str, str, bool, bool],
        path: Path,
        numbers: Sequence[int],
    ) -> None:
        super().__init__()
        self._still = still(capture)
        self._form = form
        self._path = path
        self._numbers = numbers
        self._done = 0
        self._stop = False
        self._left = False

    def compose(self) -> ComposeResult:
        with Vertical(id="asking") as box:
            box.border_title = "Export"
            box.border_subtitle = "Esc stops and leaves no half file"
            yield Static(Content(""), id="hint")

    def on_mount(self) -> None:
        self.set_interval(0.1, self._say)
        self._say()
        self._write()

    def _say(self) -> None:
        total = len(self._numbers)
        done = f"{self._done:,} of " if self._done else ""
        text = f"{done}{total:,} messages to {visible(str(self._path), 200)}"
        self.query_one("#hint", Static).update(Content(text), layout=False)

    def _written(self, done: int, total: int) -> None:
        self._done = len(self._numbers) * done // total

    @work(thread=True)
    def _write(self) -> None:
        self._still.progress = _Progress(self._written)
        _, form, fields, payload = self._form
        target = self._path.with_name(f".{self._path.name[:100]}.part")
        try:
            with halting(lambda: self._stop):
                write_export(
                    self._still, form, str(target), self._numbers, fields=fields, payload=payload
                )
            target.replace(self._path)
            said, wrong = f"{len(self._numbers):,} messages written to {self._path}", False
        except HaltedError:
            said, wrong = "Export stopped; nothing was left behind", False
        except (UsageProblem, UserError, OSError, ImportError) as problem:
            said, wrong = self._problem(str(problem), target), True
        except Exception as problem:  # a writer that fails must not take the session with it
            said, wrong = f"{type(problem).__name__}: {problem}", True
        with contextlib.suppress(OSError):
            target.unlink()
        if not self._left:
            self.app.call_from_thread(self._finish, visible(said, 300), wrong)

    def _problem(self, text: str, target: Path) -> str:
        """What the command line would say, for someone who named the file in a dialog."""
        named = text.replace(str(target), str(self._path))
        return named.replace("name another file with --output", "x again, and name another file")

    def _finish(self, said: str, wrong: bool) -> None:
        severity = "error" if wrong else "information"
        self.app.notify(said, severity=severity, markup=False, timeout=8)  # type: ignore[arg-type]
        if self.is_current:
            self.dismiss(None)

    def action_give_up(self) -> None:
        self._stop = True

    def on_unmount(self) -> None:
        """The program ends: it would wait for the thread, and the thread for it."""
        self._stop = self._left = True
