"""JobCompletions: the next pod of a Job, once one has completed."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.simulation.lives import DepartureReason, PodLifetime
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import JOB
from bayplan.core.cluster.pod_info import PodInfo


class JobCompletions(TimelineObserver):
    """Creates pods of Jobs with more completions than their parallelism. Mirrors the Job controller.

    `left`: by `namespace/name` of a Job, how many pods it still creates.
    """

    def __init__(self, left: Mapping[str, int]) -> None:
        self._left = dict(left)
        self._timeline: Timeline | None = None

    def begin(self, timeline: Timeline) -> None:
        """Pods are created on this timeline."""
        self._timeline = timeline

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """Create the next pod, if another one is wanted."""
        if self._timeline is None or life.leaving is not DepartureReason.COMPLETED:
            return
        name = next((name for kind, name in owners_of(pod) if kind == JOB.kind), "")
        key = f"{pod.namespace}/{name}"
        left = self._left.get(key, 0)
        if left:
            self._left[key] = left - 1
            controllers = self._timeline.behaviour.controllers
            self._timeline.after(controllers.seconds, self._timeline.arrive, controllers.successor(pod, left))
