"""What candidates for a preemption cost.

Mirrors pickOneNodeForPreemption (framework/preemption/preemption.go) and MoreImportantPod (pkg/scheduler/util).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate

_ABOVE_ANY_NEGATIVE_PRIORITY = 2**31


def preference(candidate: Candidate) -> tuple[float, ...]:
    """A key: the candidate with the smallest is the best.

    Few broken budgets come first, then a low priority of the most important victim, a low sum of priorities, few
    victims, and a late start of the most important victims. The first victim is taken to be the most important one;
    where an extender put another one first, only the start is that of the really most important ones.
    """
    first, highest = candidate.victims[0].priority, max(victim.priority for victim in candidate.victims)
    # Priorities are lifted above 0, so that fewer victims of a negative priority are better than more of them.
    total = sum(victim.priority + _ABOVE_ANY_NEGATIVE_PRIORITY for victim in candidate.victims)
    earliest = min(started(victim) for victim in candidate.victims if victim.priority == highest)
    return candidate.violations, first, total, len(candidate.victims), -earliest


def most_important_first(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """By priority, then by age; `pods` come in the order in which they came to their node.

    A pod that has not started counts as starting when it is looked at. For upstream's sort that puts the last of them
    first.
    """

    def key(numbered: tuple[int, PodInfo]) -> tuple[float, ...]:
        index, pod = numbered
        return -pod.priority, started(pod), -index if pod.start_time is None else 0

    return [pod for _, pod in sorted(enumerate(pods), key=key)]


def started(pod: PodInfo) -> float:
    """When a pod started, in seconds; later than any other for one that has not."""
    return math.inf if pod.start_time is None else pod.start_time.timestamp()
