"""The plot of a sweep: two objectives of all choices, those that no other one beats, and today's."""

from __future__ import annotations

import math
from typing import Any

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.report import ReportTexts, check_libraries, page
from bayplan.answers.sweeps.sweep import Swept
from bayplan.foundations.lazy import library

_SIZE = 600
_ROWS = 20
"""The most rows of the table."""
_COLORS = {"now": "#1f77b4", "best": "#e45756", "pareto": "#f58518", "other": "#9aa0a6"}


def plot(found: Swept) -> str:
    """Return a page in HTML that needs no network. Raises BacktestError for a single objective."""
    check_libraries()
    if len(found.objectives) < 2:
        raise BacktestError("--report plots two objectives against each other: name a second one")
    alt: Any = library("altair")
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
    texts = ReportTexts(
        title=f"{len(found.candidates):,} choices of a scheduler, by {x} and {y}",
        verdict=_verdict(found),
        lead="Each point is a choice: means over histories and seeds. No choice is better in both than one of pareto.",
    )
    return page(texts, layers, f"{x} and {y}", found.rows()[:_ROWS])


def _verdict(found: Swept) -> str:
    """The best choice beside today's, in one sentence."""
    best = next((each for each in found.candidates if each.best), None)
    now = next((each for each in found.candidates if each.now), None)
    if best is None:
        return "No choice could be simulated."
    if best.now:
        return f"Nothing that was tried has a lower {found.objectives[0]} than today's choice."
    figures = [
        f"{name} {value:,.4g}{'' if now is None else f' instead of {now.objectives[place]:,.4g}'}"
        for place, (name, value) in enumerate(zip(found.objectives, best.objectives, strict=True))
    ]
    return f"{best.choice} is the best choice: {', '.join(figures)}."
