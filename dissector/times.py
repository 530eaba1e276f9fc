"""Frame times as text. A time is an integer of nanoseconds since 1970-01-01 00:00:00 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000_000

POSTGRES_EPOCH = 946_684_800 * SECOND
"""2000-01-01 UTC, from which PostgreSQL counts."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(time: int, digits: int) -> str:
    """ISO 8601 in UTC with `digits` decimals, ending in Z: the capture's own resolution.

    digits: 0 to 9. A time past the calendar's ends (a damaged record) is shown as its seconds.
    """
    seconds, rest = divmod(time, SECOND)
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds}{fraction}s"
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
