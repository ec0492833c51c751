"""Which victims a disruption budget protects. Mirrors filterPodsWithPDBViolation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.api.labels import InvalidSelector, LabelSelector
from bayplan.api.selectors import label_selector
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.selector_groups import LabelsKey, labels_key


class Budgets:
    """All disruption budgets, as they are during one preemption."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._allowed: list[int] = []
        self._disrupted: list[frozenset[str]] = []
        self._in_namespace: dict[str, list[tuple[int, LabelSelector]]] = {}
        self._memo: dict[LabelsKey, list[int]] = {}
        for budget in budgets:
            self._add(budget)

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """The pods whose eviction, after that of those before them, would break a budget; and all others.

        A pod counts against every budget that protects it, unless the server evicts it already.
        """
        if not self._allowed:
            return [], list(pods)
        used: Counter[int] = Counter()
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            budgets = [budget for budget in self._protecting(pod) if pod.name not in self._disrupted[budget]]
            used.update(budgets)
            broken = any(used[budget] > self._allowed[budget] for budget in budgets)
            (violating if broken else others).append(pod)
        return violating, others

    def _add(self, budget: PodDisruptionBudget) -> None:
        """Take a budget in. One that picks nothing, or cannot be read, protects nobody."""
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
        """The budgets that pick a pod. One without labels has none, even if a selector would pick it."""
        if not pod.labels:
            return []
        key = labels_key(pod)
        found = self._memo.get(key)
        if found is None:
            candidates = self._in_namespace.get(pod.namespace, ())
            found = self._memo[key] = [budget for budget, selector in candidates if selector.matches(pod.labels)]
        return found
