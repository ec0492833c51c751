"""compare as a question of programs and assistants, about a history that the server has.

A client can't name files: the folder is the server's, and the history is read anew for each question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.backtest.changed_pods import WorkloadChanges
from bayplan.answers.backtest.comparison import Comparison, compare
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.new_pools import parse_pool
from bayplan.answers.backtest.running import FleetChoice, SimulatedScheduler, SimulationRun, open_history
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.history.format import HistoryError
from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.prices import Prices
from bayplan.answers.insight.question_parameters import (
    FILE,
    MODELS,
    PRICES,
    ConfigurationObject,
    Name,
    Namespace,
    ObjectList,
    Option,
    Question,
    RecommendationList,
    ScaledRequestList,
    configured,
)
from bayplan.answers.simulation.models.parameters import Parameters, ParametersError, parameters_of
from bayplan.core.config import ConfigurationError, PluginLoadError
from bayplan.core.versions import NEWEST, Version, emulated_version, gates_of, with_gangs

Autoscaler = Literal["auto", "none", "cluster-autoscaler", "karpenter"]
_SETTING = "A setting: [PROFILE/]PLUGIN.ARGUMENT=VALUE, PLUGIN.weight=N, PLUGIN.enabled=false or FIELD=VALUE."
_POOL = "name=NAME,cpu=N,memory=N[,type=T][,pods=N][,zones=A+B][,price=P][,max=N][,replaces=POOL]"


class Comparing(Question, frozen=True, kw_only=True):
    """Return what another configuration, settings or node pools would have made of the server's history."""

    name: ClassVar[str] = "compare"
    example: ClassVar[Mapping[str, Any]] = {"settings": ["NodeResourcesFit.weight=5"]}
    settings: Annotated[
        list[Annotated[Name, Meta(description=_SETTING, examples=["NodeResourcesFit.weight=5"])]],
        Meta(max_length=100),
        Option("--set"),
    ] = []
    configuration: Annotated[ConfigurationObject, Meta(description="That of the candidate.")] | None = None
    node_pools: Annotated[
        list[Annotated[Name, Meta(description=_POOL, examples=["name=big,cpu=16,memory=64Gi,price=0.77"])]],
        Meta(max_length=100, description="Pools that the candidate has."),
        Option("--node-pool"),
    ] = []
    objects: Annotated[
        ObjectList,
        Meta(description="Changed workloads: pods of theirs that arrive in the history have the new template."),
        Option("-f", file=FILE),
    ] = []
    requests: RecommendationList = []
    scale_requests: ScaledRequestList = []
    namespace: Annotated[Namespace, Option("-n", about=("scale_requests",))] = "default"
    autoscaler: Annotated[Autoscaler, Meta(description="Whose rules add and remove nodes."), Option("--autoscaler")] = (
        "auto"
    )
    candidate_autoscaler: (
        Annotated[Autoscaler, Meta(description="By default, the same."), Option("--candidate-autoscaler")] | None
    ) = None
    candidate_emulated_version: (
        Annotated[
            Name,
            Meta(description="The Kubernetes that it decides as.", examples=[NEWEST]),
            Option("--candidate-emulated-version"),
        ]
        | None
    ) = None
    prices: Annotated[
        dict[str, float],
        Meta(description="Dollars for an hour by instance type or pool."),
        Option("--prices", file=PRICES),
    ] = {}
    models: Annotated[
        dict[str, Any],
        Meta(description="The parameters of the models, see docs/compare.md."),
        Option("--models", file=MODELS),
    ] = {}
    seed: Annotated[int, Meta(ge=0, le=2**31), Option("--seed")] = 0
    seeds: Annotated[
        int, Meta(ge=0, le=100, description="How many seeds are simulated; 0: as many as are quick."), Option("--seeds")
    ] = 0

    def about(self, folder: str, insight: Insight, progress: Progress, shown: int) -> Comparison:
        """Ask about the history in a folder. The scheduler of now is that of `insight`. Raises QuestionError."""
        with _errors(), configured(self.configuration) as configuration:
            version = self.candidate_emulated_version
            changes = self.configuration or self.settings or version
            workloads = WorkloadChanges(
                objects=self.objects,
                requests=self.requests,
                scale_requests=self.scale_requests,
                namespace=self.namespace,
            )
            if not (changes or self.node_pools or self.candidate_autoscaler or workloads):
                raise QuestionError(
                    "expected a candidate: settings, configuration, nodePools, objects, requests, scaleRequests, "
                    "candidateAutoscaler or candidateEmulatedVersion"
                )
            candidate = now = SimulatedScheduler(insight.configuration, insight.plugins, insight.gates)
            if changes:
                gates = insight.gates if version is None else with_gangs(gates_of(_version(version)))
                used = configuration or insight.configuration
                changed = with_settings(used, insight.plugins, self.settings, gates)
                candidate = SimulatedScheduler(changed, insight.plugins, gates)
            known = Prices.of_document(self.prices, "prices") if self.prices else Prices({})
            models = parameters_of(self.models, "models") if self.models else Parameters()
            run = SimulationRun(now, FleetChoice(self.autoscaler), models, known, self.seed)
            fleet = FleetChoice(self.candidate_autoscaler or self.autoscaler, tuple(map(parse_pool, self.node_pools)))
            progress("reading the history")
            history = open_history(folder)
            ahead = Lookahead(history, known.of)
            other = run.but(candidate, fleet).with_changes(history, workloads)
            return compare(history, ahead, run, other, shown=shown, seeds=self.seeds, progress=progress)


def history_questions(folder: str | Path) -> Mapping[str, type[Question]]:
    """Return the questions about the history in a folder, by name. It is read anew for each question."""
    path = str(folder)

    class AskCompare(Comparing, frozen=True, kw_only=True):
        __doc__ = Comparing.__doc__

        def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Comparison:
            """Ask about the history in the folder."""
            return self.about(path, insight, progress, shown)

        def arguments(self) -> Iterator[str]:
            """Yield the arguments, and the server's history."""
            yield from (*super().arguments(), "--history", path)

    return {AskCompare.name: AskCompare}


def _version(text: str) -> Version:
    try:
        return emulated_version(text)
    except ValueError as error:
        raise QuestionError(f"candidateEmulatedVersion: {error}") from None


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (BacktestError, HistoryError, ParametersError, ConfigurationError, PluginLoadError) as error:
        raise QuestionError("; ".join(str(error).splitlines())) from None
