"""Which messages the list shows: all of them, those of a filter, or those somebody chose; and the way
back through what was shown before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from textual.screen import Screen

from dissector.holding import holder
from dissector.query import Filter, QueryError, compile
from dissector.rows import Growing
from tui.jobs import Job, Step
from tui.message_list import MessageList

AT_ONCE, SOON = 1_500_000, 0.1
"""Rows that a filter over columns goes through without a thread: a tenth of a second. For as many seconds
other filters over columns are waited for."""

MOST_PLACES = 100
"""How far back the way goes."""


@dataclass
class Selection:
    """What the list shows. label: for people, "" for all messages. expression: the filter, "" for none.

    chosen: the numbers found so far, None for all. covered: rows that were decided; later ones are
    when they come, if there is a filter.
    """

    label: str = ""
    expression: str = ""
    filter: Filter | None = None
    chosen: Growing | None = None
    covered: int = 0
    job: Job | None = None


@dataclass
class Place:
    """Where the user was: selection, message, order, and the screen that led there, if one did."""

    selection: Selection
    number: int
    sorted: tuple[str, bool]
    order: Any
    led_by: Screen[Any] | None = None


@dataclass
class Narrowing:
    """The list's selection, and the stack of the ones before it. `tick` brings in what comes."""

    view: MessageList
    source: Any
    said: Callable[[], None]
    now: Selection = field(default_factory=Selection)
    places: list[Place] = field(default_factory=list)
    wanted: int = 0
    problem: str = ""

    @property
    def running(self) -> bool:
        """Whether a search goes on."""
        return self.now.job is not None

    @property
    def found(self) -> int:
        """Messages that are shown."""
        return self.view.line_count

    def remember(self, led_by: Screen[Any] | None = None) -> None:
        """Put where one is on the stack."""
        place = Place(self.now, self.view.number, self.view.sorted, self.view.order, led_by)
        self.places.append(place)
        del self.places[:-MOST_PLACES]

    def back(self) -> Place | None:
        """To the place before; None where there is none."""
        if not self.places:
            return None
        self.cancel()
        place = self.places.pop()
        if place.selection is not self.now:
            self.now = place.selection
            self.view.show_chosen(self.now.chosen, place.number)
            column, down = place.sorted
            if column and place.order is not None:
                self.view.set_order(column, down, place.order)
        if place.number:
            self.view.go_to(place.number)
        self.said()
        return place

    # Selections.

    def show_all(self) -> None:
        """All messages; the cursor stays on its message."""
        if self.now.chosen is None:
            return
        keep = self.view.number or self.wanted
        self.cancel()
        self.now = Selection()
        self.view.show_chosen(None, keep)
        self.said()

    def show_numbers(self, numbers: Sequence[int], label: str) -> None:
        """These messages, ascending."""
        chosen = Growing(np.int64)
        chosen.extend(np.asarray(numbers, np.int64))
        self._show(Selection(label=label, chosen=chosen))

    def show_job(self, steps: Callable[[], Iterator[Step]], label: str) -> None:
        """What a job finds."""
        chosen = Growing(np.int64)
        self._show(Selection(label=label, chosen=chosen, job=Job(steps).start()))

    def show_filter(self, expression: str, label: str = "") -> None:
        """Messages that pass. Raises QueryError, and shows nothing new then."""
        made = compile(expression)
        if getattr(self.source, "capture", None) is None:
            raise QueryError(expression, 0, "there is no index behind these messages")
        self._show(Selection(label or expression, expression, made, Growing(np.int64)))
        self._go_on()
        self._take()
        self.said()

    def _show(self, selection: Selection) -> None:
        keep = self.view.number or self.wanted
        self.cancel()
        self.problem = ""
        self.now, self.wanted = selection, keep
        self.view.show_chosen(selection.chosen, keep)
        self.said()

    def _go_on(self) -> None:
        """Decide the rows that the filter has not seen."""
        now, count = self.now, self.source.count
        if now.filter is None or now.job is not None or now.covered >= count:
            return
        start, now.covered = now.covered, count
        capture, chosen = self.source.capture, now.filter
        if chosen.quick and count - start <= AT_ONCE:
            mask = chosen.mask(capture.index, start, count)
            self._add(np.flatnonzero(mask) + (start + 1))
            return

        def steps() -> Iterator[Step]:
            for found in chosen.search(
                capture.index, capture.message, start, count, holder(capture)
            ):
                yield Step(found.rows + 1, found.done, found.total)

        now.job = Job(steps).start()
        if chosen.columns_only:
            now.job.wait(SOON)
            self._take()

    def _add(self, numbers: Any, before: bool = False) -> None:
        chosen = self.now.chosen
        if chosen is None or not len(numbers):
            return
        was_empty = not chosen.size
        behind = not was_empty and self.view.number < self.wanted
        keep = self.view.number
        if before and not was_empty:
            whole = np.concatenate((numbers, chosen.values))
            chosen = self.now.chosen = Growing(np.int64)
            chosen.extend(whole)
            self.view.chosen = chosen
            self.view.refresh_rows()
            self.view.go_to(keep)
            return
        chosen.extend(numbers)
        self.view.refresh_rows()
        if was_empty or behind:
            self.view.go_to(self.wanted)

    def _take(self) -> bool:
        job = self.now.job
        if job is None:
            return False
        steps = job.take()
        run: list[Any] = []
        for step in steps:  # those that follow each other at once: a list redraws for each addition
            if step.before:
                self._add(step.numbers, True)
            elif len(step.numbers):
                run.append(step.numbers)
        if run:
            self._add(np.concatenate(run))
        if not job.running:
            self.problem = job.failed
            self.now.job = None
            return True
        return bool(steps)

    def tick(self) -> None:
        """To be called some times a second: takes what searches found and begins what is to do."""
        changed = self._take()
        if self.now.filter is not None and self.now.job is None and not self.stopped:
            before = self.now.covered
            self._go_on()
            changed = changed or self.now.covered != before
        if changed:
            self.said()

    @property
    def stopped(self) -> bool:
        """Whether the user ended the search before its end."""
        return self._stopped is self.now

    _stopped: Selection | None = None

    def cancel(self) -> bool:
        """End a search; False when there is none. What it found stays."""
        job = self.now.job
        if job is None:
            return False
        self._take()
        job.cancel()
        self.now.job = None
        self._stopped = self.now
        self.said()
        return True

    def user_moved(self, number: int) -> None:
        """The user went to a message: what comes later does not move the cursor."""
        if self.now.job is None or number >= self.wanted:
            self.wanted = number
