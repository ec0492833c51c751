"""Who may be evicted for a pod: by its quota, and by those of the others.

A pod whose namespace uses no more than its min takes back what others have borrowed: pods of namespaces that use more
than their min, whatever their priority, as long as they do. A pod whose namespace uses more evicts only pods of its own
namespace with lower priority. A pod without a quota evicts only such pods, of lower priority. Mirrors
SelectVictimsOnNode and PodEligibleToPreemptOthers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.plugin import PodInfo, Status, VictimPolicy
from bayplan_plugins.capacity_scheduling.quotas import Amounts, ElasticQuotas
from bayplan_plugins.capacity_scheduling.usage import Usage, minus, plus, requests_of

EXCEEDED = Status.unschedulable("global quota max exceeded")


@dataclass(frozen=True, slots=True)
class QuotaDemand:
    """What is needed with a pod: by its namespace, and by all namespaces with a quota.

    Each is the request of the pod, and those of nominated pods that come before it.
    """

    own: Amounts
    everywhere: Amounts


class QuotaVictims(VictimPolicy):
    """Who may be evicted for a pod."""

    exhaustive = True

    def __init__(self, pod: PodInfo, quotas: ElasticQuotas, usage: Usage, demand: QuotaDemand) -> None:
        super().__init__(pod)
        self._quotas, self._usage, self._demand = quotas, usage, demand
        self._quota = quotas.of(pod.namespace)
        used = usage.of(pod.namespace)
        self._borrows = self._quota is not None and quotas.over_min(self._quota, plus(used, demand.own))

    def victims(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods that may go, the least important one first."""
        if self._quota is not None and not self._borrows:
            return self._borrowing([other for _, other in sorted(enumerate(pods), key=_importance)])
        return [other for other in pods if self._is_peer(other) and other.priority < self.pod.priority]

    def objection(self, removed: Sequence[PodInfo]) -> Status | None:
        """Object if the quotas don't allow the pod even then."""
        quota = self._quota
        if quota is None:
            return None
        gone = requests_of(other for other in removed if other.namespace == quota.namespace)
        if quota.over_max(minus(plus(self._usage.of(quota.namespace), self._demand.own), gone)):
            return EXCEEDED
        lent = requests_of(other for other in removed if self._quotas.of(other.namespace) is not None)
        over = self._quotas.over_total(minus(plus(self._usage.total, self._demand.everywhere), lent))
        return EXCEEDED if over else None

    def no_victims(self, node_name: str) -> Status:
        """Return the status of a node on which no pod may go."""
        return Status.unresolvable(f"No victims found on node {node_name} for preemptor pod {self.pod.name}")

    def makes_room(self, other: PodInfo) -> bool:
        """Return whether a terminating pod leaves what this pod may use."""
        if not other.terminating:
            return False
        if self._quota is None or other.namespace == self.pod.namespace:
            return self._is_peer(other) and other.priority < self.pod.priority
        quota = self._quotas.of(other.namespace)
        return quota is not None and not self._borrows and self._is_over_min(other.namespace, {})

    def _is_peer(self, other: PodInfo) -> bool:
        """Whether the priorities of the pods decide: they have one quota, or both have none."""
        if self._quota is not None:
            return other.namespace == self.pod.namespace
        return self._quotas.of(other.namespace) is None

    def _borrowing(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods of namespaces that borrow, each as long as its namespace does without the earlier ones."""
        gone: dict[str, Counter[str]] = {}
        chosen: list[PodInfo] = []
        for other in pods:
            namespace = other.namespace
            if namespace != self.pod.namespace and self._is_over_min(namespace, gone.get(namespace, {})):
                chosen.append(other)
                gone.setdefault(namespace, Counter()).update(other.requested)
        return chosen

    def _is_over_min(self, namespace: str, gone: Amounts) -> bool:
        quota = self._quotas.of(namespace)
        return quota is not None and self._quotas.over_min(quota, minus(self._usage.of(namespace), gone))


def _importance(place: tuple[int, PodInfo]) -> tuple[float, ...]:
    """Return a sort key: the least important pod has the smallest key, and of equal ones, the last one."""
    index, pod = place
    return pod.priority, -pod.started, -index
