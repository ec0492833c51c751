"""NodeVolumeLimits: filters out nodes that cannot attach more volumes of a CSI driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightkube.models.core_v1 import PersistentVolumeClaim, Volume
from lightkube.models.storage_v1 import CSINode, VolumeAttachment

from bayplan.api.csi_translation import BY_NAME, Untranslatable, in_tree_plugin, translate, translate_inline
from bayplan.api.kinds import (
    CSI_NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from bayplan.api.volumes import claim_name, class_of_claim, is_controlled_by, volume_name
from bayplan.cluster.columns import Bool, Int32, Int64
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Rejections

TOO_MANY = Status.unschedulable("node(s) exceed max volume count")
NO_LIMIT = 2**62

_Attached = Mapping[tuple[str, str], None]
"""A set of volumes, as (driver, handle) keys."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """The limits of all CSINodes, by row of the node table.

    `known`: whether the node has a CSINode. `limited`: whether any driver has a limit on it. `by_driver`: the maximum
    number of attached volumes; NO_LIMIT if the driver has no limit on the node.
    """

    known: Bool
    limited: Bool
    by_driver: Mapping[str, Int64]


class NodeVolumeLimits(Plugin):
    """Mirrors plugins/nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.objects(PERSISTENT_VOLUME_CLAIM)
        self._volumes = handle.objects(PERSISTENT_VOLUME)
        self._classes = handle.objects(STORAGE_CLASS)
        self._csi_nodes = handle.objects(CSI_NODE)
        self._attachments = handle.objects(VOLUME_ATTACHMENT)
        self._limits: tuple[Hashable, _Limits] | None = None
        self._attached_to: tuple[int, Mapping[str, list[VolumeAttachment]]] | None = None

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod without volumes that may count."""
        return None if any(map(_may_count, pod.volumes)) else SKIP

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes on which the attached and the new volumes of a driver would exceed its limit."""
        limits = self._limits_of(nodes)
        known = limits.known[nodes.rows]
        index = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status] = [TOO_MANY]
        # In-tree volumes count for their CSI drivers only on nodes with a CSINode.
        if not known.all() and isinstance(plain := self._new_volumes(pod, migrated=False), Status):
            statuses.append(plain)
            index[~known] = len(statuses)
        wanted = self._new_volumes(pod, migrated=True)
        if isinstance(wanted, Status):
            statuses.append(wanted)
            index[known] = len(statuses)
        elif wanted:
            self._count(wanted, limits, nodes, index, statuses)
        return Rejections(index, statuses)

    def events(self) -> Iterable[EventHint]:
        """Register higher limits, detached volumes, and new claims."""
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.ADD))
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.UPDATE), self.after_csi_node_update)
        yield EventHint(ClusterEvent(POD, Action.DELETE), self.after_pod_delete)
        yield EventHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, Action.ADD), self.after_claim_add)
        yield EventHint(ClusterEvent(VOLUME_ATTACHMENT.kind, Action.DELETE), self.after_detach)

    def after_csi_node_update(self, pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
        """Requeue if a limit was raised."""
        before = _driver_limits(old)
        return (
            Hint.QUEUE if any(limit > before.get(name, 0) for name, limit in _driver_limits(new).items()) else Hint.SKIP
        )

    def after_pod_delete(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        """Requeue for a pod with volumes that was on a node or nominated to one."""
        placed = old.node_name or old.nominated_node_name
        return Hint.QUEUE if placed and any(map(_may_count, old.volumes)) else Hint.SKIP

    def after_claim_add(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        """Requeue the pods that use the claim, also by ephemeral volumes."""
        metadata = new.metadata
        if metadata is None or metadata.namespace != pod.namespace:
            return Hint.SKIP
        return Hint.QUEUE if metadata.name in {claim_name(pod.name, each) for each in pod.volumes} else Hint.SKIP

    def after_detach(self, pod: PodInfo, old: VolumeAttachment, new: VolumeAttachment | None) -> Hint:
        """Requeue a pod with claims, or with a disk of the attachment's driver."""
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is not None:
                return Hint.QUEUE
            plugin = in_tree_plugin(volume)
            if plugin is not None and old.spec.attacher == plugin.driver:
                return Hint.QUEUE
        return Hint.SKIP

    def sign(self, pod: PodInfo) -> Hashable:
        """Results for pods with volumes are not shared: each of these pods changes the attached volumes."""
        return None if pod.volumes else ()

    # Volumes of pods

    def _new_volumes(self, pod: PodInfo, *, migrated: bool) -> _Attached | Status:
        """Return the volumes of a pending pod, or a Status if they cannot be determined.

        `migrated`: whether in-tree volumes count for their CSI drivers.
        """
        volumes: dict[tuple[str, str], None] = {}
        for volume in pod.volumes:
            found = self._attachable(pod, volume, migrated=migrated)
            if isinstance(found, Status):
                return found
            if found is not None:
                volumes[found] = None
        return volumes

    def _volumes_of(self, others: Iterable[PodInfo]) -> _Attached | Status:
        """Return the volumes of pods on a node with a CSINode. Deleted claims are not counted."""
        volumes: dict[tuple[str, str], None] = {}
        for pod in others:
            for volume in pod.volumes:
                found = self._attachable(pod, volume, migrated=True)
                if isinstance(found, Status):
                    if found.rejected:
                        continue
                    return found
                if found is not None:
                    volumes[found] = None
        return volumes

    def _attachable(self, pod: PodInfo, volume: Volume, *, migrated: bool) -> tuple[str, str] | Status | None:
        """Return driver and handle of a volume; None if it does not count. Mirrors filterAttachableVolumes."""
        name = claim_name(pod.name, volume)
        if name is None:
            return _inline(volume) if migrated else None
        if not name:
            return Status.error("PersistentVolumeClaim had no name")
        claim: PersistentVolumeClaim | None = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            problem = f'persistentvolumeclaim "{name}" not found'
            return Status.unresolvable(f"looking up PVC {pod.namespace}/{name}: {problem}")
        if volume.persistentVolumeClaim is None and not is_controlled_by(claim, pod.uid):
            problem = f"was not created for pod {pod.key} (pod is not owner)"
            return Status.error(f"PVC {pod.namespace}/{name} {problem}")
        return self._of_claim(claim, f"{pod.namespace}/{name}", migrated=migrated)

    def _of_claim(self, claim: PersistentVolumeClaim, key: str, *, migrated: bool) -> tuple[str, str] | None:
        volume = self._volumes.get(volume_name(claim))
        if volume is None or volume.spec is None:
            return self._of_class(claim, key, migrated=migrated)
        driver, handle = "", ""
        if volume.spec.csi is not None:
            driver, handle = volume.spec.csi.driver, volume.spec.csi.volumeHandle
        elif (plugin := in_tree_plugin(volume.spec)) is not None and plugin.migrated and migrated:
            try:
                translated = translate(volume, plugin)
            except Untranslatable:
                return None
            driver, handle = translated.driver, translated.handle
        return (driver, handle) if driver and handle else None

    def _of_class(self, claim: PersistentVolumeClaim, key: str, *, migrated: bool) -> tuple[str, str] | None:
        """An unbound claim counts as one volume of the driver of its storage class."""
        storage_class = self._classes.get(class_of_claim(claim))
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        plugin = BY_NAME.get(driver)
        if plugin is not None:
            if not plugin.migrated or not migrated:
                return None
            driver = plugin.driver
        return (driver, f"\0{key}") if driver else None  # no real handle begins with a null byte

    # Volumes on nodes

    def _count(self, wanted: _Attached, limits: _Limits, nodes: Nodes, index: Int32, statuses: list[Status]) -> None:
        by_driver = Counter(driver for driver, _ in wanted)
        maxima = {driver: limits.by_driver[driver][nodes.rows] for driver in by_driver if driver in limits.by_driver}
        for driver, maximum in maxima.items():
            index[by_driver[driver] > maximum] = 1
        slack = np.full(len(nodes), NO_LIMIT, dtype=np.int64)
        for driver, maximum in maxima.items():
            np.minimum(slack, maximum - by_driver[driver], out=slack)
        attachments = self._attachments_by_node()
        for position, others in self._occupied(nodes, attachments, limits.limited[nodes.rows]):
            on_node = attachments.get(nodes.name(position), ()) if attachments else ()
            if _at_most(others) + len(on_node) <= slack[position]:
                continue  # within the limits, whatever their drivers are
            attached = self._volumes_of(others)
            if isinstance(attached, Status):
                statuses.append(attached)
                index[position] = len(statuses)
                continue
            present = Counter(driver for driver, _ in attached)
            present.update(driver for driver, _ in self._attached_by(on_node).keys() - attached.keys())
            new = Counter(driver for driver, _ in wanted.keys() - attached.keys())
            exceeds = any(
                present[driver] + count > maxima[driver][position] for driver, count in new.items() if driver in maxima
            )
            index[position] = int(exceeds)

    def _occupied(
        self, nodes: Nodes, attachments: Mapping[str, list[VolumeAttachment]], limited: Bool
    ) -> Iterable[tuple[int, Sequence[PodInfo]]]:
        """Yield the positions of nodes with limits that have attached volumes or pods with volumes, with these pods."""
        occupied: dict[int, Sequence[PodInfo]] = dict(nodes.pods_with_volumes())
        for name in attachments:
            position = nodes.position(name)
            if position is not None:
                occupied.setdefault(position, ())
        return ((position, others) for position, others in occupied.items() if limited[position])

    def _attached_by(self, attachments: Iterable[VolumeAttachment]) -> _Attached:
        attached: dict[tuple[str, str], None] = {}
        for attachment in attachments:
            volume = self._volumes.get(attachment.spec.source.persistentVolumeName or "")
            if attachment.spec.attacher and volume is not None and volume.spec and volume.spec.csi is not None:
                attached[attachment.spec.attacher, volume.spec.csi.volumeHandle] = None
        return attached

    def _attachments_by_node(self) -> Mapping[str, list[VolumeAttachment]]:
        if self._attached_to is None or self._attached_to[0] != self._attachments.version:
            by_node: dict[str, list[VolumeAttachment]] = {}
            for attachment in self._attachments.values():
                by_node.setdefault(attachment.spec.nodeName, []).append(attachment)
            self._attached_to = self._attachments.version, by_node
        return self._attached_to[1]

    def _limits_of(self, nodes: Nodes) -> _Limits:
        table = nodes.table
        key = self._csi_nodes.version, table.nodes_version, table.size
        if self._limits is None or self._limits[0] != key:
            known, limited = np.zeros(table.size, dtype=np.bool_), np.zeros(table.size, dtype=np.bool_)
            by_driver: dict[str, Int64] = {}
            for name, csi_node in self._csi_nodes.items():
                row = table.row_of.get(name)
                if row is None:
                    continue
                known[row] = True
                for driver in csi_node.spec.drivers or ():
                    if driver.allocatable is not None and driver.allocatable.count is not None:
                        column = by_driver.setdefault(driver.name, np.full(table.size, NO_LIMIT, dtype=np.int64))
                        column[row] = driver.allocatable.count
                        limited[row] = True
            self._limits = key, _Limits(known, limited, by_driver)
        return self._limits[1]


def _at_most(others: Iterable[PodInfo]) -> int:
    """Return an upper bound of the number of volumes of pods.

    It exceeds NO_LIMIT if a volume has no claim, because such a volume may result in an error.
    """
    count = 0
    for pod in others:
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is None or not volume.persistentVolumeClaim.claimName:
                return NO_LIMIT + 1
            count += 1
    return count


def _may_count(volume: Volume) -> bool:
    return (
        volume.persistentVolumeClaim is not None or volume.ephemeral is not None or in_tree_plugin(volume) is not None
    )


def _inline(volume: Volume) -> tuple[str, str] | Status | None:
    plugin = in_tree_plugin(volume)
    if plugin is None or not plugin.migrated:
        return None
    try:
        translated = translate_inline(volume, plugin)
    except Untranslatable as error:
        return Status.error(f"converting volume({volume.name}) from inline to csi: {error}")
    return translated.driver, translated.handle


def _driver_limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count if driver.allocatable else None) or 0
        for driver in csi_node.spec.drivers or ()
    }
