"""`bayplan what-if`: which pods change after changes of the cluster or the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bayplan.answers.insight.asked.what_if import AskWhatIf
from bayplan.faces.cli.insight.answering import answer, yes_option
from bayplan.faces.cli.insight.cluster_options import AskedCluster, comparing_options
from bayplan.faces.cli.insight.files import dollars_in, recommendations_in
from bayplan.faces.cli.insight.given_manifests import documents_in
from bayplan.faces.cli.insight.question_options import question_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import insight
    from bayplan.answers.insight import answers
    from bayplan.answers.insight import prices as node_prices

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Progress
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.questions.what_if import WhatIf


@click.command("what-if")
@question_options(AskWhatIf)
@yes_option
@comparing_options(
    "The scheduler's configuration after the change. Given twice, the first one is the present one, which may be the "
    "same; by default, that has the default plugins."
)
def what_if(
    asked: AskedCluster,
    objects: tuple[str, ...],
    requests: str | None,
    prices: str | None,
    *,
    yes: bool,
    **changes: Any,
) -> None:
    """Show which pods would be placed, pending or on other nodes, and the utilization, after changes of the cluster.

    All options may be repeated and combined. Changes are made in the order of this list. NODE is a name, or a label
    selector such as pool=web. Both sides are compared after their pending pods have been attempted.
    """
    if not (objects or requests or asked.other or any(changes.values())):
        raise click.UsageError("expected at least one change, such as --remove-node node-a")
    documents = list(documents_in(asked, objects)) if objects else []
    named = changes["scale"] or changes["delete_pods"] or changes["scale_requests"]
    recommended, dollars = recommendations_in(requests), dollars_in(prices)
    found = insight.Changes(
        **changes, objects=documents, requests=recommended, namespace=asked.in_namespace if named else "default"
    )
    price_of = node_prices.Prices(dollars).of if dollars else None

    def ask(insight: Insight, progress: Progress, shown: int) -> WhatIf:
        return insight.what_if(found, *(asked.other or ()), price_of=price_of, shown=shown, progress=progress)

    try:
        answer(asked, ask, doing="Trying requests" if found.requests or found.scale_requests else "", yes=yes)
    except answers.Stopped:
        raise KeyboardInterrupt from None  # there is no part of the answer yet
