"""capacity as a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import EXAMPLE, FILE, Name, Number, ObjectList, Option, Question
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import capacity


class PodKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Manifests whose pods are one copy of a kind of pods. A workload counts with one replica."""

    objects: ObjectList
    copies: Annotated[int, Meta(ge=1, le=10_000, description="The copies of the kind in a set.")] = 1


class AskCapacity(Question, frozen=True, kw_only=True):
    """Return how many more pods of manifests fit, what stops the next one, and on which nodes they are."""

    name: ClassVar[str] = "capacity"
    example: ClassVar[Mapping[str, Any]] = {"kinds": [{"objects": EXAMPLE}]}
    narrowing = "ask about fewer kinds"
    kinds: Annotated[list[PodKind], Meta(min_length=1, max_length=100, description="They are placed set by set.")]
    most: (
        Annotated[
            Number,
            Meta(description="The number of sets after which to stop."),
            Option("--most", metavar="N", help="Stop after N sets."),
        ]
        | None
    ) = None
    preempt: Annotated[
        bool,
        Meta(description="Whether the pods may evict pods of lower priority."),
        Option("--preempt", help="Let the pods evict pods of lower priority."),
    ] = False
    labels: Annotated[
        list[Name],
        Meta(max_length=20, description="Labels of nodes to group by."),
        Option("--by", metavar="LABEL", help="A node label to group by. May be repeated."),
    ] = []

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> capacity.Capacity:
        """Ask `Insight.capacity`."""
        return insight.capacity(
            *(kind.objects for kind in self.kinds),
            ratio=[kind.copies for kind in self.kinds],
            most=self.most,
            preempt=self.preempt,
            labels=self.labels,
            shown=shown,
            progress=progress,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of the command, with a file for each kind."""
        command, *others = super().arguments()
        yield command
        for number, kind in enumerate(self.kinds, start=1):
            file = FILE if len(self.kinds) == 1 else f"objects-{number}.yaml"
            yield from ("-f", f"{file}={kind.copies}" if kind.copies > 1 else file)
        yield from others
