"""Decides which pods are attempted again, by the events that their plugins registered, as the scheduling queue does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

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
        """By uid: the moment at which the attempt began (see `now`), and the plugins that rejected the pod."""
        self._positions: dict[ClusterEvent, list[int]] = {}
        self._indexed = 0
        self._last: Happened | None = None

    def now(self) -> tuple[int, int]:
        """Return the current moment, for `failed`: how many events and activations there were."""
        return len(self._world.happened), len(self._world.handle.activated)

    def failed(self, pod: PodInfo, plugins: frozenset[str], began: tuple[int, int]) -> None:
        """Record the failure of an attempt that began at a moment: what happened during the attempt may help, too.

        Without plugins, it was an error, and the pod is attempted again in any case.
        """
        self._failed[pod.uid] = (*began, plugins)

    def helped(self, pod: PodInfo) -> bool:
        """Return whether a pod has not failed yet, or something has happened since that may help it."""
        if pod.uid not in self._failed:
            return True
        start, activations, plugins = self._failed[pod.uid]
        if not plugins or any(other.uid == pod.uid for other in self._world.handle.activated[activations:]):
            return True
        found: list[int] = []
        for event, positions in self._positions_by_event().items():
            if any(self._world.hints.helps((pod.scheduler_name, plugin), event) for plugin in plugins):
                first = bisect_left(positions, start)
                if len(found) + len(positions) - first > _MOST_EVENTS:
                    return True
                found += positions[first:]
        happened = [self._world.happened[position] for position in sorted(found)]
        queued = QueuedPod(pod, queued_at=0.0, unschedulable_plugins=plugins)
        return self._world.hints.ask_all(queued, happened) is not Requeue.SKIP

    def _positions_by_event(self) -> Mapping[ClusterEvent, Sequence[int]]:
        """The positions in `world.happened` of each event, in ascending order."""
        happened, known = self._world.happened, self._indexed
        if known and (len(happened) < known or happened[known - 1] is not self._last):  # they were undone
            self._positions.clear()
            known = 0
        for position in range(known, len(happened)):
            self._last = happened[position]
            self._positions.setdefault(self._last.event, []).append(position)
        self._indexed = len(happened)
        return self._positions
