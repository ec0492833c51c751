"""WorkloadAwarePreemption: preempts pods of lower priority, on any nodes, for a whole PodGroup, or a tree of groups.

Mirrors framework/preemption/podgrouppreemption.go, and DefaultPreemption's handling of pod groups upstream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Hashable, Iterable, Sequence
from itertools import chain, compress

from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS, GroupSpec, spec_of
from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.group_trees import GroupTrees
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import AllRemoved
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import events
from bayplan.core.framework.events import Action, ClusterEvent, EventHint
from bayplan.core.framework.gangs import Gang, GangTrial, GangVictims, PodsGone, PreemptionRules
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.status import Status
from bayplan.core.plugins.default_preemption.candidates import VictimUnit
from bayplan.core.plugins.default_preemption.lower_pods import LowerPods
from bayplan.core.plugins.default_preemption.plugin import NEVER, after_pod_deletion
from bayplan.core.plugins.default_preemption.victim_groups import VictimGroup, victim_group
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming preemptor")
NOT_ENOUGH = Status.unschedulable("the gang would not fit even if all pods of lower priority were evicted")
IN_PROGRESS = Status.unresolvable("waiting for the preemption for this pod group to be finished")


class WorkloadAwarePreemption(Plugin):
    """Preempts pods for an unschedulable PodGroup, and gates its pods while the victims are being evicted.

    The priority of the PodGroup, or of the root of its tree, decides which pods may be preempted.
    """

    name = "WorkloadAwarePreemption"

    def __init__(self, handle: Handle, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._handle = handle
        self._group_decides = gates.enabled("PodGroupPriorityOfVictims")
        self._has_policy = gates.enabled("PodGroupPreemptionPolicy")
        self.rules = PreemptionRules(
            name="pod group preemption" if gates.enabled("PodGroupPreemptionPrefix") else "preemption",
            places_most=gates.enabled("PodGroupPreemptionPlacesMost"),
            keeps_nodes=gates.enabled("PodGroupPreemptionKeepsNodes"),
            constrained=gates.enabled("PreemptionOfConstrainedPodGroups"),
            reports=gates.enabled("PodGroupPreemptionMessage"),
        )
        composites = handle.objects(COMPOSITES) if gates.enabled("CompositePodGroup") else None
        self._trees = GroupTrees(handle.objects(POD_GROUPS), composites)
        self._budgets = handle.objects(POD_DISRUPTION_BUDGET)
        self._lower = LowerPods()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate the pods of a group while its victims are being evicted."""
        key = pod_group_of(pod) or ""
        root = self._trees.path(key).root
        group = self._trees.composites.get(root) if root else self._trees.pod_groups.get(key)
        return IN_PROGRESS if group is not None and self._handle.preempting(group.metadata.uid or "") else None

    def gang_post_filter(self, gang: Gang, nodes: Nodes) -> GangTrial | None:
        """Look for victims of a PodGroup. The members of other gangs preempt on their own."""
        if gang.composite in self._trees.composites:
            group, spec = self._trees.composites[gang.composite], self._trees.composite_spec(gang.composite)
            return self._trial(gang, group.metadata.uid or "", spec, nodes)
        if gang.pod_group in self._trees.pod_groups:
            group = self._trees.pod_groups[gang.pod_group]
            return self._trial(gang, group.metadata.uid or "", spec_of(group), nodes)
        return None

    def _trial(self, gang: Gang, uid: str, spec: GroupSpec, nodes: Nodes) -> GangTrial:
        policies = [spec.preemptionPolicy] if self._has_policy else [pod.spec.preemptionPolicy for pod in gang.members]
        if "Never" in policies:
            return Status.unschedulable(NEVER)
        evictable = self._evictable(gang, nodes.table, spec.priority or 0)
        everything = PodsGone(evictable.by_row)
        if not len(everything):
            return NO_VICTIMS
        if not (yield everything):
            return NOT_ENOUGH
        budgets, matter = Budgets(self._budgets.values()), everything.nodes
        # What a budget protects depends on all pods.
        units = evictable.units(nodes.table, None if budgets else matter)
        protected = _protected(units, budgets)
        if matter is not None and budgets:
            units = [unit for unit in units if any(pod.node_name in matter for pod in unit.pods)]
            protected = dict.fromkeys(unit for unit in units if unit in protected)
        removed = dict.fromkeys(units)
        yield from _reprieve(list(protected), removed)
        yield from _reprieve([unit for unit in units if unit not in protected], removed)
        return GangVictims(gang.members[0], tuple(_pods(removed)), uid)

    def _evictable(self, gang: Gang, table: NodeTable, priority: int) -> _Evictable:
        """Return the pods on nodes with a lower priority, but for those of the gang."""
        kept, own = self._lower.than(priority, table), gang.pod_groups
        known: dict[str, VictimGroup | None] = {}
        found: dict[Hashable, tuple[VictimGroup | None, list[PodInfo]]] = {}
        for row in sorted(kept.grouped):
            for pod in kept.grouped[row]:
                key = pod_group_of(pod)
                if key is not None and key not in own:
                    group = known[key] if key in known else known.setdefault(key, victim_group(self._trees, key))
                    together = None if group is None else group.together
                    found.setdefault(together or key, (group, []))[1].append(pod)
        units: list[VictimUnit] = []
        for group, pods in found.values():
            if group is not None and group.together is not None:
                units.append(VictimUnit(pods, group.priority))
            else:
                decides = group if self._group_decides else None
                units += [VictimUnit((pod,), pod.priority if decides is None else decides.priority) for pod in pods]
        return _Evictable(kept.lower, [unit for unit in units if unit.priority < priority], table)

    def events(self) -> Iterable[EventHint]:
        """Register deletions of pods: they run PreEnqueue again for gated pods."""
        yield EventHint(ClusterEvent(events.POD, Action.DELETE), after_pod_deletion)


class _Evictable:
    """The pods that may be evicted. `by_row`: all of them."""

    def __init__(self, alone: AllRemoved, grouped: Sequence[VictimUnit], table: NodeTable) -> None:
        self._alone = alone
        self._grouped = grouped
        self.by_row = alone
        if grouped:
            on_row = defaultdict(list)
            for pod in _pods(grouped):
                on_row[table.row_of_pod[pod.uid]].append(pod)
            self.by_row = alone.copy()
            self.by_row.replace({row: [*alone.pods[row], *pods] for row, pods in on_row.items()})

    def units(self, table: NodeTable, nodes: Collection[str] | None) -> list[VictimUnit]:
        """Return the units in which they are evicted, the most important one first. `nodes`: only those with a pod on
        one of these nodes; None for all.
        """
        rows: Iterable[int] = range(len(self._alone.pods))
        grouped = self._grouped
        if nodes is not None:
            rows = sorted(table.row_of[name] for name in nodes)
            grouped = [unit for unit in grouped if any(pod.node_name in nodes for pod in unit.pods)]
        alone = chain.from_iterable(self._alone.pods[row] for row in rows)
        units = [*(VictimUnit((pod,), pod.priority) for pod in alone), *grouped]
        return sorted(units, key=lambda unit: unit.importance)


def _protected(units: Sequence[VictimUnit], budgets: Budgets) -> dict[VictimUnit, None]:
    """Return the units with a pod whose eviction would violate a budget, in their order, the most important first."""
    if not budgets:
        return {}
    pods = _pods(units)
    protected = {pod.uid for pod in compress(pods, budgets.violations(pods))}
    return dict.fromkeys(unit for unit in units if any(pod.uid in protected for pod in unit.pods))


def _reprieve(
    units: Sequence[VictimUnit], removed: dict[VictimUnit, None]
) -> Generator[Collection[PodInfo], bool, None]:
    """Restore units in order, and remove those again with which the gang does not fit. Updates `removed`.

    The number of units that are restored at once doubles after each success, because usually few have to be evicted.
    """
    start, size = 0, 1
    while start < len(units):
        batch = units[start : start + size]
        for unit in batch:
            del removed[unit]
        if (yield _pods(removed)):
            start += len(batch)
            size *= 2
            continue
        removed.update(dict.fromkeys(batch))
        start += len(batch) == 1
        size = max(1, len(batch) // 2)


def _pods(units: Iterable[VictimUnit]) -> list[PodInfo]:
    return [pod for unit in units for pod in unit.pods]
