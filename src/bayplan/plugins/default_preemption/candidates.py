"""Ranks candidates for preemption, and pods by their importance.

Mirrors pickOneNodeForPreemption (framework/preemption/preemption.go) and MoreImportantPod (pkg/scheduler/util).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

import numpy as np

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate

_ABOVE_ANY_NEGATIVE_PRIORITY = 2**31
_AFTER_ANY_START = 1e15
"""Seconds. It is so small that the difference to an index is exact."""


def preference(candidate: Candidate) -> tuple[float, ...]:
    """Return a sort key: the candidate with the smallest key is the best.

    The criteria, in order: fewest budget violations, lowest priority of the first victim, lowest sum of priorities,
    fewest victims, latest start of the victims with the highest priority. The first victim is assumed to have the
    highest priority, which may be false if an extender reordered the victims.
    """
    victims = candidate.victims
    if len(victims) == 1:  # the usual case
        [victim] = victims
        total = victim.priority + _ABOVE_ANY_NEGATIVE_PRIORITY
        return candidate.violations, victim.priority, total, 1, -victim.started
    first, highest = victims[0].priority, max(victim.priority for victim in victims)
    # Priorities are shifted above 0, so that fewer victims with negative priorities are better than more.
    total = sum(victim.priority + _ABOVE_ANY_NEGATIVE_PRIORITY for victim in victims)
    earliest = min(victim.started for victim in victims if victim.priority == highest)
    return candidate.violations, first, total, len(victims), -earliest


def most_important_first(by_node: Iterable[Iterable[PodInfo]]) -> list[list[PodInfo]]:
    """Sort the pods of each node by priority, then by start time.

    `by_node`: the pods of each node in the order in which they were added to it. Upstream treats a pod that has not
    started as starting at the time of the comparison. With its sort algorithm, the last of these pods comes first.
    """
    found = [list(pods) for pods in by_node]
    pods = list(chain.from_iterable(found))
    sizes = np.fromiter(map(len, found), dtype=np.intp, count=len(found))
    priorities = np.fromiter([pod.priority for pod in pods], dtype=np.int64, count=len(pods))
    starts = np.fromiter([pod.started for pod in pods], dtype=np.float64, count=len(pods))
    unstarted = np.isinf(starts).nonzero()[0]
    starts[unstarted] = _AFTER_ANY_START - unstarted
    order = np.lexsort((starts, -priorities, np.repeat(np.arange(len(found)), sizes)))
    ordered = map(pods.__getitem__, order.tolist())
    return [list(islice(ordered, len(each))) for each in found]
