"""AskedWorld: a snapshot, and the world in which `Insight` asks its questions about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.snapshot import Snapshot
from bayplan.answers.snapshots.usable import UsableObjects, without
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.versions import FeatureGates, gates_of, with_gangs
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import absent_pods, manifests
    from bayplan.answers.insight.questions import further_trials

if TYPE_CHECKING:
    from bayplan.answers.insight.manifests import Manifests
    from bayplan.answers.insight.questions.further_trials import FurtherTrials


class AskedWorld:
    """The cluster of a snapshot, as a scheduler with a configuration decides about it. See `Insight`."""

    def __init__(
        self,
        snapshot: Snapshot,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Sequence[ExtraPlugin] = (),
        *,
        seed: int = 0,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        gates: FeatureGates | None = None,
    ) -> None:
        self.configuration, self.plugins = configuration, plugins
        self.limits = limits
        self.seed = seed
        self._given: Snapshot | None = None
        self._given_gates = gates
        self._decide_as(with_gangs(gates_of(snapshot.followed.version)) if gates is None else gates)
        self.move(snapshot)

    def _decide_as(self, gates: FeatureGates) -> None:
        self.gates = gates
        self.world = World(self.configuration, self.plugins, gates, seed=self.seed)
        self._usable = UsableObjects({NODE, POD, *self.world.handle.watched})

    def move(self, snapshot: Snapshot) -> None:
        """Ask about another snapshot from now on. Its objects that can't be used are left out (see `problems`).

        If no gates were given, its version decides from now on.
        """
        if snapshot is self._given:
            self.world.reset()
            return
        version = snapshot.followed.version
        if self._given_gates is None and version != self.gates.version:
            self._decide_as(with_gangs(gates_of(version)))
        usable = self._usable.of(snapshot)
        self.world.move(usable.documents, snapshot.taken or datetime.now(UTC))
        self.snapshot = without(usable, self.world.contents.left_out)
        self._given = snapshot

    def renewed(self) -> Self:
        """A copy with the same scheduler, and a world that nothing has touched."""
        return type(self)(
            Snapshot(), self.configuration, self.plugins, seed=self.seed, limits=self.limits, gates=self._given_gates
        )

    @property
    def problems(self) -> list[str]:
        """The objects that were left out, one line each."""
        return [*self._usable.problems, *self.world.contents.problems]

    def _manifests(self, progress: Progress = silent) -> Manifests:
        return manifests.Manifests(self.snapshot, self.seed, AdditionLimit(self.limits, progress))

    @property
    def _trials(self) -> FurtherTrials:
        return further_trials.FurtherTrials(self.snapshot, self.seed, self.limits)

    def pod(self, key: str) -> PodInfo:
        """Return a pod of the snapshot. Raises QuestionError if there is no such pod, or it has terminated."""
        pod = self.world.pod(key)
        if pod is not None:
            return pod

        raise QuestionError(absent_pods.why_absent(self.snapshot, self.world, key))

    @property
    def _pods(self) -> Mapping[str, PodInfo]:
        return self.world.state.objects[POD]

    def nodes(self, matches: Callable[[Mapping[str, str]], bool] = lambda _: True) -> list[str]:
        """Return the names of the nodes whose labels match, in the order of the names."""
        self.world.reset()
        known = self.world.state.objects[NODE]
        return sorted(name for name, node in known.items() if matches(node.metadata.labels or {}))
