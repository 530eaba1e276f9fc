"""The viewer's leaps: to other messages and back, along a stream or a row, to marks and elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.screen import Screen

from dissector.query import QueryError
from dissector.text import visible
from tui.asking import AskDialog, ChooseDialog
from tui.following import Way, ways
from tui.jumping import HELP, NowhereError, target
from tui.main_search import Searches


class Moves(Searches):
    """Part of `MainScreen`: see there."""

    _about: str
    app: Any
    marks: Any

    def lead_to(
        self,
        number: int = 0,
        *,
        expression: str = "",
        numbers: Sequence[int] | None = None,
        label: str = "",
        back: Screen[Any] | None = None,
    ) -> None:
        """Show what another screen leads to: messages by a filter or by number, one of them first.

        label: what `numbers` are, for people. back: the screen that `action_way_back` returns to.
        """
        self.narrowing.remember(back)
        if expression:
            try:
                self.narrowing.show_filter(expression, label)
            except QueryError as error:
                self._inform(str(error))
        elif numbers is not None:
            self.narrowing.show_numbers(numbers, label)
        if number:
            self.narrowing.wanted = number
            if self.messages.line_count:
                self.messages.go_to(number)
        self.messages.focus()
        self._say_status()

    def action_way_back(self) -> None:
        """To where one was before the last leap, and to the screen that led here."""
        place = self.narrowing.back()
        if place is None:
            self._inform("There is no place to go back to.")
        elif place.led_by is not None:
            self.app.push_screen(place.led_by)

    def action_show_all(self) -> None:
        """All messages again; the cursor stays on its message."""
        if self.narrowing.now.chosen is not None:
            self.narrowing.remember()
            self.narrowing.show_all()

    # Jumps.

    def action_jump(self) -> None:
        """Ask where to go."""
        self.app.push_screen(AskDialog("Go to", "", HELP), self._jump)

    def _jump(self, text: str | None) -> None:
        if not text or not text.strip():
            return
        now = self.messages.number
        try:
            number = target(text, self._source, now)
        except NowhereError as error:
            self._inform(str(error))
            return
        self.narrowing.remember()
        if self.narrowing.now.chosen is not None:
            values = self.narrowing.now.chosen.values
            place = int(values.searchsorted(number))
            if place >= len(values) or int(values[place]) != number:
                self.narrowing.show_all()
                self._inform(f"Message {number:,} was not among those shown: all are shown now.")
        self.messages.go_to(number)

    # Following.

    def action_follow(self) -> None:
        """Ask what to follow from the message under the cursor."""
        if not self.messages.line_count:
            return
        row = self._source.row(self.messages.number)
        found = ways(getattr(self._source, "capture", None), row)
        title = f"Follow from message {row.number:,}"

        def chosen(place: int | None) -> None:
            if place is not None:
                self._follow(found[place], row)

        self.app.push_screen(ChooseDialog(title, [way.text for way in found]), chosen)

    def _follow(self, way: Way, row: Any) -> None:
        if way.steps is not None:
            self.narrowing.remember()
            self.narrowing.show_job(way.steps, way.label)
        elif way.expression:
            self.narrowing.remember()
            try:
                self.narrowing.show_filter(way.expression, way.label)
            except QueryError as error:
                self._inform(str(error))
                self.narrowing.back()
        elif getattr(self._source, "capture", None) is not None:
            from tui.screens.stream import StreamScreen

            self.app.push_screen(StreamScreen(self._source, row.stream, row.number))
        else:
            self._inform("There is no capture behind these messages.")

    # Marks.

    def action_mark(self) -> None:
        """Mark the message, or take its mark away."""
        number = self.messages.number
        if not number:
            return
        note = None if number in self.marks else ""
        self.marks.set(number, self._source.row(number).frame, note)
        self._marks_changed()

    def action_note(self) -> None:
        """Write a note on the message; it is marked then."""
        number = self.messages.number
        if not number:
            return
        frame = self._source.row(number).frame

        def noted(text: str | None) -> None:
            if text is not None:
                self.marks.set(number, frame, text)
                self._marks_changed()

        hint = "Notes are kept with the marks, in a file beside the capture."
        now = self.marks.notes.get(number, "")
        self.app.push_screen(AskDialog(f"Note on message {number:,}", now, hint), noted)

    def _marks_changed(self) -> None:
        self.messages.refresh()
        self._say_status()
        if self.marks.told:
            self._inform(self.marks.told)
            self.marks.told = ""

    def action_next_mark(self, step: int) -> None:
        """To the next mark, around the end."""
        numbers = self.marks.numbers
        if not numbers:
            self._inform("Nothing is marked: m marks a message, M writes a note on it.")
            return
        now = self.messages.number
        beyond = [n for n in numbers if (n > now if step > 0 else n < now)]
        goal = (beyond or numbers)[0 if step > 0 else -1]
        if goal <= self._source.count:
            self._jump(str(goal))

    def action_show_marked(self) -> None:
        """Only the marked messages."""
        numbers = [n for n in self.marks.numbers if n <= self._source.count]
        if not numbers:
            self._inform("Nothing is marked: m marks a message, M writes a note on it.")
            return
        self.narrowing.remember()
        self.narrowing.show_numbers(numbers, "marked")

    # What other screens give.

    def action_define(self) -> None:
        """The definition of the selected field in the reference."""
        from tui.screens.reference import ReferenceScreen, definition_of

        chosen = self.fields.chain
        found = definition_of(chosen[-1], chosen[:-1]) if chosen else None
        if found is None:
            self._inform("Nothing defines these bytes.")
            return
        self.app.action_open_screen("reference")
        screen = self.app.screen
        assert isinstance(screen, ReferenceScreen)
        screen.open_at(*found)

    def action_copy(self) -> None:
        """A menu of what can be copied from here."""
        from tui.copying import copy_dialog

        chain = self.fields.chain
        if self._view is not None and chain and chain[0] is self._view.tree:
            self.app.push_screen(copy_dialog(self._view.view, chain[-1], self._source.show_secrets))

    def action_export(self) -> None:
        """Write the messages that the list shows to a file."""
        from tui.exporting import start

        capture = getattr(self._source, "capture", None)
        if capture is None or not self.messages.line_count:
            self._inform("There is nothing to write.")
            return
        numbers = self.messages.numbers
        what = f"{len(numbers):,} messages"
        if self.narrowing.now.label:
            what += f" ({visible(self.narrowing.now.label, 40)})"
        start(self, capture, numbers, what, self._about)
