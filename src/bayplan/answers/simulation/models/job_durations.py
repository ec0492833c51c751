"""JobDurations: how long the pods of given workloads run."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.simulation.lives import PodLifetime
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.timeline import TimelineObserver
from bayplan.core.cluster.pod_info import PodInfo


class JobDurations(TimelineObserver):
    """Sets how long pods run by their workload, as in `cronjob default/nightly`, in place of what was recorded."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """Set how long a new pod runs."""
        seconds = self._seconds.get(workload_of(pod))
        if seconds is not None:
            life.runs = seconds
