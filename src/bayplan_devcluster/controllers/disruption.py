"""Updates the status of PodDisruptionBudgets. Mirrors pkg/controller/disruption/disruption.go.

Preemption and evictions read the status, so a granted eviction counts until its pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec
from lightkube.models.meta_v1 import Condition, OwnerReference
from lightkube.models.policy_v1 import PodDisruptionBudgetStatus

from bayplan.core.api.kinds import (
    DEPLOYMENT,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
)
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import Pod, PodDisruptionBudget
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods
from bayplan.core.expansion.owner_references import controller_of
from bayplan.core.expansion.rollout import scaled
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import Informer, key_of, latest

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long a pod with a granted eviction counts as disrupted before it is deleted."""


class UnknownScale(Exception):
    """A percentage of pods whose controller has an unknown size."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected number of pods, and how many of them must be healthy."""

    pods: int
    healthy: int


class DisruptionController(Controller):
    """Counts healthy pods and computes how many disruptions a budget allows."""

    name: ClassVar[str] = "disruption-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._budgets = self.watch(POD_DISRUPTION_BUDGET, self.enqueue)
        self._budgets_by_namespace = self._budgets.index(lambda one: (one.metadata.namespace,))
        self._scales: dict[str, Informer] = {
            kind.kind: self.watch(kind) for kind in (REPLICA_SET, DEPLOYMENT, REPLICATION_CONTROLLER, STATEFUL_SET)
        }
        pods_view = self.watch(POD)
        self._pods_by_namespace = pods_view.index(lambda one: (one.metadata.namespace,))
        pods_view.listen(self._pod_changed)

    async def sync(self, key: str) -> None:
        """Update one budget's status."""
        budget: PodDisruptionBudget | None = self._budgets.get(key)
        if budget is None:
            return
        now = whole_seconds(self.clock.now())
        selector = selector_or_nothing(budget.spec.selector)
        neighbours = self._pods_by_namespace.get(budget.metadata.namespace)
        covered = [pod for pod in neighbours if selector.matches(pod.metadata.labels or {})]
        disrupted = still_disrupted(budget, covered, now)
        try:
            expected = self._expect(budget, covered)
        except (UnknownScale, ValueError) as error:
            status = _failed(budget, str(error), now)
        else:
            status = calculate_status(budget, expected, covered, disrupted, now)
        await self.write_status(self._budgets, budget, status)
        if disrupted:
            due = min(disrupted.values()) + DELETION_TIMEOUT - now
            self.queue.add_after(key, due.total_seconds() + 1)

    def _expect(self, budget: PodDisruptionBudget, covered: Sequence[Pod]) -> Expectation:
        spec = budget.spec
        if spec.maxUnavailable is not None:
            count = self._expected_scale(covered)
            return Expectation(count, max(count - scaled(spec.maxUnavailable, count, round_up=True), 0))
        if isinstance(spec.minAvailable, str):
            count = self._expected_scale(covered)
            return Expectation(count, scaled(spec.minAvailable, count, round_up=True))
        if spec.minAvailable is not None:
            return Expectation(len(covered), spec.minAvailable)
        return Expectation(0, 0)

    def _expected_scale(self, covered: Iterable[Pod]) -> int:
        """The desired replicas of these pods' controllers. Pods without a controller count as 0."""
        scales: dict[str, int] = {}
        for pod in covered:
            reference = controller_of(pod)
            if reference is None or reference.uid in scales:
                continue
            scale = self._scale(reference, pod.metadata.namespace)
            if scale is None:
                raise UnknownScale(f'found no controllers for pod "{pod.metadata.name}"')
            uid, replicas = scale
            scales[uid] = replicas
        return sum(scales.values())

    def _scale(self, reference: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """The uid and size of a controller. For a ReplicaSet of a Deployment, they are the Deployment's."""
        informer = self._scales.get(reference.kind)
        owner = informer.get(f"{namespace}/{reference.name}") if informer is not None else None
        if owner is None or owner.metadata.uid != reference.uid:
            return None
        above = controller_of(owner)
        if reference.kind == REPLICA_SET.kind and above is not None and above.kind == DEPLOYMENT.kind:
            return self._scale(above, namespace)
        return reference.uid, 1 if owner.spec.replicas is None else owner.spec.replicas

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        namespace = latest(old, new).metadata.namespace
        neighbours = self._pods_by_namespace.count(namespace)
        for budget in self._budgets_by_namespace.get(namespace):
            selector = selector_or_nothing(budget.spec.selector)
            if any(pod is not None and selector.matches(pod.metadata.labels or {}) for pod in (old, new)):
                self.enqueue_for(key_of(budget), neighbours)


def still_disrupted(budget: PodDisruptionBudget, covered: Iterable[Pod], now: datetime) -> dict[str, datetime]:
    """The pods with a granted eviction that aren't deleted yet, and the time of the eviction."""
    known = (budget.status.disruptedPods if budget.status else None) or {}
    result = {}
    for pod in covered:
        granted = _moment(known.get(pod.metadata.name))
        if granted is not None and not pods.is_terminating(pod) and granted + DELETION_TIMEOUT >= now:
            result[pod.metadata.name] = granted
    return result


def calculate_status(
    budget: PodDisruptionBudget,
    expected: Expectation,
    covered: Iterable[Pod],
    disrupted: dict[str, datetime],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    """The status of a budget for these pods."""
    healthy = sum(
        pods.is_ready(pod) and not pods.is_terminating(pod) and pod.metadata.name not in disrupted for pod in covered
    )
    allowed = max(healthy - expected.healthy, 0) if expected.pods > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return PodDisruptionBudgetStatus(
        currentHealthy=healthy,
        desiredHealthy=expected.healthy,
        expectedPods=expected.pods,
        disruptionsAllowed=allowed,
        disruptedPods=disrupted or None,
        observedGeneration=budget.metadata.generation,
        conditions=_conditions(budget, "True" if allowed else "False", reason, "", now),
    )


def _failed(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    """Allow no disruptions, because their number can't be computed."""
    known = budget.status or PodDisruptionBudgetStatus(
        currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0
    )
    conditions = _conditions(budget, "False", "SyncFailed", message, now)
    return msgspec.structs.replace(known, disruptionsAllowed=0, conditions=conditions)


def _conditions(budget: PodDisruptionBudget, status: str, reason: str, message: str, now: datetime) -> list[Condition]:
    known = (budget.status.conditions if budget.status else None) or ()
    current = next((one for one in known if one.type == "DisruptionAllowed"), None)
    since = current.lastTransitionTime if current is not None and current.status == status else now
    condition = Condition(
        type="DisruptionAllowed",
        status=status,
        reason=reason,
        message=message,
        lastTransitionTime=since,
        observedGeneration=budget.metadata.generation,
    )
    return [*(one for one in known if one.type != "DisruptionAllowed"), condition]


def _moment(value: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
