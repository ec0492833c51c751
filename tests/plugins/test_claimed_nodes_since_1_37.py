"""DynamicResources: what allocated and shared claims take of nodes in 1.37, and what the status of pods says of it.

The cases are those of upstream's nodeallocatabledynamicresources_test.go.
"""

import pytest
from claimed_nodes import BOTH, NOT_SHARED, container, each, needs, pod, provider, taken
from tests.support.tables import cases

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.core.api.objects import encode
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState
from bayplan.core.versions import gates_of
from bayplan.testing import make_node
from bayplan.testing.in_memory import InMemoryClient, load
from bayplan_devcluster.apiserver import ApiServer
from devices import DRIVER, Devices, allocated, claim, device_class, request, resource_slice, settled

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

ON = gates_of("1.37").but("DRANodeAllocatableResources")
C = claim("c", request())


@cases(
    "resources, status, problem",
    {
        "for nobody": (each(cpu="1"), {}, None),
        "for the pod": (each(cpu="1"), {"reserved": ["uid-p"]}, None),
        "for another pod": (each(cpu="1"), {"reserved": ["uid-q"]}, NOT_SHARED),
        "for another pod, with overhead alone": (needs(perPod="1Gi"), {"reserved": ["uid-q"]}, None),
        "for another pod, on another node": (
            each(cpu="1"),
            {"reserved": ["uid-q"], "node": "n2"},
            "resourceclaim not available on the node",
        ),
        "too much": (each(cpu="5"), {}, "Insufficient cpu"),
        "too much overhead": (needs(perPod="9Gi"), {"reserved": ["uid-q"]}, "Insufficient memory"),
        "another device of a claim is gone": (
            each(cpu="1"),
            {"more": ["gone"]},
            f"claim default/c, device gone, driver {DRIVER}: device gone not found in pool n1 for driver {DRIVER}",
        ),
        "the device is gone": (each(cpu="5"), {"instead": "gone"}, None),
    },
)
def test_allocated_claims(resources, status, problem):
    names = [status.pop("instead", "a"), *status.pop("more", ())]
    made = claim("c", request(), status=allocated(*names, **status))
    objects = [resource_slice("s", provider(resources=resources), node="n1"), device_class(), made]
    cluster = Devices([make_node("n1", cpu="4", memory="8Gi"), *objects], gates=ON)
    answer = cluster.ask(pod("p", "c"))
    assert (answer.message if answer is not None else None) == problem


@cases(
    "place, expected",
    {
        "all nodes": ({"allNodes": True}, ["n1", "n2", "n3"]),
        "nodes with a label": (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
            ["n1", "n2"],
        ),
        "one node": ({"nodeName": "n2"}, ["n2"]),
        "by device": ({"perDeviceNodeSelection": True}, ["n3"]),
    },
)
def test_an_allocated_device_counts_where_it_can_be_used(place, expected):
    resources = needs("cpu", perPod="5")
    own = {"nodeName": "n3"} if "perDeviceNodeSelection" in place else {}
    devices = resource_slice("s", provider(resources=resources, **own), pool="n1", **place)
    nodes = [make_node(name, cpu="4", labels={"zone": zone}) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
    cluster = Devices([*nodes, devices, device_class(), claim("c", request(), status=allocated("a"))], gates=ON)
    assert [name for name in ("n1", "n2", "n3") if cluster.ask(pod("p", "c"), name) is not None] == expected


@cases(
    "resources, expected",
    {
        "a mapped device": (each(cpu="1"), NOT_SHARED),
        "overhead": (needs(perPod="1Gi"), None),
        "too much overhead": (needs(perPod="5Gi"), "Insufficient memory"),
    },
)
def test_a_claim_that_another_member_of_the_gang_has_just_got(resources, expected):
    devices = resource_slice("s", provider(resources=resources), node="n1")
    cluster = Devices([make_node("n1", cpu="4", memory="8Gi"), devices, device_class(), C], gates=ON)
    gang = Gang("default/g", (), 2)

    def ask(member):
        cluster.cycle = CycleState()
        cluster.cycle.data[PLACED_WITH] = gang
        assert cluster.plugin.pre_filter(cluster.cycle, member, cluster.state.nodes) is None
        return cluster.filter(member)

    first = pod("p", "c")
    assert ask(first) is None
    assumed = assumed_as(cluster.cycle, first, "n1")
    assert cluster.plugin.reserve(cluster.cycle, assumed, "n1") is None
    cluster.state.assume(assumed, "n1")
    answer = ask(pod("q", "c"))
    assert (answer.message if answer is not None else None) == expected


@cases("name, expected", {"that of the pod": ("crew", None), "another one": ("others", NOT_SHARED)})
def test_a_mapped_device_that_a_pod_group_has(name, expected):
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": f"uid-{name}"}
    made = claim("c", request(), status={**allocated("a"), "reservedFor": [user]})
    devices = resource_slice("s", provider(resources=each(cpu="1")), node="n1")
    gates = ON.but("DRAWorkloadResourceClaims", "GenericWorkload")
    cluster = Devices([make_node("n1"), devices, device_class(), made], gates=gates)
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    crew = CustomObject(metadata={"name": "crew", "namespace": "default", "uid": "uid-crew"}, spec=policy)
    cluster.state.objects[custom_kind(POD_GROUPS)].set("default/crew", crew)
    answer = cluster.ask(pod("p", "c", group="crew"))
    assert (answer.message if answer is not None else None) == expected


async def test_an_extended_resource_takes_what_its_device_takes():
    devices = resource_slice("s", provider(resources=needs(**BOTH)), node="n1")
    gpu = {"example.com/gpu": "1"}
    made = pod("p", containers=[container(requested=gpu, limits=gpu)])
    _, client, assumed = await bound(made, devices, device_class(extendedResourceName="example.com/gpu"))
    stored = await client.get(POD, "p", "default")
    [found] = stored.status.nodeAllocatableResourceClaimStatuses
    assert taken({"c": found}) == {"c": ([], {}, {"memory": ("1Gi", "500Mi")})}
    assert found.resourceClaimName == stored.status.extendedResourceClaimStatus.resourceClaimName
    assert assumed.requested["memory"] == 2**30


async def bound(pod, *objects):
    """Assume and bind a pod. Returns the cluster, its client and the assumed pod."""
    client = InMemoryClient(ApiServer(address=None, alpha=True, gates=ON, version="1.37"))
    node = make_node("n1", cpu="4", memory="8Gi")
    node.status.declaredFeatures = ["DRANodeAllocatableResources"]
    load(client.server, node, *objects, pod)
    cluster = Devices([node, *objects], client, gates=ON)
    assert cluster.ask(pod) is None
    assumed = assumed_as(cluster.cycle, pod, "n1")
    assert cluster.plugin.reserve(cluster.cycle, assumed, "n1") is None
    assert await cluster.plugin.pre_bind(cluster.cycle, assumed, "n1") is None
    return cluster, client, assumed


async def test_the_status_is_written_before_the_binding_and_cleared_after_a_failure():
    resources = {"memory": {"mapping": {"deviceMultiplier": "1Gi"}, "overhead": BOTH}}
    devices = resource_slice("s", provider(resources=resources), node="n1")
    made = pod("p", "c", cpu="1")
    cluster, client, assumed = await bound(made, devices, device_class(), claim("c", request()))
    stored = await client.get(POD, "p", "default")
    [found] = stored.status.nodeAllocatableResourceClaimStatuses
    expected = {"c": (["main"], {"memory": "1Gi"}, {"memory": ("1Gi", "500Mi")})}
    assert taken({found.resourceClaimName: found}) == expected
    assert PodInfo.from_raw(encode(stored)).requested == assumed.requested
    assert assumed.requested == {"cpu": 1000, "memory": 2548 * 2**20}
    cluster.plugin.unreserve(cluster.cycle, assumed, "n1")
    await settled(cluster)
    stored = await client.get(POD, "p", "default")
    assert not stored.status.nodeAllocatableResourceClaimStatuses
