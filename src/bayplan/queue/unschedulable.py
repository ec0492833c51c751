"""Pods that wait for an event: those that plugins turned down, and those that a PreEnqueue plugin holds back.

Mirrors pkg/scheduler/backend/queue/unschedulable_pods.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from bayplan.queue.queued_pod import QueuedPod

Rejector = tuple[str, str]
"""Who turned a pod down: scheduler name and plugin name."""


class UnschedulablePods:
    """Waiting pods, indexed by those who turned them down: an event that helps nobody is not asked about pod by pod.

    The pods turned down are in the order in which they came, which is that of their `queued_at`. A gated pod is
    indexed by the plugin that gates it alone, for only that one can let it go. Who turned a pod down must not be
    changed while the pod is here.
    """

    def __init__(self) -> None:
        self._rejected: OrderedDict[str, QueuedPod] = OrderedDict()
        self._gated: dict[str, QueuedPod] = {}
        self._waiting_for: dict[Rejector, dict[str, QueuedPod]] = {}
        self._gated_by: dict[Rejector, dict[str, QueuedPod]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Add a pod that is not here."""
        uid = queued.uid
        (self._gated if queued.gated else self._rejected)[uid] = queued
        index = self._index(queued)
        for rejector in _rejectors(queued):
            index.setdefault(rejector, {})[uid] = queued

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out that is here."""
        uid = queued.uid
        del (self._gated if queued.gated else self._rejected)[uid]
        index = self._index(queued)
        for rejector in _rejectors(queued):
            pods = index[rejector]
            del pods[uid]
            if not pods:
                del index[rejector]

    def waiting_for(self, helps: Callable[[Rejector], bool]) -> list[QueuedPod]:
        """The pods that were turned down, or are held back, by somebody of whom `helps` is true."""
        found: dict[str, QueuedPod] = {}
        for index in (self._waiting_for, self._gated_by):
            for rejector, pods in index.items():
                if helps(rejector):
                    found.update(pods)
        return list(found.values())

    def oldest(self) -> QueuedPod | None:
        """The pod that was turned down first. Gated pods do not count."""
        return next(iter(self._rejected.values()), None)

    @property
    def rejected_count(self) -> int:
        """How many pods wait because they were turned down."""
        return len(self._rejected)

    @property
    def gated_count(self) -> int:
        """How many pods are held back."""
        return len(self._gated)

    def _index(self, queued: QueuedPod) -> dict[Rejector, dict[str, QueuedPod]]:
        return self._gated_by if queued.gated else self._waiting_for

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected.values()
        yield from self._gated.values()


def _rejectors(queued: QueuedPod) -> Iterable[Rejector]:
    scheduler_name = queued.pod.scheduler_name
    if queued.gated:
        return ((scheduler_name, queued.gating_plugin),)
    return [(scheduler_name, plugin) for plugin in queued.unschedulable_plugins | queued.pending_plugins]
