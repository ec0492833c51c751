"""compare: what another scheduler or other nodes would have made of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.backtest.decisions import AskAgain, AskedAgain, Choice, DecisionDifference, ask_again
from bayplan.backtest.errors import BacktestError
from bayplan.backtest.lookahead import Lookahead
from bayplan.backtest.parallel import simulate_both
from bayplan.backtest.report import report
from bayplan.backtest.running import SimulationRun
from bayplan.backtest.shown import amount, difference, dollars, percent, points, seconds, utilization_rows
from bayplan.history.reading import History
from bayplan.insight.answers import Answer, plural
from bayplan.insight.json_values import fields_of
from bayplan.insight.tables import table
from bayplan.simulation.meter import Summary

GOOD_PLACEMENTS = 0.9
"""A smaller share of equal decisions is a poor match."""
GOOD_NODES = 0.1
"""A larger relative difference of the node count curves is a poor match."""
_SLACK = 1.5
"""Seconds by which waits may differ, besides 50 %: a history has whole seconds."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well the simulation of *now* matches the history.

    `equal_decisions`: the share of recorded decisions, of `asked`, where the scheduler chooses the recorded node or one
    that is as good; None if there were none. `node_difference`: by how much the number of nodes differs, on average,
    as a share of the recorded number. `recorded_wait_p95` and `simulated_wait_p95` are in seconds.
    """

    equal_decisions: float | None
    asked: int
    node_difference: float
    recorded_wait_p95: float | None
    simulated_wait_p95: float | None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not match, for people."""
        return tuple(self._faults())

    def _faults(self) -> Iterator[str]:
        if self.equal_decisions is not None and self.equal_decisions < GOOD_PLACEMENTS:
            yield f"only {self.equal_decisions:.0%} of the recorded decisions are equal"
        if self.node_difference > GOOD_NODES:
            yield f"the number of nodes differs by {self.node_difference:.0%}"
        recorded, simulated = self.recorded_wait_p95, self.simulated_wait_p95
        if recorded is not None and simulated is not None and abs(recorded - simulated) > recorded / 2 + _SLACK:
            yield f"95 % of the pods waited up to {seconds(recorded)}, simulated {seconds(simulated)}"

    def __str__(self) -> str:
        if self.equal_decisions is None:
            nodes = f"nodes within {self.node_difference:.1%}"
            return f"No match can be shown: no decision was recorded, so now is only simulated; {nodes}."
        equal = f"{self.equal_decisions:.0%} of {plural(self.asked, 'recorded decision')} equal"
        waits = f"wait p95 {seconds(self.recorded_wait_p95)}, simulated {seconds(self.simulated_wait_p95)}"
        shown = f"{equal}; nodes within {self.node_difference:.1%}; {waits}"
        if self.faults:
            return f"Poor match: the simulation of now is not like the history: {'; '.join(self.faults)}. ({shown})"
        return f"Good match: the simulation of now is like the history: {shown}."

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, and what does not match."""
        return {**fields_of(self), "faults": list(self.faults)}


@dataclass(frozen=True, slots=True)
class Comparison(Answer):
    """Now and a candidate, both simulated over one history.

    `source`, `begin`, `days`, `synthetic`: of the history. `recorded`: what it says itself. `calibration`: how well the
    simulation of now matches that. `changed_decisions`: how many of the `asked_decisions` the candidate would have
    made differently in the same situation; `differences` are these.
    """

    source: str
    begin: str
    days: float
    synthetic: bool
    calibration: Calibration
    recorded: Summary
    now: Summary
    candidate: Summary
    autoscaler: str
    candidate_autoscaler: str
    asked_decisions: int
    changed_decisions: int
    differences: tuple[DecisionDifference, ...]
    notes: tuple[str, ...] = ()
    shown: int = 20

    def rows(self) -> list[dict[str, Any]]:
        """Return the main table: `what`, `now`, `candidate` and `difference`, as text."""
        names = "what", "now", "candidate", "difference"
        return [dict(zip(names, row, strict=True)) for row in self._rows()]

    def report(self) -> str:
        """Return a page in HTML, with plots of what was recorded, of now and of the candidate. Raises BacktestError."""
        series = {"recorded": self.recorded, "now": self.now, "candidate": self.candidate}
        if self.calibration.equal_decisions is None:
            del series["recorded"]  # nothing was
        return report(self, f"Compared over {self.source}", str(self.calibration), series)

    def render(self, *, wide: bool = False) -> RenderableType:
        """The calibration, the table, then the decisions that differ."""
        parts: list[RenderableType] = [Text(str(self.calibration))]
        made_up = "synthetic, " if self.synthetic else ""
        parts.append(Text(f"{self.source} ({made_up}{self.days:.1f} days from {self.begin}); {self._fleet()}"))
        found = Table("", "now", "candidate", "difference", box=None, pad_edge=False)
        for column in found.columns[1:]:
            column.justify = "right"
        for row in self._rows():
            found.add_row(*row)
        parts += [Text(""), found, Text(""), *self._decisions(wide=wide)]
        parts += [Text(f"note: {note}") for note in self.notes]
        return Lines(*parts)

    def _fleet(self) -> str:
        if self.autoscaler == self.candidate_autoscaler == "none":
            return "the nodes are those of the history"
        if self.autoscaler == self.candidate_autoscaler:
            return f"nodes follow the rules of {self.autoscaler}"
        return f"autoscaler: {self.autoscaler} now, {self.candidate_autoscaler} for the candidate"

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        now, then = self.now, self.candidate
        yield "nodes, average", amount(now.nodes), amount(then.nodes), difference(now.nodes, then.nodes, share=True)
        yield (
            "nodes, most",
            amount(now.most_nodes),
            amount(then.most_nodes),
            difference(now.most_nodes, then.most_nodes),
        )
        yield (
            "nodes without workloads, average",
            amount(now.empty_nodes),
            amount(then.empty_nodes),
            difference(now.empty_nodes, then.empty_nodes),
        )
        hours = difference(now.node_hours, then.node_hours)
        yield "node-hours", amount(now.node_hours), amount(then.node_hours), hours
        for (name, one), (_, other) in zip(utilization_rows(now), utilization_rows(then), strict=True):
            yield name, percent(one), percent(other), points(one, other)
        if now.cost is not None or then.cost is not None:
            yield "cost", _cost(now), _cost(then), _saving(now, then, self.days)
        for name in ("p50", "p95", "p99"):
            one, other = getattr(now.waits, name), getattr(then.waits, name)
            yield f"wait {name}", seconds(one), seconds(other), difference(one, other, unit=" s")
        yield "evictions", amount(now.evicted), amount(then.evicted), difference(now.evicted, then.evicted)
        for reason in sorted({*now.evictions, *then.evictions}):
            one, other = now.evictions.get(reason, 0), then.evictions.get(reason, 0)
            yield f"  {reason}", amount(one), amount(other), difference(one, other)
        yield (
            "never placed",
            amount(now.never_placed),
            amount(then.never_placed),
            difference(now.never_placed, then.never_placed),
        )
        if now.widest is not None and then.widest is not None:
            one, other = now.widest.share, then.widest.share
            yield "largest share of a service in one zone", percent(one), percent(other), points(one, other)

    def _decisions(self, *, wide: bool) -> Iterator[RenderableType]:
        asked = self.asked_decisions
        if not self.differences:
            yield Text(f"No decision differs, of {asked:,} that were asked again.")
            return
        yield Text(
            f"{plural(self.changed_decisions, 'decision')} of {asked:,} would differ in the same situation "
            f"({self.changed_decisions / max(asked, 1):.0%}):"
        )
        limit = 0 if wide else self.shown
        headers = "pod", "hour", "now", "score", "candidate", "score", "margin", "because of"
        yield table(headers, self.differences, _difference_row, limit)


def _difference_row(each: DecisionDifference) -> tuple[str, ...]:
    now, then = each.now, each.candidate
    margin = "not feasible" if then is not None and then.margin is None and now is not None else ""
    if then is not None and then.margin is not None:
        margin = f"+{then.margin:,}"
    return each.pod, f"{each.seconds / 3600:.1f}", *_chosen(now), *_chosen(then), margin, _because(then)


def _chosen(choice: Choice | None) -> tuple[str, str]:
    return ("pending", "") if choice is None else (choice.node, f"{choice.score:,}")


def _because(choice: Choice | None) -> str:
    return "" if choice is None else ", ".join(f"{name} {score:+,}" for name, score in choice.plugins)


def _cost(summary: Summary) -> str:
    if summary.cost is None:
        return "unknown"
    return f"{'at least ' if summary.unpriced_node_hours else ''}{dollars(summary.cost)}"


def _saving(now: Summary, then: Summary, days: float) -> str:
    if now.cost is None or then.cost is None or not days:
        return ""
    saving = then.cost - now.cost
    if abs(saving) < 0.005:
        return ""
    week = f"{dollars(saving * 7 / days, signed=True)} a week"
    return week if abs(days - 7) < 0.1 else f"{dollars(saving, signed=True)}, {week}"


def compare(
    history: History,
    ahead: Lookahead,
    now: SimulationRun,
    candidate: SimulationRun,
    *,
    shown: int = 20,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Simulate a history as it was and with a candidate, and compare. Raises BacktestError for nothing to compare."""
    if not history.length.total_seconds():
        raise BacktestError(f"{history.source} has no length: all that it says is from one moment")
    other = None if candidate.scheduler is now.scheduler else candidate.scheduler
    also: list[AskAgain] = []
    asked = AskedAgain()
    if ahead.bindings:
        asked = ask_again(history, ahead, now.scheduler, other, lambda done: progress(f"asking again, {done:.0%}"))
    elif other is not None:
        also.append(AskAgain(other, len(ahead.runs)))
        asked = also[0].asked
    first, second = simulate_both(
        history, ahead, now, candidate, lambda done: progress(f"simulating, {done:.0%}"), also
    )
    recorded = ahead.recorded
    calibration = Calibration(
        asked.share,
        asked.recorded,
        node_difference(recorded, first.summary),
        recorded.waits.p95,
        first.summary.waits.p95,
    )
    notes = dict.fromkeys([*notes_of(history, ahead, now), *first.notes, *second.notes])
    return Comparison(
        source=history.source,
        begin=f"{history.begin:%Y-%m-%d %H:%M} UTC",
        days=history.length.total_seconds() / 86400,
        synthetic=history.synthetic,
        calibration=calibration,
        recorded=recorded,
        now=first.summary,
        candidate=second.summary,
        autoscaler=first.autoscaler,
        candidate_autoscaler=second.autoscaler,
        asked_decisions=asked.asked,
        changed_decisions=asked.changed,
        differences=tuple(asked.differences),
        notes=tuple(notes),
        shown=shown,
    )


def node_difference(recorded: Summary, simulated: Summary) -> float:
    """Return by how much two curves of the number of nodes differ, on average, as a share of the first one."""
    total = sum(point.nodes for point in recorded.curve)
    differences = sum(abs(one.nodes - other.nodes) for one, other in zip(recorded.curve, simulated.curve, strict=False))
    return differences / total if total else 0.0


def notes_of(history: History, ahead: Lookahead, run: SimulationRun) -> Sequence[str]:
    """Return what limits the answers about a history, one line each."""
    notes = [f"{history.source}: {problem}" for problem in (*history.problems, *history.notes)]
    notes += [str(gap) for gap in history.gaps]
    if history.synthetic:
        notes.insert(0, "the history is synthetic: its arrivals are made up")
    notes += ahead.odd[:_MOST_ODD]
    world = run.scheduler.world(0)
    for name, number in sorted(ahead.schedulers.items()):
        if name not in world.profiles:
            notes.append(
                f"{plural(number, 'pod')} of scheduler {name!r} keep their nodes: no profile here has its name"
            )
    labels = [pool.like["metadata"].get("labels") or {} for pool in ahead.pools.values()]
    labels += [
        pool.like["metadata"]["labels"] for new in run.fleet.new for pool in new.pools(list(ahead.pools.values()))
    ]
    configuration = run.scheduler.configuration
    if configuration is not None and configuration.extenders:
        notes.append("extenders are not asked in simulations")
    return [*notes, *run.prices.notes(labels)]


_MOST_ODD = 10
"""More objects that can't be read are not named."""
