"""How far two schedulers agree over time: counts by outcome in intervals of time.

There are at most so many intervals: as time goes on, they become longer, and the oldest are dropped. So a shadow may
run for months.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Annotated

import msgspec

from bayplan.answers.shadow.comparisons import Count, ShadowComparison, ShadowOutcome

MOST_INTERVALS = 240
"""How many intervals there are at most. With more of them, intervals get longer; of the longest, the oldest go."""
LENGTHS = {
    60: "a minute",
    300: "5 minutes",
    900: "15 minutes",
    3600: "an hour",
    21_600: "6 hours",
    86_400: "a day",
}
"""The seconds that an interval can have, in words."""
_WIDTH, _HEIGHT = 10, 100
"""The size of an interval in the chart."""


class ShadowInterval(msgspec.Struct, rename="camel"):
    """The comparisons of decisions that were made in an interval, by outcome."""

    begin: Annotated[datetime, msgspec.Meta(tz=True)]
    same: Count = 0
    best: Count = 0
    other: Count = 0
    not_placed: Count = 0

    @property
    def total(self) -> int:
        """How many comparisons there are."""
        return self.same + self.best + self.other + self.not_placed

    @property
    def share(self) -> float:
        """The share of them that is equal: the same node, or one among the best."""
        return (self.same + self.best) / self.total if self.total else 1.0

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """What Bayplan would have decided, and how often."""
        return tuple((outcome.value, getattr(self, name)) for outcome, name in _FIELDS.items())


_FIELDS = {
    ShadowOutcome.SAME: "same",
    ShadowOutcome.BEST: "best",
    ShadowOutcome.OTHER: "other",
    ShadowOutcome.NOT_PLACED: "not_placed",
}


class ShadowAgreement(msgspec.Struct, rename="camel"):
    """Comparisons over time. `seconds`: the length of an interval. Intervals without comparisons are left out."""

    seconds: Annotated[int, msgspec.Meta(ge=1)] = min(LENGTHS)
    intervals: list[ShadowInterval] = []

    @property
    def length(self) -> str:
        """The length of an interval, in words."""
        return LENGTHS.get(self.seconds, f"{self.seconds:,} seconds")

    def add(self, comparison: ShadowComparison) -> None:
        """Count a comparison."""
        found = self._interval(_floor(comparison.time, self.seconds))
        name = _FIELDS[comparison.outcome]
        setattr(found, name, getattr(found, name) + 1)
        while len(self.intervals) > MOST_INTERVALS:
            self._merge()

    def _interval(self, begin: datetime) -> ShadowInterval:
        position = bisect_left(self.intervals, begin, key=lambda each: each.begin)
        if position == len(self.intervals) or self.intervals[position].begin != begin:
            self.intervals.insert(position, ShadowInterval(begin))
        return self.intervals[position]

    def _merge(self) -> None:
        """Merge intervals into longer ones; of the longest, drop the oldest."""
        longer = next((length for length in LENGTHS if length > self.seconds), None)
        if longer is None:
            del self.intervals[0]
            return
        before, self.seconds, self.intervals = self.intervals, longer, []
        for each in before:
            into = self._interval(_floor(each.begin, longer))
            for name in _FIELDS.values():
                setattr(into, name, getattr(into, name) + getattr(each, name))

    def chart(self) -> str:
        """An SVG in which each interval is a bar of shares; "" without comparisons.

        The classes of its parts are `same`, `best`, `other` and `not_placed`, and it has the class `agreement`.
        """
        if not self.intervals:
            return ""
        first = self.intervals[0].begin
        places = round((self.intervals[-1].begin - first).total_seconds()) // self.seconds + 1
        bars = "".join(
            self._bar(each, round((each.begin - first).total_seconds()) // self.seconds) for each in self.intervals
        )
        return (
            f'<svg class="agreement" viewBox="0 0 {places * _WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="Agreement over time">{bars}</svg>'
        )

    def _bar(self, interval: ShadowInterval, place: int) -> str:
        top, parts = float(_HEIGHT), []
        for name in _FIELDS.values():
            height = _HEIGHT * getattr(interval, name) / max(interval.total, 1)
            top -= height
            if height:
                parts.append(
                    f'<rect class="{name}" x="{place * _WIDTH}" y="{top:.2f}" width="{_WIDTH}" height="{height:.2f}"/>'
                )
        told = ", ".join(f"{number:,} {name}" for name, number in interval.counts if number)
        return f"<g><title>{escape(f'{interval.begin:%Y-%m-%d %H:%M} UTC: {told}')}</title>{''.join(parts)}</g>"


def _floor(time: datetime, seconds: int) -> datetime:
    since = int(time.timestamp()) // seconds * seconds
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=since)
