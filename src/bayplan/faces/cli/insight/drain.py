"""`bayplan drain`: where the pods of nodes would go."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.drain import AskDrain
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.question_options import question_options

EXIT_NOT_DRAINED = 1


@click.command()
@question_options(AskDrain)
@cluster_options
def drain(asked: AskedCluster, nodes: tuple[str, ...], **flags: bool) -> None:
    """Show what `kubectl drain` of NODEs, or of the nodes with labels (-l), would lead to.

    Shows where the pods go, which stay pending and why, and which budgets, local storage, bare pods and DaemonSets
    keep the nodes from being drained. All nodes are cordoned first. Exits with 0 if all nodes are drained and all pods
    have a node again, with 1 if not, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    if bool(nodes) is bool(asked.labels):
        raise click.UsageError("expected the names of nodes, or -l LABELS")
    question = AskDrain(nodes=list(nodes), selector=asked.labels, **flags)
    if not answer(asked, question.ask, doing="Draining").drains:
        raise SystemExit(EXIT_NOT_DRAINED)
