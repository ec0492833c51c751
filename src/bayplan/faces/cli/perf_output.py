"""Prints the results of `bayplan perf`: as a table, as CSV, or as scheduler_perf's DataItems."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

import click
from rich.console import Console
from rich.table import Table

from bayplan.benchmarking.cluster_run import BAYPLAN
from bayplan.benchmarking.measurement import PERCENTILES, RESULTS, Measurement, data_items, percentile

TABLE, CSV, JSON = "table", "csv", "json"

_NOTES = {
    "core": (
        "On core: decode, handle events, schedule, assume and reserve, in memory. Seconds without work don't count, "
        "nor do the queue's steps for a pod that is scheduled at once."
    ),
    "cluster": "On a cluster: from the API server's watch, in real seconds.",
}


@dataclass(slots=True)
class PerfResults:
    """All results. `place`: core or cluster. `measured`: with the scheduler that ran."""

    place: str
    measured: list[tuple[str, Measurement]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def _print_table(outcome: PerfResults) -> None:
    if not outcome.measured:
        return
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 200
    compared = {scheduler for scheduler, _ in outcome.measured} != {BAYPLAN}
    table = Table(box=None, pad_edge=False)
    table.add_column("workload", no_wrap=True)
    if compared:
        table.add_column("scheduler")
    names = ["seconds", "pods", "pods/s", *(f"p{percent}" for percent in PERCENTILES)]
    names += ["attempt p50", "p99", "attempts/pod"]
    if outcome.place == "cluster":
        names.append("writes/pod")
    for name in names:
        table.add_column(name, justify="right")
    for scheduler, measured in outcome.measured:
        table.add_row(measured.name, *([scheduler] if compared else []), *_cells(measured)[: len(names)])
    console.print(table)
    console.print(_NOTES[outcome.place])
    for line in _ratios(outcome):
        console.print(line)


def _cells(measured: Measurement) -> list[str]:
    throughputs = sorted(measured.throughputs())
    rates = [f"{percentile(throughputs, percent):,.0f}" if throughputs else "-" for percent in PERCENTILES]
    attempts = measured.attempts.get(RESULTS[0])
    known = attempts is not None and attempts.count
    durations = [f"{attempts.quantile(each) * 1e6:,.0f} µs" if attempts and known else "-" for each in (0.5, 0.99)]
    first = [f"{measured.seconds:.1f}", str(measured.scheduled), f"{measured.average:,.0f}"]
    per_pod = (measured.attempts_per_pod, measured.writes_per_pod)
    return [*first, *rates, *durations, *("-" if each is None else f"{each:.1f}" for each in per_pod)]


def _ratios(outcome: PerfResults) -> list[str]:
    """Bayplan's average of each measurement, divided by those of the other schedulers."""
    averages: dict[str, dict[str, list[float]]] = {}
    for scheduler, measured in outcome.measured:
        averages.setdefault(measured.name, {}).setdefault(scheduler, []).append(measured.average)
    lines = []
    for name, by_scheduler in averages.items():
        own = fmean(by_scheduler.get(BAYPLAN, [0.0]))
        for scheduler, others in by_scheduler.items():
            if scheduler != BAYPLAN and fmean(others):
                lines.append(f"{name}: {BAYPLAN} / {scheduler} = {own / fmean(others):.2f}")
    return lines


def _print_csv(outcome: PerfResults) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    percentiles = [f"pods/s p{percent}" for percent in PERCENTILES]
    rest = ["attempt p50 (s)", "attempt p99 (s)", "attempts/pod", "writes/pod"]
    writer.writerow(["workload", "scheduler", "pods", "seconds", "pods/s", *percentiles, *rest])
    for scheduler, measured in outcome.measured:
        throughputs = sorted(measured.throughputs())
        rates = [f"{percentile(throughputs, percent):.1f}" if throughputs else "" for percent in PERCENTILES]
        attempts = measured.attempts.get(RESULTS[0])
        known = attempts is not None and attempts.count
        durations = [f"{attempts.quantile(each):.6f}" if attempts and known else "" for each in (0.5, 0.99)]
        seconds, average = f"{measured.seconds:.3f}", f"{measured.average:.1f}"
        per_pod = (measured.attempts_per_pod, measured.writes_per_pod)
        last = [*durations, *("" if each is None else f"{each:.2f}" for each in per_pod)]
        writer.writerow([measured.name, scheduler, measured.scheduled, seconds, average, *rates, *last])


def _print_json(outcome: PerfResults) -> None:
    compared = {scheduler for scheduler, _ in outcome.measured} != {BAYPLAN}
    items = [
        item
        for scheduler, measured in outcome.measured
        for item in measured.items(**({"Scheduler": scheduler} if compared else {}))
    ]
    click.echo(json.dumps(data_items(items), indent=2))


FORMATS: dict[str, Callable[[PerfResults], None]] = {TABLE: _print_table, CSV: _print_csv, JSON: _print_json}
