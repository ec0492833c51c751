"""Selector groups: the number of matching pods on each node, kept up to date for each selector in use.

Spread constraints and affinity terms use few distinct selectors, and need their pod counts by node and by domain in
every attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from bayplan.api.labels import LabelSelector
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.tally import Tally

CAPACITY = 512
"""The number of groups kept; the least recently used one is evicted."""
_MEMO_CAPACITY = 8192

LabelsKey = tuple[str, tuple[tuple[str, str], ...]]
"""(namespace, sorted labels). Selectors do not distinguish pods with equal keys."""


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


@dataclass(slots=True, eq=False)
class SelectorGroup:
    """The pods that match a key, counted by row."""

    key: GroupKey
    counts: Tally
    """All matching pods, for inter-pod affinity."""
    active: Tally
    """The matching pods that are not being deleted, for topology spreading."""


class SelectorGroups:
    """The groups in use, and a cache of the groups that each set of labels belongs to."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: OrderedDict[GroupKey, SelectorGroup] = OrderedDict()
        self._memo: dict[LabelsKey, tuple[SelectorGroup, ...]] = {}

    def group(self, key: GroupKey, pods_by_row: Iterable[Mapping[str, PodInfo]]) -> SelectorGroup:
        """Return the group of a key. If it is not kept, its pods are counted in `pods_by_row`."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SelectorGroup(key, Tally(self._capacity), Tally(self._capacity))
            self._memo.clear()
            if len(self._groups) > CAPACITY:
                self._groups.popitem(last=False)
            _count_all(group, pods_by_row)
        self._groups.move_to_end(key)
        return group

    def account(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod that was added to a row (sign 1), or removed from it (-1)."""
        for group in self._groups_of(pod) if self._groups else ():
            _count(group, row, pod, sign)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        for group in self._groups.values():
            group.counts.grow(capacity)
            group.active.grow(capacity)

    def _groups_of(self, pod: PodInfo) -> tuple[SelectorGroup, ...]:
        key = labels_key(pod)
        groups = self._memo.get(key)
        if groups is None:
            if len(self._memo) >= _MEMO_CAPACITY:
                self._memo.clear()
            groups = self._memo[key] = tuple(group for group in self._groups.values() if matches_all(group.key, pod))
        return groups


def labels_key(pod: PodInfo) -> LabelsKey:
    """Return the part of a pod that selectors depend on."""
    return pod.namespace, tuple(sorted(pod.labels.items()))


def matches_all(key: GroupKey, pod: PodInfo) -> bool:
    """Return whether a pod matches all selectors of a key."""
    return all(selector.matches(pod) for selector in key)


def pod_counter(predicate: Callable[[PodInfo], bool]) -> Callable[[Iterable[PodInfo]], int]:
    """Return a function that counts the pods which satisfy a predicate.

    The predicate must depend only on a pod's namespace and labels. Its results are cached by these.
    """
    known: dict[LabelsKey, bool] = {}

    def count(pods: Iterable[PodInfo]) -> int:
        number = 0
        for pod in pods:
            key = labels_key(pod)
            if key not in known:
                known[key] = predicate(pod)
            number += known[key]
        return number

    return count


def _count_all(group: SelectorGroup, pods_by_row: Iterable[Mapping[str, PodInfo]]) -> None:
    """Count the pods that were added before the group."""
    count = pod_counter(partial(matches_all, group.key))
    for row, pods in enumerate(pods_by_row):
        number = count(pods.values())
        if number:
            group.counts.add(row, number)
            group.active.add(row, count(pod for pod in pods.values() if not pod.terminating))


def _count(group: SelectorGroup, row: int, pod: PodInfo, sign: int) -> None:
    group.counts.add(row, sign)
    if not pod.terminating:
        group.active.add(row, sign)
