"""`bayplan history`: makes histories from audit logs, traces, Prometheus and snapshots, and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.insight.cluster_options import errors_reported, warn

if TYPE_CHECKING:
    from bayplan.history.format import Manifest
    from bayplan.insight import Snapshot

_FOLDER = click.Path(file_okay=False, path_type=Path)
_EXISTING = click.Path(exists=True, path_type=Path)


@click.group()
def history() -> None:
    """Make a history of a cluster from what you have, or look at one.

    `bayplan record` records one beside any scheduler.
    """


@history.command("import")
@click.argument("files", metavar="FILES...", nargs=-1, required=True, type=_EXISTING)
@click.option("--to", "folder", metavar="DIR", type=_FOLDER, required=True, help="The folder of the new history.")
@click.option(
    "--snapshot",
    "snapshot_file",
    metavar="PATH",
    type=_EXISTING,
    help="What is known of the cluster otherwise, such as its nodes: a saved snapshot, or files of objects.",
)
def import_(files: Sequence[Path], folder: Path, snapshot_file: Path | None) -> None:
    """Make a history from audit logs of kube-apiserver, or from a trace.

    Audit logs are JSON lines of level Request or RequestResponse, compressed or not, or the exports of EKS, GKE and
    AKS. docs/history.md describes them and the columns of traces.
    """
    from bayplan.history.sources.audit import import_audit

    with errors_reported():
        manifest, problems = import_audit(files, folder, snapshot=_snapshot(snapshot_file))
        _report(manifest, folder, problems)


@history.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
def show(folder: Path) -> None:
    """Show what a history has: its source, its time, its gaps, and what it lacks."""
    from bayplan.history.reading import History

    with errors_reported():
        found = History.open(folder)
        start = found.start()
    kinds = ", ".join(f"{len(known):,} {kind.resource}" for kind, known in start.documents.items() if known)
    click.echo(f"{found.source}{' (synthetic)' if found.synthetic else ''}{' (redacted)' if found.redacted else ''}")
    click.echo(f"  from {found.begin:%Y-%m-%d %H:%M:%S} to {found.end:%Y-%m-%d %H:%M:%S} UTC ({found.length})")
    click.echo(f"  {found.pods:,} pods in {len(found.segments):,} segments")
    click.echo(f"  at the begin: {kinds or 'nothing'}")
    for line in (*map(str, found.gaps), *found.notes):
        click.echo(f"  {line}")
    warn(found.problems)


def _snapshot(path: Path | None) -> Snapshot | None:
    from bayplan.insight import Snapshot

    return Snapshot.open(path) if path is not None else None


def _report(manifest: Manifest, folder: Path, problems: Sequence[str]) -> None:
    warn(problems)
    click.echo(
        f"Wrote {folder}: {manifest.counts.pods:,} pods and {manifest.counts.nodes:,} nodes, "
        f"{manifest.begin:%Y-%m-%d %H:%M} to {manifest.end:%Y-%m-%d %H:%M} UTC"
    )
