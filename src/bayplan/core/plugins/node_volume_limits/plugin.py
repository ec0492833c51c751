"""NodeVolumeLimits: filters out nodes that cannot attach more volumes of a CSI driver.

Attached volumes are columns by driver (`attached.py`), kept up to date as pods and claims change; a volume that several
pods use counts once per node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from lightkube.models.core_v1 import PersistentVolumeClaim
from lightkube.models.storage_v1 import CSINode, VolumeAttachment

from bayplan.core.api.csi_translation import in_tree_plugin
from bayplan.core.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from bayplan.core.api.volumes import claim_name
from bayplan.core.cluster.columns import Bool, Int32
from bayplan.core.cluster.csi_nodes import CsiNodes
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import POD, Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import OWN_CLAIM
from bayplan.core.framework.interface import CycleState, OnlyNow
from bayplan.core.framework.missing_volumes import MissingVolumes
from bayplan.core.framework.remedies import Details, delete_pods
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.node_volume_limits.attached import AttachedVolumes
from bayplan.core.plugins.node_volume_limits.required_drivers import RequiredDrivers
from bayplan.core.plugins.node_volume_limits.volumes import (
    CsiVolumeKey,
    CsiVolumes,
    VolumeLookup,
    is_unbound,
    may_count,
)
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

TOO_MANY = Status.unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(OnlyPlaces):
    """Mirrors plugins/nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def __init__(self, handle: Handle, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._missing = MissingVolumes(handle)
        self._handle = handle
        claims, volumes = handle.objects(PERSISTENT_VOLUME_CLAIM), handle.objects(PERSISTENT_VOLUME)
        classes, attachments = handle.objects(STORAGE_CLASS), handle.objects(VOLUME_ATTACHMENT)
        self._drivers = (
            handle.objects(CSI_DRIVER).view(RequiredDrivers) if gates.enabled("VolumeLimitScaling") else None
        )
        self._csi_nodes = handle.objects(CSI_NODE).view(CsiNodes)
        self._pod_volumes = VolumeLookup(claims, volumes, classes)
        self._attached = AttachedVolumes(self._pod_volumes, claims, volumes, classes, attachments)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip a pod without volumes that may count, and any pod while no node has limits and no driver is required.

        A pod with volumes that can't be determined is rejected by Filter.
        """
        if not any(map(may_count, pod.volumes)):
            return SKIP
        self._csi_nodes.refresh(nodes.table)
        counts = self._csi_nodes.any_limits or (self._drivers is not None and self._drivers.names)
        return None if counts or self._pod_volumes.problem(pod) is not None else SKIP

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that lack a required driver, or on which the volumes of a driver would exceed its limit."""
        self._csi_nodes.refresh(nodes.table)
        known = self._csi_nodes.known(nodes)
        index = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status] = [TOO_MANY]
        # In-tree volumes count for their CSI drivers only on nodes with a CSINode.
        plain = {} if known.all() else self._pod_volumes.of_pending(pod, migrated=False)
        if isinstance(plain, Status):
            statuses.append(plain)
            index[~known] = len(statuses)
        else:
            self._require(plain, ~known, nodes, index, statuses)
        wanted = self._pod_volumes.of_pending(pod, migrated=True)
        if isinstance(wanted, Status):
            statuses.append(wanted)
            index[known] = len(statuses)
        elif wanted:
            self._count(wanted, nodes, index, statuses)
            self._require(wanted, known, nodes, index, statuses)
        return Rejections(index, statuses) if index.any() else None

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The drivers that attach as many volumes as they can, and the pods that use these volumes."""
        wanted = self._pod_volumes.of_pending(pod, migrated=True)
        if node is None or isinstance(wanted, Status):
            return Details(remedies=self._missing.remedies(pod))
        here, used = node.alone, {other.key: self._pod_volumes.of_placed(other) for other in node.pods if other.volumes}
        self._attached.refresh(here.table)
        parts, users = [], dict[str, PodInfo]()
        missing = self._missing_drivers(pod, wanted, here)
        if missing:
            return Details(f"{node.name} lacks {_names(missing)}, which the pod's volumes need")
        for driver in dict.fromkeys(driver for driver, _ in wanted):
            limit = int(self._csi_nodes.limit(driver, here)[0]) if self._csi_nodes.has_limits(driver) else None
            there = {key: volumes for key, volumes in used.items() if not isinstance(volumes, Status)}
            new = {volume for volume in wanted if volume[0] == driver} - {each for v in there.values() for each in v}
            attached = int(self._attached.count(driver, here)[0])
            if limit is not None and new and attached + len(new) > limit:
                holders = [key for key, volumes in there.items() if any(each[0] == driver for each in volumes)]
                users |= {other.key: other for other in node.pods if other.key in holders}
                by = f", by {_some(holders)}" if holders else ""
                room = f"driver {driver} attaches at most {limit} volumes to {node.name}"
                parts.append(f"{room}: {attached} attached{by}, and the pod needs {len(new)} more")
        remedies = (remedy for each in users.values() for remedy in delete_pods(pod, [each]))
        return Details("; ".join(parts), remedies, kind="attach slots")

    def _missing_drivers(self, pod: PodInfo, wanted: CsiVolumes, node: Nodes) -> list[str]:
        """The required drivers that a node lacks."""
        self._csi_nodes.refresh(node.table)
        if not self._csi_nodes.known(node)[0]:
            plain = self._pod_volumes.of_pending(pod, migrated=False)
            wanted = {} if isinstance(plain, Status) else plain
        return [driver for driver in self._required(wanted) if not self._csi_nodes.installed(driver, node)[0]]

    def events(self) -> Iterable[EventHint]:
        """Register higher limits, detached volumes, and new claims."""
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.ADD))
        yield EventHint(ClusterEvent(CSI_NODE.kind, Action.UPDATE), self.after_csi_node_update)
        yield EventHint(ClusterEvent(POD, Action.DELETE), self.after_pod_delete)
        yield EventHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM.kind, Action.ADD), self.after_claim_add, OWN_CLAIM)
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
        return Hint.QUEUE if placed and any(map(may_count, old.volumes)) else Hint.SKIP

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
        """Nothing: what matters are the volumes, which `rests_on` finds."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """The drivers of the volumes, if all claims are bound and no pod on a node uses one of the volumes.

        Nominated pods might use them, too. Each pod with volumes changes the attached ones, so it shares no results.
        """
        if not pod.volumes:
            return ()
        if self._handle.nominations.nodes:
            return None
        wanted = self._pod_volumes.of_pending(pod, migrated=True)
        if isinstance(wanted, Status) or any(map(is_unbound, wanted)):
            return None
        self._attached.refresh(nodes.table)
        if any(self._attached.rows_using(volume) for volume in wanted):
            return None
        required: Sequence[str] = ()
        if self._drivers is not None and self._drivers.names:
            plain = self._pod_volumes.of_pending(pod, migrated=False)
            if isinstance(plain, Status):
                return None
            required = self._required(plain)
        return OnlyNow((tuple([driver for driver, _ in wanted]), tuple(required)))

    def _require(self, wanted: CsiVolumes, where: Bool, nodes: Nodes, index: Int32, statuses: list[Status]) -> None:
        """Reject those of the nodes `where` the driver of a volume is missing, whatever else they are rejected for."""
        missing = where.copy()
        for driver in self._required(wanted):
            rejected = missing & ~self._csi_nodes.installed(driver, nodes)
            statuses.append(Status.unschedulable(f"{driver} CSI driver is not installed on the node"))
            index[rejected] = len(statuses)
            missing &= ~rejected

    def _required(self, wanted: CsiVolumes) -> list[str]:
        """The drivers of these volumes that a node must have."""
        if self._drivers is None or not self._drivers.names:
            return []
        return [driver for driver in dict.fromkeys(driver for driver, _ in wanted) if driver in self._drivers.names]

    def _count(self, wanted: CsiVolumes, nodes: Nodes, index: Int32, statuses: list[Status]) -> None:
        """Reject nodes without room for the volumes that they don't have yet, and nodes with an invalid volume."""
        attached, limits = self._attached, self._csi_nodes
        if not limits.any_limits:
            return
        attached.refresh(nodes.table)
        limited = limits.limited(nodes)
        by_driver: dict[str, list[CsiVolumeKey]] = {}
        for volume in wanted:
            if limits.has_limits(volume[0]):
                by_driver.setdefault(volume[0], []).append(volume)
        for driver, volumes in by_driver.items():
            new = np.full(len(nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                if rows := attached.rows_using(volume):
                    new -= _mask(rows, nodes)
            exceeds = attached.count(driver, nodes) + new > limits.limit(driver, nodes)
            index[exceeds & (new > 0)] = 1
        for row, error in attached.errors():
            statuses.append(error)
            index[limited & _mask((row,), nodes)] = len(statuses)
        for position, changes in nodes.changes.items():
            if limited[position] and any(pod.volumes for pod, _ in changes.signed()):
                self._count_hypothetical(wanted, nodes, position, index, statuses)

    def _count_hypothetical(
        self, wanted: CsiVolumes, nodes: Nodes, position: int, index: Int32, statuses: list[Status]
    ) -> None:
        """Decide about one node with a what-if that changes its volumes."""
        others = (pod for pod in nodes.pods(position) if pod.volumes)
        attached = self._attached.hypothetical(nodes.row(position), others)
        if attached.error is not None:
            statuses.append(attached.error)
            index[position] = len(statuses)
            return
        here = nodes.at(np.array([position]))
        new = Counter(driver for driver, _ in wanted.keys() - attached.in_use.keys())
        index[position] = any(
            attached.count[driver] + number > self._csi_nodes.limit(driver, here)[0] for driver, number in new.items()
        )


def _mask(rows: Collection[int], nodes: Nodes) -> Bool:
    """The nodes with these rows (bool, one per node)."""
    mask = np.zeros(nodes.table.size, dtype=np.bool_)
    mask[list(rows)] = True
    return mask[nodes.rows]


def _names(drivers: Sequence[str]) -> str:
    return f"the CSI driver{'s' if len(drivers) > 1 else ''} {' and '.join(drivers)}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more pods"


def _driver_limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count if driver.allocatable else None) or 0
        for driver in csi_node.spec.drivers or ()
    }
