"""The state that metrics report, read at each scrape, so that it costs nothing between scrapes.

It is taken in the scheduler's thread (`bayplan.running.service.loop_reader`); what is measured as it happens is in
`measuring.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.core.framework.profile import Profile
from bayplan.core.queue import PendingCounts, Place, QueuedPod


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """A scheduler's state at one moment, for metrics. Taken in the scheduler's thread.

    `waiting`: the pods in the queue that are not in flight. `binding`: the number of binding cycles in progress.
    `sharing`: by profile, the numbers of decisions with and without results of earlier pods. `event_lag`: seconds since
    the oldest event was recorded that is not written yet. `recording`: whether the recording of decisions goes on, and
    the bytes that were written; None without one. `entities`: how many single pods and PodGroups are in the places of
    the queue, by place and type, and how often they entered them, by place, event and type. `provisioning`: how many
    provisioning requests are at which stage, and how many places are held for them; None where none are answered.
    """

    profiles: Mapping[str, Profile]
    pending: PendingCounts
    incoming: Mapping[tuple[Place, str], int]
    waiting: Sequence[QueuedPod]
    in_flight_events: Mapping[str, int]
    nodes: int
    pods: int
    assumed_pods: int
    binding: int
    sharing: Mapping[str, tuple[int, int]]
    dropped_events: int
    event_lag: float
    recording: tuple[bool, int] | None = None
    entities: tuple[Mapping[tuple[Place, str], int], Mapping[tuple[Place, str, str], int]] = ({}, {})
    provisioning: tuple[Mapping[str, int], int] | None = None

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """The number of pods that a plugin rejected in their last attempt, by plugin and profile."""
        counts: Counter[tuple[str, str]] = Counter()
        for queued in self.waiting:
            for plugin in queued.unschedulable_plugins | queued.pending_plugins:
                counts[plugin, queued.pod.scheduler_name] += 1
        return counts
