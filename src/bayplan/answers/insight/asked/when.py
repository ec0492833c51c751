"""when as questions: about pods that wait or would, or about all that wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import (
    DURATIONS,
    FILE,
    HISTORY,
    MODELS,
    AnyNamespace,
    Namespace,
    ObjectList,
    Option,
    Question,
    Selector,
    pod_key,
    selecting,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import foresight, insight
    from bayplan.answers.insight.questions import when, when_pending
    from bayplan.answers.simulation.models import parameters

MOST_RUNS = 1000
_MOST_DURATIONS = 100_000


class ForeseeingQuestion(Question, frozen=True, kw_only=True):
    """What all questions about the future may be told."""

    durations: Annotated[
        dict[str, Any],
        Meta(
            max_length=_MOST_DURATIONS,
            description="How long pods run, by workload: 30m, seconds, or p50 and p90 of a distribution.",
            examples=[{"job default/train": "30m", "cronjob default/nightly": {"p50": "20m", "p90": "1h"}}],
        ),
        Option(
            "--durations",
            file=DURATIONS,
            metavar="FILE",
            help="How long pods run, by workload, as in `job default/train: 30m` or {p50: 20m, p90: 1h}: YAML, JSON, "
            "or CSV with the columns workload and duration, or workload, p50 and p90.",
        ),
    ] = {}
    seen: Annotated[
        dict[str, list[float]],
        Meta(max_length=_MOST_DURATIONS, description="The seconds that pods of a history ran, by what they share."),
        Option(
            "--history",
            file=HISTORY,
            metavar="DIR",
            help="A history of `bayplan record`: pods run as long as those of the same workload did in it.",
        ),
    ] = {}
    autoscaler: Annotated[
        Literal["none", "cluster-autoscaler", "karpenter"],
        Meta(description="Whose rules add and remove nodes, of all pools but the control plane."),
        Option("--autoscaler"),
    ] = "none"
    models: Annotated[
        dict[str, Any],
        Meta(description="The parameters of the models, as in docs/compare.md."),
        Option("--models", file=MODELS, metavar="FILE", help="The parameters of the models, in YAML."),
    ] = {}
    runs: (
        Annotated[
            int,
            Meta(ge=1, le=MOST_RUNS, description="How often it is simulated; by default, as often as the size allows."),
            Option("--runs", metavar="N"),
        ]
        | None
    ) = None

    def foresight(self) -> foresight.Foresight:
        """What the question is told of the future. Raises QuestionError."""
        try:
            models = parameters.parameters_of(self.models, "models")
        except parameters.ParametersError as error:
            raise QuestionError(str(error)) from None
        if self.runs is not None and self.runs > MOST_RUNS:  # a command doesn't check it
            raise QuestionError(f"runs: expected at most {MOST_RUNS:,}, not {self.runs:,}")
        for group, seconds in self.seen.items():
            if not all(0 < each < float("inf") for each in seconds):
                raise QuestionError(f"seen: {group:.60}: expected seconds greater than 0")
        return foresight.Foresight(
            durations=self.durations, seen=self.seen, autoscaler=self.autoscaler, parameters=models, runs=self.runs
        )


class AskWhen(ForeseeingQuestion, frozen=True, kw_only=True):
    """Return in how long a pod, a workload or the pods of manifests start, what they wait for, and what would help."""

    name: ClassVar[str] = "when"
    example: ClassVar[Mapping[str, Any]] = {"what": "default/web-0"}
    narrowing = "ask about one pod"
    what: Annotated[
        str,
        Meta(
            max_length=1024,
            description="A pod, or TYPE/NAME of a workload or a PodGroup, whose pending pods are meant.",
            examples=["default/train-0", "job/train"],
        ),
        Option("", metavar="[POD | TYPE/NAME]"),
    ] = ""
    namespace: Annotated[Namespace, Option("-n", about=("what",))] = "default"
    objects: (
        Annotated[
            ObjectList,
            Meta(description="Manifests whose pods are meant, in place of what exists."),
            Option(
                "-f",
                file=FILE,
                help="A manifest in YAML or JSON, a folder of these, or - for standard input: when would its pods "
                "start if they were created now? May be repeated.",
            ),
        ]
        | None
    ) = None
    sooner: Annotated[
        Literal["auto", "yes", "no"],
        Meta(description="Whether to try what would be sooner; auto: if that isn't too much work."),
        Option("--sooner"),
    ] = "auto"

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> when.When:
        """Ask `Insight.when`."""
        if bool(self.what) is (self.objects is not None):
            raise QuestionError("expected a pod, a workload such as job/train, or objects: one of them")
        what = self.what if "/" in self.what or not self.what else pod_key(self.what, self.namespace)
        return insight.when(
            what,
            self.objects,
            namespace=self.namespace,
            foresight=self.foresight(),
            sooner=self.sooner,
            shown=shown,
            progress=progress,
        )


class WhenPending(ForeseeingQuestion, frozen=True, kw_only=True):
    """Return in how long each pending pod starts, on which node most likely, and what it waits for."""

    name: ClassVar[str] = "when-pending"
    words = ("when", "--all-pending")
    narrowing = "give a namespace or a selector"
    namespace: AnyNamespace | None = None
    selector: Selector = ""

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> when_pending.PendingStarts:
        """Ask `Insight.when_pending`."""
        return insight.when_pending(
            self.namespace, selecting(self.selector), foresight=self.foresight(), shown=shown, progress=progress
        )
