"""What the claims of a pod want: their requests and constraints, validated, and which devices of a node fit them.

Mirrors validateDeviceRequest and selectorsMatch of structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightkube.models.resource_v1 import DeviceClass, DeviceSelector, ResourceClaim

from bayplan.core.devices.cel.selectors import CompileError, RuntimeFailure
from bayplan.core.devices.claims import key_of
from bayplan.core.devices.classes import selectors_of
from bayplan.core.devices.limits import MAX_RESULTS
from bayplan.core.devices.requests import ALL, EXACT_COUNT, DeviceDemand, constraints_of, demands_of, requests_of
from bayplan.core.devices.slices import DeviceId, SliceDevice
from bayplan.core.plugins.dynamic_resources.candidates import Criteria, Supply
from bayplan.core.plugins.dynamic_resources.capacity import UncountableAmount, fits
from bayplan.core.plugins.dynamic_resources.constraints import Constraint
from bayplan.core.plugins.dynamic_resources.derived import DerivedAttributes
from bayplan.core.plugins.dynamic_resources.node_pools import Reach
from bayplan.core.plugins.dynamic_resources.pools import Pool
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError
from bayplan.core.plugins.dynamic_resources.value_sets import constraint_of

_ABOUT_MISSING_KEYS = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)
"""Mirrors cel/errors.go of 1.37."""


@dataclass(slots=True)
class Request:
    """A demand with its class and number of devices. `everything` are the devices of a demand for all devices."""

    demand: DeviceDemand
    device_class: DeviceClass
    criteria: Criteria
    count: int
    everything: list[tuple[SliceDevice, Pool]] | None = None


@dataclass(frozen=True, slots=True)
class ClaimsOnNode:
    """The claims of a pod, and the node and the pools whose devices they may get."""

    supply: Supply
    reach: Reach
    node_name: str
    labels: Mapping[str, str]
    claims: Sequence[ResourceClaim]


class Wanted:
    """The requests and constraints of claims on one node.

    `consuming` is the capacity that the search has used of shared devices. The search changes it.
    """

    def __init__(self, given: ClaimsOnNode, consuming: Mapping[DeviceId, Mapping[str, int]]) -> None:
        self._given = given
        self._consuming = consuming
        self.requests: list[list[list[Request]]] = []
        """claim -> request -> alternatives, by index"""
        self.constraints: list[list[Constraint]] = []
        """claim, by index -> its constraints"""
        self.releases_capacity = False
        """Whether a request is for a negative amount."""
        self._selectable: dict[tuple[SliceDevice, int, int, int], bool] = {}

    def prepare(self, index: int, claim: ResourceClaim) -> None:
        """Validate the requests and constraints of a claim before the search. Raises AllocationError."""
        self.requests.append([])
        minimum = 0
        for request in requests_of(claim):
            number = len(self.requests[index])
            alternatives: list[Request] = []
            self.requests[index].append(alternatives)
            for sub, demand in enumerate(demands_of(request)):
                alternatives.append(self._prepare_request((index, number, sub), claim, demand))
            minimum += min(each.count for each in alternatives)
        if minimum > MAX_RESULTS:
            raise AllocationError(
                f"claim {key_of(claim)}: number of requested devices {minimum} exceeds the claim limit of {MAX_RESULTS}"
            )
        supply = self._given.supply
        derived: DerivedAttributes | None = None
        if supply.rules.derives:
            demands = [each.demand for alternatives in self.requests[index] for each in alternatives]
            derived = DerivedAttributes(supply.derivations, demands) if any(each.derived for each in demands) else None
        constraints = []
        for number, spec in enumerate(constraints_of(claim)):
            constraint = constraint_of(spec, supply.rules, None if derived is None else derived.reading)
            if constraint is None:
                problem = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {key_of(claim)}, constraint #{number}: {problem}")
            constraints.append(constraint)
        self.constraints.append(constraints)

    def _prepare_request(self, key: tuple[int, int, int], claim: ResourceClaim, demand: DeviceDemand) -> Request:
        where = f"claim {key_of(claim)}, request {demand.name}"
        if demand.derived and self._given.supply.rules.derives is False:
            raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        for number, selector in enumerate(demand.selectors):
            if selector.cel is None:
                raise AllocationError(f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)")
        if not demand.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._given.supply.classes.get(demand.class_name)
        if device_class is None:
            problem = f'deviceclass.resource.k8s.io "{demand.class_name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {demand.class_name}: {problem}")
        self.releases_capacity |= any(str(amount).startswith("-") for amount in demand.capacity.values())
        prepared = Request(demand, device_class, Criteria.of(demand, device_class), demand.count)
        if demand.mode == ALL:
            prepared.everything = self._everything(key, where, prepared)
            prepared.count = len(prepared.everything)
        elif demand.mode != EXACT_COUNT:
            raise AllocationError(f"{where}: unsupported count mode {demand.mode}")
        return prepared

    def _everything(self, key: tuple[int, int, int], where: str, request: Request) -> list[tuple[SliceDevice, Pool]]:
        found: list[tuple[SliceDevice, Pool]] = []
        for pool in self._given.reach.pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool {pool.id} is currently {state}"
                )
            found += [
                (device, pool)
                for device in pool.devices
                if self.selects(key, request, device) and self._counts_for_all(where, request.demand, device)
            ]
        return found

    # Matching devices

    def selects(self, key: tuple[int, int, int], request: Request, device: SliceDevice) -> bool:
        """Whether a request can get a device: by its selectors, and by the nodes that the device is for.

        `key` are the indexes of the claim, the request and the alternative. Raises AllocationError.
        """
        known = self._selectable.get((device, *key))
        if known is None:
            known = self._selectable[device, *key] = self._is_selectable(key[0], request, device)
        return known

    def _is_selectable(self, claim_index: int, request: Request, device: SliceDevice) -> bool:
        device_class = request.device_class
        class_name = f"class {device_class.metadata.name if device_class.metadata else ''}"
        if not self._match(class_name, selectors_of(device_class), device):
            return False
        if not self._match(f"claim {key_of(self._given.claims[claim_index])}", request.demand.selectors, device):
            return False
        if not device.parent.per_device:
            return True
        try:
            return device.place.includes(self._given.node_name, self._given.labels)
        except ValueError as error:
            raise AllocationError(str(error)) from None

    def _match(self, owner: str, selectors: Sequence[DeviceSelector], device: SliceDevice) -> bool:
        for number, selector in enumerate(selectors):
            expression = selector.cel.expression if selector.cel is not None else ""
            try:
                if not self._given.supply.selectors.matches(expression, device.facts):
                    return False
            except CompileError as error:
                raise AllocationError(f"{owner}: selector #{number}: CEL compile error: {error}") from None
            except RuntimeFailure as error:
                where = f" on device {device.id}" if self._given.supply.rules.names_devices else ""
                hint = _ABOUT_MISSING_KEYS if where and "no such key:" in str(error) else ""
                raise AllocationError(f"{owner}: selector #{number}{where}: CEL runtime error: {error}{hint}") from None
        return True

    def has_capacity(self, claim: int, demand: DeviceDemand, device: SliceDevice) -> bool:
        """Whether a device has the capacity that a claim, by index, asks for. Raises AllocationError."""
        supply = self._given.supply
        consumed, consuming = supply.taken.consumed.get(device.id, {}), self._consuming.get(device.id, {})
        if _asks_for_none(demand, device, consumed):
            return True
        try:
            return fits(demand.capacity, device.spec.capacity or {}, consumed, consuming, supply.rules)
        except UncountableAmount as error:
            where = f"claim {key_of(self._given.claims[claim])}, request {demand.name}"
            raise AllocationError(f"{where}: checking capacity for device {device.id}: {error}") from None

    def _counts_for_all(self, where: str, demand: DeviceDemand, device: SliceDevice) -> bool:
        """Whether a device is one of all devices that a request asks for: by its capacity, taken or not."""
        supply = self._given.supply
        consumed = {} if supply.rules.all_or_nothing else supply.taken.consumed.get(device.id, {})
        if _asks_for_none(demand, device, consumed):
            return True
        try:
            return fits(demand.capacity, device.spec.capacity or {}, consumed, {}, supply.rules)
        except UncountableAmount as error:
            raise AllocationError(f"{where}: checking capacity for device {device.spec.name}: {error}") from None


def _asks_for_none(demand: DeviceDemand, device: SliceDevice, consumed: Mapping[str, int]) -> bool:
    """Whether a request needs no look at the capacity of a device that others have consumed some of."""
    return not demand.capacity and (not device.spec.capacity or (device.is_exclusive and not consumed))
