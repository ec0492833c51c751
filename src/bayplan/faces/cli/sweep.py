"""`bayplan sweep`: many schedulers and node pools on the load of a history."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.backtest_options import LIMITS, replay_errors, write_text
from bayplan.faces.cli.insight.answering import show
from bayplan.faces.cli.insight.cluster_options import DEFAULT_LIMIT
from bayplan.faces.cli.insight.messages import errors_reported
from bayplan.faces.cli.insight.progress import interruptible
from bayplan.faces.cli.shared_options import YAML_FILE
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import limited
    from bayplan.answers.backtest import report as backtest_report
    from bayplan.answers.simulation import usual
    from bayplan.answers.sweeps import plan as sweep_plan
    from bayplan.answers.sweeps import plot, results, runs
    from bayplan.answers.sweeps import sweep as sweeping
    from bayplan.answers.sweeps import workers as sweep_workers
    from bayplan.core import config
    from bayplan.core.config import writing


if TYPE_CHECKING:
    from bayplan.answers.sweeps.plan import SweepTask


@click.command()
@click.argument("file", metavar="FILE", type=YAML_FILE)
@click.option(
    "--to", "folder", required=True, metavar="DIR", help="Where the runs are written: a folder, s3://, gs://."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes. Default: one for each core.")
@click.option(
    "--ray", metavar="ADDRESS", help="Simulate on a Ray cluster: its address, or auto. Needs the extra `ray`."
)
@click.option("--best-config", metavar="FILE", help="Write the KubeSchedulerConfiguration of the best choice.")
@click.option("--report", metavar="FILE", help="Write a plot of the first two objectives, in HTML.")
@click.option("--limit", type=click.IntRange(0), default=DEFAULT_LIMIT, show_default=True, help="Rows; 0: all.")
@LIMITS[0]
@LIMITS[1]
@click.option("-o", "--output", type=click.Choice(("table", "wide", "json")), default="table", show_default=True)
def sweep(
    file: str,
    folder: str,
    jobs: int | None,
    ray: str | None,
    best_config: str | None,
    report: str | None,
    limit: int,
    call_seconds: float,
    memory: int,
    output: str,
) -> None:
    """Simulate the choices of FILE on histories, and show which are best.

    FILE names histories and seeds, what is varied (configurations, settings, plugins, node pools, autoscalers), and
    what is to be low. Each run is written when it ends: the same command goes on after it was killed, and simulates
    only what is missing or has changed. DIR/runs.parquet has all runs as one table. docs/sweep.md describes the file.
    """
    with errors_reported(), replay_errors():
        if ray is not None and jobs is not None:
            raise click.UsageError("--jobs are processes of this machine: use it without --ray")
        plan = sweep_plan.read_plan(Path(file))
        if report is not None:
            backtest_report.check_libraries()
        limits = limited.RunLimits(call_seconds, memory)
        workers = (
            sweep_workers.LocalWorkers(jobs or os.cpu_count() or 1, limits)
            if ray is None
            else sweep_workers.RayWorkers(ray, limits)
        )
        with interruptible("Sweeping") as progress:
            running = sweeping.Sweep(
                plan, Path(file).absolute().parent, workers, results.SweepResults(folder), progress
            )
            found = running.run(limit)
        if report is not None:
            write_text("--report", report, plot.plot(found))
        if best_config is not None:
            write_text("--best-config", best_config, _configuration(running.best()))
        show(found, output)


def _configuration(task: SweepTask) -> str:

    scheduler = runs.scheduler_of(task)
    configuration = scheduler.configuration or usual.usual_configuration(scheduler.plugins, scheduler.gates)
    return writing.to_yaml(configuration, config.Catalog(scheduler.plugins, scheduler.gates))
