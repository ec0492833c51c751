"""Reads times in a format as Go's package `time` defines it: an example, which shows 2006-01-02 15:04:05 -0700.

Mirrors time.Parse. Names of time zones are read as UTC, as Go does for those that it doesn't know.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta

_MONTHS = [name.lower() for name in calendar.month_name]
_SHORT_MONTHS = [name.lower() for name in calendar.month_abbr]
_DAYS = "|".join(calendar.day_name)
_SHORT_DAYS = "|".join(calendar.day_abbr)
_ONE_OR_TWO = r"(\d\d?+)"
_HOURS = r"[+-]0*+(?:2[0-3]|1?\d)?+(?!\d)"
_NAMED_ZONE = (
    rf"((?>UTC|ChST|MeST|GMT(?:{_HOURS})?|{_HOURS}|"
    r"[A-Z]{4}T(?![A-Z])|[A-Z]{3}T(?![A-Z])|WITA(?![A-Z])|[A-Z]{3}(?![A-Z])))"
)
_ELEMENTS = {
    "January": ("month name", f"((?i:{'|'.join(_MONTHS[1:])}))"),
    "Jan(?![a-z])": ("month name", f"((?i:{'|'.join(_SHORT_MONTHS[1:])}))"),
    "Monday": ("", f"((?i:{_DAYS}))"),
    "Mon(?![a-z])": ("", f"((?i:{_SHORT_DAYS}))"),
    "MST": ("zone name", _NAMED_ZONE),
    "Z07:00:00": ("zone", r"(Z|[+-]\d\d:\d\d:\d\d)"),
    "Z070000": ("zone", r"(Z|[+-]\d{6})"),
    "Z07:00": ("zone", r"(Z|[+-]\d\d:\d\d)"),
    "Z0700": ("zone", r"(Z|[+-]\d{4})"),
    "Z07": ("zone", r"(Z|[+-]\d\d)"),
    "-07:00:00": ("zone", r"([+-]\d\d:\d\d:\d\d)"),
    "-070000": ("zone", r"([+-]\d{6})"),
    "-07:00": ("zone", r"([+-]\d\d:\d\d)"),
    "-0700": ("zone", r"([+-]\d{4})"),
    "-07": ("zone", r"([+-]\d\d)"),
    "2006": ("year", r"(\d{4})"),
    "002": ("day of year", r"(\d{3})"),
    "01": ("month", r"(\d\d)"),
    "02": ("day", r"(\d\d)"),
    "03": ("hour of 12", r"(\d\d)"),
    "04": ("minute", r"(\d\d)"),
    "05": ("second", r"(\d\d)"),
    "06": ("short year", r"(\d\d)"),
    "15": ("hour", _ONE_OR_TWO),
    "__2": ("day of year", r" ? ?(\d{1,3}+)"),
    "_2(?!006)": ("day", f" ?{_ONE_OR_TWO}"),
    "PM": ("half", "(AM|PM)"),
    "pm": ("half", "(am|pm)"),
    "1": ("month", _ONE_OR_TWO),
    "2": ("day", _ONE_OR_TWO),
    "3": ("hour of 12", _ONE_OR_TWO),
    "4": ("minute", _ONE_OR_TWO),
    "5": ("second", _ONE_OR_TWO),
    r"[.,]0+(?!\d)": ("", ""),
    r"[.,]9+(?!\d)": ("", r"((?:[.,]\d++)?)"),
}
"""What elements look like in a format; what they mean, and what they look like in a time. Fractions are of no use."""
_ELEMENT = re.compile("|".join(f"({element})" for element in _ELEMENTS))
_MEANINGS = list(_ELEMENTS.values())
_FIELDS = {"hour of 12": "hour", "short year": "year", "month name": "month"}
_MOST = {"month": 12, "hour": 23, "hour of 12": 12, "minute": 59, "second": 59}
_FRACTION = r"(?:[.,]\d++)?"
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE = 400
"""Years after which the calendar repeats itself."""
_DAYS_OF_CYCLE = date(_CYCLE + 1, 1, 1).toordinal() - 1


def time_reader(layout: str) -> Callable[[str], int | None]:
    """Return what reads a time: whole seconds since the epoch, rounded down; None for a text of another form."""
    pattern, meanings, end = "", [""], 0
    for match in _ELEMENT.finditer(layout):
        assert match.lastindex is not None
        meaning, element = _MEANINGS[match.lastindex - 1]
        example = match.group()
        if meanings[-1] == "second" and example[0] not in ".,":
            pattern += _FRACTION  # seconds may have one that the layout doesn't have
        pattern += _literal(layout[end : match.start()]) + (element or rf"([.,]\d{{{len(example) - 1}}})")
        meanings.append(meaning)
        end = match.end()
    if meanings[-1] == "second":
        pattern += _FRACTION
    compiled = re.compile(pattern + _literal(layout[end:]), re.ASCII)

    def read(text: str) -> int | None:
        match = compiled.fullmatch(text)
        try:
            return None if match is None else _seconds(zip(meanings[1:], match.groups(), strict=True))
        except (ValueError, OverflowError):  # a 31st of June
            return None

    return read


def _literal(text: str) -> str:
    """What a part of a layout without elements looks like in a time. Spaces may be more or fewer there."""
    return re.sub(r"(?:\\ )+", "(?: ++|$)", re.escape(text))


def _seconds(found: Iterable[tuple[str, str]]) -> int:
    """The time that elements mean; of those that mean the same, the last one counts. Raises ValueError."""
    numbers: dict[str, int] = {}
    halves, zones, offset = set(), set(), 0
    for meaning, text in found:
        if meaning == "half":
            halves.add(text.upper())
        elif meaning in {"zone", "zone name"}:
            zones.add(text)
            offset = _offset(text) if meaning == "zone" else offset
        elif meaning:
            numbers[_FIELDS.get(meaning, meaning)] = _number(meaning, text)
    hour = numbers.get("hour", 0)
    if "PM" in halves and hour < 12:
        hour += 12
    elif "AM" in halves and hour == 12:
        hour = 0
    if {"Z", "UTC"} & zones:
        offset = 0
    minutes = hour * 60 + numbers.get("minute", 0)
    return _days(numbers) * 86400 + minutes * 60 + numbers.get("second", 0) - offset


def _number(meaning: str, text: str) -> int:
    if meaning == "month name":
        return _SHORT_MONTHS.index(text[:3].lower())
    number = int(text)
    if number > _MOST.get(meaning, number) or (meaning == "month" and not number):
        raise ValueError(text)
    if meaning == "short year":
        number += 1900 if number >= 69 else 2000
    return number


def _days(numbers: Mapping[str, int]) -> int:
    """The days since the epoch. Without a year, they are those of the year 0."""
    year, cycles = numbers.get("year", 0), 0
    if not year:
        year, cycles = _CYCLE, 1
    of_year = numbers.get("day of year")
    if of_year is None:
        day = date(year, numbers.get("month", 1), numbers.get("day", 1))
    else:
        day = date(year, 1, 1) + timedelta(days=of_year - 1)
        same = (year, numbers.get("month", day.month), numbers.get("day", day.day))
        if same != (day.year, day.month, day.day):
            raise ValueError(of_year)
    return day.toordinal() - _EPOCH - cycles * _DAYS_OF_CYCLE


def _offset(text: str) -> int:
    """The seconds that a zone is ahead of UTC. Raises ValueError."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 24 or minutes > 60 or seconds > 60:
        raise ValueError(text)
    offset = (hours * 60 + minutes) * 60 + seconds
    return -offset if text[0] == "-" else offset
