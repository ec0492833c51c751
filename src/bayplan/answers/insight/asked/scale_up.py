"""scale-up as a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.limits import LARGEST_POOL, MOST_NEW_NODES
from bayplan.answers.insight.question_parameters import (
    FILE,
    PRICES,
    AnyNamespace,
    Name,
    ObjectList,
    Option,
    Question,
    Selector,
    Spoken,
    selecting,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight, prices
    from bayplan.answers.insight.questions import scale_up
if TYPE_CHECKING:
    from bayplan.core.cluster.pod_info import PodInfo


class AskScaleUp(Question, frozen=True, kw_only=True):
    """Return how many new nodes of which pool would be enough for what is pending, or for the pods of manifests."""

    name: ClassVar[str] = "scale-up"
    spoken = Spoken(
        help="Show how many new nodes of which pool would be enough for what is pending, or for the pods of "
        "manifests.\n\n"
        "New nodes are like those that a pool has: as large, with the labels, taints, devices and DaemonSets of "
        "one of them. Pods are not preempted. -n and -l choose pending pods. Exits with 0 if all pods would be "
        "placed, with 1 if some would not, and with 2 for bad input. Ctrl-C shows what is known so far.",
        doing="Adding nodes",
        adds=True,
    )
    narrowing = "give a namespace, a selector or pools"
    objects: (
        Annotated[
            ObjectList,
            Meta(description="Manifests, in place of the pending pods."),
            Option(
                "-f",
                file=FILE,
                help="A manifest in YAML or JSON, a folder of these, or - for standard input, whose pods need nodes. "
                "May be repeated. Default: the pending pods of the cluster.",
            ),
        ]
        | None
    ) = None
    namespace: AnyNamespace | None = None
    selector: Selector = ""
    pools: Annotated[
        list[Name],
        Meta(max_length=1000, description="The pools that may grow; by default, all."),
        Option("--pool", metavar="NAME", help="A pool that may grow. May be repeated."),
    ] = []
    most: Annotated[
        int, Meta(ge=1, le=LARGEST_POOL, description="The most new nodes of a pool."), Option("--max-nodes")
    ] = MOST_NEW_NODES
    prices: Annotated[
        dict[str, float],
        Meta(description="Dollars for an hour by instance type or pool: of equal pools, the cheapest counts."),
        Option(
            "--prices",
            file=PRICES,
            metavar="FILE",
            help="Dollars for an hour by instance type or pool, in YAML: of pools that help as many pods, the cheapest "
            "counts.",
        ),
    ] = {}

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> scale_up.ScaleUp:
        """Ask `Insight.scale_up`."""
        selects = selecting(self.selector)
        known = prices.Prices.of_document(self.prices, "prices") if self.prices else prices.Prices({})

        def matches(pod: PodInfo) -> bool:
            return self.namespace in {None, pod.namespace} and selects(pod)

        return insight.scale_up(
            self.objects,
            matches,
            pools=self.pools,
            most=self.most,
            price_of=known.of,
            shown=shown,
            progress=progress,
        )
