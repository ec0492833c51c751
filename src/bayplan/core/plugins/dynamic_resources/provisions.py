"""The resources of nodes that devices provide, and what allocations take of them.

Mirrors plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from lightkube.models.resource_v1 import DeviceRequestAllocationResult

from bayplan.core.api import quantity
from bayplan.core.api.node_allocatable import Footprint, NodeProvision, provides, provisions_of
from bayplan.core.cluster.columns import Bool, Rows
from bayplan.core.cluster.node_selection import match_selector
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.devices.slices import DeviceId, DeviceSlices, PoolId, Slice, SliceDevice, SliceNodes
from bayplan.core.plugins.dynamic_resources.solutions import Granted


class Unknown(NamedTuple):
    """What a claim takes of a node can't be told: the message, which follows the claim's key."""

    problem: str


Taking = Footprint | Unknown | None
"""What a claim takes of a node; None if that is nothing."""

Use = tuple[str, Sequence[NodeProvision] | str, Mapping[str, int] | None]
"""An allocated device: its name, what it provides or why that isn't known, and the consumed capacity in nano-units."""


class Provisions:
    """Knows the devices that provide resources of their nodes. `since_1_37`: in the form that 1.37 has."""

    def __init__(self, slices: DeviceSlices, *, since_1_37: bool) -> None:
        self._slices = slices
        self._since_1_37 = since_1_37
        self._named: dict[Hashable, dict[str, list[SliceDevice]]] = {}
        """By pool and name. As upstream, 1.36 looks only for the name of the pool, and the first one counts."""
        self._providing: set[tuple[PoolId, str]] = set()
        """The slices with devices that provide resources."""
        self._field = "NodeAllocatableResources" if since_1_37 else "NodeAllocatableResourceMappings"
        for each in chain.from_iterable(pool.values() for pool in slices.by_pool.values()):
            self._changed(each)
        slices.listen(self._changed)

    def _changed(self, changed: Slice) -> None:
        """Add a slice, or remove it if it isn't there any more."""
        there = self._slices.by_pool.get(changed.pool, {}).get(changed.name) is changed
        key, name = self._key(changed.pool), (changed.pool, changed.name)
        named = self._named.setdefault(key, {})
        for device in changed.devices:
            same = named.setdefault(device.id.device, [])
            if there:
                same.append(device)
                if provides(device.spec, since_1_37=self._since_1_37):
                    self._providing.add(name)
            else:
                same.remove(device)
                if not same:
                    del named[device.id.device]
        if not there:
            self._providing.discard(name)
            if not named:
                del self._named[key]

    def _key(self, pool: PoolId) -> Hashable:
        return pool if self._since_1_37 else pool.pool

    @property
    def exist(self) -> bool:
        """Whether there are such devices."""
        self._slices.refresh()
        return bool(self._providing)

    def _devices(self, device: DeviceId) -> list[SliceDevice]:
        """The devices with an ID, by slice."""
        named = self._named.get(self._key(PoolId(device.driver, device.pool)), {}).get(device.device, ())
        return sorted(named, key=lambda each: (each.parent.pool, each.parent.name))

    def _of_device(self, device: DeviceId) -> Sequence[NodeProvision]:
        return next((self._provisions(each) for each in self._devices(device)), ())

    def _provisions(self, device: SliceDevice) -> Sequence[NodeProvision]:
        return provisions_of(device.spec, since_1_37=self._since_1_37)

    def of_granted(self, granted: Granted) -> Taking:
        """What a claim takes with the devices that a search has found."""
        if not self.exist:
            return None
        return self._taking(
            (each.device.id.device, self._of_device(each.device.id), each.consumed) for each in granted.grants
        )

    def of_results(self, results: Iterable[DeviceRequestAllocationResult]) -> Taking:
        """What a claim takes with the devices of an allocation, on any node."""
        return self._taking((each.device, self._of_device(_id(each)), _consumed(each)) for each in results)

    def maps(self, results: Iterable[DeviceRequestAllocationResult]) -> bool:
        """Whether any of these devices provides a resource itself, and not only needs it."""
        return any(provision.maps for each in results for provision in self._of_device(_id(each)))

    def on_nodes(self, results: Sequence[DeviceRequestAllocationResult], nodes: Nodes) -> tuple[Rows, list[Taking]]:
        """What a claim takes with the devices of an allocation where each node has them: distinct answers, and the
        index of the answer for each node. Nothing on nodes that have none of the devices that provide resources.
        """
        placed = [self._placed(each, nodes) for each in results]
        if not placed:
            return np.zeros(len(nodes), dtype=np.intp), [None]
        combinations, index = np.unique(np.stack([codes for codes, _ in placed]), axis=1, return_inverse=True)
        answers: list[Taking] = []
        for combination in combinations.T.tolist():
            found = [devices[code] for (_, devices), code in zip(placed, combination, strict=True)]
            uses: list[Use] = []
            for device, result in zip(found, results, strict=True):
                provided = device if isinstance(device, str) else self._provisions(device)
                uses.append((result.device, provided, _consumed(result)))
            provides = any(provided for _, provided, _ in uses if not isinstance(provided, str))
            answers.append(self._taking(uses) if provides else None)
        return index.reshape(-1), answers

    def _placed(self, result: DeviceRequestAllocationResult, nodes: Nodes) -> tuple[Rows, list[SliceDevice | str]]:
        """The device of a result on each node: devices or why there is none, and which of these it is on each node."""
        driver, pool, name = _id(result)
        lacks = f"driver {driver}: device {name} not found in pool {pool} for driver {driver}"
        devices: list[SliceDevice | str] = [lacks]
        codes, missing = np.zeros(len(nodes), dtype=np.intp), np.ones(len(nodes), dtype=np.bool_)
        for device in self._devices(_id(result)):
            each = device.parent
            here = missing if each.per_device and not each.place.specified else missing & _among(each.place, nodes)
            missing = missing & ~here
            devices += [device, f"driver {driver}: device {name} does not match node"]
            fits = _among(device.place, nodes) if each.per_device else here
            codes[here] = len(devices) - 1
            codes[here & fits] = len(devices) - 2
        return codes, devices

    def _taking(self, uses: Iterable[Use]) -> Taking:
        mapped: dict[str, int] = {}
        per_pod: dict[str, int] = {}
        per_container: dict[str, int] = {}
        for device, provided, consumed in uses:
            if isinstance(provided, str):
                return Unknown(f"device {device}, {provided}")
            for each in provided:
                amount = each.fixed
                if each.key:
                    if not consumed:
                        return Unknown(
                            f"device {device}: ConsumedCapacity is nil, but Capacity key '{each.key}' is set in "
                            f"{self._field} for resource {each.resource}"
                        )
                    amount = consumed.get(each.key)
                    if amount is not None and each.times is not None:
                        amount = -(-amount * each.times // quantity.NANO)
                for total, more in ((mapped, amount), (per_pod, each.per_pod), (per_container, each.per_container)):
                    if more is not None:
                        total[each.resource] = total.get(each.resource, 0) + more
        found = Footprint(*(tuple(sorted(total.items())) for total in (mapped, per_pod, per_container)))
        return found if any(found) else None


def _id(result: DeviceRequestAllocationResult) -> DeviceId:
    return DeviceId(result.driver, result.pool, result.device)


def _consumed(result: DeviceRequestAllocationResult) -> Mapping[str, int] | None:
    if result.consumedCapacity is None:
        return None
    return {name: quantity.parse(str(amount)) for name, amount in result.consumedCapacity.items()}


def _among(place: SliceNodes, nodes: Nodes) -> Bool:
    """Which nodes are among those of a slice or a device."""
    if place.node_name:
        named = np.zeros(len(nodes), dtype=np.bool_)
        position = nodes.position(place.node_name)
        if position is not None:
            named[position] = True
        return named
    if place.all_nodes:
        return np.ones(len(nodes), dtype=np.bool_)
    if place.selector is None or place.selector.errors:
        return np.zeros(len(nodes), dtype=np.bool_)
    return match_selector(place.selector, nodes)
