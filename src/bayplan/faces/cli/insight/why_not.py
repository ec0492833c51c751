"""`bayplan why-not`: everything between a pod and a node."""

from __future__ import annotations

import click

from bayplan.answers.insight.asked.why_not import AskWhyNot
from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.faces.cli.insight.explain import pod_key
from bayplan.faces.cli.insight.question_options import question_options


@click.command("why-not")
@question_options(AskWhyNot)
@cluster_options
def why_not(asked: AskedCluster, pod: str, node: str) -> None:
    """Show everything that keeps POD from NODE, and what would help."""
    if asked.selector is not None:
        raise click.UsageError("--selector: expected the name of a pod only")
    answer(asked, AskWhyNot(pod=pod_key(asked, pod), node=node).ask, doing="Explaining")
