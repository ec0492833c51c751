"""PreemptionToleration: preempts like DefaultPreemption, but spares pods whose PriorityClass tolerates preemption.

Annotations of a PriorityClass say which priority it takes to preempt its pods, and for how long after their placement
they tolerate lower ones. Mirrors pkg/preemptiontoleration of scheduler-plugins.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bayplan.plugin import DefaultPreemption, DefaultPreemptionArgs, Handle, PodInfo, Status, VictimPolicy

PREFIX = "preemption-toleration.scheduling.x-k8s.io"
MINIMUM = f"{PREFIX}/minimum-preemptable-priority"
SECONDS = f"{PREFIX}/toleration-seconds"

log = logging.getLogger("bayplan.preemptiontoleration")

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST_PRIORITY = 2**31 - 1
_LONGEST = 10**9
"""Seconds: the longest toleration that dates can express, 30 years."""


@dataclass(frozen=True, slots=True)
class PreemptionTolerance:
    """What the pods of a PriorityClass tolerate.

    `minimum`: the lowest priority that preempts them at once. `seconds`: for how long lower ones don't (< 0: ever).
    """

    minimum: int
    seconds: int


class InvalidToleration(ValueError):
    """An annotation that isn't a number."""


class PreemptionToleration(DefaultPreemption):
    """Evicts pods of lower priority that don't tolerate it."""

    name = "PreemptionToleration"
    arguments = DefaultPreemptionArgs
    permissions = ({"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list", "watch"]},)

    def __init__(self, handle: Handle, args: DefaultPreemptionArgs) -> None:
        super().__init__(handle, args)
        self._classes = handle.objects("PriorityClass")
        self._said: set[str] = set()

    def sign(self, pod: PodInfo) -> Hashable:
        """Share nothing: who is spared depends on the time."""
        return None

    def victim_policy(self, pod: PodInfo) -> VictimPolicy:
        """Return who may be evicted for the pod now."""
        return TolerantVictims(pod, self._tolerations(), self._handle.now())

    def _tolerations(self) -> dict[str, PreemptionTolerance]:
        found = {}
        for name, priority_class in self._classes.items():
            try:
                found[name] = toleration_of(priority_class)
            except InvalidToleration as error:
                line = f"PriorityClass {name}: {error}; its pods tolerate no preemption"
                if line not in self._said:
                    self._said.add(line)
                    log.warning("%s", line)
        return found


class TolerantVictims(VictimPolicy):
    """The pods of lower priority that don't tolerate preemption by a pod at a moment."""

    def __init__(self, pod: PodInfo, tolerations: Mapping[str, PreemptionTolerance], now: datetime) -> None:
        super().__init__(pod)
        self._tolerations, self._now = tolerations, now

    def victims(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods that may be evicted."""
        return [other for other in super().victims(pods) if not self.tolerates(other)]

    def no_victims(self, node_name: str) -> Status:
        """Return the status of a node on which no pod may go."""
        return Status.unresolvable(f"No victims found on node {node_name} for preemptor pod {self.pod.name}")

    def tolerates(self, other: PodInfo) -> bool:
        """Return whether a pod of lower priority tolerates the preemption."""
        toleration = self._tolerations.get(other.spec.priorityClassName or "")
        if self.pod.spec.preemptionPolicy == "Never":
            return True
        if toleration is None or self.pod.priority >= toleration.minimum:
            return False
        if toleration.seconds < 0:
            return True
        placed = _placed_at(other)
        return placed is None or placed + timedelta(seconds=min(toleration.seconds, _LONGEST)) > self._now


def toleration_of(priority_class: Any) -> PreemptionTolerance:
    """Return what the pods of a PriorityClass tolerate. Raises InvalidToleration."""
    annotations: Mapping[str, str] = priority_class.metadata.annotations or {}
    minimum = _number(annotations, MINIMUM, priority_class.value + 1)
    if abs(minimum) > _LARGEST_PRIORITY + 1:
        raise InvalidToleration(f"annotation {MINIMUM} is {minimum}, which no priority can be")
    return PreemptionTolerance(minimum, _number(annotations, SECONDS, 0))


def _number(annotations: Mapping[str, str], key: str, default: int) -> int:
    text = annotations.get(key)
    if text is None:
        return default
    if not _INTEGER.fullmatch(text):
        raise InvalidToleration(f"annotation {key} is {text!r}, expected an integer")
    return int(text)


def _placed_at(pod: PodInfo) -> datetime | None:
    """Return when a pod was placed; None if its status doesn't say."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled":
            at = condition.lastTransitionTime if condition.status == "True" else None
            return None if at is None else at.replace(tzinfo=at.tzinfo or UTC)
    return None
