"""`bayplan diff`: what changes between two snapshots, or between two configurations on one."""

from __future__ import annotations

from dataclasses import replace

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, SourceOptions, comparing_options
from bayplan.faces.cli.insight.messages import warn
from bayplan.faces.cli.shared_options import FilesOfKind
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight


_PATH = FilesOfKind("path", "")


@click.command()
@click.argument("a", required=False, type=_PATH)
@click.argument("b", required=False, type=_PATH)
@comparing_options(
    "The scheduler's configuration. Given twice, or once without A, compares two schedulers on one cluster; the "
    "default has the default plugins.",
    path_argument="b",
)
def diff(asked: AskedCluster, a: str | None, b: str | None) -> None:
    """Show what changes from A to B: nodes, pods that are placed, pending or on other nodes, and the utilization.

    A and B are saved snapshots, or whatever --from reads. Without B, A is compared with the cluster. Without A, two
    configurations are compared on one cluster.
    """
    configuration, plugins = asked.other or (None, asked.plugins)
    if a is None:
        if asked.other is None:
            raise click.UsageError("expected two snapshots, or configurations, as in --config a.yaml --config b.yaml")
        first, names = asked, _configurations()
    else:
        before = SourceOptions(path=a).read()
        first = replace(asked, snapshot=before, configuration=asked.configuration or configuration)
        names = a, b or asked.snapshot.source
    other = insight.Insight(asked.snapshot, configuration, plugins, seed=asked.seed, gates=asked.gates)
    if a is not None:
        warn(f"{names[1]}: {problem}" for problem in other.problems)
    answer(first, lambda insight, _, shown: insight.diff(other, names, shown=shown))


def _configurations() -> tuple[str, str]:
    """What the two configurations are called on the command line."""
    first, second = click.get_current_context().params["config"]
    return first or "the default configuration", second
