"""The what-if of a node: pods that are hypothetically on it, or gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from bayplan.cluster.pod_info import PodInfo

Count = Callable[[Collection[PodInfo]], int]
"""Counts some of the given pods. The count of several pods is the sum of the counts of each."""


class PodChanges:
    """The what-if of one row.

    Attributes:
        added: pods that are hypothetically on the row.
        removed: pods of the row that are hypothetically gone, as the keys of a dict, in order.
        requested: by resource, the difference to what the row's pods request; may be negative. Updated by `restore` and
            `remove`.
    """

    __slots__ = ("_counts", "added", "removed", "requested")

    def __init__(self, added: Iterable[PodInfo] = (), removed: Iterable[PodInfo] = ()) -> None:
        self.added = tuple(added)
        self.removed: dict[PodInfo, None] = dict.fromkeys(removed)
        self.requested: dict[str, int] = {}
        self._counts: dict[Count, int] = {}
        requested = self.requested
        # Not by `_account`: dry runs of preemption make one for each node, and nothing is counted yet.
        for pods, sign in ((self.added, 1), (self.removed, -1)):
            for pod in pods:
                for resource, amount in pod.requested.items():
                    requested[resource] = requested.get(resource, 0) + sign * amount

    def counted(self, count: Count) -> int:
        """Return the difference that the what-if makes to a count of the row's pods. Cached by the function."""
        difference = self._counts.get(count)
        if difference is None:
            difference = self._counts[count] = count(self.added) - count(self.removed)
        return difference

    def adding(self, pods: Collection[PodInfo]) -> PodChanges:
        """Return the what-if that adds more pods."""
        more = PodChanges()
        more.added, more.removed = (*self.added, *pods), self.removed.copy()
        more.requested, more._counts = self.requested.copy(), self._counts.copy()
        for pod in pods:
            more._account(pod, 1)
        return more

    def restore(self, pod: PodInfo) -> None:
        """Undo the removal of a pod."""
        del self.removed[pod]
        self._account(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """Remove one of the row's pods."""
        self.removed[pod] = None
        self._account(pod, -1)

    def _account(self, pod: PodInfo, sign: int) -> None:
        for resource, amount in pod.requested.items():
            self.requested[resource] = self.requested.get(resource, 0) + sign * amount
        for count in self._counts:
            self._counts[count] += sign * count((pod,))

    def signed(self) -> Iterator[tuple[PodInfo, int]]:
        """Yield the changed pods: removed ones with -1, added ones with 1."""
        yield from ((pod, -1) for pod in self.removed)
        yield from ((pod, 1) for pod in self.added)
