"""Who simulates: processes of this machine, or a Ray cluster. Either writes each run where the results are.

The driver only names tasks. A task whose worker is killed is simulated again.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

import msgspec

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.limited import RunLimits, can_fork, run_limited
from bayplan.answers.history.format import HistoryError
from bayplan.answers.simulation.models.parameters import ParametersError
from bayplan.answers.sweeps.plan import SweepTask
from bayplan.answers.sweeps.results import SweepResults
from bayplan.answers.sweeps.runs import SweepRow, run_task
from bayplan.core.config import ConfigurationError, PluginLoadError
from bayplan.foundations.lazy import library

_RETRIES = 3
"""How often Ray simulates a run again whose worker was killed."""


class SweepWorkers(Protocol):
    """Where the simulations of a sweep run: in processes of this machine, or on a cluster of Ray."""

    def run(self, tasks: Sequence[SweepTask], uri: str) -> Iterator[SweepRow | SweepFailure]:
        """Simulate, write each run to the results at `uri`, and yield the runs as they end. Raises BacktestError."""


class SweepFailure(msgspec.Struct, frozen=True):
    """A task that can't be simulated. `problem`: one line that names the choice."""

    key: str
    problem: str


def simulate_and_write(task: SweepTask, uri: str, limits: RunLimits) -> SweepRow | SweepFailure:
    """Simulate a task, in a process with limits if it has plugins, and write its run.

    Plugins that fail are a SweepFailure. Raises BacktestError with one line about input that can't be used.
    """
    own = bool(task.choice.plugins)
    try:
        row = run_limited(lambda _: run_task(task), limits) if own and can_fork() else run_task(task)
    except (BacktestError, HistoryError, ConfigurationError, PluginLoadError, ParametersError, ValueError) as error:
        problem = f"{task.choice.label}: {' '.join(str(error).split())}"
        if not own:
            raise BacktestError(problem) from None
        return SweepFailure(task.key, problem)
    SweepResults(uri).write(row)
    return row


class LocalWorkers:
    """Processes of this machine. `jobs`: how many. `limits`: of each, and of the plugins in it."""

    def __init__(self, jobs: int, limits: RunLimits = RunLimits()) -> None:  # noqa: B008 - it is immutable
        self._jobs = jobs
        self._limits = limits

    def run(self, tasks: Sequence[SweepTask], uri: str) -> Iterator[SweepRow | SweepFailure]:
        """Simulate in processes; a single task in this one."""
        if self._jobs == 1 or len(tasks) == 1:
            for task in tasks:
                yield simulate_and_write(task, uri, self._limits)
            return
        context = multiprocessing.get_context("spawn")  # each loads the plugins' files by itself
        with ProcessPoolExecutor(min(self._jobs, len(tasks)), mp_context=context) as pool:
            running = [pool.submit(simulate_and_write, task, uri, self._limits) for task in tasks]
            try:
                for each in as_completed(running):
                    yield each.result()
            except BrokenProcessPool:
                raise BacktestError("a process was killed; the same command goes on with what is left") from None
            finally:
                for each in running:
                    each.cancel()


class RayWorkers:
    """A Ray cluster. `address`: `auto`, `local`, or that of the head node. Raises BacktestError without Ray.

    The driver only names tasks. A task whose worker is killed is simulated again by another one.
    """

    def __init__(self, address: str, limits: RunLimits = RunLimits()) -> None:  # noqa: B008 - it is immutable
        self._limits = limits
        try:
            ray: Any = library("ray")
        except ImportError as error:
            raise BacktestError(f"--ray needs Ray ({error}): pip install 'bayplan[ray]'") from None
        self._ray = ray
        if not ray.is_initialized():
            try:
                ray.init(None if address == "local" else address, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise BacktestError(f"--ray {address}: {' '.join(str(error).split())}") from None

    def run(self, tasks: Sequence[SweepTask], uri: str) -> Iterator[SweepRow | SweepFailure]:
        """Simulate on the cluster, and yield the runs as they end."""
        remote = self._ray.remote(max_retries=_RETRIES, retry_exceptions=False)(simulate_and_write)
        left = [remote.remote(task, uri, self._limits) for task in tasks]
        while left:
            done, left = self._ray.wait(left)
            for each in done:
                try:
                    yield self._ray.get(each)
                except self._ray.exceptions.RayTaskError as error:
                    raise BacktestError(str(error.cause)) from None
                except self._ray.exceptions.RayError as error:
                    raise BacktestError(f"Ray: {' '.join(str(error).split())}") from None
