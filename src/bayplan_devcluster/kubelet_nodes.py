"""The nodes of simulated kubelets: their resources, and the heartbeats that keep them Ready.

Mirrors pkg/kubelet/nodestatus and component-helpers' lease controller.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from lightkube.models import core_v1
from lightkube.models.core_v1 import (
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import LEASE, NODE
from bayplan.core.api.requests import is_extended
from bayplan.core.api.served import Node
from bayplan.core.api.times import micro_time, whole_seconds
from bayplan.core.versions import RELEASES, Version
from bayplan.running.client.client import PatchType
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import latest
from bayplan_devcluster.controllers.node_lifecycle import NODE_LEASES

SIMULATED = "bayplan.dev/kubelet"
"""The label of nodes registered by simulated kubelets; its value is "simulated"."""
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

RENEWALS_PER_SECOND = 20.0
"""The maximum rate of lease renewals for all nodes together, per second of real time."""
SHORTEST_RENEWAL = 10.0
STATUS_EVERY = 300.0
"""Seconds of real time between two updates of an unchanged status, unless renewals are rarer.

Each update is a new version of the Node and conflicts with updates by clients. Leases show that the kubelet is alive.
"""

_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The resources of a simulated node."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"
    ephemeral_storage: str = "100Gi"
    extended: Mapping[str, str] = field(default_factory=dict)
    """Other resources by name."""
    instance_type: str = "simulated"

    @property
    def capacity(self) -> dict[str, str]:
        """All resources by name."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
            **self.extended,
        }


def name_of(node: core_v1.Node) -> str:
    """The name of a node that isn't registered yet."""
    return (node.metadata.name if node.metadata else None) or ""


def make_nodes(count: int, shape: NodeShape | None = None, *, zones: int = 3) -> list[core_v1.Node]:
    """`count` nodes in alternating zones: node-0 in zone-a, node-1 in zone-b and so on."""
    names = [f"zone-{_letters(number)}" for number in range(max(zones, 1))]
    return [make_node(f"node-{number}", shape, zone=names[number % len(names)]) for number in range(count)]


def make_node(
    name: str,
    shape: NodeShape | None = None,
    *,
    zone: str = "zone-a",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
) -> core_v1.Node:
    """A node as its kubelet registers it, still without an address and conditions."""
    shape = shape or NodeShape()
    return core_v1.Node(
        metadata=ObjectMeta(
            name=name,
            labels={
                **default_labels(name),
                "node.kubernetes.io/instance-type": shape.instance_type,
                ZONE: zone,
                REGION: "region-1",
                SIMULATED: "simulated",
                **(labels or {}),
            },
        ),
        spec=NodeSpec(taints=list(taints) or None, unschedulable=unschedulable or None),
        status=NodeStatus(capacity=shape.capacity, allocatable=shape.capacity),
    )


def default_labels(name: str) -> dict[str, str]:
    """The labels that a kubelet sets on its node, also if another client created it."""
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


class NodeManager(Controller):
    """Registers nodes, and renews the leases and statuses of the nodes that it serves."""

    name: ClassVar[str] = "kubelet"
    workers: ClassVar[int] = 8

    def __init__(
        self,
        context: ControllerContext,
        nodes: Sequence[core_v1.Node],
        serves: Callable[[Node], bool],
        *,
        rate: float,
        version: Version,
    ) -> None:
        super().__init__(context)
        self._to_register = {name_of(node): node for node in nodes}
        self._planned = len(nodes)
        self._serves = serves
        self._rate = rate
        self._release = RELEASES[version]
        self._addresses: dict[str, str] = {}
        self._posted: dict[str, datetime] = {}
        """The time of each node's last status update, by uid."""
        self._renewed: dict[str, datetime] = {}
        """The time of each node's last lease renewal, by uid."""
        self._silent: set[str] = set()
        self._nodes = self.watch(NODE, self._node_changed)
        for name in self._to_register:
            self.queue.add(name)

    @property
    def renewal(self) -> float:
        """Seconds between two renewals of one node's lease: more with many nodes or a fast clock."""
        return max(SHORTEST_RENEWAL, max(self._planned, len(self._renewed)) * self._rate / RENEWALS_PER_SECOND)

    def address(self, node: str) -> str:
        """The address of a node."""
        if node not in self._addresses:
            number = len(self._addresses) + 1
            self._addresses[node] = f"10.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"
        return self._addresses[node]

    def is_silent(self, node: str) -> bool:
        """Whether the node's kubelet is silenced."""
        return node in self._silent

    def silence(self, node: str) -> None:
        """Stop the node's kubelet, as after a crash."""
        self._silent.add(node)

    def revive(self, node: str) -> None:
        """Restart the node's kubelet."""
        self._silent.discard(node)
        for signs in (self._posted, self._renewed):
            signs.pop(self._uid(node), None)
        self.queue.add(node)

    async def sync(self, key: str) -> None:
        """Renew one node's lease and status if they are due."""
        if key in self._to_register:
            await self._register(key, self._to_register[key])
            del self._to_register[key]
            return
        node: Node | None = self._nodes.get(key)
        if node is None or key in self._silent or not self._serves(node):
            return
        await self._complete_labels(node)
        await self._post_status(node)
        await self._renew_lease(node)
        # Start at a random time, so that the renewals of many nodes spread out.
        self.queue.add_after(key, self.renewal * random.uniform(0.5, 1.0))

    async def _register(self, name: str, node: core_v1.Node) -> None:
        now = whole_seconds(self.clock.now())
        status = healthy_status(node, self.address(name), now, self._release)
        try:
            written = await self.client.create(
                NODE, core_v1.Node(metadata=node.metadata, spec=node.spec, status=status)
            )
        except ApiError as error:
            if error.status != 409:  # registered by an earlier run
                raise
            self.queue.add(name)
            return
        self._posted[written.metadata.uid] = now
        # At once, as the node lifecycle controller reads from the lease how long a node may be silent.
        await self._renew_lease(written)

    async def _complete_labels(self, node: Node) -> None:
        labels = node.metadata.labels or {}
        missing = {name: value for name, value in default_labels(node.metadata.name).items() if name not in labels}
        if missing:
            patch = {"metadata": {"uid": node.metadata.uid, "labels": missing}}
            await self.client.patch(NODE, node.metadata.name, patch, type=PatchType.MERGE)

    async def _post_status(self, node: Node) -> None:
        now = whole_seconds(self.clock.now())
        posted = self._posted.get(node.metadata.uid)
        due = posted is None or now >= posted + timedelta(seconds=max(STATUS_EVERY * self._rate, self.renewal))
        if not due and is_current(node):
            return
        status = healthy_status(node, self.address(node.metadata.name), now, self._release)
        patch = {"metadata": {"uid": node.metadata.uid}, "status": status}
        await self.client.patch(NODE, node.metadata.name, patch, type=PatchType.STRATEGIC, subresource="status")
        self._posted[node.metadata.uid] = now

    async def _renew_lease(self, node: Node) -> None:
        metadata, now = node.metadata, self.clock.now()
        renewed = self._renewed.get(metadata.uid)
        if renewed is not None and now < renewed + timedelta(seconds=self.renewal / 2):
            return
        spec = {
            "holderIdentity": metadata.name,
            "leaseDurationSeconds": int(max(4 * self.renewal, 40)),
            "renewTime": micro_time(now),
        }
        try:
            if renewed is not None:
                await self.client.patch(LEASE, metadata.name, {"spec": spec}, NODE_LEASES, type=PatchType.MERGE)
            else:
                owner = {"apiVersion": "v1", "kind": "Node", "name": metadata.name, "uid": metadata.uid}
                lease = {"metadata": {"name": metadata.name, "ownerReferences": [owner]}, "spec": spec}
                await self.client.create(LEASE, lease, NODE_LEASES)
        except ApiError as error:
            if error.status == 404:  # deleted by another client: the next sync creates a new one
                self._renewed.pop(metadata.uid, None)
            if error.reason != "AlreadyExists":  # left by an earlier run: the next sync renews it
                raise
        self._renewed[metadata.uid] = now

    def _uid(self, node: str) -> str:
        known = self._nodes.get(node)
        return known.metadata.uid if known is not None else ""

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            uid = latest(old, new).metadata.uid
            self._posted.pop(uid, None)
            self._renewed.pop(uid, None)
        elif self._serves(new) and (old is None or not is_current(new)):
            self.queue.add(new.metadata.name)


def healthy_status(node: core_v1.Node, address: str, now: datetime, release: str) -> NodeStatus:
    """The status of a healthy node with a kubelet of a release. Existing capacity is kept."""
    stated = node.status or NodeStatus()
    capacity = stated.capacity or stated.allocatable or NodeShape().capacity
    known = {one.type: one for one in stated.conditions or ()}
    conditions = []
    for type_, (status, reason, message) in _HEALTHY.items():
        before = known.get(type_)
        conditions.append(
            NodeCondition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                lastHeartbeatTime=now,
                lastTransitionTime=before.lastTransitionTime if before and before.status == status else now,
            )
        )
    return NodeStatus(
        capacity=capacity,
        allocatable={**(stated.allocatable or capacity), **_extended_changes(stated)},
        conditions=conditions,
        addresses=[
            NodeAddress(type="InternalIP", address=address),
            NodeAddress(type="Hostname", address=name_of(node)),
        ],
        daemonEndpoints=NodeDaemonEndpoints(kubeletEndpoint=core_v1.DaemonEndpoint(Port=10250)),
        images=stated.images,
        nodeInfo=_node_info(node, release),
    )


def _extended_changes(status: NodeStatus) -> dict[str, str | None]:
    """How the allocatable extended resources have to change to follow the capacity; None for a removal.

    Clients may write the capacity. Mirrors MachineInfo in pkg/kubelet/nodestatus/setters.go.
    """
    capacity, allocatable = status.capacity or {}, status.allocatable or {}
    if not capacity:
        return {}
    added = {name: amount for name, amount in capacity.items() if is_extended(name) and name not in allocatable}
    return {**added, **{name: None for name in allocatable if is_extended(name) and name not in capacity}}


def is_current(node: Node) -> bool:
    """Whether the node's status needs no update by its kubelet, except from time to time."""
    return is_healthy(node) and not _extended_changes(node.status or NodeStatus())


def is_healthy(node: Node) -> bool:
    """Whether the node's conditions are those of a healthy node."""
    conditions: Iterable[Any] = (node.status.conditions if node.status else None) or ()
    statuses = {one.type: one.status for one in conditions}
    return all(statuses.get(type_) == status for type_, (status, _, _) in _HEALTHY.items())


def _node_info(node: core_v1.Node, release: str) -> NodeSystemInfo:
    labels, name = (node.metadata.labels if node.metadata else None) or {}, name_of(node)
    return NodeSystemInfo(
        architecture=labels.get("kubernetes.io/arch", "amd64"),
        bootID=f"simulated-{name}",
        containerRuntimeVersion="simulated://1.0",
        kernelVersion="6.12.0",
        kubeProxyVersion="",
        kubeletVersion=release,
        machineID=f"simulated-{name}",
        operatingSystem=labels.get("kubernetes.io/os", "linux"),
        osImage="Simulated Linux",
        systemUUID=f"simulated-{name}",
    )


def _letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = ""
    number += 1
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
