"""One simulation of a sweep, as a row of its table."""

from __future__ import annotations

from typing import Any

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.new_pools import parse_pool
from bayplan.answers.backtest.running import FleetChoice, SimulatedScheduler, SimulationRun, open_history
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.backtest.simulated import simulated
from bayplan.answers.insight.prices import Prices
from bayplan.answers.simulation.models.parameters import Parameters, read_parameters
from bayplan.answers.sweeps.plan import SweepTask
from bayplan.core.config import load_plugins, read_configuration
from bayplan.core.versions import OLDEST, emulated_version, gates_of, with_gangs

SweepRow = dict[str, Any]
"""The columns of a run: what was chosen, and what was measured."""


def scheduler_of(task: SweepTask) -> SimulatedScheduler:
    """The scheduler of a task. Raises BacktestError, ConfigurationError or PluginLoadError."""
    choice = task.choice
    version = OLDEST if choice.emulated_version is None else emulated_version(choice.emulated_version)
    gates = with_gangs(gates_of(version))
    plugins = load_plugins([str(task.path(each)) if ".py" in each else each for each in choice.plugins])
    configuration = None
    if choice.config is not None:
        reading = read_configuration(task.path(choice.config), plugins, gates_of(version))
        configuration, plugins = reading.configuration, list(reading.plugins)
    settings = [f"{path}={value}" for path, value in choice.settings]
    return SimulatedScheduler(with_settings(configuration, plugins, settings, gates), plugins, gates)


def run_task(task: SweepTask) -> SweepRow:
    """Simulate. Raises BacktestError, ConfigurationError, PluginLoadError or ParametersError."""
    choice = task.choice
    prices = Prices({}) if task.prices is None else Prices.read(task.path(task.prices))
    models = Parameters() if task.models is None else read_parameters(task.path(task.models))
    base = SimulationRun(parameters=models, prices=prices, seed=task.seed)
    run = base.but(scheduler_of(task), FleetChoice(choice.autoscaler, tuple(map(parse_pool, choice.node_pools))))
    history = open_history(task.path(task.history))
    found = simulated(history, Lookahead(history, run.prices.of), run).result
    return {
        "key": task.key,
        "choice": choice.label,
        "now": choice.now,
        "history": task.history,
        "seed": task.seed,
        "config": choice.config,
        "plugins": ",".join(choice.plugins),
        "node_pools": " ".join(choice.node_pools),
        "autoscaler": choice.autoscaler,
        "emulated_version": choice.emulated_version,
        **{f"set.{path}": value for path, value in choice.settings},
        "nodes_average": found.nodes,
        "nodes_most": found.most_nodes,
        "node_hours": found.node_hours,
        "empty_nodes_average": found.empty_nodes,
        "cpu_requested_share": found.utilization.cpu,
        "memory_requested_share": found.utilization.memory,
        "stranded_cpu_share": found.utilization.stranded_cpu,
        "stranded_memory_share": found.utilization.stranded_memory,
        "cost_dollars": found.cost,
        "wait_p50_seconds": found.waits.p50,
        "wait_p95_seconds": found.waits.p95,
        "wait_p99_seconds": found.waits.p99,
        "evictions": found.evicted,
        "never_placed": found.never_placed,
        "largest_zone_share": None if found.widest is None else found.widest.share,
        "pods_placed": found.placed,
    }
