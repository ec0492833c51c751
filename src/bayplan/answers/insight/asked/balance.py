"""balance as a question."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import (
    FILE,
    Namespace,
    ObjectList,
    Option,
    PodName,
    Question,
    Spoken,
    pod_key,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import balance


class AskBalance(Question, frozen=True, kw_only=True):
    """Return how evenly the cluster is used, what is stranded, and the largest pods and the largest gang that fit."""

    name: ClassVar[str] = "balance"
    spoken = Spoken(
        help="Show what is requested by resource, zone, pool and node, and what still fits.\n\n"
        "Stranded is what is free on nodes that a typical pod does not fit on for another reason: cpu where no "
        "memory is left. The typical pod has the median requests of the cluster's pods. The largest pods have the "
        "typical proportions, or the most of one resource with typical requests for cpu and memory. They and the "
        "gang are tried by scheduling.",
        adds=True,
        expected="--like and --filename: expected one of them",
    )
    like: (
        Annotated[
            PodName,
            Meta(description="A pod that the members of the gang are like."),
            Option("--like", pod=True, metavar="POD", help="A pod that the members of the largest gang are like."),
        ]
        | None
    ) = None
    namespace: Namespace = "default"
    objects: Annotated[
        ObjectList,
        Meta(description="The members are like the first pod of these."),
        Option(
            "-f",
            file=FILE,
            help="A manifest; the members of the largest gang are like its first pod. - is standard input.",
        ),
    ] = []
    most: Annotated[int, Meta(ge=1, le=50_000, description="The largest gang that is tried."), Option("--most")] = 1000

    @property
    def complete(self) -> bool:
        """Whether the gang is like one pod only."""
        return self.like is None or not self.objects

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> balance.Balance:
        """Ask `Insight.balance`."""
        progress("reading")
        if not self.complete:
            raise QuestionError("like and objects: expected one of them")
        key = None if self.like is None else pod_key(self.like, self.namespace)
        return insight.balance(key, self.objects, most=self.most, shown=shown)
