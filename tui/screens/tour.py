"""The tour: the viewer with a panel that tells what just happened, stop by stop."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from dissector.text import visible
from dissector.tour import TourStop, stops, text_of
from tui.actions import bindings
from tui.app import DissectApp
from tui.main_screen import MainScreen
from tui.model import Source


class TourScreen(MainScreen):
    """The viewer on a capture, with the text of the stop that one is at."""

    BINDINGS = bindings("tour")

    def __init__(self, source: Source, title: str, found: list[TourStop]) -> None:
        super().__init__(source, title)
        self._stops = found
        self._numbers = [stop.number for stop in found]

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="tour")
        yield from super().compose()

    def on_mount(self) -> None:
        panel = self.query_one("#tour", Static)
        panel.border_title = "Tour"
        panel.border_subtitle = "next stop .   stop before ,"
        if self._stops:
            self.messages.go_to(self._numbers[0])

    def show_message(self, number: int) -> None:
        super().show_message(number)
        self._tell(number)

    def _place(self, number: int) -> int:
        """The last stop that is not after message `number`; -1 before the first."""
        return bisect_right(self._numbers, number) - 1

    def _tell(self, number: int) -> None:
        place = self._place(number)
        stop: TourStop | None = None
        if place >= 0 and self._numbers[place] == number:
            stop = self._stops[place]
            head = f"Stop {place + 1} of {len(self._stops)}: {stop.title}"
        else:
            view: Any = self._view.view if self._view is not None else None
            stop = text_of(view) if view is not None else None
            head = stop.title if stop is not None else "Between two stops"
        lines = [Content.styled(head, "bold")]
        if stop is not None:
            if stop.comment:
                lines.append(Content.styled(f"On the server: {visible(stop.comment, 300)}", "dim"))
            lines += [Content(stop.happened), Content(f"Look: {stop.look}")]
        self.query_one("#tour", Static).update(Content("\n").join(lines), layout=False)

    def action_stop(self, step: int) -> None:
        """To the next stop, or the one before."""
        number = self.messages.number
        place = self._place(number)
        if step < 0 and place >= 0 and self._numbers[place] != number:
            step = 0  # back to the stop that lies behind
        goal = place + step
        if 0 <= goal < len(self._stops):
            self.messages.go_to(self._numbers[goal])
            return
        end = "This was the last stop." if step > 0 else "This is the first stop."
        self.notify(end, markup=False, timeout=3)


class TourApp(DissectApp):
    """The program on the tour."""

    CSS_PATH = Path(__file__).parents[1] / "tui.tcss"

    def __init__(self, source: Source, title: str, found: list[TourStop]) -> None:
        super().__init__(source, title)
        self._stops = found

    def get_default_screen(self) -> Screen[None]:
        return TourScreen(self._source, self._opened_title, self._stops)


def open_tour(capture: Any) -> TourApp:
    """The application on an opened and read capture."""
    from tui.source import CaptureSource

    return TourApp(CaptureSource(capture), "Tour", list(stops(capture)))
