"""Contention: whether a decision takes what other pods could use whose attempts began before and haven't finished.

Pods are placed while the attempt of a slower one pauses. One of lower priority must not take a node, a device or a
volume from it: then its plan is dropped (`MustWait`), and it waits. In doubt it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import call
from bayplan.core.framework.interface import Contends
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.what_if import filter_changed


def contends(
    profiles: Mapping[str, Profile], state: ClusterState, pod: PodInfo, node: str, others: Sequence[PodInfo]
) -> bool:
    """Return whether a pod on a node may take what one of the other pods could use.

    It doesn't if its filters accept the node even with the others on it, as if these were nominated there, and if no
    plugin says that they may want the same device or volume. In doubt, the answer is yes. `profiles`: by scheduler
    name.
    """
    profile, position = profiles[pod.scheduler_name], state.nodes.position(node)
    if position is None:
        return False
    try:
        if _wants_the_same(profile, pod, others):
            return True
        row = state.nodes.at(np.array([position]))
        able = [other for other in others if _may_run_on(profiles[other.scheduler_name], state, other, row)]
        if not able:
            return False
        run = _run(profile, state, pod)
        run.pre_filter()
        return not filter_changed(profile, run.cycle, pod, row.changed({0: PodChanges(able)})).feasible_mask[0]
    except PluginError:
        return True


def _wants_the_same(profile: Profile, pod: PodInfo, others: Sequence[PodInfo]) -> bool:
    plugins = [plugin for plugin in profile.every() if implements(plugin, Contends)]
    return any(call(each, "Contends", each.contends, pod, other) for each in plugins for other in others)


def _may_run_on(profile: Profile, state: ClusterState, pod: PodInfo, row: Nodes) -> bool:
    """Whether the filters accept a node whose verdicts don't depend on the pods there. They take no time."""
    names = profile.settled()[0]
    points = (Point.PRE_FILTER, Point.FILTER)
    settled = {point: [plugin for plugin in profile.at(point) if plugin.name in names] for point in points}
    run = _run(Profile(profile.scheduler_name, settled), state, pod)
    outcome = run.pre_filter()
    if outcome.refusal is not None or (outcome.names is not None and row.name(0) not in outcome.names):
        return False
    return bool(filter_changed(run.profile, run.cycle, pod, row).feasible_mask[0])


def _run(profile: Profile, state: ClusterState, pod: PodInfo) -> PodRun:
    return PodRun.start(profile, state, pod, call, lambda _error, _pod: None)
