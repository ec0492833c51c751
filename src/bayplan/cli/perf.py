"""`bayplan perf`: the Kubernetes scheduler benchmark."""

from __future__ import annotations

import cProfile
import pstats
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Column, Table

from bayplan.cli.heap import keep_heap
from bayplan.config import ConfigurationError
from bayplan.testing.scheduler_perf.core import Measurement, run_workload
from bayplan.testing.scheduler_perf.templates import BenchmarkError, Unsupported
from bayplan.testing.scheduler_perf.workloads import find_config, read_workloads, select

EXIT_SKIPPED = 1
EXIT_UNREADABLE = 2


@click.command()
@click.option("--on", "target", type=click.Choice(["core"]), default="core", show_default=True, help="What to run.")
@click.option(
    "--place",
    "folder",
    envvar="BAYPLAN_SCHEDULER_PERF",
    type=click.Path(path_type=Path),
    help="The directory test/integration/scheduler_perf of Kubernetes. Default: BAYPLAN_SCHEDULER_PERF.",
)
@click.option("--profile", "profiled", is_flag=True, help="Print a CPU profile.")
@click.argument("config", metavar="CONFIG_OR_TOPIC")
@click.argument("patterns", nargs=-1, metavar="WORKLOAD...")
def perf(target: str, folder: Path | None, *, profiled: bool, config: str, patterns: tuple[str, ...]) -> None:
    """Run workloads of a performance-config.yaml and print the throughput in pods per second.

    A WORKLOAD is `TestCase/Workload` or a TestCase, with * as a wildcard. Without any, they are listed. On `core`, a
    pod is decoded, scheduled and assumed, and what its plugins reserve is written, all in memory. The exit status is 1
    if an unsupported workload was skipped, and 2 if a file cannot be read.
    """
    keep_heap()  # as `bayplan run` does
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 160
    try:
        workloads = read_workloads(find_config(config, folder))
        if not patterns:
            for workload in workloads:
                click.echo(workload.name)
            return
        table = Table(
            Column("workload", no_wrap=True),
            "pods",
            "pending",
            "pods/s",
            "median",
            "minimum",
            "p50",
            "p99",
            box=None,
            pad_edge=False,
        )
        skipped: list[str] = []
        for workload in select(workloads, patterns):
            try:
                measured = run_workload(workload, _profile if profiled else None)
            except Unsupported as error:
                skipped.append(f"{workload.name}: needs {error}")
                continue
            table.add_row(workload.name, *_row(measured))
    except (BenchmarkError, ConfigurationError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    if table.row_count:
        console.print(table)
        console.print(f"On {target}: decode, schedule, assume and reserve, in memory. p50 and p99 are for one pod.")
    for line in skipped:
        console.print(f"Skipped {line}, which is not supported on {target}.", markup=False)
    sys.exit(EXIT_SKIPPED if skipped else 0)


def _row(measured: Measurement) -> list[str]:
    samples = measured.throughputs()
    if not samples:
        return ["0", "0", "-", "-", "-", "-", "-"]
    return [
        str(measured.scheduled),
        str(measured.unschedulable),
        f"{measured.average:,.0f}",
        f"{statistics.median(samples):,.0f}",
        f"{min(samples):,.0f}",
        f"{measured.latency(50) * 1e6:,.0f} µs",
        f"{measured.latency(99) * 1e6:,.0f} µs",
    ]


def _profile(measured: Callable[[], None]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(measured)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
