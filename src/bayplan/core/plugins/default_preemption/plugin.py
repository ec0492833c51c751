"""DefaultPreemption: selects a node that becomes feasible for a pod if pods of lower priority are evicted.

Mirrors plugins/defaultpreemption/default_preemption.go, and the selection of framework/preemption/preemption.go. The
service evicts the victims.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from bayplan.core.api.kinds import POD, POD_DISRUPTION_BUDGET
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS
from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.group_trees import GroupTrees
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_groups import Members, PodsByGroup, pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import events
from bayplan.core.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.gangs import PLACED_WITH
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import (
    Candidate,
    CycleState,
    FailedPreemption,
    Plugin,
    PostFilterResult,
    Shortlist,
    WhatIf,
)
from bayplan.core.framework.status import Code, Status, aggregate
from bayplan.core.framework.verdicts import Diagnosis, fit_error
from bayplan.core.plugins.arguments import DefaultPreemptionArgs
from bayplan.core.plugins.default_preemption.candidates import preference
from bayplan.core.plugins.default_preemption.chosen_dry_run import ChosenDryRun, VictimPolicy
from bayplan.core.plugins.default_preemption.dry_run import NO_VICTIMS, DryRun
from bayplan.core.plugins.default_preemption.grouped_dry_run import GroupedDryRun, GroupsOnNodes
from bayplan.core.plugins.default_preemption.results import Results
from bayplan.core.plugins.default_preemption.victim_groups import victim_groups
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NAME = "DefaultPreemption"
IN_PROGRESS = Status.unresolvable("waiting for the preemption for this pod to be finished")
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")

_DEFAULT_ARGUMENTS = DefaultPreemptionArgs()


class DefaultPreemption(Plugin):
    """Preempts pods for an unschedulable pod, and gates it while its victims are being evicted."""

    name = NAME
    arguments: ClassVar[type[Any] | None] = DefaultPreemptionArgs

    def __init__(
        self, handle: Handle, args: DefaultPreemptionArgs = _DEFAULT_ARGUMENTS, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self._handle = handle
        self._tells_victims = gates.enabled("PotentialPlacementMessage")
        self._unstarted_in_order = gates.enabled("VictimsWithoutStart")
        self._members: Mapping[str, Members] | PodsByGroup = {}
        self._trees: GroupTrees | None = None
        """The PodGroups that count for their pods as victims, with those above them."""
        if gates.enabled("PodGroupsAsVictims") and gates.enabled("GenericWorkload"):
            composites = handle.objects(COMPOSITES) if gates.enabled("CompositePodGroup") else None
            self._trees = GroupTrees(handle.objects(POD_GROUPS), composites)
            self._members = PodsByGroup(handle.objects(POD), pod_group_of)
        self._budgets = handle.objects(POD_DISRUPTION_BUDGET)
        self._percentage = args.minCandidateNodesPercentage
        self._absolute = args.minCandidateNodesAbsolute

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod while its victims are being evicted."""
        return IN_PROGRESS.by(self.name) if self._handle.preempting(pod.uid) else None

    def post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> PostFilterResult | Shortlist:
        """Find the candidates. Of those that extenders accept, the best one is chosen."""
        ineligible = self._no_preemption(cycle, pod, diagnosis)
        if ineligible:
            return PostFilterResult(_rejection(ineligible))
        rows, table, policy = self.rows_to_try(diagnosis), self._handle.nodes.table, self.victim_policy(pod)
        exhaustive = policy is not None and policy.exhaustive
        first = what_if.rng.randrange(len(rows)) if len(rows) and not exhaustive else 0
        rows = np.concatenate((rows[first:], rows[:first]))
        by_priority = policy is None and not self._has_groups
        if by_priority and not np.count_nonzero(table.lowest_priority[rows] < pod.priority):
            return _no_victims(diagnosis.total, len(rows))
        nodes = self._handle.nodes.at(rows)
        dry_run = self._dry_run(cycle, pod, nodes, what_if, policy)
        wanted = len(nodes) if exhaustive else self.candidates_to_find(len(nodes))
        candidates, best = dry_run.candidates(wanted)
        if best is None and dry_run.errors:
            return PostFilterResult(Status.error(f"preemption: {aggregate(dry_run.errors)}"))
        if best is None:
            why = Diagnosis(diagnosis.total, dry_run.verdicts(), absent=NOT_HELPFUL).explain()
            return PostFilterResult(_rejection(why), nominated_node="")
        return Shortlist(candidates, self._handle.nodes, partial(self._best, candidates, best))

    def _best(
        self, candidates: tuple[Candidate, ...], best: Candidate, left: tuple[Candidate, ...]
    ) -> PostFilterResult:
        """Choose among those that are left. `best`: the best one of all candidates."""
        if not left:
            return PostFilterResult(_rejection("no candidate node for preemption"))
        if left is not candidates:  # extenders have changed them
            best = min(left, key=preference)
        found = f"found a potential placement for pod on node {best.node_name}, preempting {len(best.victims)} victims"
        reasons = (_reported(found),) if self._tells_victims else ()
        return PostFilterResult(Status(Code.SUCCESS, reasons), best.node_name, best.victims)

    def rejects_again(self, pod: PodInfo, diagnosis: Diagnosis, rng: random.Random) -> bool:
        """Whether no node has a pod that might be evicted, as for all pods of the lowest priority."""
        verdicts = diagnosis.verdicts
        if verdicts is None or diagnosis.absent is not None or pod.nominated_node_name:
            return False
        if self.may_make_room(pod):
            return False
        if pod.spec.preemptionPolicy == "Never":
            return True
        number = sum(number for status, number in verdicts.counts() if status.code is Code.UNSCHEDULABLE)
        if number:
            rng.randrange(number)
        return True

    def may_make_room(self, pod: PodInfo) -> bool:
        """Whether a node has a pod that might be evicted."""
        if self._has_groups or self.victim_policy(pod) is not None:
            return True
        if pod.spec.preemptionPolicy == "Never":
            return False
        return bool(np.count_nonzero(self._handle.nodes.table.lowest_priority < pod.priority))

    def explain_post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
    ) -> list[FailedPreemption]:
        """Dry-run preemption on each node where it may help; extenders are not asked."""
        if self._no_preemption(cycle, pod, diagnosis):
            return []
        nodes = self._handle.nodes.at(self.rows_to_try(diagnosis))
        return self._dry_run(cycle, pod, nodes, what_if, self.victim_policy(pod)).failures()

    def sign(self, pod: PodInfo) -> Hashable:
        """Whether the pod preempts. The signatures of the filters cover the dry runs."""
        return (pod.spec.preemptionPolicy,)

    def events(self) -> Iterable[EventHint]:
        """Register deletions of pods: they run PreEnqueue again for gated pods."""
        deletion = ClusterEvent(events.POD, Action.DELETE)
        yield EventHint(deletion, after_pod_deletion, still_gated=lambda: self._handle.evicting)

    def _no_preemption(self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Return why the pod must not preempt; "" if it may."""
        gang = cycle.data.get(PLACED_WITH)
        return (gang.no_preemption if gang is not None else "") or self._ineligible(pod, diagnosis)

    def victim_policy(self, pod: PodInfo) -> VictimPolicy | None:
        """Return who may be evicted for the pod; None if that is every pod of lower priority.

        For plugins that are made of this one.
        """
        return None

    def _ineligible(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Return why the pod by itself must not preempt; "" if it may.

        A pod must not preempt again while earlier victims are terminating on its nominated node, unless that node is
        unresolvable for it now.
        """
        if pod.spec.preemptionPolicy == "Never":
            return NEVER
        name = pod.nominated_node_name
        if not name or diagnosis.status_of(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        position = self._handle.nodes.position(name)
        if position is None:
            return ""
        pods = self._handle.nodes.pods(position)
        policy = self.victim_policy(pod)
        if policy is not None:
            return VICTIMS_TERMINATING if any(map(policy.makes_room, pods)) else ""
        others = [other for other in pods if _being_preempted(other)]
        groups = self._groups(self._handle.nodes.table)
        waits = any(groups.priority_of(other) < pod.priority for other in others)
        return VICTIMS_TERMINATING if waits else ""

    @property
    def _has_groups(self) -> bool:
        """Whether there are PodGroups that count for their pods as victims."""
        return self._trees is not None and bool(self._trees.pod_groups)

    def _groups(self, table: NodeTable) -> GroupsOnNodes:
        return GroupsOnNodes({} if self._trees is None else victim_groups(self._trees), self._members, table)

    def rows_to_try(self, diagnosis: Diagnosis) -> Rows:
        """Return the rows where removing pods may help, ascending."""
        nodes = self._handle.nodes
        potential = np.zeros(len(nodes), dtype=np.bool_)
        if diagnosis.absent is not None and diagnosis.absent.code is Code.UNSCHEDULABLE:
            potential = nodes.live.copy()
        if diagnosis.verdicts is not None:
            verdicts = diagnosis.verdicts
            resolvable = np.array([status.code is Code.UNSCHEDULABLE for status in verdicts.table])
            potential[verdicts.nodes.rows] = resolvable[verdicts.codes]
        rows: Rows = potential.nonzero()[0]
        return rows

    def _dry_run(
        self, cycle: CycleState, pod: PodInfo, nodes: Nodes, what_if: WhatIf, policy: VictimPolicy | None
    ) -> DryRun:
        budgets, nominations = Budgets(self._budgets.values()), self._handle.nominations
        if policy is not None:
            in_order = self._unstarted_in_order
            return ChosenDryRun(policy, what_if, cycle, pod, nodes, budgets, nominations, unstarted_in_order=in_order)
        if self._has_groups:
            groups = self._groups(nodes.table)
            return GroupedDryRun(
                groups, what_if, cycle, pod, nodes, budgets, nominations, unstarted_in_order=self._unstarted_in_order
            )
        alone = cycle.data.get(PLACED_WITH) is None
        results = self._results_for(cycle, pod, what_if) if alone else Results(self._handle.nodes, nominations)
        in_order = self._unstarted_in_order
        return DryRun(what_if, cycle, pod, nodes, budgets, nominations, results, unstarted_in_order=in_order)

    def _results_for(self, cycle: CycleState, pod: PodInfo, what_if: WhatIf) -> Results:
        """Return the results of earlier dry runs that are also those of this pod; they may be empty."""
        nodes = self._handle.nodes
        key = self.name, pod.priority, self._budgets.version, len(nodes)
        return what_if.kept(key, cycle, lambda: Results(nodes, self._handle.nominations))

    def candidates_to_find(self, nodes: int) -> int:
        """Return how many candidates are enough among a number of nodes."""
        return min(max(nodes * self._percentage // 100, self._absolute), nodes)


def after_pod_deletion(pod: PodInfo, old: PodInfo, new: None) -> Hint:
    """Never requeue an unschedulable pod: the plugins that rejected it register the events for that."""
    return Hint.SKIP


def _being_preempted(pod: PodInfo) -> bool:
    if not pod.terminating:
        return False
    condition = next((each for each in pod.status.conditions or () if each.type == "DisruptionTarget"), None)
    return condition is not None and (condition.status, condition.reason) == ("True", "PreemptionByScheduler")


@lru_cache(maxsize=64)
def _no_victims(total: int, tried: int) -> PostFilterResult:
    """Return the result where none of the tried nodes has a pod of lower priority."""
    numbers = {NO_VICTIMS.message: tried, NOT_HELPFUL.message: total - tried}
    why = fit_error(total, {reason: number for reason, number in numbers.items() if number})
    return PostFilterResult(_rejection(why), nominated_node="")


def _rejection(why: str) -> Status:
    return Status.unschedulable(_reported(why))


def _reported(what: str) -> str:
    return f"preemption: {what}"
