"""The questions about a whole cluster that name none of its objects: doctor, usage and upgrade-preview.

They are in `QUESTIONS` of `question_types.py`, as those about single objects are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.question_parameters import AnyNamespace, Name, Question, Selector, each, option, selecting
from bayplan.answers.insight.questions.doctor import Doctor
from bayplan.answers.insight.questions.upgrade_preview import UpgradePreview, next_version
from bayplan.answers.insight.questions.usage import Requests
from bayplan.core.config import ConfigurationError
from bayplan.core.versions import NEWEST, VERSIONS, emulated_version, gates_of, with_gangs


class AskDoctor(Question, frozen=True, kw_only=True):
    """Return what is wrong now: whether schedulers run, who waits and why, what holds the room, and what would help."""

    name: ClassVar[str] = "doctor"
    narrowing = "give a namespace"
    ages = True
    namespace: AnyNamespace | None = None

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Doctor:
        """Ask `Insight.doctor`."""
        return insight.doctor(self.namespace, shown=shown, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan doctor`."""
        yield from ("doctor", *option("-n", self.namespace))


class AskUsage(Question, frozen=True, kw_only=True):
    """Return what pods request, by namespace, workload and priority, with the share of what the nodes have."""

    name: ClassVar[str] = "usage"
    narrowing = "give a namespace, a selector or one by"
    namespace: AnyNamespace | None = None
    selector: Selector = ""
    by: Annotated[
        list[Literal["namespace", "workload", "priority"]], Meta(max_length=3, description="By default, all of these.")
    ] = []

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Requests:
        """Ask `Insight.usage`."""
        return insight.usage(self.namespace, selecting(self.selector), by=self.by, shown=shown)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan usage`."""
        yield from ("usage", *option("-n", self.namespace), *option("-l", self.selector), *each("--by", self.by))


class AskUpgradePreview(Question, frozen=True, kw_only=True):
    """Return what another version of Kubernetes would decide differently, and which gates and changes cause it."""

    name: ClassVar[str] = "upgrade-preview"
    narrowing = "give a namespace or a selector"
    to: Annotated[Name, Meta(description="The version. Default: the next one.", examples=[NEWEST])] | None = None
    namespace: AnyNamespace | None = None
    selector: Selector = ""

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> UpgradePreview:
        """Ask `Insight.upgrade_preview`."""
        selects, before = selecting(self.selector), insight.gates.version
        try:
            version = next_version(before) if self.to is None else emulated_version(self.to)
        except ValueError as error:
            raise QuestionError(f"to: {error}") from None
        if version is None:
            known = ", ".join(VERSIONS)
            raise QuestionError(f"Kubernetes {before} is the newest version that is known; choose one of {known}")
        try:
            return insight.upgrade_preview(
                with_gangs(gates_of(version)),
                lambda pod: self.namespace in {None, pod.namespace} and selects(pod),
                shown=shown,
                progress=progress,
            )
        except ConfigurationError as error:
            text = "; ".join(str(error).splitlines())
            message = f"the scheduler's configuration isn't one of Kubernetes {version}: {text}"
            raise QuestionError(message) from None

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan upgrade-preview`."""
        yield from ("upgrade-preview", *option("--to", self.to))
        yield from (*option("-n", self.namespace), *option("-l", self.selector))
