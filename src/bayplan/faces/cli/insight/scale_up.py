"""`bayplan scale-up`: how many nodes of which pool would be enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.fit import documents_in, manifests_option
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.shared_options import YAML_FILE
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import prices


if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Progress
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.questions.scale_up import ScaleUp
    from bayplan.core.cluster.pod_info import PodInfo

EXIT_NOT_ENOUGH = 1


@click.command("scale-up")
@manifests_option(
    "A manifest in YAML or JSON, a folder of these, or - for standard input, whose pods need nodes. May be repeated. "
    "Default: the pending pods of the cluster."
)
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="A pool that may grow. May be repeated.")
@click.option(
    "--max-nodes", type=click.IntRange(1), default=1000, show_default=True, help="The most new nodes of a pool."
)
@click.option(
    "--prices",
    type=YAML_FILE,
    metavar="FILE",
    help="Dollars for an hour by instance type or pool, in YAML: of pools that help as many pods, the cheapest counts.",
)
@yes_option
@cluster_options
def scale_up(
    asked: AskedCluster,
    files: tuple[str, ...],
    pools: tuple[str, ...],
    max_nodes: int,
    prices: str | None,
    *,
    yes: bool,
) -> None:
    """Show how many new nodes of which pool would be enough for what is pending, or for the pods of manifests.

    New nodes are like those that a pool has: as large, with the labels, taints, devices and DaemonSets of one of them.
    Pods are not preempted. -n and -l choose pending pods. Exits with 0 if all pods would be placed, with 1 if some
    would not, and with 2 for bad input. Ctrl-C shows what is known so far.
    """
    documents = list(documents_in(asked, files)) if files else None

    def matches(pod: PodInfo) -> bool:
        return asked.namespace in {None, pod.namespace} and asked.selects(pod)

    price_of = _price_of(prices)

    def ask(insight: Insight, progress: Progress) -> ScaleUp:
        return insight.scale_up(
            documents,
            matches,
            pools=pools,
            most=max_nodes,
            price_of=price_of,
            shown=asked.limit,
            progress=progress,
        )

    if not answer(asked, ask, doing="Adding nodes", yes=yes).fits:
        raise SystemExit(EXIT_NOT_ENOUGH)


def _price_of(file: str | None) -> Callable[[Mapping[str, str]], float | None]:
    """Read the prices of nodes."""
    if file is None:
        return lambda _: None

    try:
        return prices.Prices.read(Path(file)).of
    except prices.PricesError as error:
        fail(str(error))
