"""Contention: whether a decision takes what pods could use whose attempts began before and haven't finished."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.cluster.pod_changes import PodChanges
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import call
from bayplan.framework.interface import Contends
from bayplan.framework.pod_run import PodRun
from bayplan.framework.profile import Profile, implements
from bayplan.framework.status import PluginError
from bayplan.framework.what_if import filter_changed


def contends(profile: Profile, state: ClusterState, pod: PodInfo, node: str, others: Sequence[PodInfo]) -> bool:
    """Return whether a pod on a node may take what one of the other pods could use.

    It doesn't if its filters accept the node even with all others on it, as if these were nominated there, and if no
    plugin says that they may want the same device or volume. In doubt, the answer is yes.
    """
    position = state.nodes.position(node)
    if position is None:
        return False
    try:
        if any(
            call(plugin, "Contends", plugin.contends, pod, other)
            for plugin in profile.every()
            if implements(plugin, Contends)
            for other in others
        ):
            return True
        run = PodRun.start(profile, state, pod, call, lambda _error, _pod: None)
        run.pre_filter()
        with_others = run.nodes.at(np.array([position])).changed({0: PodChanges(others)})
        return not filter_changed(profile, run.cycle, pod, with_others).feasible_mask[0]
    except PluginError:
        return True
