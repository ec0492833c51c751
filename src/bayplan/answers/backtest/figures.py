"""Figures: the numbers by which two simulations are compared, over several seeds.

A figure is shown as its median. A difference whose sign is not the same with all seeds is marked as chance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

from bayplan.answers.backtest.shown import amount, difference, dollars, hours, percent, points, seconds
from bayplan.answers.simulation.meter import Summary

Value = float | None


@dataclass(frozen=True, slots=True)
class FigureSpread:
    """A figure whose value depends on the seed: the lowest and the highest value now and of the candidate.

    `by_chance`: whether the difference has not the same sign with all seeds.
    """

    what: str
    now: tuple[float, float] | None
    candidate: tuple[float, float] | None
    by_chance: bool

    @property
    def depends(self) -> bool:
        """Whether the figure depends on the seed."""
        return any(ends is not None and ends[0] != ends[1] for ends in (self.now, self.candidate))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a summary: how it is found, shown, and how two of it are compared."""

    what: str
    of: Callable[[Summary], Value]
    show: Callable[[Value], str]
    compare: Callable[[Value, Value], str]

    def spread(self, now: Sequence[Summary], then: Sequence[Summary]) -> FigureSpread:
        """Return how it differs between seeds. Both have the same seeds."""
        one, other = list(map(self.of, now)), list(map(self.of, then))
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
        signs = {(b > a) - (b < a) for a, b in pairs}
        return FigureSpread(self.what, _range(one), _range(other), len(signs) > 1)

    def row(self, now: Summary, then: Summary, spread: FigureSpread) -> tuple[str, str, str, str]:
        """Return its row of the table."""
        one, other = self.of(now), self.of(then)
        change = self.compare(one, other)
        if change and spread.by_chance:
            change = f"{change}, chance"
        return self.what, self._with_range(one, spread.now), self._with_range(other, spread.candidate), change

    def _with_range(self, value: Value, ends: tuple[float, float] | None) -> str:
        shown = self.show(value)
        low, high = (shown, shown) if ends is None else map(self.show, ends)
        return shown if low == high else f"{shown} ({low} to {high})"


def _range(values: Iterable[Value]) -> tuple[float, float] | None:
    known = [each for each in values if each is not None]
    return (min(known), max(known)) if known else None


def figures_of(summaries: Sequence[Summary], days: float) -> Iterator[Figure]:
    """Yield the figures of some summaries, in the order of the table."""
    yield _count("nodes, average", lambda found: found.nodes, share=True)
    yield _count("nodes, most", lambda found: found.most_nodes)
    yield _count("nodes without workloads, average", lambda found: found.empty_nodes)
    yield Figure("node-hours", lambda found: found.node_hours, _or_none(hours), difference)
    yield _share("cpu requested by workloads", lambda found: found.utilization.cpu)
    yield _share("memory requested by workloads", lambda found: found.utilization.memory)
    yield _share("cpu stranded", lambda found: found.utilization.stranded_cpu)
    yield _share("memory stranded", lambda found: found.utilization.stranded_memory)
    if any(each.cost is not None for each in summaries):
        unpriced = any(each.unpriced_node_hours for each in summaries)
        yield Figure("cost", lambda found: found.cost, lambda value: _cost(value, unpriced), _saving(days))
    yield _wait("wait p50", lambda found: found.waits.p50)
    yield _wait("wait p95", lambda found: found.waits.p95)
    yield _wait("wait p99", lambda found: found.waits.p99)
    yield _count("evictions", lambda found: found.evicted)
    for reason in sorted({reason for each in summaries for reason in each.evictions}):
        yield _count(f"  {reason}", partial(_evictions, reason))
    yield _count("never placed", lambda found: found.never_placed)
    if all(each.widest is not None for each in summaries):
        yield _share("median share of a service in one zone", lambda found: found.median_share)
        yield _share("largest share of a service in one zone", _largest_share)


def middle(summaries: Sequence[Summary]) -> Summary:
    """Return the median of every number. What is not a number is that of the first summary."""
    first = summaries[0]
    if len(summaries) == 1:
        return first
    reasons = sorted({reason for each in summaries for reason in each.evictions})
    evictions = {
        reason: statistics.median_low(each.evictions.get(reason, 0) for each in summaries) for reason in reasons
    }
    widest = sorted((each.widest for each in summaries if each.widest is not None), key=lambda each: each.share)
    numbers = {
        field.name: _middle([getattr(each, field.name) for each in summaries])
        for field in fields(Summary)
        if field.name not in {"evictions", "widest", "curve", "unplaced"}
    }
    return replace(first, **numbers, evictions=evictions, widest=widest[(len(widest) - 1) // 2] if widest else None)


def _middle(values: Sequence[Any]) -> Any:
    """The median of numbers, or a dataclass of medians. None where there is no number."""
    first = values[0]
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: _middle([getattr(each, name) for each in values]) for name in names})
    known = [each for each in values if each is not None]
    return statistics.median_low(known) if known else None


def _evictions(reason: str, found: Summary) -> Value:
    return found.evictions.get(reason, 0)


def _largest_share(found: Summary) -> Value:
    return None if found.widest is None else found.widest.share


def _or_none(show: Callable[[float], str]) -> Callable[[Value], str]:
    return lambda value: "-" if value is None else show(value)


def _count(what: str, of: Callable[[Summary], Value], *, share: bool = False) -> Figure:
    return Figure(what, of, _or_none(amount), lambda now, then: difference(now, then, share=share))


def _share(what: str, of: Callable[[Summary], Value]) -> Figure:
    return Figure(what, of, percent, points)


def _wait(what: str, of: Callable[[Summary], Value]) -> Figure:
    return Figure(what, of, seconds, lambda now, then: difference(now, then, unit=" s"))


def _cost(value: Value, unpriced: bool) -> str:
    return "unknown" if value is None else f"{'at least ' if unpriced else ''}{dollars(value)}"


def _saving(days: float) -> Callable[[Value, Value], str]:
    def saving(now: Value, then: Value) -> str:
        if now is None or then is None or not days or abs(then - now) < 0.005:
            return ""
        change = then - now
        week = f"{dollars(change * 7 / days, signed=True)} a week"
        return week if abs(days - 7) < 0.1 else f"{dollars(change, signed=True)}, {week}"

    return saving
