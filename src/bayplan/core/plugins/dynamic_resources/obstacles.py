"""Why a request can't have a device: what it is taken by, its taints, selectors, capacity and counters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lightkube.models.resource_v1 import DeviceClass, DeviceSelector, DeviceTaint, ResourceClaim

from bayplan.core.api import quantity
from bayplan.core.api.quantity import format_quantity
from bayplan.core.api.tolerations import taint_text
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.cel.selectors import CompileError, RuntimeFailure
from bayplan.core.devices.claims import allocation_of, key_of, reservations, results_of, uid_of
from bayplan.core.devices.classes import selectors_of
from bayplan.core.devices.requests import DeviceDemand
from bayplan.core.devices.slices import DeviceId, SliceDevice
from bayplan.core.plugins.dynamic_resources.allocator import PREVENTING
from bayplan.core.plugins.dynamic_resources.candidates import Supply
from bayplan.core.plugins.dynamic_resources.capacity import UncountableAmount, consumption, fits
from bayplan.core.plugins.dynamic_resources.compatibility import NO_GROUPS
from bayplan.core.plugins.dynamic_resources.pools import Pool
from bayplan.core.plugins.dynamic_resources.rules import CompatibilityGroups

_LONGEST = 120
"""The most characters of an expression."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a request can't have a device.

    `text` follows "is": "tainted broken:NoSchedule". `kind` is equal for obstacles that go away in the same way.
    `taints` are those to tolerate and `claims` those to deallocate for that; if it has neither, it stays.
    """

    text: str
    kind: Hashable
    taints: tuple[DeviceTaint, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """A device that a class selects, and what keeps it from a request: nothing if it is free."""

    device: SliceDevice
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def text(self) -> str:
        """What follows "is"."""
        return " and ".join(each.text for each in self.obstacles) or "free"

    @property
    def kind(self) -> Hashable:
        """The kinds of its obstacles."""
        return tuple(each.kind for each in self.obstacles)

    @property
    def in_the_way(self) -> tuple[ResourceClaim, ...]:
        """The claims that have the device, or what it needs."""
        return tuple(claim for each in self.obstacles for claim in each.claims)

    @property
    def taints(self) -> tuple[DeviceTaint, ...]:
        """The taints that the request doesn't tolerate."""
        return tuple(taint for each in self.obstacles for taint in each.taints)

    def free_without(self, *, taints: bool, goes: Callable[[ResourceClaim], bool]) -> bool:
        """Whether the request could have the device if some claims went, and if it tolerated the taints."""
        return all(
            (bool(each.taints) and taints) or (bool(each.claims) and all(map(goes, each.claims)))
            for each in self.obstacles
        )


@dataclass(slots=True)
class Holders:
    """The claims that have devices, with allocations in flight."""

    by_device: dict[DeviceId, list[ResourceClaim]] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Mapping[str, ResourceClaim], allocations: ClaimAllocations) -> Holders:
        """Collect them from all claims."""
        found = cls()
        for claim in claims.values():
            for result in results_of(allocation_of(claim) or allocations.in_flight(uid_of(claim))):
                if not result.adminAccess:
                    device = DeviceId(result.driver, result.pool, result.device)
                    found.by_device.setdefault(device, []).append(claim)
        return found


@dataclass(frozen=True, slots=True)
class Examination:
    """An examination of the devices of a node. It asks what a search asks."""

    supply: Supply
    holders: Holders
    node: NodeInfo

    def of_class(self, device: SliceDevice, device_class: DeviceClass) -> bool:
        """Whether a class selects a device that the node can use."""
        if self._rejecting(selectors_of(device_class), device) is not None:
            return False
        return not device.parent.per_device or device.place.includes(self.node.name, self.node.labels)

    def examine(self, device: SliceDevice, pool: Pool, demand: DeviceDemand) -> Examined:
        """Look for all obstacles between a device, which the class selects, and a request."""
        return Examined(device, tuple(self._obstacles(device, pool, demand)))

    def _obstacles(self, device: SliceDevice, pool: Pool, demand: DeviceDemand) -> Iterator[Obstacle]:
        selector = self._rejecting(demand.selectors, device)
        if selector is not None:
            yield Obstacle(f"rejected by the selector {_shortened(selector)}", selector)
        if device.id in self.supply.taken.devices and not demand.admin_access:
            claims = tuple(self.holders.by_device.get(device.id, ()))
            yield Obstacle(f"allocated to {_claims_text(claims)}", "allocated", claims=claims)
        taints = tuple(each for each in device.taints if each.effect in PREVENTING and not demand.tolerates(each))
        if taints:
            names = ", ".join(map(text_of_taint, taints))
            yield Obstacle(f"tainted {names}", names, taints=taints)
        yield from self._lacking_capacity(device, demand)
        yield from self._lacking_counters(device, pool)
        yield from self._kept_apart(device, pool)

    def _lacking_capacity(self, device: SliceDevice, demand: DeviceDemand) -> Iterator[Obstacle]:
        capacity = device.spec.capacity or {}
        consumed = self.supply.taken.consumed.get(device.id, {})
        if not demand.capacity and not consumed and device.is_exclusive:
            return
        rules = self.supply.rules
        try:
            if fits(demand.capacity, capacity, consumed, {}, rules):
                return
        except UncountableAmount as error:
            yield Obstacle(f"not to be had in such amounts: {error}", "uncountable")
            return
        for name in demand.capacity:
            if name not in capacity:
                yield Obstacle(f"without {name}", ("capacity", name))
                return
        for name, spec in capacity.items():
            needed = consumption(demand.capacity.get(name), spec, rules)
            left = quantity.parse(str(spec["value"])) - consumed.get(name, 0)
            if needed > left:
                amounts = f"{_amount(needed)} of {name}, of which {_amount(left)} is left"
                claims = tuple(self.holders.by_device.get(device.id, ())) if consumed.get(name) else ()
                used = f" beside {_claims_text(claims)}" if claims else ""
                yield Obstacle(f"too small for {amounts}{used}", ("capacity", name), claims=claims)
                return
        yield Obstacle("not to be had in such amounts: its request policy rejects them", "policy")

    def _lacking_counters(self, device: SliceDevice, pool: Pool) -> Iterator[Obstacle]:
        if device.allows_multiple and self.supply.has_shares(device.id):
            return
        left = self.supply.counters.left(pool)
        for name, counters in device.counters.items():
            for counter, amount in counters.items():
                short = amount - left.get(name, {}).get(counter, amount)
                if short > 0:
                    claims = tuple(self._consumers(name, counter, device, pool))
                    used = f", which {_claims_text(claims)} uses" if claims else ""
                    text = f"short of {_amount(short)} of counter {counter} in {name}{used}"
                    yield Obstacle(text, ("counter", counter), claims=claims)
                    return

    def _consumers(self, name: str, counter: str, device: SliceDevice, pool: Pool) -> Iterator[ResourceClaim]:
        for other in _others(device, pool):
            if counter in other.counters.get(name, {}):
                yield from self.holders.by_device.get(other.id, ())

    def _kept_apart(self, device: SliceDevice, pool: Pool) -> Iterator[Obstacle]:
        """The groups of other devices with which a device can't share counters."""
        rules, taken = self.supply.rules, self.supply.taken
        if not pool.has_groups or rules.groups is CompatibilityGroups.UNKNOWN:
            return
        if device.allows_multiple and self.supply.has_shares(device.id):
            return
        compares = rules.groups is CompatibilityGroups.COMPARED
        if not compares and device.groups:
            text = f"left out, because the gate DRADeviceCompatibilityGroups is off: it has {_groups_text(device)}"
            yield Obstacle(text, "groups")
            return
        for name in device.counters:
            peers = [each for each in _others(device, pool) if name in each.counters and taken.includes(each.id)]
            apart = [each for each in peers if not (compares and _go_together(device, each, name))]
            if not compares and not any(name in each.groups for each in apart):
                continue
            if apart:
                claims = tuple(claim for each in apart for claim in self.holders.by_device.get(each.id, ()))
                with_them = names_text([f"{each.id.device} ({_groups_text(each, name)})" for each in apart], 2)
                used = f", which {_claims_text(claims)} uses" if claims else ""
                text = f"kept apart ({_groups_text(device, name)}) on {name} from {with_them}{used}"
                yield Obstacle(text, ("groups", name), claims=claims)
                return

    def _rejecting(self, selectors: Sequence[DeviceSelector], device: SliceDevice) -> str | None:
        """The first of these selectors that doesn't select a device."""
        for selector in selectors:
            expression = selector.cel.expression if selector.cel is not None else ""
            try:
                if not self.supply.selectors.matches(expression, device.facts):
                    return expression
            except (CompileError, RuntimeFailure):
                return expression
        return None


def _others(device: SliceDevice, pool: Pool) -> Iterator[SliceDevice]:
    """The other devices of a pool, on any node."""
    everywhere = (*pool.devices, *(each for part in pool.other_slices for each in part.devices))
    return (each for each in everywhere if each.id != device.id)


def _go_together(one: SliceDevice, other: SliceDevice, counter_set: str) -> bool:
    groups, others = one.groups.get(counter_set), other.groups.get(counter_set)
    return groups is others is None or not (groups or NO_GROUPS).isdisjoint(others or NO_GROUPS)


def _groups_text(device: SliceDevice, counter_set: str = "") -> str:
    """The compatibility groups of a device: on one counter set, or on all."""
    found = sorted({each for name, groups in device.groups.items() if counter_set in {"", name} for each in groups})
    return f"group{'s' if len(found) > 1 else ''} {', '.join(found)}" if found else "no groups"


def users_text(claim: ResourceClaim) -> str:
    """The pods that a claim is reserved for."""
    namespace = (claim.metadata.namespace if claim.metadata is not None else None) or "default"
    names = [
        f"pod {namespace}/{user.name}" if user.resource == "pods" else f"{user.resource} {user.name}"
        for user in reservations(claim)
    ]
    return names_text(names) if names else "no pod"


def names_text(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def text_of_taint(taint: DeviceTaint) -> str:
    """A device's taint: key=value:effect."""
    return taint_text((taint.key, taint.value or "", taint.effect))


def _claims_text(claims: Sequence[ResourceClaim]) -> str:
    unique = {key_of(claim): claim for claim in claims}
    names = [f"claim {key.rpartition('/')[2]} of {_holder_text(claim)}" for key, claim in unique.items()]
    return names_text(names, 2) if names else "an unknown claim"


def _holder_text(claim: ResourceClaim) -> str:
    """The pods of a claim that has devices. Its status doesn't say so while its pod, of a gang, is only assumed."""
    return "a pod that is placed first" if allocation_of(claim) is None else users_text(claim)


def _shortened(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _amount(nanos: int) -> str:
    return format_quantity(nanos, binary=True)
