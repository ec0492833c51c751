"""CapacityScheduling: pods use what their namespace is guaranteed, and borrow what others don't use of theirs.

Mirrors pkg/capacityscheduling of scheduler-plugins. docs/scheduler-plugins.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from bayplan.plugin import (
    ELASTIC_QUOTAS,
    Action,
    Answer,
    ClusterEvent,
    CustomObject,
    CycleState,
    DefaultPreemption,
    Details,
    EventHint,
    Handle,
    Hint,
    NodeInfo,
    Nodes,
    PodInfo,
    Status,
    amount_text,
)
from bayplan_plugins.capacity_scheduling.quotas import Amounts, ElasticQuotas, Quota, key_of
from bayplan_plugins.capacity_scheduling.status import QuotaStatuses
from bayplan_plugins.capacity_scheduling.usage import Usage, plus
from bayplan_plugins.capacity_scheduling.victims import QuotaDemand, QuotaVictims
from bayplan_plugins.definitions import definition, permissions


class CapacityScheduling(DefaultPreemption):
    """Rejects pods for which their quota, or what all quotas share out, has no room, and evicts those that borrow."""

    name = "CapacityScheduling"
    arguments = None
    permissions = permissions("elasticquotas")

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._nominations = handle.nominations
        pods = handle.objects("Pod")
        self._quotas = ElasticQuotas(handle.objects(ELASTIC_QUOTAS))
        self._usage = Usage(pods, self._quotas)
        self._statuses = QuotaStatuses(handle, pods, handle.objects(ELASTIC_QUOTAS))

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definition of the resource that it reads."""
        return (definition("elasticquotas"),)

    def sign(self, pod: PodInfo) -> Hashable:
        """Share nothing: each placement changes the usage, and upstream's messages have the name of the pod."""
        return None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        """Reject a pod that is more than its quota, or than all quotas together, have room for."""
        quota = self._quotas.of(pod.namespace)
        if quota is None:
            return None
        demand = self._demand(pod)
        what = f"Pod {pod.key} is rejected in PreFilter because"
        if quota.over_max(plus(self._usage.of(quota.namespace), demand.own)):
            return Status.unschedulable(f"{what} ElasticQuota {quota.namespace} is more than Max")
        if self._quotas.over_total(plus(self._usage.total, demand.everywhere)):
            return Status.unschedulable(f"{what} total ElasticQuota used is more than min")
        return None

    def victim_policy(self, pod: PodInfo) -> QuotaVictims:
        """Return who may be evicted for the pod."""
        return QuotaVictims(pod, self._quotas, self._usage, self._demand(pod))

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Count the pod."""
        self._usage.reserve(pod)
        return None

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count the pod no more."""
        self._usage.release(pod.uid)

    def release(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count the pod no more: it was only tried."""
        self._usage.release(pod.uid)

    def checkpoint(self) -> Any:
        """Return the pods that count and are not bound yet."""
        return self._usage.checkpoint()

    def restore(self, checkpoint: Any) -> None:
        """Count these pods."""
        self._usage.restore(checkpoint)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Show the amounts of a rejection."""
        quota = self._quotas.of(pod.namespace)
        if quota is None or node is not None:
            return None
        demand = self._demand(pod)
        own = plus(self._usage.of(quota.namespace), demand.own)
        lines = [
            f"{resource}: {amount_text(resource, own[resource])} of at most {amount_text(resource, most)} "
            f"in namespace {quota.namespace}"
            for resource, most in sorted(quota.max.items())
            if own[resource] > most
        ]
        everywhere = plus(self._usage.total, demand.everywhere)
        lines += [
            f"{resource}: {amount_text(resource, everywhere[resource])} of {amount_text(resource, least)} "
            "that the quotas guarantee together"
            for resource, least in sorted(self._quotas.total.items())
            if everywhere[resource] > least
        ]
        return Details(f"with the pod, {'; '.join(lines)}", kind=self.name) if lines else None

    def events(self) -> Iterable[EventHint]:
        """Register the end of pods, smaller requests of pods, and new or changed quotas."""
        ended = ClusterEvent("Pod", Action.DELETE)
        yield EventHint(ended, self._after_pod_ended, still_gated=lambda: self._handle.evicting)
        yield EventHint(ClusterEvent("Pod", Action.UPDATE_POD_SCALE_DOWN), self._after_pod_scaled_down)
        yield EventHint(
            ClusterEvent(ELASTIC_QUOTAS, Action.ADD | Action.UPDATE | Action.DELETE), self._after_quota_changed
        )

    async def background(self) -> None:
        """Keep the statuses of ElasticQuotas up to date."""
        await self._statuses.run()

    def _after_pod_ended(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        return Hint.QUEUE if self._shares(pod, old) else Hint.SKIP

    def _after_pod_scaled_down(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if new.uid == pod.uid or self._shares(pod, new) else Hint.SKIP

    def _after_quota_changed(self, pod: PodInfo, old: CustomObject | None, new: CustomObject | None) -> Hint:
        """Requeue pods if a quota is new, gone, or has another spec. Changes of its status are ignored."""
        changed = old is None or new is None or old.get("spec") != new.get("spec")
        mine = any(obj is not None and key_of(obj)[0] == pod.namespace for obj in (old, new))
        return Hint.QUEUE if changed and (mine or self._quotas.of(pod.namespace) is not None) else Hint.SKIP

    def _shares(self, pod: PodInfo, other: PodInfo) -> bool:
        """Whether what another pod leaves may help a pod: both have a quota."""
        quotas = self._quotas
        return quotas.of(pod.namespace) is not None and quotas.of(other.namespace) is not None

    def _demand(self, pod: PodInfo) -> QuotaDemand:
        """Return what is needed with a pod.

        Nominated pods of its namespace come before it if their priority isn't lower, and those of other namespaces if
        these don't borrow.
        """
        own, everywhere = [pod.requested], [pod.requested]
        for nominated in self._nominations.nodes.values():
            for other in nominated.values():
                quota = self._quotas.of(other.namespace)
                if other.uid == pod.uid or quota is None:
                    continue
                if other.namespace == pod.namespace:
                    if other.priority >= pod.priority:
                        own.append(other.requested)
                        everywhere.append(other.requested)
                elif not self._borrows(quota):
                    everywhere.append(other.requested)
        return QuotaDemand(plus(*own), plus(*everywhere))

    def _borrows(self, quota: Quota) -> bool:
        used: Amounts = self._usage.of(quota.namespace)
        return self._quotas.over_min(quota, used)
