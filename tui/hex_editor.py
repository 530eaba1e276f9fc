"""A byte pane whose bytes can be typed over."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message

from tui.actions import bindings
from tui.hex_view import HexView

DIGITS = "0123456789abcdef"


class HexEditor(HexView, inherit_bindings=False):
    """The bytes of a message; hex digits overwrite the byte under the cursor, half by half.

    Posts `Edited` with the new bytes; who shows the message shows it anew.
    """

    BINDINGS = bindings("bench_hex")

    @dataclass
    class Edited(Message):
        """The user changed the bytes to `data`; the cursor belongs on byte `at`."""

        data: bytes
        at: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._low = False
        self._low_at = -1

    @property
    def data(self) -> bytes:
        """The bytes as they are now, with what was typed but not yet shown anew."""
        return self._data

    def on_key(self, event: events.Key) -> None:
        if event.character is None or event.character not in DIGITS or len(event.character) != 1:
            return
        event.stop()
        event.prevent_default()
        if not self._data:
            return
        digit = DIGITS.index(event.character)
        low = self._low and self._low_at == self.at
        old = self._data[self.at]
        new = (old & 0xF0) | digit if low else (digit << 4) | (old & 0x0F)
        data = self._data[: self.at] + bytes((new,)) + self._data[self.at + 1 :]
        at = min(self.at + 1, len(data) - 1) if low else self.at
        self._low, self._low_at = not low, at
        self._data, self.at = data, at
        self.post_message(self.Edited(data, at))

    def action_insert(self) -> None:
        """A zero byte before the one under the cursor."""
        data = self._data[: self.at] + b"\0" + self._data[self.at :]
        self._change(data)

    def action_delete(self) -> None:
        """Without the byte under the cursor."""
        if len(self._data) > 1:
            self._change(self._data[: self.at] + self._data[self.at + 1 :])

    def action_append(self) -> None:
        """A zero byte at the end, and there."""
        self.at = len(self._data)
        self._change(self._data + b"\0")

    def _change(self, data: bytes) -> None:
        self._low = False
        self._data, self.at = data, min(self.at, len(data) - 1)
        self.post_message(self.Edited(data, self.at))
