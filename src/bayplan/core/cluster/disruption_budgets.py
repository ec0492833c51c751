"""Finds evictions that would violate a PodDisruptionBudget. Mirrors filterPodsWithPDBViolation.

A violation doesn't forbid an eviction: preemption prefers victims without one, and questions count them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.core.api.labels import InvalidSelector, LabelSelector
from bayplan.core.api.selectors import label_selector
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import LabelsKey, labels_key


class Budgets:
    """The disruption budgets during one preemption."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._allowed: list[int] = []
        self._disrupted: list[frozenset[str]] = []
        self._in_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._memo: dict[LabelsKey, list[int]] = {}
        for budget in budgets:
            self._add(budget)

    def __bool__(self) -> bool:
        """Whether any budget protects pods."""
        return bool(self._allowed)

    def violations(self, pods: Sequence[PodInfo]) -> list[bool]:
        """Return whether the eviction of each pod would violate a budget, if they are evicted in this order.

        A pod counts against all budgets that select it, except those that already list it as disrupted.
        """
        used: Counter[int] = Counter()
        violations: list[bool] = []
        for pod in pods:
            budgets = [budget for budget in self._protecting(pod) if pod.name not in self._disrupted[budget]]
            used.update(budgets)
            violations.append(any(used[budget] > self._allowed[budget] for budget in budgets))
        return violations

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
