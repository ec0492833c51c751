"""Counts the devices of nodes that back extended resources. Scores use them if a node has no such resource itself.

Mirrors calculateDRAExtendedResourceAllocatableRequest (plugins/noderesources/resource_allocation.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from lightkube.models.resource_v1 import DeviceClass

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.cluster.columns import Bool, Int64
from bayplan.cluster.node_selection import match_selector
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.devices.allocations import ClaimAllocations
from bayplan.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selectors
from bayplan.devices.classes import ExtendedResources
from bayplan.devices.slices import DeviceId, DeviceSlices, Place, Slice, SliceDevice
from bayplan.framework.handle import Handle

_EVERYWHERE = Place(None, True, None)


class _Group(NamedTuple):
    """The devices of a class in one place. `failed`: a selector could not be evaluated, so no devices count there."""

    place: Place
    devices: tuple[DeviceId, ...]
    failed: bool = False


class DeviceCounts:
    """Counts the devices of the class that backs an extended resource, and how many of them are allocated.

    As upstream, the devices of outdated and incomplete pools count too, and so do devices that are used as a part of
    others. Expressions do not see whether a device can be shared.
    """

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.objects(DEVICE_CLASS).view(ExtendedResources)
        self._slices = handle.objects(RESOURCE_SLICE).view(DeviceSlices)
        self._allocations = handle.objects(RESOURCE_CLAIM).view(ClaimAllocations)
        self._selectors = Selectors()
        self._groups: dict[tuple[tuple[str, ...], str], list[_Group]] = {}
        """By the expressions of a class and the name of a slice."""
        self._slices.listen(self._forget)

    def back(self, resource: str) -> bool:
        """Return whether a device class backs the resource."""
        return self._classes.class_of(resource) is not None

    def back_any(self, request: Mapping[str, int]) -> bool:
        """Return whether a device class backs any of the requested resources."""
        return bool(self._classes.provided(request))

    def of_all(self, resource: str, nodes: Nodes) -> tuple[Int64, Int64]:
        """Return the number of devices of each node, and how many are allocated: int64, shape (len(nodes),)."""
        total, allocated = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
        failed = np.zeros(len(nodes), dtype=np.bool_)
        for group in self._groups_of(resource):
            where = _where(group.place, nodes)
            if where is not None:
                total[where] += len(group.devices)
                allocated[where] += self._allocated(group)
                failed[where] |= group.failed
        total[failed] = allocated[failed] = 0
        return total, allocated

    def of_one(self, resource: str, node: NodeInfo) -> tuple[int, int]:
        """Return the number of devices of one node, and how many are allocated."""
        groups = [group for group in self._groups_of(resource) if group.place.includes(node.name, node.labels)]
        if any(group.failed for group in groups):
            return 0, 0
        return sum(len(group.devices) for group in groups), sum(map(self._allocated, groups))

    def _allocated(self, group: _Group) -> int:
        taken = self._allocations.taken()
        return sum(map(taken.includes, group.devices))

    def _groups_of(self, resource: str) -> Iterable[_Group]:
        device_class = self._classes.class_of(resource)
        if device_class is None:
            return
        self._slices.refresh()
        expressions = _expressions(device_class)
        for pool in self._slices.by_pool.values():
            for each in pool.values():
                groups = self._groups.get((expressions, each.name))
                if groups is None:
                    groups = self._groups[expressions, each.name] = list(self._evaluate(each, expressions))
                yield from groups

    def _evaluate(self, each: Slice, expressions: tuple[str, ...]) -> Iterable[_Group]:
        if not each.per_device:
            yield self._group(each.place, each.devices, expressions)
            return
        for device in each.devices:
            yield self._group(device.place, [device], expressions)

    def _group(self, place: Place, devices: Iterable[SliceDevice], expressions: tuple[str, ...]) -> _Group:
        if place.selector is not None and place.selector.errors:
            return _Group(_EVERYWHERE, (), failed=True)
        try:
            return _Group(place, tuple(device.id for device in devices if self._selects(expressions, device)))
        except (CompileError, RuntimeFailure):
            return _Group(place, (), failed=True)

    def _selects(self, expressions: tuple[str, ...], device: SliceDevice) -> bool:
        facts = DeviceFacts.of(device.id.driver, False, device.spec.attributes, device.spec.capacity)
        return all(self._selectors.matches(each, facts) for each in expressions)

    def _forget(self, changed: Slice) -> None:
        for key in [key for key in self._groups if key[1] == changed.name]:
            del self._groups[key]


def _expressions(device_class: DeviceClass) -> tuple[str, ...]:
    selectors = device_class.spec.selectors or ()
    return tuple(each.cel.expression for each in selectors if each.cel is not None)


def _where(place: Place, nodes: Nodes) -> Bool | slice | int | None:
    """Return an index of the nodes that are in a place; None if there are none."""
    if place.node_name:
        return nodes.position(place.node_name)
    if place.all_nodes:
        return slice(None)
    return match_selector(place.selector, nodes) if place.selector is not None else None
