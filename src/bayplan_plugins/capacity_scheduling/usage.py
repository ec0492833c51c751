"""What the pods of each namespace use: those that have a node, and those for which one is reserved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayplan.plugin import ObjectStore, PodInfo
from bayplan_plugins.capacity_scheduling.quotas import Amounts, ElasticQuotas

_NOTHING: Amounts = {}


class CountedPod(msgspec.Struct, frozen=True):
    """A pod that counts: its namespace, and what it requests."""

    namespace: str
    requested: Mapping[str, int]


class Usage:
    """The requests of bound and reserved pods by namespace. `version` increases with every change."""

    def __init__(self, pods: ObjectStore, quotas: ElasticQuotas) -> None:
        self._quotas = quotas
        self._counted: dict[str, CountedPod] = {}
        """The pods that count, by UID."""
        self._reserved: set[str] = set()
        """The UIDs of those that are not bound yet."""
        self._used: dict[str, Counter[str]] = {}
        self._total: Counter[str] = Counter()
        self._total_of = -1
        """The version of the quotas that the total is about."""
        self.version = 0
        pods.listen(self._changed)

    def of(self, namespace: str) -> Amounts:
        """Return what the pods of a namespace use."""
        return self._used.get(namespace, _NOTHING)

    @property
    def total(self) -> Amounts:
        """What the pods of all namespaces with a quota use."""
        if self._total_of != self._quotas.version:
            self._total = Counter()
            for quota in self._quotas:
                self._total.update(self.of(quota.namespace))
            self._total_of = self._quotas.version
        return self._total

    def reserve(self, pod: PodInfo) -> None:
        """Count a pod, unless it counts already."""
        if self._count(pod.uid, CountedPod(pod.namespace, pod.requested)):
            self._reserved.add(pod.uid)

    def release(self, uid: str) -> None:
        """Count a pod no more. Pods that don't count are ignored."""
        self._reserved.discard(uid)
        known = self._counted.pop(uid, None)
        if known is not None:
            self._add(known.namespace, known.requested, -1)

    def checkpoint(self) -> dict[str, CountedPod]:
        """Return the pods that count and are not bound yet, by UID."""
        return {uid: self._counted[uid] for uid in self._reserved}

    def restore(self, checkpoint: Any) -> None:
        """Count what `checkpoint` returned. Raises ValidationError."""
        for uid, known in msgspec.convert(checkpoint, dict[str, CountedPod]).items():
            if self._count(uid, known):
                self._reserved.add(uid)

    def _count(self, uid: str, pod: CountedPod) -> bool:
        """Count a pod. Returns False if it counts already."""
        if uid in self._counted:
            return False
        self._counted[uid] = pod
        self._add(pod.namespace, pod.requested, 1)
        return True

    def _changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        for pod in (old, new):
            if pod is not None and (new is None or pod.node_name):
                self.release(pod.uid)
        if new is not None and new.node_name:
            self._count(new.uid, CountedPod(new.namespace, new.requested))

    def _add(self, namespace: str, amounts: Amounts, sign: int) -> None:
        self.version += 1
        used = self._used.setdefault(namespace, Counter())
        totals = [used, self._total] if self._total_of >= 0 and self._quotas.of(namespace) is not None else [used]
        for resource, amount in amounts.items():
            for each in totals:
                each[resource] += sign * amount
        if not any(used.values()):
            del self._used[namespace]


def plus(*amounts: Mapping[str, int]) -> Counter[str]:
    """Return the sum of amounts."""
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return total


def requests_of(pods: Iterable[PodInfo]) -> Counter[str]:
    """Return the sum of the requests of pods."""
    return plus(*(pod.requested for pod in pods))


def minus(amounts: Mapping[str, int], others: Mapping[str, int]) -> Counter[str]:
    """Return a difference, which may be negative."""
    difference = Counter(amounts)
    difference.subtract(others)
    return difference
