"""PreemptionToleration: evicts pods of lower priority, except those that their PriorityClass protects for a while.

Mirrors pkg/preemptiontoleration of scheduler-plugins. All else is as in DefaultPreemption, which it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bayplan.plugin import DefaultPreemption, DefaultPreemptionArgs, Handle, PodInfo, Status, VictimPolicy

_PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM_PRIORITY = f"{_PREFIX}minimum-preemptable-priority"
SECONDS = f"{_PREFIX}toleration-seconds"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_CLASS = (__name__, "class")


class Toleration(NamedTuple):
    """What a PriorityClass protects its pods from: from pods of a priority below `minimum`.

    `seconds`: for how long after a pod was scheduled; negative for ever, and 0 not at all.
    """

    minimum: int
    seconds: int

    @classmethod
    def of(cls, priority_class: Any) -> Toleration:
        """Read the annotations of a PriorityClass. Raises ValueError if one isn't an integer of its size."""
        annotations = (priority_class.metadata.annotations if priority_class.metadata else None) or {}
        minimum, seconds = annotations.get(MINIMUM_PRIORITY), annotations.get(SECONDS)
        return cls(
            priority_class.value + 1 if minimum is None else _integer(minimum, 32),
            0 if seconds is None else _integer(seconds, 64),
        )


class UnknownPriorityClass(LookupError):
    """The PriorityClass of a pod doesn't exist."""


def exempted(victim: PodInfo, preemptor: PodInfo, classes: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a pod can't be evicted for another one. Raises UnknownPriorityClass."""
    name = class_of(victim)
    if not name:
        return False
    priority_class = classes.get(name)
    if priority_class is None:
        raise UnknownPriorityClass(f'priorityclass.scheduling.k8s.io "{name}" not found')
    if preemptor.spec.preemptionPolicy == "Never":
        return True
    try:
        minimum, seconds = Toleration.of(priority_class)
    except ValueError:  # no toleration at all
        return False
    if preemptor.priority >= minimum:
        return False
    if seconds < 0:
        return True
    scheduled = _scheduled_at(victim)
    return scheduled is None or (now - scheduled).total_seconds() < seconds


def class_of(pod: PodInfo) -> str:
    """Return the name of a pod's PriorityClass; "" if it has none."""
    return pod.of_spec(_CLASS, lambda pod: pod.spec.priorityClassName or "")


class TolerantVictims(VictimPolicy):
    """The pods of lower priority that aren't exempted. A node with a pod of an unknown class is left alone."""

    def __init__(self, pod: PodInfo, classes: Mapping[str, Any], now: datetime) -> None:
        super().__init__(pod)
        self._classes = classes
        self._now = now
        self._problems: dict[str, str] = {}
        """By node: why its pods can't be evicted."""

    def victims(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods that may be evicted."""
        try:
            return [other for other in super().victims(pods) if not exempted(other, self.pod, self._classes, self._now)]
        except UnknownPriorityClass as error:
            self._problems[pods[0].node_name] = str(error)
            return []

    def no_victims(self, node_name: str) -> Status:
        """Return why no pod of a node may be evicted."""
        found = f"No victims found on node {node_name} for preemptor pod {self.pod.name}"
        return Status.unresolvable(self._problems.get(node_name, found))


class PreemptionToleration(DefaultPreemption):
    """Preempts as DefaultPreemption does, but for pods that tolerate it not to be preempted."""

    name = "PreemptionToleration"
    arguments = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(handle, args)
        self._handle = handle
        self._classes = handle.objects("PriorityClass")

    def sign(self, pod: PodInfo) -> Hashable:
        """Share nothing: time alone ends tolerations."""
        return None

    def victim_policy(self, pod: PodInfo) -> TolerantVictims:
        """Return who may be evicted now."""
        return TolerantVictims(pod, self._classes, self._handle.now())


def _integer(text: str, bits: int) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{text!r} is not an integer of {bits} bits")
    return value


def _scheduled_at(pod: PodInfo) -> datetime | None:
    """When a pod was scheduled; None if that isn't confirmed."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled":
            moment = condition.lastTransitionTime
            if condition.status != "True":
                return None
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else _LONG_AGO
    return None


_LONG_AGO = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
