"""The due times of a CronJob's schedule, in the syntax of robfig/cron's ParseStandard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


class InvalidSchedule(ValueError):
    """An invalid schedule or time zone."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five fields, a descriptor such as @hourly, or @every with a duration. The fields are in the time zone `zone`."""

    expression: str
    zone: tzinfo = UTC
    every: timedelta | None = None

    def after(self, moment: datetime) -> datetime | None:
        """The first due time after `moment`, in UTC; None if there is none in the next decades."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        due = next(CronSim(self.expression, moment.astimezone(self.zone)), None)
        return due.astimezone(UTC) if due is not None else None

    def latest(self, since: datetime, until: datetime) -> datetime | None:
        """The last due time after `since` and up to `until`."""
        first = self.after(since)
        if first is None or first > until:
            return None
        second = self.after(first)
        if second is None or second > until:
            return first
        # Jump close to the end first, to avoid a long loop after a long pause.
        missed = (until - first) // (second - first)
        jump = first + max(missed - 2, 0) * (second - first)
        found, due = first, self.after(jump)
        while due is not None and due <= until:
            found, due = due, self.after(due)
        return found


@lru_cache(maxsize=1024)
def parse(text: str, zone: str | None = None) -> Schedule:
    """Parse a schedule. Raises InvalidSchedule."""
    try:
        location: tzinfo = ZoneInfo(zone) if zone else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidSchedule(f"unknown time zone {zone}") from error
    text = text.strip()
    if text.startswith("@every "):
        return Schedule(text, location, _duration(text.removeprefix("@every ").strip()))
    expression = _DESCRIPTORS.get(text, text).replace("?", "*")
    if len(expression.split()) != 5:
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(expression.split())}: {text!r}")
    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidSchedule(f"{text!r}: {error}") from error
    return Schedule(expression, location)


def _duration(text: str) -> timedelta:
    if not _DURATION.fullmatch(text):
        raise InvalidSchedule(f"failed to parse duration {text!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=max(int(seconds), 1))
