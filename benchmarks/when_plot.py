"""The plot of `benchmarks/when_truth.py`: what was foretold of the start of each job, and when it started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.answers.backtest.report import check_libraries
from bayplan.foundations.lazy import library

_SIZE = 480
_INSIDE, _OUTSIDE = "#1f6feb", "#cf222e"


def starts_plot(found: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG. Needs the extra `plots`."""
    check_libraries()
    alt: Any = library("altair")
    convert: Any = library("vl_convert")
    latest = max(max(each["true"], each["p90"] or 0.0) for each in found)
    points = [
        {
            **each,
            "p90": latest if each["p90"] is None else each["p90"],
            "between": "between p10 and p90"
            if each["p10"] is not None
            and each["p10"] <= each["true"]
            and (each["p90"] is None or each["true"] <= each["p90"])
            else "outside",
        }
        for each in found
        if each["p50"] is not None
    ]
    x = alt.X("true:Q", title="true start, seconds from the snapshot")
    colors = alt.Scale(domain=["between p10 and p90", "outside"], range=[_INSIDE, _OUTSIDE])
    color = alt.Color("between:N", scale=colors, title=None)
    base = alt.Chart(alt.Data(values=points), width=_SIZE, height=_SIZE)
    bars = base.mark_rule(opacity=0.35).encode(
        x=x, y=alt.Y("p10:Q", title="foretold: p10 to p90, and p50"), y2="p90:Q", color=color
    )
    dots = base.mark_point(filled=True, size=18).encode(x=x, y="p50:Q", color=color)
    line = alt.Chart(alt.Data(values=[{"a": 0, "b": 0}, {"a": latest, "b": latest}])).mark_line(
        color="#57606a", strokeDash=[4, 4]
    )
    chart = bars + dots + line.encode(x="a:Q", y="b:Q")
    svg: str = convert.vegalite_to_svg(chart.to_dict())
    return svg
