"""Cached results of device searches equal those of uncached ones while the cluster changes at random.

The cached searches give way at random, and go on.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.api.objects import convert
from bayplan.core.cluster.state import ClusterState
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.cel.selectors import Selectors
from bayplan.core.devices.claims import allocation_of, results_of
from bayplan.core.devices.slices import DeviceSlices, Slice
from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.allocator import Search
from bayplan.core.plugins.dynamic_resources.candidates import Supply
from bayplan.core.plugins.dynamic_resources.counters import CountersLeft, SharedCounters
from bayplan.core.plugins.dynamic_resources.node_pools import Reach
from bayplan.core.plugins.dynamic_resources.offers import Offers
from bayplan.core.plugins.dynamic_resources.pools import _pool
from bayplan.core.plugins.dynamic_resources.results import allocation_result
from bayplan.core.plugins.dynamic_resources.rules import SearchRules
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError, InvalidPools
from bayplan.core.plugins.dynamic_resources.wanted import ClaimsOnNode
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node
from bayplan.testing.documents import known, put, typed

pytestmark = pytest.mark.feature("DynamicResources: cached searches against plain ones")

NODES = ["n0", "n1", "n2"]
DRIVERS = ["gpu.example.com", "nic.example.com"]
KINDS = ["matchAttribute", "matchAttribute", "matchAttribute", "distinctAttribute"]
API = "resource.k8s.io/v1"
SELECTORS = {lists: Selectors(lists=lists) for lists in (False, True)}
GATES = [
    gates_of("1.36"),
    gates_of("1.36").but("DRAListTypeAttributes"),
    gates_of("1.37"),
    gates_of("1.37").but("DRAListTypeAttributes", "DRADeviceCompatibilityGroups", "DRADerivedAttributes"),
]
MODEL = "device.attributes['gpu.example.com'].model == 'x'"
"""Fails for devices of other drivers."""


def a_class(name, *expressions):
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}


CLASSES = [a_class("any"), a_class("gpu", f"device.driver == '{DRIVERS[0]}'"), a_class("x", MODEL)]


def a_node(rng, name):
    return make_node(name, labels={"zone": rng.choice("ab")})


def a_slice(rng, number):
    counters = {"memory": {"value": str(rng.randint(1, 3))}}
    driver, pool = rng.choice(DRIVERS), rng.choice(["p", "q", "r"])
    place = rng.choice([{"nodeName": rng.choice(NODES)}] * 4 + [{"allNodes": True}, {"nodeSelector": zone(rng)}])
    spec = {"driver": driver, "pool": {"name": pool, "generation": rng.choice([1, 1, 1, 2])}}
    spec["pool"]["resourceSliceCount"] = rng.randint(1, 3)
    if rng.random() < 0.25:
        spec |= {"sharedCounters": [{"name": "card", "counters": counters}], **(place if rng.random() < 0.8 else {})}
    else:
        spec |= {"devices": [a_device(rng, number, each) for each in range(rng.randint(0, 3))], **place}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"s{number}"}, "spec": spec}


def a_partitioned_card(rng, name, amounts):
    """The two slices of a pool whose devices share counters."""

    def counters():
        return {each: {"value": str(rng.choice(amounts))} for each in "ab"}

    sets = [{"name": "card", "counters": counters()}]
    devices = [a_device(rng, name, each, counters()) for each in range(4)]
    place = rng.choice([{"nodeName": rng.choice(NODES)}, {"allNodes": True}])
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
    for kind, more in (("counters", {"sharedCounters": sets}), ("devices", {"devices": devices})):
        spec = {"driver": DRIVERS[0], "pool": pool, **place, **more}
        yield {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-{kind}"}, "spec": spec}


def zone(rng):
    return {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice("ab")]}]}]
    }


def a_device(rng, number, place, counters=None):
    more = {}
    if counters is None and rng.random() < 0.3:
        counters = {"memory": {"value": str(rng.randint(1, 2))}}
    if counters is not None:
        groups = rng.choice([{}, {}, {"compatibilityGroups": rng.sample("xyz", rng.randint(1, 2))}])
        more["consumesCounters"] = [{"counterSet": "card", "counters": counters, **groups}]
    if rng.random() < 0.2:
        policy = rng.choice([{}, {"requestPolicy": {"default": rng.choice(["1", "1", "-1"])}}])
        more |= {"allowMultipleAllocations": True, "capacity": {"share": {"value": "2", **policy}}}
    if rng.random() < 0.1:
        more["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    attributes = {"model": {"string": rng.choice("xy")}, "slot": {"int": rng.choice([1, 2])}}
    return {"name": f"d{number}-{place}", "attributes": attributes, **more}


def with_lists(rng, document):
    """A slice whose devices have several values of some attributes."""
    for each in document["spec"].get("devices", ()):
        if rng.random() < 0.7:
            each["attributes"]["model"] = {"strings": rng.sample("xyz", rng.randint(1, 3))}
        if rng.random() < 0.7:
            each["attributes"]["slot"] = {"ints": rng.sample([1, 2, 3], rng.randint(1, 3))}
    return document


def a_claim(rng, number):
    """A claim of one of a few shapes, so that cached results are used."""
    shape = random.Random(rng.randint(0, 9))
    exactly = [
        {"deviceClassName": shape.choice(["any", "gpu", "x"]), "count": shape.randint(1, 2)}
        for _ in range(shape.randint(1, 2))
    ]
    if shape.random() < 0.3:
        exactly[-1]["capacity"] = {"requests": {"share": shape.choice(["1", "2", "-1"])}}
    if shape.random() < 0.3:
        exactly[0] |= {"allocationMode": "All"}
        exactly[0].pop("count")
    if shape.random() < 0.5:
        requests = [{"name": f"r{index}", "exactly": each} for index, each in enumerate(exactly)]
    else:
        alternatives = [{"name": f"a{index}", **each} for index, each in enumerate(exactly)]
        requests = [{"name": "r", "firstAvailable": alternatives}]
    for each in exactly:
        if shape.random() < 0.15:
            derived = shape.choice(
                ["device.driver", "device.attributes[device.driver].model", "device.attributes['a'].b"]
            )
            each["derivedAttributes"] = [{"name": "gpu.example.com/model", "expression": derived}]
    constraints = [{shape.choice(KINDS): "gpu.example.com/model"}]
    devices = {"requests": requests, "constraints": constraints[: shape.randint(0, 1)]}
    metadata = {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}}


class World:
    def __init__(self, rng, gates):
        self.rng, self.state, self.in_flight = rng, ClusterState(), {}
        self.lists, self.rules = gates.enabled("DRAListTypeAttributes"), SearchRules.of(gates)
        self.hurried = random.Random(0)
        for document in CLASSES:
            put(self.state, *known(document))
        self.slices = self.state.objects[RESOURCE_SLICE]
        self.claims = self.state.objects[RESOURCE_CLAIM]
        self.allocations = self.claims.view(ClaimAllocations)
        classes = self.state.objects[DEVICE_CLASS]
        slices = self.slices.view(DeviceSlices)
        self.offers = Offers(
            slices, self.allocations, classes, lambda: 0.0, 0.0, self.give_way, rules=self.rules, lists=self.lists
        )
        for name in NODES:
            self.state.set_node(a_node(rng, name))
        for number in range(4):
            self.put(a_slice(rng, number))
            self.put(a_claim(rng, number))

    def give_way(self):
        if self.hurried.random() < 0.3:
            raise GiveWay

    def put(self, document):
        if self.lists and document["kind"] == "ResourceSlice":
            document = with_lists(self.rng, document)
        put(self.state, *known(document))

    def change(self):
        """Make one random change."""
        number = self.rng.randint(0, 5)
        match self.rng.randint(0, 7):
            case 0:
                self.put(a_slice(self.rng, number))
            case 1:
                self.slices.remove(f"s{number}")
            case 2:
                name = self.rng.choice(NODES)
                if self.rng.random() < 0.3:
                    self.state.remove_node(name)
                else:
                    self.state.set_node(a_node(self.rng, name))
            case 3:
                self.end(f"c{number}")
                self.put(a_claim(self.rng, number))
            case 4:
                self.end(f"c{number}")
            case 5:
                for each in a_partitioned_card(self.rng, self.rng.choice("pqs"), [0, 1, 1, 2, 2, -1]):
                    self.put(each)
            case _:
                self.take()

    def end(self, uid):
        self.in_flight.pop(uid, None)
        self.allocations.end(uid)

    def free(self):
        return [
            claim
            for claim in self.claims.values()
            if allocation_of(claim) is None and claim.metadata.uid not in self.in_flight
        ]

    def take(self):
        """Allocate a claim on a random node: in flight, or written at once."""
        claims, nodes = self.free()[:1], self.state.nodes
        positions = np.flatnonzero(nodes.live).tolist()
        if not claims or not positions:
            return
        offer = self.offers.allocation(self.offers.supply(), claims, nodes, self.rng.choice(positions))
        if isinstance(offer, Status):
            return
        uid = claims[0].metadata.uid
        if self.rng.random() < 0.5:
            self.in_flight[uid] = offer[0]
            self.allocations.begin(uid, offer[0])
        else:
            written = convert(type(claims[0]), {"metadata": {"name": uid, "namespace": "default", "uid": uid}})
            written.spec = claims[0].spec
            written.status = typed(RESOURCE_CLAIM, {"metadata": {}, "status": {}}).status
            written.status.allocation = offer[0]
            self.claims.set(f"default/{uid}", written)

    def taken(self):
        """The taken devices, counted from scratch."""
        store = type(self.claims)()
        for key, claim in self.claims.items():
            store.set(key, claim)
        counted = ClaimAllocations(store)
        for uid, allocation in self.in_flight.items():
            counted.begin(uid, allocation)
        return counted.taken()


def pools_of(slices, name, labels, rules):
    """All pools of a node. Its own slices come before those for several nodes."""
    newest = {}
    for each in slices:
        if not (each.targets if rules.places_counters else each.concerns)(name, labels):
            continue
        own = newest.get(each.pool)
        if own is None or each.generation > own[0].generation:
            newest[each.pool] = [each]
        elif each.generation == own[0].generation:
            own.append(each)
    pools = [_pool(pool, own, [each for each in slices if each.pool == pool]) for pool, own in newest.items()]
    return sorted((pool for pool in pools if pool is not None), key=lambda pool: (pool.has_binding_conditions, pool.id))


class Exhaustive(Search):
    """Tries each device, even if it has tried one that is the same."""

    def _compared(self):
        return None


class AllDevices(Reach):
    """All devices are candidates."""

    def candidates(self, criteria, supply):
        return self

    def first(self, number):
        return []

    def after(self, start, required, skip):
        devices = [(device, pool) for pool in self.pools for device in pool.devices]
        for index in range(start[0], len(devices)):
            yield *devices[index], (index + 1, 0)


def uncached(world, claims):
    """The results of an uncached search on every node: devices, or the message."""
    slices = sorted(
        map(Slice, world.slices.values()),
        key=lambda each: (
            (not each.place.node_name, each.name)
            if world.rules.places_counters
            else (bool(each.counter_sets), bool(each.counter_sets) or not each.place.node_name, each.name)
        ),
    )
    taken = world.taken()
    supply = Supply(
        taken,
        world.state.objects[DEVICE_CLASS],
        SELECTORS[world.lists],
        SharedCounters(
            CountersLeft(DeviceSlices(type(world.slices)()), ClaimAllocations(type(world.claims)())), taken, world.rules
        ),
        world.rules,
    )
    found = {}
    for position in np.flatnonzero(world.state.nodes.live).tolist():
        node = world.state.nodes.info(position)
        try:
            reach = AllDevices(
                (), pools_of(slices, node.name, node.labels, world.rules), (), uniform=False, repeatable=False
            )
            granted = Exhaustive(ClaimsOnNode(supply, reach, node.name, node.labels, claims), lambda: None).run()
            results = None if granted is None else [allocation_result(each, node.name, world.rules) for each in granted]
            found[node.name] = "cannot allocate all claims" if results is None else devices(results)
        except (AllocationError, InvalidPools) as problem:
            found[node.name] = str(problem)
    return found


def devices(results):
    return [[(each.request, each.driver, each.device) for each in results_of(result)] for result in results]


def cached(world, claims):
    nodes = world.state.nodes
    while True:
        supply = world.offers.supply()
        try:
            rejections = world.offers.rejections(supply, claims, nodes)
        except GiveWay:
            continue
        break
    found = {}
    for position in np.flatnonzero(nodes.live).tolist():
        index = rejections.index[position]
        offer = world.offers.allocation(supply, claims, nodes, position) if not index else None
        found[nodes.name(position)] = rejections.statuses[index - 1].message if index else devices(offer)
    return found


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(GATES))
def test_cached_results_equal_uncached_ones(seed, gates):
    rng = random.Random(seed)
    world = World(rng, gates)
    for _ in range(12):
        for claims in [[claim] for claim in world.free()[:3]] + [world.free()[:2]]:
            if claims:
                assert cached(world, claims) == uncached(world, claims)
        world.change()
        assert world.allocations.taken().__dict__ == world.taken().__dict__


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(GATES))
def test_searches_skip_pools_without_effect_on_the_result(seed, gates):
    """In 1.36, devices that a constraint rejects still consume counters, for other requests of the same search."""
    rng = random.Random(seed)
    world = World(rng, gates)
    for name in "ghi":
        for each in a_partitioned_card(rng, name, [1, 1, 2, 3]):
            world.put({**each, "spec": {**each["spec"], "nodeName": "n0"}})
    for number in range(3):
        names = [f"r{each}" for each in range(rng.randint(1, 3))]
        requests = [{"name": each, "exactly": {"deviceClassName": "any", "count": rng.randint(1, 2)}} for each in names]
        attributes = [f"gpu.example.com/{rng.choice(['model', 'slot'])}" for _ in range(rng.randint(1, 2))]
        constraints = [
            {rng.choice(KINDS): each, "requests": rng.sample(names, rng.randint(1, len(names)))} for each in attributes
        ]
        devices = {"requests": requests, "constraints": constraints}
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}
        world.put({"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}})
    for _ in range(3):
        for claims in [[claim] for claim in world.free()] + [world.free()[:2]]:
            if claims:
                assert cached(world, claims) == uncached(world, claims)
        world.take()
