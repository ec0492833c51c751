"""`bayplan why-not`: everything between a pod and a node."""

from __future__ import annotations

import click

from bayplan.cli.insight.answering import answer
from bayplan.cli.insight.cluster_options import Asked, cluster_options
from bayplan.cli.insight.explain import pod_key


@click.command("why-not")
@click.argument("pod")
@click.argument("node")
@cluster_options
def why_not(asked: Asked, pod: str, node: str) -> None:
    """Show everything that keeps POD from NODE, and what would help."""
    key = pod_key(asked, pod)
    answer(asked, lambda insight: insight.why_not(key, node.removeprefix("node/")))
