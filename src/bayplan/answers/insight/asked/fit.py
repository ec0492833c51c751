"""fit as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import EXAMPLE, FILE, ObjectList, Option, Question
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import fit


class AskFit(Question, frozen=True, kw_only=True):
    """Return whether all pods of manifests would be placed now, where, and which pods they would preempt."""

    name: ClassVar[str] = "fit"
    example: ClassVar[Mapping[str, Any]] = {"objects": EXAMPLE}
    narrowing = "ask about fewer objects"
    objects: Annotated[
        ObjectList,
        Option(
            "-f",
            file=FILE,
            help="A manifest in YAML or JSON, a folder of these, or - for standard input. May be repeated.",
        ),
    ]

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> fit.Fit:
        """Ask `Insight.fit`."""
        return insight.fit(self.objects, shown=shown, progress=progress)
