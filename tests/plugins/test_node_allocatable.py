"""DynamicResources: resources of nodes that devices provide, with the gate DRANodeAllocatableResources.

The cases mirror upstream's nodeallocatabledynamicresources_test.go. Messages, nodes and statuses are those of
kube-scheduler 1.36.2 with the gate.
"""

import pytest
from claimed_nodes import place, pod, world
from tests.support.tables import cases

from bayplan.core.api.kinds import POD
from bayplan.core.api.node_allocatable import ClaimedResources
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.status import Code
from bayplan.core.versions import DEFAULT_GATES
from bayplan.testing import make_node
from bayplan.testing.documents import known, put
from bayplan.testing.in_memory import InMemoryClient, load
from bayplan_devcluster.apiserver import ApiServer, Fault
from devices import DRIVER, Devices, claim, device, device_class, first_available, request, resource_slice, settled

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

ON = DEFAULT_GATES.but("DRANodeAllocatableResources")
KEY = f"{DRIVER}/amount"


def fixed(**amounts):
    return {name: {"allocationMultiplier": amount} for name, amount in amounts.items()}


def provider(name="a", capacity=None, *, mapping, **fields):
    """A device that provides resources of its node."""
    return device(name, capacity, nodeAllocatableResourceMappings=mapping, **fields)


def giving(**amounts):
    return provider(mapping=fixed(**amounts))


def by_capacity(value, resource="cpu", multiplier=None, policy=None):
    """A shared device, of whose capacity claims take parts."""
    mapping = {resource: {"capacityKey": KEY, **({"allocationMultiplier": multiplier} if multiplier else {})}}
    amount = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return provider(capacity={KEY: amount}, mapping=mapping, allowMultipleAllocations=True)


def part(amount):
    return request(capacity={"requests": {KEY: amount}})


def taken(**resources):
    return {"c": (["main"], resources)}


def placed(cluster, each):
    """Place a pod. Returns the containers and resources of each claim, or the message of its rejection."""
    found = place(cluster, each)
    return found if isinstance(found, str) else {name: (one.containers, one.resources) for name, one in found.items()}


C, P = claim("c", request()), pod("p", "c")
UNUSED = "node-allocatable resource claim not referenced by any container within the pod"
NEEDS_AMOUNT = (
    f'running "DynamicResources" filter plugin: claim default/c, device a: ConsumedCapacity is nil, but Capacity key '
    f"'{KEY}' is set in NodeAllocatableResourceMappings for resource cpu"
)
TOO_LOW = (
    "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
)
GPU_OR_CPU = claim(
    "c",
    first_available(
        request("gpu", expression=f"device.attributes['{DRIVER}'].kind == 'gpu'"),
        request("cpu", expression=f"device.attributes['{DRIVER}'].kind == 'cpu'"),
    ),
)


def case(*devices, claims=(C,), pods=(P,), then):
    """Devices, claims, pods, and what each pod is told; by default, there is one pod with a claim for any device."""
    return devices, claims, pods, then


@cases(
    "devices, claims, pods, expected",
    {
        "a fixed amount": case(giving(cpu="2"), then=[taken(cpu="2")]),
        "several resources": case(giving(cpu="500m", memory="4Gi"), then=[taken(cpu="500m", memory="4Gi")]),
        "several devices": case(
            provider("a", mapping=fixed(cpu="1")),
            provider("b", mapping=fixed(cpu="2")),
            claims=[claim("c", request(count=2))],
            pods=[P, pod("q", cpu="1"), pod("r", cpu="1m")],
            then=[taken(cpu="3"), {}, "Insufficient cpu"],
        ),
        "with the requests of containers": case(
            giving(cpu="2"),
            pods=[pod("p", "c", cpu="1"), pod("q", cpu="1500m"), pod("r", cpu="1")],
            then=[taken(cpu="2"), "Insufficient cpu", {}],
        ),
        "beside other pods": case(giving(cpu="2"), pods=[pod("q", cpu="3"), P], then=[{}, "Insufficient cpu"]),
        "several are insufficient": case(
            giving(cpu="5", memory="9Gi"), then=["Insufficient cpu, 1 Insufficient memory"]
        ),
        "huge pages": case(giving(**{"hugepages-2Mi": "4Mi"}), then=["Insufficient hugepages-2Mi"]),
        "a part of a capacity": case(
            by_capacity("8"),
            claims=[claim("c", part("3")), claim("d", part("2"))],
            pods=[P, pod("q", "d"), pod("r", cpu="1")],
            then=[taken(cpu="3"), "Insufficient cpu", {}],
        ),
        "a capacity times a number": case(
            by_capacity("8Gi", "memory", "1.5"),
            claims=[claim("c", part("4Gi"))],
            pods=[P, pod("q", memory="3Gi")],
            then=[taken(memory="6Gi"), "Insufficient memory"],
        ),
        "a capacity that isn't consumed": case(
            provider(capacity={KEY: "8"}, mapping={"cpu": {"capacityKey": KEY}}), then=[NEEDS_AMOUNT]
        ),
        "another capacity than the one consumed": case(
            provider(
                capacity={KEY: "8", f"{DRIVER}/other": "8"},
                mapping={"cpu": {"capacityKey": "other"}},
                allowMultipleAllocations=True,
            ),
            claims=[claim("c", part("4"))],
            pods=[pod("p", "c", cpu="4")],
            then=[{}],
        ),
        "no container uses the claim": case(
            giving(cpu="2"), pods=[pod("p", "c", refers=False)], then=[f"claim c: {UNUSED}"]
        ),
        "the claim of another pod": case(
            giving(cpu="1"),
            pods=[P, pod("q", "c")],
            then=[taken(cpu="1"), "node allocatable resource claim c is already used by another pod"],
        ),
        "enough at pod level": case(
            giving(cpu="2"),
            pods=[pod("p", "c", cpu="1", level={"cpu": "3"}), pod("q", cpu="2")],
            then=[taken(cpu="2"), "Insufficient cpu"],
        ),
        "too little at pod level": case(
            giving(cpu="2"), pods=[pod("p", "c", cpu="1", level={"cpu": "2"})], then=[TOO_LOW]
        ),
        "another resource at pod level": case(
            giving(cpu="2"),
            pods=[pod("p", "c", level={"memory": "1Gi"}), pod("q", cpu="3")],
            then=[taken(cpu="2"), "Insufficient cpu"],
        ),
        "two claims": case(
            provider("a", mapping=fixed(cpu="2")),
            provider("b", mapping=fixed(cpu="500m")),
            claims=[C, claim("d", request())],
            pods=[pod("p", "c", "d"), pod("q", cpu="2")],
            then=[{"c": (["main"], {"cpu": "2"}), "d": (["main"], {"cpu": "500m"})}, "Insufficient cpu"],
        ),
        "only the preferred alternative is looked at": case(
            provider("a", mapping=fixed(cpu="8"), a_kind="gpu"),
            provider("b", mapping=fixed(cpu="1"), a_kind="cpu"),
            claims=[GPU_OR_CPU],
            then=["Insufficient cpu"],
        ),
        "an alternative that provides nothing": case(
            device("a", a_kind="gpu"),
            provider("b", mapping=fixed(cpu="8"), a_kind="cpu"),
            claims=[GPU_OR_CPU],
            pods=[pod("p", "c", cpu="4")],
            then=[{}],
        ),
    },
)
def test_what_claims_take_of_nodes(devices, claims, pods, expected):
    cluster = world(*devices, claims=claims, gates=ON)
    assert [placed(cluster, each) for each in pods] == expected


def test_claims_take_nothing_without_the_gate():
    cluster = world(giving(cpu="8"), claims=[C], gates=DEFAULT_GATES)
    assert [placed(cluster, each) for each in (pod("p", "c", refers=False), pod("q", "c", cpu="4"))] == [{}, {}]


def status(name, **resources):
    return ClaimedResources(resourceClaimName=name, containers=["main"], resources=resources)


def test_pods_count_with_what_their_status_says():
    counted = pod("p", "c", cpu="1").with_claimed([status("c", cpu="2", memory="1Gi"), status("d", cpu="500m")])
    assert (counted.requested, counted.counted_claims) == ({"cpu": 3500, "memory": 2**30}, ("c", "d"))
    assert (counted.nonzero_cpu, counted.nonzero_memory) == (3500, 2**30 + 200 * 2**20)
    assumed = counted.on_node("n1")
    assert PodInfo.from_raw(assumed.raw).requested == assumed.requested == counted.requested


def test_a_pod_that_is_gone_gives_back_what_its_claims_took():
    cluster = world(giving(cpu="4"), claims=[C], gates=ON)
    placed(cluster, pod("p", "c"))
    assert placed(cluster, pod("q", cpu="1")) == "Insufficient cpu"
    cluster.state.forget("uid-p")
    assert placed(cluster, pod("q", cpu="1")) == {}


def test_two_pods_that_share_a_claim_keep_others_out():
    cluster = world(giving(cpu="1"), claims=[C], gates=ON)
    placed(cluster, pod("p", "c"))
    cluster.state.assume(pod("q", "c").with_claimed([status("c", cpu="1")]), "n1")
    assert placed(cluster, pod("r", "c")) == "node allocatable resource claim c shared by multiple pods"


def test_a_changed_slice_counts_at_once():
    cluster = world(giving(cpu="8"), claims=[C], gates=ON)
    assert placed(cluster, pod("p", "c")) == "Insufficient cpu"
    put(cluster.state, *known(resource_slice("s", giving(cpu="3"), node="n1")))
    assert placed(cluster, pod("p", "c")) == taken(cpu="3")


@cases(
    "earlier, expected",
    {
        "insufficient": (
            pod("q", cpu="3"),
            "with what its claims take of the node, it needs 2 cpu; n1 has 1 of 4 free",
        ),
        "shared": (pod("q", "c"), "node allocatable resource claim c is already used by another pod"),
    },
)
def test_rejections_are_explained(earlier, expected):
    cluster = world(giving(cpu="2"), claims=[claim("c", request())], gates=ON)
    placed(cluster, earlier)
    decision = cluster.decide(pod("p", "c"))
    plugin = next(each for each in cluster.profile.every() if each.name == "DynamicResources")
    assert plugin.explain(decision.cycle, pod("p", "c"), cluster.state.nodes.info(0)).text == expected


def test_a_status_of_an_earlier_attempt_does_not_count():
    cluster = world(giving(cpu="2"), claims=[C], gates=ON)
    again = pod("p", "c").with_claimed([status("d", cpu="1")])
    placed(cluster, again)
    assert cluster.state.pod("uid-p").requested == {"cpu": 2000}


async def bound(fault=None):
    """Assume and bind a pod whose claim takes cpu. Returns the cluster, its client, the pod and the outcome."""
    each = pod("p", "c", cpu="1")
    objects = [device_class(), resource_slice("s", giving(cpu="2"), node="n1"), claim("c", request())]
    client = InMemoryClient(ApiServer(address=None, alpha=True, gates=ON))
    load(client.server, *objects, each)
    if fault is not None:
        client.server.faults.add(fault)
    cluster = Devices([make_node("n1", cpu="4"), *objects], client, gates=ON)
    assert cluster.ask(each) is None
    assumed = assumed_as(cluster.cycle, each, "n1")
    assert cluster.plugin.reserve(cluster.cycle, assumed, "n1") is None
    return cluster, client, assumed, await cluster.plugin.pre_bind(cluster.cycle, assumed, "n1")


async def statuses_on_server(client):
    stored = await client.get(POD, "p", "default")
    return [
        (each.resourceClaimName, each.containers, each.resources)
        for each in stored.status.nodeAllocatableResourceClaimStatuses or ()
    ]


async def test_what_claims_take_is_written_before_the_binding_and_cleared_after_a_failure():
    cluster, client, assumed, outcome = await bound()
    assert outcome is None
    assert await statuses_on_server(client) == [("c", ["main"], {"cpu": "2"})]
    read_again = PodInfo.from_raw(encode(await client.get(POD, "p", "default")))
    assert read_again.requested == assumed.requested == {"cpu": 3000}
    cluster.plugin.unreserve(cluster.cycle, assumed, "n1")
    await settled(cluster)
    assert await statuses_on_server(client) == []


async def test_a_status_that_cannot_be_written_fails_the_binding():
    refused = {"answer": 403, "reason": "Forbidden", "message": "no"}
    _, client, _, outcome = await bound(Fault(verb="patch", resource="pods", **refused))
    assert (outcome.code, outcome.message) == (
        Code.ERROR,
        "updating pod default/p NodeAllocatableResourceClaimStatuses: no",
    )
    assert await statuses_on_server(client) == []
