"""Runs a profile's filters on hypothetical nodes, which have pods added or removed.

Mirrors RunFilterPluginsWithNominatedPods (pkg/scheduler/framework/runtime/framework.go).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.runner import run_filter, status_of
from bayplan.core.framework.status import Code, Status, failed_in
from bayplan.core.framework.verdicts import Verdicts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProfileWhatIf:
    """The filters of one profile. Implements bayplan.core.framework.interface.WhatIf.

    `actual`: the verdicts of the pod's attempt. Filters that nodes passed there, and that pods on the nodes can't
    change, don't run again.
    """

    profile: Profile
    nominations: Nominations
    rng: random.Random
    actual: Verdicts | None = None

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, *, again: bool = False) -> Verdicts:
        """Run the filters on nodes with their what-ifs, first with the pods nominated to them.

        Only nodes that are feasible then are also filtered without them. The result is that of `filter_nominated`.
        """
        profile = self.profile.settled()[1] if again or self._passed_settled(cycle, nodes) else self.profile
        nominated = _with_nominated(self.nominations, pod, nodes)
        with_them = nodes.changed({**nodes.changes, **nominated}) if nominated else nodes
        verdicts = filter_changed(profile, cycle, pod, with_them)
        if unsure := [position for position in nominated if verdicts.feasible_mask[position]]:
            positions = np.array(unsure, dtype=np.intp)
            verdicts.replace(positions, filter_changed(profile, cycle, pod, nodes.at(positions)))
        verdicts.nodes = nodes
        return verdicts

    def kept(self, key: Hashable, cycle: CycleState, make: Callable[[], T]) -> T:
        """Return what `make` returns."""
        return make()

    def _passed_settled(self, cycle: CycleState, nodes: Nodes) -> bool:
        """Return whether all of these nodes are known to pass the filters whose verdicts don't depend on pods."""
        actual, settled = self.actual, self.profile.settled()[0]
        if actual is None or not isinstance(actual.nodes.rows, slice) or _extended(self.profile, cycle):
            return False
        failed = [code for code, status in enumerate(actual.table) if status.plugin in settled]
        return not failed or not np.isin(actual.codes[nodes.rows], failed).any()


def filter_nominated(
    profile: Profile,
    nominations: Nominations,
    cycle: CycleState,
    pod: PodInfo,
    verdicts: Verdicts,
    names: Collection[str] | None = None,
) -> None:
    """Run the filters again on nodes that other pods are nominated to, as if those pods were running there.

    Such a node has to be feasible with and without the nominated pods: a pod must not take the room that preemption
    made for a pod of equal or higher priority. A rejection with the nominated pods replaces the verdict without them.
    `names`: which of these nodes to filter; None for all of them.
    """
    nodes, changes = verdicts.nodes, _with_nominated(nominations, pod, verdicts.nodes, names)
    if not _extended(profile, cycle):
        settled, profile = profile.settled()
        changes = {
            position: change
            for position, change in changes.items()
            if verdicts.feasible_mask[position] or verdicts.of(position).plugin not in settled
        }
    if not changes:
        return
    changed = np.array(list(changes), dtype=np.intp)
    with_them = filter_changed(profile, cycle, pod, nodes.at(changed).changed(dict(enumerate(changes.values()))))
    for index, position in enumerate(changes):
        if not with_them.feasible_mask[index]:
            verdicts.settle(position, with_them.of(index))


def _with_nominated(
    nominations: Nominations, pod: PodInfo, nodes: Nodes, names: Collection[str] | None = None
) -> dict[int, PodChanges]:
    """Return what-ifs that also add the pods nominated to a node, for each node where such a pod counts.

    Pods of lower priority and the pod itself don't count. `names`: which nodes with nominated pods to look at; None for
    all of them.
    """
    nominees = nominations.nodes
    changes: dict[int, PodChanges] = {}
    for name, position in nodes.positions(nominees if names is None else names).items():
        added = [other for other in nominees[name].values() if other.priority >= pod.priority and other.uid != pod.uid]
        if added:
            before = nodes.changes.get(position)
            changes[position] = PodChanges(added) if before is None else before.adding(added)
    return changes


def filter_changed(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
    """Run the filters on nodes that may carry what-ifs.

    Plugins that read pods from `nodes` see the what-ifs there. The data that a plugin with PreFilterExtensions computed
    in PreFilter has to be updated for each changed pod; with such plugins, each changed node is filtered separately.
    """
    extended = _extended(profile, cycle)
    if not extended or not nodes.changes:
        return run_filter(profile, cycle, pod, nodes)
    verdicts = Verdicts(nodes)
    unchanged = np.setdiff1d(np.arange(len(nodes)), list(nodes.changes))
    verdicts.replace(unchanged, run_filter(profile, cycle, pod, nodes.at(unchanged)))
    for position in nodes.changes:
        alone = np.array([position])
        row = nodes.at(alone)
        changed = cycle.clone()
        error = _update_cycle(extended, changed, pod, row)
        if error is not None:
            verdicts.set(position, error)
        else:
            verdicts.replace(alone, run_filter(profile, changed, pod, row))
    return verdicts


def _extended(profile: Profile, cycle: CycleState) -> list[Any]:
    """Return the plugins with PreFilterExtensions that PreFilter didn't skip."""
    return [plugin for plugin in profile.extended if plugin.name not in cycle.skip_filter]


def _update_cycle(plugins: Sequence[Any], cycle: CycleState, pod: PodInfo, row: Nodes) -> Status | None:
    """Call `add_pod` and `remove_pod` for the changed pods of one node. Returns the first error, or None."""
    node = row.info(0)
    for other, by in row.changes[0].signed():
        point = "AddPod" if by > 0 else "RemovePod"
        for plugin in plugins:
            method = plugin.add_pod if by > 0 else plugin.remove_pod
            status = status_of(cycle.call(plugin, point, method, cycle, pod, other, node), plugin, point)
            if status.code is not Code.SUCCESS:
                return Status(Code.ERROR, (failed_in(plugin.name, point, status.message),), plugin.name)
    return None
