"""Simulates now and the candidate at the same time, in two processes.

The other process is a fork, because the user's plugins can't be sent to one. The results don't depend on the number of
processes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.limited import can_fork
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulationResult, SimulationRun, simulate
from bayplan.answers.history.reading import History
from bayplan.answers.simulation.timeline import TimelineObserver

_FEW = 2000
"""A history with fewer pods is simulated before another process would have started."""


def simulate_both(
    history: History,
    ahead: Lookahead,
    first: Sequence[SimulationRun],
    second: Sequence[SimulationRun],
    progress: Callable[[float], None] = lambda _: None,
    also: Sequence[TimelineObserver] = (),
) -> tuple[list[SimulationResult], list[SimulationResult]]:
    """Simulate a history with the runs of two schedulers. The results don't depend on the number of processes.

    `also`: more observers of the very first simulation.
    """
    if history.pods * len(first) < _FEW or (os.cpu_count() or 1) == 1 or not can_fork():
        both = _simulate_all(history, ahead, [*first, *second], progress, also)
        return both[: len(first)], both[len(first) :]
    # A fork has the user's plugins, which were loaded from files and can't be sent to another process.
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    other = context.Process(target=_simulate_and_send, args=(history, ahead, second, sending), daemon=True)
    other.start()
    sending.close()
    try:
        one = _simulate_all(history, ahead, first, progress, also)
        try:
            found = receiving.recv()
        except EOFError:
            raise BacktestError("the process that simulated the candidate was ended") from None
    finally:
        receiving.close()
        other.kill()
        other.join()
    if not isinstance(found, list):
        raise BacktestError(str(found))
    return one, found


def _simulate_all(
    history: History,
    ahead: Lookahead,
    runs: Sequence[SimulationRun],
    progress: Callable[[float], None] = lambda _: None,
    also: Sequence[TimelineObserver] = (),
) -> list[SimulationResult]:
    """Simulate one after the other."""

    def simulated(number: int, run: SimulationRun) -> SimulationResult:
        observers = () if number else also
        return simulate(history, ahead, run, lambda done: progress((number + done) / len(runs)), observers)

    return [simulated(number, run) for number, run in enumerate(runs)]


def _simulate_and_send(history: History, ahead: Lookahead, runs: Sequence[SimulationRun], sending: Connection) -> None:
    found: list[SimulationResult] | str
    try:
        found = _simulate_all(history, ahead, runs)
    except KeyboardInterrupt:
        return
    except Exception as error:  # noqa: BLE001 - it is reported by the parent
        found = f"{type(error).__name__}: {error}"
    sending.send(found)
    sending.close()
