"""`bayplan history`: makes histories from audit logs, traces, Prometheus and snapshots, and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.cluster_options import SourceOptions, source_options
from bayplan.faces.cli.insight.messages import errors_reported, warn
from bayplan.foundations.lazy import on_use
from bayplan.running.recording.places import is_recording

with on_use():
    from bayplan import insight
    from bayplan.answers.backtest import sample as sample_history
    from bayplan.answers.history import following
    from bayplan.answers.history.sources import (
        audit,
        k8shark,
        kube_state_metrics,
        kwok,
        prometheus,
        recorded,
        simkube,
        synthesis,
        trace,
    )


if TYPE_CHECKING:
    from bayplan.answers.history.format import HistoryManifest
    from bayplan.answers.snapshots import Snapshot

_FOLDER = click.Path(file_okay=False, path_type=Path)
_EXISTING = click.Path(exists=True, path_type=Path)


@click.group()
def history() -> None:
    """Make a history of a cluster from what you have, or look at one.

    `bayplan record` records one beside any scheduler.
    """


@history.command("import")
@click.argument("files", metavar="[FILES]...", nargs=-1, type=_EXISTING)
@click.option("--to", "folder", metavar="DIR", type=_FOLDER, required=True, help="The folder of the new history.")
@click.option(
    "--snapshot",
    "snapshot_file",
    metavar="PATH",
    type=_EXISTING,
    help="What is known of the cluster otherwise, such as its nodes: a saved snapshot, or files of objects.",
)
@click.option(
    "--most-pods",
    type=click.IntRange(1),
    metavar="N",
    help="The most pods of a trace; one with more is refused.  [default: 500,000]",
)
@click.option("--prometheus", "url", metavar="URL", help="Read the metrics of kube-state-metrics from this server.")
@click.option("--since", metavar="TIME", default="7d", show_default=True, help="With --prometheus: 12h, 7d, or a time.")
@click.option("--until", metavar="TIME", default="0s", help="With --prometheus: as --since. Default: now.")
@click.option(
    "--header", "headers", metavar="TEXT", multiple=True, help="With --prometheus: `Name: value`. Repeatable."
)
def import_(
    files: Sequence[Path],
    folder: Path,
    snapshot_file: Path | None,
    most_pods: int | None,
    url: str | None,
    since: str,
    until: str,
    headers: Sequence[str],
) -> None:
    """Make a history from audit logs of kube-apiserver, a trace, Prometheus, or a recording of `bayplan run --record`.

    Audit logs are JSON lines of level Request or RequestResponse, compressed or not, or the exports of EKS, GKE and
    AKS. Recordings of kwokctl, traces of SimKube and captures of k8shark can be imported, too. docs/history.md
    describes them and the columns of traces.
    """
    traces = [path for path in files if trace.is_trace(path)]
    if bool(files) == (url is not None):
        raise click.UsageError("expected either FILES or --prometheus URL")
    if traces and len(traces) < len(files):
        raise click.UsageError(f"{traces[0]} is a trace, and other files are not: import them one after the other")
    tools = (
        (kwok.is_kwok_recording, kwok.import_kwok),
        (simkube.is_simkube, simkube.import_simkube),
        (k8shark.is_k8shark, k8shark.import_k8shark),
    )
    alone = [(path, import_file) for path in files for is_of_tool, import_file in tools if is_of_tool(path)]
    if alone and len(files) > 1:
        raise click.UsageError(f"{alone[0][0]} is imported alone: import the files one after the other")
    with errors_reported():
        snapshot = _snapshot(snapshot_file)
        if alone:
            path, import_file = alone[0]
            manifest, problems = import_file(path, folder, snapshot=snapshot)
        elif len(files) == 1 and is_recording(files[0]):
            manifest, problems = recorded.import_recording(files[0], folder)
        elif url is not None:
            manifest, problems = _from_prometheus(url, folder, since, until, headers, snapshot)
        elif traces:
            most = trace.MOST_PODS if most_pods is None else most_pods
            manifest, problems = trace.import_trace(files, folder, snapshot=snapshot, most_pods=most)
        else:
            manifest, problems = audit.import_audit(files, folder, snapshot=snapshot)
        _report(manifest, folder, problems)


def _from_prometheus(
    url: str, folder: Path, since: str, until: str, headers: Sequence[str], snapshot: Snapshot | None
) -> tuple[HistoryManifest, list[str]]:

    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = _time("--since", since, now), _time("--until", until, now)
    if begin >= end:
        raise click.UsageError(f"--since {since} is not before --until {until}")
    return kube_state_metrics.import_prometheus(
        url, folder, begin, end, headers=prometheus.headers_of(headers), snapshot=snapshot
    )


def _time(option: str, text: str, now: datetime) -> datetime:
    """A time, or a time ago."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isdecimal():
        return now - timedelta(seconds=int(number) * _UNITS[unit])
    found = following.date_of(text)
    if found is None:
        raise click.UsageError(f"{option} {text!r}: expected 12h, 7d, or a time such as 2026-01-01T00:00:00Z")
    return found


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@history.command("synthesize")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option(
    "--days", type=click.FloatRange(0, 366, min_open=True), default=7.0, show_default=True, help="Its length."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses times and durations.")
@click.option(
    "--swing",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="By what share there are fewer replicas at night than at the peak of the day.",
)
@click.option(
    "--job-seconds",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="How long pods of Jobs run, where no finished Job shows it.",
)
@click.option(
    "--rollout-days",
    type=click.FloatRange(0),
    default=7.0,
    show_default=True,
    help="The average time between two rollouts of a workload. 0: none.",
)
@source_options
def synthesize_(
    source: SourceOptions, folder: Path, days: float, seed: int, swing: float, job_seconds: float, rollout_days: float
) -> None:
    """Make up a history in DIR from a snapshot alone: what its workloads would do over days.

    Replicas follow a day curve, CronJobs their schedules, and Jobs run as long as finished ones did. Every answer says
    that it is made up. The same snapshot, options and seed give the same history.
    """
    manifest, problems = synthesis.synthesize(
        source.read(), folder, synthesis.Synthesis(days, seed, swing, job_seconds, rollout_days)
    )
    _report(manifest, folder, problems)


@history.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option(
    "--days", type=click.FloatRange(0, 366, min_open=True), default=7.0, show_default=True, help="Its length."
)
def sample(folder: Path, days: float) -> None:
    """Write the sample history to DIR: a made-up week of a shop with 24 nodes, or as many days of it."""
    with errors_reported():
        _report(sample_history.write_sample(folder, days=days), folder, ())


@history.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
def show(folder: Path) -> None:
    """Show what a history has, or a recording: its source, its time, its gaps, and what it lacks."""
    with errors_reported():
        found = recorded.open_history(folder)
        start = found.start()
    kinds = ", ".join(f"{len(known):,} {kind.resource}" for kind, known in start.documents.items() if known)
    click.echo(f"{found.source}{' (synthetic)' if found.synthetic else ''}{' (redacted)' if found.redacted else ''}")
    click.echo(f"  from {found.begin:%Y-%m-%d %H:%M:%S} to {found.end:%Y-%m-%d %H:%M:%S} UTC ({found.length})")
    click.echo(f"  {found.pods:,} pods in {len(found.segments):,} segments")
    click.echo(f"  at the start: {kinds or 'nothing'}")
    for line in (*map(str, found.gaps), *found.notes):
        click.echo(f"  {line}")
    warn(found.problems)


def _snapshot(path: Path | None) -> Snapshot | None:

    return insight.Snapshot.open(path) if path is not None else None


def _report(manifest: HistoryManifest, folder: Path, problems: Sequence[str]) -> None:
    warn(problems)
    click.echo(
        f"Wrote {folder}: {manifest.counts.pods:,} pods and {manifest.counts.nodes:,} nodes, "
        f"{manifest.begin:%Y-%m-%d %H:%M} to {manifest.end:%Y-%m-%d %H:%M} UTC"
    )
