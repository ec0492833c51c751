"""DynamicResources: resources of nodes that devices provide or need, in the form of Kubernetes 1.37.

The cases are those of upstream's nodeallocatabledynamicresources_test.go.
"""

import pytest
from claimed_nodes import BOTH, NOT_SHARED, container, each, needs, place, pod, provider, taken, world
from tests.support.tables import cases

from bayplan.versions import gates_of
from devices import (
    DRIVER,
    claim,
    device,
    first_available,
    request,
    resource_slice,
)

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

ON = gates_of("1.37").but("DRANodeAllocatableResources")
KEY = f"{DRIVER}/amount"
C = claim("c", request())


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


@cases(
    "devices, claims, pods, expected",
    {
        "a mapping": ([provider(resources=each(cpu="1"))], [C], [pod("p", "c")], [mapped(cpu="1")]),
        "several resources": (
            [provider(resources=each(cpu="2", memory="4Gi"))],
            [C],
            [pod("p", "c", cpu="100m", memory="100Mi")],
            [mapped(cpu="2", memory="4Gi")],
        ),
        "several devices": (
            [provider("a", resources=each(cpu="1")), provider("b", resources=each(cpu="2"))],
            [claim("c", request(count=2))],
            [pod("p", "c"), pod("q", cpu="1"), pod("r", cpu="1m")],
            [mapped(cpu="3"), {}, "Insufficient cpu"],
        ),
        "a capacity": (
            [by_capacity()],
            [claim("c", part("3"))],
            [pod("p", "c"), pod("q", cpu="2")],
            [mapped(cpu="3"), "Insufficient cpu"],
        ),
        "a capacity times a number": (
            [by_capacity(times="2")],
            [claim("c", part("2"))],
            [pod("p", "c")],
            [mapped(cpu="4")],
        ),
        "a capacity that isn't consumed": (
            [
                provider(
                    capacity={KEY: "8"}, resources={"cpu": {"mapping": {"capacityKey": KEY, "capacityMultiplier": "1"}}}
                )
            ],
            [C],
            [pod("p", "c")],
            [NIL],
        ),
        "another capacity than the one consumed": (
            [
                provider(
                    capacity={KEY: "8"},
                    resources={"cpu": {"mapping": {"capacityKey": "wrong", "capacityMultiplier": "1"}}},
                    allowMultipleAllocations=True,
                )
            ],
            [claim("c", part("4"))],
            [pod("p", "c", cpu="4")],
            [{}],
        ),
        "the preferred alternative provides nothing": (
            [device("a", a_kind="gpu"), provider("b", resources=each(cpu="8"), a_kind="cpu")],
            [GPU_OR_CPU],
            [pod("p", "c", cpu="1")],
            [{}],
        ),
        "only the other alternative is there": (
            [provider("b", resources=each(cpu="3"), a_kind="cpu")],
            [GPU_OR_CPU],
            [pod("p", "c", cpu="1")],
            [mapped(cpu="3")],
        ),
        "several containers": (
            [provider(resources=each(cpu="3"))],
            [C],
            [pod("p", "c", containers=USERS), pod("q", cpu="2")],
            [mapped("c1", "c2", cpu="3"), "Insufficient cpu"],
        ),
        "no container uses the claim": (
            [provider(resources=each(cpu="3"))],
            [C],
            [pod("p", "c", refers=False), pod("q", cpu="2")],
            [{"c": ([], {"cpu": "3"}, {})}, "Insufficient cpu"],
        ),
        "overhead": (
            [provider(resources=needs(**BOTH))],
            [C],
            [pod("p", "c"), pod("q", memory="6656Mi"), pod("r", memory="12Mi"), pod("s", memory="1Mi")],
            [overhead("main", per_pod="1Gi", per_container="500Mi"), {}, {}, "Insufficient memory"],
        ),
        "overhead for pods": (
            [provider(resources=needs(perPod="1Gi"))],
            [C],
            [pod("p", "c")],
            [overhead("main", per_pod="1Gi")],
        ),
        "overhead for containers": (
            [provider(resources=needs(perContainer="4Gi"))],
            [C],
            [pod("p", "c", containers=USERS), pod("q", memory="1")],
            [overhead("c1", "c2", per_container="4Gi"), "Insufficient memory"],
        ),
        "overhead that no container uses": (
            [provider(resources=needs(**BOTH))],
            [C],
            [pod("p", "c", refers=False), pod("q", memory="7Gi"), pod("r", memory="1")],
            [overhead(per_pod="1Gi", per_container="500Mi"), {}, "Insufficient memory"],
        ),
        "overhead of several devices": (
            [provider("a", resources=needs(perPod="1Gi")), provider("b", resources=needs(**BOTH))],
            [claim("c", request(count=2))],
            [pod("p", "c")],
            [overhead("main", per_pod="2Gi", per_container="500Mi")],
        ),
        "a mapping and overhead of the same resource": (
            [provider(resources={"memory": {"mapping": {"deviceMultiplier": "2Gi"}, "overhead": BOTH}})],
            [C],
            [pod("p", "c"), pod("q", memory="4620Mi"), pod("r", memory="1Mi")],
            [{"c": (["main"], {"memory": "2Gi"}, {"memory": ("1Gi", "500Mi")})}, {}, "Insufficient memory"],
        ),
        "two claims": (
            [provider("a", resources=each(cpu="2")), provider("b", resources=needs(perPod="1Gi"))],
            [
                claim("c", request(expression="device.capacity.size() == 0")),
                claim("d", request()),
            ],
            [pod("p", "c", "d")],
            [{**mapped(cpu="2"), "d": (["main"], {}, {"memory": ("1Gi", None)})}],
        ),
        "a mapped device is for one pod": (
            [provider(resources=each(cpu="1"))],
            [C],
            [pod("p", "c"), pod("q", "c")],
            [mapped(cpu="1"), NOT_SHARED],
        ),
        "a device with both is for one pod": (
            [provider(resources={"memory": {"mapping": {"deviceMultiplier": "1Gi"}, "overhead": BOTH}})],
            [C],
            [pod("p", "c", refers=False), pod("q", "c")],
            [{"c": ([], {"memory": "1Gi"}, {"memory": ("1Gi", "500Mi")})}, NOT_SHARED],
        ),
        "overhead counts for each pod that shares the claim": (
            [provider(resources=needs(perPod="4Gi"))],
            [C],
            [pod("p", "c"), pod("q", "c"), pod("r", "c")],
            [overhead("main", per_pod="4Gi"), overhead("main", per_pod="4Gi"), "Insufficient memory"],
        ),
        "pod level requests are enough": (
            [provider(resources=needs(perPod="1Gi", perContainer="1Gi"))],
            [C],
            [pod("p", "c", level={"cpu": "2", "memory": "3Gi"}, cpu="1", memory="1Gi")],
            [overhead("main", per_pod="1Gi", per_container="1Gi")],
        ),
        "pod level requests are too low": (
            [provider(resources=needs(perPod="1Gi", perContainer="1Gi"))],
            [C],
            [pod("p", "c", level={"cpu": "2", "memory": "2Gi"}, cpu="1", memory="1Gi")],
            [LOW.format("memory")],
        ),
        "pod level requests are too low for a mapping": (
            [provider(resources=each(cpu="300m"))],
            [C],
            [pod("p", "c", level={"cpu": "1"}, cpu="800m")],
            [LOW.format("cpu")],
        ),
        "a pod level limit is enough": (
            [provider(resources=needs(perContainer="512Mi"))],
            [C],
            [pod("p", "c", limits={"memory": "2Gi"}, containers=[container("c1", ["c"], limits={"memory": "1Gi"})])],
            [overhead("c1", per_container="512Mi")],
        ),
        "a pod level limit is too low": (
            [provider(resources=needs(perContainer="1Gi"))],
            [C],
            [pod("p", "c", limits={"memory": "2Gi"}, containers=[container("c1", ["c"], limits={"memory": "1.5Gi"})])],
            [LOW_LIMIT.format("memory", "c1")],
        ),
        "a limit of each container alone": (
            [provider(resources=needs(perContainer="512Mi"))],
            [C],
            [
                pod(
                    "p",
                    "c",
                    limits={"memory": "4Gi"},
                    containers=[container(name, ["c"], limits={"memory": "3Gi"}) for name in ("c1", "c2")],
                )
            ],
            [overhead("c1", "c2", per_container="512Mi")],
        ),
        "a pod level limit that no container has": (
            [provider(resources=needs(perContainer="1Gi"))],
            [C],
            [pod("p", "c", limits={"memory": "512Mi"})],
            [overhead("main", per_container="1Gi")],
        ),
        "a pod level limit of huge pages is too low": (
            [provider(resources=each(**{"hugepages-2Mi": "4Mi"}))],
            [C],
            [pod("p", "c", limits={"hugepages-2Mi": "2Mi"})],
            [LOW_PAGES],
        ),
    },
)
def test_what_claims_take_of_nodes(devices, claims, pods, expected):
    cluster = world(*devices, claims=claims, gates=ON)
    assert [taken(place(cluster, one)) for one in pods] == expected


@cases(
    "gates",
    {
        "without the gate": gates_of("1.37"),
        "in 1.36": gates_of("1.36").but("DRANodeAllocatableResources"),
    },
)
def test_elsewhere_the_form_has_no_effect(gates):
    cluster = world(provider(resources=each(cpu="8")), claims=[C], gates=gates)
    assert place(cluster, pod("p", "c", cpu="4")) == {}


def test_the_form_of_1_36_has_no_effect():
    mappings = {"cpu": {"allocationMultiplier": "8"}}
    cluster = world(device("a", nodeAllocatableResourceMappings=mappings), claims=[C], gates=ON)
    assert place(cluster, pod("p", "c", cpu="4")) == {}


def test_the_driver_tells_devices_with_the_same_pool_and_name_apart():
    other = resource_slice("0", provider(resources=each(cpu="1")), node="n1", driver="other.example.com")
    cluster = world(provider(resources=each(cpu="3")), claims=[C], gates=ON, extra=[other])
    assert taken(place(cluster, pod("p", "c"))) == mapped(cpu="3")


def test_rejections_are_explained():
    cluster = world(provider(resources=needs(perContainer="3Gi")), claims=[claim("c", request())], gates=ON)
    place(cluster, pod("q", memory="6Gi"))
    decision = cluster.decide(pod("p", "c"))
    plugin = next(one for one in cluster.profile.every() if one.name == "DynamicResources")
    details = plugin.explain(decision.cycle, pod("p", "c"), cluster.state.nodes.info(0))
    assert details.text == "with what its claims take of the node, it needs 3Gi memory; n1 has 2Gi of 8Gi free"
