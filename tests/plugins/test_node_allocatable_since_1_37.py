"""DynamicResources: resources of nodes that devices provide or need, in the form of Kubernetes 1.37.

The cases are those of upstream's nodeallocatabledynamicresources_test.go.
"""

import pytest
from claimed_nodes import BOTH, NOT_SHARED, container, each, needs, place, pod, provider, taken, world
from tests.support.tables import cases

from bayplan.core.versions import gates_of
from devices import DRIVER, claim, device, first_available, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

ON = gates_of("1.37").but("DRANodeAllocatableResources")
KEY = f"{DRIVER}/amount"
C, P = claim("c", request()), pod("p", "c")


def giving(**amounts):
    return provider(resources=each(**amounts))


def costing(**overhead):
    return provider(resources=needs(**overhead))


def by_capacity(resource="cpu", times="1", value="8"):
    """A shared device, of whose capacity claims take parts."""
    mapping = {resource: {"mapping": {"capacityKey": KEY, "capacityMultiplier": times}}}
    return provider(capacity={KEY: value}, resources=mapping, allowMultipleAllocations=True)


def part(amount):
    return request(capacity={"requests": {KEY: amount}})


def mapped(*containers, **amounts):
    return {"c": (list(containers or ("main",)), amounts, {})}


def overhead(*containers, per_pod=None, per_container=None):
    return {"c": (list(containers), {}, {"memory": (per_pod, per_container)})}


USERS = [container("c1", ["c"]), container("c2", ["c"])]
LOW = "pod level request for {} is insufficient to cover the aggregated container and node-allocatable DRA requests"
LOW_LIMIT = "pod level limit for {} is insufficient to cover the limit and DRA overhead for container {}"
LOW_PAGES = (
    "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and "
    "node-allocatable DRA limits"
)
NIL = (
    f'running "DynamicResources" filter plugin: claim default/c, device a: ConsumedCapacity is nil, but Capacity key '
    f"'{KEY}' is set in NodeAllocatableResources for resource cpu"
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
        "a mapping": case(giving(cpu="1"), then=[mapped(cpu="1")]),
        "several resources": case(
            giving(cpu="2", memory="4Gi"),
            pods=[pod("p", "c", cpu="100m", memory="100Mi")],
            then=[mapped(cpu="2", memory="4Gi")],
        ),
        "several devices": case(
            provider("a", resources=each(cpu="1")),
            provider("b", resources=each(cpu="2")),
            claims=[claim("c", request(count=2))],
            pods=[P, pod("q", cpu="1"), pod("r", cpu="1m")],
            then=[mapped(cpu="3"), {}, "Insufficient cpu"],
        ),
        "a capacity": case(
            by_capacity(),
            claims=[claim("c", part("3"))],
            pods=[P, pod("q", cpu="2")],
            then=[mapped(cpu="3"), "Insufficient cpu"],
        ),
        "a capacity times a number": case(
            by_capacity(times="2"), claims=[claim("c", part("2"))], then=[mapped(cpu="4")]
        ),
        "a capacity that isn't consumed": case(
            provider(
                capacity={KEY: "8"}, resources={"cpu": {"mapping": {"capacityKey": KEY, "capacityMultiplier": "1"}}}
            ),
            then=[NIL],
        ),
        "another capacity than the one consumed": case(
            provider(
                capacity={KEY: "8"},
                resources={"cpu": {"mapping": {"capacityKey": "wrong", "capacityMultiplier": "1"}}},
                allowMultipleAllocations=True,
            ),
            claims=[claim("c", part("4"))],
            pods=[pod("p", "c", cpu="4")],
            then=[{}],
        ),
        "the preferred alternative provides nothing": case(
            device("a", a_kind="gpu"),
            provider("b", resources=each(cpu="8"), a_kind="cpu"),
            claims=[GPU_OR_CPU],
            pods=[pod("p", "c", cpu="1")],
            then=[{}],
        ),
        "only the other alternative is there": case(
            provider("b", resources=each(cpu="3"), a_kind="cpu"),
            claims=[GPU_OR_CPU],
            pods=[pod("p", "c", cpu="1")],
            then=[mapped(cpu="3")],
        ),
        "several containers": case(
            giving(cpu="3"),
            pods=[pod("p", "c", containers=USERS), pod("q", cpu="2")],
            then=[mapped("c1", "c2", cpu="3"), "Insufficient cpu"],
        ),
        "no container uses the claim": case(
            giving(cpu="3"),
            pods=[pod("p", "c", refers=False), pod("q", cpu="2")],
            then=[{"c": ([], {"cpu": "3"}, {})}, "Insufficient cpu"],
        ),
        "overhead": case(
            costing(**BOTH),
            pods=[P, pod("q", memory="6656Mi"), pod("r", memory="12Mi"), pod("s", memory="1Mi")],
            then=[overhead("main", per_pod="1Gi", per_container="500Mi"), {}, {}, "Insufficient memory"],
        ),
        "overhead for pods": case(costing(perPod="1Gi"), then=[overhead("main", per_pod="1Gi")]),
        "overhead for containers": case(
            costing(perContainer="4Gi"),
            pods=[pod("p", "c", containers=USERS), pod("q", memory="1")],
            then=[overhead("c1", "c2", per_container="4Gi"), "Insufficient memory"],
        ),
        "overhead that no container uses": case(
            costing(**BOTH),
            pods=[pod("p", "c", refers=False), pod("q", memory="7Gi"), pod("r", memory="1")],
            then=[overhead(per_pod="1Gi", per_container="500Mi"), {}, "Insufficient memory"],
        ),
        "overhead of several devices": case(
            provider("a", resources=needs(perPod="1Gi")),
            provider("b", resources=needs(**BOTH)),
            claims=[claim("c", request(count=2))],
            then=[overhead("main", per_pod="2Gi", per_container="500Mi")],
        ),
        "a mapping and overhead of the same resource": case(
            provider(resources={"memory": {"mapping": {"deviceMultiplier": "2Gi"}, "overhead": BOTH}}),
            pods=[P, pod("q", memory="4620Mi"), pod("r", memory="1Mi")],
            then=[{"c": (["main"], {"memory": "2Gi"}, {"memory": ("1Gi", "500Mi")})}, {}, "Insufficient memory"],
        ),
        "two claims": case(
            provider("a", resources=each(cpu="2")),
            provider("b", resources=needs(perPod="1Gi")),
            claims=[claim("c", request(expression="device.capacity.size() == 0")), claim("d", request())],
            pods=[pod("p", "c", "d")],
            then=[{**mapped(cpu="2"), "d": (["main"], {}, {"memory": ("1Gi", None)})}],
        ),
        "a mapped device is for one pod": case(
            giving(cpu="1"), pods=[P, pod("q", "c")], then=[mapped(cpu="1"), NOT_SHARED]
        ),
        "a device with both is for one pod": case(
            provider(resources={"memory": {"mapping": {"deviceMultiplier": "1Gi"}, "overhead": BOTH}}),
            pods=[pod("p", "c", refers=False), pod("q", "c")],
            then=[{"c": ([], {"memory": "1Gi"}, {"memory": ("1Gi", "500Mi")})}, NOT_SHARED],
        ),
        "overhead counts for each pod that shares the claim": case(
            costing(perPod="4Gi"),
            pods=[P, pod("q", "c"), pod("r", "c")],
            then=[overhead("main", per_pod="4Gi"), overhead("main", per_pod="4Gi"), "Insufficient memory"],
        ),
        "pod level requests are enough": case(
            costing(perPod="1Gi", perContainer="1Gi"),
            pods=[pod("p", "c", level={"cpu": "2", "memory": "3Gi"}, cpu="1", memory="1Gi")],
            then=[overhead("main", per_pod="1Gi", per_container="1Gi")],
        ),
        "pod level requests are too low": case(
            costing(perPod="1Gi", perContainer="1Gi"),
            pods=[pod("p", "c", level={"cpu": "2", "memory": "2Gi"}, cpu="1", memory="1Gi")],
            then=[LOW.format("memory")],
        ),
        "pod level requests are too low for a mapping": case(
            giving(cpu="300m"), pods=[pod("p", "c", level={"cpu": "1"}, cpu="800m")], then=[LOW.format("cpu")]
        ),
        "a pod level limit is enough": case(
            costing(perContainer="512Mi"),
            pods=[
                pod("p", "c", limits={"memory": "2Gi"}, containers=[container("c1", ["c"], limits={"memory": "1Gi"})])
            ],
            then=[overhead("c1", per_container="512Mi")],
        ),
        "a pod level limit is too low": case(
            costing(perContainer="1Gi"),
            pods=[
                pod("p", "c", limits={"memory": "2Gi"}, containers=[container("c1", ["c"], limits={"memory": "1.5Gi"})])
            ],
            then=[LOW_LIMIT.format("memory", "c1")],
        ),
        "a limit of each container alone": case(
            costing(perContainer="512Mi"),
            pods=[
                pod(
                    "p",
                    "c",
                    limits={"memory": "4Gi"},
                    containers=[container(name, ["c"], limits={"memory": "3Gi"}) for name in ("c1", "c2")],
                )
            ],
            then=[overhead("c1", "c2", per_container="512Mi")],
        ),
        "a pod level limit that no container has": case(
            costing(perContainer="1Gi"),
            pods=[pod("p", "c", limits={"memory": "512Mi"})],
            then=[overhead("main", per_container="1Gi")],
        ),
        "a pod level limit of huge pages is too low": case(
            giving(**{"hugepages-2Mi": "4Mi"}), pods=[pod("p", "c", limits={"hugepages-2Mi": "2Mi"})], then=[LOW_PAGES]
        ),
    },
)
def test_what_claims_take_of_nodes(devices, claims, pods, expected):
    cluster = world(*devices, claims=claims, gates=ON)
    assert [taken(place(cluster, one)) for one in pods] == expected


@cases("gates", {"without the gate": gates_of("1.37"), "in 1.36": gates_of("1.36").but("DRANodeAllocatableResources")})
def test_elsewhere_the_form_has_no_effect(gates):
    cluster = world(giving(cpu="8"), claims=[C], gates=gates)
    assert place(cluster, pod("p", "c", cpu="4")) == {}


def test_the_form_of_1_36_has_no_effect():
    mappings = {"cpu": {"allocationMultiplier": "8"}}
    cluster = world(device("a", nodeAllocatableResourceMappings=mappings), claims=[C], gates=ON)
    assert place(cluster, pod("p", "c", cpu="4")) == {}


def test_the_driver_tells_devices_with_the_same_pool_and_name_apart():
    other = resource_slice("0", giving(cpu="1"), node="n1", driver="other.example.com")
    cluster = world(giving(cpu="3"), claims=[C], gates=ON, extra=[other])
    assert taken(place(cluster, pod("p", "c"))) == mapped(cpu="3")


def test_rejections_are_explained():
    cluster = world(costing(perContainer="3Gi"), claims=[claim("c", request())], gates=ON)
    place(cluster, pod("q", memory="6Gi"))
    decision = cluster.decide(pod("p", "c"))
    plugin = next(one for one in cluster.profile.every() if one.name == "DynamicResources")
    details = plugin.explain(decision.cycle, pod("p", "c"), cluster.state.nodes.info(0))
    assert details.text == "with what its claims take of the node, it needs 3Gi memory; n1 has 2Gi of 8Gi free"
