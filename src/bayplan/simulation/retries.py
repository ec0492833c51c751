"""Decides which pods are attempted again, by the events that their plugins registered, as the scheduling queue does."""

from __future__ import annotations

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import ClusterEvent
from bayplan.queue.hints import Requeue
from bayplan.queue.in_flight import Happened
from bayplan.queue.queued_pod import QueuedPod
from bayplan.simulation.world import World

_MOST_EVENTS = 200
"""A pod that more events may help is attempted again without asking the hints, which would take longer."""


class Retries:
    """The events of a world since it was made, and the moments at which pods failed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._failed: dict[str, tuple[int, int, frozenset[str]]] = {}
        """By key: the moment at which the attempt began (see `now`), and the plugins that rejected the pod."""

    def now(self) -> tuple[int, int]:
        """Return the current moment, for `failed`: how many events and activations there were."""
        return len(self._world.happened), len(self._world.handle.activated)

    def failed(self, key: str, plugins: frozenset[str], began: tuple[int, int]) -> None:
        """Record the failure of an attempt that began at a moment: what happened during the attempt may help, too.

        Without plugins, it was an error, and the pod is attempted again in any case.
        """
        self._failed[key] = (*began, plugins)

    def helped(self, pod: PodInfo) -> bool:
        """Return whether a pod has not failed yet, or something has happened since that may help it."""
        if pod.key not in self._failed:
            return True
        start, activations, plugins = self._failed[pod.key]
        if not plugins or any(other.uid == pod.uid for other in self._world.handle.activated[activations:]):
            return True
        helpful: dict[ClusterEvent, bool] = {}
        found: list[Happened] = []
        for happened in self._world.happened[start:]:
            if happened.event not in helpful:
                rejectors = [(pod.scheduler_name, plugin) for plugin in plugins]
                helpful[happened.event] = any(self._world.hints.helps(each, happened.event) for each in rejectors)
            if helpful[happened.event]:
                found.append(happened)
        if len(found) > _MOST_EVENTS:
            return True
        queued = QueuedPod(pod, queued_at=0.0, unschedulable_plugins=plugins)
        return self._world.hints.ask_all(queued, found) is not Requeue.SKIP
