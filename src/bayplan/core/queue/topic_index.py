"""Finds pods by topic: a namespace, a resource, a host port, or whatever else a hint names.

An event about a topic then asks hints about the pods that wait for it, and about no others.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from bayplan.core.queue.queued_pod import QueuedPod


class TopicIndex:
    """Finds the pods that have a topic. Each pod is added with all of its topics, and removed from all at once."""

    def __init__(self) -> None:
        self._pods: dict[Hashable, dict[str, QueuedPod]] = {}
        self._topics: dict[str, Collection[Hashable]] = {}
        """By uid."""

    def add(self, queued: QueuedPod, topics: Iterable[Hashable]) -> None:
        """Add a pod, which must not be here yet. It may have no topics."""
        distinct = self._topics[queued.uid] = dict.fromkeys(topics)
        for topic in distinct:
            self._pods.setdefault(topic, {})[queued.uid] = queued

    def remove(self, uid: str) -> None:
        """Remove a pod. Unknown pods are ignored."""
        for topic in self._topics.pop(uid, ()):
            pods = self._pods[topic]
            del pods[uid]
            if not pods:
                del self._pods[topic]

    def having(self, topics: Iterable[Hashable]) -> dict[str, QueuedPod]:
        """Return the pods with any of the topics, by uid."""
        found: dict[str, QueuedPod] = {}
        for topic in topics:
            found.update(self._pods.get(topic, ()))
        return found

    @property
    def has_topics(self) -> bool:
        """Whether any pod has a topic."""
        return bool(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._topics
