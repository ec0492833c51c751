"""Calls a single plugin for all nodes of a cluster, in per-node or whole-table form: for tests of plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point, Profile, takes_part
from bayplan.core.framework.runner import run_filter, run_pre_filter, run_pre_score, run_score


def ask_filter(
    plugin: Any, pod: PodInfo, state: ClusterState, what_ifs: Mapping[str, PodChanges] | None = None
) -> dict[str, str] | str | None:
    """Return the rejection of each node by name, "" for a feasible one; None if the plugin skips Filter.

    If PreFilter rejects the pod, return its message. `what_ifs`: hypothetical changes by node name. Raises PluginError.
    """
    profile, cycle = _alone(plugin), CycleState()
    nodes = _live(state)
    outcome = run_pre_filter(profile, cycle, pod, nodes)
    if outcome.refusal is not None:
        return outcome.refusal.message
    if plugin.name in cycle.skip_filter:
        return None
    names = [nodes.name(position) for position in range(len(nodes))]
    changes = {position: what_ifs[name] for position, name in enumerate(names) if what_ifs and name in what_ifs}
    verdicts = run_filter(profile, cycle, pod, nodes.changed(changes))
    return {name: verdicts.of(position).message for position, name in enumerate(names)}


def ask_scores(
    plugin: Any, pod: PodInfo, state: ClusterState, feasible: Iterable[str] | None = None
) -> dict[str, int] | None:
    """Return the normalized score of each node by name; None if the plugin skips scoring.

    `feasible`: the nodes to score, by default all. Raises PluginError.
    """
    profile, cycle = _alone(plugin), CycleState()
    nodes = _live(state)
    if feasible is not None:
        nodes = nodes.at(np.array([nodes.position(name) for name in feasible], dtype=np.intp))
    run_pre_filter(profile, cycle, pod, _live(state))
    run_pre_score(profile, cycle, pod, nodes)
    scores = run_score(profile, cycle, pod, nodes).get(plugin.name)
    if scores is None:
        return None
    return {nodes.name(position): score for position, score in enumerate(scores.tolist())}


def _alone(plugin: Any) -> Profile:
    return Profile("test", {point: [plugin] for point in Point if takes_part(plugin, point)})


def _live(state: ClusterState) -> Nodes:
    return state.nodes.at(np.flatnonzero(state.nodes.live))
