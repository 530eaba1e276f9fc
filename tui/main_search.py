"""The viewer's searches: filter bar, find bar, sorting, and the progress of all that goes on behind."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from textual import on, work
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList, Static

from dissector.query import QueryError
from dissector.text import visible
from tui import present
from tui.filter_bar import FilterBar
from tui.main_find import Finds
from tui.message_list import MessageList

THREAD_FROM = 300_000
"""Lines from which on sorting happens in a thread."""


class Searches(Finds):
    """Part of `MainScreen`: see there."""

    _source: Any
    details: Any
    narrowing: Any
    settings: Any

    _count = -1
    _progress = ""
    _begun = 0.0
    _resorted = False
    _failed_told = False
    _awaited = 0
    _ticker: Timer | None = None

    @property
    def filter_bar(self) -> FilterBar:
        bar: FilterBar = self.query_one(FilterBar)
        return bar

    @property
    def capture(self) -> Any:
        """The opened capture; None where there are only messages."""
        return getattr(self._source, "capture", None)

    @property
    def feeding(self) -> bool:
        """Whether an index still grows."""
        return bool(getattr(self.capture, "busy", False))

    def _prepare_search(self) -> None:
        bar = self.filter_bar
        bar.index = getattr(self.capture, "index", None)
        bar.history = self.settings.filters
        self._begun = monotonic()

    def show_nothing(self) -> None:
        """No message is shown: the list is empty."""
        raise NotImplementedError

    def _say_status(self) -> None:
        raise NotImplementedError

    def _inform(self, text: str) -> None:
        self.notify(visible(text, 300), markup=False, timeout=4)

    # Ticks.

    def tick(self) -> None:
        """Take what the index and the threads have brought."""
        if self.feeding:
            self._feed()
        self.narrowing.tick()
        self._take_found()
        self._say_progress()
        if self._ticker is not None and not self.at_work:
            self._ticker.pause()

    @property
    def at_work(self) -> bool:
        """Whether anything goes on behind the screen."""
        return self.feeding or self.narrowing.running or self._find_job is not None

    def wake(self) -> None:
        """Look again at what goes on, if anything does."""
        if self._ticker is not None and self.at_work:
            self._ticker.resume()

    def _feed(self) -> None:
        capture, lines = self.capture, self.messages.line_count
        at_end = self.messages.cursor >= lines - 1
        before = self._source.count
        capture.take()
        if self._source.count != before:
            self.messages.rows_added()
            self._go_to_awaited()
            if at_end and capture.following and self.narrowing.now.chosen is None:
                self.messages.action_last()
            self._say_status()
        recorder = capture.recorder
        if capture.following and recorder is not None and not recorder.running:
            capture.finish()
            self._inform(f"{recorder.program} ended: {recorder.said() or 'it said nothing'}")
        if not capture.busy:
            self._feed_ended()

    def _feed_ended(self) -> None:
        capture = self.capture
        if capture.failed and not self._failed_told:
            self._failed_told = True
            from tui.dialogs import message_dialog

            text = visible(capture.failed, 500)
            self.app.push_screen(message_dialog("Reading ended early", text))
        if not self._source.count:
            self._say_status()
            self._say_empty()
        column, down = self.messages.sorted
        if column:
            self.sort(column, down)
        self.messages.refresh()

    def _say_empty(self) -> None:
        if self.feeding:
            self.details.show_text("", "Reading; messages appear here as they are found.")
            return
        words = "No message of PostgreSQL is in this capture"
        if self.capture is not None:
            from dissector.report import closing_words

            words = next(iter(closing_words(self.capture)), words)
        self.details.show_text("", words)

    def action_halt(self) -> None:
        """Escape: what goes on ends, the last thing begun first."""
        if self.stop_finding():
            self._say_progress()
        elif self.narrowing.cancel():
            self._inform("The search was stopped; what was found stays.")
        elif self.maximized is not None:
            self.minimize()
        elif self.find_bar.has_class("-open"):
            self.find_bar.close()
            self.messages.focus()
        elif self.feeding and not self.capture.paused:
            self.capture.pause()
            self._say_progress()

    def action_go_on(self) -> None:
        """Go on reading after Escape."""
        if self.feeding and self.capture.paused:
            self.capture.resume()

    def _say_progress(self) -> None:
        text = ""
        find = self._find_job
        job = self.narrowing.now.job
        if find is not None and find.total:
            text = present.progress("looking", find.done, find.total, "Esc stops")
        elif job is not None:
            words = f"{self.messages.line_count:,} found  ·  Esc stops"
            text = present.progress("searching", job.done, job.total, words)
        elif self.feeding:
            text = self._feeding_text()
        if text != self._progress:
            shown = self.query_one("#progress", Static)
            if bool(text) != bool(self._progress):
                shown.display = bool(text)
            self._progress = text
            shown.update(Content(text), layout=False)

    def _feeding_text(self) -> str:
        capture = self.capture
        words = f"{capture.count:,} messages"
        if capture.paused:
            return f"reading paused  ·  {words} so far  ·  Ctrl+R goes on"
        if capture.following:
            return f"following  ·  {words}  ·  Esc pauses"
        if capture.unpacking:
            return f"reading a stream  ·  {capture.bytes_known / 1e6:,.1f} MB  ·  {words}"
        if not capture.count and monotonic() - self._begun < 1.0:
            return ""  # a small capture is there before anybody could read this
        size = capture.index.size or capture.bytes_known
        return present.progress("reading", capture.index.read, size, f"{words}  ·  Esc pauses")

    # The filter.

    def action_filter(self) -> None:
        """Let the user type a filter."""
        self.filter_bar.open()

    @on(FilterBar.Applied)
    def _filter_applied(self, event: FilterBar.Applied) -> None:
        self.messages.focus()
        self.apply_filter(event.expression)

    @on(FilterBar.Left)
    def _filter_left(self) -> None:
        self.messages.focus()

    @on(OptionList.OptionSelected, "#completions")
    def _completion_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.filter_bar.clicked(event.option_index)

    def apply_filter(self, expression: str) -> None:
        """Show the messages that pass; "" shows all."""
        if expression == self.narrowing.now.expression:
            return
        self.narrowing.remember()
        if not expression:
            self.narrowing.show_all()
            return
        try:
            self.narrowing.show_filter(expression)
        except QueryError as error:
            self._inform(str(error))
            return
        self.settings.used(expression)
        self.filter_bar.history = self.settings.filters

    def _say_search(self) -> None:
        """What the filter bar tells of the filter that is active."""
        now = self.narrowing.now
        bar = self.filter_bar
        bar.show_active(now.expression)
        if now.filter is not None:
            shown = self.messages.line_count
            words = f"{shown:,} of {self._source.count:,}"
            if now.filter.gave_up:
                words += f", {now.filter.gave_up} values took too long"
            if self.narrowing.stopped:
                words += " before the search was stopped"
            bar.say(words)
        if now.chosen is not None and not self.messages.line_count:
            self.show_nothing()
            if self.narrowing.problem:
                self.details.show_text("", f"The search ended: {visible(self.narrowing.problem)}")
            elif now.job is None:
                way = "/ changes the filter, u shows all messages again, Backspace goes back."
                what = "matches"
                if self.narrowing.stopped:  # nobody knows about the others
                    what = "was found before the search was stopped"
                self.details.show_text("", f"No message {what}. {way}")
            else:
                self.details.show_text("", "No message was found so far.")

    def begin_with(self, expression: str, number: int) -> None:
        """A filter, and a message to go to once it is there."""
        if expression:
            self.apply_filter(expression)
        self._awaited = number
        self._go_to_awaited()

    def _go_to_awaited(self) -> None:
        if self._awaited and self._source.count >= self._awaited:
            self.narrowing.wanted = self._awaited
            self.messages.go_to(self._awaited)
            self._awaited = 0

    # Sorting.

    @on(MessageList.SortWanted)
    def _sort_wanted(self, event: MessageList.SortWanted) -> None:
        self.sort(event.column, event.down)

    def sort(self, column: str, down: bool) -> None:
        """Show the lines by a column; "" as they are in the capture."""
        if not column:
            self.messages.set_order("", False, None)
        elif self.messages.line_count < THREAD_FROM:
            self.messages.set_order(column, down, self.messages.make_order(column, down))
        else:
            self._sort_behind(column, down)

    @work(exclusive=True, group="sort")
    async def _sort_behind(self, column: str, down: bool) -> None:
        selection = self.narrowing.now
        order = await asyncio.to_thread(self.messages.make_order, column, down)
        if self.narrowing.now is selection:
            self.messages.set_order(column, down, order)
