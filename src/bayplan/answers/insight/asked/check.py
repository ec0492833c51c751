"""check as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import EXAMPLE, ManifestList, Option, Question, Spoken
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.checking import check


class AskCheck(Question, frozen=True, kw_only=True):
    """Return what is wrong with manifests before they are merged: fit, evictions, quota, rollouts, likely mistakes."""

    name: ClassVar[str] = "check"
    spoken = Spoken(
        help="Check manifests before they are merged: whether they fit, whom they evict, quotas, rollouts, and likely "
        "mistakes.\n\n"
        "Also shows whether the next rollout would get stuck or leave pods spread unevenly, and what the next version "
        "of Kubernetes would decide otherwise. PATH is a file or a folder, as after -f. Each finding names the object, "
        "its file and line, and the next step. Exits with 0 if there is nothing from --fail-on on, with 1 if there is, "
        "and with 2 for bad input: then nothing was checked.",
        doing="Checking",
        adds=True,
        forms=("sarif", "github", "junit"),
        paths=True,
    )
    example: ClassVar[Mapping[str, Any]] = {"objects": EXAMPLE}
    narrowing = "check fewer objects"
    objects: ManifestList
    fail_on: Annotated[
        Literal["error", "warning", "note"],
        Meta(description="From which level of findings on the check fails."),
        Option("--fail-on"),
    ] = "error"

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> check.Check:
        """Ask `Insight.check`."""
        return insight.check(self.objects, fail_on=self.fail_on, shown=shown, progress=progress)
