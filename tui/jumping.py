"""Where a jump goes: a message number, a frame, a time, an LSN or a transaction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dissector.rows import NO_LSN
from dissector.text import visible
from tui.model import Source
from tui.present import NANO

HELP = """\
  1234  50%    message 1234, half way    frame 12   ends in frame 12
  +50  -50     50 messages on or back    stream 3   of connection 3
  0/1A2B3C4    the LSN, or the next after it
  xid 771      the transaction's next message
  12:00:03.5   time of day (UTC), or 2026-11-29 12:00:03
  +1.5s        seconds after the first message"""


class NowhereError(Exception):
    """There is no such place; the text says why and what to write."""


@dataclass(frozen=True)
class _Columns:
    source: Source

    def column(self, name: str) -> Any:
        """A column of the index; made from rows where there is none and they are few."""
        capture: Any = getattr(self.source, "capture", None)
        if capture is not None:
            return capture.index.rows.column(name)
        if self.source.count > 100_000:
            raise NowhereError("there is no index to look this up in; give a message number")
        rows = [self.source.row(n) for n in range(1, self.source.count + 1)]
        if name == "lsn":
            return np.array([NO_LSN if r.lsn is None else r.lsn for r in rows], np.uint64)
        if name == "xid":
            return np.array([r.xid or 0 for r in rows], np.uint32)
        return np.array([getattr(r, name) for r in rows], np.int64)


def target(text: str, source: Source, now: int) -> int:
    """The number of the message that `text` means; `now` is where one stands. Raises NowhereError."""
    wanted = " ".join(text.lower().replace(",", "").split())
    count = source.count
    if not count:
        raise NowhereError("there are no messages yet")
    columns = _Columns(source)
    if match := re.fullmatch(r"(?:message|no|number|#)? ?([+-]?)(\d{1,18})", wanted):
        number = int(match[2])
        if match[1]:
            return max(1, min(now + (number if match[1] == "+" else -number), count))
        if not 1 <= number <= count:
            raise NowhereError(f"there is no message {number:,}: they go from 1 to {count:,}")
        return number
    if match := re.fullmatch(r"(\d{1,3})(?:\.\d*)? ?%", wanted):
        return max(1, min(count, count * int(match[1]) // 100))
    if match := re.fullmatch(r"f(?:rame)? ?(\d{1,10})", wanted):
        return _first(columns.column("frame") >= int(match[1]), f"frame {match[1]}", "up to there")
    if match := re.fullmatch(r"(?:lsn )?([0-9a-f]{1,8})/([0-9a-f]{1,8})", wanted):
        return _lsn(columns, int(match[1], 16) << 32 | int(match[2], 16))
    if match := re.fullmatch(r"(?:xid|x|transaction|t) ?(\d{1,10})", wanted):
        return _next(columns.column("xid") == int(match[1]), now, f"transaction {match[1]}")
    if match := re.fullmatch(r"(?:stream|s|connection) ?(\d{1,10})", wanted):
        return _next(columns.column("stream") == int(match[1]), now, f"connection {match[1]}")
    return _first(
        columns.column("time") >= _time(wanted, source, now), visible(text, 60), "at or after it"
    )


def _first(mask: Any, what: str, how: str) -> int:
    place = int(np.argmax(mask))
    if not mask[place]:
        raise NowhereError(f"{what}: no message {how}")
    return place + 1


def _next(mask: Any, now: int, what: str) -> int:
    places = np.flatnonzero(mask) + 1
    if not len(places):
        raise NowhereError(f"{what} is in no message")
    later = places[places > now]
    return int(later[0] if len(later) else places[0])


def _lsn(columns: _Columns, lsn: int) -> int:
    values = columns.column("lsn")
    usable = values != NO_LSN
    exact = np.flatnonzero(values == np.uint64(lsn))
    if len(exact):
        return int(exact[0]) + 1
    after = usable & (values >= np.uint64(lsn))
    text = f"LSN {lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
    if not usable.any():
        raise NowhereError(f"{text}: no message has an LSN")
    if not after.any():
        raise NowhereError(f"{text}: all LSNs are lower")
    nearest = np.where(after, values, np.uint64(NO_LSN))
    return int(np.argmin(nearest)) + 1


_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"


def _time(wanted: str, source: Source, now: int) -> int:
    """Nanoseconds since the Unix epoch, by integers only."""
    first = source.row(1).time
    if match := re.fullmatch(r"\+?(\d{1,9})(?:\.(\d{1,9}))? ?s(?:ec|econds)?", wanted):
        return first + int(match[1]) * NANO + int((match[2] or "0").ljust(9, "0"))
    match = re.fullmatch(rf"(?:(\d{{4}}-\d{{2}}-\d{{2}})[ t])?{_CLOCK} ?(?:utc|z)?", wanted)
    if match is None:
        raise NowhereError("this is no number, frame, time, LSN or transaction")
    date, hour, minute, second, part = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 60:
        raise NowhereError("there is no such time of day")
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    if date:
        try:
            day = datetime.fromisoformat(date).replace(tzinfo=UTC)
        except ValueError:
            raise NowhereError("there is no such date") from None
        begin = int(day.timestamp()) * NANO
    else:
        here = source.row(max(1, now)).time
        begin = here - here % (86_400 * NANO)
    return begin + seconds * NANO + int((part or "0").ljust(9, "0"))
