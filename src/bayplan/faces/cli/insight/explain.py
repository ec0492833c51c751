"""`bayplan explain`: why pods are pending, or why a pod is on its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.insight.answering import answer
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import owners
    from bayplan.faces.cli.insight import watching


if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Answer, Progress
    from bayplan.answers.insight.insight import Insight


@click.command()
@click.argument("what", required=False, metavar="[POD | TYPE/NAME]")
@click.option("--all-pending", is_flag=True, help="Explain all pending pods, summed up by cause.")
@click.option("--watch", "follow", is_flag=True, help="Print a line whenever the reason changes, until POD has a node.")
@cluster_options
def explain(asked: AskedCluster, what: str | None, *, all_pending: bool, follow: bool) -> None:
    """Explain why a pod is pending and what would help, or why it is on its node.

    POD is a name, or NAMESPACE/NAME as the answers show it. TYPE/NAME is pod/NAME, or a workload such as
    deployment/NAME, whose pending pods are summed up by cause, with the reason why others were never created.
    """
    if (what is None) is not all_pending:
        raise click.UsageError("expected a pod, a workload such as deployment/web, or --all-pending")

    kind, name = ("all", "") if what is None else split(what)
    if asked.selector is not None and kind in _POD:
        raise click.UsageError("--selector chooses among pending pods: use it with --all-pending or TYPE/NAME")

    if follow:
        if kind not in _POD:
            raise click.UsageError("--watch follows one pod: expected a pod, as in web-0")
        if asked.source.path is not None:
            raise click.UsageError("--watch follows a cluster: use it without --from")
        watching.watch(asked, name if "/" in name else f"{asked.in_namespace}/{name}")

    def ask(insight: Insight, progress: Progress, limit: int) -> Answer:
        if what is None:
            return insight.explain_all(asked.namespace, asked.selects, shown=limit, progress=progress)
        if kind in _POD:
            key = name if "/" in name else f"{asked.in_namespace}/{name}"
            return insight.explain(key, shown=limit, nearest=min(limit, _NEAREST), progress=progress)
        return insight.explain_owner(kind, name, asked.in_namespace, asked.selects, shown=limit, progress=progress)

    answer(asked, ask, doing="Explaining")


_POD = frozenset({"pod", "pods", "po"})
_NEAREST = 10
"""Nearest misses that are shown, unless --limit asks for fewer, or for all."""


def split(reference: str) -> tuple[str, str]:
    """Return the type and the name in `NAME` or `TYPE/NAME`; the type is `pod` by default.

    For `NAMESPACE/NAME`, where the first part is no type, the type is `pod`, and the name is all of it.
    """
    kind, slash, name = reference.partition("/")
    if not slash or not kind or not name:
        if not reference or slash:
            raise click.UsageError(f"{reference!r}: expected a pod or TYPE/NAME, as in web-0 or deployment/web")
        return "pod", reference
    kind = kind.lower()
    return ("pod", reference) if owners.kind_called(kind) is None else (kind, name)


def pod_key(asked: AskedCluster, reference: str) -> str:
    """Return `namespace/name` of a pod that is given as `NAME`, `NAMESPACE/NAME` or `pod/NAME`."""
    kind, name = split(reference)
    if kind not in _POD:
        raise click.UsageError(f"{reference}: expected a pod, as in web-0 or pod/web-0")
    return name if "/" in name else f"{asked.in_namespace}/{name}"
