"""Times in Go's layouts, such as `2006-01-02 15:04:05`, which show how the time of an example would be written.

Mirrors Parse of Go's package time, for the parts of a layout that identify a moment. Names of zones are read as UTC, as
Go does for those that it doesn't know.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

RFC3339 = "2006-01-02T15:04:05Z07:00"

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PARTS = {
    "January": r"(?P<name>[A-Z][a-z]+)",
    "Monday": r"[A-Z][a-z]+",
    "2006": r"(?P<year>[0-9]{4})",
    "Z07:00": r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})",
    "-07:00": r"(?P<zone>[+-][0-9]{2}:[0-9]{2})",
    "Z0700": r"(?P<zone>Z|[+-][0-9]{4})",
    "-0700": r"(?P<zone>[+-][0-9]{4})",
    "Jan": r"(?P<name>[A-Z][a-z]{2})",
    "Mon": r"[A-Z][a-z]{2}",
    "MST": r"[A-Z]{3,4}",
    "-07": r"(?P<zone>[+-][0-9]{2})",
    "01": r"(?P<month>[0-9]{2})",
    "02": r"(?P<day>[0-9]{2})",
    "_2": r"(?P<day>[ 0-9][0-9])",
    "03": r"(?P<twelfth>[0-9]{2})",
    "04": r"(?P<minute>[0-9]{2})",
    "05": r"(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?",
    "06": r"(?P<short>[0-9]{2})",
    "15": r"(?P<hour>[0-9]{2})",
    "PM": r"(?P<half>AM|PM)",
    "pm": r"(?P<half>am|pm)",
    "1": r"(?P<month>[0-9]{1,2})",
    "2": r"(?P<day>[0-9]{1,2})",
    "3": r"(?P<twelfth>[0-9]{1,2})",
    "4": r"(?P<minute>[0-9]{1,2})",
    "5": r"(?P<second>[0-9]{1,2})(?:[.,](?P<fraction>[0-9]+))?",
}
_TOKEN = re.compile("|".join(map(re.escape, sorted(_PARTS, key=len, reverse=True))) + r"|[.,](?:0+|9+)(?![0-9])")


class InvalidTime(ValueError):
    """A text that isn't a time in a layout."""


def parse(layout: str, text: str) -> datetime:
    """Return the moment that a text in a layout means. Raises InvalidTime."""
    match = _expression(layout).fullmatch(text)
    if match is None:
        raise InvalidTime(f"{text!r} is not a time as in {layout!r}")
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        moment = datetime(
            _year(found), _month(found), int(found.get("day", 1)), _hour(found), *_minute(found), tzinfo=_zone(found)
        )
    except ValueError as error:
        raise InvalidTime(f"{text!r} is not a time: {error}") from None
    fraction = found.get("fraction", "0")[:6].ljust(6, "0")
    return moment + timedelta(microseconds=int(fraction))


@lru_cache(maxsize=16)
def _expression(layout: str) -> re.Pattern[str]:
    """A regular expression of a layout. Of a part that comes twice, the first one counts."""
    pattern, end, named = "", 0, set[str]()
    for token in _TOKEN.finditer(layout):
        part = _PARTS.get(token[0], "")  # a fraction is read with its seconds
        for name in re.findall(r"\?P<(\w+)>", part):
            if name in named:
                part = part.replace(f"?P<{name}>", "?:")
            named.add(name)
        pattern += re.escape(layout[end : token.start()]) + part
        end = token.end()
    return re.compile(pattern + re.escape(layout[end:]), re.ASCII)


def _year(found: dict[str, str]) -> int:
    if "short" in found:
        short = int(found["short"])
        return short + (1900 if short >= 69 else 2000)
    return int(found.get("year", 1))


def _month(found: dict[str, str]) -> int:
    name = found.get("name", "")[:3]
    return _MONTHS.index(name) + 1 if name else int(found.get("month", 1))


def _hour(found: dict[str, str]) -> int:
    if "twelfth" in found:
        return int(found["twelfth"]) % 12 + 12 * (found.get("half", "AM").upper() == "PM")
    return int(found.get("hour", 0))


def _minute(found: dict[str, str]) -> tuple[int, int]:
    return int(found.get("minute", 0)), int(found.get("second", 0))


def _zone(found: dict[str, str]) -> timezone:
    text = found.get("zone", "Z").replace(":", "")
    if text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[3:5] or 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
