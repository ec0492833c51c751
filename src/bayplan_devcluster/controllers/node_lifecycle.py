"""Detects nodes without heartbeats, and taints nodes by their conditions.

Mirrors pkg/controller/nodelifecycle/node_lifecycle_controller.go, without its zones and rate limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from lightkube.models.core_v1 import NodeCondition, NodeStatus, Taint

from bayplan.core.api.kinds import LEASE, NODE, POD
from bayplan.core.api.served import Lease, Node, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.api.tolerations import UNSCHEDULABLE_TAINT
from bayplan.core.expansion import pods
from bayplan.running.client.client import PatchType
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import latest

NODE_LEASES = "kube-node-lease"
MONITOR_GRACE = 50.0
"""Seconds without a heartbeat after which a node's state is unknown; the lease duration, if that is longer."""
STARTUP_GRACE = 60.0
"""The same for a node that never posted a status."""

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_POSTED_BY_KUBELET = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycleController(Controller):
    """Marks silent nodes as unknown and their pods as not ready, and updates the taints for the conditions."""

    name: ClassVar[str] = "node-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._alive: dict[str, datetime] = {}
        """The time of each node's last heartbeat, by this controller's clock."""
        self._nodes = self.watch(NODE, self._node_changed)
        self._leases = self.watch(LEASE, self._lease_changed)
        self._pods_by_node = self.watch(POD).index(node_names)

    async def sync(self, key: str) -> None:
        """Sync one node."""
        node: Node | None = self._nodes.get(key)
        if node is None:
            return
        silent = (self.clock.now() - self._alive.setdefault(key, self.clock.now())).total_seconds()
        grace = self._grace(node)
        if silent >= grace:
            node = await self._mark_unknown(node)
        else:
            self.queue.add_after(key, grace - silent)
        await self._taint(node)
        if _status_of(node, "Ready") not in {None, "True"}:
            await self._mark_pods(key)

    def _grace(self, node: Node) -> float:
        if _status_of(node, "Ready") is None:
            return STARTUP_GRACE
        lease: Lease | None = self._leases.get(f"{NODE_LEASES}/{node.metadata.name}")
        duration = (lease.spec.leaseDurationSeconds if lease is not None and lease.spec else None) or 0
        return max(MONITOR_GRACE, duration * 1.25)

    async def _mark_unknown(self, node: Node) -> Node:
        conditions = unknown_conditions(node, whole_seconds(self.clock.now()))
        if conditions == (node.status.conditions if node.status else None):
            return node
        status = msgspec.structs.replace(node.status or NodeStatus(), conditions=conditions)
        written: Node = await self.write_status(self._nodes, node, status)
        self.recorder.normal(NODE, node, "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady")
        return written

    async def _taint(self, node: Node) -> None:
        taints = wanted_taints(node, whole_seconds(self.clock.now()))
        if taints != list(node.spec.taints or () if node.spec else ()):
            metadata = {"resourceVersion": node.metadata.resourceVersion}
            patch = {"metadata": metadata, "spec": {"taints": taints or None}}
            written = await self.client.patch(NODE, node.metadata.name, patch, type=PatchType.MERGE)
            await self._nodes.observe([written])

    async def _mark_pods(self, node: str) -> None:
        """Mark the pods of a node that isn't ready as not ready."""
        now = whole_seconds(self.clock.now())
        for pod in self._pods_by_node.get(node):
            if not pods.is_ready(pod):
                continue
            conditions = [
                msgspec.structs.replace(one, status="False", lastTransitionTime=now) if one.type == "Ready" else one
                for one in (pod.status.conditions if pod.status else None) or ()
            ]
            metadata = pod.metadata
            patch = {"metadata": {"uid": metadata.uid}, "status": {"conditions": conditions}}
            with Ignored(404, 409):  # deleted or replaced already
                await self.client.patch(POD, metadata.name, patch, metadata.namespace, subresource="status")

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            self._alive.pop(latest(old, new).metadata.name, None)
            return
        heartbeat = _heartbeat(new)
        if old is None or (heartbeat is not None and heartbeat != _heartbeat(old)):
            self._alive[new.metadata.name] = self.clock.now()
        self.queue.add(new.metadata.name)

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        if new is not None and new.metadata.namespace == NODE_LEASES and new.metadata.name in self._alive:
            self._alive[new.metadata.name] = self.clock.now()


def node_names(pod: Pod) -> tuple[str, ...]:
    """The name of a pod's node, as index values."""
    return (pod.spec.nodeName,) if pod.spec is not None and pod.spec.nodeName else ()


def is_tainted(node: Node, key: str) -> bool:
    """Whether the node has a taint with that key."""
    return any(taint.key == key for taint in (node.spec.taints if node.spec else None) or ())


def wanted_taints(node: Node, now: datetime) -> list[Taint]:
    """The node's taints, updated for its conditions and its `unschedulable` field."""
    present = list(node.spec.taints or () if node.spec else ())
    called_for: dict[tuple[str, str], Taint] = {}
    for condition in _conditions(node):
        key = CONDITION_TAINTS.get((condition.type, condition.status))
        if key is not None:
            called_for[key, "NoSchedule"] = Taint(key=key, effect="NoSchedule")
            if condition.type == "Ready":
                called_for[key, "NoExecute"] = Taint(key=key, effect="NoExecute", timeAdded=now)
    if node.spec is not None and node.spec.unschedulable:
        called_for[UNSCHEDULABLE_TAINT, "NoSchedule"] = Taint(
            key=UNSCHEDULABLE_TAINT, effect="NoSchedule", timeAdded=now
        )
    kept = [one for one in present if not _is_ours(one) or (one.key, one.effect) in called_for]
    there = {(one.key, one.effect) for one in kept}
    return [*kept, *(taint for identity, taint in called_for.items() if identity not in there)]


def unknown_conditions(node: Node, now: datetime) -> list[NodeCondition]:
    """The conditions of a node with a silent kubelet."""
    conditions = []
    for condition in _conditions(node):
        if condition.type in _POSTED_BY_KUBELET and condition.status != "Unknown":
            changes: dict[str, Any] = {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            }
            conditions.append(msgspec.structs.replace(condition, **changes))
        else:
            conditions.append(condition)
    there = {one.type for one in conditions}
    return conditions + [
        NodeCondition(
            type=type_,
            status="Unknown",
            reason="NodeStatusNeverUpdated",
            message="Kubelet never posted node status.",
            lastHeartbeatTime=node.metadata.creationTimestamp,
            lastTransitionTime=now,
        )
        for type_ in _POSTED_BY_KUBELET
        if type_ not in there
    ]


def _is_ours(taint: Taint) -> bool:
    if taint.effect == "NoExecute":
        return taint.key in {NOT_READY, UNREACHABLE}
    return taint.effect == "NoSchedule" and (taint.key == UNSCHEDULABLE_TAINT or taint.key in CONDITION_TAINTS.values())


def _conditions(node: Node) -> Iterable[NodeCondition]:
    return (node.status.conditions if node.status else None) or ()


def _status_of(node: Node, type_: str) -> str | None:
    return next((one.status for one in _conditions(node) if one.type == type_), None)


def _heartbeat(node: Node) -> datetime | None:
    return next((one.lastHeartbeatTime for one in _conditions(node) if one.type == "Ready"), None)
