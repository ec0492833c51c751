"""fit as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import EXAMPLE, ManifestList, Question, Spoken
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import fit


class AskFit(Question, frozen=True, kw_only=True):
    """Return whether all pods of manifests would be placed now, where, and which pods they would preempt."""

    name: ClassVar[str] = "fit"
    spoken = Spoken(
        help="Show whether all pods of manifests would be placed now, where, and which pods they would preempt.\n\n"
        "The manifests may have pods, workloads, jobs, PodGroups, and claims of volumes and devices. Pods are "
        "decided in their order. Exits with 0 if all pods would be placed, with 1 if some would not, and with 2 "
        "for bad input.",
        doing="Placing pods",
        adds=True,
    )
    example: ClassVar[Mapping[str, Any]] = {"objects": EXAMPLE}
    narrowing = "ask about fewer objects"
    objects: ManifestList

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> fit.Fit:
        """Ask `Insight.fit`."""
        return insight.fit(self.objects, shown=shown, progress=progress)
