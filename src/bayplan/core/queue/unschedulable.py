"""Pods that wait for an event: unschedulable pods, which plugins rejected, and gated pods.

Both are indexed by the topics that they wait for, so that an event calls hints, or PreEnqueue, for few of them.
PreEnqueue isn't called either for pods that a plugin names as `still_gated`. Mirrors
pkg/scheduler/backend/queue/unschedulable_pods.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.queue.pod_heap import PodHeap
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.core.queue.topic_index import TopicIndex

Rejector = tuple[str, str]
"""(scheduler name, plugin name) of a plugin that rejected a pod."""

Topic = tuple[object, Hashable]
"""The topics of a hint, as an identity, and one topic."""


class UnschedulablePods:
    """Unschedulable and gated pods, indexed by the plugins that rejected them.

    With the index, an event costs nothing for the pods of plugins that have not registered it. Pods that aren't indexed
    are requeued with one that is. A gated pod is indexed only by its gating plugin, because only that plugin's events
    can release it. The rejectors of a pod must not change while it is here.

    Both kinds are also indexed by their topics. `topics_of`: returns the topics of a pod for one of its rejectors.
    `flushed`: whether a pod may be the `oldest`; the others wait for events only.
    """

    def __init__(
        self,
        topics_of: Callable[[Rejector, PodInfo], Iterable[Topic]] = lambda _rejector, _pod: (),
        flushed: Callable[[PodInfo], bool] = lambda _pod: True,
    ) -> None:
        self._flushed = flushed
        self._rejected: dict[str, QueuedPod] = {}
        self._shown_since: dict[str, float] = {}
        """By uid, since when the unschedulable pods wait that are indexed, and may be the oldest."""
        self._by_age: PodHeap[QueuedPod] = PodHeap(lambda queued: self._shown_since[queued.uid])
        self._gated: dict[str, QueuedPod] = {}
        self._rejected_by = _Index(topics_of)
        self._gated_by = _Index(topics_of)

    def add(self, queued: QueuedPod, *, indexed: bool = True) -> None:
        """Add a pod. It must not be here yet. `indexed`: whether `waiting_for` may return it."""
        (self._gated if queued.gated else self._rejected)[queued.uid] = queued
        if indexed:
            self.show(queued, queued.queued_at)

    def update(self, queued: QueuedPod) -> None:
        """Update the topics of a pod that is here, after its `pod` was replaced."""
        self._index(queued).update(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Remove a pod that is here."""
        del (self._gated if queued.gated else self._rejected)[queued.uid]
        if queued.uid in self._index(queued):
            self.hide(queued)

    def show(self, queued: QueuedPod, since: float) -> None:
        """Index a pod that is here. `since`: when its last attempt ended, or one that counted for it."""
        self._index(queued).add(queued)
        if not queued.gated and self._flushed(queued.pod):
            self._shown_since[queued.uid] = since
            self._by_age.push(queued)

    def hide(self, queued: QueuedPod) -> None:
        """Remove a pod from the index."""
        self._index(queued).remove(queued)
        if self._shown_since.pop(queued.uid, None) is not None:
            self._by_age.remove(queued)

    def waiting_for(
        self,
        helps: Callable[[Rejector], bool],
        narrowed: Callable[[Rejector], Iterable[Topic] | None] = lambda _rejector: None,
        still_gated: Callable[[Rejector], AbstractSet[str]] = lambda _rejector: frozenset(),
    ) -> list[QueuedPod]:
        """Return the pods that were rejected, or are gated, by a plugin for which `helps` returns true.

        `narrowed`: returns topics; a pod of the plugin must have one of them; None if it needn't. `still_gated`:
        returns the UIDs of gated pods to leave out.
        """
        if not self._rejected and not self._gated:
            return []
        found: dict[str, QueuedPod] = {}
        for _, pods in self._rejected_by.find(helps, narrowed):
            found.update(pods)
        for rejector, pods in self._gated_by.find(helps, narrowed):
            gated = still_gated(rejector)
            if not pods.keys() <= gated:
                found.update({uid: queued for uid, queued in pods.items() if uid not in gated} if gated else pods)
        return list(found.values())

    def oldest(self) -> tuple[QueuedPod, float] | None:
        """Return the pod that waits longest, and since when; None if there is none that may be it."""
        oldest = self._by_age.peek()
        return None if oldest is None else (oldest, self._shown_since[oldest.uid])

    @property
    def rejected_count(self) -> int:
        """The number of unschedulable pods."""
        return len(self._rejected)

    @property
    def gated_count(self) -> int:
        """The number of gated pods."""
        return len(self._gated)

    def _index(self, queued: QueuedPod) -> _Index:
        return self._gated_by if queued.gated else self._rejected_by

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected.values()
        yield from self._gated.values()


class _Index:
    """Pods by their rejectors, and by their topics for each of these."""

    def __init__(self, topics_of: Callable[[Rejector, PodInfo], Iterable[Topic]]) -> None:
        self._topics_of = topics_of
        self._by_rejector: dict[Rejector, dict[str, QueuedPod]] = {}
        self._by_topic = TopicIndex()

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_topic

    def add(self, queued: QueuedPod) -> None:
        for rejector in _rejectors(queued):
            self._by_rejector.setdefault(rejector, {})[queued.uid] = queued
        self._add_topics(queued)

    def remove(self, queued: QueuedPod) -> None:
        self._by_topic.remove(queued.uid)
        for rejector in _rejectors(queued):
            pods = self._by_rejector[rejector]
            del pods[queued.uid]
            if not pods:
                del self._by_rejector[rejector]

    def update(self, queued: QueuedPod) -> None:
        self._by_topic.remove(queued.uid)
        self._add_topics(queued)

    def find(
        self, helps: Callable[[Rejector], bool], narrowed: Callable[[Rejector], Iterable[Topic] | None]
    ) -> Iterator[tuple[Rejector, dict[str, QueuedPod]]]:
        """Yield each rejector with its pods; a pod may have several. See `UnschedulablePods.waiting_for`."""
        for rejector, pods in self._by_rejector.items():
            if helps(rejector):
                topics = narrowed(rejector)
                yield (
                    rejector,
                    pods if topics is None else self._by_topic.having((rejector, each) for each in topics),
                )

    def _add_topics(self, queued: QueuedPod) -> None:
        rejectors, pod = _rejectors(queued), queued.pod
        topics = [(rejector, topic) for rejector in rejectors for topic in self._topics_of(rejector, pod)]
        self._by_topic.add(queued, topics)


def _rejectors(queued: QueuedPod) -> Iterable[Rejector]:
    scheduler_name = queued.pod.scheduler_name
    if queued.gated:
        return ((scheduler_name, queued.gating_plugin),)
    return [(scheduler_name, plugin) for plugin in queued.unschedulable_plugins | queued.pending_plugins]
