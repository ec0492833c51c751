"""What a profile's filters say of nodes as they might be: with pods added to them or taken from them in thought.

Mirrors RunFilterPluginsWithNominatedPods (pkg/scheduler/framework/runtime/framework.go).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import interface
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.runner import run_filter, status_of
from bayplan.framework.status import Code, Status
from bayplan.framework.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class ProfileWhatIf:
    """The filters of one profile. Implements framework.interface.WhatIf."""

    profile: Profile
    nominations: Nominations
    rng: random.Random

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
        """What the filters say of nodes under their what-ifs, with and without the pods nominated there."""
        verdicts = filter_changed(self.profile, cycle, pod, nodes)
        filter_nominated(self.profile, self.nominations, cycle, pod, verdicts)
        return verdicts


def filter_nominated(
    profile: Profile, nominations: Nominations, cycle: CycleState, pod: PodInfo, verdicts: Verdicts
) -> None:
    """Look again at the nodes that other pods are nominated to, as if those pods were there.

    Such a node has to pass with and without them: a pod must not take the room that preemption made for a pod of equal
    or higher priority. What is said with the pods there comes first.
    """
    nodes = verdicts.nodes
    changes: dict[int, PodChanges] = {}
    for name, nominated in nominations.nodes.items():
        added = tuple(other for other in nominated.values() if other.priority >= pod.priority and other.uid != pod.uid)
        position = nodes.position(name) if added else None
        if position is not None:
            before = nodes.changes.get(position, PodChanges())
            changes[position] = PodChanges((*before.added, *added), before.removed)
    if not changes:
        return
    positions = np.fromiter(changes, dtype=np.intp, count=len(changes))
    with_them = filter_changed(profile, cycle, pod, nodes.at(positions).changed(dict(enumerate(changes.values()))))
    for index, status in with_them.rejected():
        verdicts.set(int(positions[index]), status)


def filter_changed(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
    """Ask the filters about nodes that may carry what-ifs.

    Plugins that look at the node's pods through `nodes` need nothing more. Those that remember what they saw in
    PreFilter have to be told of every change, so that with them each changed node is asked about on its own.
    """
    told = [
        plugin
        for plugin in profile.at(Point.PRE_FILTER)
        if implements(plugin, interface.PreFilterExtensions) and plugin.name not in cycle.skip_filter
    ]
    if not told or not nodes.changes:
        return run_filter(profile, cycle, pod, nodes)
    verdicts = Verdicts(nodes)
    unchanged = np.setdiff1d(np.arange(len(nodes)), list(nodes.changes))
    verdicts.replace(unchanged, run_filter(profile, cycle, pod, nodes.at(unchanged)))
    for position in nodes.changes:
        alone = np.array([position])
        row = nodes.at(alone)
        changed = cycle.clone()
        problem = _tell(told, changed, pod, row)
        if problem is not None:
            verdicts.set(position, problem)
        else:
            verdicts.replace(alone, run_filter(profile, changed, pod, row))
    return verdicts


def _tell(plugins: Sequence[Any], cycle: CycleState, pod: PodInfo, row: Nodes) -> Status | None:
    """Tell plugins of the changes of one node. Returns what one of them objects to, if one does."""
    node = row.info(0)
    for other, sign in row.changes[0].signed():
        point = "AddPod" if sign > 0 else "RemovePod"
        for plugin in plugins:
            method = plugin.add_pod if sign > 0 else plugin.remove_pod
            status = status_of(cycle.call(plugin, point, method, cycle, pod, other, node), plugin, point)
            if status.code is not Code.SUCCESS:
                problem = f'running {point} on PreFilter plugin "{plugin.name}": {status.message}'
                return Status(Code.ERROR, (problem,), plugin.name)
    return None
