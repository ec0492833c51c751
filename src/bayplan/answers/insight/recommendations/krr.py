"""Recommendations of KRR (`krr simple -f json`): a scan for each container, in cores and bytes.

A value of `?` is one that KRR doesn't know; a limit without a value is one that should go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.answers.insight.recommendations.recommendation import (
    RESOURCES,
    Read,
    RecommendedWorkload,
    UnusableRecommendation,
    amount_of,
    recommended,
)

SCANS = "scans"
Document = Mapping[str, Any]


def read(document: Document, where: str) -> Read:
    """Yield the recommendations of a report."""
    scans = document[SCANS]
    if not isinstance(scans, list) or not scans:
        yield f"{where}: {SCANS} is empty"
        return
    for number, scan in enumerate(scans, start=1):
        place = f"{where}: {SCANS}[{number - 1}]"
        about = scan.get("object") if isinstance(scan, Mapping) else None
        values = scan.get("recommended") if isinstance(scan, Mapping) else None
        if not isinstance(about, Mapping) or not isinstance(values, Mapping):
            yield f"{place}: expected an object and what is recommended for it"
            continue
        target = RecommendedWorkload(place, about.get("namespace", ""), about.get("kind", ""), about.get("name", ""))
        try:
            limits = _limits(_values(values.get("limits")), f"{place}: container {about.get('container')}: limits")
        except UnusableRecommendation as error:
            yield str(error)
            continue
        yield recommended(target, about.get("container"), _values(values.get("requests")), limits)


def _values(amounts: object) -> Document:
    """The amounts without what KRR says of their severity."""
    known = amounts if isinstance(amounts, Mapping) else {}
    return {name: each.get("value") if isinstance(each, Mapping) else each for name, each in known.items()}


def _limits(values: Document, where: str) -> dict[str, int | None]:
    """The recommended limits; None for one that should go. Raises UnusableRecommendation."""
    return {
        resource: amount_of(resource, values[resource], where)
        for resource in RESOURCES
        if resource in values and values[resource] != "?"
    }
