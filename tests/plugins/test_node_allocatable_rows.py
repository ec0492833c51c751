"""DynamicResources: the rule for resources of nodes that devices provide decides about all nodes at once as it would
about each one alone.

`Plain` says what one node answers. It reads the documents of slices, and asks a plugin without the gate for devices.
"""

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from claimed_nodes import container, pod
from tests.support.tables import cases

from bayplan.core.api import quantity
from bayplan.core.api.kinds import RESOURCE_SLICE
from bayplan.core.api.node_allocatable import Footprint, claimed_as
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.devices.claims import results_of
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.demand import NodeDemand
from bayplan.core.plugins.dynamic_resources.plugin import DynamicResources
from bayplan.core.plugins.dynamic_resources.provisions import Unknown
from bayplan.core.versions import gates_of
from bayplan.testing import make_node
from bayplan.testing.documents import known, put
from devices import DRIVER, Devices, allocated, claim, device, device_class, first_available, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

GATE = "DRANodeAllocatableResources"
KEY = f"{DRIVER}/amount"
NODES = [f"n{number}" for number in range(1, 7)]
ZONES = dict(zip(NODES, "aabbcc", strict=True))
AMOUNTS = {"cpu": ["100m", "500m", "1", "3"], "memory": ["100Mi", "1Gi", "3Gi"], "hugepages-2Mi": ["2Mi", "4Mi"]}
POOLS = [*NODES, "everywhere", "zone", "mixed"]


def in_zone(name):
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}]}


class World:
    """A random cluster."""

    def __init__(self, seed: int, version: str) -> None:
        self.chance = chance = random.Random(seed)
        self.since_1_37 = version == "1.37"
        self.gates = gates_of(version)
        self.slices = {}
        for pool in POOLS:
            self.renew(pool)
        self.number = 0
        nodes = [
            make_node(
                name,
                cpu=chance.choice("2348"),
                memory=chance.choice(["2Gi", "4Gi", "8Gi"]),
                labels={"zone": zone},
                resources={"hugepages-2Mi": "4Mi"} if chance.random() < 0.7 else {},
            )
            for name, zone in ZONES.items()
        ]
        self.claims = [self.claim(name) for name in "cdefg"]
        objects = [*nodes, *self.slices.values(), *self.claims, device_class()]
        self.cluster = Devices(objects, gates=self.gates.but(GATE))
        handle, args = self.cluster.handle, self.cluster.args
        self.without = DynamicResources(handle, args, gates=self.gates)
        for name in NODES:
            for _ in range(chance.randrange(3)):
                self.cluster.state.assume(self.running(), name)

    def renew(self, pool: str) -> dict:
        """Make the slice of a pool anew."""
        chance = self.chance
        places = {"everywhere": {"allNodes": True}, "zone": {"nodeSelector": in_zone("a")}}
        place = {"perDeviceNodeSelection": True} if pool == "mixed" else places.get(pool, {"nodeName": pool})
        devices = []
        for number in range(chance.choice([0, 1, 2, 3, 3])):
            own = chance.choice([{"nodeName": "n2"}, {"allNodes": True}, {"nodeSelector": in_zone("b")}])
            devices.append(self.device(f"{pool}-{number}", **(own if pool == "mixed" else {})))
        made = self.slices[pool] = resource_slice(f"s-{pool}", *devices, pool=pool, **place)
        return made

    def device(self, name: str, **fields) -> dict:
        chance = self.chance
        provided = {
            resource: self.provided(resource)
            for resource in chance.sample(sorted(AMOUNTS), chance.choice([0, 1, 1, 2]))
        }
        field = "nodeAllocatableResources" if self.since_1_37 else "nodeAllocatableResourceMappings"
        return device(
            name,
            {KEY: "4"},
            a_kind=chance.choice("xy"),
            allowMultipleAllocations=chance.random() < 0.95,
            **{field: provided},
            **fields,
        )

    def provided(self, resource: str) -> dict:
        chance = self.chance
        amount = chance.choice(AMOUNTS[resource])
        key = chance.random() < 0.3
        if not self.since_1_37:
            multiplied = {"allocationMultiplier": amount}
            return {"capacityKey": KEY, **(multiplied if chance.random() < 0.7 else {})} if key else multiplied
        mapping = {"capacityKey": KEY, "capacityMultiplier": amount} if key else {"deviceMultiplier": amount}
        overhead = {
            name: chance.choice(AMOUNTS[resource]) for name in ("perPod", "perContainer") if chance.random() < 0.6
        }
        result = {"overhead": overhead} if overhead else {}
        return {**result, "mapping": mapping} if not result or chance.random() < 0.5 else result

    def claim(self, name: str) -> dict:
        chance = self.chance
        part = {"capacity": {"requests": {KEY: chance.choice("123")}}} if chance.random() < 0.5 else {}
        kinds = [request(kind, expression=f"device.attributes['{DRIVER}'].kind == '{kind}'", **part) for kind in "xy"]
        asked = chance.choice([request(count=chance.choice([1, 1, 2]), **part), first_available(*kinds), kinds[0]])
        if chance.random() < 0.6:
            return claim(name, asked)
        names = [each["name"] for made in self.slices.values() for each in made["spec"]["devices"]] or ["none"]
        results = []
        for chosen in chance.sample(names, min(len(names), chance.choice([1, 2, 3]))):
            consumed = {"consumedCapacity": {KEY: chance.choice("12")}} if chance.random() < 0.9 else {}
            gone = {"device": f"{chosen}-gone"} if chance.random() < 0.05 else {}
            results.append({"device": chosen, "pool": chosen.rpartition("-")[0], **consumed, **gone})
        reserved = chance.choice([[], [], ["uid-p1"], ["uid-else"], ["uid-p0", "uid-p2"]])
        node = chance.choice([None] * 12 + NODES)
        zone = {"nodeSelector": in_zone("b")} if node is None and chance.random() < 0.3 else {}
        return claim(name, asked, status=allocated(*results, node=node, reserved=reserved, **zone))

    def running(self):
        """A pod that is on a node, and may take some of it through a claim."""
        self.number += 1
        made = pod(f"running-{self.number}", cpu=self.chance.choice(["100m", "500m"]), memory="100Mi")
        if self.chance.random() < 0.5:
            return made
        amount = quantity.parse(self.chance.choice(AMOUNTS["cpu"]))
        footprint = Footprint(mapped=(("cpu", amount),), per_pod=(("memory", 2**20 * quantity.NANO),))
        name = self.chance.choice("cdefg")
        return made.with_claimed(
            [claimed_as(name, ["main"], footprint, lambda _, nanos: f"{nanos}n", since_1_37=self.since_1_37)]
        )

    def pending(self, number: int):
        chance = self.chance
        claims = chance.sample("cdefg", chance.choice([1, 1, 2, 3]))
        containers = [
            container(
                name,
                [each for each in claims if chance.random() < 0.8],
                {"cpu": chance.choice(["100m", "1"])},
                {"memory": chance.choice(["1Gi", "4Gi"])} if chance.random() < 0.3 else {},
            )
            for name in ("main", "more")[: chance.choice([1, 2])]
        ]
        level = {"cpu": chance.choice("358"), "memory": "4Gi"} if chance.random() < 0.3 else None
        limits = {"memory": "6Gi", "hugepages-2Mi": "4Mi"} if chance.random() < 0.2 else None
        return pod(f"p{number}", *claims, containers=containers, level=level, limits=limits)

    def nodes(self):
        """The nodes, on some of which pods are hypothetically, or gone."""
        nodes, chance = self.cluster.state.nodes, self.chance
        changes = {}
        for position in range(len(nodes)) if chance.random() < 0.5 else ():
            pods = nodes.pods(position)
            removed = tuple(pods[: chance.choice([0, 0, 1])])
            added = (self.running(),) if chance.random() < 0.3 else ()
            if removed or added:
                changes[position] = PodChanges(added, removed)
        return nodes.changed(changes) if changes else nodes


def serves(place: dict, node: str) -> bool:
    """Whether a slice or a device is for a node."""
    if "nodeName" in place:
        return place["nodeName"] == node
    return bool(place.get("allNodes")) or ("nodeSelector" in place and place["nodeSelector"] == in_zone(ZONES[node]))


def selected(allocation, node: str) -> bool:
    """Whether an allocation can be used on a node."""
    if allocation.nodeSelector is None:
        return True
    values = {"metadata.name": node, "zone": ZONES[node]}
    return any(
        all(values[each.key] in each.values for each in (*(term.matchFields or ()), *(term.matchExpressions or ())))
        for term in allocation.nodeSelector.nodeSelectorTerms
    )


class Plain(NamedTuple):
    """What one node answers about a pod. `cycle` has the state of the plugin without the gate."""

    world: World
    pod: object
    cycle: CycleState

    def answer(self, nodes, position):
        state = self.cycle.data["DynamicResources"]
        node, name = nodes.info(position), nodes.name(position)
        base = self.world.without.filter_nodes(self.cycle, self.pod, nodes.at(np.array([position])))
        given = base.statuses[base.index[0] - 1] if base.index[0] else None
        shared = self.shared(state, node)
        if shared is not None:
            return shared
        if given is not None and "not available" not in given.message:
            return given
        takings = []
        for place, known_claim in enumerate(state.claims):
            allocation = state.allocation(place)
            if allocation is not None and (self.world.since_1_37 or place in state.pending):
                takings.append((known_claim, self.allocated(state, place, name)))
        new = [state.claims[place] for place in state.to_allocate()]
        offered = self.world.without.offered(state, self.pod, name)
        for known_claim, result in zip(new, offered.results, strict=True):
            uses = [(each, self.find(each.pool, each.device)) for each in results_of(result)]
            takings.append((known_claim, self.sum(uses)))
        return self.fits(takings, node) or given

    def shared(self, state, node):
        for place, known_claim in enumerate(state.claims):
            allocation = state.allocation(place)
            if allocation is None or not selected(allocation, node.name):
                continue
            name = known_claim.metadata.name
            subject = f"node allocatable resource claim {name}"
            if self.world.since_1_37:
                devices = [self.find(each.pool, each.device) for each in results_of(allocation)]
                provided = [
                    one for each in devices if each for one in each.get("nodeAllocatableResources", {}).values()
                ]
                reserved = [each.uid for each in (known_claim.status and known_claim.status.reservedFor) or ()]
                others = (reserved and self.pod.uid not in reserved) or place in state.pending
                if others and any("mapping" in each for each in provided):
                    return Status.unresolvable(f"{subject} has a mapped device and cannot be shared across pods")
            elif place not in state.pending:
                users = {each.uid for each in node.pods if name in each.counted_claims}
                if len(users) > 1:
                    return Status.unresolvable(f"{subject} shared by multiple pods")
                if users and self.pod.uid not in users:
                    return Status.unresolvable(f"{subject} is already used by another pod")
        return None

    def find(self, pool, name):
        """A device by the names of its pool and itself."""
        devices = self.world.slices[pool]["spec"]["devices"] if pool in self.world.slices else ()
        return next((each for each in devices if each["name"] == name), None)

    def allocated(self, state, place, node):
        """What an allocated claim takes of a node."""
        allocation = state.allocation(place)
        if not self.world.since_1_37:
            return self.sum((each, self.find(each.pool, each.device)) for each in results_of(allocation))
        if not selected(allocation, node):
            return None
        uses, provides = [], False
        for each in results_of(allocation):
            spec, found = self.world.slices.get(each.pool, {}).get("spec", {}), self.find(each.pool, each.device)
            per_device = spec.get("perDeviceNodeSelection")
            subject = f"device {each.device}, driver {DRIVER}: device {each.device}"
            wrong = None
            if found is None or not (per_device or serves(spec, node)):
                wrong = f"{subject} not found in pool {each.pool} for driver {DRIVER}"
            elif per_device and not serves(found, node):
                wrong = f"{subject} does not match node"
            else:
                provides |= bool(found.get("nodeAllocatableResources"))
            uses.append((each, wrong or found))
        return self.sum(uses) if provides else None

    def sum(self, uses):
        """What a claim takes with devices, or why that can't be told."""
        totals = Counter(), Counter(), Counter()
        for result, found in uses:
            if isinstance(found, str):
                return Unknown(found)
            field = "nodeAllocatableResources" if self.world.since_1_37 else "nodeAllocatableResourceMappings"
            for resource, provided in ((found or {}).get(field) or {}).items():
                mapping = provided.get("mapping", {}) if self.world.since_1_37 else provided
                times = mapping.get("deviceMultiplier") or mapping.get("capacityMultiplier")
                times = times or mapping.get("allocationMultiplier")
                amount = quantity.parse(times) if times else None
                if "capacityKey" in mapping:
                    if not result.consumedCapacity:
                        return Unknown(
                            f"device {result.device}: ConsumedCapacity is nil, but Capacity key '{KEY}' is set in "
                            f"N{field[1:]} for resource {resource}"
                        )
                    consumed = quantity.parse(str(result.consumedCapacity[KEY]))
                    amount = consumed if amount is None else -(-consumed * amount // quantity.NANO)
                overhead = provided.get("overhead", {})
                per_pod, per_container = overhead.get("perPod"), overhead.get("perContainer")
                amounts = amount, *(quantity.parse(each) if each else None for each in (per_pod, per_container))
                for total, more in zip(totals, amounts, strict=True):
                    if more is not None:
                        total[resource] += more
        found = Footprint(*(tuple(sorted(total.items())) for total in totals))
        return found if any(found) else None

    def fits(self, takings, node):
        demand = NodeDemand(self.pod, since_1_37=self.world.since_1_37)
        taken = demand.taken(takings)
        if isinstance(taken, Status):
            return taken
        if not taken:
            return None
        problem = demand.problem(taken)
        if problem is not None:
            return problem
        wanted = demand.with_taken(taken)
        names = [
            "cpu",
            "memory",
            "ephemeral-storage",
            *sorted(name for name in wanted if name.startswith("hugepages-")),
        ]
        lacking = []
        for name in names:
            amount = wanted.get(name, 0)
            free = node.allocatable_of(name) - sum(each.requested.get(name, 0) for each in node.pods)
            if amount > free and (amount > 0 or name.startswith("hugepages-")):
                lacking.append((f"Insufficient {name}", amount > node.allocatable_of(name)))
        if not lacking:
            return None
        reasons = [reason for reason, _ in lacking]
        never = any(hopeless for _, hopeless in lacking)
        return Status.unresolvable(*reasons) if never else Status.unschedulable(*reasons)


def state_after(plugin, pod, world, gang):
    """PreFilter's state, or its rejection."""
    cycle = CycleState()
    if gang is not None:
        cycle.data[PLACED_WITH] = gang
    return cycle, plugin.pre_filter(cycle, pod, world.cluster.state.nodes)


COMMON = [
    "Insufficient cpu",
    "Insufficient cpu, Insufficient memory, Insufficient hugepages-2Mi",
    "Insufficient hugepages-2Mi",
    "Insufficient memory",
    "cannot allocate all claims",
    "resourceclaim not available on the node",
    "ConsumedCapacity is nil",
    "pod level request for memory is insufficient",
]
IN_1_36 = ["shared by multiple pods", "already used by another pod", "not referenced by any container"]
SINCE_1_37 = [
    "cannot be shared across pods",
    "not found in pool",
    "does not match node",
    "pod level limit for hugepages-2Mi is insufficient",
    "pod level limit for memory is insufficient",
]


@cases("version, kinds", {"1.36": ("1.36", COMMON + IN_1_36), "1.37": ("1.37", COMMON + SINCE_1_37)})
def test_rows_answer_as_single_nodes_do(version, kinds):
    """All kinds of answers occur."""
    seen = [message for seed in range(40) for message in answers_in(World(seed, version), seed)]
    assert "" in seen
    assert [kind for kind in kinds if not any(kind in message for message in seen)] == []


def answers_in(world, seed):
    """Compare the answers about some pods, with changes in between. Yields the messages, "" for nodes that fit."""
    chance, plugin, gang = world.chance, world.cluster.plugin, Gang("default/g", (), 0)
    for number in range(8):
        member = gang if chance.random() < 0.7 else None
        asking = world.pending(number)
        nodes = world.nodes()
        cycle, rejection = state_after(plugin, asking, world, member)
        plain_cycle, plain_rejection = state_after(world.without, asking, world, member)
        assert rejection == plain_rejection
        if rejection is None:
            plain = Plain(world, asking, plain_cycle)
            rejections = plugin.filter_nodes(cycle, asking, nodes)
            found = [rejections.statuses[index - 1] if index else None for index in rejections.index.tolist()]
            assert found == [plain.answer(nodes, position) for position in range(len(nodes))], (seed, number)
            yield from ("" if each is None else each.message for each in found)
            fitting = [nodes.name(position) for position, each in enumerate(found) if each is None]
            if fitting and chance.random() < 0.6:
                node = chance.choice(fitting)
                assumed = assumed_as(cycle, asking, node)
                assert plugin.reserve(cycle, assumed, node) is None
                world.cluster.state.assume(assumed, node)
        if chance.random() < 0.5:
            put(world.cluster.state, *known(world.renew(chance.choice(POOLS))))
        if world.slices and chance.random() < 0.1:
            gone = world.slices.pop(chance.choice(sorted(world.slices)))
            world.cluster.state.objects[RESOURCE_SLICE].remove(gone["metadata"]["name"])
