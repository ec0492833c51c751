"""`bayplan usage`: who uses the cluster."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.usage import AskUsage, Grouping
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, state_options
from bayplan.faces.cli.insight.question_options import question_options


@click.command()
@question_options(AskUsage)
@state_options
def usage(asked: AskedCluster, by: tuple[Grouping, ...]) -> None:
    """Show what pods request, by namespace, workload and priority, with the share of what the nodes have.

    Pods with a node count, those without one have a column of their own. -n and -l choose pods.
    """
    answer(asked, AskUsage(namespace=asked.namespace, selector=asked.labels, by=list(by)).ask)
