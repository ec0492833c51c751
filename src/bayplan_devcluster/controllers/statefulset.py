"""Gives a StatefulSet its pods, one after the other.

Mirrors pkg/controller/statefulset: stateful_set.go and stateful_set_control.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from lightkube.models.apps_v1 import StatefulSetStatus
from lightkube.models.meta_v1 import LabelSelector

from bayplan.core.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Kind
from bayplan.core.api.served import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods, rollout, stateful_pods
from bayplan.running.client.client import PatchType
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import ControllerContext
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.owners import OwnerController
from bayplan_devcluster.controllers.pod_control import slow_start
from bayplan_devcluster.controllers.revisions import RevisionHistory, template_of
from bayplan_devcluster.controllers.stateful_claims import StatefulClaims

HASH_LABEL = "controller.kubernetes.io/hash"
"""The label of a StatefulSet's revisions with the hash of the template."""


@dataclass(frozen=True, slots=True)
class _Sync:
    """A StatefulSet, its revisions and its pods at the start of a sync."""

    stateful_set: StatefulSet
    current: ControllerRevision
    """The revision that the last completed rollout left."""
    update: ControllerRevision
    """The revision of the present template."""
    collisions: int | None
    owned: list[Pod]
    now: datetime

    def is_unavailable(self, pod: Pod) -> bool:
        return pods.is_terminating(pod) or not self.is_available(pod)

    def is_available(self, pod: Pod) -> bool:
        return pods.is_available(pod, self.stateful_set.spec.minReadySeconds or 0, self.now)


class StatefulSetController(OwnerController):
    """Creates, replaces and deletes pods by their ordinals, with the claims of each."""

    name: ClassVar[str] = "statefulset-controller"
    kind: ClassVar[Kind] = STATEFUL_SET

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        claims = self.watch(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        self._history = RevisionHistory(self.client, STATEFUL_SET, self.watch(CONTROLLER_REVISION), HASH_LABEL)
        self._claims = StatefulClaims(self.client, claims, self.recorder)

    def may_own(self, owner: StatefulSet, dependent: Pod) -> bool:
        """Only pods with a name of the set are its pods."""
        return stateful_pods.is_member(owner, dependent)

    async def sync(self, key: str) -> None:
        """Take one StatefulSet a step closer to its spec."""
        stateful_set: StatefulSet | None = self._owners.get(key)
        if stateful_set is None or stateful_set.spec.selector == LabelSelector():
            return  # an empty selector would claim every pod of the namespace
        if stateful_set.metadata.deletionTimestamp is not None:
            return
        revisions = await self._history.claim(stateful_set)
        owned = await self.claim(stateful_set)
        update, collisions = await self._history.current(stateful_set, revisions)
        known = stateful_set.status.currentRevision if stateful_set.status else None
        current = next((one for one in revisions if one.metadata.name == known), update)
        sync = _Sync(stateful_set, current, update, collisions, owned, self.clock.now())
        failure = None
        try:
            await self._reconcile(sync)
        except ApiError as error:
            failure = error
        await self._report(sync)
        await self._truncate_history(sync, revisions)
        if failure is not None:
            raise failure

    async def _reconcile(self, sync: _Sync) -> None:
        numbers = stateful_pods.ordinals(sync.stateful_set)
        found = {stateful_pods.ordinal(pod): pod for pod in sync.owned}
        replicas = [found.get(number) or self._new_pod(sync, number) for number in numbers]
        surplus = sorted((number for number in found if number >= 0 and number not in numbers), reverse=True)
        condemned = [found[number] for number in surplus]
        unhealthy = next((pod for pod in (*replicas, *reversed(condemned)) if sync.is_unavailable(pod)), None)

        async def keep(pod: Pod) -> bool:
            return await self._keep(sync, pod)

        async def release_claims(pod: Pod) -> bool:
            if not self._claims.owners_match(sync.stateful_set, pod):
                await self._claims.set_owners(sync.stateful_set, pod)
            return False

        async def scale_down(pod: Pod) -> bool:
            return await self._scale_down(sync, pod, unhealthy)

        for step, concerned in ((keep, replicas), (release_claims, condemned), (scale_down, condemned)):
            if await self._blocked(sync, step, concerned):
                return
        if stateful_pods.is_rolling_update(sync.stateful_set):
            for pod in _outdated(sync, replicas):
                await self._delete(sync.stateful_set, pod)

    async def _blocked(self, sync: _Sync, step: Callable[[Pod], Awaitable[bool]], concerned: Sequence[Pod]) -> bool:
        """Take a step for each pod: in order until one has to be waited for, or for all at once."""
        if stateful_pods.is_ordered(sync.stateful_set):
            for pod in concerned:
                if await step(pod):
                    return True
            return False
        _, error = await slow_start(step, concerned)
        if error is not None:
            raise error
        return False

    async def _keep(self, sync: _Sync, pod: Pod) -> bool:
        """Create or correct one wanted pod. Returns whether its successors have to wait. Mirrors processReplica."""
        stateful_set = sync.stateful_set
        if pods.is_finished(pod):
            if not pods.is_terminating(pod):
                await self._delete(stateful_set, pod)
            return True
        if not pod.metadata.uid:
            if not self._claims.are_stale(stateful_set, pod):
                await self._create(stateful_set, pod)
            return True
        if pods.phase(pod) == "Pending":
            await self._claims.create_missing(stateful_set, pod)
            await self._claims.set_owners(stateful_set, pod)
        running = pods.phase(pod) == "Running" and sync.is_available(pod) and not pods.is_terminating(pod)
        if stateful_pods.is_ordered(stateful_set) and not running:
            return True
        await self._correct(stateful_set, pod)
        return False

    async def _scale_down(self, sync: _Sync, pod: Pod, unhealthy: Pod | None) -> bool:
        """Delete one surplus pod. Returns whether the others have to wait. Mirrors processCondemned."""
        if pods.is_terminating(pod):
            return True
        if stateful_pods.is_ordered(sync.stateful_set) and sync.is_unavailable(pod) and pod is not unhealthy:
            return True
        await self._delete(sync.stateful_set, pod)
        return True

    def _new_pod(self, sync: _Sync, number: int) -> Pod:
        kept = stateful_pods.keeps_revision(sync.stateful_set, number)
        revision = sync.current if kept else sync.update
        template = template_of(revision)
        return stateful_pods.new_pod(sync.stateful_set, template, revision.metadata.name, number)

    async def _create(self, stateful_set: StatefulSet, pod: Pod) -> None:
        try:
            await self._claims.create_missing(stateful_set, pod)
            created = await self.client.create(POD, pod, stateful_set.metadata.namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                self._record(stateful_set, "Create", pod, error)
            raise
        self._record(stateful_set, "Create", pod)
        await self._dependents.observe([created])
        await self._claims.set_owners(stateful_set, created)

    async def _correct(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Restore the labels, volumes and claims of a pod. Mirrors UpdateStatefulPod."""
        patch: dict[str, Any] = {}
        if not stateful_pods.identity_matches(pod):
            patch["metadata"] = {"labels": stateful_pods.identity_labels(pod.metadata.name)}
        if not stateful_pods.storage_matches(stateful_set, pod):
            await self._claims.create_missing(stateful_set, pod)
            patch["spec"] = {"volumes": stateful_pods.volumes(stateful_set, pod)}
        if not self._claims.owners_match(stateful_set, pod):
            await self._claims.set_owners(stateful_set, pod)
        if not patch:
            return
        metadata = pod.metadata
        try:
            written = await self.client.patch(POD, metadata.name, patch, metadata.namespace, type=PatchType.STRATEGIC)
        except ApiError as error:
            self._record(stateful_set, "Update", pod, error)
            raise
        self._record(stateful_set, "Update", pod)
        await self._dependents.observe([written])

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            await self.client.delete(POD, metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as error:
            if error.status not in {404, 409}:  # gone already, or replaced by a namesake
                self._record(stateful_set, "Delete", pod, error)
                raise
        self._record(stateful_set, "Delete", pod)
        await self._dependents.observe_deletions([pod])

    def _record(self, stateful_set: StatefulSet, verb: str, pod: Pod, error: ApiError | None = None) -> None:
        subject = f"{verb} Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        if error is None:
            self.recorder.normal(STATEFUL_SET, stateful_set, f"Successful{verb}", f"{subject} successful")
        else:
            message = f"{subject} failed error: {error.message}"
            self.recorder.warning(STATEFUL_SET, stateful_set, f"Failed{verb}", message)

    async def _report(self, sync: _Sync) -> None:
        # Counted after the creations and deletions of this sync have shown up.
        stateful_set = sync.stateful_set
        now = whole_seconds(self.clock.now())
        status = calculate_status(stateful_set, sync.current, sync.update, self.owned(stateful_set), now)
        status.collisionCount = sync.collisions or 0
        await self.write_status(self._owners, stateful_set, status)
        self.await_availability(stateful_set, now)

    async def _truncate_history(self, sync: _Sync, revisions: Sequence[ControllerRevision]) -> None:
        """Delete the oldest revisions beyond revisionHistoryLimit; those that are in use don't count."""
        live = {sync.current.metadata.name, sync.update.metadata.name, *map(stateful_pods.revision_of, sync.owned)}
        history = [one for one in revisions if one.metadata.name not in live]
        limit = sync.stateful_set.spec.revisionHistoryLimit
        if limit is not None:
            await self._history.delete(history[: max(len(history) - limit, 0)])

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """A claim that has been deleted may be one that a new pod waits for."""
        if old is not None and new is None:
            for one in self._by_namespace.get(old.metadata.namespace):
                if any(
                    old.metadata.name.startswith(f"{template}-{one.metadata.name}-")
                    for template in stateful_pods.claim_templates(one)
                ):
                    self.queue.add(key_of(one))


def _outdated(sync: _Sync, replicas: Sequence[Pod]) -> list[Pod]:
    """The pods to replace now, the highest ordinal first; those below the partition stay.

    Without `maxUnavailable` the next pod has to wait until the last is available. With it, as many pods are replaced
    as may be unavailable: upstream's feature gate MaxUnavailableStatefulSet.
    """
    strategy = sync.stateful_set.spec.updateStrategy
    rolling = strategy.rollingUpdate if strategy else None
    candidates = replicas[stateful_pods.partition(sync.stateful_set) :][::-1]
    if rolling is None or rolling.maxUnavailable is None:
        for pod in candidates:
            if _is_outdated(sync, pod):
                return [pod]
            if sync.is_unavailable(pod):
                return []
        return []
    allowed = max(rollout.scaled(rolling.maxUnavailable, len(replicas), round_up=False), 1)
    budget = allowed - sum(map(sync.is_unavailable, replicas))
    return [pod for pod in candidates if _is_outdated(sync, pod)][: max(budget, 0)]


def _is_outdated(sync: _Sync, pod: Pod) -> bool:
    return stateful_pods.revision_of(pod) != sync.update.metadata.name and not pods.is_terminating(pod)


def calculate_status(
    stateful_set: StatefulSet,
    current: ControllerRevision,
    update: ControllerRevision,
    owned: Sequence[Pod],
    now: datetime,
) -> StatefulSetStatus:
    """The status by the pods. A rollout that is complete makes the update revision the current one."""
    min_ready = stateful_set.spec.minReadySeconds or 0
    revisions = [stateful_pods.revision_of(pod) for pod in owned if not pods.is_terminating(pod)]
    ready = [pod for pod in owned if pods.phase(pod) == "Running" and pods.is_ready(pod)]
    status = StatefulSetStatus(
        observedGeneration=stateful_set.metadata.generation,
        replicas=len(owned),
        readyReplicas=len(ready) or None,
        availableReplicas=sum(pods.is_available(pod, min_ready, now) for pod in ready),
        currentReplicas=revisions.count(current.metadata.name) or None,
        updatedReplicas=revisions.count(update.metadata.name) or None,
        currentRevision=current.metadata.name,
        updateRevision=update.metadata.name,
    )
    wanted = stateful_pods.replicas(stateful_set)
    counts = {status.updatedReplicas or 0, status.readyReplicas or 0, status.replicas}
    if stateful_pods.is_rolling_update(stateful_set) and counts == {wanted}:
        status.currentReplicas, status.currentRevision = status.updatedReplicas, status.updateRevision
    return status
