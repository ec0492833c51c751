"""`bayplan doctor`: what is wrong with a cluster now, on one screen."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.doctor import AskDoctor
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options


@click.command()
@cluster_options
def doctor(asked: AskedCluster) -> None:
    """Show what is wrong now: whether schedulers run, who waits and why, what holds the room, and what would help.

    Each change was tried on its own. The cluster is only read. -n chooses the namespace of the pods.
    """
    if asked.selector is not None:
        raise click.UsageError("-l chooses no pods here; use bayplan explain --all-pending")
    answer(asked, AskDoctor(namespace=asked.namespace).ask, doing="Looking")
