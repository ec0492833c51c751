"""`bayplan shrink`: which nodes can go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Progress
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.questions.shrink import Shrink


@click.command()
@click.option("--delete-emptydir-data", is_flag=True, help="Let nodes go even if there are pods using emptyDir.")
@click.option("--force", is_flag=True, help="Let nodes go even if there are pods that do not declare a controller.")
@cluster_options
def shrink(asked: AskedCluster, **flags: bool) -> None:
    """Show the largest set of nodes found that can go with every pod still placed, and what holds each other node.

    The least used nodes are tried first: a node can go if its pods may be evicted and all get another node without
    preemption. -l LABELS limits the nodes that may go. Ctrl-C shows what is known so far.
    """
    selector = asked.selector

    def ask(insight: Insight, progress: Progress) -> Shrink:
        return insight.shrink(
            lambda labels: selector is None or selector.matches(labels),
            **flags,
            shown=asked.limit,
            progress=progress,
        )

    answer(asked, ask, doing="Trying nodes")
