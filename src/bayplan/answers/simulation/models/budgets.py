"""BudgetController: keeps the status of disruption budgets up to date as pods come and go.

Mirrors the disruption controller. It counts by budget as an observer of the timeline, so that a change costs what it
concerns and not all pods. Preemption reads the status; the autoscaler asks `allow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lightkube.models.policy_v1 import PodDisruptionBudgetStatus
from msgspec import structs

from bayplan.answers.simulation.lives import PodLifetime
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.api.labels import InvalidSelector, LabelSelector
from bayplan.core.api.selectors import label_selector
from bayplan.core.cluster.pod_info import PodInfo


@dataclass(slots=True)
class _Counted:
    """A budget with the pods that it selects: those that should exist by origin, and the healthy ones by uid."""

    spec: Any
    selector: LabelSelector | None
    expected: set[str] = field(default_factory=set)
    healthy: set[str] = field(default_factory=set)

    def selects(self, pod: PodInfo) -> bool:
        """Whether the budget selects a pod of its namespace."""
        return self.selector is not None and self.selector.matches(pod.labels)

    def desired(self) -> int:
        """How many pods have to be healthy."""
        expected = len(self.expected)
        if self.spec.maxUnavailable is not None:
            return max(expected - _scaled(self.spec.maxUnavailable, expected), 0)
        return 1 if self.spec.minAvailable is None else _scaled(self.spec.minAvailable, expected)


class BudgetController(TimelineObserver):
    """Keeps the status of every budget up to date. Mirrors the disruption controller.

    Pods count as healthy once they are ready. An evicted pod is expected until its owner deletes its replacement.
    """

    def __init__(self) -> None:
        self._timeline: Timeline | None = None
        self._by_namespace: dict[str, dict[str, _Counted]] = {}
        self._of_origin: dict[str, list[tuple[str, _Counted]]] = {}
        self._writing = False
        self._unfollow: Callable[[], None] = lambda: None

    def begin(self, timeline: Timeline) -> None:
        """Count what there is."""
        self._timeline = timeline
        store = timeline.world.state.objects[POD_DISRUPTION_BUDGET]
        for key in list(store):
            self._count(key, store[key])
        self._unfollow = store.follow(self._changed)

    def end(self) -> None:
        """Count nothing any more."""
        self._unfollow()

    def _changed(self, before: Any, now: Any) -> None:
        if self._writing or self._timeline is None:
            return
        metadata = (before if now is None else now).metadata
        key = f"{metadata.namespace}/{metadata.name}"
        self._by_namespace.get(metadata.namespace, {}).pop(key, None)
        if now is not None:
            self._timeline.after(0.0, self._count, key, now)

    def _count(self, key: str, budget: Any) -> None:
        """Begin to count the pods of a budget."""
        assert self._timeline is not None
        namespace = key.partition("/")[0]
        counted = _Counted(budget.spec, _selector(budget))
        self._by_namespace.setdefault(namespace, {})[key] = counted
        for life in self._timeline.lives.values():
            pod = self._timeline.world.pod(life.key)
            if pod is not None and pod.namespace == namespace and counted.selects(pod):
                self._expect(life, key, counted)
                if life.bound_at is not None and life.leaving is None:
                    counted.healthy.add(life.uid)
        self._write(key, counted)

    def _expect(self, life: PodLifetime, key: str, counted: _Counted) -> None:
        if life.origin not in counted.expected:
            counted.expected.add(life.origin)
            self._of_origin.setdefault(life.origin, []).append((key, counted))

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """Expect a pod."""
        for key, counted in self._of(pod):
            self._expect(life, key, counted)
            self._write(key, counted)

    def ready(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod as healthy."""
        for key, counted in self._of_origin.get(life.origin, ()):
            counted.healthy.add(life.uid)
            self._write(key, counted)

    def evicted(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod as healthy no longer."""
        for key, counted in self._of_origin.get(life.origin, ()):
            counted.healthy.discard(life.uid)
            self._write(key, counted)

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """Count a pod as healthy no longer."""
        self.evicted(pod, life)

    def finished(self, origin: str) -> None:
        """Expect a pod no longer."""
        for key, counted in self._of_origin.pop(origin, ()):
            counted.expected.discard(origin)
            self._write(key, counted)

    def _of(self, pod: PodInfo) -> Iterator[tuple[str, _Counted]]:
        budgets = self._by_namespace.get(pod.namespace, {})
        return ((key, counted) for key, counted in budgets.items() if counted.selects(pod))

    def _write(self, key: str, counted: _Counted) -> None:
        assert self._timeline is not None
        world = self._timeline.world
        budget = world.state.objects[POD_DISRUPTION_BUDGET].get(key)
        if budget is None or counted.selector is None:  # one that can't be read keeps its status
            return
        desired, healthy = counted.desired(), len(counted.healthy)
        allowed = max(healthy - desired, 0) if counted.expected else 0
        status = budget.status or _NO_STATUS
        if (status.disruptionsAllowed, status.currentHealthy, status.desiredHealthy) == (allowed, healthy, desired):
            return
        status = structs.replace(
            status,
            disruptionsAllowed=allowed,
            currentHealthy=healthy,
            desiredHealthy=desired,
            expectedPods=len(counted.expected),
        )
        self._writing = True
        try:
            world.change(POD_DISRUPTION_BUDGET, key, structs.replace(budget, status=status))
        finally:
            self._writing = False

    def allow(self, pod: PodInfo) -> bool:
        """Whether the budgets of a pod allow its eviction now."""
        return all(len(counted.healthy) > counted.desired() for _, counted in self._of(pod))

    def cover(self, pod: PodInfo) -> bool:
        """Whether a pod has a budget."""
        return any(True for _ in self._of(pod))


_NO_STATUS = PodDisruptionBudgetStatus(currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0)


def _selector(budget: Any) -> LabelSelector | None:
    """The pods of a budget; None for none, as for a budget with an invalid field."""
    try:
        _Counted(budget.spec, None).desired()
        return label_selector(budget.spec.selector)
    except (InvalidSelector, ValueError, AttributeError):
        return None


def _scaled(value: int | str, total: int) -> int:
    """Return a number, or a percentage of `total`, rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)
