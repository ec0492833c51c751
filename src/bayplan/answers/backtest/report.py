"""Report: an answer about a history as one HTML file, with plots. To look at it, you need no network.

Plots are drawn with altair (extra `plots`), only here and in `bayplan.answers.sweeps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.insight.answers import Answer
from bayplan.answers.simulation.meter import CurvePoint, Summary
from bayplan.foundations.lazy import library

_WIDTH, _HEIGHT = 900, 200
_COLORS = "#9aa0a6", "#1f77b4", "#e45756"
"""Of what was recorded, of now, and of the candidate. They can be told apart on white and on black."""
_INK = "currentColor"
"""The color of the page's text, light or dark. Only SVG has it, a canvas doesn't."""
_FOLLOWING = {
    "axis": {"labelColor": _INK, "titleColor": _INK, "domainColor": _INK, "tickColor": _INK, "gridColor": _INK}
    | {"gridOpacity": 0.15},
    "legend": {"labelColor": _INK, "titleColor": _INK},
    "title": {"color": _INK},
    "view": {"stroke": _INK, "strokeOpacity": 0.3},
}
"""What of a plot has the colors of its page."""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #202124; --soft: #5f6368; --line: #dadce0; --mark: #1f77b4; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16191d; --ink: #e8eaed; --soft: #a8adb3; --line: #3c4043; --mark: #6fb1e4; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; }
body { background: var(--paper); color: var(--ink); }
h1 { font-size: 1.5em; overflow-wrap: anywhere; } h2 { font-size: 1.15em; margin-top: 2em; }
.verdict { font-size: 1.2em; border-left: 4px solid var(--mark); padding-left: .8em; }
.lead { color: var(--soft); }
table { border-collapse: collapse; } td, th { padding: .25em 1.2em .25em 0; text-align: right; }
td:first-child, th:first-child { text-align: left; white-space: pre; } tr { border-bottom: 1px solid var(--line); }
pre, .plots { overflow-x: auto; } pre { font-size: 12px; }
summary { cursor: pointer; margin-top: 2em; font-size: 1.15em; font-weight: 700; }
</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
{% if verdict %}<p class="verdict">{{ verdict }}</p>
{% endif %}
<p class="lead">{{ lead }}</p>
{% if rows %}
<table>
<tr>{% for name in rows[0] %}<th scope="col">{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for value in row.values() %}<td>{{ value }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% endif %}
<h2>{{ heading }}</h2>
<div class="plots">
{{ plots | safe }}
</div>
{% if details %}
<details><summary>Details</summary>
{{ details | safe }}
</details>
{% endif %}
</main>
</body>
</html>
"""


def check_libraries() -> None:
    """Raise BacktestError without the libraries that draw: a user learns it before a long simulation."""
    try:
        library("altair", "vl_convert", "jinja2")  # vl_convert puts the scripts of the plots into the page
    except ImportError as error:
        raise BacktestError(f"--report needs altair and vl-convert ({error}): pip install 'bayplan[plots]'") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTexts:
    """What a report says. `verdict`: one sentence, for people who read no more. `lead`: what it rests on."""

    title: str
    lead: str
    verdict: str = ""


def report(answer: Answer, texts: ReportTexts, series: Mapping[str, Summary], begin: str) -> str:
    """Return a page with the answer and plots of `series`: name -> what was metered; up to three.

    `begin`: of the history, as in "2026-03-02 00:00 UTC". Raises BacktestError without the libraries that draw.
    """
    check_libraries()
    start = datetime.strptime(begin, BEGIN).replace(tzinfo=UTC)
    plots = _plots(library("altair"), series, start)
    return page(texts, plots, "Over time (UTC)", answer.rows(), answer.html(wide=True))


def page(
    texts: ReportTexts, plots: Any, heading: str, rows: Sequence[Mapping[str, Any]] = (), details: str = ""
) -> str:
    """Return a page with plots. `rows`: a table before them. `details`: HTML, which is folded."""
    environment = library("jinja2").Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    plots = plots.configure(background="transparent", **_FOLLOWING)
    drawn = plots.to_html(inline=True, fullhtml=False, output_div="plots", embed_options={"renderer": "svg"})
    shown = {"title": texts.title, "lead": texts.lead, "verdict": texts.verdict, "heading": heading}
    found: str = environment.from_string(_PAGE).render(**shown, rows=rows, plots=drawn, details=details)
    return f"{found}\n"


def verdict(candidate: str, rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Return what gets better and what gets worse with a candidate, in one sentence. `rows`: of a comparison."""
    better, worse = list[str](), list[str]()
    for what, now, then, difference in rows:
        if what in _VERDICTS and difference[:1] in {"-", "+"}:
            less = difference[0] == "-"
            text = f"{_VERDICTS[what][0 if less else 1]} ({then} instead of {now})"
            (better if less else worse).append(text)
    if not better and not worse:
        return f"{candidate} changes neither nodes, costs, waits, evictions nor pods without a node."
    if not better:
        return f"{candidate} {_joined(worse)}, and {_OF_THESE} gets better."
    if not worse:
        return f"{candidate} {_joined(better)}, and {_OF_THESE} gets worse."
    return f"{candidate} {_joined(better)}, but {_joined(worse)}."


BEGIN = "%Y-%m-%d %H:%M UTC"
"""How answers say when a history begins."""
_OF_THESE = "none of nodes, cost, waits, evictions and pods without a node"
_VERDICTS = {
    "cost": ("costs less", "costs more"),
    "nodes, average": ("needs fewer nodes on average", "needs more nodes on average"),
    "wait p95": ("lets pods wait less (p95)", "lets pods wait longer (p95)"),
    "evictions": ("evicts fewer pods", "evicts more pods"),
    "never placed": ("leaves fewer pods without a node", "leaves more pods without a node"),
}
"""What it means that a figure is lower or higher. Of all these, less is better."""


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _plots(alt: Any, series: Mapping[str, Summary], begin: datetime) -> Any:
    """All plots, one below the other. `alt`: the module altair."""
    names = list(series)
    colors = alt.Scale(domain=names, range=_COLORS[-len(names) :])
    color = alt.Color("series:N", sort=names, scale=colors, legend=alt.Legend(title=None, orient="top"))
    data = alt.Data(values=[row for name, summary in series.items() for row in _points(name, summary.curve, begin)])
    lines = alt.Chart(data, width=_WIDTH, height=_HEIGHT).mark_line(interpolate="step-after", strokeWidth=1.5)
    time = alt.X("time:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(format="%a %d %b %H:%M"))
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


def _points(name: str, curve: Sequence[CurvePoint], begin: datetime) -> Iterator[dict[str, Any]]:
    for point in curve:
        yield {
            "series": name,
            "time": (begin + timedelta(seconds=point.seconds)).isoformat(timespec="milliseconds"),
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
