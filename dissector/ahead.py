"""A look at bytes before anybody knows what they are: where CopyData messages may begin in them, and which
of these hold a row change whose tuples are sound.

Nothing here decides anything: who follows the session takes what fits what it knows, and looks for itself
where nothing fits. So this may be done in another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import catalogue
from .capture.marks import marks_of
from .recognise import HEADER
from .shapes import ROOM, Run, Shape, among, shape_of
from .spec import Dialect
from .tuples import Tuples, sound

Array = NDArray[Any]

NOTHING, WHOLE, STREAMED = range(3)
"""form: nothing is known; a sound row change outside a stream segment, or inside one."""

NEWEST = max(catalogue.RELEASES)

MARKED = ord(catalogue.by_name("CopyData").tag)
"""The type byte of the messages that are looked for."""


MOST = 2
"""Messages do not overlap. What looks like messages of more than so many times the bytes that there are was
made to look so, and walking all of it would take for ever."""


@dataclass(slots=True)
class Ahead:
    """One entry for each place where a message may begin.

    marks int32: offsets of the places, ascending. form uint8: see above. old, new int16: columns of its
    tuples, -1 for none.
    """

    marks: Array
    form: Array
    old: Array
    new: Array

    def after(self, marks: Array, by: int) -> Ahead:
        """The same `by` bytes further on, behind places of which nothing else is known."""
        before = len(marks)
        return Ahead(
            np.concatenate((marks, self.marks + np.int32(by))),
            np.concatenate((np.zeros(before, np.uint8), self.form)),
            np.concatenate((np.zeros(before, np.int16), self.old)),
            np.concatenate((np.zeros(before, np.int16), self.new)),
        )

    def of(self, starts: Array) -> Ahead:
        """The entries of messages that begin at `starts`, ascending; most are among the marks."""
        first = int(self.marks.searchsorted(starts[:1])[0])
        part = slice(first, first + len(starts))
        if np.array_equal(self.marks[part], starts):
            return Ahead(self.marks[part], self.form[part], self.old[part], self.new[part])
        if not len(self.marks):
            return self.after(np.zeros(len(starts), np.int32), 0)
        which = np.minimum(self.marks.searchsorted(starts), len(self.marks) - 1)
        form = np.where(self.marks[which] == starts, self.form[which], np.uint8(NOTHING))
        return Ahead(self.marks[which], form, self.old[which], self.new[which])


@cache
def _row_shapes(streamed: bool) -> dict[int, Shape]:
    """The shapes of row changes by type byte, in the newest release."""
    dialect = Dialect(
        NEWEST, proto_version=4 if streamed else 1, in_stream=streamed, copy="pgoutput"
    )
    shapes = {
        ord(message.tag): shape_of(message, dialect)
        for message in catalogue.in_layer("pgoutput")
        if message.tag
    }
    return {tag: shape for tag, shape in shapes.items() if shape.plain and shape.tuples}


@cache
def _is_row() -> Array:
    """By type byte: whether it is that of a row change."""
    table = np.zeros(256, bool)
    table[list(_row_shapes(False))] = True
    return table


def form_of(tag: int, shape: Shape) -> int:
    """Which form a message with this type byte and shape is of; NOTHING for none."""
    for form, streamed in ((WHOLE, False), (STREAMED, True)):
        if _row_shapes(streamed).get(tag) == shape:
            return form
    return NOTHING


def look_ahead(data: Any) -> Ahead:
    """Look through `data`, bytes or a memoryview."""
    raw = np.frombuffer(data, np.uint8)
    marks = marks_of(raw, MARKED)
    count = len(marks)
    found = Ahead(
        marks, np.zeros(count, np.uint8), np.full(count, -1, np.int16), np.full(count, -1, np.int16)
    )
    wal = catalogue.by_name("XLogData")
    inside = HEADER + shape_of(wal, Dialect(NEWEST, copy="pgoutput")).size
    tags = raw[marks[: marks.searchsorted(len(raw) - inside - ROOM)] + np.int32(inside)]
    rows = np.flatnonzero(_is_row()[tags])
    if not len(rows):
        return found
    tags, starts = tags[rows], marks[rows].astype(np.int64)
    lengths: Array = np.ndarray((max(len(raw) - 4, 0),), ">u4", data, strides=(1,), offset=1)
    ends = starts + lengths[starts] + 1
    fit = (raw[starts + HEADER] == ord(wal.tag)) & (ends <= len(raw) - ROOM)
    if int((ends - starts)[fit].sum()) > MOST * len(raw):
        return found
    run = Run(data, starts, ends)
    parts: list[Tuples] = []
    forms: list[tuple[Array, int]] = []
    for tag, shape in _row_shapes(False).items():
        mine = np.flatnonzero(fit & (tags == tag))
        later = _row_shapes(True)[tag]
        letters = (*shape.old, shape.new) if shape.new >= 0 else shape.old
        at = starts[mine] + (inside + shape.size)
        here = among(raw[np.minimum(at, ends[mine])], letters)
        for form, one, chosen in ((WHOLE, shape, mine[here]), (STREAMED, later, mine[~here])):
            places = starts[chosen] + (inside + one.size)
            room = places < ends[chosen]
            parts.append((chosen[room], places[room], one))
            forms.append((chosen[room], form))
    columns = np.full((2, len(starts)), -1, np.int32)
    good = sound(run, parts, columns, NEWEST)
    for chosen, form in forms:
        found.form[rows[chosen[good[chosen]]]] = form
    found.old[rows], found.new[rows] = columns
    return found
