"""`bayplan why-not`: everything between a pod and a node."""

from __future__ import annotations

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.explain import pod_key


@click.command("why-not")
@click.argument("pod")
@click.argument("node")
@cluster_options
def why_not(asked: AskedCluster, pod: str, node: str) -> None:
    """Show everything that keeps POD from NODE, and what would help."""
    if asked.selector is not None:
        raise click.UsageError("--selector: expected the name of a pod only")
    key, name = pod_key(asked, pod), node.removeprefix("node/")
    answer(asked, lambda insight, progress: insight.why_not(key, name, progress=progress), doing="Explaining")
