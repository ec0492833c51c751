"""Selector groups: the number of matching pods on each node, kept up to date for each selector in use.

Spread constraints and affinity terms need pod counts by node and by domain in every attempt. A distinct selector that
was read in several attempts keeps its counts, and the sums by topology domain, as pods come and go (`tally.py`). A new
group is counted by the pod index, without evaluating its selector on pods. Unused groups are evicted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.pod_index import LabelSet, PodIndex
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import GroupKey, PodQuery
from bayplan.core.cluster.selector_index import SelectorIndex
from bayplan.core.cluster.tally import Tally, Usage
from bayplan.foundations.shrinking import shrink

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
    `active`: those that are not being deleted, for topology spreading. `changed_at`: how many changes of pods there had
    been when `counts` changed; -1 for the group that has none.
    """

    __slots__ = ("active", "asked_at", "changed_at", "counts", "query", "terminating")

    def __init__(self, query: PodQuery | None, capacity: int, usage: Usage) -> None:
        self.query = query
        self.counts = Tally(capacity, usage)
        self.terminating = Tally(capacity, usage)
        self.active = ActivePods(self.counts, self.terminating)
        self.asked_at = 0
        self.changed_at = -1

    def count(self, rows: Rows, terminating: Rows) -> None:
        """Set the counts. `rows`: one for each pod; `terminating`: one for each pod that is being deleted."""
        self.counts.count_rows(rows)
        self.terminating.count_rows(terminating)

    def forget(self) -> None:
        """Give the counts up. Readers that have them may still read them."""
        self.counts.leave()
        self.terminating.leave()
        self.counts = self.terminating = Tally(0)
        self.active = ActivePods(self.counts, self.terminating)


class NewGroup(NamedTuple):
    """A group that was counted after that many changes of pods, and isn't kept up to date."""

    made_at: int
    group: SelectorGroup


class SelectorGroups:
    """The groups in use, and the index of the pods that they count.

    A group that was read in one attempt only isn't kept up to date: a pod may have thousands of selectors of its own.
    `version` increases whenever a group is kept from now on, or no more.
    """

    def __init__(self, capacity: int) -> None:
        self.version = 0
        self.pods = PodIndex()
        self._capacity = capacity
        self._groups: OrderedDict[GroupKey, SelectorGroup] = OrderedDict()
        """Groups that were read in several attempts, the least recently used one first."""
        self._new: OrderedDict[GroupKey, NewGroup] = OrderedDict()
        """Those that were read in one attempt, the oldest first."""
        self._nothing = SelectorGroup(None, capacity, Usage())
        """All new groups that no pod matches."""
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
        return chain(self._groups.values(), (new.group for new in self._new.values()))

    def group(self, key: GroupKey) -> SelectorGroup:
        """Return the group of a key. If it is not kept, the matching pods are counted."""
        group = self._groups.get(key)
        if group is not None:
            self._groups.move_to_end(key)
            group.asked_at = self._changes
            return group
        new = self._new.get(key)
        if new is None:
            return self._add(key)
        return new.group if new.made_at == self._pod_changes else self._keep(key)

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
            group.changed_at = self._pod_changes
            if pod.terminating:
                group.terminating.add(row, by)
        self._changed()

    def _add(self, key: GroupKey) -> SelectorGroup:
        """Count the pods of a group for this attempt."""
        self._changed()
        group, query = self._nothing, PodQuery.of(key)
        rows, terminating = self.pods.rows(query)
        if len(rows):
            group = SelectorGroup(query, self._capacity, self._usage)
            group.count(rows, terminating)
            group.changed_at = self._pod_changes
        self._new[key] = NewGroup(self._pod_changes, group)
        if len(self._groups) >= CAPACITY:
            self._evict()
        elif len(self._new) > NEW_CAPACITY or len(self) > CAPACITY:
            self._evict_new(next(iter(self._new)))
        return group

    def _keep(self, key: GroupKey) -> SelectorGroup:
        """Count the pods of a new group again, and keep the counts up to date from now on."""
        self._evict_new(key)
        self._changed()
        query = PodQuery.of(key)
        group = self._groups[key] = SelectorGroup(query, self._capacity, self._usage)
        group.count(*self.pods.rows(query))
        group.asked_at, group.changed_at = self._changes, self._pod_changes
        if query is not None:
            self._index.add(group, query.namespaces, query.requirements)
            self.version += 1
        return group

    def _changed(self) -> None:
        self._changes += 1
        if self._changes % _SWEEP_INTERVAL == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Evict groups that are unused, and the least recently used ones if all together take too much memory."""
        unused = max(_MIN_AGE, 4 * len(self.pods))
        while self._groups and next(iter(self._groups.values())).asked_at < self._changes - unused:
            self._evict()
        while self._new and next(iter(self._new.values())).made_at < self._pod_changes - unused:
            self._evict_new(next(iter(self._new)))
        while self._usage.bytes > MAX_BYTES:
            if self._new:
                self._evict_new(next(iter(self._new)))
            else:
                self._evict()

    def _evict(self) -> None:
        """Evict the least recently used group."""
        _, group = self._groups.popitem(last=False)
        shrink(self._groups)
        if group.query is not None:
            self._index.remove(group, group.query.namespaces, group.query.requirements)
            self.version += 1
        group.forget()  # label sets that have not changed since still refer to the group

    def _evict_new(self, key: GroupKey) -> None:
        group = self._new.pop(key).group
        shrink(self._new)
        if group is not self._nothing:
            group.forget()
