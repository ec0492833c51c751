"""`bayplan perf`: the Kubernetes scheduler benchmark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console

from bayplan.benchmarking.cluster_run import BAYPLAN, EXTERNAL, NULL, Target, run_on_cluster
from bayplan.benchmarking.core import Profiler, run_on_core
from bayplan.benchmarking.measurement import Measurement
from bayplan.benchmarking.selection import labelled, matching, named, names_of
from bayplan.benchmarking.templates import BenchmarkError, Unsupported
from bayplan.benchmarking.workload_run import Report
from bayplan.benchmarking.workloads import Workload, find_configs, read_workloads
from bayplan.core.config import ConfigurationError
from bayplan.faces.cli import perf_output
from bayplan.faces.cli.perf_output import PerfResults
from bayplan.foundations.heap import keep_heap
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.benchmarking import profiling


EXIT_FAILED = 1
EXIT_UNREADABLE = 2
CORE, DEVCLUSTER = "core", "devcluster"


@click.command()
@click.option(
    "--on",
    "target",
    type=click.Choice([CORE, DEVCLUSTER]),
    help="Run the decision core in memory, or `bayplan run` on an embedded API server.  [default: core]",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Run `bayplan run` on an existing cluster instead, without other nodes, and delete the objects at the end.",
)
@click.option(
    "--place",
    "folder",
    envvar="BAYPLAN_SCHEDULER_PERF",
    type=click.Path(path_type=Path),
    help="The directory test/integration/scheduler_perf of Kubernetes. Default: BAYPLAN_SCHEDULER_PERF.",
)
@click.option("--label", "labels", help="Only workloads with these labels, as in performance,-short.")
@click.option("--match", "pattern", help="Only workloads that match this regular expression, like `go test -bench`.")
@click.option(
    "--compare",
    metavar="NAME,...",
    help="Also run with other schedulers: null, which binds round robin, or external:NAME, which is running already.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="How often to run each workload.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(perf_output.FORMATS)),
    default=perf_output.TABLE,
    show_default=True,
    help="json prints the DataItems of scheduler_perf.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Profile the scheduler with pyinstrument: a page (FILE.html), or a flame graph for speedscope (FILE.json).",
)
@click.argument("config", metavar="CONFIG_OR_TOPIC")
@click.argument("patterns", nargs=-1, metavar="WORKLOAD...")
def perf(
    target: str | None,
    kubeconfig: Path | None,
    folder: Path | None,
    labels: str | None,
    pattern: str | None,
    compare: str | None,
    repeat: int,
    form: str,
    profile: Path | None,
    config: str,
    patterns: tuple[str, ...],
) -> None:
    """Run workloads of Kubernetes' scheduler_perf and print the throughput in pods per second.

    CONFIG_OR_TOPIC is a performance-config.yaml, the name of its topic, or a folder with several of them. A WORKLOAD is
    `TestCase/Workload` or a TestCase, with * as a wildcard. If nothing selects workloads, they are listed.

    The exit status is 1 if a workload failed, or needs something that Bayplan lacks, and 2 if nothing could run.
    Workloads that need a feature gate that Kubernetes disables by default are skipped.
    """
    if kubeconfig is not None and target is not None:
        raise click.UsageError("--on and --kubeconfig exclude each other")
    on_core = kubeconfig is None and target in {None, CORE}
    schedulers = _schedulers(compare, on_core=on_core, kubeconfig=kubeconfig)
    try:
        workloads = [each for path in find_configs(config, folder) for each in read_workloads(path)]
        if not (patterns or labels or pattern):
            click.echo("\n".join(workload.name for workload in workloads))
            return
        selected = _selected(workloads, patterns, labels, pattern)
    except (BenchmarkError, ConfigurationError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    _check_profile(profile, selected)
    outcome = PerfResults("core" if on_core else "cluster")
    with _progress() as report:
        for workload in selected:
            gates = workload.unusual_gates
            if gates:
                outcome.skipped.append(
                    f"{workload.name}: needs {', '.join(gates)}, which Kubernetes disables by default"
                )
                continue
            for scheduler in schedulers * repeat:
                try:
                    if on_core:
                        measured = _run_on_core(workload, report, profile)
                    else:
                        place = Target(kubeconfig, profile if scheduler == BAYPLAN else None)
                        measured = run_on_cluster(workload, place, scheduler, report)
                except Unsupported as error:
                    outcome.failed.append(f"{workload.name}: needs {error}, which Bayplan does not support")
                except (BenchmarkError, ConfigurationError) as error:
                    outcome.failed.append(str(error))
                else:
                    outcome.measured += [(scheduler, each) for each in measured]
    perf_output.FORMATS[form](outcome)
    for line in outcome.skipped:
        click.echo(f"Skipped {line}.", err=True)
    for line in outcome.failed:
        click.echo(f"Error: {line}", err=True)
    sys.exit(EXIT_FAILED if outcome.failed else 0)


def _schedulers(compare: str | None, *, on_core: bool, kubeconfig: Path | None) -> list[str]:
    """The schedulers to run, Bayplan first. Raises UsageError."""
    others = [each.strip() for each in (compare or "").split(",") if each.strip()]
    for other in others:
        if on_core:
            raise click.UsageError("--compare needs an API server: add --on devcluster or --kubeconfig")
        if other.startswith(EXTERNAL) and other != EXTERNAL:
            if kubeconfig is None:
                raise click.UsageError(f"--compare {other} needs --kubeconfig: the cluster that this scheduler runs on")
        elif other != NULL:
            raise click.UsageError(f"--compare {other!r}: expected null or external:NAME")
    return [BAYPLAN, *others]


def _selected(
    workloads: Sequence[Workload], patterns: Sequence[str], labels: str | None, pattern: str | None
) -> list[Workload]:
    """The workloads that all options select. Raises BenchmarkError if there are none."""
    found = named(workloads, patterns) if patterns else list(workloads)
    if labels:
        found = list(filter(labelled(labels), found))
    if pattern:
        found = list(filter(matching(pattern), found))
    if not found:
        raise BenchmarkError(f"no workload matches; {names_of(workloads)}")
    return found


def _check_profile(profile: Path | None, selected: Sequence[Workload]) -> None:
    if profile is None:
        return
    if len(selected) > 1:
        raise click.UsageError(f"--profile needs a single workload, and {len(selected)} are selected")
    if profile.suffix not in {".html", ".json"}:
        raise click.UsageError(f"--profile {profile}: expected a file name that ends with .html or .json")
    if find_spec("pyinstrument") is None:
        raise click.UsageError("--profile needs pyinstrument: install bayplan[perf]")


def _run_on_core(workload: Workload, report: Report, profile: Path | None) -> list[Measurement]:

    keep_heap()  # as `bayplan run` does
    profiler: Profiler = nullcontext if profile is None else partial(profiling.profiling, profile)
    return run_on_core(workload, report, profiler)


def _progress() -> AbstractContextManager[Report]:
    """What to report progress with: a line that changes on a terminal, or else a line for each workload."""
    console = Console(stderr=True, highlight=False)
    return _changing_line(console) if console.is_terminal else _line_per_workload()


@contextmanager
def _changing_line(console: Console) -> Iterator[Report]:
    with console.status("") as status:
        yield status.update


@contextmanager
def _line_per_workload() -> Iterator[Report]:
    seen: set[str] = set()

    def report(text: str) -> None:
        name = text.partition(":")[0]
        if name not in seen:
            seen.add(name)
            click.echo(f"{name} ...", err=True)

    yield report
