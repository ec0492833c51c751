"""compare: what another scheduler or other nodes would have made of a history.

    answer = compare(history, ahead, now, candidate)   # two SimulationRuns
    answer.changed_decisions                           # placements that the candidate would make otherwise

It answers two questions in different ways. The figures come of two simulations (`running.py`), with several seeds. The
differences come of asking: the candidate decides about up to 1,000 recorded placements in the recorded situation
(`decisions.py`), and `bayplan.answers.judging` says whether that differs from what the present scheduler decides there.
A history without placements has no situation to ask in; there, both schedulers are asked as now is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.backtest.calibration import Calibration, calibrated
from bayplan.answers.backtest.decisions import AskAgain, AskedAgain, Choice, DecisionDifference, ask_again
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.figures import FigureSpread, figures_of, middle
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.parallel import simulate_both
from bayplan.answers.backtest.report import BEGIN, ReportTexts, report, verdict
from bayplan.answers.backtest.running import SimulationRun
from bayplan.answers.backtest.shown import clock, duration
from bayplan.answers.history.reading import History
from bayplan.answers.insight.answers import Answer, listed, plural
from bayplan.answers.insight.tables import FEW, labelled, table
from bayplan.answers.simulation.meter import Summary

_QUICK, _MOST_SEEDS = 5_000, 5
"""How many pods are simulated quickly, with all seeds, and how many seeds there are for the smallest histories."""


@dataclass(frozen=True, slots=True)
class Comparison(Answer):
    """Now and a candidate, both simulated over one history.

    `source`, `begin`, `days`, `synthetic`: of the history. `recorded`: what it says itself. `calibration`: how well the
    simulation of now matches that. `changed_decisions`: how many of the `asked_decisions` the candidate would have
    made differently in the same situation; `differences` are these. `now` and `candidate` are the medians of
    simulations with so many `seeds`; `spreads`: the figures that depend on the seed.
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
    seeds: int = 1
    spreads: tuple[FigureSpread, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return the main table: `what`, `now`, `candidate` and `difference`, as text."""
        names = "what", "now", "candidate", "difference"
        return [dict(zip(names, row, strict=True)) for row in self._rows()]

    def report(self, candidate: str = "The candidate") -> str:
        """Return a page in HTML, with plots of what was recorded, of now and of the candidate. Raises BacktestError.

        `candidate`: what it is called.
        """
        series = {"recorded": self.recorded, "now": self.now, "candidate": self.candidate}
        if self.calibration.equal_decisions is None:
            del series["recorded"]  # nothing was
        texts = ReportTexts(
            title=f"{candidate}, compared with now over {self.source}",
            verdict=verdict(candidate, self._rows()),
            lead=f"{duration(self.days)} from {self.begin}; {self.calibration}",
        )
        return report(self, texts, series, self.begin)

    def render(self, *, wide: bool = False) -> RenderableType:
        """The calibration, the table, then the decisions that differ."""
        parts: list[RenderableType] = [Text(str(self.calibration))]
        made_up = "synthetic, " if self.synthetic else ""
        parts.append(Text(f"{self.source} ({made_up}{duration(self.days)} from {self.begin}); {self._fleet()}"))
        found = Table("", "now", "candidate", "difference", box=None, pad_edge=False)
        for column in found.columns[1:]:
            column.justify = "right"
        for row in self._rows():
            found.add_row(*row)
        parts += [Text(""), found]
        if self.spreads:
            parts.append(
                Text(f"({self.seeds} seeds: medians, with the lowest and the highest; chance: not the same with all)")
            )
        parts += [Text(""), *self._decisions(wide=wide)]
        parts += labelled("note", self.notes, 0 if wide else FEW)
        return Lines(*parts)

    def _fleet(self) -> str:
        if self.autoscaler == self.candidate_autoscaler == "none":
            return "the nodes are those of the history"
        if self.autoscaler == self.candidate_autoscaler:
            return f"nodes follow the rules of {self.autoscaler}"
        return f"autoscaler: {self.autoscaler} now, {self.candidate_autoscaler} for the candidate"

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        spreads = {each.what: each for each in self.spreads}
        for figure in figures_of((self.now, self.candidate), self.days):
            spread = spreads.get(figure.what, FigureSpread(figure.what, None, None, by_chance=False))
            yield figure.row(self.now, self.candidate, spread)
        if self.now.widest is not None and self.candidate.widest is not None:
            yield "  service", self.now.widest.service, self.candidate.widest.service, ""

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
        unit, length = clock(self.days)
        headers = "pod", unit, "now", "score", "candidate", "score", "margin", "because of"
        yield table(headers, self.differences, lambda each: _difference_row(each, length), limit)


def _difference_row(each: DecisionDifference, length: float) -> tuple[str, ...]:
    now, then = each.now, each.candidate
    margin = "not feasible" if then is not None and then.margin is None and now is not None else ""
    if then is not None and then.margin is not None:
        margin = f"+{then.margin:,}"
    return each.pod, f"{each.seconds / length:.1f}", *_chosen(now), *_chosen(then), margin, _because(then)


def _chosen(choice: Choice | None) -> tuple[str, str]:
    return ("pending", "") if choice is None else (choice.node, f"{choice.score:,}")


def _because(choice: Choice | None) -> str:
    return "" if choice is None else ", ".join(f"{name} {score:+,}" for name, score in choice.plugins)


def compare(
    history: History,
    ahead: Lookahead,
    now: SimulationRun,
    candidate: SimulationRun,
    *,
    shown: int = 20,
    seeds: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Simulate a history as it was and with a candidate, and compare. Raises BacktestError for nothing to compare.

    `seeds`: with how many seeds both are simulated, from their own on; with 0, as many as are quick.
    """
    if not history.length.total_seconds():
        raise BacktestError(f"{history.source} has no length: all that it says is from one moment")
    seeds = seeds or usual_seeds(history)
    other = None if candidate.scheduler is now.scheduler else candidate.scheduler
    also: list[AskAgain] = []
    asked = AskedAgain()
    if ahead.bindings:
        asked = ask_again(history, ahead, now.scheduler, other, lambda done: progress(f"asking again, {done:.0%}"))
    elif other is not None:
        also.append(AskAgain(other, len(ahead.runs)))
        asked = also[0].asked
    first, second = simulate_both(
        history,
        ahead,
        now.seeded(seeds),
        candidate.seeded(seeds),
        lambda done: progress(f"simulating, {done:.0%}"),
        also,
    )
    all_now, all_then = [each.summary for each in first], [each.summary for each in second]
    days = history.length.total_seconds() / 86400
    spreads = [each.spread(all_now, all_then) for each in figures_of((*all_now, *all_then), days)]
    notes = [*notes_of(history, ahead, now, candidate)]
    notes += [note for result in (*first, *second) for note in result.notes]
    if seeds == 1:
        notes.append("one seed was simulated: --seeds 5 shows by how much the figures differ between seeds")
    return Comparison(
        source=history.source,
        begin=f"{history.begin:{BEGIN}}",
        days=days,
        synthetic=history.synthetic,
        calibration=calibrated(ahead.recorded, middle(all_now), all_now, asked.share, asked.recorded),
        recorded=ahead.recorded,
        now=middle(all_now),
        candidate=middle(all_then),
        autoscaler=first[0].autoscaler,
        candidate_autoscaler=second[0].autoscaler,
        asked_decisions=asked.asked,
        changed_decisions=asked.changed,
        differences=tuple(asked.differences),
        notes=tuple(dict.fromkeys(notes)),
        shown=shown,
        seeds=seeds,
        spreads=tuple(each for each in spreads if each.depends),
    )


def usual_seeds(history: History) -> int:
    """Return with how many seeds a history is simulated where nothing says it: as many as are quick."""
    return max(1, min(_MOST_SEEDS, _QUICK // max(history.pods, 1)))


def notes_of(history: History, ahead: Lookahead, run: SimulationRun, *others: SimulationRun) -> Sequence[str]:
    """Return what limits the answers about a history, one line each. `others`: runs that it is compared with."""
    notes = [f"{history.source}: {problem}" for problem in (*history.problems, *history.notes)]
    notes += [str(gap) for gap in history.gaps]
    if history.synthetic:
        notes.insert(0, "the history is synthetic: its arrivals are made up")
    notes += ahead.odd[:_MOST_ODD]
    notes += [note for each in others if each.changed is not None for note in each.changed.notes]
    if any(each.changed is not None for each in others):
        notes.append("decisions are asked again with the pods that were recorded: changed workloads are only simulated")
    notes += _unserved(ahead, run, *others)
    labels = [pool.like["metadata"].get("labels") or {} for pool in ahead.pools.values()]
    labels += [
        pool.like["metadata"]["labels"]
        for each in (run, *others)
        for new in each.fleet.new
        for pool in new.pools(list(ahead.pools.values()))
    ]
    configuration = run.scheduler.configuration
    if configuration is not None and configuration.extenders:
        notes.append("extenders are not asked in simulations")
    stops = run.parameters.pods.termination_seconds
    if stops and ahead.longest_grace < stops:
        notes.append(
            f"pods.terminationSeconds {stops:g} has no effect: no pod has a grace period of more than "
            f"{ahead.longest_grace:g} s"
        )
    return [*notes, *(others[-1] if others else run).prices.notes(labels)]


def _unserved(ahead: Lookahead, run: SimulationRun, *others: SimulationRun) -> Iterator[str]:
    """Name the schedulers of the history that a run has no profile for: their pods are not decided."""
    now, *candidates = (each.scheduler.world(0).profiles for each in (run, *others))
    for name, number in sorted(ahead.schedulers.items()):
        pods = f"{plural(number, 'pod')} of scheduler {name!r}"
        if name not in now:
            yield f"{pods} keep their nodes: no profile here has its name"
            continue
        for profiles in candidates:
            if name not in profiles:
                yield (
                    f"no scheduler of the candidate serves {pods}: they have the nodes that were recorded, or none. "
                    f"Its profiles are {listed(sorted(profiles))}: give one of them schedulerName {name}"
                )


_MOST_ODD = 10
"""More objects that can't be read are not named."""
