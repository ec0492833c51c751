"""`bayplan shrink`: which nodes can go."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.shrink import AskShrink
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.question_options import question_options


@click.command()
@question_options(AskShrink)
@cluster_options
def shrink(asked: AskedCluster, **flags: bool) -> None:
    """Show the largest set of nodes found that can go with every pod still placed, and what holds each other node.

    The least used nodes are tried first: a node can go if its pods may be evicted and all get another node without
    preemption. -l LABELS limits the nodes that may go. Ctrl-C shows what is known so far.
    """
    answer(asked, AskShrink(selector=asked.labels, **flags).ask, doing="Trying nodes")
