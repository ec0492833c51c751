"""Termination: how long evicted pods keep their room."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.pod_info import PodInfo

DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class Termination:
    """An evicted pod takes `seconds` to end, but never longer than its `terminationGracePeriodSeconds`.

    One that has not started yet is gone at once.
    """

    seconds: float = 5.0

    def of(self, pod: PodInfo) -> float:
        """Return the seconds until an evicted pod is gone."""
        grace = pod.spec.terminationGracePeriodSeconds
        return min(self.seconds, DEFAULT_GRACE if grace is None else grace)
