"""Dry runs of preemption by a pod among the pods of PodGroups.

A pod of a PodGroup has the priority of the group, and the pods of a group with disruptionMode `all` are evicted
together, on all nodes. Mirrors SelectVictimsOnNode of plugins/defaultpreemption, and framework/preemption/types.go,
since 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from bayplan.core.cluster.columns import Bool, Rows
from bayplan.core.cluster.group_trees import Child
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.cluster.pod_groups import Members, PodsByGroup, pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Candidate
from bayplan.core.plugins.default_preemption.candidates import VictimUnit
from bayplan.core.plugins.default_preemption.dry_run import DryRun
from bayplan.core.plugins.default_preemption.victim_groups import VictimGroup


class GroupsOnNodes:
    """The pods on nodes as units that are evicted together or not at all.

    `groups`: the pods of PodGroups as victims, by key. `members`: these pods.
    """

    def __init__(
        self, groups: Mapping[str, VictimGroup], members: Mapping[str, Members] | PodsByGroup, table: NodeTable
    ) -> None:
        self._table = table
        self._members = members
        self._groups = groups

    @cached_property
    def rows(self) -> Rows:
        """The rows with pods of these groups, sorted. On all others, each pod is a unit with its own priority."""
        found = {self._table.row_of_pod[pod.uid] for key in self._groups for pod in self._on_nodes(key)}
        return np.array(sorted(found), dtype=np.intp)

    def priority_of(self, pod: PodInfo) -> int:
        """Return the priority of a pod as a victim: that of its PodGroup, or of its tree, if that exists."""
        group = self._group(pod)
        return pod.priority if group is None else group.priority

    def below(self, row: int, priority: int) -> list[VictimUnit]:
        """Return the units of lower priority with pods on a row."""
        units = dict.fromkeys(map(self._unit, self._table.pods[row].values()))
        return [unit for unit in units if unit.priority < priority]

    def _unit(self, pod: PodInfo) -> VictimUnit:
        group = self._group(pod)
        whole = None if group is None or group.together is None else self._whole.get(group.together)
        return VictimUnit((pod,), self.priority_of(pod)) if whole is None else whole

    @cached_property
    def _whole(self) -> dict[Child, VictimUnit]:
        """The groups that are evicted as a whole. Pods that are being deleted don't belong to them."""
        found: dict[Child, list[PodInfo]] = {}
        priorities: dict[Child, int] = {}
        for key, group in self._groups.items():
            if group.together is not None:
                pods = (pod for pod in self._on_nodes(key) if not pod.terminating)
                found.setdefault(group.together, []).extend(pods)
                priorities[group.together] = group.priority
        rows = self._table.row_of_pod
        return {
            group: VictimUnit(sorted(pods, key=lambda pod: rows[pod.uid]), priorities[group])
            for group, pods in found.items()
            if pods
        }

    def _on_nodes(self, key: str) -> Iterator[PodInfo]:
        """Yield the pods of a group that count on a node, in the order of the nodes."""
        found = (self._table.pod(uid) for uid in self._members[key].pods)
        yield from sorted((pod for pod in found if pod is not None), key=lambda pod: self._table.row_of_pod[pod.uid])

    def _group(self, pod: PodInfo) -> VictimGroup | None:
        key = pod_group_of(pod)
        return None if key is None else self._groups.get(key)


class GroupedDryRun(DryRun):
    """A dry run that evicts units. That pods of a unit on other nodes go, too, makes no difference to the filters.

    Only rows with pods of groups are looked at one by one.
    """

    def __init__(self, groups: GroupsOnNodes, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._groups = groups
        self._units: dict[int, list[VictimUnit]] = {}
        """By row with pods of groups: the units of lower priority."""

    def _has_lower(self, rows: Rows) -> Bool:
        lower = super()._has_lower(rows)
        for position in self._grouped(rows).nonzero()[0].tolist():
            lower[position] = bool(self._below(rows.item(position)))
        return lower

    def _without_lower(self, rows: Rows) -> Removals:
        grouped = self._grouped(rows)
        alone = iter(super()._without_lower(rows[~grouped]).pods)
        pairs = zip(rows.tolist(), grouped.tolist(), strict=True)
        return Removals([list(self._local(self._below(row), row)) if some else next(alone) for row, some in pairs])

    def _candidates(self, rows: Rows, removals: Removals) -> Iterator[Candidate]:
        grouped = self._grouped(rows)
        alone = super()._candidates(rows[~grouped], removals.at(np.flatnonzero(~grouped)))
        for row, some in zip(rows.tolist(), grouped.tolist(), strict=True):
            yield self._candidate(row) if some else next(alone)

    def _grouped(self, rows: Rows) -> Bool:
        return np.isin(rows, self._groups.rows)

    def _candidate(self, row: int) -> Candidate:
        units = sorted(self._below(row), key=lambda unit: unit.importance)
        violating = dict(zip(units, self._violations(units), strict=True))
        removed = dict.fromkeys(units)
        for unit in sorted(units, key=lambda unit: not violating[unit]):  # the protected ones are restored first
            del removed[unit]
            if not self._fits(row, removed):
                removed[unit] = None
        victims = [unit for unit in units if unit in removed]
        pods = tuple(chain.from_iterable(unit.pods for unit in victims))
        return Candidate(self._nodes.table.names[row], pods, sum(violating[unit] for unit in victims))

    def _violations(self, units: Sequence[VictimUnit]) -> Iterator[int]:
        """Yield how many evictions of each unit would violate a budget, if the units are evicted in this order."""
        flags = iter(self._budgets.violations([pod for unit in units for pod in unit.pods]))
        for unit in units:
            yield sum(next(flags) for _ in unit.pods)

    def _fits(self, row: int, removed: Iterable[VictimUnit]) -> bool:
        nodes = Nodes(self._nodes.table, np.array([row]), Removals([list(self._local(removed, row))]))
        return bool(self._filter(nodes, again=True).feasible_mask[0])

    def _below(self, row: int) -> list[VictimUnit]:
        if row not in self._units:
            self._units[row] = self._groups.below(row, self._pod.priority)
        return self._units[row]

    def _local(self, units: Iterable[VictimUnit], row: int) -> Iterator[PodInfo]:
        here = self._nodes.table.pods[row]
        return (pod for unit in units for pod in unit.pods if pod.uid in here)
