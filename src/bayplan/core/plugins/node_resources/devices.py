"""Counts the devices of nodes that back extended resources. Scores use them if a node has no such resource itself.

Mirrors calculateDRAExtendedResourceAllocatableRequest (plugins/noderesources/resource_allocation.go).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from lightkube.models.resource_v1 import DeviceClass

from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.cel.selectors import Selectors
from bayplan.core.devices.classes import ExtendedResources, selectors_of
from bayplan.core.devices.slices import PoolId, Slice
from bayplan.core.framework.device_slices import device_slices, selectors_read_lists
from bayplan.core.framework.handle import Handle
from bayplan.core.plugins.node_resources.class_devices import ClassDevices
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.foundations.latest import LruDict

_CLASSES = 64
"""How many classes keep their counts. One takes about 100 kB for 5,000 nodes."""


class DeviceCounts:
    """Counts the devices of the class that backs an extended resource, and how many of them are allocated.

    As upstream, the devices of outdated and incomplete pools count too, and so do devices that are used as a part of
    others. Expressions do not see whether a device can be shared.
    """

    def __init__(self, handle: Handle, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._classes = handle.objects(DEVICE_CLASS).view(ExtendedResources)
        self._slices = device_slices(handle, gates)
        self._allocations = handle.objects(RESOURCE_CLAIM).view(ClaimAllocations)
        self._selectors = Selectors(lists=selectors_read_lists(gates))
        self._counts: LruDict[tuple[str, ...], ClassDevices] = LruDict(_CLASSES)
        """By the expressions of a class, the latest last."""
        self._slices.listen(self._slice_changed)
        self._allocations.listen(self._pool_changed)

    def back(self, resource: str) -> bool:
        """Return whether a device class backs the resource."""
        return self._classes.class_of(resource) is not None

    def back_any(self, request: Mapping[str, int]) -> bool:
        """Return whether a device class backs any of the requested resources."""
        return bool(self._classes.provided(request))

    def of_all(self, resource: str, nodes: Nodes) -> tuple[Int64, Int64]:
        """Return the number of devices of each node, and how many are allocated: int64, shape (len(nodes),)."""
        counts = self._counts_of(resource, nodes.table)
        if counts is None:
            return np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
        return counts.of_all(nodes)

    def of_one(self, resource: str, node: NodeInfo) -> tuple[int, int]:
        """Return the number of devices of one node, and how many are allocated."""
        counts = self._counts_of(resource)
        return (0, 0) if counts is None else counts.of_one(node)

    def _counts_of(self, resource: str, table: NodeTable | None = None) -> ClassDevices | None:
        device_class = self._classes.class_of(resource)
        if device_class is None:
            return None
        self._slices.refresh()
        self._allocations.taken()
        expressions = _expressions(device_class)
        counts = self._counts.use(expressions)
        if counts is None:
            counts = ClassDevices(expressions, self._slices, self._allocations, self._selectors)
            self._counts[expressions] = counts
        counts.refresh(table)
        return counts

    def _slice_changed(self, changed: Slice) -> None:
        for each in self._counts.values():
            each.slice_changed(changed)

    def _pool_changed(self, pool: PoolId) -> None:
        for each in self._counts.values():
            each.pool_changed(pool)


def _expressions(device_class: DeviceClass) -> tuple[str, ...]:
    return tuple(each.cel.expression for each in selectors_of(device_class) if each.cel is not None)
