"""Rolls out Deployments through ReplicaSets. Mirrors pkg/controller/deployment/deployment_controller.go and sync.go.

One step per sync. How much a step scales is a function of what there is (`bayplan.core.expansion.rollout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from lightkube.models.apps_v1 import DeploymentStatus
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta

from bayplan.core.api.kinds import DEPLOYMENT, POD, REPLICA_SET, Kind
from bayplan.core.api.served import Deployment, Metadata, Pod, ReplicaSet, ReplicaSetSpec
from bayplan.core.api.times import whole_seconds
from bayplan.core.api.well_known_labels import LAST_APPLIED, POD_TEMPLATE_HASH, REVISION
from bayplan.core.expansion import pods, rollout
from bayplan.core.expansion.owner_references import controller_of, controller_reference, controller_uids
from bayplan.running.client.client import PatchType
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import ControllerContext
from bayplan_devcluster.controllers.deployment_status import (
    calculate_status,
    created_condition,
    has_deadline,
    is_complete,
    pause_condition,
    seconds_until_timeout,
    with_condition,
    with_progress,
)
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.owners import OwnerController

OWN_ANNOTATIONS = frozenset(
    {LAST_APPLIED, REVISION, rollout.REVISION_HISTORY, rollout.DESIRED_REPLICAS, rollout.MAX_REPLICAS}
)
"""The annotations of a Deployment that its ReplicaSets don't inherit."""


@dataclass(slots=True)
class _Sync:
    """The state of one sync of a Deployment: its latest version, and its ReplicaSets after the changes so far."""

    deployment: Deployment
    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def every(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]


class DeploymentController(OwnerController):
    """Does one step of a rollout per sync. The progress of the ReplicaSets triggers the next sync."""

    name: ClassVar[str] = "deployment-controller"
    kind: ClassVar[Kind] = DEPLOYMENT
    dependent_kind: ClassVar[Kind] = REPLICA_SET

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        watched = self.watch(POD, self._pod_changed)
        self._pods_by_controller = watched.index(controller_uids)

    async def sync(self, key: str) -> None:
        """Do the next step of one Deployment's rollout."""
        deployment: Deployment | None = self._owners.get(key)
        if deployment is None or deployment.spec.selector == LabelSelector():
            return  # an empty selector would select every pod of the namespace
        sets = await self.claim(deployment)
        new = rollout.find_new(deployment, sets)
        current = _Sync(deployment, new, [one for one in sets if one is not new])
        if deployment.metadata.deletionTimestamp is None:
            await self._note_pause(current)
            await self._update_annotations(current)
            await self._step(current)
        await self._report(current)

    async def _note_pause(self, current: _Sync) -> None:
        condition = pause_condition(current.deployment, whole_seconds(self.clock.now()))
        if condition is not None:
            status = with_condition(current.deployment.status or DeploymentStatus(), condition)
            current.deployment = await self.write_status(self._owners, current.deployment, status)

    async def _update_annotations(self, current: _Sync) -> None:
        """Copy the Deployment's annotations and minReadySeconds to the new ReplicaSet, if there is one."""
        deployment, new = current.deployment, current.new
        if new is None:
            return
        known = new.metadata.annotations or {}
        inherited = inherited_annotations(deployment, new, current.old)
        changed = {key: value for key, value in inherited.items() if known.get(key) != value}
        patch: dict[str, Any] = {"metadata": {"annotations": changed}} if changed else {}
        if (new.spec.minReadySeconds or 0) != (deployment.spec.minReadySeconds or 0):
            patch["spec"] = {"minReadySeconds": deployment.spec.minReadySeconds or 0}
        if patch:
            new = current.new = await self._patch(new, patch)
        await self._set_revision(current, new)

    async def _step(self, current: _Sync) -> None:
        deployment = current.deployment
        if deployment.spec.paused or rollout.is_scaling_event(deployment, current.every):
            await self._scale(current, rollout.plan_scale(deployment, current.new, current.old))
            if deployment.spec.paused:
                await self._clean_up(current)
        elif rollout.is_rolling_update(deployment):
            new = current.new or await self._create(current)
            await self._scale(current, rollout.plan_rolling_update(deployment, new, current.old))
        elif shrink := [rollout.Scale(one, 0) for one in current.old if rollout.size(one) > 0]:
            await self._scale(current, shrink)
        elif not self._old_pods_run(current.old):
            new = current.new or await self._create(current)
            await self._scale(current, [rollout.Scale(new, rollout.wanted(deployment))])
        if deployment.status is not None and is_complete(deployment, deployment.status):
            await self._clean_up(current)

    async def _create(self, current: _Sync) -> ReplicaSet:
        deployment = current.deployment
        collisions = deployment.status.collisionCount if deployment.status else None
        digest = rollout.pod_template_hash(deployment.spec.template, collisions)
        replica_set = new_replica_set(deployment, current.old, digest)
        try:
            created: ReplicaSet = await self.client.create(REPLICA_SET, replica_set, deployment.metadata.namespace)
        except ApiError as error:
            if error.status == 409:
                await self._count_collision(deployment, replica_set.metadata.name)
            raise
        await self._dependents.observe([created])
        current.new = created
        if (count := rollout.size(created)) > 0:
            message = f"Scaled up replica set {created.metadata.name} from 0 to {count}"
            self.recorder.normal(DEPLOYMENT, deployment, "ScalingReplicaSet", message)
        await self._set_revision(current, created)
        if has_deadline(deployment):
            condition = created_condition(created.metadata.name, whole_seconds(self.clock.now()))
            status = with_condition(deployment.status or DeploymentStatus(), condition)
            current.deployment = msgspec.structs.replace(current.deployment, status=status)
        return created

    async def _count_collision(self, deployment: Deployment, name: str) -> None:
        """Handle a hash collision with another template: increment the collision count for the next attempt."""
        existing = await self.client.get(REPLICA_SET, name, deployment.metadata.namespace)
        owner = controller_of(existing)
        own = owner is not None and owner.uid == deployment.metadata.uid
        if own and rollout.canonical(existing.spec.template) == rollout.canonical(deployment.spec.template):
            return  # created by us, not in the informer yet
        status = deployment.status or DeploymentStatus()
        status = msgspec.structs.replace(status, collisionCount=(status.collisionCount or 0) + 1)
        await self.write_status(self._owners, deployment, status)

    async def _set_revision(self, current: _Sync, new: ReplicaSet) -> None:
        """Copy the revision of the new ReplicaSet to the Deployment."""
        metadata = current.deployment.metadata
        revision = (new.metadata.annotations or {}).get(REVISION, "1")
        if (metadata.annotations or {}).get(REVISION) != revision:
            patch = {"metadata": {"annotations": {REVISION: revision}}}
            current.deployment = await self.client.patch(
                DEPLOYMENT, metadata.name, patch, metadata.namespace, type=PatchType.MERGE
            )
            await self._owners.observe([current.deployment])

    async def _scale(self, current: _Sync, plan: Sequence[rollout.Scale]) -> None:
        """Scale the ReplicaSets as planned."""
        deployment = current.deployment
        annotations = size_annotations(deployment)
        scaled: dict[str, ReplicaSet] = {}
        for step in plan:
            one, before = step.replica_set, rollout.size(step.replica_set)
            if before == step.replicas and annotations.items() <= (one.metadata.annotations or {}).items():
                continue
            patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": step.replicas}}
            scaled[one.metadata.name] = await self._patch(one, patch)
            if before != step.replicas:
                direction = "up" if before < step.replicas else "down"
                message = f"Scaled {direction} replica set {one.metadata.name} from {before} to {step.replicas}"
                self.recorder.normal(DEPLOYMENT, deployment, "ScalingReplicaSet", message)
        if current.new is not None:
            current.new = scaled.get(current.new.metadata.name, current.new)
        current.old = [scaled.get(one.metadata.name, one) for one in current.old]

    async def _patch(self, replica_set: ReplicaSet, patch: dict[str, Any]) -> ReplicaSet:
        metadata = replica_set.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": metadata.resourceVersion}}
        written: ReplicaSet = await self.client.patch(
            REPLICA_SET, metadata.name, guarded, metadata.namespace, type=PatchType.MERGE
        )
        await self._dependents.observe([written])
        return written

    async def _clean_up(self, current: _Sync) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit = current.deployment.spec.revisionHistoryLimit
        candidates = [one for one in current.old if one.metadata.deletionTimestamp is None]
        surplus = len(candidates) - (limit if limit is not None else len(candidates))
        for one in sorted(candidates, key=rollout.revision)[: max(surplus, 0)]:
            status = one.status
            if status is None or status.replicas or rollout.size(one):
                continue
            if (status.observedGeneration or 0) >= (one.metadata.generation or 0):
                await self.client.delete(REPLICA_SET, one.metadata.name, one.metadata.namespace, uid=one.metadata.uid)

    async def _report(self, current: _Sync) -> None:
        deployment, now = current.deployment, whole_seconds(self.clock.now())
        status = calculate_status(deployment, current.new, current.old, now)
        if deployment.metadata.deletionTimestamp is None and not deployment.spec.paused:
            status = with_progress(deployment, status, current.new, current.old, now)
        known = self._owners.get(key_of(deployment))
        if known is not None and status != known.status:
            await self.write_status(self._owners, deployment, status)
        wait = seconds_until_timeout(deployment, status, now)
        if wait is not None:
            self.queue.add_after(key_of(deployment), wait)

    def _old_pods_run(self, old: Sequence[ReplicaSet]) -> bool:
        if any(one.status is not None and one.status.replicas for one in old):
            return True
        left = (pod for one in old for pod in self._pods_by_controller.get(one.metadata.uid))
        return not all(pods.is_finished(pod) for pod in left)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue the Deployment of a deleted pod: Recreate may have waited for it."""
        if old is None or new is not None:
            return
        reference = controller_of(old)
        if reference is not None and reference.kind == REPLICA_SET.kind:
            owner = self._dependents.get(f"{old.metadata.namespace}/{reference.name}")
            if owner is not None:
                self._dependent_changed(None, owner)


def new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet], digest: str) -> ReplicaSet:
    """The ReplicaSet for the Deployment's current template."""
    template = deployment.spec.template
    labels = {**((template.metadata.labels if template.metadata else None) or {}), POD_TEMPLATE_HASH: digest}
    template_metadata = msgspec.structs.replace(template.metadata or ObjectMeta(), labels=labels)
    selector = deployment.spec.selector
    match_labels = {**(selector.matchLabels or {}), POD_TEMPLATE_HASH: digest}
    replica_set = ReplicaSet(
        metadata=Metadata(
            name=f"{deployment.metadata.name[: 253 - 1 - len(digest)]}-{digest}",
            labels=labels,
            ownerReferences=[controller_reference(DEPLOYMENT, deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=rollout.new_replicas(deployment, old, 0),
            minReadySeconds=deployment.spec.minReadySeconds,
            selector=msgspec.structs.replace(selector, matchLabels=match_labels),
            template=msgspec.structs.replace(template, metadata=template_metadata),
        ),
    )
    replica_set.metadata.annotations = {
        **inherited_annotations(deployment, replica_set, old),
        **size_annotations(deployment),
    }
    return replica_set


def inherited_annotations(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, str]:
    """The new ReplicaSet's annotations: those of its Deployment, and a revision that is one above the old ones.

    After a rollback, the ReplicaSet gets a new revision and keeps its former revisions as its history.
    """
    own = deployment.metadata.annotations or {}
    annotations = {key: value for key, value in own.items() if key not in OWN_ANNOTATIONS}
    had, due = rollout.revision(new), max(map(rollout.revision, old), default=0) + 1
    if had < due:
        annotations[REVISION] = str(due)
        if had:
            history = (new.metadata.annotations or {}).get(rollout.REVISION_HISTORY)
            annotations[rollout.REVISION_HISTORY] = f"{history},{had}" if history else str(had)
    return annotations


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The annotations that distinguish a later scaling from a rollout."""
    replicas = rollout.wanted(deployment)
    return {
        rollout.DESIRED_REPLICAS: str(replicas),
        rollout.MAX_REPLICAS: str(replicas + rollout.max_surge(deployment)),
    }
