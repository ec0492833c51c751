"""Which devices a pod's claims lack on a node, what has each of them, and what would help.

It asks by the same search as Filter, and affects no decision. `obstacles.py` has what keeps a single device from a
request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.core.api.kinds import DEVICE_CLASS
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.claims import UnusableClaim, claim_name, key_of, reservations, results_of
from bayplan.core.devices.classes import resources_of
from bayplan.core.devices.requests import ALL, DeviceDemand, constraints_of, demands_of, requests_of
from bayplan.core.devices.slices import SliceDevice
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.remedies import Details, Remedy, request_resource, together
from bayplan.core.plugins.dynamic_resources.candidates import Supply
from bayplan.core.plugins.dynamic_resources.changed_claims import Where, delete_users, recreated, tolerated, use_claim
from bayplan.core.plugins.dynamic_resources.constraints import values_of
from bayplan.core.plugins.dynamic_resources.derived import DerivedAttributes
from bayplan.core.plugins.dynamic_resources.node_pools import Reach
from bayplan.core.plugins.dynamic_resources.obstacles import Examination, Examined, Holders, names_text, users_text
from bayplan.core.plugins.dynamic_resources.offers import Offers
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError
from bayplan.core.plugins.dynamic_resources.state import Needs, PodDevices

_SHOWN = 4
"""The most groups of devices, or pools, in one text."""
_CLASSES = 20
"""The most other classes to look at."""
_DRIVERS = 3
"""The most drivers to make a class for."""


class Explanations:
    """Explains rejections from the same objects and by the same search as Filter."""

    def __init__(
        self,
        offers: Offers,
        claims: ObjectStore,
        classes: ObjectStore,
        allocations: ClaimAllocations,
        pods: ObjectStore,
        slices: ObjectStore,
    ) -> None:
        self._offers = offers
        self._claims = claims
        self._classes = classes
        self._allocations = allocations
        self._pods = pods
        self._slices = slices

    def of_pod(self, pod: PodInfo) -> Details | None:
        """Explain why a pod is rejected whatever the node: its claims or their classes can't be used."""
        texts, remedies = list[str](), list[Remedy]()
        for reference in pod.spec.resourceClaims or ():
            try:
                name = claim_name(pod.object, reference)
            except UnusableClaim as problem:
                texts.append(f"{problem}: the controller makes it from template {reference.resourceClaimTemplateName}")
                continue
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if name is not None and claim is None:
                near = near_name(name, self._claim_names(pod.namespace))
                texts.append(f'could not find ResourceClaim "{pod.namespace}/{name}"{_did_you_mean(near)}')
                if near and reference.resourceClaimName is not None:
                    remedies.append(use_claim(reference.name, near))
            elif claim is not None and claim.metadata is not None and claim.metadata.deletionTimestamp is not None:
                texts.append(f'resourceclaim "{name}" is being deleted: {self._users_text(claim)}')
            elif claim is not None:
                for where, demand in _demands(claim):
                    if demand.class_name not in self._classes:
                        near = near_name(demand.class_name, self._classes)
                        missing = f"device class {demand.class_name} does not exist"
                        texts.append(f"claim {name}, request {demand.full_name}: {missing}{_did_you_mean(near)}")
                        if near:
                            remedies.append(where.with_class(near))
                        remedies += self._new_classes(demand.class_name)
        return Details("; ".join(texts), remedies) if texts else None

    def of_node(self, pod: PodInfo, state: PodDevices, needs: Needs | None, node: NodeInfo) -> Details:
        """Explain why a node can't use the allocated claims of a pod, or lacks devices for the others.

        `needs`: what to allocate there; None if even that can't be told, as for a resource that nothing provides.
        """
        if needs is None:
            return Details()
        if not needs.claims:
            allocated = [(claim, state.allocation(place)) for place, claim in enumerate(state.claims)]
            texts = [_allocated_text(claim, allocation) for claim, allocation in allocated if allocation is not None]
            return Details("; ".join(texts), delete_users(pod, state.claims, self._pods), "allocated")
        lack = _Lack(self, pod, state, needs, node)
        return Details(lack.text(), lack.remedies(), lack.kind())

    def holders(self) -> Holders:
        """The claims that have devices."""
        return Holders.of(self._claims, self._allocations)

    def reach(self, node: NodeInfo) -> Reach | None:
        """The pools of a node; None if a selector of them is invalid."""
        try:
            return self._offers.reach(node.alone)
        except ValueError:
            return None

    def fits(self, supply: Supply, claims: Sequence[ResourceClaim], node: NodeInfo) -> bool:
        """Whether a search finds devices for claims on a node."""
        return isinstance(self._offers.allocation(supply, claims, node.alone, 0), tuple)

    @property
    def classes(self) -> ObjectStore:
        """The device classes, by name."""
        return self._classes

    @property
    def pods(self) -> ObjectStore:
        """The pods, by `namespace/name`."""
        return self._pods

    def _users_text(self, claim: ResourceClaim) -> str:
        """Who uses a claim, and that it is still reserved for pods that are gone."""
        namespace = key_of(claim).rpartition("/")[0]
        known = {
            pod.uid for user in reservations(claim) if (pod := self._pods.get(f"{namespace}/{user.name}")) is not None
        }
        gone = [user.name for user in reservations(claim) if user.resource == "pods" and user.uid not in known]
        if len(gone) < len(reservations(claim)) or not gone:
            return f"{users_text(claim)} uses it"
        names = f"{'pod' if len(gone) == 1 else 'pods'} {names_text(gone)}"
        return (
            f"it is reserved for {names}, which {'is' if len(gone) == 1 else 'are'} gone: kube-controller-manager's "
            "ResourceClaim controller takes that away, and then the claim ends; is it running?"
        )

    def _new_classes(self, name: str) -> Iterator[Remedy]:
        """The creation of a missing class, for all devices of a driver."""
        drivers = sorted({each.spec.driver for each in self._slices.values() if each.spec is not None})
        for driver in drivers[:_DRIVERS] if name else ():
            document = {
                "apiVersion": DEVICE_CLASS.api_version,
                "kind": DEVICE_CLASS.kind,
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
            }
            yield Remedy(f"create the deviceclass {name} for the devices of {driver}", apply=(document,))

    def _claim_names(self, namespace: str) -> list[str]:
        keys = (key.partition("/") for key in self._claims)
        return [name for where, _, name in keys if where == namespace]


@dataclass(slots=True)
class _Asked:
    """A request, or an alternative of one, with the devices of its class on the node."""

    where: Where
    demand: DeviceDemand
    devices: list[Examined]

    @property
    def free(self) -> list[Examined]:
        return [each for each in self.devices if not each.obstacles]

    @property
    def count(self) -> int:
        """How many devices it needs."""
        if self.demand.mode == ALL:
            return max(1, sum(not _never(each) for each in self.devices))
        return self.demand.count

    @property
    def short(self) -> bool:
        return len(self.free) < self.count

    def kind(self) -> object:
        return self.demand.class_name, self.count, frozenset(each.kind for each in self.devices)


class _Lack:
    """What a node lacks for the claims of a pod."""

    def __init__(self, of: Explanations, pod: PodInfo, state: PodDevices, needs: Needs, node: NodeInfo) -> None:
        self._of = of
        self._pod = pod
        self._supply = state.supply
        self._needs = needs
        self._node = node
        self._examination = Examination(state.supply, state.holders(of.holders), node)
        self._resources = {each.requestName: each.resourceName for each in needs.mappings}
        reach = of.reach(node)
        self._pools = [] if reach is None else reach.pools
        self._requests = [
            [self._asked(where, demand) for where, demand in alternatives]
            for claim in needs.claims
            for alternatives in _by_request(claim)
        ]
        self._short = [each for each in self._requests if all(asked.short for asked in each)]

    def text(self) -> str:
        """The requests with too few devices; if each has enough, the constraints or the requests that clash."""
        texts = ["; ".join(map(self._sentence, alternatives)) for alternatives in self._short]
        for pool in self._pools:
            if pool.invalid or pool.incomplete:
                why = pool.invalid or "incomplete, because its driver is publishing it"
                texts.append(f"resource pool {pool.id} is {'invalid: ' if pool.invalid else ''}{why}")
        return "; ".join(texts[: _SHOWN + 1]) or self._clash_text()

    def kind(self) -> object:
        """The causes: the request, what is with its devices, whether pods can be deleted, and the constraints."""
        if not self._short:
            return tuple((key_of(claim), chosen) for claim, chosen in self._in_the_way)
        deletable = next(self._freed(taints=False, pods=True), None) is not None
        return tuple(asked.kind() for alternatives in self._short for asked in alternatives), deletable

    def remedies(self) -> Iterator[Remedy]:
        """Tolerate taints, take another class, give up constraints, delete the pods that have the devices."""
        for taints, pods in ((True, False), (False, True), (True, True)):
            yield from self._freed(taints=taints, pods=pods)
        yield from self._other_classes()
        yield from (Where(claim).without_constraints(chosen) for claim, chosen in self._in_the_way)
        if not self._short:
            every = [each for alternatives in self._requests for asked in alternatives for each in asked.devices]
            yield from delete_users(self._pod, [claim for each in every for claim in each.in_the_way], self._of.pods)

    def _asked(self, where: Where, demand: DeviceDemand) -> _Asked:
        device_class = self._of.classes.get(demand.class_name)
        examine = self._examination
        devices = [
            examine.examine(device, pool, demand)
            for pool in self._pools
            for device in pool.devices
            if device_class is not None and examine.of_class(device, device_class)
        ]
        return _Asked(where, demand, devices)

    def _sentence(self, asked: _Asked) -> str:
        """What a request needs, and what is with the devices of its class."""
        demand, resource = asked.demand, self._resources.get(asked.demand.name)
        which = f"claim {asked.where.name}, request {demand.full_name}"
        number = "all devices" if demand.mode == ALL else _devices(asked.count)
        needs = f"{resource or which}: needs {number} of class {demand.class_name}"
        if not asked.devices:  # many nodes have none, and are shown together
            others = sum(len(pool.devices) for pool in self._pools)
            of_others = f" (its {_devices(others)} {_is(others)} of other classes)" if others else ""
            return f"{needs}; the node has none{of_others}"
        text = f"{needs}; {self._node.name} has "
        groups: dict[str, list[str]] = {}
        several = len({each.device.id.device for each in asked.devices}) < len(asked.devices)
        for each in asked.devices:
            device = each.device.id
            groups.setdefault(each.text, []).append(f"{device.pool}/{device.device}" if several else device.device)
        listed = [f"{names_text(names)} {_is(len(names))} {what}" for what, names in list(groups.items())[:_SHOWN]]
        left = sum(map(len, list(groups.values())[_SHOWN:]))
        more = f", and {_devices(left)} more" if left else ""
        return f"{text}{len(asked.devices)}: {', '.join(listed)}{more}"

    def _clash_text(self) -> str:
        """Why the requests can't all be satisfied, although each could."""
        parts = []
        for claim, chosen in self._in_the_way:
            for number in chosen:
                spec = constraints_of(claim)[number]
                attribute = spec.matchAttribute or spec.distinctAttribute or ""
                kind = "matchAttribute" if spec.matchAttribute else "distinctAttribute"
                parts.append(
                    f"claim {Where(claim).name}: the devices don't meet the constraint {kind} {attribute}: "
                    + self._values(claim, attribute, spec.requests)
                )
        if parts:
            return "; ".join(parts)
        names = [
            self._resources.get(each[0].demand.name) or f"{each[0].where.name}/{each[0].demand.base_name}"
            for each in self._requests
        ]
        free = dict.fromkeys(
            each.device.id.device for alternatives in self._requests for asked in alternatives for each in asked.free
        )
        which = f": free {_is(len(free))} {names_text(list(free), _SHOWN)}" if free else ""
        return f"each of the requests {', '.join(names)} finds devices on {self._node.name}, but not all of them{which}"

    def _values(self, claim: ResourceClaim, attribute: str, requests: Sequence[str] | None) -> str:
        """The values of an attribute that the free devices have, for some requests of a claim."""
        found: dict[str, dict[str, None]] = {}
        for asked in (each for alternatives in self._requests for each in alternatives):
            named = not requests or {asked.demand.base_name, asked.demand.full_name} & {*requests}
            if asked.where.claim is claim and named:
                for each in asked.free:
                    text = self._value_text(asked.demand, attribute, each.device)
                    found.setdefault(text, {})[each.device.id.device] = None
        shown = list(found.items())[:_SHOWN]
        parts = [f"{names_text(list(names))} {'has' if len(names) == 1 else 'have'} {text}" for text, names in shown]
        return ", ".join(parts) + (f", and {len(found) - len(shown)} more values" if len(found) > len(shown) else "")

    def _value_text(self, demand: DeviceDemand, name: str, device: SliceDevice) -> str:
        """The value of a device's attribute, which the request may derive."""
        attribute = device.attribute(name)
        read = DerivedAttributes(self._supply.derivations, [demand]).reading(name)
        if read is not None and self._supply.rules.derives:
            try:
                attribute = read(demand.base_name, demand.alternative, device)
            except AllocationError:
                return "no derived value"
        values = values_of(attribute, lists=True)
        if values and not values_of(attribute, lists=self._supply.rules.lists):
            return "a list, which isn't compared"
        return ", ".join(sorted(str(value) for _, value in values)) or "no value"

    @cached_property
    def _in_the_way(self) -> list[tuple[ResourceClaim, tuple[int, ...]]]:
        """A claim, and a constraint of it without which all would fit, or all of its constraints."""
        if self._short:
            return []
        for claim in self._needs.claims:
            numbers = range(len(constraints_of(claim)))
            for chosen in (*((each,) for each in numbers), tuple(numbers)):
                relaxed = Where(claim).object_without_constraints(chosen) if chosen else claim
                claims = [relaxed if each is claim else each for each in self._needs.claims]
                if chosen and self._of.fits(self._supply, claims, self._node):
                    return [(claim, chosen)]
        return []

    def _freed(self, *, taints: bool, pods: bool) -> Iterator[Remedy]:
        """Let each request have enough devices: tolerate taints, or delete pods, as few as possible."""

        def free(asked: _Asked, goes: Callable[[ResourceClaim], bool]) -> list[Examined]:
            """The devices that a request could have. Those for extended resources can't tolerate anything."""
            tolerable = taints and asked.demand.name not in self._resources
            return [each for each in asked.devices if each.free_without(taints=tolerable, goes=goes)]

        def enough(gone: frozenset[str]) -> bool:
            return all(len(free(asked, lambda claim: key_of(claim) in gone)) >= asked.count for asked in chosen)

        chosen = [
            asked
            for alternatives in self._short
            for asked in [each for each in alternatives if len(free(each, lambda _: pods)) >= each.count][:1]
        ]
        if not chosen or len(chosen) < len(self._short) or (taints and pods and enough(frozenset())):
            return
        cures = []
        for asked in chosen if taints else ():
            needed = sorted(free(asked, lambda _: pods), key=lambda each: len(each.taints))[: asked.count]
            if any(each.taints for each in needed):
                cures.append(tolerated(asked.where, (taint for each in needed for taint in each.taints)))
        if taints and not cures:
            return
        if not pods:
            yield recreated(cures)
            return
        claims = [claim for asked in chosen for each in asked.devices for claim in each.in_the_way]
        for deletion in delete_users(self._pod, claims, self._of.pods, enough):
            yield together(recreated(cures), deletion) if cures else deletion

    def _other_classes(self) -> Iterator[Remedy]:
        """The class that has enough free devices on the node, for the one request that has too few."""
        if len(self._short) != 1:
            return
        asked = self._short[0][0]
        for name, other in sorted(self._of.classes.items())[:_CLASSES]:
            if name == asked.demand.class_name:
                continue
            changed = self._asked(asked.where, replace(asked.demand, class_name=name))
            if changed.short:
                continue
            resource = self._resources.get(asked.demand.name)
            if resource is None:
                yield asked.where.with_class(name)
            else:
                yield request_resource(resource, resources_of(other)[-1])


def _demands(claim: ResourceClaim) -> Iterator[tuple[Where, DeviceDemand]]:
    for alternatives in _by_request(claim):
        yield from alternatives


def _by_request(claim: ResourceClaim) -> Iterator[list[tuple[Where, DeviceDemand]]]:
    for number, request in enumerate(requests_of(claim)):
        demands = demands_of(request)
        yield [
            (Where(claim, number, place if request.firstAvailable else None), demand)
            for place, demand in enumerate(demands)
        ]


def _never(examined: Examined) -> bool:
    """Whether a selector rejects a device, so that a request for all devices leaves it out."""
    return any(not each.taints and not each.claims for each in examined.obstacles)


def _allocated_text(claim: ResourceClaim, allocation: AllocationResult) -> str:
    devices = [f"{each.pool}/{each.device}" for each in results_of(allocation)]
    has = f"has {names_text(devices)}" if devices else "is allocated"
    return f"claim {Where(claim).name} {has}, which this node can't use; {users_text(claim)} uses it"


def _devices(number: int) -> str:
    return "1 device" if number == 1 else f"{number:,} devices"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _did_you_mean(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""
