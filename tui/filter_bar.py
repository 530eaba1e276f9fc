"""The filter bar: one line to type in, completions below it, errors under the place they are at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dissector.query import Completion, QueryError, compile, complete
from dissector.text import visible
from tui.actions import bindings
from tui.present import fit

LABEL = "Filter: "

WIDTH = 72
"""Cells of the list of completions."""

SHOWN = 12
"""Completions seen at once."""


class FilterInput(Input):
    """The line itself: its keys first go to the completions."""

    BINDINGS = bindings("filter")

    def action_complete(self) -> None:
        self._bar.take_completion()

    def action_choose(self, step: int) -> None:
        self._bar.move_completion(step)

    def action_leave(self) -> None:
        self._bar.leave()

    @property
    def _bar(self) -> FilterBar:
        bar = self.parent.parent if self.parent is not None else None
        assert isinstance(bar, FilterBar)
        return bar


class Completions(OptionList, can_focus=False):
    """The list below the bar; it lies over the messages."""


class FilterBar(Vertical):
    """Posts `Applied` with a filter that is understood ("" for none), `Left` when the user gives up.

    index: where relation names come from, None where there is none. history: filters, last first.
    """

    @dataclass
    class Applied(Message):
        """Show messages that pass `expression`; "" shows all."""

        expression: str

    class Left(Message):
        """The user goes back to the list; the filter stays as it was."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.index: Any = None
        self.history: list[str] = []
        self.active = ""
        self._offers: list[Completion] = []
        self._past = False
        self._said = ""

    def compose(self) -> ComposeResult:
        with Horizontal(id="filter-line"):
            yield Static(Content(LABEL), id="filter-label")
            yield FilterInput(
                placeholder='message == Insert and relation == "public.users"',
                compact=True,
                select_on_focus=False,
                id="filter-input",
            )
            yield Static(Content(""), id="filter-state")
        yield Static(Content(""), id="filter-error")

    @property
    def line(self) -> FilterInput:
        return self.query_one(FilterInput)

    @property
    def offers(self) -> Completions:
        return self.screen.query_one(Completions)

    def say(self, text: str) -> None:
        """What stands at the right of the line."""
        if text == self._said:
            return
        self._said = text
        self.query_one("#filter-state", Static).update(Content(text))

    # Coming and going.

    def open(self) -> None:
        """Let the user type in place of the filter that is active, or change it: it is selected."""
        self.add_class("-open")
        self.line.value = self.active
        self.line.select_all()
        self.screen.set_focus(self.line)  # at once: keys that follow quickly are for it
        self._offer()

    def show_active(self, expression: str) -> None:
        """The filter that is active now, "" for none."""
        if expression == self.active:
            return  # this is asked for each message; what follows lays out the screen
        self.active = expression
        self.set_class(bool(expression), "-active")
        if not self.line.has_focus:
            self.line.value = expression
            self._judge(expression)

    def leave(self) -> None:
        """Escape: first the completions go, then the bar."""
        if self.offers.display and self._offers:
            self._hide()
            return
        self._close()
        self.line.value = self.active
        self.post_message(self.Left())

    def _close(self) -> None:
        self._hide()
        self.remove_class("-open")
        self._judge(self.active)

    def on_descendant_blur(self) -> None:
        if self.screen.focused is self.line:
            return  # this is of the time before: the line was opened again since
        self._hide()
        self.remove_class("-open")

    # Typing.

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._judge(event.value)
        if self.line.has_focus:
            self._offer()

    def _judge(self, text: str) -> QueryError | None:
        """Colour and, where it is wrong, a word under the place."""
        error = None
        try:
            compile(text)
        except QueryError as wrong:
            error = wrong
        self.line.set_class(bool(text) and error is None, "-good")
        self.line.set_class(error is not None, "-bad")
        self._point(error)
        return error

    def _point(self, error: QueryError | None) -> None:
        shown = self.query_one("#filter-error", Static)
        self.set_class(error is not None, "-wrong")
        if error is None:
            shown.update(Content(""))
            return
        words = visible(error.message, 200)
        if error.suggestion:
            words += f"; {visible(error.suggestion, 100)}"
        place = len(LABEL) + error.position - int(self.line.scroll_offset.x)
        width = self.size.width or 80
        if place >= 0 and place + 2 + len(words) <= width:
            text = f"{' ' * place}^ {words}"
        elif len(words) + 1 < place < width:
            text = f"{' ' * (place - len(words) - 1)}{words} ^"
        else:
            text = f"✗ character {error.position + 1}: {words}"
        shown.update(Content(text))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._past and not self.line.value:
            self.take_completion()
            return
        text = self.line.value.strip()
        error = self._judge(text)
        if error is not None:
            self._hide()
            self.line.cursor_position = min(error.position, len(self.line.value))
            return
        self._close()
        self.post_message(self.Applied(text))

    # Completions.

    def _offer(self) -> None:
        text = self.line.value
        self._past = not text.strip() and bool(self.history)
        if self._past:
            self._offers = [
                Completion(each, 0, len(text), "used before")
                for each in self.history
                if visible(each) == each
            ]
        else:
            self._offers = complete(text, self.line.cursor_position, self.index)
        shown = self.offers
        shown.clear_options()
        if not self._offers:
            self._hide()
            return
        wide = min(28, max(len(each.text) for each in self._offers))
        room = min(WIDTH, self.screen.size.width * 9 // 10) - 7
        options = []
        for each in self._offers:
            text = fit(each.text, max(wide, min(len(each.text), room)))
            about = fit(f"{each.kind}  {each.detail}", max(0, room - len(text)))
            options.append(Option(Content.assemble(text, "  ", (about, "dim"))))
        shown.add_options(options)
        shown.highlighted = 0
        start = 0 if self._past else self._offers[0].start
        x = max(0, min(len(LABEL) + start, self.screen.size.width - 40))
        shown.styles.offset = (x, self.region.y + 1 + (1 if self.has_class("-wrong") else 0))
        shown.styles.height = min(SHOWN, len(self._offers)) + 2
        shown.display = True

    def _hide(self) -> None:
        self.offers.display = False

    def move_completion(self, step: int) -> None:
        """Up and down in the completions; they come back when they are hidden."""
        if not self.offers.display:
            self._offer()
        elif self._offers:
            now = self.offers.highlighted or 0
            self.offers.highlighted = (now + step) % len(self._offers)

    def take_completion(self) -> None:
        """Put the chosen completion in its place."""
        if not self.offers.display or not self._offers:
            self._offer()
            return
        each = self._offers[self.offers.highlighted or 0]
        text = self.line.value
        space = "" if each.text.endswith(".") or text[each.end : each.end + 1] == " " else " "
        if self._past:
            space = ""
        self.line.value = text[: each.start] + each.text + space + text[each.end :]
        self.line.cursor_position = each.start + len(each.text) + len(space)
        self._offer()

    def clicked(self, index: int) -> None:
        """A completion was clicked."""
        self.offers.highlighted = index
        self.take_completion()
        self.line.focus()
