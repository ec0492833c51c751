"""Selectors of pods: the namespaces and label requirements of spread constraints and affinity terms.

What a selector says of a pod depends on the pod's namespace and labels only (`LabelsKey`), so it is evaluated once for
all pods that have these in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.cluster.pod_changes import Amounts
from bayplan.core.cluster.pod_info import PodInfo

LabelsKey = tuple[str, tuple[tuple[str, str], ...]]
"""(namespace, sorted labels). Selectors do not distinguish pods with equal keys."""

_KEY = "labels key"


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods of some namespaces (None: all) whose labels match a selector (None matches nothing)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def matches(self, pod: PodInfo) -> bool:
        """Return whether a pod is selected."""
        if self.selector is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return self.selector.matches(pod.labels)


GroupKey = tuple[PodSelector, ...]
"""A pod matches the key if it matches all its selectors."""


@dataclass(frozen=True, slots=True)
class PodQuery:
    """The requirements of all selectors of a key, together. `namespaces`: None for all."""

    namespaces: frozenset[str] | None
    requirements: tuple[Requirement, ...]

    @classmethod
    def of(cls, key: GroupKey) -> PodQuery | None:
        """Return the query of a key; None if no pod can match it."""
        namespaces: frozenset[str] | None = None
        requirements: dict[Requirement, None] = {}
        for each in key:
            if each.selector is None:
                return None
            if each.namespaces is not None:
                namespaces = each.namespaces if namespaces is None else namespaces & each.namespaces
            requirements |= dict.fromkeys(each.selector.requirements)
        return None if namespaces is not None and not namespaces else cls(namespaces, tuple(requirements))

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether pods with this namespace and these labels match."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


def labels_key(pod: PodInfo) -> LabelsKey:
    """Return the part of a pod that selectors depend on."""
    key: LabelsKey | None = pod.cache.get(_KEY)
    if key is None:
        key = pod.cache[_KEY] = pod.namespace, tuple(sorted(pod.labels.items()))
    return key


def keep_labels_key(pod: PodInfo, key: LabelsKey) -> None:
    """Let a pod share an equal key, so that pods with equal labels store it once."""
    pod.cache[_KEY] = key


def matches_all(key: GroupKey, pod: PodInfo) -> bool:
    """Return whether a pod matches all selectors of a key."""
    return all(selector.matches(pod) for selector in key)


def by_labels(number: Callable[[PodInfo], int]) -> Amounts:
    """Return a function of several pods that caches the number of each by the pod's namespace and labels.

    `number` must depend on nothing else.
    """
    known: dict[LabelsKey, int] = {}

    def count(pod: PodInfo) -> int:
        key = labels_key(pod)
        found = known.get(key)
        if found is None:
            found = known[key] = number(pod)
        return found

    return lambda pods: [count(pod) for pod in pods]
