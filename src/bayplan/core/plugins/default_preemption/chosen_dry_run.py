"""Dry runs of preemption with a policy about who may be evicted, for plugins that are made of DefaultPreemption.

The policy chooses the pods of each node that may go, and may reject what is left when they are gone, in addition to the
filters. All else is as in DefaultPreemption: restored are the pods that need not go, those that a budget protects
first, and candidates are ranked alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayplan.core.cluster.columns import Bool, Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections, Verdicts
from bayplan.core.plugins.default_preemption.dry_run import NO_VICTIMS, DryRun


class VictimPolicy:
    """Which pods may be evicted for a pod, by default those of lower priority. A policy is made for one attempt.

    `pod`: the pod that preempts. `exhaustive`: whether all nodes are tried, in order; else, as in DefaultPreemption, a
    random one comes first, and a number of candidates is enough.
    """

    exhaustive = False

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod

    def victims(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return those of a node's pods that may be evicted, in any order."""
        return [other for other in pods if other.priority < self.pod.priority]

    def objection(self, removed: Sequence[PodInfo]) -> Status | None:
        """Return why a node without these pods, which the filters accept, is still rejected; None if it isn't."""
        return None

    def no_victims(self, node_name: str) -> Status:
        """Return the status of a node without pods that may be evicted."""
        return NO_VICTIMS

    def makes_room(self, other: PodInfo) -> bool:
        """Return whether a pod on the nominated node is ending, so that the pod waits for the room that it leaves."""
        return other.terminating and other.priority < self.pod.priority


class ChosenDryRun(DryRun):
    """A dry run that evicts the pods that a policy chooses."""

    def __init__(self, policy: VictimPolicy, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._policy = policy
        self._chosen: dict[int, list[PodInfo]] = {}

    def verdicts(self) -> Verdicts:
        """Return the verdicts on all nodes. The dry run must have tried all of them."""
        verdicts = super().verdicts()
        for position in (~self._has_lower(self._rows())).nonzero()[0].tolist():
            verdicts.settle(position, self._policy.no_victims(self._nodes.name(position)))
        return verdicts

    def _has_lower(self, rows: Rows) -> Bool:
        return np.array([bool(self._victims(row)) for row in rows.tolist()], dtype=np.bool_)

    def _without_lower(self, rows: Rows) -> Removals:
        return Removals([self._victims(row) for row in rows.tolist()])

    def _victims(self, row: int) -> list[PodInfo]:
        if row not in self._chosen:
            self._chosen[row] = self._policy.victims(list(self._nodes.table.pods[row].values()))
        return self._chosen[row]

    def _filter(self, nodes: Nodes, *, again: bool = False) -> Verdicts:
        verdicts = super()._filter(nodes, again=again)
        objections: list[Status] = []
        index = np.zeros(len(nodes), dtype=np.int32)
        for position in verdicts.feasible().tolist():
            objection = self._policy.objection(nodes.changes[position].removed)
            if objection is not None:
                objections.append(objection)
                index[position] = len(objections)
        verdicts.reject(Rejections(index, objections), "")
        return verdicts
