"""explain as questions: one pod, all pending pods, or the pods of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import (
    MOST,
    AnyNamespace,
    Name,
    Namespace,
    Option,
    PodName,
    Question,
    Selector,
    pod_key,
    selecting,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import explain, pending


class AskExplain(Question, frozen=True, kw_only=True):
    """Explain why a pod is pending and what would help, or why it is on its node."""

    name: ClassVar[str] = "explain"
    example: ClassVar[Mapping[str, Any]] = {"pod": "default/web-0"}
    narrowing = "ask why-not about one node"
    pod: Annotated[PodName, Option("", pod=True)]
    namespace: Namespace = "default"
    nearest: Annotated[int, Meta(ge=0, le=MOST, description="The number of nearest misses; 0 for all.")] = 10

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> explain.Explanation:
        """Ask `Insight.explain`."""
        key = pod_key(self.pod, self.namespace)
        return insight.explain(key, shown=shown, nearest=self.nearest, progress=progress)


class ExplainPending(Question, frozen=True, kw_only=True):
    """Explain all pending pods, summed up by cause, with the single changes that would free the most of them."""

    name: ClassVar[str] = "explain-pending"
    words = ("explain", "--all-pending")
    narrowing = "give a namespace or a selector"
    namespace: AnyNamespace | None = None
    selector: Selector = ""

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> pending.PendingPods:
        """Ask `Insight.explain_all`."""
        return insight.explain_all(self.namespace, selecting(self.selector), shown=shown, progress=progress)


class ExplainWorkload(Question, frozen=True, kw_only=True):
    """Explain the pods of a workload by cause: why they are pending, or why they don't exist."""

    name: ClassVar[str] = "explain-workload"
    words = ("explain",)
    example: ClassVar[Mapping[str, Any]] = {"workload": "deployment/web"}
    narrowing = "give a selector"
    workload: Annotated[
        Name, Meta(description="TYPE/NAME.", pattern="^[^/]+/[^/]+$", examples=["deployment/web"]), Option("")
    ]
    namespace: Annotated[Namespace, Option("-n", about=("workload",))] = "default"
    selector: Selector = ""

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> pending.PendingPods:
        """Ask `Insight.explain_owner`."""
        kind, _, name = self.workload.partition("/")
        matches = selecting(self.selector)
        return insight.explain_owner(kind.lower(), name, self.namespace, matches, shown=shown, progress=progress)
