"""Keys one after the other: what is typed behind a key that opens a line, a dialog or a screen is for
what it opens, however busy the machine is.

Textual gives a key to the widget that has the focus at the moment when the key is read, and the widget
acts on it later. Of keys that are read together (a slow link, a busy machine) those behind `:` would
all go to the list. Here a key is handed on when the one before has done all it does: to know that, a
mark follows it the way it bubbles, from the widget up to the app.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import cache

from textual import events
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import Input, TextArea

STAYS = ("move", "page", "first", "last", "side", "byte", "step")
"""Actions that leave the focus where it is. Nothing waits for them: a key that is held down may be ahead
of the messages that it passes."""

ROUNDS = 8
"""Ways of the mark at most: screens that change all the time are never at rest."""

PATIENCE, TICK = 4.0, 0.1
"""Seconds after which keys go on although the mark did not come back: a widget is at work, or gone. They
are counted in ticks, for a machine that was busy elsewhere all the time has not done the work yet."""

LINE_FEED = "ctrl+j"
"""Enter, where it was typed before the program has told the terminal to leave keys as they are."""


class KeysInOrder(App[None]):
    """An app whose keys and pastes wait for each other. `keys_may_come` opens the way at the start."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key | events.Paste] = deque()
        self._under_way = -1
        """The number of the key that is acted on; 0 for none, -1 while the first screen is made."""
        self._handed = 0
        self._limit: asyncio.TimerHandle | None = None

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and event.key == LINE_FEED:
            event = events.Key("enter", "\r")
        if not isinstance(event, events.Key | events.Paste):
            await super().on_event(event)
        elif self._under_way and not event.is_forwarded:
            self._typed.append(event)
        elif not self.screen_stack:
            return  # the program ends: nothing is left that a key could be for
        elif event.is_forwarded:
            await super().on_event(event)
        else:
            await self._hand_on(event)

    async def keys_may_come(self) -> None:
        """The first screen is there: once it is at rest, keys that came before are for it."""
        self._under_way = 0
        await self._await_rest()

    async def _hand_on(self, event: events.Key | events.Paste) -> None:
        target = self.focused or self.screen
        keeps = keeps_the_focus(target, event)
        await super().on_event(event)
        if not keeps:
            await self._await_rest(target)

    async def _await_rest(self, target: Widget | None = None) -> None:
        self._handed += 1
        self._under_way = self._handed
        self._tick(self._handed, int(PATIENCE / TICK))
        await self._send_mark(self._handed, target, ROUNDS)

    async def _send_mark(self, number: int, target: Widget | None, rounds: int) -> None:
        """One more way from the widget (None: the one that has the focus now) to the app."""
        if not self.screen_stack:  # the program ends
            return
        start = target if target is not None and target.is_attached else self.focused or self.screen
        way: deque[DOMNode] = deque(start.ancestors_with_self)
        quiet = True

        async def passed(at: MessagePump) -> None:
            nonlocal quiet
            quiet = quiet and not _waiting(at)
            await go_on()

        async def go_on() -> None:
            if number != self._under_way:
                return
            while way:
                following = way.popleft()
                if following.call_later(passed, following):
                    return
            # What happened on the way may go on behind the mark, or have opened another screen.
            if rounds > 1 and not (quiet and start.is_attached and start.screen is self.screen):
                await self._send_mark(number, None, rounds - 1)
            else:
                await self._at_rest(number)

        await go_on()

    def _tick(self, number: int, left: int) -> None:
        if number != self._under_way:
            return
        if left:
            loop = asyncio.get_running_loop()
            self._limit = loop.call_later(TICK, self._tick, number, left - 1)
        else:
            self.call_later(self._at_rest, number)

    async def _at_rest(self, number: int) -> None:
        """Key `number` has done what it does: hand on those that wait, until one has to be waited for."""
        if number != self._under_way:
            return
        self._under_way = 0
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        while self._typed and not self._under_way and self.screen_stack:
            await self._hand_on(self._typed.popleft())


def _waiting(pump: MessagePump) -> bool:
    """Whether messages wait behind the one that is dispatched now; the library looks one ahead."""
    return bool(pump.message_queue_size) or getattr(pump, "_pending_message", None) is not None


def keeps_the_focus(target: Widget, event: events.Key | events.Paste) -> bool:
    """Whether nothing that the event does to `target` can move the focus."""
    if isinstance(target, Input | TextArea) and (
        isinstance(event, events.Paste) or event.is_printable
    ):
        return True
    if isinstance(event, events.Paste):
        return False
    for node in target.ancestors_with_self:
        action = _actions(type(node)).get(event.key)
        if action is not None:
            return action in STAYS
    return False


@cache
def _actions(kind: type[DOMNode]) -> dict[str, str]:
    """Key -> name of the action, of one class's own bindings."""
    return {
        key: each.action.partition("(")[0]
        for each in kind.BINDINGS
        if isinstance(each, Binding)
        for key in each.key.split(",")
    }
