"""usage as a question."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import AnyNamespace, Option, Question, Selector, Spoken, selecting
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import usage

Grouping = Literal["namespace", "workload", "priority"]


class AskUsage(Question, frozen=True, kw_only=True):
    """Return what pods request, by namespace, workload and priority, with the share of what the nodes have."""

    name: ClassVar[str] = "usage"
    spoken = Spoken(
        help="Show what pods request, by namespace, workload and priority, with the share of what the nodes have.\n\n"
        "Pods with a node count, those without one have a column of their own. -n and -l choose pods.",
        decides=False,
    )
    narrowing = "give a namespace, a selector or one by"
    namespace: AnyNamespace | None = None
    selector: Selector = ""
    by: Annotated[
        list[Grouping],
        Meta(max_length=3, description="By default, all of these."),
        Option("--by", help="What to sum up by. May be repeated. Default: all of them."),
    ] = []

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> usage.Requests:
        """Ask `Insight.usage`."""
        return insight.usage(self.namespace, selecting(self.selector), by=self.by, shown=shown)
