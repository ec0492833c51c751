"""WorkloadAwarePreemption: pods of lower priority make room for all of a PodGroup at once, wherever they are.

Mirrors framework/preemption/podgrouppreemption.go, and what DefaultPreemption does for pod groups upstream.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.pod_groups import POD_GROUPS, TOGETHER, spec_of
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_groups import pod_group_of
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import events
from bayplan.framework.events import Action, ClusterEvent, EventHint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Gang, GangTrial, GangVictims, Plugin
from bayplan.framework.status import Status
from bayplan.plugins.default_preemption.budgets import Budgets
from bayplan.plugins.default_preemption.candidates import started
from bayplan.plugins.default_preemption.plugin import NEVER, after_pod_deletion

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming preemptor")
NOT_ENOUGH = Status.unschedulable("the gang would not fit if all pods of lower priority were gone")
GOING_ON = Status.unresolvable("waiting for the preemption for this pod group to be finished")


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods of which all are evicted, or none: one, or all of a group whose disruption mode is PodGroup."""

    pods: Sequence[PodInfo]
    priority: int

    @property
    def importance(self) -> tuple[float, ...]:
        """A key: the most important unit has the smallest.

        A high priority comes first; then pods of groups before others, many before few, and those that began early.
        """
        of_group = pod_group_of(self.pods[0]) is not None
        earliest = min(started(pod) for pod in self.pods)
        return -self.priority, not of_group, -len(self.pods), earliest


class WorkloadAwarePreemption(Plugin):
    """Preempts for PodGroups that fit nowhere, by the priority of the group, and holds their pods back meanwhile."""

    name = "WorkloadAwarePreemption"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._pod_groups = handle.objects(POD_GROUPS)
        self._budgets = handle.objects(POD_DISRUPTION_BUDGET)
        self._preemptors: dict[str, str] = {}
        """The uid of the pod on whose behalf victims of a group are evicted, by the key of the group."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold all pods of a group back while its victims are evicted."""
        key = pod_group_of(pod) or ""
        preemptor = self._preemptors.get(key)
        if preemptor is None:
            return None
        if self._handle.preempting(preemptor):
            return GOING_ON
        del self._preemptors[key]
        return None

    def gang_post_filter(self, gang: Gang, nodes: Nodes) -> GangTrial | None:
        """Which pods have to go for a PodGroup. The members of other gangs may preempt, each by itself."""
        return self._trial(gang, nodes) if gang.pod_group in self._pod_groups else None

    def _trial(self, gang: Gang, nodes: Nodes) -> GangTrial:
        if any(member.spec.preemptionPolicy == "Never" for member in gang.members):
            return Status.unschedulable(NEVER)
        pod_group = self._pod_groups[gang.pod_group]
        priority = spec_of(pod_group).priority or 0
        units = sorted(
            (unit for unit in self._units(gang, nodes) if unit.priority < priority), key=lambda unit: unit.importance
        )
        if not units:
            return NO_VICTIMS
        gone = dict.fromkeys(units)
        if not (yield _pods(gone)):
            return NOT_ENOUGH
        violating, _ = Budgets(self._budgets.values()).split(_pods(units))
        protected = {pod.uid for pod in violating}
        kept = dict.fromkeys(unit for unit in units if any(pod.uid in protected for pod in unit.pods))
        yield from _reprieve(list(kept), gone)
        yield from _reprieve([unit for unit in units if unit not in kept], gone)
        self._preemptors[gang.pod_group] = gang.members[0].uid
        return GangVictims(gang.members[0], tuple(_pods(gone)), pod_group.metadata.uid or "")

    def _units(self, gang: Gang, nodes: Nodes) -> Iterable[Unit]:
        """All pods on nodes as they would be evicted, but for the gang's own: it does not make room by going."""
        groups: dict[str, list[PodInfo]] = {}
        for position in np.flatnonzero(nodes.live).tolist():
            for pod in nodes.pods(position):
                key = pod_group_of(pod)
                if key is None:
                    yield Unit((pod,), pod.priority)
                elif key != gang.pod_group:
                    groups.setdefault(key, []).append(pod)
        for key, pods in groups.items():
            priority = self._priority_together(key)
            if priority is not None:
                yield Unit(pods, priority)
            else:
                yield from (Unit((pod,), pod.priority) for pod in pods)

    def _priority_together(self, key: str) -> int | None:
        """The priority of a group whose pods are evicted together; None for any other, or one that is not there."""
        pod_group = self._pod_groups.get(key)
        if pod_group is None:
            return None
        try:
            spec = spec_of(pod_group)
        except msgspec.ValidationError:
            return None
        return (spec.priority or 0) if spec.disruptionMode == TOGETHER else None

    def events(self) -> Iterable[EventHint]:
        """Pods that go let the queue ask again whether a pod is held back."""
        yield EventHint(ClusterEvent(events.POD, Action.DELETE), after_pod_deletion)


def _reprieve(units: Sequence[Unit], gone: dict[Unit, None]) -> Generator[Collection[PodInfo], bool, None]:
    """Bring units back, the most important ones first, as long as the gang fits beside them; the others stay gone.

    Several are brought back at once where the last ones could be: few have to go, of many that might.
    """
    start, size = 0, 1
    while start < len(units):
        batch = units[start : start + size]
        for unit in batch:
            del gone[unit]
        if (yield _pods(gone)):
            start += len(batch)
            size *= 2
            continue
        gone.update(dict.fromkeys(batch))
        start += len(batch) == 1
        size = max(1, len(batch) // 2)


def _pods(units: Iterable[Unit]) -> list[PodInfo]:
    return [pod for unit in units for pod in unit.pods]
