"""`bayplan upgrade-preview`: what the next version of Kubernetes would decide differently on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from bayplan.answers.insight.asked.upgrade_preview import AskUpgradePreview
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.insight.question_options import question_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight.questions import upgrade_preview as preview
    from bayplan.core import versions


@click.command("upgrade-preview")
@question_options(AskUpgradePreview)
@click.option(
    "--feature-gates",
    "values",
    multiple=True,
    metavar="A=true,B=false",
    help="The feature gates of the scheduler, in both versions as far as these have them.",
)
@click.option(
    "--dashboards",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A file or folder of dashboards or alerts: name the metrics in it that end. May be repeated.",
)
@cluster_options
def upgrade_preview(asked: AskedCluster, to: str | None, values: tuple[str, ...], dashboards: tuple[Path, ...]) -> None:
    """Show what another version of Kubernetes would decide differently, and which gates and changes cause it.

    Pods are decided one by one, those of workloads as if they were created again. The cluster is only read. The exit
    status is 1 if something changes.
    """
    before = asked.gates.version
    after = preview.next_version(before)
    if to is not None:
        try:
            after = versions.emulated_version(to)
        except ValueError as error:
            fail(f"--to: {error}")
    if after is None:
        fail(
            f"Kubernetes {before} is the newest version that is known; --to names one of {', '.join(versions.VERSIONS)}"
        )
    pairs = [pair.strip() for pair in ",".join(values).split(",") if pair.strip()]
    known = {version: [pair for pair in pairs if _has(pair, version)] for version in (before, after)}
    nowhere = [pair for pair in pairs if pair not in known[before] and pair not in known[after]]
    known[before] += nowhere  # whose problem says what would be right
    reads = [versions.read_gates(known[version], version) for version in (before, after)]
    for read in reads:
        if read.problems:
            fail(f"--feature-gates: {read.problems[0]}")
    gates = [versions.with_gangs(read.gates) for read in reads]
    try:
        used = list(preview.metrics_used(dashboards, preview.gone_metrics(before, after)))
    except OSError as error:
        fail(f"--dashboards: {error}")
    answer(
        replace(asked, gates=gates[0]),
        lambda insight, progress, shown: insight.upgrade_preview(
            gates[1],
            lambda pod: asked.namespace in {None, pod.namespace} and asked.selects(pod),
            settings=[*_gone(known[before], known[after], after), *used],
            shown=shown,
            progress=progress,
        ),
        doing="Deciding",
    )


def _has(pair: str, version: str) -> bool:
    """Whether a version has the gate of `A=true`, or doesn't know it as one of the scheduler."""
    gate = versions.GATES.get(pair.removeprefix("kube:").partition("=")[0].strip())
    return gate is not None and gate.stage(version) is not None


def _gone(before: Sequence[str], after: Sequence[str], version: str) -> Iterator[str]:
    for pair in before:
        if pair not in after:
            yield f"--feature-gates {pair}: Kubernetes {version} doesn't have this gate, and refuses it"
