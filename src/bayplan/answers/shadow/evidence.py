"""What plugins with likely arguments say of the nodes of a binding: from that, the weights can be asked again.

Scores are kept without weights, for a sample of bindings. `fitting.py` tries settings on these numbers, without another
decision.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import KubeSchedulerProfile, build_profile
from bayplan.core.config.types import PluginConfig, PluginReference, Plugins, PluginSet
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.runner import run_pre_score, run_score
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import Decision, Unit
from bayplan.core.sharing import Sharing

ROWS = 256
"""Of how many feasible nodes the scores are kept at most: a random sample that has the scheduler's node."""
_FIT = "NodeResourcesFit"
_SPREAD = "PodTopologySpread"
_PACKING = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
_SCORED_BY_DEFAULT = (
    "TaintToleration",
    "NodeAffinity",
    _FIT,
    _SPREAD,
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
"""The Score plugins that a scheduler has if its configuration doesn't say otherwise, but for devices and volumes."""
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_MOST_EXTENDED = 2
"""How many extended resources may count for likely strategies."""


@dataclass(frozen=True, slots=True)
class LikelyArguments:
    """Arguments that a Score plugin is likely to have. `settings` say the same in the form of `--set`."""

    plugin: str
    arguments: Mapping[str, Any]
    settings: tuple[str, ...]

    @property
    def column(self) -> str:
        """The name of the column that has their scores."""
        return " ".join(self.settings)


def likely_arguments(extended: Sequence[str] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield plugins with likely arguments, the likeliest first. `extended`: extended resources that pods ask for."""
    kinds, everything = ("MostAllocated", "LeastAllocated"), ["cpu", "memory", *extended]
    strategies: list[dict[str, Any]] = [{"type": kind} for kind in kinds]
    strategies.append({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": _PACKING})
    for names in (["cpu"], ["memory"], *([everything, list(extended)] if extended else ())):
        resources = [{"name": name, "weight": 1} for name in names]
        strategies += [{"type": kind, "resources": resources} for kind in kinds]
    yield from ((_FIT, {"scoringStrategy": each}) for each in strategies)
    yield _SPREAD, {"defaultingType": "List"}
    for keys in ((_ZONE,), (_HOST,), (_ZONE, _HOST)):
        constraints = [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"} for key in keys]
        yield _SPREAD, {"defaultingType": "List", "defaultConstraints": constraints}


def _settings(plugin: str, arguments: Mapping[str, Any], *, fresh: bool) -> Iterator[str]:
    """The settings that give a plugin these arguments. `fresh`: it has none so far."""
    for name, value in arguments.items():
        if fresh and isinstance(value, Mapping) and len(value) == 1:
            yield from (f"{plugin}.{name}.{key}={_flow(each)}" for key, each in value.items())
        else:
            yield f"{plugin}.{name}={_flow(value)}"


def _flow(value: object) -> str:
    """A value as YAML in one line, without needless quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else str(value)


@dataclass(frozen=True, slots=True)
class ScoredBinding:
    """A binding, with the scores of its feasible nodes by plugin, from 0 to 100 and without weights.

    `theirs`: the place of the scheduler's node among the `columns`; None if it isn't feasible. `feasible`, `nodes`: how
    many nodes are feasible, and how many there are. A column has the name of its plugin, or that of likely arguments.
    """

    theirs: int | None
    feasible: int
    nodes: int
    columns: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)


class ScoreWitness:
    """Asks the Score plugins of the known configuration, and those with likely arguments, about a binding.

    `profile`: the known one. `configured`: the names of its plugins that have arguments of their own. `arguments`: the
    likely ones.
    """

    def __init__(self, world: World, profile: Profile, configured: Collection[str] = ()) -> None:
        self.profile = profile
        self.arguments: list[LikelyArguments] = []
        self._world = world
        self._configured = frozenset(configured)
        self._rng = random.Random(0)
        self._extended: list[str] = []
        self._alone: dict[str, Profile] = {}
        """For each column of likely arguments, a profile that scores with that plugin only."""
        self._deciding = self.profile.with_plugins({Point.POST_FILTER: ()})
        self._sharing = Sharing(self._deciding, 1)
        self._add_arguments()

    def learn(self, pod: PodInfo) -> bool:
        """Take the extended resources into account that a pod asks for. Returns whether that changes the arguments."""
        new = sorted(name for name in pod.requested if "/" in name and name not in self._extended)
        self._extended += new[: _MOST_EXTENDED - len(self._extended)]
        return self._add_arguments()

    def _add_arguments(self) -> bool:
        """Add the likely arguments that aren't there yet. Returns whether there are any."""
        scored, before = {plugin.name for plugin in self.profile.at(Point.SCORE)}, len(self._alone)
        off = [name for name in _SCORED_BY_DEFAULT if name not in scored]
        for plugin, arguments in [*((name, {}) for name in off), *likely_arguments(self._extended)]:
            on = (f"{plugin}.score.enabled=true",) if plugin in off else ()
            likely = LikelyArguments(
                plugin, arguments, (*on, *_settings(plugin, arguments, fresh=plugin not in self._configured))
            )
            if likely.column not in self._alone:
                self._alone[likely.column] = self._profile_of(likely)
                self.arguments.append(likely)
        return len(self._alone) > before

    def _profile_of(self, likely: LikelyArguments) -> Profile:
        """A profile that scores with one plugin only."""
        enabled = [PluginReference(name) for name in (likely.plugin, "PrioritySort", "DefaultBinder")]
        profile = KubeSchedulerProfile(
            schedulerName="likely",
            plugins=Plugins(multiPoint=PluginSet(enabled, [PluginReference("*")])),
            pluginConfig=[PluginConfig(likely.plugin, msgspec.to_builtins(likely.arguments))],
        )
        return build_profile(profile, self._world.handle, gates=self._world.gates)

    def ask(self, pod: PodInfo, node: str) -> ScoredBinding | None:
        """Return the scores in this state; None if they say nothing, as where only one node is feasible."""
        decision = self._decide(pod)
        if decision is None or decision.scores is None or len(decision.feasible) < 2:
            return None
        rows, table = decision.scores.rows, self._world.state.table
        row = table.row_of.get(node, -1)
        theirs = np.flatnonzero(rows == row)
        if not len(theirs):
            return ScoredBinding(None, len(rows), table.live_count)
        kept = self._some(len(rows), int(theirs[0]))
        columns = {name: each[kept].astype(np.float64) for name, each in self._scores(pod, decision).items()}
        return ScoredBinding(int(np.searchsorted(kept, theirs[0])), len(rows), table.live_count, columns)

    def _decide(self, pod: PodInfo) -> Decision | None:
        """The decision with the known configuration. Chance is as it was before."""
        world = self._world
        state = world.rng.getstate()
        try:
            plan = world.attempt(Unit(pod), explain=True, other=(self._deciding, self._sharing))
        finally:
            world.rng.setstate(state)
        return next(iter(plan.placed), None)

    def _scores(self, pod: PodInfo, decision: Decision) -> dict[str, npt.NDArray[np.int64]]:
        weights, scores = self.profile.weights, decision.scores
        assert scores is not None
        found = {name: each // weights.get(name, 1) for name, each in scores.plugins.items()}
        nodes = self._world.state.nodes.at(decision.feasible)
        for likely in self.arguments:
            alone = self._alone[likely.column]
            decision.cycle.skip_score.discard(likely.plugin)
            try:
                run_pre_score(alone, decision.cycle, pod, nodes)
                weighted = run_score(alone, decision.cycle, pod, nodes).get(likely.plugin, _nothing(nodes))
                found[likely.column] = weighted // alone.weights.get(likely.plugin, 1)
            except PluginError:  # an odd pod: its scores are those of the known arguments
                found[likely.column] = found.get(likely.plugin, _nothing(nodes))
        return found

    def _some(self, count: int, theirs: int) -> npt.NDArray[np.int64]:
        """The places of the nodes whose scores are kept, ascending."""
        if count <= ROWS:
            return np.arange(count)
        kept = {theirs, *self._rng.sample(range(count), ROWS - 1)}
        return np.array(sorted(kept))


def _nothing(nodes: Any) -> npt.NDArray[np.int64]:
    return np.zeros(len(nodes), dtype=np.int64)
