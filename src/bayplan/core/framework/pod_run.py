"""PodRun: the plugins of a profile, run for one pod in one state of the cluster.

This is the seam between an attempt and the plugins: an attempt only calls a PodRun. `bayplan.core.sharing` makes runs
that return the same, with results that were computed for earlier pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import Caller
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState, WhatIf
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.runner import PreFilterOutcome, run_filter, run_pre_filter, run_pre_score, run_score
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.framework.what_if import ProfileWhatIf, filter_nominated

Record = Callable[[PluginError, PodInfo], None]
"""Records the failure of a plugin in the attempt of a pod."""


@dataclass(frozen=True, slots=True)
class Alike:
    """What pods have in common that are rejected in the same way while the state doesn't change.

    `by_node`: whether each node rejects them, with no room kept for nominated pods, for what is on that node alone.
    """

    key: Hashable
    by_node: bool = field(default=False, compare=False)


@dataclass(eq=False)
class PodRun:
    """Runs the plugins that choose a node for a pod. `start` it for each attempt.

    `nodes`: all nodes. `cycle`: the pod's data. `record` is called for failures that change nothing for the pod.
    `decided`: the decision about an equal pod in an equal state, where it is known; the other methods are not called
    then.
    """

    profile: Profile
    state: ClusterState
    nodes: Nodes
    pod: PodInfo
    cycle: CycleState
    record: Record
    decided: Any = field(default=None, kw_only=True)

    @classmethod
    def start(
        cls,
        profile: Profile,
        state: ClusterState,
        pod: PodInfo,
        call: Caller,
        record: Record,
        gang: Gang | None = None,
    ) -> PodRun:
        """Start the run of a pod. `gang`: the gang that it is placed with, if any."""
        return cls(profile, state, state.nodes, pod, new_cycle(call, gang), record)

    def pre_filter(self) -> PreFilterOutcome:
        """Run PreFilter. Raises PluginError."""
        return run_pre_filter(self.profile, self.cycle, self.pod, self.nodes)

    def filter(self, nodes: Nodes) -> Verdicts:
        """Run the filters on nodes, also with the pods nominated to them. Raises PluginError."""
        verdicts = run_filter(self.profile, self.cycle, self.pod, nodes)
        if self.state.nominations.nodes:
            filter_nominated(self.profile, self.state.nominations, self.cycle, self.pod, verdicts)
        return verdicts

    def score(self, nodes: Nodes) -> tuple[dict[str, Int64], Int64]:
        """Return the weighted scores of the feasible nodes by plugin, and their sum: int64, one per node.

        The scores by plugin are left out where the sum was known. Raises PluginError.
        """
        run_pre_score(self.profile, self.cycle, self.pod, nodes)
        scores = run_score(self.profile, self.cycle, self.pod, nodes)
        total: Int64 = np.zeros(len(nodes), dtype=np.int64)
        for plugin_scores in scores.values():
            total += plugin_scores
        return scores, total

    def what_if(self, rng: random.Random, actual: Verdicts | None) -> WhatIf:
        """Return what PostFilter is called with. `actual`: the verdicts of the attempt."""
        return ProfileWhatIf(self.profile, self.state.nominations, rng, actual)

    @property
    def apart(self) -> bool:
        """Whether the verdict and the score of a node are known to depend on no pods on other nodes."""
        return False

    def rejected_again(self, rng: random.Random) -> Any:
        """Return the decision about an equal pod, if this one is rejected again although pods on nodes have changed.

        None if that isn't known. Otherwise, random numbers are drawn as the attempt would.
        """
        return None

    def rejected_like(self, decision: Any) -> Alike | None:
        """Return what the pods have in common that are rejected as this one is; None if that is unknown.

        `decision`: the rejection.
        """
        return None


def new_cycle(call: Caller, gang: Gang | None) -> CycleState:
    """Return the data of a pod that nothing is known about."""
    cycle = CycleState(call=call)
    if gang is not None:
        cycle.data[PLACED_WITH] = gang
    return cycle


Start = Callable[[Profile, ClusterState, PodInfo, Caller, Record, Gang | None], PodRun]
"""Starts the run of a pod. `PodRun.start` is the plain one."""
