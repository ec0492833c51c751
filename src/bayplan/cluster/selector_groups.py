"""Selector groups: how many pods of each node a selector picks, kept up to date as pods come and go.

Spread constraints and affinity terms ask for few distinct selectors, again and again, and for their sums by domain.
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
"""Groups kept; the one that was not asked for longest goes first."""
_MEMO_CAPACITY = 8192

LabelsKey = tuple[str, tuple[tuple[str, str], ...]]
"""(namespace, sorted labels): pods that agree in it are picked by the same selectors."""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces (None: of all) whose labels a selector picks (None: picks nothing)."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def matches(self, pod: PodInfo) -> bool:
        """Whether a pod is picked."""
        return self.picks(pod.namespace, pod.labels)

    def picks(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace with these labels are picked."""
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(labels)


GroupKey = tuple[PodSelector, ...]
"""Selectors that all have to pick a pod."""


@dataclass(slots=True, eq=False)
class SelectorGroup:
    """The pods that match a key, counted by row."""

    key: GroupKey
    counts: Tally
    """All matching pods. Affinity looks at these."""
    active: Tally
    """Those that are not being deleted. Spreading looks at these."""


class SelectorGroups:
    """The groups that were asked for, and which of them a pod belongs to."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: OrderedDict[GroupKey, SelectorGroup] = OrderedDict()
        self._memo: dict[LabelsKey, tuple[SelectorGroup, ...]] = {}

    def group(self, key: GroupKey, pods_by_row: Iterable[Mapping[str, PodInfo]]) -> SelectorGroup:
        """The group of a key; counted from `pods_by_row` when it is asked for the first time."""
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
        """A pod came to a row (+1) or left it (-1)."""
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
            groups = self._memo[key] = tuple(group for group in self._groups.values() if picks(group.key, pod))
        return groups


def labels_key(pod: PodInfo) -> LabelsKey:
    """What decides which selectors pick a pod."""
    return pod.namespace, tuple(sorted(pod.labels.items()))


def picks(key: GroupKey, pod: PodInfo) -> bool:
    """Whether all selectors of a key pick a pod."""
    return all(selector.matches(pod) for selector in key)


def counting(counts: Callable[[PodInfo], bool]) -> Callable[[Iterable[PodInfo]], int]:
    """How many of some pods count, which has to depend on their namespaces and labels alone: pods that agree in these
    are looked at once.
    """
    known: dict[LabelsKey, bool] = {}

    def count(pods: Iterable[PodInfo]) -> int:
        found = 0
        for pod in pods:
            key = labels_key(pod)
            if key not in known:
                known[key] = counts(pod)
            found += known[key]
        return found

    return count


def _count_all(group: SelectorGroup, pods_by_row: Iterable[Mapping[str, PodInfo]]) -> None:
    """Count pods that were there before the group."""
    count = counting(partial(picks, group.key))
    for row, pods in enumerate(pods_by_row):
        number = count(pods.values())
        if number:
            group.counts.add(row, number)
            group.active.add(row, count(pod for pod in pods.values() if not pod.terminating))


def _count(group: SelectorGroup, row: int, pod: PodInfo, sign: int) -> None:
    group.counts.add(row, sign)
    if not pod.terminating:
        group.active.add(row, sign)
