"""DynamicResources: claims of PodGroups. Cases of upstream's dynamicresources_test.go and resourceclaim_test.go."""

import asyncio

import pytest
from tests.support.tables import cases

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, RESOURCE_CLAIM, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.framework.events import Hint
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Code
from bayplan.core.plugins.dynamic_resources.events import after_claim_change
from bayplan.core.versions import DEFAULT_GATES
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.documents import known
from bayplan.testing.in_memory import make_client, stored
from devices import Devices, allocated, claim, device_class, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: claims of PodGroups")

ON = DEFAULT_GATES.but("GenericWorkload", "DRAWorkloadResourceClaims")
BY_NAME = {"name": "r", "resourceClaimName": "c"}
BY_TEMPLATE = {"name": "r", "resourceClaimTemplateName": "t"}
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "crew", "uid": "uid-crew"}
OWNER = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "crew", "uid": "uid-crew"}
OF_GROUP = {"ownerReferences": [{**OWNER, "controller": True}]}
STATUSES = [{"name": "r", "resourceClaimName": "c"}]
NOT_THERE = "resourceclaim not available on the node"


def group(*references, statuses=()):
    metadata = {"name": "crew", "namespace": "default", "uid": "uid-crew"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": list(references)}
    return CustomObject(metadata=metadata, spec=spec, status={"resourceClaimStatuses": list(statuses)})


def member(name="p", reference=BY_NAME, of="crew", statuses=STATUSES, **fields):
    spec = {"resourceClaims": [reference], **({"schedulingGroup": {"podGroupName": of}} if of else {})}
    status = {"resourceClaimStatuses": list(statuses)} if "resourceClaimTemplateName" in reference else {}
    return make_pod(name, spec=spec, status=status, **fields)


def reserved(*consumers, node="n1"):
    return {**allocated("a", node=node, allocationTimestamp="2026-01-01T00:00:00Z"), "reservedFor": list(consumers)}


def world(made, pod_group, *pods, gates=ON):
    """A cluster with one claim and the group of its pods, on a server and in the plugin's view."""
    there = [device_class(), resource_slice("s", "a", "b", node="n1")]
    client = make_client(*there, made)
    cluster = Devices([make_node("n1"), make_node("n2"), *there, made], client, gates=gates)
    for document in stored(client.server, RESOURCE_CLAIM):
        _, key, each = known(document)
        cluster.state.objects[RESOURCE_CLAIM].set(key, each)
    if pod_group is not None:
        cluster.state.objects[custom_kind(POD_GROUPS)].set("default/crew", pod_group)
    for pod in pods:
        cluster.state.objects[POD].set(pod.key, pod)
    return cluster, client


async def users(client):
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    return [(each.apiGroup, each.resource, each.name, each.uid) for each in now.status.reservedFor or ()]


FOR_GROUP = [("scheduling.k8s.io", "podgroups", "crew", "uid-crew")]


@cases(
    "reference, of_group, status, gates, expected",
    {
        "allocated, by name": (BY_NAME, [BY_NAME], reserved(), ON, FOR_GROUP),
        "allocated, from a template": (BY_TEMPLATE, [BY_TEMPLATE], reserved(), ON, FOR_GROUP),
        "to allocate": (BY_NAME, [BY_NAME], None, ON, FOR_GROUP),
        "off": (BY_NAME, [BY_NAME], reserved(), DEFAULT_GATES, [(None, "pods", "p", "pod")]),
        "off, to allocate": (BY_NAME, [BY_NAME], None, DEFAULT_GATES, [(None, "pods", "p", "pod")]),
        "another name": (BY_NAME, [{**BY_NAME, "name": "s"}], None, ON, [(None, "pods", "p", "pod")]),
        "a template in the group": (BY_NAME, [BY_TEMPLATE], None, ON, [(None, "pods", "p", "pod")]),
        "no claims in the group": (BY_NAME, [], None, ON, [(None, "pods", "p", "pod")]),
        "reserved for the group": (BY_NAME, [BY_NAME], reserved(GROUP), ON, FOR_GROUP),
    },
)
async def test_claims_are_reserved_for_the_group(reference, of_group, status, gates, expected):
    made = claim("c", request(), status=status, **OF_GROUP)
    cluster, client = world(made, group(*of_group, statuses=STATUSES), gates=gates)
    pod = member(reference=reference)
    cluster.reserve(pod)
    assert await cluster.plugin.pre_bind(cluster.cycle, pod, "n1") is None
    assert await users(client) == [(*rest, pod.uid if uid == "pod" else uid) for *rest, uid in expected]
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    await settled(cluster)
    left = expected if expected == FOR_GROUP else []
    assert await users(client) == left


async def settled(cluster):
    """Run the started background tasks to completion."""
    while cluster.handle.started:
        _, work = cluster.handle.started.pop(0)
        await work()


async def test_members_reserve_the_claim_once():
    cluster, client = world(claim("c", request()), group(BY_NAME))
    gang, cycles = Gang("crew", (), 3), {}
    for name in ("p", "q", "r"):
        pod, cycle = member(name), CycleState()
        cycle.data[PLACED_WITH] = gang
        assert cluster.plugin.pre_filter(cycle, pod, cluster.state.nodes) is None
        cluster.cycle = cycle
        assert cluster.filter(pod) is None
        assert cluster.plugin.reserve(cycle, pod, "n1") is None
        cycles[name] = cycle
    bindings = (cluster.plugin.pre_bind(cycle, member(name), "n1") for name, cycle in cycles.items())
    assert await asyncio.gather(*bindings) == [None, None, None]
    assert await users(client) == FOR_GROUP
    assert not cluster.plugin._allocations._in_flight


@cases(
    "pod, pod_group, message",
    {
        "no group": (member(), None, 'podgroup.scheduling.k8s.io "crew" not found'),
        "an empty reference": (
            member(),
            group({"name": "r"}),
            "PodGroup default/crew claim r: none of the supported fields are set",
        ),
        "made for another group": (
            member(reference=BY_TEMPLATE, of="others"),
            group(BY_TEMPLATE),
            "ResourceClaim default/c was not created for Pod default/p (neither Pod nor PodGroup others is the owner)",
        ),
        "made for a group that the pod is not in": (
            member(reference=BY_TEMPLATE, of=""),
            group(BY_TEMPLATE),
            "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
        ),
    },
)
def test_why_a_pod_cannot_use_a_claim(pod, pod_group, message):
    cluster, _ = world(claim("c", request(), **OF_GROUP), pod_group)
    status = cluster.ask(pod)
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)


def test_without_the_gate_a_claim_of_the_group_is_not_for_its_pods():
    cluster, _ = world(claim("c", request(), **OF_GROUP), group(BY_TEMPLATE), gates=DEFAULT_GATES)
    message = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    assert cluster.ask(member(reference=BY_TEMPLATE)).message == message
    assert cluster.plugin.pre_enqueue(member(reference=BY_TEMPLATE)).message == message


# PostFilter

STILL = (Code.UNSCHEDULABLE, "still not schedulable")
UNRESERVED = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "ResourceClaim unreserved for PodGroup")
DEALLOCATED = (Code.UNSCHEDULABLE, "deallocation of ResourceClaim completed")


@cases(
    "consumers, others, gates, expected, left",
    {
        "unreserve": ([GROUP], [], ON, UNRESERVED, []),
        "off": ([GROUP], [], DEFAULT_GATES, STILL, FOR_GROUP),
        "not reserved": ([], [], ON, DEALLOCATED, []),
        "another pod has a node": ([GROUP], [member("q")], ON, STILL, FOR_GROUP),
    },
)
async def test_a_group_without_pods_on_nodes_returns_its_claims(consumers, others, gates, expected, left):
    made = claim("c", request(), status=reserved(*consumers), **OF_GROUP)
    cluster, client = world(made, group(BY_NAME), gates=gates)
    for other in others:
        cluster.state.objects[POD].set(other.key, other)
        cluster.state.assume(other, "n1")
    pod = member()
    assert cluster.ask(pod, "n2").message == NOT_THERE
    status = cluster.plugin.post_filter(cluster.cycle, pod, None, None).status
    assert (status.code, status.message) == expected
    await settled(cluster)
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert (await users(client) if now.status is not None else []) == left


@cases(
    "consumers, expected",
    {
        "its claim": ([GROUP], UNRESERVED),
        "a claim that nobody uses": ([], DEALLOCATED),
        "nothing": ([{"resource": "pods", "name": "x", "uid": "x"}], None),
    },
)
def test_a_whole_group_gives_back_for_its_first_rejected_pod(consumers, expected):
    """In place of PostFilter of its pods, since 1.37."""
    cluster, _ = world(claim("c", request(), status=reserved(*consumers), **OF_GROUP), group(BY_NAME))
    cluster.handle.client = None
    pod = member()
    assert cluster.ask(pod, "n2").message == NOT_THERE
    rejected = [(CycleState(), member("before-devices")), (cluster.cycle, pod)]
    status = cluster.plugin.gang_give_back(Gang("crew", (pod,), 1, whole=True), rejected)
    assert (status and (status.code, status.message)) == expected


def test_members_of_the_same_attempt_do_not_count_as_placed():
    made = claim("c", request(), status=reserved(GROUP), **OF_GROUP)
    cluster, _ = world(made, group(BY_NAME))
    cluster.handle.client = None
    first, pod = member("q"), member()
    cluster.state.assume(first, "n1")
    cluster.cycle = CycleState()
    cluster.cycle.data[PLACED_WITH] = Gang("crew", (first, pod), 2)
    assert cluster.plugin.pre_filter(cluster.cycle, pod, cluster.state.nodes) is None
    assert cluster.filter(pod, "n2").message == NOT_THERE
    assert cluster.plugin.post_filter(cluster.cycle, pod, None, None).status.message == UNRESERVED[1]
    assert cluster.state.objects[RESOURCE_CLAIM]["default/c"].status.reservedFor is None


@cases(
    "pod_group, message",
    {
        "not made": (group(BY_TEMPLATE), "PodGroup default/crew: ResourceClaim not created yet"),
        "missing": (group({"name": "r", "resourceClaimName": "gone"}), 'could not find ResourceClaim "default/gone"'),
    },
)
def test_claims_of_the_group_that_are_not_there(pod_group, message):
    cluster, _ = world(claim("c", request(), status=reserved(GROUP), **OF_GROUP), pod_group)
    pod = member()
    assert cluster.ask(pod, "n2").message == NOT_THERE
    status = cluster.plugin.post_filter(cluster.cycle, pod, None, None).status
    assert (status.code, status.message) == (Code.ERROR, message)


@cases("of_groups, expected", {"on": (True, Hint.QUEUE), "off": (False, Hint.SKIP)})
def test_a_change_of_the_groups_claim_requeues_its_pods(of_groups, expected):
    _, _, old = known(claim("c", request(), **OF_GROUP))
    _, _, new = known(claim("c", request(), status=reserved(GROUP), **OF_GROUP))
    pod = member(reference=BY_TEMPLATE)
    assert after_claim_change({"default/c": new}, pod, old, new, of_groups=of_groups) is expected
