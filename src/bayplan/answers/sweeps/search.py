"""A search with a budget: Optuna names the next choices, from what the former ones measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.sweeps.plan import SweepPlan, SweptChoice, axes, choice_of
from bayplan.foundations.lazy import library

AT_ONCE = 4
"""Choices that are named together. Not the number of workers, so that a search is the same on any machine."""

Ask = Callable[[Sequence[SweptChoice]], Sequence[tuple[float, ...]]]
"""Simulates choices. Returns the objectives of each."""


def search(plan: SweepPlan, ask: Ask) -> None:
    """Name choices until the budget is used up. The same plan names the same ones. Raises BacktestError."""
    assert plan.search is not None
    try:
        optuna = library("optuna")
    except ImportError as error:
        raise BacktestError(f"search needs Optuna ({error}): pip install 'bayplan[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=plan.search.seed, multivariate=True),
        directions=["minimize"] * len(plan.objectives),
    )
    names = axes(plan)
    numbers: dict[str, Any] = {
        name: optuna.distributions.CategoricalDistribution(range(len(values)))
        for name, values in names.items()
        if len(values) > 1
    }
    left = plan.search.trials
    while left > 0:
        trials = [study.ask(numbers) for _ in range(min(AT_ONCE, left))]
        chosen = [
            choice_of({name: values[trial.params.get(name, 0)] for name, values in names.items()}) for trial in trials
        ]
        for trial, objectives in zip(trials, ask(chosen), strict=True):
            study.tell(trial, objectives)
        left -= len(trials)
