"""VolumeRestrictions: filters out nodes by disks that are mounted there already, and by claims in exclusive use.

A ReadWriteOncePod claim in use rejects all nodes; a pod of lower priority that uses it may be evicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from lightkube.models.core_v1 import PersistentVolumeClaim, RBDVolumeSource, Volume

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM
from bayplan.core.api.volumes import READ_WRITE_ONCE_POD
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import OWN_CLAIM, after_claim_change
from bayplan.core.framework.interface import CycleState, OnlyNow
from bayplan.core.framework.missing_volumes import MissingVolumes
from bayplan.core.framework.remedies import Details, delete_pods
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections

DISK_CONFLICT = Status.unschedulable("node(s) had no available disk")
CLAIM_CONFLICT = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(slots=True)
class _Exclusive:
    """The pod's ReadWriteOncePod claims, by name, and how often other pods use them."""

    claims: frozenset[str]
    used: int

    def clone(self) -> _Exclusive:
        return _Exclusive(self.claims, self.used)

    def count(self, other: PodInfo, by: int) -> None:
        """Count a pod that a what-if adds (`by` 1) or removes (-1). As upstream, its namespace is ignored."""
        self.used += by * sum(name in self.claims for name in _claim_names(other.volumes))


class VolumeRestrictions(OnlyPlaces):
    """Mirrors plugins/volumerestrictions/volume_restrictions.go."""

    name = "VolumeRestrictions"

    def __init__(self, handle: Handle) -> None:
        self._missing = MissingVolumes(handle)
        self._handle = handle
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Reject a pod with a missing claim. Skip a pod without disks and without claims in exclusive use."""
        if not pod.volumes:
            return SKIP
        exclusive = self._exclusive(pod)
        if isinstance(exclusive, Status):
            return exclusive
        used = self._used(exclusive, pod, nodes)
        if not used and not _disks(pod.volumes):
            return SKIP
        cycle.data[self.name] = _Exclusive(exclusive, used)
        return None

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count the claims of a hypothetical pod."""
        cycle.data[self.name].count(added, 1)

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Stop counting the claims of a pod that is hypothetically gone."""
        cycle.data[self.name].count(removed, -1)

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with conflicting disks, and all nodes if a claim is in exclusive use."""
        used = cycle.data[self.name].used > 0
        index = np.full(len(nodes), 2 if used else 0, dtype=np.int32)
        disks = _disks(pod.volumes)
        if disks:
            for position, others in nodes.pods_with_volumes():
                if any(_clash(disks, other.volumes) for other in others):
                    index[position] = 1
        return Rejections(index, (DISK_CONFLICT, CLAIM_CONFLICT))

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """Which pods use the pod's claims or disks."""
        exclusive = self._exclusive(pod)
        if isinstance(exclusive, Status):
            return Details(remedies=self._missing.remedies(pod))
        if node is None:
            return None
        in_use = [
            (f"claim {name} (ReadWriteOncePod)", user)
            for name in sorted(exclusive)
            for user in node.among.table.volumes.users(f"{pod.namespace}/{name}")
        ]
        disks = _disks(pod.volumes)
        if not in_use:
            in_use = [
                (f"volume {disk.name}", other)
                for disk in disks
                for other in node.pods
                if other.volumes and _clash([disk], other.volumes)
            ]
        where = {user.key: f" on {user.node_name}" if user.node_name else "" for _, user in in_use}
        text = "; ".join(f"{what} is used by pod {user.key}{where[user.key]}" for what, user in in_use)
        return Details(text, delete_pods(pod, (user for _, user in in_use)))

    def events(self) -> Iterable[EventHint]:
        """Register deletions of pods, new nodes, and new claims."""
        yield EventHint(ClusterEvent(POD, Action.DELETE), self.after_pod_delete, _SHARED)
        yield EventHint(ClusterEvent(NODE, Action.ADD))
        yield EventHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, Action.ADD), after_claim_change, OWN_CLAIM)

    def after_pod_delete(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        """Requeue for a pod that used one of the disks or claims."""
        if old.namespace != pod.namespace:
            return Hint.SKIP
        shares = not set(_claim_names(old.volumes)).isdisjoint(_claim_names(pod.volumes))
        return Hint.QUEUE if shares or _clash(_disks(pod.volumes), old.volumes) else Hint.SKIP

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: what matters are the claims, which `rests_on` finds."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Nothing, for pods without disks and exclusive claims in use. An unused one won't stay so."""
        if not pod.volumes:
            return ()
        exclusive = self._exclusive(pod)
        if isinstance(exclusive, Status) or _disks(pod.volumes) or self._used(exclusive, pod, nodes):
            return None
        return OnlyNow(()) if exclusive else ()

    def _exclusive(self, pod: PodInfo) -> frozenset[str] | Status:
        """Return the pod's ReadWriteOncePod claims, by name."""
        exclusive = set()
        for name in _claim_names(pod.volumes):
            claim: PersistentVolumeClaim | None = self._claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in ((claim.spec.accessModes if claim.spec else None) or ()):
                exclusive.add(name)
        return frozenset(exclusive)

    def _used(self, claims: frozenset[str], pod: PodInfo, nodes: Nodes) -> int:
        """Return how many of the pod's claims are used by pods on nodes."""
        table = nodes.table
        return sum(table.volumes.claimed(f"{pod.namespace}/{name}", table.live) for name in claims)


def _claim_names(volumes: Iterable[Volume]) -> list[str]:
    return [volume.persistentVolumeClaim.claimName for volume in volumes if volume.persistentVolumeClaim is not None]


def _disks(volumes: Iterable[Volume]) -> list[Volume]:
    """Return the volumes that a node may be unable to mount for two pods."""
    return [
        volume
        for volume in volumes
        if volume.gcePersistentDisk is not None
        or volume.awsElasticBlockStore is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    ]


def _shareable(pod: PodInfo) -> list[Hashable]:
    """The claims of a pod, and whether it has disks: topics of pods in the same namespace."""
    claims: list[Hashable] = [(pod.namespace, name) for name in _claim_names(pod.volumes)]
    return [*claims, pod.namespace] if _disks(pod.volumes) else claims


_SHARED = Topics(_shareable, lambda old, _new: _shareable(old))


def _clash(disks: Sequence[Volume], others: Sequence[Volume]) -> bool:
    return any(_same_disk(disk, other) for disk in disks for other in others)


def _same_disk(one: Volume, other: Volume) -> bool:
    """Whether two pods on one node cannot use these volumes. Mirrors isVolumeConflict."""
    gce, gce_there = one.gcePersistentDisk, other.gcePersistentDisk
    aws, aws_there = one.awsElasticBlockStore, other.awsElasticBlockStore
    iscsi, iscsi_there = one.iscsi, other.iscsi
    rbd, rbd_there = one.rbd, other.rbd
    return (
        (gce and gce_there and gce.pdName == gce_there.pdName and not (gce.readOnly and gce_there.readOnly))
        # Not even read-only.
        or (aws and aws_there and aws.volumeID == aws_there.volumeID)
        or (iscsi and iscsi_there and iscsi.iqn == iscsi_there.iqn and not (iscsi.readOnly and iscsi_there.readOnly))
        or (rbd and rbd_there and _same_image(rbd, rbd_there) and not (rbd.readOnly and rbd_there.readOnly))
        or False
    )


def _same_image(one: RBDVolumeSource, other: RBDVolumeSource) -> bool:
    return (
        not set(one.monitors or ()).isdisjoint(other.monitors or ())
        and (one.pool or "") == (other.pool or "")
        and one.image == other.image
    )
