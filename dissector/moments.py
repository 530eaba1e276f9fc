"""Dates and times of the wire as text, in integer arithmetic: floats never hold time.

PostgreSQL counts from 2000-01-01: dates in days, times in microseconds. Its calendar is the proleptic
Gregorian one without a year 0: 1 BC comes before 1 AD. Source: the manual's "Date/Time Types" and
appendix "History of Units".
"""

from __future__ import annotations

DAY = 86_400_000_000
"""Microseconds of a day."""

INFINITY64, MINUS_INFINITY64 = 2**63 - 1, -(2**63)
INFINITY32, MINUS_INFINITY32 = 2**31 - 1, -(2**31)
_DAYS_FROM_MARCH_0000 = 730_425
"""From 0000-03-01 to 2000-01-01: counting from March puts the leap day at the year's end."""


def civil(days: int) -> tuple[int, int, int]:
    """(year, month, day) of the day `days` after 2000-01-01; year 0 is 1 BC, -1 is 2 BC."""
    era, day_of_era = divmod(days + _DAYS_FROM_MARCH_0000, 146_097)
    leap = day_of_era // 1460 - day_of_era // 36_524 + day_of_era // 146_096
    year_of_era = (day_of_era - leap) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year_of_era + (month <= 2), month, day


def _date(days: int) -> tuple[str, str]:
    year, month, day = civil(days)
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}", ""
    return f"{1 - year:04}-{month:02}-{day:02}", " BC"


def date_text(days: int) -> str:
    """A date as the server writes it (ISO): ``2026-11-29``, ``0044-03-15 BC``, ``infinity``."""
    if days == INFINITY32:
        return "infinity"
    if days == MINUS_INFINITY32:
        return "-infinity"
    return "".join(_date(days))


def clock_text(micros: int, trim: bool = True) -> str:
    """A time of day: ``18:53:12.831399``; no fraction when it is 0, no zeros at its end if `trim`."""
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    if not fraction:
        return text
    digits = f"{fraction:06}"
    return f"{text}.{digits.rstrip('0') if trim else digits}"


def timestamp_text(micros: int, zone: str = "", trim: bool = True) -> str:
    """Microseconds since 2000-01-01 as text: date, time, `zone`, and BC where it applies."""
    if micros == INFINITY64:
        return "infinity"
    if micros == MINUS_INFINITY64:
        return "-infinity"
    days, rest = divmod(micros, DAY)
    date, era = _date(days)
    return f"{date} {clock_text(rest, trim)}{zone}{era}"


def zone_text(seconds_west: int) -> str:
    """A UTC offset as the server writes it: ``+02``, ``-03:30``."""
    sign = "-" if seconds_west > 0 else "+"
    minutes, second = divmod(abs(seconds_west), 60)
    hour, minute = divmod(minutes, 60)
    text = f"{sign}{hour:02}"
    if minute or second:
        text += f":{minute:02}"
    return f"{text}:{second:02}" if second else text


def _toward_zero(value: int, by: int) -> tuple[int, int]:
    quotient = abs(value) // by
    if value < 0:
        quotient = -quotient
    return quotient, value - quotient * by


def interval_text(months: int, days: int, micros: int) -> str:
    """An interval in the server's style ``postgres``: ``1 year 2 mons -3 days +04:05:06.7``."""
    if (months, days, micros) == (INFINITY32, INFINITY32, INFINITY64):
        return "infinity"
    if (months, days, micros) == (MINUS_INFINITY32, MINUS_INFINITY32, MINUS_INFINITY64):
        return "-infinity"
    years, months = _toward_zero(months, 12)
    parts: list[str] = []
    before = False
    for value, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if value:
            sign = "+" if before and value > 0 else ""
            parts.append(f"{sign}{value} {unit}{'' if value == 1 else 's'}")
            before = value < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if before else ""
        parts.append(sign + clock_text(abs(micros)))
    return " ".join(parts)
