"""The viewer's way below PostgreSQL: frames, read by a thread when they are opened."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from textual import on, work

from dissector.text import visible
from tui.below import BelowNode, frames_of, read
from tui.field_tree import FieldTree
from tui.main_moves import Moves
from tui.model import chain_at, path_to
from tui.opened import Opened

KEPT = 32
"""Frames whose layers are kept."""


class Below(Moves):
    """Part of `MainScreen`: see there."""

    def __init__(self) -> None:
        super().__init__()
        self._frames: OrderedDict[tuple[int, int], BelowNode] = OrderedDict()

    def _below_of(self, number: int) -> list[BelowNode]:
        if self._view is None or self.capture is None:
            return []
        frames = frames_of(self._view.view)
        for frame in frames:
            known = self._frames.get((number, frame.record))
            if known is not None:
                _take(frame, known)
        return frames

    @on(FieldTree.FrameWanted)
    def _frame_wanted(self, event: FieldTree.FrameWanted) -> None:
        if self._view is not None:
            self._read_frame(event.frame, self._view.view)

    @work(thread=True, exclusive=True, group="frame")
    def _read_frame(self, frame: BelowNode, view: Any) -> None:
        mask = None if self._source.show_secrets else (lambda each: Opened(each).data)
        try:
            made = read(self.capture, view, frame.record, mask)
        except Exception as error:  # a file that went away, a scapy that does not load
            text = visible(str(error) or type(error).__name__, 200)
            made = BelowNode("Frame", 0, 0, f"cannot be read: {text}", [])
        self.app.call_from_thread(self._frame_read, frame, view, made)

    def _frame_read(self, frame: BelowNode, view: Any, made: BelowNode) -> None:
        self._frames[view.row.number, frame.record] = made
        while len(self._frames) > KEPT:
            self._frames.popitem(last=False)
        _take(frame, made)
        self.fields.frame_read(frame)

    def _select_frame(self, node: Any, parents: list[Any], at: int | None) -> bool:
        """Show bytes and facts of a part of a frame; False for what is in the message."""
        frame = parents[0] if parents else node
        if not isinstance(frame, BelowNode):
            return False
        self.octets.show_below(frame.data)
        self.octets.mark(node, parents, at)
        self.details.show_field(self._view, node, parents)
        return True

    def _select_below(self, offset: int) -> None:
        """Select the field of the frame at a byte of it."""
        chain = self.fields.chain
        frame = chain[0] if chain else None
        if not isinstance(frame, BelowNode):
            return
        path = path_to(frame, offset)
        within = chain_at(frame, path)
        self.fields.select_path((self.fields.path[0], *path))
        self._select(within[-1], within[:-1], offset)


def _take(frame: BelowNode, made: BelowNode) -> None:
    """Give a frame of the tree what was read of it."""
    frame.children, frame.data, frame.end = made.children, made.data, made.end
    frame.text = f"{made.text}, {frame.text}" if frame.text else made.text
    frame.read = True
