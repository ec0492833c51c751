"""simulate: what a scheduler makes of a history.

One side of compare, without a candidate. Placements can be written to a file as they happen.
"""

from __future__ import annotations

import csv
from codecs import getwriter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.backtest.comparison import notes_of
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.report import ReportTexts, report
from bayplan.answers.backtest.running import SimulationRun, simulate
from bayplan.answers.backtest.shown import amount, clock, dollars, duration, hours, percent, seconds, utilization_rows
from bayplan.answers.history.reading import History
from bayplan.answers.insight.answers import Answer, listed
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.tables import FEW, labelled
from bayplan.answers.simulation.lives import PodLifetime
from bayplan.answers.simulation.meter import Summary
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.cluster.pod_info import PodInfo

_CURVE = 12
"""The points of the node count curve that a terminal shows."""


@dataclass(frozen=True, slots=True)
class Simulated(Answer):
    """The answer of `simulate`: nodes, costs, waits and evictions. `attempts`: of the scheduler."""

    source: str
    begin: str
    days: float
    synthetic: bool
    autoscaler: str
    seed: int
    attempts: int
    result: Summary
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer, with the fields of the summary beside the others."""
        return {**fields_of(self, "result"), **fields_of(self.result)}

    def rows(self) -> list[dict[str, Any]]:
        """Return the measures: `what` and `value`, as text."""
        return [{"what": what, "value": value} for what, value in self._rows()]

    def report(self) -> str:
        """Return a page in HTML, with plots. Raises BacktestError."""
        texts = ReportTexts(title=f"Simulated: {self.source}", lead=f"{duration(self.days)} from {self.begin}")
        return report(self, texts, {"now": self.result}, self.begin)

    def render(self, *, wide: bool = False) -> RenderableType:
        """The measures, and the number of nodes over time."""
        made_up = "synthetic, " if self.synthetic else ""
        nodes = "the nodes are those of the history" if self.autoscaler == "none" else f"nodes follow {self.autoscaler}"
        measures = Table("", "", box=None, pad_edge=False, show_header=False)
        measures.columns[1].justify = "right"
        for row in self._rows():
            measures.add_row(*row)
        unit, length = clock(self.days)
        curve = Table(unit, "nodes", "without workloads", "pending pods", box=None, pad_edge=False)
        points = self.result.curve
        step = 1 if wide else max(1, len(points) // _CURVE)
        for point in points[::step]:
            curve.add_row(f"{point.seconds / length:.1f}", str(point.nodes), str(point.empty), str(point.pending))
        title = f"{self.source} ({made_up}{duration(self.days)} from {self.begin}); {nodes}; seed {self.seed}"
        notes = labelled("note", self.notes, 0 if wide else FEW)
        return Lines(Text(title), Text(""), measures, Text(""), curve, *notes)

    def _rows(self) -> Iterator[tuple[str, str]]:
        found = self.result
        yield "nodes, average", amount(found.nodes)
        yield "nodes, most", amount(found.most_nodes)
        yield "nodes without workloads, average", amount(found.empty_nodes)
        yield "node-hours", hours(found.node_hours)
        for name, share in utilization_rows(found):
            yield name, percent(share)
        if found.cost is not None:
            yield "cost", f"{'at least ' if found.unpriced_node_hours else ''}{dollars(found.cost)}"
        yield "pods placed", amount(found.placed)
        for name in ("p50", "p95", "p99"):
            yield f"wait {name}", seconds(getattr(found.waits, name))
        yield "evictions", amount(found.evicted)
        for reason, number in found.evictions.items():
            yield f"  {reason}", amount(number)
        yield "never placed", amount(found.never_placed)
        if found.unplaced:
            yield "  for instance", listed(found.unplaced, 3)
        if found.widest is not None:
            yield "median share of a service in one zone", percent(found.median_share)
            yield "largest share of a service in one zone", percent(found.widest.share)
            yield "  service", found.widest.service


class Placements(TimelineObserver):
    """Writes every placement to a file in CSV as it happens: seconds, pod, node, and how long the pod waited."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = csv.writer(getwriter("utf-8")(file))
        self._writer.writerow(["seconds", "pod", "node", "wait_seconds"])
        self._timeline: Timeline | None = None

    def begin(self, timeline: Timeline) -> None:
        """Placements count from now on."""
        self._timeline = timeline

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        """Write a placement."""
        if self._timeline is not None and pod.assumed and life.bound_at is not None:
            at = life.bound_at
            self._writer.writerow([f"{at:.3f}", pod.key, life.node, f"{at - life.arrived:.3f}"])


def simulated(
    history: History,
    ahead: Lookahead,
    run: SimulationRun,
    placements: BinaryIO | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Simulated:
    """Simulate a history. `placements`: a file to write them to. Raises BacktestError for nothing to simulate."""
    if not history.length.total_seconds():
        raise BacktestError(f"{history.source} has no length: all that it says is from one moment")
    observers = () if placements is None else (Placements(placements),)
    result = simulate(history, ahead, run, lambda done: progress(f"{done:.0%} of the history"), observers)
    if placements is not None:
        placements.flush()  # a process with limits ends without doing that
    return Simulated(
        source=history.source,
        begin=f"{history.begin:%Y-%m-%d %H:%M} UTC",
        days=history.length.total_seconds() / 86400,
        synthetic=history.synthetic,
        autoscaler=result.autoscaler,
        seed=run.seed,
        attempts=result.attempts,
        result=result.summary,
        notes=(*notes_of(history, ahead, run), *result.notes),
    )
