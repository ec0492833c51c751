"""Sweep: all runs of a plan, from the results that are there and from workers, and what they say.

    Sweep(plan, folder, workers, results, progress).run()     # an Answer: the choices, the best first

It can be stopped and run again at any time: what is there isn't simulated again.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.shown import amount
from bayplan.answers.insight.answers import Answer
from bayplan.answers.sweeps.plan import SweepPlan, SweepTask, SweptChoice, grid, tasks_of, today
from bayplan.answers.sweeps.results import SweepResults
from bayplan.answers.sweeps.runs import SweepRow
from bayplan.answers.sweeps.search import search
from bayplan.answers.sweeps.workers import SweepFailure, SweepWorkers

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SweptCandidate:
    """A choice with its objectives: means over histories and seeds. `pareto`: no other choice is as good in all of them
    and better in one. `best`: the lowest first objective; of equal ones, the next objectives decide.
    """

    choice: str
    now: bool
    objectives: tuple[float, ...]
    pareto: bool
    best: bool
    runs: int


@dataclass(frozen=True, slots=True)
class Swept(Answer):
    """The answer of `sweep`. `objectives`: the names of the measures. `candidates`: the best first."""

    objectives: tuple[str, ...]
    candidates: tuple[SweptCandidate, ...]
    simulated: int
    """How many runs were simulated now; the others were there."""
    results: str
    shown: int = 20
    problems: tuple[str, ...] = ()
    """Choices that can't be simulated, one line each."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each choice."""
        return [
            {"choice": each.choice, **dict(zip(self.objectives, each.objectives, strict=True)), "mark": _mark(each)}
            for each in self.candidates
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """The choices, with those that no other one beats."""
        table = Table("choice", *self.objectives, "", box=None, pad_edge=False)
        for column in table.columns[1:-1]:
            column.justify = "right"
        shown = [
            each
            for number, each in enumerate(self.candidates)
            if wide or not self.shown or number < self.shown or each.now
        ]
        for each in shown:
            table.add_row(each.choice, *map(amount, each.objectives), _mark(each))
        left = len(self.candidates) - len(shown)
        more = [Text(f"and {left:,} more; --limit 0 shows them")] if left else []
        title = f"{len(self.candidates):,} choices, {self.simulated:,} runs simulated now; results in {self.results}"
        return Lines(Text(title), Text(""), table, *more, *(Text(f"note: {line}") for line in self.problems))


def _mark(candidate: SweptCandidate) -> str:
    marks = (("now", candidate.now), ("best", candidate.best), ("pareto", candidate.pareto))
    return " ".join(name for name, holds in marks if holds)


class Sweep:
    """A sweep of a file's plan. `folder`: that of the file. `progress`: told how far it is, and the time left."""

    def __init__(
        self, plan: SweepPlan, folder: Path, workers: SweepWorkers, results: SweepResults, progress: Told
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._workers = workers
        self._results = results
        self._progress = progress
        self._rows: dict[str, SweepRow] = {}
        self._failed: dict[str, str] = {}
        """The keys of the tasks that can't be simulated, and why."""
        self._simulated = 0
        self._of: dict[SweptChoice, list[SweepTask]] = {}

    def run(self, shown: int = 20) -> Swept:
        """Simulate what is missing, and write the table of all runs. Raises BacktestError."""
        plan = self._plan
        if plan.search is None:
            self._ask([today(plan), *grid(plan)])
        else:
            self._ask([today(plan)])
            search(plan, self._ask)
        keys = [task.key for tasks in self._of.values() for task in tasks]
        self._results.write_all(self._rows[key] for key in keys if key in self._rows)
        simulated = [choice for choice in self._of if self._fault(choice) is None]
        candidates = ranked([(choice, self._objectives(choice)) for choice in simulated], len(plan.seeds))
        faults = tuple(dict.fromkeys(filter(None, map(self._fault, self._of))))
        return Swept(plan.objectives, tuple(candidates), self._simulated, self._results.uri, shown, faults)

    def _fault(self, choice: SweptChoice) -> str | None:
        """Why a choice can't be simulated; None if it can."""
        return next((self._failed[task.key] for task in self._of[choice] if task.key in self._failed), None)

    def best(self) -> SweepTask:
        """The first task of the best choice, after `run`. Today's may be the best one."""
        choice = min(self._of, key=lambda each: (self._objectives(each), each.label))
        return self._of[choice][0]

    def _ask(self, choices: Sequence[SweptChoice]) -> list[tuple[float, ...]]:
        for choice in choices:
            if choice not in self._of:
                self._of[choice] = tasks_of(self._plan, choice, self._folder)
        wanted = {task.key: task for choice in choices for task in self._of[choice]}
        known = self._results.known()
        for key in wanted.keys() & known:
            row = self._results.read(key)
            if row is not None:
                self._rows[key] = row
        missing = [task for key, task in wanted.items() if key not in self._rows]
        for found in self._counted(self._workers.run(missing, self._results.uri) if missing else (), len(missing)):
            if isinstance(found, SweepFailure):
                self._failed[found.key] = found.problem
            else:
                self._rows[found["key"]] = found
                self._simulated += 1
        fault = next((fault for choice in choices if choice.now and (fault := self._fault(choice)) is not None), None)
        if fault is not None:
            raise BacktestError(fault)  # there is nothing to compare the others with
        return [self._objectives(choice) for choice in choices]

    def _counted(self, rows: Iterable[SweepRow | SweepFailure], total: int) -> Iterator[SweepRow | SweepFailure]:
        began = time.monotonic()
        for number, row in enumerate(rows, start=1):
            left = (time.monotonic() - began) / number * (total - number)
            self._progress(f"{number:,} of {total:,} runs, about {left:,.0f} s left")
            yield row

    def _objectives(self, choice: SweptChoice) -> tuple[float, ...]:
        if self._fault(choice) is not None:
            return (math.inf,) * len(self._plan.objectives)
        rows = [self._rows[task.key] for task in self._of[choice]]
        return tuple(_mean(row[name] for row in rows) for name in self._plan.objectives)


def _mean(values: Iterable[float | None]) -> float:
    """The mean; infinity if a value is missing, such as the wait of no pods."""
    known = list(values)
    return float("inf") if None in known else statistics.fmean(value for value in known if value is not None)


def ranked(found: Sequence[tuple[SweptChoice, tuple[float, ...]]], runs: int) -> list[SweptCandidate]:
    """The choices with their marks, the best first. Raises BacktestError for none."""
    if not found:
        raise BacktestError("there is nothing to compare")
    in_order = sorted(found, key=lambda each: (each[1], each[0].label))
    swept = [set(choice.parts) for choice, _ in found if not choice.now]
    shared = set.intersection(*swept) if len(swept) > 1 else set()
    return [
        SweptCandidate(
            "now" if choice.now else ", ".join(part for part in choice.parts if part not in shared),
            choice.now,
            objectives,
            not any(_beats(other, objectives) for _, other in found),
            number == 0,
            runs,
        )
        for number, (choice, objectives) in enumerate(in_order)
    ]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
