"""doctor as a question."""

from __future__ import annotations

from typing import ClassVar

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import AnyNamespace, Question, Spoken
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import doctor


class AskDoctor(Question, frozen=True, kw_only=True):
    """Return what is wrong now: whether schedulers run, who waits and why, what holds the room, and what would help."""

    name: ClassVar[str] = "doctor"
    spoken = Spoken(
        help="Show what is wrong now: whether schedulers run, who waits and why, what holds the room, and what would "
        "help.\n\n"
        "Each change was tried on its own. The cluster is only read. -n chooses the namespace of the pods.",
        doing="Looking",
        unselected="-l chooses no pods here; use bayplan explain --all-pending",
    )
    narrowing = "give a namespace"
    ages = True
    namespace: AnyNamespace | None = None

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> doctor.Doctor:
        """Ask `Insight.doctor`."""
        return insight.doctor(self.namespace, shown=shown, progress=progress)
