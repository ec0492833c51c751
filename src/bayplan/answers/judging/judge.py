"""Judge: the rules by which a decision of another scheduler is as good as the one that is made here.

Among equal scores, chance decides, so any of the best nodes is equal. kube-scheduler looks at only some nodes of large
clusters, so the best of those may be, too. Of preemptions, victims are compared by what the plugin prefers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import numpy as np

from bayplan.answers.judging.choices import better_than, is_best, loss_at
from bayplan.answers.judging.judgement import Judgement, Standing
from bayplan.answers.judging.node_orders import NodeOrders
from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.capabilities import SampledPreemption
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.scheduling import Decision
from bayplan.core.scheduling.sampling import feasible_nodes_to_find


class Judge:
    """Judges decisions in the current state of a cluster. Nothing changes.

    `pod_of`: the pods of the cluster, by `namespace/name`.
    """

    def __init__(self, state: ClusterState, pod_of: Callable[[str], PodInfo | None] = lambda _: None) -> None:
        self._table = state.table
        self._pod_of = pod_of
        self._orders = NodeOrders(state)

    def placement(self, decision: Decision, theirs: str, profile: Profile | None = None) -> Judgement:
        """Judge a node that another scheduler chose, or that it chose none ("").

        `profile`: that of the decision, if the other scheduler may have looked at only some of the nodes.
        """
        ours = decision.node or ""
        loss = loss_at(self._table, decision, theirs)
        standing = Standing.BETTER
        if ours == theirs:
            standing = Standing.SAME
        elif theirs and is_best(self._table, decision, theirs):
            standing = Standing.TIE
        elif theirs and profile is not None and self._orders.may_leave_out(decision, theirs, profile):
            standing = Standing.SAMPLED
        return Judgement(
            standing=standing,
            ours=ours,
            theirs=theirs,
            loss=math.inf if loss is None else float(loss),
            decision=decision,
            message="" if ours else decision.message,
        )

    def nomination(self, decision: Decision, theirs: str, victims: AbstractSet[str]) -> Judgement:
        """Judge a preemption of another scheduler: its node, and the keys of the pods that it evicts.

        Some of these may not be seen, or be another preemption's.
        """
        ours, node = frozenset(each.key for each in decision.victims), decision.nominated_node or ""
        standing = Standing.BETTER
        if node and node == theirs:
            if victims <= ours or ours <= victims:
                standing = Standing.SAME
            elif self._ranks(victims) == self._ranks(ours):
                standing = Standing.TIE
        loss = float(len(ours ^ victims)) if standing is Standing.BETTER else 0.0
        return Judgement(
            standing=standing,
            ours=node,
            theirs=theirs,
            loss=loss if node else math.inf,
            decision=decision,
            message=decision.message,
            victims=ours if node else frozenset(),
        )

    def failure(self, decision: Decision | None, placed: str, message: str) -> Judgement:
        """Judge that another scheduler found no node. `placed`: the node here, with the whole unit; "" for none.

        `message`: that of the unit.
        """
        nominated = decision.nominated_node or "" if decision is not None and decision.victims else ""
        failed = not placed and not nominated
        return Judgement(
            standing=Standing.SAME if failed else Standing.BETTER,
            ours=placed or nominated,
            theirs="",
            loss=0.0 if failed else math.inf,
            decision=decision,
            message=decision.message if decision is not None and not placed else message,
            victims=frozenset(each.key for each in decision.victims) if decision is not None else frozenset(),
        )

    # What a scheduler that looks at only some of the nodes may miss

    def samples(self, profile: Profile) -> bool:
        """Return whether kube-scheduler looks at only some nodes of this cluster."""
        return self._needed(profile) < self._table.live_count

    def may_miss_all_better(self, decision: Decision, theirs: str, profile: Profile) -> bool:
        """Return whether all nodes that are better than a feasible one can be among those that aren't looked at.

        In whatever order they are looked at; `placement` knows the usual ones.
        """
        better = better_than(self._table, decision, theirs)
        return 0 < better <= len(decision.feasible) - self._needed(profile)

    def samples_preemption(self, decision: Decision, profile: Profile) -> bool:
        """Return whether a preemption for the pod looks at only some of the nodes where it may help."""
        return any(
            each.candidates_to_find(number) < number
            for each in self._preempting(profile)
            if (number := len(each.rows_to_try(decision.diagnosis)))
        )

    def preemption_rows(self, decision: Decision, profile: Profile) -> Rows:
        """Return the rows of the nodes among which a preemption begins at a random one; none if no plugin tells."""
        plugin = next(iter(self._preempting(profile)), None)
        return np.zeros(0, dtype=np.intp) if plugin is None else plugin.rows_to_try(decision.diagnosis)

    def _preempting(self, profile: Profile) -> list[SampledPreemption]:
        return [each for each in profile.at(Point.POST_FILTER) if implements(each, SampledPreemption)]

    def _needed(self, profile: Profile) -> int:
        return feasible_nodes_to_find(profile, self._table.live_count)

    def _ranks(self, keys: Iterable[str]) -> list[tuple[int, float]]:
        """What a preemption prefers victims by; among equal ones, it takes any."""
        pods = map(self._pod_of, keys)
        return sorted((pod.priority, pod.started) for pod in pods if pod is not None)
