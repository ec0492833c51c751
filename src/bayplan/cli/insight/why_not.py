"""`bayplan why-not`: everything between a pod and a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bayplan.cli.insight.answering import answer
from bayplan.cli.insight.cluster_options import Asked, cluster_options
from bayplan.cli.insight.explain import pod_key
from bayplan.cli.insight.progress import interruptible

if TYPE_CHECKING:
    from bayplan.insight import Insight, WhyNot


@click.command("why-not")
@click.argument("pod")
@click.argument("node")
@cluster_options
def why_not(asked: Asked, pod: str, node: str) -> None:
    """Show everything that keeps POD from NODE, and what would help."""
    if asked.selector is not None:
        raise click.UsageError("--selector: expected the name of a pod only")
    key = pod_key(asked, pod)

    def ask(insight: Insight) -> WhyNot:
        with interruptible("Explaining") as progress:
            return insight.why_not(key, node.removeprefix("node/"), progress=progress)

    answer(asked, ask)
