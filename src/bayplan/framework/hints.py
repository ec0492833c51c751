"""Queueing hints that several plugins share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightkube.models.core_v1 import Node, PersistentVolumeClaim

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import Hint


def after_own_update(pod: PodInfo, _old: PodInfo | None, new: PodInfo) -> Hint:
    """Requeue the pod that was updated, and no other."""
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP


def after_claim_change(pod: PodInfo, _old: Any, new: PersistentVolumeClaim) -> Hint:
    """Requeue the pods with a volume that names the claim. Claims of ephemeral volumes are ignored."""
    if new.metadata is None or new.metadata.namespace != pod.namespace:
        return Hint.SKIP
    claims = (volume.persistentVolumeClaim for volume in pod.volumes)
    used = any(claim is not None and claim.claimName == new.metadata.name for claim in claims)
    return Hint.QUEUE if used else Hint.SKIP


def labels_of(node: Node | None) -> Mapping[str, str]:
    """Return the labels of the node before or after an event; empty if there is no such node."""
    return (node.metadata.labels if node is not None and node.metadata else None) or {}
