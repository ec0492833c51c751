"""The pending pods of a World, which a running simulation follows.

A world keeps its pending pods without a queue. While a simulation runs, the world reports each change to its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.queue import SchedulingQueue


class PendingPodsOfWorld:
    """Implements bayplan.core.executor.handlers.PendingPods. `by_key`: the pods by `namespace/name`."""

    def __init__(self, nominations: Nominations) -> None:
        self.by_key: dict[str, PodInfo] = {}
        self._by_uid: dict[str, PodInfo] = {}
        self._nominations = nominations
        self._queues: list[tuple[SchedulingQueue, Callable[[], float]]] = []

    @contextmanager
    def followed_by(self, queue: SchedulingQueue, now: Callable[[], float]) -> Iterator[None]:
        """Tell a queue about changes of the pods in it."""
        self._queues.append((queue, now))
        try:
            yield
        finally:
            self._queues.remove((queue, now))

    @contextmanager
    def unfollowed(self) -> Iterator[None]:
        """Tell no queue about anything while the context is open."""
        queues, self._queues = self._queues, []
        try:
            yield
        finally:
            self._queues = queues

    def pending(self, uid: str) -> PodInfo | None:
        """Return a pending pod by uid; None if there is none."""
        return self._by_uid.get(uid)

    def takes(self, pod: PodInfo) -> bool:
        """Take pods without a node only: a simulation evicts no pods for resizes."""
        return not (pod.node_name or pod.terminated)

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod, which waits until a simulation schedules it."""
        self.by_key[pod.key] = self._by_uid[pod.uid] = pod
        self._nominations.add(pod)

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Store a new version of a pod."""
        self.add(new, now)
        for queue, queue_now in self._queues:
            if queue.get(new.uid) is not None:
                queue.update(old, new, queue_now())

    def delete(self, pod: PodInfo, now: float) -> None:
        """Remove a deleted pod."""
        self._drop(pod.uid)
        for queue, queue_now in self._queues:
            if queue.get(pod.uid) is not None:
                queue.delete(pod, queue_now())

    def remove(self, uid: str) -> None:
        """Remove a pod that another scheduler has bound."""
        self._drop(uid)
        for queue, _ in self._queues:
            queue.remove(uid)

    def bound(self, uid: str) -> None:
        """Remove a pod that was bound here: its binding cycle tells the queue."""
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        self._nominations.remove(uid)
        pod = self._by_uid.pop(uid, None)
        if pod is not None and (known := self.by_key.get(pod.key)) is not None and known.uid == uid:
            del self.by_key[pod.key]
