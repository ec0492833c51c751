"""Selector groups: the number of matching pods on each node, kept up to date for each selector in use.

Spread constraints and affinity terms need pod counts by node and by domain in every attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.pod_index import LabelSet, PodIndex
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.pod_selectors import GroupKey, PodQuery
from bayplan.cluster.selector_index import SelectorIndex
from bayplan.cluster.tally import Tally, Usage
from bayplan.shrinking import shrink

CAPACITY = 20_000
"""The number of groups kept; the least recently used one is evicted."""
NEW_CAPACITY = 2000
"""The number of groups kept that were read in one attempt only. A pod may have thousands of selectors of its own."""
MAX_BYTES = 160 * 2**20
"""About the memory that the counts of all groups may take."""
_SWEEP_INTERVAL = 1000
"""The number of changes between two searches for unused groups."""
_MIN_AGE = 10_000
"""A group is unused if it was not read during this many changes, and during four changes per pod."""


@dataclass(frozen=True, slots=True)
class ActivePods:
    """Counts the pods of a group that are not being deleted; has the methods of a Tally that read."""

    counts: Tally
    terminating: Tally

    def dense(self, size: int) -> Int64:
        """Return the numbers of the first `size` rows: a new array, int64, shape (size,)."""
        numbers = self.counts.dense(size)
        return numbers - self.terminating.dense(size) if self.terminating else numbers

    def sum_by(self, codes: Rows, count: int) -> Int64:
        """Return the sum of the rows of each code. See `Tally.sum_by`."""
        sums = self.counts.sum_by(codes, count)
        return sums - self.terminating.sum_by(codes, count) if self.terminating else sums


class SelectorGroup:
    """The pods that match a key, counted by row.

    `query`: the key's requirements; None if no pod can match. `counts`: all matching pods, for inter-pod affinity.
    `active`: those that are not being deleted, for topology spreading.
    """

    __slots__ = ("active", "asked_at", "counts", "key", "made_at", "query", "terminating")

    def __init__(self, key: GroupKey, capacity: int, usage: Usage) -> None:
        self.key = key
        self.query = PodQuery.of(key)
        self.counts = Tally(capacity, usage)
        self.terminating = Tally(capacity, usage)
        self.active = ActivePods(self.counts, self.terminating)
        self.asked_at = self.made_at = 0

    def forget(self) -> None:
        """Give the counts up. Whoever was given them may still read them."""
        self.counts.leave()
        self.terminating.leave()
        self.counts = self.terminating = Tally(0)
        self.active = ActivePods(self.counts, self.terminating)


class SelectorGroups:
    """The groups in use, and the index of the pods that they count.

    `version` increases whenever a group is added or evicted.
    """

    def __init__(self, capacity: int) -> None:
        self.version = 0
        self.pods = PodIndex()
        self._capacity = capacity
        self._groups: OrderedDict[GroupKey, SelectorGroup] = OrderedDict()
        """Groups that were read in several attempts, the least recently used one first."""
        self._new: OrderedDict[GroupKey, SelectorGroup] = OrderedDict()
        """The others, the oldest first."""
        self._index: SelectorIndex[SelectorGroup] = SelectorIndex()
        self._usage = Usage()
        """Of the counts of all groups."""
        self._changes = 0
        """The number of pods that were added or removed, and of groups that were added."""
        self._pod_changes = 0
        """The number of pods that were added or removed. None is during an attempt."""

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._groups) + len(self._new)

    def __iter__(self) -> Iterator[SelectorGroup]:
        """Yield the groups."""
        return chain(self._groups.values(), self._new.values())

    def group(self, key: GroupKey) -> SelectorGroup:
        """Return the group of a key. If it is not kept, the matching pods are counted."""
        group = self._groups.get(key)
        if group is None:
            group = self._new.get(key) or self._add(key)
            if group.made_at != self._pod_changes:
                self._groups[key] = self._new.pop(key)
        else:
            self._groups.move_to_end(key)
        group.asked_at = self._changes
        return group

    def add(self, row: int, pod: PodInfo) -> None:
        """Count a pod that was added to a row."""
        self._count(self.pods.add(row, pod), row, pod, 1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Stop counting a pod that was removed from a row."""
        self._count(self.pods.remove(pod.uid), row, pod, -1)

    def groups_of(self, labels: LabelSet) -> tuple[SelectorGroup, ...]:
        """Return the groups that pods with these labels belong to."""
        if labels.version != self.version:
            labels.version = self.version
            labels.groups = tuple(
                group
                for group in self._index.candidates(labels.namespace, labels.labels)
                if group.query is not None and group.query.matches(labels.namespace, labels.labels)
            )
        return labels.groups

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        for group in self:
            group.counts.grow(capacity)
            group.terminating.grow(capacity)

    def _count(self, labels: LabelSet, row: int, pod: PodInfo, by: int) -> None:
        self._pod_changes += 1
        if not len(self):
            return
        for group in self.groups_of(labels):
            group.counts.add(row, by)
            if pod.terminating:
                group.terminating.add(row, by)
        self._changed()

    def _add(self, key: GroupKey) -> SelectorGroup:
        self._changed()
        group = self._new[key] = SelectorGroup(key, self._capacity, self._usage)
        group.made_at = self._pod_changes
        if group.query is not None:
            rows, terminating = self.pods.rows(group.query)
            group.counts.count_rows(rows)
            group.terminating.count_rows(terminating)
            self._index.add(group, group.query.namespaces, group.query.requirements)
            self.version += 1
        if len(self._new) > NEW_CAPACITY or len(self) > CAPACITY:
            self._evict(self._groups if len(self._groups) >= CAPACITY else self._new)
        return group

    def _changed(self) -> None:
        self._changes += 1
        if self._changes % _SWEEP_INTERVAL == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Evict groups that are unused, and the least recently used ones if all together take too much memory."""
        oldest = self._changes - max(_MIN_AGE, 4 * len(self.pods))
        for groups in (self._groups, self._new):
            while groups and next(iter(groups.values())).asked_at < oldest:
                self._evict(groups)
        while self._usage.bytes > MAX_BYTES:
            self._evict(self._new or self._groups)

    def _evict(self, groups: OrderedDict[GroupKey, SelectorGroup]) -> None:
        """Evict the first group."""
        _, group = groups.popitem(last=False)
        shrink(groups)
        if group.query is not None:
            self._index.remove(group, group.query.namespaces, group.query.requirements)
            self.version += 1
        group.forget()  # label sets that have not changed since still refer to the group
