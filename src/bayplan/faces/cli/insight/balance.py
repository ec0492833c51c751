"""`bayplan balance`: how evenly a cluster is used, and what still fits."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.balance import AskBalance
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.explain import pod_key
from bayplan.faces.cli.insight.fit import documents_in
from bayplan.faces.cli.insight.question_options import question_options


@click.command()
@question_options(AskBalance)
@yes_option
@cluster_options
def balance(asked: AskedCluster, like: str | None, objects: tuple[str, ...], most: int, *, yes: bool) -> None:
    """Show what is requested by resource, zone, pool and node, and what still fits.

    Stranded is what is free on nodes that a typical pod does not fit on for another reason: cpu where no memory is
    left. The typical pod has the median requests of the cluster's pods. The largest pods have the typical proportions,
    or the most of one resource with typical requests for cpu and memory. They and the gang are tried by scheduling.
    """
    if like is not None and objects:
        raise click.UsageError("--like and --filename: expected one of them")
    key = None if like is None else pod_key(asked, like)
    documents = list(documents_in(asked, objects)) if objects else []
    answer(asked, AskBalance(like=key, objects=documents, most=most).ask, yes=yes)
