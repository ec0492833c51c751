"""Keeps the desired number of pods of ReplicaSets and ReplicationControllers.

Mirrors pkg/controller/replicaset/replica_set.go and pkg/controller/replication.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from lightkube.models import meta_v1
from lightkube.models.apps_v1 import ReplicaSetCondition, ReplicaSetStatus
from lightkube.models.core_v1 import ReplicationControllerStatus

from bayplan.core.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import Pod, ReplicaSet
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods
from bayplan.core.expansion.owner_references import controller_of
from bayplan.core.expansion.scale_down import scale_down_order
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import ControllerContext
from bayplan_devcluster.controllers.owners import OwnerController
from bayplan_devcluster.controllers.pod_control import PodControl


class ReplicaSetController(OwnerController):
    """Creates and deletes pods, adopts matching orphans, reports the status."""

    name: ClassVar[str] = "replicaset-controller"
    kind: ClassVar[Kind] = REPLICA_SET

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._control = PodControl(self.client, self._dependents, self.recorder, self.kind)

    def status(self, status: ReplicaSetStatus) -> Any:
        """The status in the form of the kind."""
        return status

    async def sync(self, key: str) -> None:
        """Create or delete pods of one ReplicaSet until it has the desired number."""
        replica_set: ReplicaSet | None = self._owners.get(key)
        if replica_set is None:
            return
        claimed = await self.claim(replica_set)
        failure = None
        if replica_set.metadata.deletionTimestamp is None:
            failure = await self._manage(replica_set, [pod for pod in claimed if pods.is_active(pod)])
        await self._report(replica_set, failure)
        if failure is not None:
            raise failure

    async def _manage(self, replica_set: ReplicaSet, active: list[Pod]) -> ApiError | None:
        missing = (replica_set.spec.replicas or 0) - len(active)
        if missing > 0:
            template = pods.from_template(replica_set.spec.template, self.kind, replica_set)
            return await self._control.create(replica_set, [template] * missing)
        if missing < 0:
            siblings = [pod for one in self._siblings(replica_set) for pod in self.owned(one)]
            return await self._control.delete(replica_set, scale_down_order(active, siblings)[:-missing])
        return None

    async def _report(self, replica_set: ReplicaSet, failure: ApiError | None) -> None:
        # Count the pods after the informer has this sync's creations and deletions.
        now = whole_seconds(self.clock.now())
        status = calculate_status(replica_set, self.owned(replica_set), failure, now)
        await self.write_status(self._owners, replica_set, self.status(status))
        self.await_availability(replica_set, now)

    def _siblings(self, replica_set: ReplicaSet) -> list[ReplicaSet]:
        """All ReplicaSets of the same owner: their pods count together as the pods on a node."""
        owner = controller_of(replica_set)
        if owner is None:
            return [replica_set]
        neighbours = self._by_namespace.get(replica_set.metadata.namespace)
        return [one for one in neighbours if (found := controller_of(one)) is not None and found.uid == owner.uid]


class ReplicationManager(ReplicaSetController):
    """Does the same for ReplicationControllers."""

    name: ClassVar[str] = "replication-controller"
    kind: ClassVar[Kind] = REPLICATION_CONTROLLER

    def selector(self, controller: Any) -> LabelSelector:
        """The selector of its pods, which has only labels."""
        return selector_or_nothing(meta_v1.LabelSelector(matchLabels=controller.spec.selector))

    def status(self, status: ReplicaSetStatus) -> ReplicationControllerStatus:
        """The status, without the field that only ReplicaSets have."""
        fields = msgspec.structs.asdict(status)
        del fields["terminatingReplicas"]
        return msgspec.convert(fields, ReplicationControllerStatus, from_attributes=True)


def calculate_status(
    replica_set: ReplicaSet, owned: Sequence[Pod], failure: ApiError | None, now: datetime
) -> ReplicaSetStatus:
    """The status for its pods and for the outcome of creating and deleting them."""
    active = [pod for pod in owned if pods.is_active(pod)]
    labels = (replica_set.spec.template.metadata.labels if replica_set.spec.template.metadata else None) or {}
    min_ready = replica_set.spec.minReadySeconds or 0
    return ReplicaSetStatus(
        replicas=len(active),
        fullyLabeledReplicas=sum(labels.items() <= (pod.metadata.labels or {}).items() for pod in active) or None,
        readyReplicas=sum(map(pods.is_ready, active)) or None,
        availableReplicas=sum(pods.is_available(pod, min_ready, now) for pod in active) or None,
        terminatingReplicas=sum(pods.is_terminating(pod) and not pods.is_finished(pod) for pod in owned),
        observedGeneration=replica_set.metadata.generation,
        conditions=_conditions(replica_set, active, failure, now),
    )


def _conditions(
    replica_set: ReplicaSet, active: Sequence[Pod], failure: ApiError | None, now: datetime
) -> list[ReplicaSetCondition] | None:
    known = list((replica_set.status.conditions if replica_set.status else None) or ())
    others = [one for one in known if one.type != "ReplicaFailure"]
    if failure is None:
        return others or None
    if len(others) < len(known):
        return known
    reason = "FailedCreate" if len(active) < (replica_set.spec.replicas or 0) else "FailedDelete"
    return [
        *others,
        ReplicaSetCondition(
            type="ReplicaFailure", status="True", reason=reason, message=failure.message, lastTransitionTime=now
        ),
    ]
