"""upgrade-preview as a question."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import AnyNamespace, Name, Option, Question, Selector, selecting
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import upgrade_preview
    from bayplan.core import config, versions


class AskUpgradePreview(Question, frozen=True, kw_only=True):
    """Return what another version of Kubernetes would decide differently, and which gates and changes cause it."""

    name: ClassVar[str] = "upgrade-preview"
    narrowing = "give a namespace or a selector"
    to: (
        Annotated[
            Name,
            Meta(description="The version. Default: the next one.", examples=[versions.NEWEST]),
            Option("--to", metavar="VERSION", help="The version to compare with. Default: the next one."),
        ]
        | None
    ) = None
    namespace: AnyNamespace | None = None
    selector: Selector = ""

    def ask(
        self, insight: insight.Insight, progress: Progress = silent, shown: int = 20
    ) -> upgrade_preview.UpgradePreview:
        """Ask `Insight.upgrade_preview`."""
        selects, before = selecting(self.selector), insight.gates.version
        try:
            version = upgrade_preview.next_version(before) if self.to is None else versions.emulated_version(self.to)
        except ValueError as error:
            raise QuestionError(f"to: {error}") from None
        if version is None:
            known = ", ".join(versions.VERSIONS)
            raise QuestionError(f"Kubernetes {before} is the newest version that is known; choose one of {known}")
        try:
            return insight.upgrade_preview(
                versions.with_gangs(versions.gates_of(version)),
                lambda pod: self.namespace in {None, pod.namespace} and selects(pod),
                shown=shown,
                progress=progress,
            )
        except config.ConfigurationError as error:
            text = "; ".join(str(error).splitlines())
            message = f"the scheduler's configuration isn't one of Kubernetes {version}: {text}"
            raise QuestionError(message) from None
