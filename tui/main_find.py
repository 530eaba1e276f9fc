"""Finding text, patterns and bytes from the viewer: in the list, in a message's fields, in its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from textual import on
from textual.screen import Screen

from dissector.text import visible
from tui.find_bar import FindBar
from tui.finding import Span, UnusableError, Wanted, bytes_steps, field_steps, list_steps
from tui.jobs import Job, Step

SOON = 0.1
"""Seconds for which a search in one message is waited for."""


class Finds(Screen[None]):
    """Part of `MainScreen`: see there."""

    _view: Any
    fields: Any
    messages: Any
    octets: Any

    _find_job: Job | None = None
    _find_view: Any = None
    _missing = ""
    _wanted: Wanted | None = None
    _find_pane = "list"

    @property
    def find_bar(self) -> FindBar:
        bar: FindBar = self.query_one(FindBar)
        return bar

    def wake(self) -> None:
        """Look again at what goes on, if anything does."""
        raise NotImplementedError

    def _select(self, node: Any, parents: list[Any], at: int | None = None) -> None:
        raise NotImplementedError

    def _select_byte(self, offset: int) -> None:
        raise NotImplementedError

    def action_find(self) -> None:
        """Let the user type what to look for, in the pane that one is in."""
        pane = self.focused.id if self.focused is not None else "list"
        self._find_pane = pane if pane in ("list", "tree", "hex") else "list"
        self.find_bar.open(self._find_pane)

    def action_find_next(self, step: int) -> None:
        """To the next place that was looked for, or the one before."""
        if self._wanted is None:
            self.action_find()
        else:
            self._find(step)

    @on(FindBar.Wanted)
    def _find_wanted(self, event: FindBar.Wanted) -> None:
        try:
            self._wanted = Wanted(event.text, event.mode)
        except UnusableError as error:
            self.find_bar.say(visible(str(error), 120), bad=True)
            return
        self._find(event.step)

    @on(FindBar.Left)
    def _find_left(self) -> None:
        if not self.stop_finding():
            self.find_bar.close()

    @on(FindBar.Closed)
    def _find_closed(self) -> None:
        self.query_one(f"#{self._find_pane}").focus()

    def stop_finding(self) -> bool:
        """End a search; False when there is none."""
        if self._find_job is None:
            return False
        self._find_job.cancel()
        self._find_job = None
        self.find_bar.say("stopped")
        return True

    def _find(self, step: int) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        if self._find_job is not None:
            self._find_job.cancel()
            self._find_job = None
        self.find_bar.say("")
        if self._find_pane == "list" and wanted.mode != "hex":
            lines, line = self.messages.still(), self.messages.cursor
            if lines.line_count:
                self._look("not in these messages", lambda: list_steps(lines, wanted, line, step))
            return
        view = self._view
        if view is None:
            return
        if self._find_pane == "tree" and wanted.mode != "hex":
            path = self.fields.path
            self._look("not in this message", lambda: field_steps(view, wanted, path, step))
        else:
            data, at = view.data, self.octets.at
            missing = "not in the bytes of this message"
            self._look(missing, lambda: bytes_steps(data, wanted, at, step))
        if self._find_job is not None:
            self._find_job.wait(SOON)
        self._take_found()

    def _look(self, missing: str, steps: Callable[[], Iterator[Step]]) -> None:
        self._find_view, self._missing = self._view, missing
        self._find_job = Job(steps).start()
        self.wake()

    def _take_found(self) -> None:
        job = self._find_job
        if job is None:
            return
        for step in job.take():
            if len(step.numbers) or step.place is not None:
                self._find_job = None
                if step.place is None:
                    self._show_message(int(step.numbers[0]))
                elif self._view is self._find_view:  # not where another message is shown meanwhile
                    self._show_place(step.place)
                return
        if not job.running:
            self._find_job = None
            self.find_bar.say(job.failed or self._missing, bad=True)

    def _show_message(self, number: int) -> None:
        self.messages.go_to(number)
        shown = self.messages.number == number  # other lines may be shown meanwhile
        text = "" if shown else f"message {number:,} has it, but is not shown now"
        self.find_bar.say(text, bad=not shown)

    def _show_place(self, place: Any) -> None:
        if isinstance(place, Span):
            self._select_byte(place.start)
            self.octets.show_found(place)
            return
        self.fields.select_path(place)
        chain = self.fields.chain
        if chain:
            self._select(chain[-1], chain[:-1])
