"""`bayplan usage`: who uses the cluster."""

from __future__ import annotations

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, state_options


@click.command()
@click.option(
    "--by",
    type=click.Choice(("namespace", "workload", "priority")),
    multiple=True,
    help="What to sum up by. May be repeated. Default: all of them.",
)
@state_options
def usage(asked: AskedCluster, by: tuple[str, ...]) -> None:
    """Show what pods request, by namespace, workload and priority, with the share of what the nodes have.

    Pods with a node count, those without one have a column of their own. -n and -l choose pods.
    """
    answer(asked, lambda insight, _: insight.usage(asked.namespace, asked.selects, by=by, shown=asked.limit))
