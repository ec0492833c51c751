"""Ranks candidates for preemption, and pods and groups by their importance.

Mirrors pickOneNodeForPreemption (framework/preemption/preemption.go), MoreImportantPod (pkg/scheduler/util), and
MoreImportantVictim (framework/preemption/util.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Candidate

_ABOVE_ANY_NEGATIVE_PRIORITY = 2**31
_AFTER_ANY_START = 1e15
"""Seconds. It is so small that the difference to an index is exact."""


@dataclass(frozen=True, slots=True, eq=False)
class VictimUnit:
    """Pods that are evicted together or not at all: one pod, or all pods of a group that says so."""

    pods: Sequence[PodInfo]
    priority: int

    @property
    def importance(self) -> tuple[float, ...]:
        """A sort key: the most important unit has the smallest key.

        The criteria, in order: highest priority, pods of a group, most pods, earliest start.
        """
        of_group = pod_group_of(self.pods[0]) is not None
        earliest = min(pod.started for pod in self.pods)
        return -self.priority, not of_group, -len(self.pods), earliest


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


def importance_order(by_node: Sequence[Sequence[PodInfo]], *, unstarted_in_order: bool = False) -> Rows:
    """Return the order of the pods of each node by priority, then by start time: the most important one first.

    `by_node`: the pods of each node in the order in which they were added to it. The result has the indexes of the pods
    in the concatenation of these lists; each node's pods stay together. kube-scheduler 1.36 treats a pod that has not
    started as starting at the time of the comparison. With its sort algorithm, the last of these pods comes first.
    `unstarted_in_order`: the first one does, as in 1.37, which looks at the time once.
    """
    pods = list(chain.from_iterable(by_node))
    priorities = np.fromiter([pod.priority for pod in pods], dtype=np.int64, count=len(pods))
    starts = np.fromiter([pod.started for pod in pods], dtype=np.float64, count=len(pods))
    unstarted = np.isinf(starts).nonzero()[0]
    starts[unstarted] = _AFTER_ANY_START + (unstarted if unstarted_in_order else -unstarted)
    sizes = np.fromiter(map(len, by_node), dtype=np.intp, count=len(by_node))
    node_of = np.repeat(np.arange(len(by_node)), sizes)
    return np.lexsort((starts, -priorities, node_of))
