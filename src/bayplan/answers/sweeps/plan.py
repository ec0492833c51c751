"""SweepPlan: a sweep's file: which schedulers and node pools are simulated on which histories, and what is better.

A task is one simulation. Its key covers everything that it depends on, so a result is found again, and made anew if
anything has changed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.answers.backtest.errors import BacktestError
from bayplan.core.api.suggestions import or_known
from bayplan.foundations.manifest_files import ManifestError, read_yaml

MEASURES = (
    "nodes_average",
    "nodes_most",
    "node_hours",
    "empty_nodes_average",
    "stranded_cpu_share",
    "stranded_memory_share",
    "cost_dollars",
    "wait_p50_seconds",
    "wait_p95_seconds",
    "wait_p99_seconds",
    "evictions",
    "never_placed",
    "largest_zone_share",
)
"""The columns of a run that can be objectives. Less is better."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    pass


class SweepCandidates(_Strict, frozen=True):
    """What is varied. Each list is an axis of the grid; `set` has an axis for each setting (see `compare --set`)."""

    config: tuple[str | None, ...] = (None,)
    plugins: tuple[tuple[str, ...], ...] = ((),)
    node_pools: tuple[tuple[str, ...], ...] = ((),)
    autoscaler: tuple[str, ...] = ("auto",)
    emulated_version: tuple[str | None, ...] = (None,)
    set: dict[str, tuple[Any, ...]] = {}


class SweepToday(_Strict, frozen=True):
    """What the candidates are compared with: the scheduler and the autoscaler as they are."""

    config: str | None = None
    plugins: tuple[str, ...] = ()
    autoscaler: str = "auto"
    emulated_version: str | None = None


class SweepSearch(_Strict, frozen=True):
    """A search with a budget, instead of the whole grid: so many candidates, chosen by Optuna."""

    trials: int
    seed: int = 0


class SweepPlan(_Strict, frozen=True):
    """The contents of a sweep's file. Paths in it are relative to its folder."""

    histories: tuple[str, ...]
    candidates: SweepCandidates = SweepCandidates()
    now: SweepToday = SweepToday()
    seeds: tuple[int, ...] = (0,)
    prices: str | None = None
    models: str | None = None
    objectives: tuple[str, ...] = ("node_hours",)
    search: SweepSearch | None = None


class SweptChoice(msgspec.Struct, frozen=True, order=True):
    """One way to schedule: a point of the grid. `settings`: paths and values in YAML. `now`: whether it is today's."""

    config: str | None
    plugins: tuple[str, ...]
    node_pools: tuple[str, ...]
    autoscaler: str
    emulated_version: str | None
    settings: tuple[tuple[str, str], ...]
    now: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the choice, for people."""
        files = [Path(each).name for each in (self.config, *self.plugins) if each]
        pools = [pool.split(",", 1)[0].removeprefix("name=") for pool in self.node_pools]
        others = [each for each in (self.autoscaler, self.emulated_version) if each]
        return (*(f"{path}={value}" for path, value in self.settings), *files, *pools, *others)

    @property
    def label(self) -> str:
        """A name for people."""
        return "now" if self.now else ", ".join(self.parts)


class SweepTask(msgspec.Struct, frozen=True):
    """One simulation: a choice, on a history, with a seed. `files`: the digests of the files that it depends on."""

    choice: SweptChoice
    history: str
    seed: int
    prices: str | None
    models: str | None
    folder: str
    files: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The name of its result. Another one if anything that it depends on has changed."""
        relevant = msgspec.structs.replace(self, folder="")
        return hashlib.sha256(msgspec.json.encode(relevant)).hexdigest()[:20]

    def path(self, name: str) -> Path:
        """A path of the sweep's file."""
        return Path(self.folder) / name


def read_plan(path: Path) -> SweepPlan:
    """Read a sweep's file. Raises BacktestError."""
    try:
        plan = msgspec.convert(read_yaml(path), SweepPlan)
    except ManifestError as error:
        raise BacktestError(str(error)) from None
    except msgspec.ValidationError as error:
        raise BacktestError(f"{path}: {error}") from None
    if not plan.histories or not plan.seeds or not plan.objectives:
        raise BacktestError(f"{path}: histories, seeds and objectives must not be empty")
    for name in plan.objectives:
        if name not in MEASURES:
            raise BacktestError(f"{path}: objectives: unknown measure {name!r}{or_known(name, MEASURES)}")
    if "cost_dollars" in plan.objectives and plan.prices is None:
        raise BacktestError(f"{path}: objectives: cost_dollars needs prices")
    for name, values in axes(plan).items():
        if not values:
            raise BacktestError(f"{path}: candidates: {name} must not be empty")
    return plan


def axes(plan: SweepPlan) -> Mapping[str, tuple[Any, ...]]:
    """What is varied, by name: the fields of a choice, and `set PATH` for each setting."""
    varied = plan.candidates
    found: dict[str, tuple[Any, ...]] = {
        "config": varied.config,
        "plugins": varied.plugins,
        "node_pools": varied.node_pools,
        "autoscaler": varied.autoscaler,
        "emulated_version": varied.emulated_version,
    }
    return found | {f"set {path}": values for path, values in varied.set.items()}


def choice_of(values: Mapping[str, Any]) -> SweptChoice:
    """The choice with a value of each axis."""
    fields = {name: value for name, value in values.items() if not name.startswith("set ")}
    settings = tuple(
        (name.removeprefix("set "), yaml.safe_dump(value, default_flow_style=True).splitlines()[0])
        for name, value in values.items()
        if name.startswith("set ")
    )
    return SweptChoice(**fields, settings=settings)


def grid(plan: SweepPlan) -> Iterator[SweptChoice]:
    """All choices of the grid, in order."""
    names = axes(plan)
    for values in itertools.product(*names.values()):
        yield choice_of(dict(zip(names, values, strict=True)))


def today(plan: SweepPlan) -> SweptChoice:
    """The choice that the others are compared with."""
    now = plan.now
    return SweptChoice(now.config, now.plugins, (), now.autoscaler, now.emulated_version, (), now=True)


def tasks_of(plan: SweepPlan, choice: SweptChoice, folder: Path) -> list[SweepTask]:
    """The simulations of a choice. Raises BacktestError for a file that can't be read."""
    names = [each for each in (choice.config, plan.prices, plan.models, *choice.plugins) if each]
    files = tuple((name, _digest(folder / name.partition(":")[0])) for name in names)
    return [
        SweepTask(choice, history, seed, plan.prices, plan.models, str(folder), (*files, _history(folder / history)))
        for history in plan.histories
        for seed in plan.seeds
    ]


def _digest(path: Path) -> str:
    if path.suffix not in {".py", ".yaml", ".yml", ".json"}:
        return ""  # a module
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BacktestError(f"{path}: {error.strerror or error}") from None


def _history(folder: Path) -> tuple[str, str]:
    try:
        return "history", hashlib.sha256((folder / "history.json").read_bytes()).hexdigest()
    except OSError as error:
        raise BacktestError(f"{folder} is no history: history.json: {error.strerror or error}") from None
