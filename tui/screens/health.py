"""Health: traffic, transactions, lag and delay over time, as plots."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

from textual import work
from textual.app import ComposeResult
from textual.containers import Grid
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from dissector.again import install
from dissector.health import Series, commits, delay, lag, traffic
from tui.actions import bindings
from tui.key_line import KeyLine
from tui.still import still

MISSING = (
    "The plots need the package textual-plotext. Install it beside pgdissect:\n\n"
    f"    {install('textual-plotext')}\n\nEverything else works without it."
)


class HealthScreen(Screen[None]):
    """Four plots where there is room, one at a time where there is not."""

    BINDINGS = bindings("health")

    def __init__(self, name: str, capture: Any) -> None:
        super().__init__(name=name)
        self._capture = capture
        self._chosen = 0
        self._series: list[Series] = []
        self._possible = find_spec("textual_plotext") is not None and capture is not None

    def compose(self) -> ComposeResult:
        yield Static(Content(""), id="status")
        if self._possible:
            from textual_plotext import PlotextPlot

            with Grid(id="plots"):
                for place in range(4):
                    yield PlotextPlot(id=f"plot{place}", classes="plot")
        else:
            why = MISSING if self._capture is not None else "There is no capture to look at."
            yield Static(Content(why), id="missing")
        yield KeyLine()

    def on_mount(self) -> None:
        self._say("")
        if self._possible:
            self.action_reload()

    def action_reload(self) -> None:
        """Plot anew what the capture holds now."""
        self._say("reading…")
        self._read(still(self._capture))

    @work(thread=True, exclusive=True)
    def _read(self, quiet: Any) -> None:
        series = [traffic(quiet.index), commits(quiet.index), lag(quiet), delay(quiet)]
        self.app.call_from_thread(self._show, series)

    def _show(self, series: list[Series]) -> None:
        self._series = series
        self._say("" if self._capture.index.complete else "so far (r reads again)")
        for place, each in enumerate(series):
            self._plot(place, each)
        self._choose()

    def _plot(self, place: int, series: Series) -> None:
        widget: Any = self.query_one(f"#plot{place}")
        plot = widget.plt
        plot.clear_figure()
        plot.title(f"{series.title} ({series.unit})")
        seconds = "seconds"
        if series.sampled < series.total:
            seconds += f", {series.sampled:,} of {series.total:,} looked into"
        plot.xlabel(seconds)
        drawn, least, most = False, 0.0, 0.0
        for name, (at, values) in series.lines.items():
            points = [
                (float(x), float(y))
                for x, y in zip(at, values, strict=True)
                if math.isfinite(float(y))
            ]
            if points:
                drawn = True
                least = min(least, *(y for _, y in points))
                most = max(most, *(y for _, y in points))
                label = name if len(series.lines) > 1 else None
                plot.plot([x for x, _ in points], [y for _, y in points], label=label)
        if drawn and least >= 0:
            plot.ylim(0, most or 1)
        if not drawn:
            plot.title(f"{series.title.split(':')[0]}: nothing here tells it")
            plot.xlabel("seconds")
        widget.refresh()

    def _choose(self) -> None:
        """One plot on a small screen, all of them on a large one."""
        wide = self.size.width >= 110 and self.size.height >= 30
        grid = self.query_one("#plots", Grid)
        grid.styles.grid_size_columns = 2 if wide else 1
        grid.styles.grid_size_rows = 2 if wide else 1
        for place in range(4):
            self.query_one(f"#plot{place}").display = wide or place == self._chosen

    def on_resize(self) -> None:
        if self._series:
            self._choose()

    def _say(self, text: str) -> None:
        parts = ["Health", text] if text else ["Health"]
        self.query_one("#status", Static).update(Content("  ·  ".join(parts)), layout=False)

    def action_next_plot(self, step: int) -> None:
        if self._series:
            self._chosen = (self._chosen + step) % 4
            self._choose()

    def action_leave(self) -> None:
        self.app.pop_screen()
