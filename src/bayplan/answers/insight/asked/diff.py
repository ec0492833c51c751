"""diff as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import (
    BEFORE,
    CONFIG,
    EXAMPLE,
    FILE,
    ConfigurationObject,
    ObjectList,
    Option,
    Question,
    configured,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers import snapshots
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import diff, edits


class AskDiff(Question, frozen=True, kw_only=True):
    """Return what changes to this cluster from an earlier one, or from its scheduler to another configuration."""

    name: ClassVar[str] = "diff"
    example: ClassVar[Mapping[str, Any]] = {"before": EXAMPLE}
    before: (
        Annotated[ObjectList, Meta(description="All objects of the earlier cluster."), Option("", file=BEFORE)] | None
    ) = None
    objects: (
        Annotated[
            ObjectList,
            Meta(description="Objects to apply to this cluster. Changed workloads are rolled out."),
            Option(
                "-f",
                file=FILE,
                help="Compare the cluster with what it is once the objects of a manifest, of a folder of these, or - "
                "for standard input, are applied. Changed workloads are rolled out.",
            ),
        ]
        | None
    ) = None
    configuration: Annotated[ConfigurationObject, Meta(description="That of the other scheduler.")] | None = None

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> diff.Difference:
        """Ask `Insight.diff`."""
        if sum(given is not None for given in (self.before, self.objects, self.configuration)) != 1:
            raise QuestionError("before, objects and configuration: expected one of them")
        if self.objects is not None:
            after = insight.changed(edits.Changes(objects=self.objects), progress=progress)
            return insight.diff(after, (insight.snapshot.source, FILE), shown=shown)
        progress("reading")
        if self.before is not None:
            try:
                snapshot = snapshots.Snapshot.of(self.before, source="the objects", taken=insight.snapshot.taken)
            except snapshots.SnapshotError as error:
                raise QuestionError(f"before: {error}") from None
            first = type(insight)(snapshot, seed=insight.seed, limits=insight.limits)
            return first.diff(insight, (BEFORE, insight.snapshot.source), shown=shown)
        with configured(self.configuration) as configuration:
            other = type(insight)(insight.snapshot, configuration, seed=insight.seed, limits=insight.limits)
        return insight.diff(other, ("the present configuration", CONFIG), shown=shown)
