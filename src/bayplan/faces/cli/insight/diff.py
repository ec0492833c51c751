"""`bayplan diff`: what changes between two snapshots, or between two configurations on one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, SourceOptions, comparing_options
from bayplan.faces.cli.insight.given_manifests import documents_in
from bayplan.faces.cli.insight.messages import warn
from bayplan.faces.cli.insight.question_options import manifests_option
from bayplan.faces.cli.shared_options import FilesOfKind
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Progress
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.questions.diff import Difference
    from bayplan.answers.insight.questions.edits import Changes

_PATH = FilesOfKind("path", "")


@click.command()
@click.argument("a", required=False, type=_PATH)
@click.argument("b", required=False, type=_PATH)
@manifests_option(
    "Compare the cluster with what it is once the objects of a manifest, of a folder of these, or - for standard "
    "input, are applied. Changed workloads are rolled out."
)
@yes_option
@comparing_options(
    "The scheduler's configuration. Given twice, or once without A, compares two schedulers on one cluster; the "
    "default has the default plugins.",
    path_argument="b",
)
def diff(asked: AskedCluster, a: str | None, b: str | None, objects: tuple[str, ...], *, yes: bool) -> None:
    """Show what changes from A to B: nodes, pods that are placed, pending or on other nodes, and the utilization.

    A and B are saved snapshots, or whatever --from reads. Without B, A is compared with the cluster. Without A, two
    configurations are compared on one cluster, or the cluster with what it is once manifests are applied.
    """
    if objects:
        if a is not None or asked.other is not None:
            raise click.UsageError("--filename: expected neither snapshots nor configurations beside it")
        changes = insight.Changes(objects=list(documents_in(asked, objects)))
        names = asked.snapshot.source, ", ".join(objects)
        answer(asked, lambda first, progress, shown: _applied(first, changes, names, progress, shown), yes=yes)
        return
    configuration, plugins = asked.other or (None, asked.plugins)
    if a is None:
        if asked.other is None:
            raise click.UsageError(
                "expected two snapshots, or configurations, as in --config a.yaml --config b.yaml, or -f MANIFEST"
            )
        first, names = asked, _configurations()
    else:
        before = SourceOptions(path=a).read()
        first = replace(asked, snapshot=before, configuration=asked.configuration or configuration)
        names = a, b or asked.snapshot.source
    other = insight.Insight(asked.snapshot, configuration, plugins, seed=asked.seed, gates=asked.gates)
    if a is not None:
        warn(f"{names[1]}: {problem}" for problem in other.problems)
    answer(first, lambda insight, _, shown: insight.diff(other, names, shown=shown))


def _applied(first: Insight, changes: Changes, names: tuple[str, str], progress: Progress, shown: int) -> Difference:
    """How the cluster differs once changes are made."""
    return first.diff(first.changed(changes, progress=progress), names, shown=shown)


def _configurations() -> tuple[str, str]:
    """What the two configurations are called on the command line."""
    first, second = click.get_current_context().params["config"]
    return first or "the default configuration", second
