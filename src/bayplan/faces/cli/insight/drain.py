"""`bayplan drain`: where the pods of nodes would go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.messages import fail

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Progress
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.questions.drain import Drain

EXIT_NOT_DRAINED = 1


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--ignore-daemonsets", is_flag=True, help="Ignore DaemonSet-managed pods.")
@click.option("--delete-emptydir-data", is_flag=True, help="Continue even if there are pods using emptyDir.")
@click.option("--force", is_flag=True, help="Continue even if there are pods that do not declare a controller.")
@click.option(
    "--at-once/--one-by-one", help="Drain all nodes at the same time. Default: one after the other, as kubectl does."
)
@cluster_options
def drain(asked: AskedCluster, nodes: tuple[str, ...], **flags: bool) -> None:
    """Show what `kubectl drain` of NODEs, or of the nodes with labels (-l), would lead to.

    Shows where the pods go, which stay pending and why, and which budgets, local storage, bare pods and DaemonSets
    keep the nodes from being drained. All nodes are cordoned first. Exits with 0 if all nodes are drained and all pods
    have a node again, with 1 if not, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    selector = asked.selector
    if bool(nodes) is (selector is not None):
        raise click.UsageError("expected the names of nodes, or -l LABELS")

    def ask(insight: Insight, progress: Progress) -> Drain:
        names = [name.removeprefix("node/") for name in nodes]
        if selector is not None:
            names = insight.nodes(selector.matches)
            if not names:
                fail("no node has these labels")
        return insight.drain(names, **flags, shown=asked.limit, progress=progress)

    if not answer(asked, ask, doing="Draining").drains:
        raise SystemExit(EXIT_NOT_DRAINED)
