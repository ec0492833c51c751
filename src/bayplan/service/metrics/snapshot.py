"""What is read off a scheduler's state when somebody asks, so that it costs nothing in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayplan.framework.profile import Profile
from bayplan.queue import PendingPods, Place, QueuedPod


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scheduler's state at one moment, as far as metrics tell of it. Made in the scheduler's thread.

    `waiting`: the pods of the queue that are not in flight. `binding`: how many pods are being bound. `templates`: by
    profile, how many decisions rested on a template, and how many did not.
    """

    profiles: Mapping[str, Profile]
    pending: PendingPods
    incoming: Mapping[tuple[Place, str], int]
    waiting: Sequence[QueuedPod]
    in_flight_events: Mapping[str, int]
    nodes: int
    pods: int
    assumed_pods: int
    binding: int
    templates: Mapping[str, tuple[int, int]]
    dropped_events: int

    def unschedulable_by_plugin(self) -> Counter[tuple[str, str]]:
        """How many pods each plugin turned down in their last attempt, or holds back, by plugin and profile."""
        counts: Counter[tuple[str, str]] = Counter()
        for queued in self.waiting:
            for plugin in queued.unschedulable_plugins | queued.pending_plugins:
                counts[plugin, queued.pod.scheduler_name] += 1
        return counts
