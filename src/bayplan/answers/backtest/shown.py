"""Numbers of replays as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.answers.simulation.meter import Summary

_ROUND = 1e-9


def amount(value: float) -> str:
    """Return a number: `163`, `27,384`, `2.4`."""
    whole = round(value)
    return f"{whole:,}" if abs(value - whole) < _ROUND or abs(value) >= 100 else f"{value:,.1f}"


def seconds(value: float | None) -> str:
    """Return a duration: `0.4 s`, `41 s`, `12 min`, `3.5 h`; `-` for none."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f} s"
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 36000 else f"{value / 3600:.1f} h"


def hours(value: float) -> str:
    """Return a number of hours: `27,384`, `2.4`, `0.08`."""
    return amount(value) if value >= 1 or not value else f"{value:.2g}"


def duration(days: float) -> str:
    """Return how long a history is: `7.0 days`, `5.2 hours`, `3 minutes`, `40 seconds`."""
    for unit, length in (("days", 1.0), ("hours", 24.0)):
        if days * length >= 1:
            return f"{days * length:.1f} {unit}"
    minutes = days * 1440
    return f"{minutes:.0f} minutes" if minutes >= 2 else f"{minutes * 60:.0f} seconds"


def clock(days: float) -> tuple[str, float]:
    """Return the unit of the times in a history of some length, and its seconds: minutes for less than two hours."""
    return ("minute", 60.0) if days * 24 < 2 else ("hour", 3600.0)


def dollars(value: float, *, signed: bool = False) -> str:
    """Return an amount of money: `$6,838`, `-$1,580`, `$0.42`."""
    sign = "-" if value < 0 else "+" if signed and value > 0 else ""
    size = abs(value)
    return f"{sign}${size:,.0f}" if size >= 100 else f"{sign}${size:,.2f}"


def difference(now: float | None, then: float | None, *, share: bool = False, unit: str = "") -> str:
    """Return what changes, as a share of now or as a number with a unit; "" for nothing, or if a value is missing."""
    if now is None or then is None or abs(then - now) < 0.05:
        return ""
    if share and now:
        return f"{(then - now) / now:+.0%}"
    change = amount(abs(then - now))
    return f"{'+' if then > now else '-'}{change}{unit}"


def percent(share: float | None) -> str:
    """Return a share: `57%`; `-` for none."""
    return "-" if share is None else f"{share:.0%}"


def points(now: float | None, then: float | None) -> str:
    """Return by how many points a share changes; "" for less than half a point."""
    if now is None or then is None:
        return ""
    return difference(round(now * 100), round(then * 100), unit=" points")


def utilization_rows(summary: Summary) -> Iterator[tuple[str, float | None]]:
    """Yield what is requested of the nodes and what is stranded: name and share."""
    found = summary.utilization
    yield "cpu requested by workloads", found.cpu
    yield "memory requested by workloads", found.memory
    yield "cpu stranded", found.stranded_cpu
    yield "memory stranded", found.stranded_memory
