"""Resource slices as the allocation of devices needs them: parsed once, by node and by pool.

Mirrors k8s.io/dynamic-resource-allocation/api (the internal types), and how structured.NewAllocator sorts slices.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from lightkube.models.core_v1 import NodeSelector as NodeSelectorObject
from lightkube.models.resource_v1 import Device, DeviceTaint, ResourceSlice

from bayplan.api import quantity
from bayplan.api.selectors import NodeSelector, parse_node_selector
from bayplan.cluster.objects import ObjectStore

Counters = Mapping[str, Mapping[str, int]]
"""Nano-units by counter set and counter."""


class PoolId(NamedTuple):
    """A pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Place:
    """Where something is: on one node, on all, on those that match a selector, or nowhere that is known."""

    __slots__ = ("all_nodes", "node_name", "selector")

    def __init__(self, node_name: str | None, all_nodes: bool | None, selector: NodeSelectorObject | None) -> None:
        self.node_name = node_name or ""
        self.all_nodes = bool(all_nodes)
        self.selector: NodeSelector | None = parse_node_selector(selector) if selector is not None else None

    @property
    def known(self) -> bool:
        """Whether it says anything."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is there. Raises ValueError for a selector that cannot be read. Mirrors NodeMatches."""
        if self.node_name:
            return self.node_name == name
        if self.all_nodes:
            return True
        if self.selector is None:
            return False
        if self.selector.errors:
            raise ValueError(f"failed to parse node selector: {self.selector.errors[0]}")
        return self.selector.matches(labels, name)


class SliceDevice:
    """A device of a slice. `counters`: what it consumes of the pool's counter sets, in nano-units."""

    def __init__(self, spec: Device, parent: Slice) -> None:
        self.spec = spec
        self.parent = parent
        self.id = DeviceId(parent.pool.driver, parent.pool.pool, spec.name)
        self.allows_multiple = bool(spec.allowMultipleAllocations)
        self.taints: tuple[DeviceTaint, ...] = tuple(spec.taints or ())
        self.attributes: Mapping[str, Mapping[str, Any]] = spec.attributes or {}
        self.cache: dict[Hashable, Any] = {}
        """What plugins computed of this device, by a key of their own."""
        self.counters: Counters = {each.counterSet: _amounts(each.counters) for each in spec.consumesCounters or ()}

    @cached_property
    def place(self) -> Place:
        """Where the device is, if its slice leaves that to each device."""
        return Place(self.spec.nodeName, self.spec.allNodes, self.spec.nodeSelector)

    def attribute(self, name: str) -> Mapping[str, Any] | None:
        """An attribute by its full name, `domain/id`; those of the driver's own domain may leave that out."""
        found = self.attributes.get(name)
        if found is None:
            domain, slash, key = name.partition("/")
            if slash and domain == self.id.driver:
                found = self.attributes.get(key)
        return found


class Slice:
    """A slice of a pool: devices, or counter sets that devices of the pool share."""

    def __init__(self, obj: ResourceSlice) -> None:
        spec = obj.spec
        self.obj = obj
        self.name: str = (obj.metadata.name if obj.metadata else None) or ""
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation or 0
        self.slice_count = spec.pool.resourceSliceCount or 0
        self.per_device = bool(spec.perDeviceNodeSelection)
        self.place = Place(spec.nodeName, spec.allNodes, spec.nodeSelector)
        self.counter_sets: tuple[tuple[str, Mapping[str, int]], ...] = tuple(
            (each.name, _amounts(each.counters)) for each in spec.sharedCounters or ()
        )
        self.devices = [SliceDevice(device, self) for device in spec.devices or ()]

    def concerns(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node needs to know of the slice. Raises ValueError for a selector that cannot be read."""
        if self.counter_sets:
            return True
        if self.place.known:
            try:
                return self.place.includes(name, labels)
            except ValueError as error:
                raise ValueError(f"failed to perform node selection for slice {self.name}: {error}") from None
        if self.per_device:
            try:
                return any(device.place.includes(name, labels) for device in self.devices)
            except ValueError as error:
                raise ValueError(
                    f"failed to perform node selection for a device in slice {self.name}: {error}"
                ) from None
        return False


class DeviceSlices:
    """All slices: `by_node` are those of one node, `shared` those of several, `by_pool` all."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._version = -1
        self._slices: dict[str, Slice] = {}
        self.by_node: dict[str, list[Slice]] = {}
        self.shared: list[Slice] = []
        self.by_pool: dict[PoolId, list[Slice]] = {}

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._store.version

    def refresh(self) -> DeviceSlices:
        """Take over what changed. Slices that did not change are kept as they are. Returns itself."""
        if self._version == self._store.version:
            return self
        kept, self._slices = self._slices, {}
        self.by_node, self.shared, self.by_pool = {}, [], {}
        for key, obj in self._store.items():
            known = kept.get(key)
            each = self._slices[key] = known if known is not None and known.obj is obj else Slice(obj)
            self.by_pool.setdefault(each.pool, []).append(each)
            if not each.place.node_name or each.counter_sets:
                self.shared.append(each)
            else:
                self.by_node.setdefault(each.place.node_name, []).append(each)
        self._version = self._store.version
        return self


def _amounts(counters: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: quantity.parse(str(counter.get("value", "0"))) for name, counter in (counters or {}).items()}
