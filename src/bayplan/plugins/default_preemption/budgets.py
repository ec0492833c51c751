"""Finds evictions that would violate a PodDisruptionBudget. Mirrors filterPodsWithPDBViolation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.api.labels import InvalidSelector, LabelSelector
from bayplan.api.selectors import label_selector
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.pod_selectors import LabelsKey, labels_key


class Budgets:
    """The disruption budgets during one preemption."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._allowed: list[int] = []
        self._disrupted: list[frozenset[str]] = []
        self._in_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._memo: dict[LabelsKey, list[int]] = {}
        for budget in budgets:
            self._add(budget)

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Split pods into those whose eviction would violate a budget, and all others.

        Pods are evicted in the given order. A pod counts against all budgets that select it, except those that already
        list it as disrupted.
        """
        if not self._allowed:
            return [], list(pods)
        used: Counter[int] = Counter()
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            budgets = [budget for budget in self._protecting(pod) if pod.name not in self._disrupted[budget]]
            used.update(budgets)
            violates = any(used[budget] > self._allowed[budget] for budget in budgets)
            (violating if violates else others).append(pod)
        return violating, others

    def _add(self, budget: PodDisruptionBudget) -> None:
        """Add a budget. One with an empty or invalid selector protects no pod."""
        assert budget.metadata is not None
        try:
            selector = label_selector(budget.spec.selector if budget.spec else None)
        except InvalidSelector:
            return
        if selector is None or not selector.requirements:
            return
        same_namespace = self._in_namespace.setdefault(budget.metadata.namespace or "default", [])
        same_namespace.append((len(self._allowed), selector))
        status = budget.status
        self._allowed.append((status.disruptionsAllowed or 0) if status else 0)
        self._disrupted.append(frozenset((status.disruptedPods if status else None) or ()))

    def _protecting(self, pod: PodInfo) -> list[int]:
        """Return the indexes of the budgets that select a pod. A pod without labels is not protected, as upstream."""
        if not pod.labels:
            return []
        key = labels_key(pod)
        found = self._memo.get(key)
        if found is None:
            candidates = self._in_namespace.get(pod.namespace, ())
            found = self._memo[key] = [budget for budget, selector in candidates if selector.matches(pod.labels)]
        return found
