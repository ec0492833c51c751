"""SharedRows: the verdicts and scores of all rows for pods with one key, kept up to date row by row.

Two pods with equal keys get the same verdict and the same raw score on the same row. After a placement, only the rows
that changed are computed again. Plugins that are unshared for these pods run for each pod, after the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayplan.core.cluster.columns import Bool, Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.row_changes import RowChanges
from bayplan.core.framework.calling import Caller
from bayplan.core.framework.cycle_data import CycleData
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState, Filter
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.promises import reads_pods
from bayplan.core.framework.runner import filter_node, run_filter, run_pre_filter, run_pre_score, run_score
from bayplan.core.framework.status import Code, Status
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.sharing.nominated import NominatedVerdicts
from bayplan.core.sharing.scores import FEW_CHANGES, LatestScores


@dataclass(frozen=True, slots=True)
class SplitProfile:
    """A profile, split into the plugins with results that pods share, and the plugins that run for each pod.

    Filters from the first that is unshared run for each pod, because a node's verdict is the first rejection in order.
    """

    shared: Profile
    unshared: Profile

    @classmethod
    def of(cls, profile: Profile, unshared: frozenset[str]) -> SplitProfile:
        """Split a profile. `unshared`: the names of the plugins whose results are not shared."""
        filters = profile.at(Point.FILTER)
        first = next((index for index, plugin in enumerate(filters) if plugin.name in unshared), len(filters))
        shared: dict[Point, Sequence[Any]] = {Point.FILTER: filters[:first]}
        left: dict[Point, Sequence[Any]] = {Point.FILTER: filters[first:]}
        for point in (Point.PRE_FILTER, Point.PRE_SCORE, Point.SCORE):
            shared[point] = [plugin for plugin in profile.at(point) if plugin.name not in unshared]
            left[point] = [plugin for plugin in profile.at(point) if plugin.name in unshared]
        split = (Profile(profile.scheduler_name, half, profile.weights) for half in (shared, left))
        return cls(*split)


class LastRejection(NamedTuple):
    """A decision that rejected a pod. `alike`: a key of the pods that share it.

    `version`: of the state. `others`: of all of it but the nodes and the pods on them.
    """

    decision: Any
    alike: Hashable
    version: Hashable
    others: Hashable


class SharedRows:
    """What pods with one key share. Make it with `build`, and `refresh` it for each pod.

    `split`: which plugins are shared. `verdicts`: of all rows, by the shared filters, frozen. `rejection`: the last.
    """

    __slots__ = (
        "_changes",
        "_cycle",
        "_nominated",
        "_reading_pods",
        "_scores",
        "_unshared",
        "rejection",
        "split",
        "verdicts",
    )

    def __init__(self, split: SplitProfile, cycle: CycleState, verdicts: Verdicts) -> None:
        self.split = split
        self.verdicts = verdicts.freeze()
        self._unshared = frozenset(plugin.name for plugin in split.unshared.at(Point.FILTER))
        self._cycle = cycle
        """What the shared plugins stored for the first such pod."""
        self._changes = RowChanges(verdicts.nodes.table)
        self._reading_pods = _filters_reading_pods(split.shared, cycle)
        self._scores = LatestScores(split.shared)
        self._nominated = NominatedVerdicts()
        self.rejection: LastRejection | None = None

    @classmethod
    def build(cls, split: SplitProfile, pod: PodInfo, nodes: Nodes, call: Caller) -> SharedRows | None:
        """Filter all rows. None for a pod that PreFilter rejects or narrows to some nodes, and if a filter fails."""
        cycle = CycleState(call=call)
        outcome = run_pre_filter(split.shared, cycle, pod, nodes)
        if outcome.refusal is not None or outcome.names is not None:
            return None
        verdicts = run_filter(split.shared, cycle, pod, nodes)
        return cls(split, cycle, verdicts) if verdicts.error() is None else None

    def refresh(self, pod: PodInfo, nodes: Nodes, call: Caller) -> bool:
        """Filter the rows that changed since. Returns False where all rows must be built again."""
        table, changes = nodes.table, self._changes
        self._cycle.call = call
        if table.size != len(self.verdicts.feasible_mask):
            return False
        changed = changes.take(table)
        if not changed:
            return True
        if len(changed) > max(FEW_CHANGES, table.size // 4):
            return False
        self._scores.changed(changed, only_pods=changes.only_pods)
        if changes.only_pods and self._reading_pods is not None and len(changed) <= FEW_CHANGES:
            return self._filter_again(*self._reading_pods, pod, nodes, changed)
        rows = np.array(changed, dtype=np.intp)
        found = run_filter(self.split.shared, self._cycle, pod, nodes.at(rows))
        if found.error() is not None:
            return False
        verdicts = self.verdicts.copy()
        verdicts.replace(rows, found)
        self.verdicts = verdicts.freeze(self.verdicts)
        return True

    def _filter_again(
        self, settled: frozenset[str], filters: Sequence[Any], pod: PodInfo, nodes: Nodes, changed: Sequence[int]
    ) -> bool:
        """Filter rows on which only pods changed. Most verdicts stay what they are."""
        found: dict[int, Status | None] = {}
        for row in changed:
            before = self.verdicts.of(row)
            if not nodes.table.live[row] or before.plugin in settled:
                continue
            status = filter_node(filters, self._cycle, pod, nodes.info(row))
            if status is not None and status.code is Code.ERROR:
                return False
            if status != (None if before.code is Code.SUCCESS else before):
                found[row] = status
        if found:
            verdicts = self.verdicts.copy()
            for row, status in found.items():
                verdicts.settle(row, status)
            self.verdicts = verdicts.freeze(self.verdicts)
        return True

    def begin(self, pod: PodInfo, nodes: Nodes, gang: Gang | None) -> CycleState | None:
        """Return the pod's own cycle, after PreFilter. None where PreFilter rejects the pod or narrows the nodes."""
        cycle = self._cycle.clone()
        if gang is not None:
            cycle.data[PLACED_WITH] = gang
        outcome = run_pre_filter(self.split.unshared, cycle, pod, nodes)
        return cycle if outcome.refusal is None and outcome.names is None else None

    def filter(self, cycle: CycleState, pod: PodInfo) -> Verdicts:
        """Return the verdicts of all filters on all rows, frozen. Raises PluginError."""
        if not self.filters_apart(cycle) or not len(self.verdicts.feasible()):
            return self.verdicts
        verdicts = run_filter(self.split.unshared, cycle, pod, self.verdicts.nodes, self.verdicts)
        if len(verdicts.table) == len(self.verdicts.table):  # nothing was rejected
            return self.verdicts
        verdicts.raise_error()
        return verdicts.freeze()

    def filters_apart(self, cycle: CycleState) -> bool:
        """Return whether filters run for each pod."""
        return not self._unshared <= cycle.skip_filter

    @property
    def nominated(self) -> NominatedVerdicts:
        """The verdicts with nominated pods, for pods without unshared filters."""
        return self._nominated

    def total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Bool | None) -> Int64:
        """Return the weighted sum of all scores of some feasible nodes: int64, a new array. Raises PluginError.

        `feasible`: the mask of `nodes` among all rows, if there is one.
        """
        each = self.split.unshared
        total = self.shared_total(cycle, pod, nodes, feasible)
        run_pre_score(each, cycle, pod, nodes)
        for scores in run_score(each, cycle, pod, nodes).values():
            total += scores
        return total

    def shared_total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Bool | None) -> Int64:
        """Return what `total` returns, of the shared plugins only."""
        began = self._scores.began
        total = self._scores.total(self._cycle, pod, self.verdicts, nodes, feasible)
        if not began:  # the pod's cycle was copied before PreScore
            cycle.skip_score |= self._cycle.skip_score
            cycle.data = CycleData({**self._cycle.clone().data, **cycle.data})
        return total


def _filters_reading_pods(profile: Profile, cycle: CycleState) -> tuple[frozenset[str], Sequence[Any]] | None:
    """Return the filters to run again for a node on which only pods changed, and the names of those before them.

    None where a filter has no per-node form.
    """
    filters = [plugin for plugin in profile.at(Point.FILTER) if plugin.name not in cycle.skip_filter]
    settled = set()
    while filters and not reads_pods(filters[0]):
        settled.add(filters.pop(0).name)
    return (frozenset(settled), filters) if all(implements(plugin, Filter) for plugin in filters) else None
