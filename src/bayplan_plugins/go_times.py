"""Reads times in a format as Go's package `time` defines it: an example, which shows 2006-01-02 15:04:05 -0700.

Mirrors time.Parse, without days of the year. Names of time zones are read as UTC, as Go does for those that it doesn't
know.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = list(calendar.month_name)
_SHORT_MONTHS = list(calendar.month_abbr)
_DAYS = "|".join(calendar.day_name)
_SHORT_DAYS = "|".join(calendar.day_abbr)
_ELEMENTS = {
    "January": f"(?P<month_name>{'|'.join(_MONTHS[1:])})",
    "Jan": f"(?P<month_abbr>{'|'.join(_SHORT_MONTHS[1:])})",
    "Monday": f"(?:{_DAYS})",
    "Mon": f"(?:{_SHORT_DAYS})",
    "MST": "(?:[A-Z]{3,5}|[+-]\\d\\d)",
    "Z07:00": "(?P<zone>Z|[+-]\\d\\d:\\d\\d)",
    "Z0700": "(?P<zone>Z|[+-]\\d{4})",
    "Z07": "(?P<zone>Z|[+-]\\d\\d)",
    "-07:00": "(?P<zone>[+-]\\d\\d:\\d\\d)",
    "-0700": "(?P<zone>[+-]\\d{4})",
    "-07": "(?P<zone>[+-]\\d\\d)",
    "2006": "(?P<year>\\d{4})",
    "01": "(?P<month>\\d\\d)",
    "02": "(?P<day>\\d\\d)",
    "03": "(?P<hour12>\\d\\d)",
    "04": "(?P<minute>\\d\\d)",
    "05": "(?P<second>\\d\\d)(?:[.,]\\d+)?",
    "06": "(?P<short_year>\\d\\d)",
    "15": "(?P<hour>\\d\\d?)",
    "_2": " ?(?P<day>\\d\\d?)",
    "PM": "(?P<half>AM|PM)",
    "pm": "(?P<half>am|pm)",
    "1": "(?P<month>\\d\\d?)",
    "2": "(?P<day>\\d\\d?)",
    "3": "(?P<hour12>\\d\\d?)",
    "4": "(?P<minute>\\d\\d?)",
    "5": "(?P<second>\\d\\d?)(?:[.,]\\d+)?",
}
_ELEMENT = re.compile(f"{'|'.join(map(re.escape, _ELEMENTS))}|[.,](?:0+|9+)(?!\\d)")


def time_reader(layout: str) -> Callable[[str], int | None]:
    """Return what reads a time: whole seconds since the epoch, rounded down; None for a text of another form."""
    pattern, end, before = "", 0, ""
    for match in _ELEMENT.finditer(layout):
        pattern += re.escape(layout[end : match.start()])
        element = match.group()
        if element[0] in ".,":  # a fraction, which the seconds before it read
            pattern += "" if before in {"05", "5"} and end == match.start() else re.escape(element)
        else:
            pattern += _ELEMENTS[element]
        end, before = match.end(), element
    try:
        compiled = re.compile(pattern + re.escape(layout[end:]), re.ASCII)
    except re.error:  # an element occurs twice
        return lambda _: None

    def read(text: str) -> int | None:
        match = compiled.fullmatch(text)
        try:
            return None if match is None else _seconds(match.groupdict())
        except (ValueError, OverflowError):  # a 31st of June
            return None

    return read


def _seconds(found: dict[str, str | None]) -> int:
    month = int(found.get("month") or 1)
    if name := found.get("month_name"):
        month = _MONTHS.index(name)
    elif name := found.get("month_abbr"):
        month = _SHORT_MONTHS.index(name)
    year = int(found.get("year") or 1)
    if short := found.get("short_year"):
        year = int(short) + (1900 if int(short) >= 69 else 2000)
    hour = int(found.get("hour") or 0)
    if half_day := found.get("hour12"):
        if int(half_day) > 12:
            raise ValueError(half_day)
        hour = int(half_day) % 12 if found.get("half") else int(half_day)
    if (found.get("half") or "").upper() == "PM" and hour < 12:
        hour += 12
    minute, second = int(found.get("minute") or 0), int(found.get("second") or 0)
    moment = datetime(year, month, int(found.get("day") or 1), hour, minute, second, tzinfo=_zone(found.get("zone")))
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
