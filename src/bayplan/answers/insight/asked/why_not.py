"""why-not as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import Namespace, NodeName, Option, PodName, Question, Spoken, pod_key
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import why_not


class AskWhyNot(Question, frozen=True, kw_only=True):
    """Return everything that keeps a pod from a node, and what would help."""

    name: ClassVar[str] = "why-not"
    spoken = Spoken(
        help="Show everything that keeps POD from NODE, and what would help.",
        doing="Explaining",
        unselected="--selector: expected the name of a pod only",
    )
    example: ClassVar[Mapping[str, Any]] = {"pod": "default/web-0", "node": "node-a"}
    pod: Annotated[PodName, Option("", pod=True)]
    node: Annotated[NodeName, Option("")]
    namespace: Namespace = "default"

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> why_not.WhyNot:
        """Ask `Insight.why_not`."""
        return insight.why_not(pod_key(self.pod, self.namespace), self.node.removeprefix("node/"), progress=progress)
