"""Report: an answer about a history as one HTML file, with plots. To look at it, you need no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from operator import and_
from typing import Any

from bayplan.backtest.errors import BacktestError
from bayplan.backtest.shown import clock
from bayplan.insight.answers import Answer
from bayplan.simulation.meter import CurvePoint, Summary

_WIDTH, _HEIGHT = 900, 200
_COLORS = "#9aa0a6", "#1f77b4", "#e45756"
"""Of what was recorded, of now, and of the candidate."""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #202124; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } td, th { padding: .25em 1.2em .25em 0; text-align: right; }
td:first-child, th:first-child { text-align: left; white-space: pre; } tr { border-bottom: 1px solid #e0e0e0; }
pre, #plots { overflow-x: auto; } pre { font-size: 12px; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ lead }}</p>
<table>
<tr>{% for name in rows[0] %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for value in row.values() %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table>
<h2>Over time</h2>
{{ plots | safe }}
<h2>Details</h2>
{{ details | safe }}
</body>
</html>
"""


def check_libraries() -> None:
    """Raise BacktestError without the libraries that draw: a user learns it before a long simulation."""
    try:
        import_module("altair")
        import_module("vl_convert")  # it puts the scripts of the plots into the page
        import_module("jinja2")
    except ImportError as error:
        raise BacktestError(f"--report needs altair and vl-convert ({error}): pip install 'bayplan[plots]'") from None


def report(answer: Answer, title: str, lead: str, series: Mapping[str, Summary]) -> str:
    """Return a page with the answer and plots of `series`: name -> what was metered; up to three.

    Raises BacktestError without the libraries that draw.
    """
    check_libraries()
    alt: Any = import_module("altair")
    from jinja2 import Environment

    page = Environment(autoescape=True).from_string(_PAGE)
    plots = _plots(alt, series).to_html(inline=True, fullhtml=False, output_div="plots")
    return page.render(title=title, lead=lead, rows=answer.rows(), plots=plots, details=answer.html(wide=True)) + "\n"


def _plots(alt: Any, series: Mapping[str, Summary]) -> Any:
    """All plots, one below the other. `alt`: the module altair."""
    names = list(series)
    colors = alt.Scale(domain=names, range=_COLORS[-len(names) :])
    color = alt.Color("series:N", sort=names, scale=colors, legend=alt.Legend(title=None, orient="top"))
    last = max((summary.curve[-1].seconds for summary in series.values() if summary.curve), default=0.0)
    unit, length = clock(last / 86400)
    data = alt.Data(values=[row for name, summary in series.items() for row in _points(name, summary.curve, length)])
    lines = alt.Chart(data, width=_WIDTH, height=_HEIGHT).mark_line(interpolate="step-after", strokeWidth=1.5)
    time = alt.X("time:Q", title=f"{unit}s since the begin")
    shown = {"nodes": "nodes", "empty": "nodes without workloads", "pending": "pods without a node"}
    shown |= {
        "cpu": "share of CPU that workloads request",
        "memory": "share of memory that workloads request",
        "stranded_cpu": "share of CPU that is stranded",
        "stranded_memory": "share of memory that is stranded",
    }
    if any(point.cost_per_hour is not None for summary in series.values() for point in summary.curve):
        shown["cost"] = "dollars an hour"
    charts = [lines.encode(x=time, y=alt.Y(f"{field}:Q", title=title), color=color) for field, title in shown.items()]
    charts.append(_bars(alt, list(_waits(series)), "seconds until a pod has its node", color, names))
    evictions = list(_evictions(series))
    if evictions:
        charts.append(_bars(alt, evictions, "evictions", color, names))
    return reduce(and_, charts)


def _bars(alt: Any, rows: Sequence[Mapping[str, Any]], title: str, color: Any, names: Sequence[str]) -> Any:
    chart = alt.Chart(alt.Data(values=rows), width=_WIDTH, height=_HEIGHT).mark_bar()
    x = alt.X("what:N", title=None, sort=None, axis=alt.Axis(labelAngle=0))
    return chart.encode(x=x, xOffset=alt.XOffset("series:N", sort=names), y=alt.Y("value:Q", title=title), color=color)


def _points(name: str, curve: Sequence[CurvePoint], length: float) -> Iterator[dict[str, Any]]:
    for point in curve:
        yield {
            "series": name,
            "time": point.seconds / length,
            "nodes": point.nodes,
            "empty": point.empty,
            "pending": point.pending,
            "cost": point.cost_per_hour,
            "cpu": point.utilization.cpu,
            "memory": point.utilization.memory,
            "stranded_cpu": point.utilization.stranded_cpu,
            "stranded_memory": point.utilization.stranded_memory,
        }


def _waits(series: Mapping[str, Summary]) -> Iterator[dict[str, Any]]:
    for name, summary in series.items():
        for share in ("p50", "p95", "p99"):
            yield {"series": name, "what": share, "value": getattr(summary.waits, share)}


def _evictions(series: Mapping[str, Summary]) -> Iterator[dict[str, Any]]:
    for name, summary in series.items():
        for reason, number in summary.evictions.items():
            yield {"series": name, "what": reason, "value": number}
