"""TimelineMeasures: meters a timeline, as an observer of it.

It says what happens to a `ClusterMeter` (`meter.py`), which also meters recorded histories, so that both have the same
figures. Pods of DaemonSets and mirror pods don't count: they belong to their node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.answers.simulation.lives import PodLifetime
from bayplan.answers.simulation.meter import ClusterMeter, Summary
from bayplan.answers.simulation.metered_nodes import PriceOf, Size
from bayplan.answers.simulation.owners import belongs_to
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import NODE
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.requests import CPU, MEMORY, counted, parse_amounts
from bayplan.core.cluster.pod_info import PodInfo


class TimelineMeasures(TimelineObserver):
    """Meters a timeline of some length in seconds. Pods that belong to their node don't count."""

    def __init__(self, length: float, price_of: PriceOf = lambda _: None) -> None:
        self._meter = ClusterMeter(length, price_of)
        self._timeline: Timeline | None = None

    def begin(self, timeline: Timeline) -> None:
        """Meter what there is at the start."""
        self._timeline = timeline
        for name in timeline.world.state.objects[NODE]:
            self.node_added(name)
        for life in timeline.lives.values():
            pod = timeline.world.pod(life.key)
            if pod is not None:
                self.arrived(pod, life)
                if life.bound_at is not None:
                    self.bound(pod, life)

    def summary(self) -> Summary:
        """Return what was metered."""
        return self._meter.summary()

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod that waits for its node."""
        if self._timeline is not None and not pod.node_name and belongs_to(pod) is not None:
            self._meter.pod_arrived(self._timeline.now, pod.key)

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod on its node."""
        service = belongs_to(pod)
        if self._timeline is not None and service is not None:
            decided = pod.assumed and life.arrived > 0 and life.bound_at is not None
            wait = (life.bound_at or 0.0) - life.arrived if decided else None
            self._meter.pod_bound(self._timeline.now, pod.key, life.node, service, wait, size_of(pod))

    def evicted(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count an eviction."""
        if self._timeline is not None and belongs_to(pod) is not None and life.leaving is not None:
            self._meter.evicted(self._timeline.now, life.leaving.value)

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod no longer."""
        service = belongs_to(pod)
        if self._timeline is not None and service is not None:
            self._meter.pod_left(self._timeline.now, pod.key, life.node, service)

    def node_added(self, name: str) -> None:
        """Count a node."""
        if self._timeline is not None:
            node = self._timeline.world.state.objects[NODE][name]
            room = room_of(node.status.allocatable if node.status is not None else None)
            self._meter.node_added(self._timeline.now, name, node.metadata.labels or {}, room)

    def node_removed(self, name: str) -> None:
        """Count a node no longer."""
        if self._timeline is not None:
            self._meter.node_removed(self._timeline.now, name)


def size_of(pod: PodInfo) -> Size:
    """What a pod requests."""
    return Size(pod.requested.get(CPU, 0), pod.requested.get(MEMORY, 0))


def room_of(allocatable: Mapping[str, Any] | None) -> Size:
    """What is allocatable on a node; nothing where that can't be read."""
    try:
        amounts = counted(parse_amounts(allocatable or {}))
    except (InvalidQuantity, AttributeError, TypeError):
        return Size()
    return Size(amounts.get(CPU, 0), amounts.get(MEMORY, 0))
