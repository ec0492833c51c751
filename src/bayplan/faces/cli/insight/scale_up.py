"""`bayplan scale-up`: how many nodes of which pool would be enough."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.scale_up import AskScaleUp
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.files import dollars_in
from bayplan.faces.cli.insight.fit import documents_in
from bayplan.faces.cli.insight.question_options import question_options

EXIT_NOT_ENOUGH = 1


@click.command("scale-up")
@question_options(AskScaleUp)
@yes_option
@cluster_options
def scale_up(
    asked: AskedCluster,
    objects: tuple[str, ...],
    pools: tuple[str, ...],
    most: int,
    prices: str | None,
    *,
    yes: bool,
) -> None:
    """Show how many new nodes of which pool would be enough for what is pending, or for the pods of manifests.

    New nodes are like those that a pool has: as large, with the labels, taints, devices and DaemonSets of one of them.
    Pods are not preempted. -n and -l choose pending pods. Exits with 0 if all pods would be placed, with 1 if some
    would not, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    question = AskScaleUp(
        objects=list(documents_in(asked, objects)) if objects else None,
        namespace=asked.namespace,
        selector=asked.labels,
        pools=list(pools),
        most=most,
        prices=dollars_in(prices),
    )
    if not answer(asked, question.ask, doing="Adding nodes", yes=yes).fits:
        raise SystemExit(EXIT_NOT_ENOUGH)
