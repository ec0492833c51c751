"""Termination: how long evicted pods keep their room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from bayplan.answers.simulation.owners import workload_of
from bayplan.core.cluster.pod_info import PodInfo

DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class Termination:
    """An evicted pod takes `seconds` to end, but never longer than its `terminationGracePeriodSeconds`.

    `seen`: how long pods of workloads took, those of "" for all others; each pod takes as long as one of them. One that
    has not started yet is gone at once.
    """

    seconds: float = 5.0
    seen: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def of(self, pod: PodInfo) -> float:
        """Return the seconds until an evicted pod that runs is gone."""
        grace = pod.spec.terminationGracePeriodSeconds
        seen = (self.seen.get(workload_of(pod)) or self.seen.get("")) if self.seen else None
        seconds = seen[crc32(pod.uid.encode()) % len(seen)] if seen else self.seconds
        return min(seconds, DEFAULT_GRACE if grace is None else grace)
