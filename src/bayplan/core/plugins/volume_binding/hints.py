"""The events that can make a rejected pod schedulable. Mirrors EventsToRegister (volume_binding.go)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lightkube.models.core_v1 import PersistentVolumeClaim
from lightkube.models.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass

from bayplan.core.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.core.api.volumes import MIGRATED_PLUGINS, annotations_of, claim_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.hints import OWN_CLAIM
from bayplan.core.plugins.volume_binding.capacity import volume_limit


def volume_events() -> Iterable[EventHint]:
    """The events with their hints."""
    added_or_updated = Action.ADD | Action.UPDATE
    yield EventHint(ClusterEvent(STORAGE_CLASS.kind, added_or_updated), after_class_change)
    yield EventHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, added_or_updated), after_claim_change, OWN_CLAIM)
    yield EventHint(ClusterEvent(PERSISTENT_VOLUME.kind, added_or_updated))
    yield EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL))
    yield EventHint(ClusterEvent(CSI_NODE.kind, added_or_updated), after_csi_node_change)
    yield EventHint(ClusterEvent(CSI_DRIVER.kind, Action.UPDATE), after_driver_update)
    yield EventHint(ClusterEvent(CSI_STORAGE_CAPACITY.kind, added_or_updated), after_capacity_change)


def after_class_change(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
    """Requeue if a class was added or its allowed topologies changed."""
    return Hint.QUEUE if old is None or (old.allowedTopologies or []) != (new.allowedTopologies or []) else Hint.SKIP


def after_claim_change(pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
    """Requeue if a claim of the pod changed."""
    metadata = new.metadata
    if metadata is None or metadata.namespace != pod.namespace:
        return Hint.SKIP
    return Hint.QUEUE if metadata.name in {claim_name(pod.name, volume) for volume in pod.volumes} else Hint.SKIP


def after_csi_node_change(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
    """Requeue if a CSINode was added or its migrated plugins changed."""
    if old is None or annotations_of(old).get(MIGRATED_PLUGINS, "") != annotations_of(new).get(MIGRATED_PLUGINS, ""):
        return Hint.QUEUE
    return Hint.SKIP


def after_driver_update(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """Requeue if a driver of the pod's inline volumes no longer publishes its capacity."""
    if not old.spec.storageCapacity or new.spec.storageCapacity:
        return Hint.SKIP
    name = new.metadata.name if new.metadata else None
    uses = any(volume.csi is not None and volume.csi.driver == name for volume in pod.spec.volumes or ())
    return Hint.QUEUE if uses else Hint.SKIP


def after_capacity_change(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:
    """Requeue if a capacity was added or its volume limit grew."""
    if old is None:
        return Hint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return Hint.QUEUE if after is not None and (before is None or after > before) else Hint.SKIP
