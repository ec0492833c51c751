"""The plot of a sweep: two objectives of all choices, those that no other one beats, and today's."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from bayplan.backtest.errors import BacktestError
from bayplan.backtest.report import check_libraries
from bayplan.sweeps.sweep import Swept

_SIZE = 600
_COLORS = {"now": "#1f77b4", "best": "#e45756", "pareto": "#f58518", "other": "#9aa0a6"}


def plot(found: Swept) -> str:
    """Return a page in HTML that needs no network. Raises BacktestError for a single objective."""
    check_libraries()
    if len(found.objectives) < 2:
        raise BacktestError("--report plots two objectives against each other: name a second one")
    alt: Any = import_module("altair")
    x, y = found.objectives[:2]
    points = [
        {
            "choice": each.choice,
            x: each.objectives[0],
            y: each.objectives[1],
            "mark": "now" if each.now else "best" if each.best else "pareto" if each.pareto else "other",
        }
        for each in found.candidates
        if all(map(math.isfinite, each.objectives))
    ]
    axes = {"x": alt.X(f"{x}:Q", scale=alt.Scale(zero=False)), "y": alt.Y(f"{y}:Q", scale=alt.Scale(zero=False))}
    color = alt.Color("mark:N", scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values())))
    data = alt.Data(values=points)
    dots = alt.Chart(data, width=_SIZE, height=_SIZE, title=f"{len(points):,} choices").mark_point(filled=True, size=90)
    edge = [point for point, each in zip(points, found.candidates, strict=False) if each.pareto]
    line = alt.Chart(alt.Data(values=sorted(edge, key=lambda each: each[x]))).mark_line(
        color=_COLORS["pareto"], interpolate="step-after", strokeDash=[4, 4]
    )
    layers = line.encode(**axes) + dots.encode(**axes, color=color, tooltip=["choice:N", f"{x}:Q", f"{y}:Q"])
    page: str = layers.to_html(inline=True)
    return page
