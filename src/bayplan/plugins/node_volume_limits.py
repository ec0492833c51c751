"""NodeVolumeLimits: a node attaches so many volumes of a CSI driver, and not more."""

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
"""Volumes by driver and handle, each once."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the CSINodes say, one a row of the table.

    `known`: whether the node has one. `limited`: whether any driver has a limit there. `by_driver`: how many volumes
    the node attaches, NO_LIMIT where the driver has none.
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
        """Skip a pod without volumes that could count."""
        return None if any(map(_may_count, pod.volumes)) else SKIP

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Count the new volumes of each driver, and on nodes with limits those that are there."""
        limits = self._limits_of(nodes)
        known = limits.known[nodes.rows]
        index = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status] = [TOO_MANY]
        # Whether volumes of former plugins count as those of their drivers depends on the node having a CSINode.
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
        """Limits may rise, and volumes be detached."""
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.ADD))
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.UPDATE), self.after_csi_node_update)
        yield EventHint(ClusterEvent(POD, Action.DELETE), self.after_pod_delete)
        yield EventHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, Action.ADD), self.after_claim_add)
        yield EventHint(ClusterEvent(VOLUME_ATTACHMENT.kind, Action.DELETE), self.after_detach)

    def after_csi_node_update(self, pod: PodInfo, old: CSINode, new: CSINode) -> Hint:
        """A limit that rose helps."""
        before = _driver_limits(old)
        return (
            Hint.QUEUE if any(limit > before.get(name, 0) for name, limit in _driver_limits(new).items()) else Hint.SKIP
        )

    def after_pod_delete(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        """A pod with volumes, on a node or nominated to one, helps."""
        placed = old.node_name or old.nominated_node_name
        return Hint.QUEUE if placed and any(map(_may_count, old.volumes)) else Hint.SKIP

    def after_claim_add(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        """A claim of the pod helps."""
        metadata = new.metadata
        if metadata is None or metadata.namespace != pod.namespace:
            return Hint.SKIP
        return Hint.QUEUE if metadata.name in {claim_name(pod.name, each) for each in pod.volumes} else Hint.SKIP

    def after_detach(self, pod: PodInfo, old: VolumeAttachment, new: VolumeAttachment | None) -> Hint:
        """A volume of a claim, or of the driver of one of the pod's disks, helps."""
        for volume in pod.volumes:
            if volume.persistentVolumeClaim is not None:
                return Hint.QUEUE
            plugin = in_tree_plugin(volume)
            if plugin is not None and old.spec.attacher == plugin.driver:
                return Hint.QUEUE
        return Hint.SKIP

    def sign(self, pod: PodInfo) -> Hashable:
        """Which volumes are attached changes with every pod that has some, so that pods with volumes stay apart."""
        return None if pod.volumes else ()

    # What a pod brings

    def _new_volumes(self, pod: PodInfo, *, migrated: bool) -> _Attached | Status:
        """The volumes of the pod that is to be placed, or why they cannot be told."""
        volumes: dict[tuple[str, str], None] = {}
        for volume in pod.volumes:
            found = self._attachable(pod, volume, migrated=migrated)
            if isinstance(found, Status):
                return found
            if found is not None:
                volumes[found] = None
        return volumes

    def _volumes_of(self, others: Iterable[PodInfo]) -> _Attached | Status:
        """The volumes of pods on a node with a CSINode. Claims that are gone do not count."""
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
        """Driver and handle of a volume; None for one that does not count. Mirrors filterAttachableVolumes."""
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
        """A volume that is not there yet counts as one of its class's driver, once a claim."""
        storage_class = self._classes.get(class_of_claim(claim))
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        plugin = BY_NAME.get(driver)
        if plugin is not None:
            if not plugin.migrated or not migrated:
                return None
            driver = plugin.driver
        return (driver, f"\0{key}") if driver else None  # no handle begins like this

    # What is on nodes

    def _count(self, wanted: _Attached, limits: _Limits, nodes: Nodes, index: Int32, statuses: list[Status]) -> None:
        by_driver = Counter(driver for driver, _ in wanted)
        rooms = {driver: limits.by_driver[driver][nodes.rows] for driver in by_driver if driver in limits.by_driver}
        for driver, room in rooms.items():
            index[by_driver[driver] > room] = 1
        slack = np.full(len(nodes), NO_LIMIT, dtype=np.int64)
        for driver, room in rooms.items():
            np.minimum(slack, room - by_driver[driver], out=slack)
        attachments = self._attachments_by_node()
        for position, others in self._occupied(nodes, attachments, limits.limited[nodes.rows]):
            there = attachments.get(nodes.name(position), ()) if attachments else ()
            if _at_most(others) + len(there) <= slack[position]:
                continue  # whatever driver they are of
            attached = self._volumes_of(others)
            if isinstance(attached, Status):
                statuses.append(attached)
                index[position] = len(statuses)
                continue
            present = Counter(driver for driver, _ in attached)
            present.update(driver for driver, _ in self._attached_by(there).keys() - attached.keys())
            new = Counter(driver for driver, _ in wanted.keys() - attached.keys())
            over = any(
                present[driver] + count > rooms[driver][position] for driver, count in new.items() if driver in rooms
            )
            index[position] = int(over)

    def _occupied(
        self, nodes: Nodes, attachments: Mapping[str, list[VolumeAttachment]], limited: Bool
    ) -> Iterable[tuple[int, Sequence[PodInfo]]]:
        """The nodes with limits on which volumes are, or pods with volumes."""
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
    """How many volumes pods can have; more than NO_LIMIT where one is not of a claim, for that may be an error."""
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
