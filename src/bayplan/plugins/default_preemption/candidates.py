"""Ranks candidates for preemption, and pods by their importance.

Mirrors pickOneNodeForPreemption (framework/preemption/preemption.go) and MoreImportantPod (pkg/scheduler/util).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate

_ABOVE_ANY_NEGATIVE_PRIORITY = 2**31


def preference(candidate: Candidate) -> tuple[float, ...]:
    """Return a sort key: the candidate with the smallest key is the best.

    The criteria, in order: fewest budget violations, lowest priority of the first victim, lowest sum of priorities,
    fewest victims, latest start of the victims with the highest priority. The first victim is assumed to have the
    highest priority, which may be false if an extender reordered the victims.
    """
    first, highest = candidate.victims[0].priority, max(victim.priority for victim in candidate.victims)
    # Priorities are shifted above 0, so that fewer victims with negative priorities are better than more.
    total = sum(victim.priority + _ABOVE_ANY_NEGATIVE_PRIORITY for victim in candidate.victims)
    earliest = min(started(victim) for victim in candidate.victims if victim.priority == highest)
    return candidate.violations, first, total, len(candidate.victims), -earliest


def most_important_first(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort pods by priority, then by start time. `pods`: in the order in which they were added to their node.

    Upstream treats a pod that has not started as starting at the time of the comparison. With its sort algorithm, the
    last of these pods comes first.
    """

    def key(numbered: tuple[int, PodInfo]) -> tuple[float, ...]:
        index, pod = numbered
        return -pod.priority, started(pod), -index if pod.start_time is None else 0

    return [pod for _, pod in sorted(enumerate(pods), key=key)]


def started(pod: PodInfo) -> float:
    """Return the start time of a pod in seconds; infinity if it has not started."""
    return math.inf if pod.start_time is None else pod.start_time.timestamp()
